"""Content hashes of computations and modules: independent of names, ids, metadata and the order of instructions.

An instruction's digest covers its operands' digests, a computation's digest those of all its instructions and of what
they call, so equal graphs have equal digests in every process. Layouts count; an absent one is row-major.
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import TYPE_CHECKING, Any

from xjit.hlo.compare.structural_key import content_key
from xjit.hlo.types.literal import Literal
from xjit.hlo.types.shape import Shape

if TYPE_CHECKING:
    from xjit.hlo.ir.computation import HloComputation
    from xjit.hlo.ir.instruction import HloInstruction
    from xjit.hlo.ir.module import HloModule

Digests = dict["HloComputation", bytes]


def module_hash(module: HloModule) -> int:
    """Returns a 64-bit hash of the graph (not of the config): equal for modules of pairwise identical computations."""
    digests = computation_digests(module)
    entry = digests[module.entry_computation] if module.has_entry_computation() else b""
    return int.from_bytes(_digest(entry, *sorted(digests.values()))[:8], "little")


def computation_digests(module: HloModule) -> Digests:
    """Returns the content digest of every computation of a module."""
    digests: Digests = {}
    for computation in module.make_computation_post_order():
        digests[computation] = _computation_digest(computation, digests)
    return digests


def _computation_digest(computation: HloComputation, called: Digests) -> bytes:
    digests: dict[HloInstruction, bytes] = {}
    for instruction in computation.make_instruction_post_order():
        operands = [digests[o] for o in instruction.operands]
        callees = [called[c] for c in instruction.called_computations]
        digests[instruction] = _digest(_content(instruction), *operands, b"|", *callees)
    edges = [
        digests[before] + digests[after] for before in computation.instructions for after in before.control_successors
    ]
    root = digests[computation.root_instruction]
    thread = computation.execution_thread.encode()
    return _digest(root, thread, *sorted(digests.values()), b"|", *sorted(edges))


def _content(instruction: HloInstruction) -> bytes:
    return stable_text(content_key(instruction)).encode("utf-8", "surrogateescape")


def stable_text(value: Any) -> str:
    """Returns a text of an attribute value that is the same in every process and tells different values apart."""
    if isinstance(value, Literal):
        return f"literal {value.digest().hex()}"
    if isinstance(value, Shape):
        return str(value)
    if isinstance(value, tuple):
        return f"({','.join(map(stable_text, value))})"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = (f.name for f in dataclasses.fields(value))
        return f"{type(value).__name__}({','.join(f'{name}={stable_text(getattr(value, name))}' for name in names)})"
    return repr(value)


def _digest(*parts: bytes) -> bytes:
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state.digest()
