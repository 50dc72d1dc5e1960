"""Elements that rows of scores are joined with are taken apart from them again: attention sinks.

A row of scores may have further columns, whose exponentials are summed, but not multiplied with any values. What is
computed from such a concatenation element by element is computed of each part, sums and maxima are those of the parts,
and slices of the result, and of its gradient, are one of the parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from xjit.hlo import HloComputation, HloInstruction, Trait
from xjit.hlo import attributes as at
from xjit.hlo.edit.replacing import replace
from xjit.hlo.ir.post_order import post_order
from xjit.ops import build
from xjit.passes.reductions.reduce_parts import may_apply_init_twice

MAX_JOINED = 100
"""Instructions that may be computed from one concatenation."""
JOINING = frozenset(("concatenate", "pad"))
"""Opcodes of what is taken apart: a column of one number for all rows is padding."""

_Cut = tuple[HloInstruction, int]
"""An instruction, and the dimension along which its parts lie."""


def split_columns(computation: HloComputation, whole: HloInstruction) -> bool:
    """Takes a concatenation apart; True if all that is computed from it can be, and among that is an exponential."""
    if not whole.shape.is_static_array or whole.control_predecessors or whole.control_successors:
        return False
    parts = _parts_of_pad(whole) if whole.opcode == "pad" else _parts_of_concatenate(whole)
    if parts is None:
        return False
    joined = _Joined(whole, *parts)
    if not joined.find() or not any(i.opcode == "exponential" for i in joined.dimensions):
        return False
    _Splitter(computation, joined).run()
    return True


def _parts_of_concatenate(concatenate: HloInstruction) -> tuple[int, list[int]]:
    """Returns the dimension along which parts lie, and their sizes."""
    dimension = concatenate.attributes_as(at.ConcatenateAttributes).dimension
    return dimension, [operand.shape.dimensions[dimension] for operand in concatenate.operands]


def _parts_of_pad(pad: HloInstruction) -> tuple[int, list[int]] | None:
    """Returns the same for what is padded along one dimension; None for other paddings."""
    padding = pad.attributes_as(at.PadAttributes).padding
    padded = [d for d, p in enumerate(padding) if p != at.PaddingDimension()]
    if len(padded) != 1:
        return None
    (dimension,) = padded
    low, high = padding[dimension].edge_padding_low, padding[dimension].edge_padding_high
    if padding[dimension].interior_padding or low < 0 or high < 0:
        return None
    return dimension, [n for n in (low, pad.operand(0).shape.dimensions[dimension], high) if n]


class _Joined:
    """What has the same parts: for each such instruction the dimension along which they lie.

    `ends` are the reductions and slices that read it. Found from a concatenation on, through its users; arrays that are
    padded to the same sizes join in.
    """

    def __init__(self, whole: HloInstruction, dimension: int, sizes: Sequence[int]) -> None:
        ends = list(accumulate(sizes))
        self.bounds = list(zip([0, *ends], ends))
        """Where each part begins and ends."""
        self.dimensions: dict[HloInstruction, int] = {whole: dimension}
        self.ends: dict[HloInstruction, int] = {}

    def find(self) -> bool:
        """Looks at all users; False if one can do nothing with parts."""
        stack = list(self.dimensions)
        while stack:
            instruction = stack.pop()
            dimension = self.dimensions[instruction]
            if instruction.is_root() or len(self.dimensions) + len(self.ends) > MAX_JOINED:
                return False
            for user in instruction.users:
                if user in self.dimensions or user in self.ends:
                    if self.dimensions.get(user, dimension) != dimension:
                        return False
                elif user.control_predecessors or user.control_successors:
                    return False
                elif self._is_end(user, instruction, dimension):
                    self.ends[user] = dimension
                else:
                    following = self._dimension_behind(user, dimension)
                    if following is None:
                        return False
                    self.dimensions[user] = following
                    stack.append(user)
        return True

    def _is_end(self, user: HloInstruction, operand: HloInstruction, dimension: int) -> bool:
        if user.opcode == "slice":
            ranges = user.attributes_as(at.SliceAttributes).slice
            own = ranges[dimension]
            others = [(r, n) for d, (r, n) in enumerate(zip(ranges, operand.shape.dimensions)) if d != dimension]
            is_part = (own.start, own.limit) in self.bounds and own.stride == 1
            return is_part and all((r.start, r.limit, r.stride) == (0, n, 1) for r, n in others)
        if user.opcode != "reduce" or user.operand_count != 2 or user.operand(0) is not operand:
            return False
        return may_apply_init_twice(user) and dimension in user.attributes_as(at.DimensionsAttributes).dimensions

    def _dimension_behind(self, user: HloInstruction, dimension: int) -> int | None:
        """Returns along which dimension a user has parts; None if it has none."""
        if not user.shape.is_static_array:
            return None
        if user.op.has(Trait.ELEMENTWISE):
            return dimension
        if user.opcode == "transpose":
            return user.attributes_as(at.DimensionsAttributes).dimensions.index(dimension)
        return None


class _Splitter:
    """Makes the parts of what is joined, and of what that is computed from, element by element."""

    def __init__(self, computation: HloComputation, joined: _Joined) -> None:
        self.computation = computation
        self.joined = joined
        self.parts: dict[_Cut, list[HloInstruction]] = {}

    def run(self) -> None:
        """Replaces all ends by what is made of parts."""
        wanted = {end: (end.operand(0), dimension) for end, dimension in self.joined.ends.items()}
        for cut in post_order(wanted.values(), self._parted_operands):
            self.parts[cut] = [self._part(cut, number) for number in range(len(self.joined.bounds))]
        for end, cut in wanted.items():
            parts = self.parts[cut]
            if end.opcode == "slice":
                own = end.attributes_as(at.SliceAttributes).slice[cut[1]]
                replace(end, parts[self.joined.bounds.index((own.start, own.limit))])
            else:
                replace(end, self._reduced(end, parts))

    def _parted_operands(self, cut: _Cut) -> list[_Cut]:
        """The operands whose parts those of an instruction are computed from; none if they are anything else."""
        instruction, dimension = cut
        if instruction.opcode == "transpose" and instruction in self.joined.dimensions:
            dimension = instruction.attributes_as(at.DimensionsAttributes).dimensions[dimension]
        elif not instruction.op.has(Trait.ELEMENTWISE):
            return []
        return [(operand, dimension) for operand in instruction.operands if not operand.shape.is_scalar]

    def _add(self, instruction: HloInstruction) -> HloInstruction:
        return self.computation.add_instruction(instruction)

    def _reduced(self, reduce: HloInstruction, parts: Sequence[HloInstruction]) -> HloInstruction:
        opcode = reduce.to_apply.root_instruction.opcode
        value: HloInstruction | None = None
        for part in parts:
            attributes = reduce.attributes_as(at.DimensionsAttributes)
            if all(part.shape.dimensions[d] == 1 for d in attributes.dimensions):
                one = self._add(build.reshape(part, reduce.shape.dimensions))
            else:
                one = self._add(reduce.clone_with_new_operands(reduce.shape, [part, reduce.operand(1)]))
            value = one if value is None else self._add(build.binary(opcode, value, one))
        assert value is not None
        return value

    def _part(self, cut: _Cut, number: int) -> HloInstruction:
        """Returns a part of an instruction along a dimension; those of what has none are slices."""
        instruction, dimension = cut
        start, limit = self.joined.bounds[number]
        sizes = list(instruction.shape.dimensions)
        sizes[dimension] = limit - start
        shape = instruction.shape.with_dimensions(sizes)
        if instruction.opcode == "broadcast":
            dimensions = instruction.attributes_as(at.DimensionsAttributes).dimensions
            if dimension not in dimensions:
                return self._add(build.broadcast(instruction.operand(0), shape, dimensions))
        if instruction.opcode == "concatenate" and instruction in self.joined.dimensions:
            return instruction.operand(number)
        if instruction.opcode == "pad" and (padded := self._part_of_pad(instruction, dimension, number)):
            return padded
        parted = dict(self._parted_operands(cut))
        if not parted:
            starts, limits = [0] * len(sizes), list(instruction.shape.dimensions)
            starts[dimension], limits[dimension] = start, limit
            return self._add(build.slice_(instruction, starts, limits))
        operands = [self.parts[o, parted[o]][number] if o in parted else o for o in instruction.operands]
        return self._add(instruction.clone_with_new_operands(shape, operands))

    def _part_of_pad(self, pad: HloInstruction, dimension: int, number: int) -> HloInstruction | None:
        """Returns a part of an array that is one of the parts, padded to all of them; None if it is something else."""
        operand, value = pad.operands
        padding = pad.attributes_as(at.PadAttributes).padding
        others = [p for d, p in enumerate(padding) if d != dimension]
        if any(p != at.PaddingDimension() for p in others) or padding[dimension].interior_padding:
            return None
        first = padding[dimension].edge_padding_low
        own = first, first + operand.shape.dimensions[dimension]
        if own not in self.joined.bounds:
            return None
        start, limit = self.joined.bounds[number]
        if own == (start, limit):
            return operand
        sizes = list(pad.shape.dimensions)
        sizes[dimension] = limit - start
        return self._add(build.broadcast_scalar(value, pad.shape.with_dimensions(sizes)))
