"""Sleeping on a 32-bit word, and waking who sleeps there: Linux's futex, within one process."""

from __future__ import annotations

from xjit.llvm import Module, Value
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I32, I64, PTR
from xjit.llvm.values import zero

SYSCALL_NUMBERS = {"x86_64": 202, "aarch64": 98}
"""Of futex, by `platform.machine()`."""

_WAIT, _WAKE = 128, 129  # FUTEX_WAIT | FUTEX_PRIVATE_FLAG, FUTEX_WAKE | FUTEX_PRIVATE_FLAG


def define_futex(module: Module, machine: str) -> None:
    """Defines `void xjit_futex_wait(ptr word, i32 expected)` and `void xjit_futex_wake(ptr word, i32 count)`.

    The first sleeps if the word is as expected, until it is woken; it may also return for no reason.
    """
    for name, operation in (("xjit_futex_wait", _WAIT), ("xjit_futex_wake", _WAKE)):
        builder = define(module, name, [(PTR, "word"), (I32, "number")])
        word, number = builder.function.args
        _futex(builder, SYSCALL_NUMBERS[machine], word, operation, builder.zext(number, I64))
        builder.ret_void()


def _futex(builder: StructuredBuilder, syscall_number: int, word: Value, operation: int, number: Value) -> None:
    # In C, syscall takes any number of arguments. On both machines integers are passed as if it took seven.
    syscall = builder.module.declare("syscall", I64, [I64, PTR, I64, I64, PTR, PTR, I64])
    numbers = builder.i64(syscall_number), builder.i64(operation)
    builder.call(syscall, [numbers[0], word, numbers[1], number, zero(PTR), zero(PTR), builder.i64(0)])
