"""Blocks of the buffer pool come from the system here, and go back to it.

Below 64 KiB they come from posix_memalign; above, from mmap; from 1 MiB on aligned to 2 MiB and advised to be huge
pages.
"""

from __future__ import annotations

from xjit.llvm import Module, Value
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I32, I64, PTR, VOID
from xjit.llvm.values import const_int, zero
from xjit.runtime.native.buffer_records import BLOCK

_MAP_MIN_BYTES = 64 << 10
_HUGE_MIN_BYTES = 1 << 20
_HUGE_PAGE_BYTES = 2 << 20

_READ_WRITE = 3  # PROT_READ | PROT_WRITE
_MAP_PRIVATE_ANONYMOUS = {"linux": 0x22, "darwin": 0x1002}
_MADV_HUGEPAGE = 14  # Linux


def define_block_functions(module: Module, system: str) -> None:
    """Defines `xjit_buffer_make` and `xjit_buffer_destroy` for `sys.platform`."""
    _define_heap_block(module)
    _define_mapped_block(module, system)
    _define_make(module)
    _define_destroy(module)


def _define_make(module: Module) -> None:
    """`ptr xjit_buffer_make(i64 size_class, i64 capacity)`: a new block, or null."""
    builder = define(module, "xjit_buffer_make", [(I64, "size_class"), (I64, "capacity")], return_type=PTR)
    arguments = builder.function.args
    is_small = builder.icmp_unsigned("<", arguments[1], builder.i64(_MAP_MIN_BYTES))
    with builder.when(is_small):
        builder.ret(builder.call(module.functions["xjit_heap_block"], arguments, name="block"))
    builder.ret(builder.call(module.functions["xjit_mapped_block"], arguments, name="block"))


def _define_heap_block(module: Module) -> None:
    builder = define(module, "xjit_heap_block", [(I64, "size_class"), (I64, "capacity")], return_type=PTR)
    size_class, capacity = builder.function.args
    slot = builder.alloca(PTR, align=8, name="slot")
    memalign = module.declare("posix_memalign", I32, [PTR, I64, I64])
    error = builder.call(memalign, [slot, builder.i64(BLOCK.align), capacity], name="error")
    with builder.when(builder.icmp_signed("!=", error, const_int(I32, 0))):
        builder.ret(zero(PTR))
    block = builder.load(PTR, slot, align=8, name="block")
    _fill(builder, block, size_class, capacity, zero(PTR), builder.i64(0))
    builder.ret(block)


def _define_mapped_block(module: Module, system: str) -> None:
    builder = define(module, "xjit_mapped_block", [(I64, "size_class"), (I64, "capacity")], return_type=PTR)
    size_class, capacity = builder.function.args
    is_large = builder.icmp_unsigned(">=", capacity, builder.i64(_HUGE_MIN_BYTES))
    slack = builder.select(is_large, builder.i64(_HUGE_PAGE_BYTES), builder.i64(0))
    length = builder.add(capacity, slack)
    flags = _MAP_PRIVATE_ANONYMOUS.get(system, _MAP_PRIVATE_ANONYMOUS["darwin"])
    numbers = [const_int(I32, number) for number in (_READ_WRITE, flags, -1)]
    mmap = module.declare("mmap", PTR, [PTR, I64, I32, I32, I32, I64])
    mapping = builder.call(mmap, [zero(PTR), length, *numbers, builder.i64(0)], name="mapping")
    address = builder.ptrtoint(mapping, I64)
    with builder.when(builder.icmp_signed("==", address, builder.i64(-1))):
        builder.ret(zero(PTR))
    last = builder.add(address, builder.i64(_HUGE_PAGE_BYTES - 1))
    aligned = builder.inttoptr(builder.and_(last, builder.i64(-_HUGE_PAGE_BYTES)), PTR)
    block = builder.select(is_large, aligned, mapping)
    if system == "linux":
        with builder.when(is_large):
            advise = module.declare("madvise", I32, [PTR, I64, I32])
            builder.call(advise, [block, capacity, const_int(I32, _MADV_HUGEPAGE)])
    _fill(builder, block, size_class, capacity, mapping, length)
    builder.ret(block)


def _fill(
    builder: StructuredBuilder, block: Value, size_class: Value, capacity: Value, mapping: Value, length: Value
) -> None:
    BLOCK.store(builder, block, "capacity", capacity)
    BLOCK.store(builder, block, "size_class", size_class)
    BLOCK.store(builder, block, "mapping", mapping)
    BLOCK.store(builder, block, "mapping_bytes", length)


def _define_destroy(module: Module) -> None:
    """`void xjit_buffer_destroy(block)`: gives it back to the system."""
    builder = define(module, "xjit_buffer_destroy", [(PTR, "block")])
    (block,) = builder.function.args
    mapping = BLOCK.load(builder, block, "mapping")
    with builder.when(builder.is_null(mapping)):
        builder.call(module.declare("free", VOID, [PTR]), [block])
        builder.ret_void()
    length = BLOCK.load(builder, block, "mapping_bytes")
    builder.call(module.declare("munmap", I32, [PTR, I64]), [mapping, length])
    builder.ret_void()
