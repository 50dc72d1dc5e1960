"""Fingerprints: hashes of all that a pass may change, names and order included, for the check of its answer."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from xjit.hlo.compare.hashing import stable_text
from xjit.hlo.compare.structural_key import content_key

if TYPE_CHECKING:
    from xjit.hlo.ir.instruction import HloInstruction
    from xjit.hlo.ir.module import HloModule


def module_fingerprint(module: HloModule) -> bytes:
    """Returns a hash of names, order of instructions, their content, edges, origins, the schedule, the entry layout."""
    digest = hashlib.blake2b(digest_size=16)
    for computation in module.computations():
        digest.update(f"computation {computation.name} {computation.root_instruction.name}\n".encode())
        for instruction in computation.instructions:
            digest.update(_row(instruction).encode("utf-8", "surrogateescape"))
        if module.has_schedule() and module.schedule.is_scheduled(computation):
            digest.update(" ".join(i.name for i in module.schedule.sequence(computation)).encode())
    layout = module.entry_computation_layout
    digest.update(f"{module.entry_computation.name} {layout.parameter_shapes} {layout.result_shape}".encode())
    return digest.digest()


def _row(instruction: HloInstruction) -> str:
    operands = " ".join(o.name for o in instruction.operands)
    before = " ".join(p.name for p in instruction.control_predecessors)
    called = " ".join(c.name for c in instruction.called_computations)
    content = stable_text(content_key(instruction))
    return f"{instruction.name} {instruction.shape} {content} | {operands} | {before} | {called} {instruction.origin}\n"
