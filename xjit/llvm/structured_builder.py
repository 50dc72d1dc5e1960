"""A builder with structured control flow, for code whose loops and branches are written by hand.

Role: `for`, `while`, `if` and address arithmetic on i64 values and byte offsets. Invariant: after a `with` block the
builder stands in the block that follows the loop or branch.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from xjit.dataclass import dataclass
from xjit.llvm.builder import IRBuilder
from xjit.llvm.function import Block, Function, Param, Phi
from xjit.llvm.module import Module
from xjit.llvm.types import I1, I8, I64, PTR, VOID, LLVMType
from xjit.llvm.values import Value, const_int, zero


class StructuredBuilder(IRBuilder):
    """An `IRBuilder` with loops and branches as context managers. Offsets are bytes."""

    __slots__ = ()

    def is_null(self, ptr: Value) -> Value:
        """Whether a pointer is null."""
        return self.icmp_signed("==", ptr, zero(ptr.type))

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
        """`for i in range(start, stop, step)` of signed integers, with a positive step; the body may not run at all."""
        with self.loop_with(start, stop, (), step, name) as (index, _, _):
            yield index

    @contextmanager
    def loop_with(
        self, start: Value, stop: Value, initial: Sequence[Value], step: Value | int = 1, name: str = "i"
    ) -> Generator[tuple[Value, list[Phi], list[Value]]]:
        """A loop with carried values: yields (index, values now, list that the body must fill with the next values).

        After the loop the phis hold the final values.
        """
        step = const_int(start.type, step) if isinstance(step, int) else step
        before = self.block
        header, body, after = (self.append_block(f"{name}_{part}") for part in ("head", "body", "exit"))
        self.br(header)
        self.position_at_end(header)
        index = self.phi(start.type, [(start, before)], name)
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
    def repeat(self, name: str = "loop") -> Generator[Loop]:
        """Runs the body again and again, until the `Loop` that is yielded leaves it."""
        head, after = self.append_block(f"{name}_head"), self.append_block(f"{name}_exit")
        self.br(head)
        self.position_at_end(head)
        yield Loop(self, head, after)
        if not self.block.is_terminated:
            self.br(head)
        self.position_at_end(after)

    @contextmanager
    def when(self, condition: Value) -> Generator[None]:
        """Runs the body if `condition` holds; there is no branch where it is known to."""
        if condition.type is I1 and condition.constant == 1:
            yield
            if self.block.is_terminated:
                self.position_at_end(self.append_block("after"))
            return
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


@dataclass(frozen=True, slots=True)
class Loop:
    """The ways out of the body of a `StructuredBuilder.repeat`, also from the loops and branches inside it."""

    builder: StructuredBuilder
    head: Block
    after: Block

    def leave_if(self, condition: Value) -> None:
        """Ends the loop if `condition` holds."""
        self._jump_if(condition, self.after)

    def again_if(self, condition: Value) -> None:
        """Starts over at the head if `condition` holds."""
        self._jump_if(condition, self.head)

    def _jump_if(self, condition: Value, target: Block) -> None:
        rest = self.builder.append_block("rest")
        self.builder.cbranch(condition, target, rest)
        self.builder.position_at_end(rest)


def define(
    module: Module,
    name: str,
    params: Sequence[Param | tuple[LLVMType, str]],
    linkage: str = "internal",
    return_type: LLVMType = VOID,
) -> StructuredBuilder:
    """Starts a function and returns a builder at its entry."""
    function: Function = module.add_function(name, return_type, params, linkage=linkage)
    return StructuredBuilder(function.append_block("entry"))
