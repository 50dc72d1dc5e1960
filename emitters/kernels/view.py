"""`KernelView`: what one kernel computes, as a graph between operand and result buffers. Planners start from it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from xjit.dataclass import dataclass
from xjit.emitters.kernels.hero import find_hero, prologue_of
from xjit.hlo import attributes as at
from xjit.hlo.compare.structural_key import content_key, graph_key
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.post_order import extend_post_order
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.hlo.types.shape import Shape
from xjit.llvm.target import Target
from xjit.llvm.types import DOUBLE, FLOAT


@dataclass(frozen=True, slots=True)
class KernelView:
    """One fusion, or one instruction alone, seen as a graph between operand buffers and result buffers.

    `leaves` are the instructions whose elements are loaded: a fusion's parameters, or an instruction's operands.
    `roots` yield the results, one buffer per leaf of their shapes. `shared` lists (operand, result) pairs that are one
    buffer, `may_share` those that are or are not from call to call: parameters that the caller may donate.
    """

    instruction: HloInstruction
    roots: tuple[HloInstruction, ...]
    leaves: tuple[HloInstruction, ...]
    shared: tuple[tuple[int, int], ...] = ()
    may_share: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def of(
        instruction: HloInstruction,
        shared: Sequence[tuple[int, int]] = (),
        may_share: Sequence[tuple[int, int]] = (),
    ) -> KernelView:
        """Returns the view of a fusion or of any other instruction."""
        if instruction.opcode == "fusion":
            root = instruction.fused_expression_root
            roots = root.operands if root.opcode == "tuple" else (root,)
            leaves = instruction.fused_instructions_computation.parameter_instructions
            return KernelView(instruction, tuple(roots), tuple(leaves), tuple(shared), tuple(may_share))
        return KernelView(
            instruction, (instruction,), tuple(instruction.unique_operands()), tuple(shared), tuple(may_share)
        )

    @property
    def result_shapes(self) -> tuple[Shape, ...]:
        """Shapes of the result buffers."""
        return tuple(leaf for root in self.roots for _, leaf in root.shape.leaves())

    @property
    def byte_size(self) -> int:
        """Bytes of all operand and result buffers."""
        return sum(shape.byte_size for shape in (*(leaf.shape for leaf in self.leaves), *self.result_shapes))

    @property
    def hero(self) -> HloInstruction:
        """The instruction that decides how the work is partitioned."""
        return find_hero(self.roots, self.leaves)

    @property
    def prologue(self) -> list[HloInstruction]:
        """What the hero is computed from inside the kernel, operands first."""
        return prologue_of(self.hero, self.leaves)

    @property
    def epilogue(self) -> list[HloInstruction]:
        """What is computed besides the hero and its prologue, operands first: the way from the hero to the roots."""
        before = {self.hero, *self.prologue}
        return [i for i in self.instructions() if i not in before]

    def instructions(self) -> list[HloInstruction]:
        """The graph between leaves and roots, operands first; leaves are not included."""
        leaves, order = set(self.leaves), list[HloInstruction]()
        done = leaves - set(self.roots)
        for root in self.roots:
            extend_post_order(order, done, root, lambda i: () if i in leaves else i.operands)
        return order

    def array_constants(self) -> dict[HloInstruction, Shape]:
        """Returns the constants that are read from memory, with the row-major shape that they have there."""
        found: dict[HloInstruction, Shape] = {}
        for instruction in self.instructions():
            if instruction.opcode == "constant":
                literal = instruction.attributes_as(at.ConstantAttributes).literal
                if literal.shape.is_array and literal.array.size and literal.splat_value() is None:
                    found[instruction] = instruction.shape.with_dimensions(instruction.shape.dimensions)
        return found

    def key(self) -> Hashable:
        """Returns a hashable key: views with equal keys need the same code."""
        leaves = {leaf: -1 - i for i, leaf in enumerate(self.leaves)}
        shapes = tuple(leaf.shape.to_string() for leaf in self.leaves)
        return (
            shapes,
            graph_key(self.instructions(), leaves, self.roots, _content, _computation_key),
            self.shared,
            self.may_share,
        )


def _content(instruction: HloInstruction) -> Hashable:
    """What decides an instruction's code. Of the annotations that is a custom call's config: its own attributes."""
    return content_key(instruction, annotations=instruction.opcode == "custom-call")


def _computation_key(computation: HloComputation) -> Hashable:
    roots = [computation.root_instruction]
    return graph_key(computation.make_instruction_post_order(), {}, roots, _content, _computation_key)


def lanes_for(target: Target, kinds: Iterable[PrimitiveType]) -> int:
    """Returns the elements per vector where such types meet: as many as of the widest one, at most as of f32.

    Of a target whose loops are scalar that is 1.
    """
    if target.scalar_loops:
        return 1
    return target.vector_width(DOUBLE if any(kind.component.bit_width == 64 for kind in kinds) else FLOAT)
