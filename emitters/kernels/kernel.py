"""What a kernel computes (`KernelView`) and what comes out (`Kernel`): the common currency of all kernel emitters.

A kernel is a function `void(ptr context, ptr operands..., ptr results..., i64 begin, i64 end)` that does the units
begin..end-1 of its work; any partition of [0, units) gives the same bits. Equal views share one function: twelve equal
transformer layers are compiled once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from xjit.emitters.access_analysis import MapCache
from xjit.emitters.kernels.hero import find_hero, prologue_of
from xjit.emitters.loop_nest import LoopNest
from xjit.emitters.memory import BUFFER_ALIGNMENT, Buffer
from xjit.emitters.schedule.schedule import Schedule
from xjit.hlo import attributes as at
from xjit.hlo.compare.structural_key import content_key, graph_key
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.post_order import extend_post_order
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.hlo.types.shape import Shape
from xjit.llvm.function import Function, Param
from xjit.llvm.module import Module
from xjit.llvm.target import Target
from xjit.llvm.types import DOUBLE, FLOAT, I64, PTR, VOID, LLVMType
from xjit.llvm.values import Value
from xjit.thunks.gpu_kernel import LaunchDimensions


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


@dataclass(frozen=True, slots=True)
class Kernel:
    """An emitted kernel. `units` is the size of its parallel range, `cost_ns` an estimate for one thread.

    A kernel that `repeats_work` computes something for all units at the start of any range of them, which tasks would
    do again and again. `skip_if_same` is an (operand, result) pair: there is nothing to do where both are one buffer.
    """

    function: Function
    units: int
    cost_ns: float
    kind: str
    bytes_accessed: int = 0
    flops: int = 0
    repeats_work: bool = False
    schedule: Schedule | None = None  # None: the kernel is written by hand
    skip_if_same: tuple[int, int] | None = None
    launch: LaunchDimensions | None = None  # of a GPU's kernel, which is alone in its module

    @property
    def can_fail(self) -> bool:
        """Whether it may leave a status in the execution context."""
        return self.function.may_fail


@dataclass(slots=True)
class KernelContext:
    """What all kernels of a module share while they are emitted.

    `num_threads` is how many the program will probably run with: it decides into how many tasks multiplications and
    convolutions are cut, never what they compute.
    """

    module: Module
    target: Target
    num_threads: int = 1
    maps: MapCache = field(default_factory=MapCache)

    def new_kernel(
        self, view: KernelView, suffix: str = ""
    ) -> tuple[Function, dict[HloInstruction, Buffer], list[Buffer]]:
        """Declares a kernel function; returns it with the leaf and the result buffers."""
        operands, outputs = buffer_params(view, PTR)
        params = [Param(PTR, "context"), *operands, *outputs, Param(I64, "begin"), Param(I64, "end")]
        name = self.module.unique_name(view.instruction.name + suffix)
        function = self.module.add_function(name, VOID, params, linkage="internal")
        return function, *self.buffers(view, function.args[1:-2])

    def buffers(self, view: KernelView, pointers: Sequence[Value]) -> tuple[dict[HloInstruction, Buffer], list[Buffer]]:
        """Returns the leaf and the result buffers of a kernel, given the pointers to operands and results."""
        leaves = {leaf: Buffer(leaf.shape, pointers[i]) for i, leaf in enumerate(view.leaves)}
        results = [Buffer(s, p) for s, p in zip(view.result_shapes, pointers[len(view.leaves) :], strict=True)]
        leaves.update(self.constant_leaves(view))
        return leaves, results

    def constant_leaves(self, view: KernelView) -> dict[HloInstruction, Buffer]:
        """Returns buffers for the array constants inside a view: globals of the module."""
        buffers: dict[HloInstruction, Buffer] = {}
        for instruction, shape in view.array_constants().items():
            literal = instruction.attributes_as(at.ConstantAttributes).literal
            space = self.target.address_spaces.global_
            array = self.module.add_constant_array(literal.array, hint="literal", address_space=space)
            buffers[instruction] = Buffer(shape, array)
        return buffers


def buffer_params(view: KernelView, type: LLVMType) -> tuple[list[Param], list[Param]]:
    """Returns a kernel's parameters for the operands and for the results: pointers of a type."""
    taken_operands = {o for o, _ in (*view.shared, *view.may_share)}
    taken_results = {r for _, r in (*view.shared, *view.may_share)}
    align = f"align {BUFFER_ALIGNMENT}"
    operands = [
        Param(type, f"p{i}", (align, "readonly") if i in taken_operands else ("noalias", align, "readonly"))
        for i in range(len(view.leaves))
    ]
    outputs = [
        Param(type, f"out{i}", (align,) if i in taken_results else ("noalias", align))
        for i in range(len(view.result_shapes))
    ]
    if taken_operands:
        operands = [Param(p.type, p.name, tuple(a for a in p.attributes if a != "readonly")) for p in operands]
    return operands, outputs


def lanes_for(target: Target, kinds: Iterable[PrimitiveType]) -> int:
    """Returns the elements per vector where such types meet: as many as of the widest one, at most as of f32."""
    return target.vector_width(DOUBLE if any(kind.component.bit_width == 64 for kind in kinds) else FLOAT)


def range_arguments(function: Function) -> tuple[Value, Value]:
    """Returns the `begin` and `end` of a kernel function."""
    return function.args[-2], function.args[-1]


def finish(nest: LoopNest) -> None:
    """Ends a kernel function."""
    nest.builder.ret_void()
