"""What the kernels of a sort have in common: the lines' elements in memory, and the comparator."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import AffineExpr
from xjit.emitters.elemental import ComplexValue, RegisterValue
from xjit.emitters.fused import FusedIrEmitter
from xjit.emitters.gpu.kernel_context import GpuKernelContext, launch_dimensions
from xjit.emitters.gpu.threads import special_register
from xjit.emitters.kernels.kernel import Kernel, finish
from xjit.emitters.kernels.loops.hand_loops import here
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.emitters.nested import IrEmitterNested
from xjit.emitters.planners.gpu.sort_network import SortNetwork, register_parts
from xjit.hlo.ir.instruction import HloInstruction
from xjit.llvm.builder import IRBuilder
from xjit.llvm.values import Value, poison

Values = Sequence[RegisterValue]


class SortLines:
    """The function of one kernel of a sort, for one thread, and the elements that it sorts.

    `unsorted` holds some element's values, one per operand, that mean nothing.
    """

    def __init__(self, context: GpuKernelContext, view: KernelView, network: SortNetwork, suffix: str) -> None:
        context = context.for_one_kernel(view.instruction.name + suffix)
        self.view = view
        self.network = network
        self.function, leaves, self._results = context.new_gpu_kernel(view, network.threads)
        self.nest = LoopNest(context.module, self.function, context.target)
        self.module = context.module
        self._fused = FusedIrEmitter(self.nest, leaves, context.maps)
        self._comparator = IrEmitterNested()
        self.thread = special_register(self.nest, "tid.x")
        self.block = special_register(self.nest, "ctaid.x")

    @property
    def like(self) -> list[RegisterValue]:
        """Values of an element that mean nothing, for their types."""
        return register_values(self.view.hero.operands)

    def load(self, line: AffineExpr, place: AffineExpr, from_operands: bool) -> list[RegisterValue]:
        """Emits the values of an element, of the operands or of the results so far."""
        index = self._index(line, place)
        if from_operands:
            return [self._fused.element(operand, index)[0] for operand in self.view.hero.operands]
        return [self._fused.memory.load(result, index, here(self.nest)) for result in self._results]

    def store(self, line: AffineExpr, place: AffineExpr, values: Values) -> None:
        """Emits the stores of an element."""
        index = self._index(line, place)
        for result, value in zip(self._results, values, strict=True):
            self._fused.memory.store(result, index, value)

    def is_before(self, builder: IRBuilder, a: Values, b: Values) -> Value:
        """Emits whether the comparator puts `a` in front of `b`."""
        arguments = [value for pair in zip(a, b, strict=True) for value in pair]
        (result,) = self._comparator.inline(builder, self.view.hero.to_apply, arguments)
        assert isinstance(result, Value)
        return result

    def finished(self, blocks: int, comparisons: int) -> Kernel:
        """Ends the function; returns the kernel. `comparisons`: of each element."""
        finish(self.nest)
        launch = launch_dimensions(blocks, self.network.threads)
        work = self.network.lines * self.network.size * comparisons
        traffic = 2 * sum(shape.byte_size for shape in self.view.result_shapes)
        return Kernel(self.function, blocks, 0.0, "bitonic-sort", traffic, work, launch=launch)

    def _index(self, line: AffineExpr, place: AffineExpr) -> tuple[AffineExpr, ...]:
        return tuple(self.nest.simplify(e) for e in self.network.index(line, place))


def register_values(operands: Sequence[HloInstruction]) -> list[RegisterValue]:
    """Returns values of an element, one per operand, that mean nothing, for their types."""
    parts = [[poison(part) for part in register_parts(operand)] for operand in operands]
    return [ComplexValue(p[0], p[1]) if len(p) > 1 else p[0] for p in parts]
