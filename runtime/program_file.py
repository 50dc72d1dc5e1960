"""Compiled programs as bytes: a description in JSON, then machine code and constants as they are.

What is read back is checked as a whole (SHA-256) and must come from this version of xjit. Reading runs nothing, but
calling a program runs its machine code: read only what you would import.
"""

from __future__ import annotations

import dataclasses
import json
import struct
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.runtime.program import ArraySignature, CpuProgram, KernelInfo, hlo_type_name
from xjit.runtime.sealed_bytes import seal, unseal
from xjit.thunks.result_alias import ResultAlias
from xjit.version import __version__

_MAGIC: Final = b"XJITPROGRAM\0"
_LENGTH: Final = struct.Struct("<Q")
_DTYPES: Final = {hlo_type_name(kind.dtype): kind.dtype for kind in PrimitiveType if kind.is_array}

_PLAIN: Final = (
    "name", "entry", "arena_size", "external_symbols", "estimated_us", "always_releases_gil", "instructions",
    "profile_counters", "cpu", "features", "parameter_tree", "result_tree",
    "num_replicas", "num_partitions",
)  # fmt: skip
"""Fields that JSON holds as they are, tuples as lists."""


def program_to_bytes(program: CpuProgram) -> bytes:
    """Returns a program as bytes that `program_from_bytes` reads."""
    constants = [np.ascontiguousarray(constant).tobytes() for constant in program.constants]
    description: dict[str, Any] = {name: getattr(program, name) for name in _PLAIN}
    description["version"] = __version__
    description["objects"] = [len(code) for code in program.object_code]
    description["constants"] = [len(constant) for constant in constants]
    description["parameters"] = [_write_signature(signature) for signature in program.parameters]
    description["results"] = [_write_signature(signature) for signature in program.results]
    description["kernels"] = [list(dataclasses.astuple(kernel)) for kernel in program.kernels]
    description["aliases"] = [[a.parameter, a.result, a.byte_size, a.must] for a in program.aliases]
    text = json.dumps(description).encode()
    body = b"".join((_LENGTH.pack(len(text)), text, *program.object_code, *constants))
    return seal(_MAGIC, body)


def program_from_bytes(data: bytes) -> CpuProgram:
    """Reads a program. Errors: InvalidArgument for other bytes, damaged ones, and those of another version."""
    body = unseal(_MAGIC, data)
    if body is None:
        raise InvalidArgument("these bytes are not a compiled program, or they are damaged")
    (length,) = _LENGTH.unpack_from(body)
    description: dict[str, Any] = json.loads(body[_LENGTH.size : _LENGTH.size + length])
    if description["version"] != __version__:
        raise InvalidArgument(f"a program compiled by xjit {description['version']}; this is {__version__}")
    parts = _cut(body[_LENGTH.size + length :], (*description["objects"], *description["constants"]))
    num_objects = len(description["objects"])
    plain = {name: _tuples(description[name]) for name in _PLAIN}
    return CpuProgram(
        **plain,
        object_code=tuple(parts[:num_objects]),
        constants=tuple(np.frombuffer(part, np.uint8) for part in parts[num_objects:]),
        parameters=tuple(map(_read_signature, description["parameters"])),
        results=tuple(map(_read_signature, description["results"])),
        kernels=tuple(KernelInfo(*row) for row in description["kernels"]),
        aliases=tuple(ResultAlias(*row) for row in description["aliases"]),
    )


def _write_signature(signature: ArraySignature) -> list[Any]:
    kind = hlo_type_name(signature.dtype)
    return [kind, signature.shape, signature.minor_to_major, signature.byte_size, signature.name, signature.tiles]


def _read_signature(row: Sequence[Any]) -> ArraySignature:
    kind, shape, minor_to_major, byte_size, name, tiles = map(_tuples, row)
    return ArraySignature(_DTYPES[kind], shape, minor_to_major, byte_size, name, tiles)


def _tuples(value: Any) -> Any:
    """Lists of JSON as tuples, at any depth that a program's trees have."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _cut(data: bytes, lengths: Sequence[int]) -> list[bytes]:
    parts: list[bytes] = []
    position = 0
    for length in lengths:
        parts.append(data[position : position + length])
        position += length
    return parts
