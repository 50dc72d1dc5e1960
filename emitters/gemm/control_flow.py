"""A builder with structured control flow, for kernels whose loops are written by hand.

Role: `for`, `if` and address arithmetic on i64 values and byte offsets. Invariant: after a `with` block the builder
stands in the block that follows the loop or branch.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager

from xjit.llvm import Function, IRBuilder, LLVMType, Module, Param, Phi, Value
from xjit.llvm.types import I8, I64, PTR, VOID
from xjit.llvm.values import const_int


class StructuredBuilder(IRBuilder):
    """An `IRBuilder` with loops and branches as context managers. Indices are i64, offsets are bytes."""

    __slots__ = ()

    def i64(self, number: int) -> Value:
        """An i64 constant."""
        return const_int(I64, number)

    def min(self, a: Value, b: Value) -> Value:
        """The smaller of two signed integers."""
        return self.select(self.icmp_signed("<", a, b), a, b)

    def offset(self, ptr: Value, num_bytes: Value) -> Value:
        """`ptr` moved by a number of bytes, of any sign."""
        return self.gep(I8, ptr, num_bytes, inbounds=False)

    def offset_2d(self, ptr: Value, i: Value, i_stride: Value, j: Value, j_stride: Value) -> Value:
        """`ptr + i * i_stride + j * j_stride`, strides in bytes."""
        return self.offset(ptr, self.add(self.mul(i, i_stride), self.mul(j, j_stride)))

    def load_i64(self, ptr: Value, slot: int, name: str = "field") -> Value:
        """Field number `slot` of a record of 64-bit fields."""
        return self.load(I64, self.offset(ptr, self.i64(8 * slot)), 8, name=name)

    def load_ptr(self, ptr: Value, slot: int, name: str = "field") -> Value:
        """The same for a pointer field."""
        return self.load(PTR, self.offset(ptr, self.i64(8 * slot)), 8, name=name)

    def store_slot(self, value: Value, ptr: Value, slot: int) -> None:
        """Sets field number `slot` of a record of 64-bit fields."""
        self.store(value, self.offset(ptr, self.i64(8 * slot)), 8)

    @contextmanager
    def loop(self, start: Value, stop: Value, step: Value | int = 1, name: str = "i") -> Generator[Value]:
        """`for i in range(start, stop, step)` with a positive step; the body may not run at all."""
        with self.loop_with(start, stop, (), step, name) as (index, _, _):
            yield index

    @contextmanager
    def loop_with(
        self, start: Value, stop: Value, initial: Sequence[Value], step: Value | int = 1, name: str = "i"
    ) -> Generator[tuple[Value, list[Phi], list[Value]]]:
        """A loop with carried values: yields (index, values now, list that the body must fill with the next values).

        After the loop the phis hold the final values.
        """
        step = self.i64(step) if isinstance(step, int) else step
        before = self.block
        header, body, after = (self.append_block(f"{name}_{part}") for part in ("head", "body", "exit"))
        self.br(header)
        self.position_at_end(header)
        index = self.phi(I64, [(start, before)], name)
        carried = [self.phi(value.type, [(value, before)], "carried") for value in initial]
        self.cbranch(self.icmp_signed("<", index, stop), body, after)
        self.position_at_end(body)
        following: list[Value] = []
        yield index, carried, following
        if len(following) != len(carried):
            raise AssertionError(f"loop {name} carries {len(carried)} values, its body gave {len(following)}")
        index.add_incoming(self.add(index, step), self.block)
        for phi, value in zip(carried, following):
            phi.add_incoming(value, self.block)
        self.br(header)
        self.position_at_end(after)

    @contextmanager
    def when(self, condition: Value) -> Generator[None]:
        """Runs the body if `condition` holds."""
        body, after = self.append_block("then"), self.append_block("after")
        self.cbranch(condition, body, after)
        self.position_at_end(body)
        yield
        if not self.block.is_terminated:
            self.br(after)
        self.position_at_end(after)

    def if_else(
        self, condition: Value, then: Callable[[], Sequence[Value]], other: Callable[[], Sequence[Value]]
    ) -> list[Phi]:
        """The values of one of two branches."""
        blocks = self.append_block("then"), self.append_block("else")
        after = self.append_block("after")
        self.cbranch(condition, *blocks)
        results: list[tuple[Sequence[Value], object]] = []
        phis: list[Phi] = []
        for block, emit in zip(blocks, (then, other)):
            self.position_at_end(block)
            results.append((emit(), self.block))
            end = self.block
            self.br(after)
            if not phis:
                phis = [Phi(value.type, f"%merge.{self.function.number()}") for value in results[-1][0]]
            for phi, value in zip(phis, results[-1][0]):
                phi.add_incoming(value, end)
        after.phis.extend(phis)
        self.position_at_end(after)
        return phis


def define(
    module: Module, name: str, params: Sequence[Param | tuple[LLVMType, str]], linkage: str = "internal"
) -> StructuredBuilder:
    """Starts a void function and returns a builder at its entry."""
    function: Function = module.add_function(name, VOID, params, linkage=linkage)
    return StructuredBuilder(function.append_block("entry"))


class Record:
    """Reads fields of a record of i64 numbers by name; every read is a load, where it is asked for."""

    def __init__(self, builder: StructuredBuilder, ptr: Value, slots: Mapping[str, int]) -> None:
        self._builder = builder
        self._slots = slots
        self.ptr = ptr

    def __getitem__(self, name: str) -> Value:
        return self._builder.load_i64(self.ptr, self._slots[name], name)

    def flag(self, name: str) -> Value:
        """Whether a field is not zero."""
        return self._builder.icmp_signed("!=", self[name], self._builder.i64(0))


def emit_parallel_entry(
    module: Module, name: str, params: Sequence[tuple[LLVMType, str]], task: Function, slots: Mapping[str, int]
) -> Function:
    """Defines `void name(params)` that runs `task(context, i)` for all tasks; the context holds the parameters.

    The last parameter points to a record with the fields `num_tasks` and `parallel`, which lie at `slots`.
    """
    builder = define(module, name, params, linkage="")
    context = builder.alloca(I64, len(params), align=8, name="context")
    for slot, arg in enumerate(builder.function.args):
        builder.store_slot(arg, context, slot)
    record = Record(builder, builder.function.args[-1], slots)
    emit_parallel_for(builder, task, context, record["num_tasks"], record.flag("parallel"))
    builder.ret_void()
    return builder.function


def emit_parallel_for(
    builder: StructuredBuilder, task: Function, context: Value, num_tasks: Value, parallel: Value
) -> None:
    """Runs `task(context, i)` for all i: on the thread pool if `parallel`, else here."""
    pool = builder.module.declare("xjit_parallel_for", VOID, (PTR, PTR, I64))
    serial, forked, after = (builder.append_block(label) for label in ("serial", "forked", "joined"))
    builder.cbranch(parallel, forked, serial)
    builder.position_at_end(forked)
    builder.call(pool, (task.value, context, num_tasks))
    builder.br(after)
    builder.position_at_end(serial)
    with builder.loop(builder.i64(0), num_tasks, name="task") as index:
        builder.call(task, (context, index))
    builder.br(after)
    builder.position_at_end(after)
