"""What comes out of kernel emitters (`Kernel`), and what they share (`KernelContext`).

A kernel is a function `void(ptr context, ptr operands..., ptr results..., i64 begin, i64 end)` that does the units
begin..end-1 of its work; any partition of [0, units) gives the same bits. Equal views share one function: twelve equal
transformer layers are compiled once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import field

from xjit.dataclass import dataclass
from xjit.emitters.access.access_analysis import MapCache
from xjit.emitters.access.memory import BUFFER_ALIGNMENT, Buffer
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.emitters.planners.plan import PlanContext
from xjit.emitters.schedule.schedule import Schedule
from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape
from xjit.llvm.function import Function, Param
from xjit.llvm.module import Module
from xjit.llvm.target import Target
from xjit.llvm.types import I64, PTR, VOID, LLVMType
from xjit.llvm.values import Value
from xjit.thunks.gpu_kernel import LaunchDimensions


@dataclass(frozen=True, slots=True)
class Kernel:
    """An emitted kernel. `units` is the size of its parallel range, `cost_ns` an estimate for one thread.

    A kernel that `repeats_work` computes something for all units at the start of any range of them, which tasks would
    do again and again; one that `has_threads` calls a library that has. `skip_if_same` is an (operand, result) pair:
    there is nothing to do where both are one buffer.
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
    scratch: tuple[Shape, ...] = ()  # of a GPU's kernel: its last parameters, which all kernels of the view share
    has_threads: bool = False

    @classmethod
    def of_schedule(
        cls,
        function: Function,
        schedule: Schedule,
        skip_if_same: tuple[int, int] | None = None,
        launch: LaunchDimensions | None = None,
    ) -> Kernel:
        """Returns the kernel of a function that does what a schedule says, with its units and costs."""
        return cls(
            function,
            schedule.units,
            schedule.cost.ns,
            schedule.kind,
            schedule.cost.byte_count,
            schedule.cost.operations,
            schedule.cost.repeats_work,
            schedule,
            skip_if_same,
            launch,
        )

    @property
    def can_fail(self) -> bool:
        """Whether it may leave a status in the execution context."""
        return self.function.may_fail


@dataclass(slots=True)
class KernelContext:
    """What all kernels of a module share while they are emitted."""

    module: Module
    target: Target
    maps: MapCache = field(default_factory=MapCache)

    @property
    def plan_context(self) -> PlanContext:
        """What planners may know of it."""
        return PlanContext(self.target, self.maps)

    def new_kernel(
        self, view: KernelView, suffix: str = ""
    ) -> tuple[Function, dict[HloInstruction, Buffer], list[Buffer]]:
        """Declares a kernel function; returns it with the leaf and the result buffers."""
        operands, outputs = buffer_params(view, PTR)
        params = [Param(PTR, "context"), *operands, *outputs, Param(I64, "begin"), Param(I64, "end")]
        name = self.module.unique_name(view.instruction.name + suffix)
        function = self.module.add_function(name, VOID, params, linkage="internal")
        uses = Counter(instruction.opcode for instruction in view.instructions())
        self.module.expected_uses.update(((name, opcode), count) for opcode, count in uses.items() if count > 1)
        return function, *self.buffers(view, function.args[1:-2])

    @property
    def has_unit_threads(self) -> bool:
        """Whether each unit has a thread, so that units should be as small as they can be."""
        return False

    def unit_range(self, nest: LoopNest, units: int) -> tuple[Value, Value]:
        """Returns the units that a call of a kernel does: the first, and the first one after the last, as i64."""
        return range_arguments(nest.function)

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


def range_arguments(function: Function) -> tuple[Value, Value]:
    """Returns the `begin` and `end` of a kernel function."""
    return function.args[-2], function.args[-1]


def finish(nest: LoopNest) -> None:
    """Ends a kernel function."""
    nest.builder.ret_void()
