"""The native entry: thunks as one function that is called once per execution.

The entry's sequence, loop bodies and branches become one function each, `void @name(ptr context, ptr parameters, ptr
results, ptr arena, ptr constants)`, which calls kernels in order, hands the tasks of large ones to the thread pool, and
branches; that of the entry returns the status. After what can fail, and at the end of each round of a loop, it looks at
the status in the context: nothing else runs once something has failed.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import field

from xjit.dataclass import dataclass
from xjit.emitters.entry.cancel_checks import check_interval, return_on_cancel_if
from xjit.emitters.entry.context_calls import emit_return_on_cancel, emit_return_on_failure, status_result
from xjit.emitters.entry.loop_registers import LoopRegisters, loop_numbers
from xjit.emitters.entry.scalar_code import emit_scalar_code
from xjit.emitters.entry.sequences_in_place import sequences_in_place
from xjit.emitters.entry.slice_pointers import ENTRY_PARAMS, SlicePointers
from xjit.emitters.kernels.kernel import KernelContext
from xjit.emitters.unnested import UnnestedModule
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.builder import IRBuilder
from xjit.llvm.execution_context import EXECUTION_CONTEXT
from xjit.llvm.function import Block, Function
from xjit.llvm.partition import PartWriter
from xjit.llvm.types import I8, I32, I64, PTR, VOID, array
from xjit.llvm.values import Value, const_int
from xjit.thunks import (
    BufferSlice,
    CallThunk,
    ConditionalThunk,
    CopyThunk,
    InlineThunk,
    KernelThunk,
    ShapedSlice,
    Thunk,
    ThunkSequence,
    WhileThunk,
)


@dataclass(slots=True)
class NativeEntryEmitter:
    """Emits the functions of a program into the module that has its kernels.

    With `profile`, every kernel call adds its cycles to its counter among the context's `profile_counters`.
    """

    context: KernelContext
    unnested: UnnestedModule
    parts: PartWriter
    profile: bool = False
    functions: dict[str, Function] = field(default_factory=dict)
    _tasks: dict[str, Function] = field(default_factory=dict)
    _in_place: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self._in_place = sequences_in_place(self.unnested.program)

    def emit(self, symbol: str) -> None:
        """Emits `i32 @symbol(ptr context, ptr parameters, ptr results, ptr arena, ptr constants)` and all it calls."""
        module, program = self.context.module, self.unnested.program
        for sequence in program.sequences.values():  # callees first
            if sequence.name in self._in_place:
                continue
            if sequence.name == program.entry:
                function = module.add_function(symbol, I32, ENTRY_PARAMS)
                bodies = (thunk.body for thunk in sequence if isinstance(thunk, WhileThunk))
                function.is_cold = self._in_place.isdisjoint(bodies)  # it runs once; the bodies of loops run often
            else:
                name = module.unique_name(f"computation.{sequence.name}")
                function = module.add_function(name, VOID, ENTRY_PARAMS, linkage="internal")
            self._emit_sequence(sequence, function)
            self.parts.advance()

    def _emit_sequence(self, sequence: ThunkSequence, function: Function) -> None:
        self.functions[sequence.name] = function
        emitter = _SequenceEmitter(self, function)
        emitter.emit_thunks(sequence.thunks)
        emitter.finish()

    def task_function(self, thunk: KernelThunk) -> Function:
        """Returns `void(ptr arguments, i64 task)`: the share of one task of a kernel's units."""
        module = self.context.module
        kernel = module.functions[thunk.kernel]
        name = f"{kernel.name}.task{thunk.tasks}"
        found = self._tasks.get(name)
        if found is not None:
            return found
        function = self._tasks[name] = module.add_function(
            name, VOID, [(PTR, "arguments"), (I64, "task")], linkage="internal"
        )
        function.is_cold = True
        builder = IRBuilder(function.append_block("entry"))
        shared, task = function.args
        count = len(kernel.args) - 2
        arguments = [builder.load(PTR, builder.gep(PTR, shared, const_int(I64, i)), align=8) for i in range(count)]
        units, parts = const_int(I64, thunk.units), const_int(I64, thunk.tasks)
        begin = builder.udiv(builder.mul(task, units), parts)
        end = builder.udiv(builder.mul(builder.add(task, const_int(I64, 1)), units), parts)
        builder.call(kernel, [*arguments, begin, end])
        builder.ret_void()
        return function


class _SequenceEmitter:
    """Emits the thunks of one function."""

    def __init__(self, entry: NativeEntryEmitter, function: Function) -> None:
        self.entry = entry
        self.module = entry.context.module
        self.function = function
        self.builder = IRBuilder(function.append_block("entry"))
        self.context = function.args[0]
        self.pointers = SlicePointers(function)
        self.registers: LoopRegisters | None = None  # of the innermost loop whose body is emitted in place

    def emit_thunks(self, thunks: Sequence[Thunk]) -> None:
        """Emits thunks in order."""
        for thunk in thunks:
            self.builder.comment(f"{thunk.instruction}: {type(thunk).__name__}")
            match thunk:
                case KernelThunk():
                    self._kernel(thunk)
                case InlineThunk():
                    self._inline(thunk)
                case CopyThunk():
                    self._copy(thunk)
                case CallThunk():
                    self._call(thunk.callee)
                case WhileThunk():
                    self._while(thunk)
                case ConditionalThunk():
                    self._conditional(thunk)
                case _:
                    raise AssertionError(f"no code for a {type(thunk).__name__}")

    def finish(self) -> None:
        """Ends the function."""
        status = status_result(self.builder)
        if status is None:
            self.builder.ret_void()
        else:
            self.builder.ret(status)

    def _arguments(self, thunk: KernelThunk | InlineThunk) -> list[Value]:
        return [self.pointers[place.slice] for place in (*thunk.operands, *thunk.results)]

    def _inline(self, thunk: InlineThunk) -> None:
        view = self.entry.unnested.inline_views[thunk.instruction]
        where = self.entry.context, self.function, self.builder, view, self._arguments(thunk)
        registers = self.registers
        if registers is None:
            emit_scalar_code(*where)
            return
        known = [registers.get(operand.slice) for operand in thunk.operands]
        emit_scalar_code(*where, known, lambda number, value: registers.set(thunk.results[number].slice, value))

    def _copy(self, thunk: CopyThunk) -> None:
        if self.registers is not None and self.registers.copy(thunk.source, thunk.destination):
            return
        source, destination = self.pointers[thunk.source], self.pointers[thunk.destination]
        with self._unless_same(source, destination) if thunk.may_be_one else nullcontext():
            self.builder.memcpy(destination, source, const_int(I64, thunk.destination.size), align=1)

    @contextmanager
    def _unless_same(self, a: Value, b: Value) -> Generator[None]:
        """What is emitted inside is skipped where two pointers are equal."""
        builder = self.builder
        work, done = builder.append_block("different"), builder.append_block("same")
        builder.cbranch(builder.icmp_unsigned("==", a, b), done, work)
        builder.position_at_end(work)
        yield
        builder.br(done)
        builder.position_at_end(done)

    # -- kernels

    def _kernel(self, thunk: KernelThunk) -> None:
        if thunk.skip_if_same is None:
            self._launch(thunk)
            return
        operand, result = thunk.skip_if_same
        with self._unless_same(
            self.pointers[thunk.operands[operand].slice], self.pointers[thunk.results[result].slice]
        ):
            self._launch(thunk)

    def _launch(self, thunk: KernelThunk) -> None:
        start = self._cycles() if self.entry.profile else None
        arguments = [self.context, *self._arguments(thunk)]
        if thunk.tasks == 1:
            whole = [const_int(I64, 0), const_int(I64, thunk.units)]
            self.builder.call(self.module.functions[thunk.kernel], [*arguments, *whole])
        else:
            self._fork(thunk, arguments)
        if start is not None:
            self._count_cycles(start, thunk.number)
        if thunk.can_fail:
            emit_return_on_failure(self.builder, thunk.number)

    def _fork(self, thunk: KernelThunk, arguments: Sequence[Value]) -> None:
        """Runs the tasks of a kernel in the thread pool, and waits for them."""
        task = self.entry.task_function(thunk)
        shared = self.builder.alloca(array(PTR, len(arguments)), align=8, name="arguments")
        for i, argument in enumerate(arguments):
            self.builder.store(argument, self.builder.gep(PTR, shared, const_int(I64, i)), align=8)
        parallel_for = self.module.declare("xjit_parallel_for", VOID, [PTR, PTR, I64])
        self.builder.call(parallel_for, [task.value, shared, const_int(I64, thunk.tasks)])

    def _cycles(self) -> Value:
        return self.builder.intrinsic("readcyclecounter", I64, [], overloads=[])

    def _count_cycles(self, start: Value, number: int) -> None:
        """Adds the cycles since `start` to the counter of a kernel call."""
        builder = self.builder
        counters = EXECUTION_CONTEXT.load(builder, self.context, "profile_counters")
        counter = builder.gep(I64, counters, const_int(I64, number))
        spent = builder.sub(self._cycles(), start)
        builder.store(builder.add(builder.load(I64, counter, align=8), spent), counter, align=8)

    # -- control flow

    def _call(self, name: str) -> None:
        called = self.entry.functions[name]
        self.builder.call(called, list(self.function.args))
        if called.may_fail:
            emit_return_on_failure(self.builder)

    def _run(self, name: str) -> None:
        """Runs a sequence: its function, or in place what has none."""
        if name in self.entry.functions:
            self._call(name)
        else:
            self.emit_thunks(self.entry.unnested.program.sequences[name].thunks)

    def _while(self, thunk: WhileThunk) -> None:
        """test: condition(); if it holds: body(); again, unless the call is to end."""
        builder = self.builder
        test, body, done = (builder.append_block(label) for label in ("while.test", "while.body", "while.end"))
        before, outer, registers = builder.block, self.registers, self._registers(thunk)
        builder.br(test)
        builder.position_at_end(test)
        interval = check_interval(thunk, self.entry.unnested.program)
        rounds = builder.phi(I32, [(const_int(I32, 0), before)], "rounds") if interval > 1 else None
        registers.start_round(before)
        self.registers = registers
        self._run(thunk.condition)
        at_end = registers.values()
        builder.cbranch(self._holds(thunk.predicate), body, done)
        builder.position_at_end(body)
        self._run(thunk.body)
        if rounds is not None:
            following = builder.add(rounds, const_int(I32, 1))
            due = builder.and_(following, const_int(I32, interval - 1))
            return_on_cancel_if(builder, builder.icmp_unsigned("==", due, const_int(I32, 0)))
            rounds.add_incoming(following, builder.block)
        elif interval:
            emit_return_on_cancel(builder)
        registers.end_round()
        builder.br(test)
        builder.position_at_end(done)
        registers.after_loop(at_end)
        self.registers = outer

    def _registers(self, thunk: WhileThunk) -> LoopRegisters:
        """The numbers that a loop keeps in registers: none if it calls a function."""
        in_place = thunk.condition not in self.entry.functions and thunk.body not in self.entry.functions
        numbers = loop_numbers(thunk, self.entry.unnested.program.sequences) if in_place else {}
        return LoopRegisters(self.builder, numbers, self.pointers)

    def _holds(self, predicate: BufferSlice) -> Value:
        """Returns a condition's value as an i1."""
        known = self.registers.get(predicate) if self.registers is not None else None
        if isinstance(known, Value):
            return known
        stored = self.builder.load(I8, self.pointers[predicate], align=1)
        return self.builder.icmp_unsigned("!=", stored, const_int(I8, 0))

    def _conditional(self, thunk: ConditionalThunk) -> None:
        builder = self.builder
        done = builder.append_block("conditional.end")
        blocks = [builder.append_block(f"branch{i}") for i in range(len(thunk.branches))]
        self._choose(thunk.selector, blocks)
        for block, branch in zip(blocks, thunk.branches, strict=True):
            builder.position_at_end(block)
            self._run(branch)
            builder.br(done)
        builder.position_at_end(done)

    def _choose(self, selector: ShapedSlice, blocks: Sequence[Block]) -> None:
        """Goes to the block that a pred or an index selects; an index out of range takes the last one."""
        builder, pointer = self.builder, self.pointers[selector.slice]
        if selector.shape.element_type is PrimitiveType.PRED:
            chosen = builder.load(I8, pointer, align=1)
            builder.cbranch(builder.icmp_unsigned("!=", chosen, const_int(I8, 0)), blocks[0], blocks[1])
        else:
            builder.switch(builder.load(I32, pointer, align=4), blocks[-1], list(enumerate(blocks[:-1])))
