"""`load` and `load_module`: a program from a file in any format, or from what a program already is."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from xjit.frontends.formats import Format, format_of, format_of_text, unwrap_proto
from xjit.frontends.jax_functions import from_jax
from xjit.frontends.optional import import_optional
from xjit.frontends.stablehlo import from_stablehlo
from xjit.hlo.diagnostics import FailedPrecondition, HloError, InvalidArgument, Unsupported
from xjit.hlo.ir.module import HloModule
from xjit.text.parser import parse_hlo
from xjit.text.proto import create_from_proto

ModuleLike = HloModule | str | bytes | os.PathLike[str]


def load(path: str | os.PathLike[str]) -> HloModule:
    """Returns the module of a file, whose content says what it is; `-` is standard input.

    Formats: HLO text; a serialized HloModuleProto, HloProto or HloSnapshot; StableHLO as text, bytecode or portable
    artifact; what `jax.export` serializes. Errors: InvalidArgument if the file cannot be read; HloParseError with the
    place; Unsupported; FailedPrecondition where jax is needed and not installed.
    """
    if not isinstance(path, str | os.PathLike):
        raise InvalidArgument(f"expected a path, found {type(path).__name__}")
    name = os.fspath(path)
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(path).read_bytes()
    except (OSError, ValueError) as error:  # a ValueError: the name is no path
        raise InvalidArgument(f"cannot read HLO from {name!r}: {error}") from error
    return load_bytes(data, "<stdin>" if name == "-" else name)


def load_module(source: ModuleLike) -> HloModule:
    """Returns a module: itself, of text or bytes in one of the formats of `load`, or of a file.

    A string with a newline or a brace, or an empty one, is text; any other string is a path. Errors: as of `load`.
    """
    if isinstance(source, HloModule):
        return source
    if isinstance(source, bytes | bytearray | memoryview):
        return load_bytes(bytes(source), "<bytes>")
    if isinstance(source, str) and ("\n" in source or "{" in source or not source.strip()):
        is_stablehlo = format_of_text(source) is Format.STABLEHLO_TEXT
        return from_stablehlo(source) if is_stablehlo else parse_hlo(source)
    if not isinstance(source, str | os.PathLike):
        raise InvalidArgument(f"expected a module, HLO text or a path; found {type(source).__name__}")
    return load(source)


def load_bytes(data: bytes, name: str) -> HloModule:
    """Returns the module of a file's bytes; `name` is what errors call it."""
    return _READERS[format_of(data)](data, name)


def _read_text(data: bytes, name: str) -> HloModule:
    try:
        text = data.decode("utf-8-sig")
    except ValueError as error:
        raise InvalidArgument(f"cannot read HLO from {name!r}: {error}") from error
    return parse_hlo(text, file=name)


def _read_proto(data: bytes, name: str) -> HloModule:
    del name  # the proto's own name is in its errors
    return create_from_proto(unwrap_proto(data))


def _read_jax_export(data: bytes, name: str) -> HloModule:
    """Traces the exported function once more, which selects the platform and keeps arguments that it does not use."""
    export: Any = import_optional("jax.export", "jax", "to read a file of jax.export")
    jax: Any = import_optional("jax", "jax", "to read a file of jax.export")
    try:
        exported = export.deserialize(bytearray(data))
        args, kwargs = jax.tree.unflatten(exported.in_tree, exported.in_avals)
    except ImportError as error:  # jax reads its files with the package flatbuffers
        message = "to read a file of jax.export, install the extra: pip install 'xjit[jax]'"
        raise FailedPrecondition(f"{message} ({error})") from error
    except Exception as error:
        raise InvalidArgument(f"{name!r} is not a file of jax.export that this jax reads: {error}") from error
    symbolic = sorted({str(d) for aval in exported.in_avals for d in aval.shape if not isinstance(d, int)})
    if symbolic:
        raise Unsupported(
            f"{name!r} was exported for symbolic sizes ({', '.join(symbolic)}): give them with "
            "xjit.from_jax(jax.export.deserialize(data), *example_arguments)"
        )
    try:
        return from_jax(exported, *args, **kwargs)
    except HloError:
        raise
    except ValueError as error:
        raise Unsupported(f"{name!r}: {error}") from error


_READERS: dict[Format, Callable[[bytes, str], HloModule]] = {
    Format.HLO_TEXT: _read_text,
    Format.HLO_PROTO: _read_proto,
    Format.STABLEHLO_TEXT: from_stablehlo,
    Format.STABLEHLO_BYTECODE: from_stablehlo,
    Format.JAX_EXPORT: _read_jax_export,
}
