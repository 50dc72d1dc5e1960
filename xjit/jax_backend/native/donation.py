"""Which arguments of a call are donated, as native code.

* `i1 xjit_donation_is_asked(executable, options, i64 parameter)`: unless the program or the caller keeps that argument.
* `ptr xjit_claim_donations(executable, options, buffers, donated)`: deletes the donated arguments and sets their
  entries of `donated` to `CLAIMED`, those of others to 0; one with an external reference is a copy that the call
  takes. Returns null; or an error, with all as it was, if one array is donated twice, or donated and read besides.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Final

from xjit.jax_backend.c_api import EXECUTE_OPTIONS
from xjit.jax_backend.native.calls import status_error
from xjit.jax_backend.records import ARRAY, BUFFER, EXECUTABLE, NOT_DONATED
from xjit.llvm import Module, Value
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I1, I8, I32, I64, PTR
from xjit.llvm.values import const_int, zero

CLAIMED: Final = 2

DONATED_TWICE: Final = -1
"""For Python's function for failures, in place of a status: the instruction is an argument, the detail its first."""

DONATED_THEN_READ: Final = -2
"""Likewise."""

READ_THEN_DONATED: Final = -3
"""Likewise."""

ARGUMENT_DELETED: Final = -4
"""Likewise, without the detail."""


def define_donation(module: Module) -> None:
    """Defines both. The module must have buffers and calls."""
    _define_is_asked(module)
    _Claim(module).emit()


def _define_is_asked(module: Module) -> None:
    names = [(PTR, "executable"), (PTR, "options"), (I64, "parameter")]
    builder = define(module, "xjit_donation_is_asked", names, return_type=I1)
    executable, options, parameter = builder.function.args
    parameters = EXECUTABLE.load(builder, executable, "parameters")
    to = ARRAY.load(builder, ARRAY.element(builder, parameters, parameter), "donated_to")
    with builder.when(builder.icmp_signed("==", to, builder.i64(NOT_DONATED))):
        builder.ret(const_int(I1, 0))
    with builder.when(builder.is_null(options)):
        builder.ret(const_int(I1, 1))
    kept = EXECUTE_OPTIONS.load(builder, options, "non_donatable_input_indices")
    number = EXECUTE_OPTIONS.load(builder, options, "num_non_donatable_input_indices")
    with builder.loop(builder.i64(0), number) as i:
        index = builder.load(I64, builder.gep(I64, kept, i), align=8)
        with builder.when(builder.icmp_signed("==", index, parameter)):
            builder.ret(const_int(I1, 0))
    builder.ret(const_int(I1, 1))


class _Claim:
    """Emits `xjit_claim_donations`."""

    def __init__(self, module: Module) -> None:
        self._functions = module.functions
        parameters = [(PTR, name) for name in ("executable", "options", "buffers", "donated")]
        self.builder: StructuredBuilder = define(module, "xjit_claim_donations", parameters, return_type=PTR)
        self._executable, self._options, self._buffers, self._donated = self.builder.function.args
        self._count = EXECUTABLE.load(self.builder, self._executable, "num_parameters")

    def emit(self) -> None:
        builder = self.builder
        builder.memset(self._donated, const_int(I8, 0), builder.mul(self._count, builder.i64(8)), align=8)
        with builder.when(builder.icmp_signed("==", self._delete(), builder.i64(0))):
            builder.ret(zero(PTR))
        with builder.loop(builder.i64(0), self._count) as i:
            kept = builder.icmp_signed("==", self._claim(i), builder.i64(0))
            deleted = BUFFER.load_atomic(builder, self._buffer(i), "is_deleted", "acquire")
            with builder.when(builder.and_(kept, builder.icmp_signed("!=", deleted, const_int(I32, 0)))):
                self._refuse(i)
        builder.ret(zero(PTR))

    def _delete(self) -> Value:
        """Deletes what is donated and has no external reference; the number of arguments that are."""
        builder = self.builder
        number = builder.alloca(I64, align=8, name="number")
        builder.store(builder.i64(0), number, align=8)
        with builder.loop(builder.i64(0), self._count) as i, builder.when(self._is_asked(i)):
            references = BUFFER.load_atomic(builder, self._buffer(i), "external_references", "acquire")
            is_viewed = builder.icmp_signed("!=", references, builder.i64(0))
            with builder.when(is_viewed), self._others(i):
                self._refuse(i)
            with builder.when(builder.not_(is_viewed)):
                owned = builder.call(self._functions["xjit_buffer_disown"], [self._buffer(i)], name="was_owned")
                with builder.when(builder.not_(owned)):
                    self._refuse(i)
                builder.store(builder.i64(CLAIMED), builder.gep(I64, self._donated, i), align=8)
                builder.store(builder.add(builder.load(I64, number, align=8), builder.i64(1)), number, align=8)
        return builder.load(I64, number, align=8)

    def _refuse(self, index: Value) -> None:
        """Gives back what was claimed and returns the error for an argument that is another one, too."""
        builder = self.builder
        with builder.loop(builder.i64(0), self._count) as i:
            claimed = builder.icmp_signed("!=", self._claim(i), builder.i64(0))
            with builder.when(claimed):
                BUFFER.store_atomic(builder, self._buffer(i), "is_deleted", const_int(I32, 0), "release")
        with self._others(index) as other:
            is_first = builder.icmp_signed("<", index, other)
            first, second = builder.select(is_first, index, other), builder.select(is_first, other, index)
            unless_twice = builder.select(
                self._is_asked(first), builder.i64(DONATED_THEN_READ), builder.i64(READ_THEN_DONATED)
            )
            both = builder.and_(self._is_asked(first), self._is_asked(second))
            self._fail(builder.select(both, builder.i64(DONATED_TWICE), unless_twice), second, first)
        self._fail(builder.i64(DONATED_TWICE), index, index)  # by another call at the same time

    def _fail(self, status: Value, index: Value, first: Value) -> None:
        self.builder.ret(status_error(self.builder, self._executable, status, index, first))

    @contextlib.contextmanager
    def _others(self, index: Value) -> Generator[Value]:
        """Code that runs for each other argument with the same buffer."""
        builder = self.builder
        buffer = builder.ptrtoint(self._buffer(index), I64)
        with builder.loop(builder.i64(0), self._count) as i:
            is_same = builder.icmp_signed("==", builder.ptrtoint(self._buffer(i), I64), buffer)
            with builder.when(builder.and_(is_same, builder.icmp_signed("!=", i, index))):
                yield i

    def _is_asked(self, i: Value) -> Value:
        function = self._functions["xjit_donation_is_asked"]
        return self.builder.call(function, [self._executable, self._options, i], name="is_asked")

    def _buffer(self, i: Value) -> Value:
        return self.builder.load(PTR, self.builder.gep(PTR, self._buffers, i), align=8, name="buffer")

    def _claim(self, i: Value) -> Value:
        return self.builder.load(I64, self.builder.gep(I64, self._donated, i), align=8, name="claim")
