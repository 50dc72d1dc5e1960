"""Of collective permutes that send parts of one array, only the one with the largest part is left."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, HloModule
from xjit.hlo.attributes import CollectivePermuteAttributes, SliceAttributes
from xjit.hlo.edit.replacing import replace
from xjit.ops import build
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations

Part = tuple[tuple[int, int], ...]
"""Per dimension the first index, and the one behind the last."""


@dataclass
class CollectivePermuteCSE(HloModulePass):
    """Replaces a collective permute of a part by a slice of another one that sends a larger part the same way.

    Parts are an array or slices of it without strides. Both must have the same channel and the same pairs.
    """

    name = "collective-permute-cse"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """True if a collective permute went."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            same_way: dict[Hashable, list[HloInstruction]] = defaultdict(list)
            for instruction in computation.make_instruction_post_order():
                if _may_share(instruction):
                    same_way[_key(instruction)].append(instruction)
            for permutes in same_way.values():
                changed |= _share(permutes)
        return changed


def _may_share(instruction: HloInstruction) -> bool:
    if instruction.opcode != "collective-permute" or instruction.operand_count != 1:
        return False
    return instruction.shape.is_static_array and not has_control_dependencies(instruction)


def _part(permute: HloInstruction) -> tuple[HloInstruction, Part]:
    """The array that a collective permute sends a part of, and the part."""
    operand = permute.operand(0)
    if operand.opcode == "slice":
        slices = operand.attributes_as(SliceAttributes).slice
        if all(d.stride == 1 for d in slices):
            return operand.operand(0), tuple((d.start, d.limit) for d in slices)
    return operand, tuple((0, n) for n in operand.shape.dimensions)


def _key(permute: HloInstruction) -> Hashable:
    attributes = permute.attributes_as(CollectivePermuteAttributes)
    return _part(permute)[0], attributes, permute.shape.layout


def _share(permutes: list[HloInstruction]) -> bool:
    """Slices what one collective permute received for those whose parts lie in it, if it does not depend on them.

    All of them read the same array, so that neither reads the other.
    """
    changed = False
    by_size = sorted(permutes, key=lambda p: -p.shape.num_elements)
    for position, large in enumerate(by_size):
        if large.parent is None:
            continue
        for small in by_size[position + 1 :]:
            if small.parent is not None and (place := _inside(_part(small)[1], _part(large)[1])) is not None:
                new = large if small.shape == large.shape else _slice(large, place, small)
                replace(small, new)
                changed = True
    return changed


def _inside(small: Part, large: Part) -> Part | None:
    """Where a part lies in a larger one; None if it does not."""
    if any(b < e or f < c for (b, c), (e, f) in zip(small, large, strict=True)):
        return None
    return tuple((b - e, c - e) for (b, c), (e, _) in zip(small, large, strict=True))


def _slice(large: HloInstruction, place: Part, small: HloInstruction) -> HloInstruction:
    computation = large.parent
    assert computation is not None
    starts, limits = [b for b, _ in place], [e for _, e in place]
    new = build.slice_(large, starts, limits)
    new.shape = small.shape
    return computation.add_instruction(new)
