"""What generated code calls with its context: the first failure is kept, memory that is not there is one."""

from __future__ import annotations

import ctypes
import struct
import threading

from xjit.llvm.execution_context import EXECUTION_CONTEXT, RuntimeStatus, initial_context
from xjit.runtime.buffer_pool import pooled_library
from xjit.runtime.native import library

Context = ctypes.Array[ctypes.c_char]


def new_context() -> Context:
    data = initial_context()
    return ctypes.create_string_buffer(data, len(data))


def read(context: Context, field: str) -> int:
    code = {32: "i", 64: "q"}[EXECUTION_CONTEXT.type_of(field).bits]
    return struct.unpack_from(f"<{code}", context, EXECUTION_CONTEXT.offsets[field])[0]


def failure(context: Context) -> tuple[int, int, int, int]:
    return tuple(read(context, field) for field in ("status", "failed_instruction", "detail", "cancel"))  # type: ignore[return-value]


def fail(context: Context, status: int, instruction: int, detail: int) -> None:
    types = (ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.c_int64)
    ctypes.CFUNCTYPE(None, *types)(library().address("xjit_fail"))(context, status, instruction, detail)


def test_the_first_failure_is_kept() -> None:
    context = new_context()
    assert failure(context) == (RuntimeStatus.OK, -1, 0, 0)
    fail(context, RuntimeStatus.INTERNAL, 7, -3)
    fail(context, RuntimeStatus.RESOURCE_EXHAUSTED, 8, 99)
    assert failure(context) == (RuntimeStatus.INTERNAL, 7, -3, 1)


def test_one_of_many_failures_at_once_is_kept_whole() -> None:
    for _ in range(50):
        context = new_context()
        start = threading.Barrier(4)

        def work(number: int, context: Context = context, start: threading.Barrier = start) -> None:
            start.wait()
            fail(context, number, number * 10, number * 100)

        workers = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        status, instruction, detail, cancel = failure(context)
        assert (instruction, detail, cancel) == (status * 10, status * 100, 1)


def test_memory() -> None:
    native = pooled_library()
    types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32)
    alloc = ctypes.CFUNCTYPE(*types)(native.address("xjit_context_alloc"))
    context = new_context()
    block = alloc(context, 1000, 3)
    assert block and block % 64 == 0 and failure(context) == (RuntimeStatus.OK, -1, 0, 0)
    native.free(block)
    assert alloc(context, 1 << 60, 3) is None
    assert failure(context) == (RuntimeStatus.RESOURCE_EXHAUSTED, 3, 1 << 60, 1)


def test_a_cancelled_call_is_to_end() -> None:
    check = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(library().address("xjit_check_cancel"))
    context = new_context()
    assert not check(context) and not check(context)
    fail(context, RuntimeStatus.CANCELLED, -1, 0)
    assert check(context)
