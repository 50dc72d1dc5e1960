"""IrEmitterUnnested: emits an unnested computation - the entry, while bodies and conditions, branches, calls.

Each becomes one function `void @name(ptr context, ptr parameters, ptr results, ptr arena, ptr constants)` that calls
kernels and runtime routines in schedule order. Where a value lives is decided by buffer assignment; tuples are plumbing
and cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from xjit.emitters.kernels.kernel import Kernel, KernelContext, KernelView
from xjit.emitters.kernels.table import emit_kernels
from xjit.emitters.scalar_code import emit_scalar_code, is_scalar_code
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.post_order import post_order
from xjit.hlo.types.shape import ShapeIndex
from xjit.llvm.builder import IRBuilder
from xjit.llvm.execution_context import EXECUTION_CONTEXT
from xjit.llvm.function import Function
from xjit.llvm.partition import PartWriter
from xjit.llvm.types import I8, I32, I64, PTR, VOID, LLVMType, array
from xjit.llvm.values import Value, const_int
from xjit.passes.schedule_and_memory.buffer_assignment import BufferAssignment, BufferSlice

PARALLEL_COST_NS = 20_000.0
TASK_COST_NS = 8_000.0
MAX_TASKS = 64

_PARAMS = tuple((PTR, name) for name in ("context", "parameters", "results", "arena", "constants"))

_NO_CODE = frozenset(
    {"parameter", "constant", "tuple", "get-tuple-element", "after-all", "add-dependency", "opt-barrier", "bitcast",
     "domain"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LaunchedKernel:
    """One kernel call of the program, for `exe.kernels`."""

    kernel: Kernel
    instruction: HloInstruction


@dataclass(slots=True)
class UnnestedState:
    """What the functions of one module share."""

    context: KernelContext
    assignment: BufferAssignment
    parts: PartWriter
    functions: dict[HloComputation, Function] = field(default_factory=dict)
    kernels: dict[Any, list[Kernel]] = field(default_factory=dict)
    tasks: dict[str, Function] = field(default_factory=dict)
    launched: list[LaunchedKernel] = field(default_factory=list)
    profile: bool = False


class IrEmitterUnnested:
    """Emits one unnested computation. Use `emit_computation` for a whole call tree."""

    def __init__(self, state: UnnestedState, function: Function, may_run_often: bool = False) -> None:
        self.state = state
        self._may_run_often = may_run_often and not state.profile  # whose kernel calls a profile counts
        self.function = function
        self.builder = IRBuilder(function.append_block("entry"))
        self._entry = function.entry
        self._pointers: dict[BufferSlice, Value] = {}
        self._contexts: Value | None = None

    # -- buffers

    def pointer(self, instruction: HloInstruction, index: ShapeIndex = ()) -> Value:
        """Returns the address of one leaf of an instruction's value."""
        return self.slice_pointer(self.state.assignment.slice(instruction, index))

    def slice_pointer(self, where: BufferSlice) -> Value:
        """Returns the address of a buffer slice; computed once, in the function's entry block."""
        pointer = self._pointers.get(where)
        if pointer is None:
            pointer = self._pointers[where] = self._emit_pointer(where)
        return pointer

    def _emit_pointer(self, where: BufferSlice) -> Value:
        builder = IRBuilder(self._entry)
        _, parameters, results, arena, constants = self.function.args
        if where.kind == "arena":
            return builder.gep(I8, arena, const_int(I64, where.offset))
        table = {"parameter": parameters, "result": results, "constant": constants}.get(where.kind)
        if table is None:
            raise AssertionError(f"no buffer of kind {where.kind!r}")
        base = builder.load(PTR, builder.gep(PTR, table, const_int(I64, where.index)), align=8)
        return builder.gep(I8, base, const_int(I64, where.offset)) if where.offset else base

    # -- instructions

    def emit(self, schedule: Sequence[HloInstruction]) -> None:
        """Emits the instructions of the computation in order."""
        for instruction in schedule:
            self._emit_instruction(instruction)
        self.builder.ret_void()

    def _emit_instruction(self, instruction: HloInstruction) -> None:
        if instruction.opcode in _NO_CODE:
            return
        rule = _RULES.get(instruction.opcode)
        self.builder.comment(f"{instruction.name}: {instruction.opcode}")
        if rule is not None:
            rule(self, instruction)
        else:
            self.emit_kernel_call(instruction)

    def emit_kernel_call(self, instruction: HloInstruction) -> None:
        """Emits the kernels of an instruction (once per distinct view) and the calls to them."""
        leaves = [shape for _, shape in instruction.shape.leaves()]
        if all(s.is_array and s.num_elements == 0 for s in leaves) and leaves:
            return
        operands = self._kernel_operands(instruction)
        results = [self.state.assignment.slice(instruction, i) for i, s in instruction.shape.leaves() if s.is_array]
        slices = [self.state.assignment.slice(o) for o in operands]
        shared = [(i, j) for j, r in enumerate(results) for i, o in enumerate(slices) if o == r]
        view = KernelView.of(instruction, shared)
        if self._may_run_often and is_scalar_code(view):
            pointers = [self.slice_pointer(s) for s in (*slices, *results)]
            emit_scalar_code(self.state.context, self.function, self.builder, view, pointers)
            return
        key = view.key()
        kernels = self.state.kernels.get(key)
        if kernels is None:
            kernels = self.state.kernels[key] = emit_kernels(self.state.context, view)
            self.state.parts.advance()
        pointers = [self.slice_pointer(s) for s in (*slices, *results)]
        for kernel in kernels:
            start = self._cycles() if self.state.profile else None
            self._call(kernel, pointers)
            if start is not None:
                self._count_cycles(start, len(self.state.launched))
            self.state.launched.append(LaunchedKernel(kernel, instruction))

    def _cycles(self) -> Value:
        return self.builder.intrinsic("readcyclecounter", I64, [], overloads=[])

    def _count_cycles(self, start: Value, number: int) -> None:
        """Adds the cycles since `start` to the counter of a kernel call."""
        builder = self.builder
        counters = EXECUTION_CONTEXT.load(builder, self.function.args[0], "profile_counters")
        counter = builder.gep(I64, counters, const_int(I64, number))
        spent = builder.sub(self._cycles(), start)
        builder.store(builder.add(builder.load(I64, counter, align=8), spent), counter, align=8)

    @staticmethod
    def _kernel_operands(instruction: HloInstruction) -> list[HloInstruction]:
        return list(instruction.operands) if instruction.opcode == "fusion" else instruction.unique_operands()

    def _call(self, kernel: Kernel, pointers: list[Value]) -> None:
        arguments = [self.function.args[0], *pointers]
        if kernel.cost_ns < PARALLEL_COST_NS or kernel.units < 2 or kernel.repeats_work:
            whole = [const_int(I64, 0), const_int(I64, kernel.units)]
            self.builder.call(kernel.function, [*arguments, *whole])
            return
        tasks = min(kernel.units, MAX_TASKS, max(2, int(kernel.cost_ns / TASK_COST_NS)))
        task = self._task_function(kernel, tasks)
        shared = self._argument_array(len(arguments))
        for i, argument in enumerate(arguments):
            self.builder.store(argument, self.builder.gep(PTR, shared, const_int(I64, i)), align=8)
        parallel_for = self.state.context.module.declare("xjit_parallel_for", VOID, [PTR, PTR, I64])
        self.builder.call(parallel_for, [task.value, shared, const_int(I64, tasks)])

    def _argument_array(self, count: int) -> Value:
        return IRBuilder(self._entry).alloca(array(PTR, count), align=8, name="arguments")

    def _task_function(self, kernel: Kernel, tasks: int) -> Function:
        """Returns `void(ptr arguments, i64 task)`: the share of one task of the kernel's units."""
        module = self.state.context.module
        name = f"{kernel.function.name}.task{tasks}"
        found = self.state.tasks.get(name)
        if found is not None:
            return found
        function = module.add_function(name, VOID, [(PTR, "arguments"), (I64, "task")], linkage="internal")
        self.state.tasks[name] = function
        builder = IRBuilder(function.append_block("entry"))
        shared, task = function.args
        count = len(kernel.function.args) - 2
        arguments = [builder.load(PTR, builder.gep(PTR, shared, const_int(I64, i)), align=8) for i in range(count)]
        units, parts = const_int(I64, kernel.units), const_int(I64, tasks)
        begin = builder.udiv(builder.mul(task, units), parts)
        end = builder.udiv(builder.mul(builder.add(task, const_int(I64, 1)), units), parts)
        builder.call(kernel.function, [*arguments, begin, end])
        builder.ret_void()
        return function

    # -- control flow

    def _call_computation(self, computation: HloComputation) -> None:
        self.builder.call(emit_computation(self.state, computation), list(self.function.args))

    def _while(self, instruction: HloInstruction) -> None:
        """test: condition(); if it holds: body(); again."""
        builder = self.builder
        test, body, done = (builder.append_block(label) for label in ("while.test", "while.body", "while.end"))
        builder.br(test)
        builder.position_at_end(test)
        self._emit_condition(instruction.while_condition)
        holds = self._load_scalar(instruction.while_condition.root_instruction, I8)
        builder.cbranch(builder.icmp_unsigned("!=", holds, const_int(I8, 0)), body, done)
        builder.position_at_end(body)
        self._call_computation(instruction.while_body)
        builder.br(test)
        builder.position_at_end(done)

    def _emit_condition(self, condition: HloComputation) -> None:
        """Emits a loop's condition in its place, or a call of it."""
        if not _is_straight(condition):
            self._call_computation(condition)
            return
        outside, self._may_run_often = self._may_run_often, not self.state.profile
        for instruction in self.state.assignment.sequence(condition):
            self._emit_instruction(instruction)
        self._may_run_often = outside

    def _load_scalar(self, instruction: HloInstruction, kind: LLVMType) -> Value:
        return self.builder.load(kind, self.pointer(instruction), align=kind.bits // 8)

    def _conditional(self, instruction: HloInstruction) -> None:
        builder = self.builder
        branches = instruction.branch_computations
        selector = instruction.operand(0)
        done = builder.append_block("conditional.end")
        blocks = [builder.append_block(f"branch{i}") for i in range(len(branches))]
        if selector.shape.element_type.text == "pred":
            chosen = builder.icmp_unsigned("!=", self._load_scalar(selector, I8), const_int(I8, 0))
            builder.cbranch(chosen, blocks[0], blocks[1])
        else:  # an index out of range takes the last branch
            chosen = self._load_scalar(selector, I32)
            cases = list(enumerate(blocks[:-1]))
            builder.switch(chosen, blocks[-1], cases)
        for block, branch in zip(blocks, branches, strict=True):
            builder.position_at_end(block)
            self._call_computation(branch)
            builder.br(done)
        builder.position_at_end(done)

    def _call_rule(self, instruction: HloInstruction) -> None:
        self._call_computation(instruction.to_apply)

    def _copy(self, instruction: HloInstruction) -> None:
        """A copy between equal layouts is a memcpy, other copies are kernels; tuples copy leaf by leaf."""
        for index, shape in instruction.shape.leaves():
            source_shape = instruction.operand(0).shape.subshape(index)
            if not shape.is_array:
                continue
            source = self.state.assignment.slice(instruction.operand(0), index)
            target = self.state.assignment.slice(instruction, index)
            if source == target:
                continue
            if shape.is_array and not index and source_shape.layout != shape.layout:
                self.emit_kernel_call(instruction)
                return
            size = const_int(I64, target.size)
            self.builder.memcpy(self.slice_pointer(target), self.slice_pointer(source), size, align=1)


_RULES: dict[str, Callable[[IrEmitterUnnested, HloInstruction], None]] = {
    "while": IrEmitterUnnested._while,
    "conditional": IrEmitterUnnested._conditional,
    "call": IrEmitterUnnested._call_rule,
    "copy": IrEmitterUnnested._copy,
}


def emit_computation(state: UnnestedState, computation: HloComputation) -> Function:
    """Returns the function of an unnested computation; emits it and all it calls the first time."""
    function = state.functions.get(computation)
    if function is None:
        module = state.context.module
        name = module.unique_name(f"computation.{computation.name}")
        function = module.add_function(name, VOID, _PARAMS, linkage="internal")
        state.functions[computation] = function
        may_run_often = not computation.is_entry_computation()
        IrEmitterUnnested(state, function, may_run_often).emit(state.assignment.sequence(computation))
    return function


def _is_straight(computation: HloComputation) -> bool:
    """Whether a computation runs no other."""
    return not any(i.opcode in _RULES and i.called_computations for i in computation.instructions)


def _sequential_callees(computation: HloComputation) -> list[HloComputation]:
    """Returns the unnested computations that run inside one and have functions of their own."""
    return [
        called
        for instruction in computation.instructions
        if instruction.opcode in _RULES
        for called in instruction.called_computations
        if not (instruction.opcode == "while" and called is instruction.while_condition and _is_straight(called))
    ]


def emit_entry(state: UnnestedState, computation: HloComputation, symbol: str) -> None:
    """Emits the program's entry `i32 @symbol(ptr, ptr, ptr, ptr, ptr)` around the entry computation."""
    for called in post_order([computation], _sequential_callees):
        emit_computation(state, called)  # callees first: no recursion, however deep they are nested
    inner = emit_computation(state, computation)
    function = state.context.module.add_function(symbol, I32, _PARAMS)
    function.is_cold = inner.is_cold = True  # they run once; the bodies of loops may run often
    builder = IRBuilder(function.append_block("entry"))
    builder.call(inner, list(function.args))
    builder.ret(EXECUTION_CONTEXT.load(builder, function.args[0], "status"))
