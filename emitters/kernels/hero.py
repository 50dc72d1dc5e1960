"""The hero of a kernel: the instruction that decides how the work is partitioned, and so which emitter it gets.

What surrounds a hero is cheap beside it: the prologue feeds it, the epilogue is computed from it element by element.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xjit.hlo.attributes.opcodes import Trait
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.post_order import extend_post_order

DEMANDING = (
    "convolution",
    "dot",
    "custom-call",
    "all-gather",
    "all-to-all",
    "collective-broadcast",
    "collective-permute",
    "ragged-all-to-all",
    "partition-id",
    "replica-id",
    "triangular-solve",
    "cholesky",
    "fft",
    "sort",
    "topk",
    "scatter",
    "select-and-scatter",
    "reduce-window",
    "rng-bit-generator",
    "rng-get-and-update-state",
    "reduce",
    "dynamic-update-slice",
    "transpose",
)
"""Opcodes that want loops of their own, the most demanding first."""

_RANK = {opcode: len(DEMANDING) - i for i, opcode in enumerate(DEMANDING)}


def find_hero(roots: Sequence[HloInstruction], leaves: Collection[HloInstruction]) -> HloInstruction:
    """Returns the hero of the graph between leaves and roots.

    Each root offers the demanding instructions that it is computed from element by element (through elementwise
    instructions and bitcasts of as many elements), or itself. The most demanding offer wins; of equals the one that
    reads most, then that of the first root.
    """
    offers = [offer for root in roots for offer in (_offers(root, leaves) if _may_offer(root) else [root])]
    return max(offers, key=_demand) if len(offers) > 1 else offers[0]


def prologue_of(hero: HloInstruction, leaves: Collection[HloInstruction]) -> list[HloInstruction]:
    """Returns what the hero is computed from inside the kernel, operands first, without leaves."""
    order = list[HloInstruction]()
    extend_post_order(order, set(leaves), hero, lambda i: () if i in leaves else i.operands)
    return [i for i in order if i is not hero]


def _may_offer(root: HloInstruction) -> bool:
    """Whether there may be a demanding instruction: most fused computations have none, and need no walk."""
    body = root.parent
    if body is None or not body.is_fusion_computation():
        return True
    return not _RANK.keys().isdisjoint([i.opcode for i in body.instructions])


def _offers(root: HloInstruction, leaves: Collection[HloInstruction]) -> list[HloInstruction]:
    found: list[HloInstruction] = []
    stack, seen = [root], {root}
    while stack:
        instruction = stack.pop()
        if instruction.opcode in _RANK and instruction not in leaves:
            found.append(instruction)
        elif instruction not in leaves and _is_looked_through(instruction):
            operands = [o for o in reversed(instruction.operands) if o not in seen and _same_size(o, instruction)]
            seen.update(operands)
            stack += operands
    return found or [root]


def _is_looked_through(instruction: HloInstruction) -> bool:
    return instruction.op.has(Trait.ELEMENTWISE) or instruction.opcode in ("bitcast", "reshape")


def _same_size(operand: HloInstruction, user: HloInstruction) -> bool:
    return operand.shape.is_array and user.shape.is_array and operand.shape.num_elements == user.shape.num_elements


def _demand(instruction: HloInstruction) -> tuple[int, int]:
    reads = sum(leaf.byte_size for o in instruction.operands for _, leaf in o.shape.leaves() if leaf.is_array)
    return _RANK.get(instruction.opcode, 0), reads
