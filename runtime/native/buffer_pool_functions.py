"""The warm buffer pool: results, arenas and scratch space come from here and return to it.

A fresh large buffer costs more in page faults than most kernels cost in work, so freed blocks are kept, up to a limit
in bytes; what would exceed it empties the pool. `buffer_records` says what is kept, `buffer_lists` how blocks are taken
and put, `buffer_blocks` how they are made.

* `ptr xjit_scratch_alloc(i64 bytes)`: 64-byte aligned, null if there is no memory. `void xjit_scratch_free(ptr)`.
* The `xjit_numpy_*` functions are a NEP 49 data allocator: NumPy frees, and resizes, pooled results through them.
"""

from __future__ import annotations

from xjit.llvm import Module, Value
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I1, I8, I64, PTR, int_type
from xjit.llvm.values import const_int, zero
from xjit.runtime.native.buffer_blocks import define_block_functions
from xjit.runtime.native.buffer_lists import define_list_functions
from xjit.runtime.native.buffer_records import BLOCK, MAX_REQUEST, add_buffer_variables


def define_buffer_pool(module: Module, system: str) -> None:
    """Defines the pool for `sys.platform`."""
    define_block_functions(module, system)
    define_list_functions(module, add_buffer_variables(module))
    _define_alloc(module)
    _define_free(module)
    _define_numpy_malloc(module)
    _define_numpy_calloc(module)
    _define_numpy_realloc(module)
    _define_numpy_free(module)


def _define_alloc(module: Module) -> None:
    builder = define(module, "xjit_scratch_alloc", [(I64, "bytes")], linkage="", return_type=PTR)
    (num_bytes,) = builder.function.args
    with builder.when(builder.icmp_unsigned(">", num_bytes, builder.i64(MAX_REQUEST))):
        builder.ret(zero(PTR))
    size_class, capacity = _class_and_capacity(builder, num_bytes)
    cached = builder.call(module.functions["xjit_buffer_take"], [size_class, capacity], name="cached")
    with builder.when(builder.not_(builder.is_null(cached))):
        builder.ret(builder.offset(cached, builder.i64(BLOCK.size)))
    made = builder.call(module.functions["xjit_buffer_make"], [size_class, capacity], name="made")
    with builder.when(builder.is_null(made)):
        builder.call(module.functions["xjit_buffer_not_live"], [capacity])
        builder.ret(zero(PTR))
    builder.ret(builder.offset(made, builder.i64(BLOCK.size)))


def _class_and_capacity(builder: StructuredBuilder, num_bytes: Value) -> tuple[Value, Value]:
    """A block for n bytes of data and its header has size class 4 b + k and (5 + k) 2^(b-2) bytes, k = 0..3.

    That is: with its header, it needs more than 2^b and at most 2^(b+1) bytes, and gets the next multiple of 2^(b-2).
    """
    below = builder.add(num_bytes, builder.i64(BLOCK.size - 1))
    zeros = builder.intrinsic("ctlz", I64, [below, const_int(I1, 1)])
    exponent = builder.sub(builder.i64(63), zeros)
    shift = builder.sub(exponent, builder.i64(2))
    steps = builder.lshr(below, shift)
    capacity = builder.shl(builder.add(steps, builder.i64(1)), shift)
    position = builder.sub(steps, builder.i64(4))
    return builder.add(builder.mul(exponent, builder.i64(4)), position), capacity


def _define_free(module: Module) -> None:
    builder = define(module, "xjit_scratch_free", [(PTR, "data")], linkage="")
    (data,) = builder.function.args
    with builder.when(builder.is_null(data)):
        builder.ret_void()
    block = builder.offset(data, builder.i64(-BLOCK.size))
    put = module.functions["xjit_buffer_put"]
    with builder.when(builder.call(put, [block], name="is_kept")):
        builder.ret_void()
    builder.call(module.functions["xjit_buffer_trim"], [])
    with builder.when(builder.call(put, [block], name="is_kept")):
        builder.ret_void()
    builder.call(module.functions["xjit_buffer_not_live"], [BLOCK.load(builder, block, "capacity")])
    builder.call(module.functions["xjit_buffer_destroy"], [block])
    builder.ret_void()


def _define_numpy_malloc(module: Module) -> None:
    builder = define(module, "xjit_numpy_malloc", [(PTR, "context"), (I64, "bytes")], linkage="", return_type=PTR)
    builder.ret(builder.call(module.functions["xjit_scratch_alloc"], builder.function.args[1:], name="data"))


def _define_numpy_calloc(module: Module) -> None:
    params = [(PTR, "context"), (I64, "count"), (I64, "size")]
    builder = define(module, "xjit_numpy_calloc", params, linkage="", return_type=PTR)
    count, size = (builder.zext(arg, int_type(128)) for arg in builder.function.args[1:])
    product = builder.mul(count, size)
    with builder.when(builder.icmp_unsigned(">", product, const_int(product.type, MAX_REQUEST))):
        builder.ret(zero(PTR))
    num_bytes = builder.trunc(product, I64)
    data = builder.call(module.functions["xjit_scratch_alloc"], [num_bytes], name="data")
    with builder.when(builder.not_(builder.is_null(data))):
        builder.memset(data, const_int(I8, 0), num_bytes, align=BLOCK.align)
    builder.ret(data)


def _define_numpy_realloc(module: Module) -> None:
    params = [(PTR, "context"), (PTR, "data"), (I64, "bytes")]
    builder = define(module, "xjit_numpy_realloc", params, linkage="", return_type=PTR)
    _, data, num_bytes = builder.function.args
    fresh = builder.call(module.functions["xjit_scratch_alloc"], [num_bytes], name="fresh")
    with builder.when(builder.or_(builder.is_null(fresh), builder.is_null(data))):
        builder.ret(fresh)
    block = builder.offset(data, builder.i64(-BLOCK.size))
    room = builder.sub(BLOCK.load(builder, block, "capacity"), builder.i64(BLOCK.size))
    builder.memcpy(fresh, data, builder.intrinsic("umin", I64, [room, num_bytes]), align=BLOCK.align)
    builder.call(module.functions["xjit_scratch_free"], [data])
    builder.ret(fresh)


def _define_numpy_free(module: Module) -> None:
    builder = define(module, "xjit_numpy_free", [(PTR, "context"), (PTR, "data"), (I64, "bytes")], linkage="")
    builder.call(module.functions["xjit_scratch_free"], builder.function.args[1:2])
    builder.ret_void()
