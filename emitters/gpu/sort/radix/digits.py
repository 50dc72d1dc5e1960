"""What the kernels of a pass have in common: the lines' elements, and the digits of their keys."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import AffineExpr
from xjit.emitters.access.memory import Buffer
from xjit.emitters.elemental import RegisterValue
from xjit.emitters.fused import FusedIrEmitter
from xjit.emitters.gpu.kernel_context import GpuKernelContext, launch_dimensions
from xjit.emitters.gpu.shared_memory import SharedMemory
from xjit.emitters.gpu.threads import Threads, special_register
from xjit.emitters.kernels.kernel import Kernel, finish
from xjit.emitters.kernels.loops.hand_loops import bind_index, here
from xjit.emitters.kernels.sort.sort_order import emit_key
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.emitters.nested import IrEmitterNested
from xjit.emitters.planners.gpu.radix_sort import DIGITS, THREADS, RadixPlan
from xjit.llvm.builder import IRBuilder
from xjit.llvm.types import I64
from xjit.llvm.values import Value, const_int


class RadixPass:
    """The function of one kernel of pass number `number`, for one thread.

    Elements go from the operands to the results, in the last pass; before, there and back between the results and
    other arrays.
    """

    def __init__(self, context: GpuKernelContext, view: KernelView, plan: RadixPlan, name: str, number: int) -> None:
        context = context.for_one_kernel(f"{view.instruction.name}.{name}{number}")
        self.view = view
        self.plan = plan
        self._number = number
        self._shift = plan.shifts[number]
        self.function, leaves, buffers = context.new_gpu_kernel(view, THREADS, plan.scratch)
        count = len(plan.shapes)
        results, others, (self.counts, self.totals) = buffers[:count], buffers[count : 2 * count], buffers[2 * count :]
        is_even = (len(plan.shifts) - number) % 2 == 0
        self._sources, self._targets = (results, others) if is_even else (others, results)
        self.nest = LoopNest(context.module, self.function, context.target)
        self.shared = SharedMemory(context.module, self.function)
        self._fused = FusedIrEmitter(self.nest, leaves, context.maps)
        self._nested = IrEmitterNested()
        self.threads = Threads(self.nest, THREADS)
        self.block = special_register(self.nest, "ctaid.x")

    def tile(self) -> tuple[AffineExpr, AffineExpr]:
        """Returns the line of the block's tile, and its number in it."""
        block = bind_index(self.nest, self.block, self.plan.blocks)
        return self.nest.simplify(block.floordiv(self.plan.tiles)), self.nest.simplify(block.mod(self.plan.tiles))

    def load(self, line: AffineExpr, place: AffineExpr, operand: int) -> RegisterValue:
        """Emits a value of an element, as the pass finds it."""
        index = self._index(line, place)
        if self._number == 0:
            return self._fused.element(self.view.hero.operand(operand), index)[0]
        return self._fused.memory.load(self._sources[operand], index, here(self.nest))

    def store(self, line: AffineExpr, place: AffineExpr, values: Sequence[RegisterValue]) -> None:
        """Emits the stores of an element where the pass leaves it."""
        index = self._index(line, place)
        for target, value in zip(self._targets, values, strict=True):
            self._fused.memory.store(target, index, value)

    def digit(self, builder: IRBuilder, key: RegisterValue) -> Value:
        """Emits the digit of a key, as i64."""
        plan = self.plan
        bits = emit_key(builder, self._nested, plan.order, key)
        bits = builder.sub(bits, const_int(bits.type, plan.lowest_key(bits.type.bits)))
        shifted = builder.lshr(bits, const_int(bits.type, self._shift)) if self._shift else bits
        digit = builder.and_(shifted, const_int(bits.type, DIGITS - 1))
        return digit if digit.type is I64 else builder.zext(digit, I64)

    def load_number(self, buffer: Buffer, index: Sequence[AffineExpr]) -> Value:
        """Emits an element of `counts` or `totals`."""
        value = self._fused.memory.load(buffer, [self.nest.simplify(e) for e in index], here(self.nest))
        assert isinstance(value, Value)
        return value

    def store_number(self, buffer: Buffer, index: Sequence[AffineExpr], value: Value) -> None:
        """Emits the store of an element of `counts` or `totals`."""
        self._fused.memory.store(buffer, [self.nest.simplify(e) for e in index], value)

    def finished(self, blocks: int, traffic: int) -> Kernel:
        """Ends the function; returns the kernel."""
        finish(self.nest)
        launch = launch_dimensions(blocks, THREADS)
        return Kernel(
            self.function, blocks, 0.0, "radix-sort", traffic, 0, launch=launch, scratch=self.plan.scratch
        )  # fmt: skip

    def _index(self, line: AffineExpr, place: AffineExpr) -> tuple[AffineExpr, ...]:
        return tuple(self.nest.simplify(e) for e in self.plan.network.index(line, place))
