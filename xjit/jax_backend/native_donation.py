"""Which arguments of a call are donated, as native code.

* `i1 xjit_may_donate(options, i64 parameter, buffer)`: unless the caller keeps that argument, or has an external
  reference to it: then it is a copy that the call takes.
* `ptr xjit_claim_donations(executable, options, buffers, donated)`: deletes the donated arguments and sets their
  entries of `donated` to `CLAIMED`, those of others to 0. Returns null; or an error, with all as it was, if one array
  is donated twice, or donated and read besides.
"""

from __future__ import annotations

from typing import Final

from xjit.jax_backend.c_api import EXECUTE_OPTIONS
from xjit.jax_backend.records import ARRAY, BUFFER, EXECUTABLE, NOT_DONATED
from xjit.llvm import Module, Value
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I1, I8, I32, I64, PTR
from xjit.llvm.values import const_int, zero

CLAIMED: Final = 2

DONATED_TWICE: Final = -1
"""For Python's function for failures, in place of a status: the instruction is an argument, the detail its first."""

DONATED_AND_READ: Final = -2
"""Likewise."""


def define_donation(module: Module, status_error: str) -> None:
    """Defines both. The module must have buffers; `status_error` is the variable of Python's function for failures."""
    _define_may_donate(module)
    _Claim(module, status_error).emit()


def _define_may_donate(module: Module) -> None:
    names = [(PTR, "options"), (I64, "parameter"), (PTR, "buffer")]
    builder = define(module, "xjit_may_donate", names, return_type=I1)
    options, parameter, buffer = builder.function.args
    references = BUFFER.load_atomic(builder, buffer, "external_references", "acquire")
    with builder.when(builder.icmp_signed("!=", references, builder.i64(0))):
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

    def __init__(self, module: Module, status_error: str) -> None:
        self._functions = module.functions
        self._status_error = status_error
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
                self._refuse(DONATED_AND_READ, i)
        builder.ret(zero(PTR))

    def _delete(self) -> Value:
        """Deletes what is donated; the number of arguments that are."""
        builder = self.builder
        parameters = EXECUTABLE.load(builder, self._executable, "parameters")
        number = builder.alloca(I64, align=8, name="number")
        builder.store(builder.i64(0), number, align=8)
        with builder.loop(builder.i64(0), self._count) as i:
            to = ARRAY.load(builder, ARRAY.element(builder, parameters, i), "donated_to")
            with builder.when(builder.icmp_signed("!=", to, builder.i64(NOT_DONATED))):
                asked = [self._options, i, self._buffer(i)]
                with builder.when(builder.call(self._functions["xjit_may_donate"], asked, name="may")):
                    owned = builder.call(self._functions["xjit_buffer_disown"], [self._buffer(i)], name="was_owned")
                    with builder.when(builder.not_(owned)):
                        self._refuse(DONATED_TWICE, i)
                    builder.store(builder.i64(CLAIMED), builder.gep(I64, self._donated, i), align=8)
                    builder.store(builder.add(builder.load(I64, number, align=8), builder.i64(1)), number, align=8)
        return builder.load(I64, number, align=8)

    def _refuse(self, status: int, index: Value) -> None:
        """Gives back what was claimed and returns the error for an argument."""
        builder = self.builder
        with builder.loop(builder.i64(0), self._count) as i:
            claimed = builder.icmp_signed("!=", self._claim(i), builder.i64(0))
            with builder.when(claimed):
                BUFFER.store_atomic(builder, self._buffer(i), "is_deleted", const_int(I32, 0), "release")
        function = builder.load(PTR, Value(PTR, f"@{self._status_error}"), align=8, name="function")
        with builder.loop(builder.i64(0), self._count) as first:
            same = builder.icmp_signed(
                "==", builder.ptrtoint(self._buffer(first), I64), builder.ptrtoint(self._buffer(index), I64)
            )
            with builder.when(same):
                builder.ret(builder.call_pointer(function, PTR, [self._executable, builder.i64(status), index, first]))
        builder.ret(zero(PTR))

    def _buffer(self, i: Value) -> Value:
        return self.builder.load(PTR, self.builder.gep(PTR, self._buffers, i), align=8, name="buffer")

    def _claim(self, i: Value) -> Value:
        return self.builder.load(I64, self.builder.gep(I64, self._donated, i), align=8, name="claim")
