"""The free blocks of the buffer pool: one list per size class, and a spin lock that guards lists and numbers.

Scratch space is taken without the GIL, from any thread. The lock is never held during a system call.
"""

from __future__ import annotations

from xjit.llvm import Module, Value
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I1, I32, I64, PTR, VOID
from xjit.llvm.values import const_int, zero
from xjit.runtime.native.buffer_records import BLOCK, NUM_CLASSES, STATISTICS, BufferVariables


def define_list_functions(module: Module, variables: BufferVariables) -> None:
    """Defines taking, putting, trimming. The module must have `xjit_buffer_destroy`."""
    _define_acquire(module, variables)
    _define_release(module, variables)
    _define_after_fork(module, variables)
    _define_not_live(module, variables)
    _define_take(module, variables)
    _define_put(module, variables)
    _define_trim(module, variables)


def _define_acquire(module: Module, variables: BufferVariables) -> None:
    builder = define(module, "xjit_buffer_acquire", [])
    free, held = const_int(I32, 0), const_int(I32, 1)
    pause = module.declare("xjit_pause", VOID, [])
    with builder.repeat("try") as attempts:
        _, is_ours = builder.cmpxchg(variables.lock, free, held, "acquire", "monotonic")
        attempts.leave_if(is_ours)
        with builder.repeat("wait") as waiting:
            builder.call(pause, [])
            state = builder.load_atomic(I32, variables.lock, align=4, ordering="monotonic", name="state")
            waiting.leave_if(builder.icmp_signed("==", state, free))
    builder.ret_void()


def _define_release(module: Module, variables: BufferVariables) -> None:
    builder = define(module, "xjit_buffer_release", [])
    builder.store_atomic(const_int(I32, 0), variables.lock, align=4)
    builder.ret_void()


def _define_after_fork(module: Module, variables: BufferVariables) -> None:
    """`void xjit_buffer_after_fork()`: in the child, where a thread that held the lock does not exist."""
    builder = define(module, "xjit_buffer_after_fork", [], linkage="")
    builder.store_atomic(const_int(I32, 0), variables.lock, align=4, ordering="seq_cst")
    builder.ret_void()


def _define_not_live(module: Module, variables: BufferVariables) -> None:
    """`void xjit_buffer_not_live(i64 capacity)`: a block that counts as live could not be made, or was destroyed."""
    builder = define(module, "xjit_buffer_not_live", [(I64, "capacity")])
    (capacity,) = builder.function.args
    _acquire(builder)
    _count(builder, variables, "live_bytes", builder.neg(capacity))
    _release(builder)
    builder.ret_void()


def _define_take(module: Module, variables: BufferVariables) -> None:
    """`ptr xjit_buffer_take(i64 size_class, i64 capacity)`: a free block, or null; it counts as live in both cases."""
    builder = define(module, "xjit_buffer_take", [(I64, "size_class"), (I64, "capacity")], return_type=PTR)
    size_class, capacity = builder.function.args
    first = builder.gep(PTR, variables.lists, size_class)
    _acquire(builder)
    _count(builder, variables, "live_bytes", capacity)
    block = builder.load(PTR, first, align=8, name="block")
    with builder.when(builder.is_null(block)):
        _count(builder, variables, "misses", builder.i64(1))
        _release(builder)
        builder.ret(zero(PTR))
    builder.store(BLOCK.load(builder, block, "next"), first, align=8)
    _count(builder, variables, "cached_bytes", builder.neg(capacity))
    _count(builder, variables, "hits", builder.i64(1))
    _release(builder)
    builder.ret(block)


def _define_put(module: Module, variables: BufferVariables) -> None:
    """`i1 xjit_buffer_put(block)`: frees a live block, or returns false if it does not fit under the limit."""
    builder = define(module, "xjit_buffer_put", [(PTR, "block")], return_type=I1)
    (block,) = builder.function.args
    capacity = BLOCK.load(builder, block, "capacity")
    first = builder.gep(PTR, variables.lists, BLOCK.load(builder, block, "size_class"))
    _acquire(builder)
    cached = builder.add(STATISTICS.load(builder, variables.statistics, "cached_bytes"), capacity)
    limit = STATISTICS.load(builder, variables.statistics, "limit_bytes")
    with builder.when(builder.icmp_unsigned(">", cached, limit)):
        _release(builder)
        builder.ret(const_int(I1, 0))
    BLOCK.store(builder, block, "next", builder.load(PTR, first, align=8))
    builder.store(block, first, align=8)
    STATISTICS.store(builder, variables.statistics, "cached_bytes", cached)
    _count(builder, variables, "live_bytes", builder.neg(capacity))
    _release(builder)
    builder.ret(const_int(I1, 1))


def _define_trim(module: Module, variables: BufferVariables) -> None:
    """`void xjit_buffer_trim()`: returns all free blocks to the system."""
    builder = define(module, "xjit_buffer_trim", [], linkage="")
    with builder.loop(builder.i64(0), builder.i64(NUM_CLASSES), name="size_class") as size_class:
        first = builder.gep(PTR, variables.lists, size_class)
        with builder.repeat("pop") as blocks:
            _acquire(builder)
            block = builder.load(PTR, first, align=8, name="block")
            blocks.leave_if(builder.is_null(block))
            builder.store(BLOCK.load(builder, block, "next"), first, align=8)
            _count(builder, variables, "cached_bytes", builder.neg(BLOCK.load(builder, block, "capacity")))
            _release(builder)
            builder.call(module.functions["xjit_buffer_destroy"], [block])
        _release(builder)
    builder.ret_void()


def _count(builder: StructuredBuilder, variables: BufferVariables, name: str, change: Value) -> None:
    """Changes one of the numbers; the lock is held."""
    old = STATISTICS.load(builder, variables.statistics, name)
    STATISTICS.store(builder, variables.statistics, name, builder.add(old, change))


def _acquire(builder: StructuredBuilder) -> None:
    builder.call(builder.module.functions["xjit_buffer_acquire"], [])


def _release(builder: StructuredBuilder) -> None:
    builder.call(builder.module.functions["xjit_buffer_release"], [])
