"""IR of the warm buffer pool: results, arenas and scratch space come from here and return to it.

A fresh large buffer costs more in page faults than most kernels cost in work, so freed blocks are kept on one list per
size class (four classes per power of two), up to a limit in bytes; what would exceed it empties the pool. A block
starts with a 64-byte header that says how it was made, so freeing trusts no size given by others:

    { i64 capacity, ptr next, i64 size class, ptr mapping (null: from posix_memalign), i64 mapping bytes, padding }

Below 64 KiB blocks come from posix_memalign; above, from mmap; from 1 MiB on aligned to 2 MiB and advised to be huge
pages. A spin lock guards the lists (never held during a system call), because scratch space is taken without the GIL.
The `xjit_numpy_*` functions are a NEP 49 data allocator: NumPy frees, and resizes, pooled results through them.
"""

from __future__ import annotations

_CONSTANTS = {
    "$HEADER_BYTES": 64,
    "$NUM_CLASSES": 256,
    "$MAX_REQUEST": 1 << 46,  # larger requests fail at once, before sums overflow
    "$MAP_MIN_BYTES": 64 << 10,
    "$HUGE_MIN_BYTES": 1 << 20,
    "$HUGE_PAGE_BYTES": 2 << 20,
    "$HUGE_PAGE_MASK": (2 << 20) - 1,
}

STATISTICS = ("hits", "misses", "cached_bytes", "limit_bytes", "live_bytes")
"""Names of the 64-bit words at @xjit_buffer_statistics."""


def buffer_pool_ir(system: str) -> str:
    """The IR for `sys.platform`."""
    is_linux = system == "linux"
    text = _STATE + _TAKE_AND_PUT + _ALLOC + _MAKE_AND_DESTROY + _NUMPY
    map_flags = _MAP_PRIVATE_ANONYMOUS_LINUX if is_linux else _MAP_PRIVATE_ANONYMOUS_BSD
    for key, value in {**_CONSTANTS, "$MAP_FLAGS": map_flags, "$ADVISE": _ADVISE_HUGE if is_linux else ""}.items():
        text = text.replace(key, str(value))
    return text


_MAP_PRIVATE_ANONYMOUS_LINUX = 0x22
_MAP_PRIVATE_ANONYMOUS_BSD = 0x1002
_ADVISE_HUGE = "%advised = call i32 @madvise(ptr %start, i64 %capacity, i32 14)"

_STATE = """
%Block = type { i64, ptr, i64, ptr, i64 }
@xjit_buffer_lock = internal global i32 0, align 64
@xjit_buffer_lists = internal global [$NUM_CLASSES x ptr] zeroinitializer, align 64
@xjit_buffer_statistics = global [5 x i64] zeroinitializer, align 64

declare void @xjit_pause()
declare i32 @posix_memalign(ptr, i64, i64)
declare void @free(ptr)
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @munmap(ptr, i64)
declare i32 @madvise(ptr, i64, i32)
declare i64 @llvm.ctlz.i64(i64, i1)
declare i64 @llvm.umin.i64(i64, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare {i64, i1} @llvm.umul.with.overflow.i64(i64, i64)

define internal void @xjit_buffer_acquire() {
entry:
  br label %try
try:
  %swap = cmpxchg ptr @xjit_buffer_lock, i32 0, i32 1 acquire monotonic
  %ok = extractvalue { i32, i1 } %swap, 1
  br i1 %ok, label %exit, label %wait
wait:
  call void @xjit_pause()
  %held = load atomic i32, ptr @xjit_buffer_lock monotonic, align 4
  %busy = icmp ne i32 %held, 0
  br i1 %busy, label %wait, label %try
exit:
  ret void
}
define internal void @xjit_buffer_release() {
  store atomic i32 0, ptr @xjit_buffer_lock release, align 4
  ret void
}
define void @xjit_buffer_after_fork() {
  store atomic i32 0, ptr @xjit_buffer_lock seq_cst, align 4
  ret void
}
define internal void @xjit_buffer_count(i64 %word, i64 %change) {
  %place = getelementptr [5 x i64], ptr @xjit_buffer_statistics, i64 0, i64 %word
  %old = load i64, ptr %place, align 8
  %new = add i64 %old, %change
  store i64 %new, ptr %place, align 8
  ret void
}

; A block that was counted as live is none: it could not be made, or goes back to the system.
define internal void @xjit_buffer_not_live(i64 %capacity) {
  %minus = sub i64 0, %capacity
  call void @xjit_buffer_acquire()
  call void @xjit_buffer_count(i64 4, i64 %minus)
  call void @xjit_buffer_release()
  ret void
}
"""

# take returns null when the list is empty; put returns false when the block does not fit under the limit.
_TAKE_AND_PUT = """
define internal ptr @xjit_buffer_take(i64 %class, i64 %capacity) {
entry:
  %list = getelementptr [$NUM_CLASSES x ptr], ptr @xjit_buffer_lists, i64 0, i64 %class
  call void @xjit_buffer_acquire()
  call void @xjit_buffer_count(i64 4, i64 %capacity)
  %block = load ptr, ptr %list, align 8
  %empty = icmp eq ptr %block, null
  br i1 %empty, label %miss, label %hit
hit:
  %next_ptr = getelementptr %Block, ptr %block, i64 0, i32 1
  %next = load ptr, ptr %next_ptr, align 8
  store ptr %next, ptr %list, align 8
  %minus = sub i64 0, %capacity
  call void @xjit_buffer_count(i64 2, i64 %minus)
  call void @xjit_buffer_count(i64 0, i64 1)
  call void @xjit_buffer_release()
  ret ptr %block
miss:
  call void @xjit_buffer_count(i64 1, i64 1)
  call void @xjit_buffer_release()
  ret ptr null
}

define internal i1 @xjit_buffer_put(ptr %block) {
entry:
  %capacity = load i64, ptr %block, align 8
  %class_ptr = getelementptr %Block, ptr %block, i64 0, i32 2
  %class = load i64, ptr %class_ptr, align 8
  %list = getelementptr [$NUM_CLASSES x ptr], ptr @xjit_buffer_lists, i64 0, i64 %class
  %next_ptr = getelementptr %Block, ptr %block, i64 0, i32 1
  %cached_ptr = getelementptr [5 x i64], ptr @xjit_buffer_statistics, i64 0, i64 2
  %limit_ptr = getelementptr [5 x i64], ptr @xjit_buffer_statistics, i64 0, i64 3
  call void @xjit_buffer_acquire()
  %cached = load i64, ptr %cached_ptr, align 8
  %limit = load i64, ptr %limit_ptr, align 8
  %sum = add i64 %cached, %capacity
  %fits = icmp ule i64 %sum, %limit
  br i1 %fits, label %keep, label %full
keep:
  %next = load ptr, ptr %list, align 8
  store ptr %next, ptr %next_ptr, align 8
  store ptr %block, ptr %list, align 8
  store i64 %sum, ptr %cached_ptr, align 8
  %minus = sub i64 0, %capacity
  call void @xjit_buffer_count(i64 4, i64 %minus)
  call void @xjit_buffer_release()
  ret i1 true
full:
  call void @xjit_buffer_release()
  ret i1 false
}

; Returns all cached blocks to the system.
define void @xjit_buffer_trim() {
entry:
  br label %class
class:
  %i = phi i64 [ 0, %entry ], [ %i_next, %class_end ]
  %list = getelementptr [$NUM_CLASSES x ptr], ptr @xjit_buffer_lists, i64 0, i64 %i
  br label %pop
pop:
  call void @xjit_buffer_acquire()
  %block = load ptr, ptr %list, align 8
  %empty = icmp eq ptr %block, null
  br i1 %empty, label %class_end, label %unlink
unlink:
  %next_ptr = getelementptr %Block, ptr %block, i64 0, i32 1
  %next = load ptr, ptr %next_ptr, align 8
  store ptr %next, ptr %list, align 8
  %capacity = load i64, ptr %block, align 8
  %minus = sub i64 0, %capacity
  call void @xjit_buffer_count(i64 2, i64 %minus)
  call void @xjit_buffer_release()
  call void @xjit_buffer_destroy(ptr %block)
  br label %pop
class_end:
  call void @xjit_buffer_release()
  %i_next = add i64 %i, 1
  %more = icmp ult i64 %i_next, $NUM_CLASSES
  br i1 %more, label %class, label %exit
exit:
  ret void
}
"""

# A request of n bytes with its header lies in (2^b, 2^(b+1)]; the capacity is the next multiple of 2^(b-2).
_ALLOC = """
define ptr @xjit_scratch_alloc(i64 %bytes) {
entry:
  %huge = icmp ugt i64 %bytes, $MAX_REQUEST
  br i1 %huge, label %fail, label %round
round:
  %with_header = add i64 %bytes, $HEADER_BYTES
  %below = sub i64 %with_header, 1
  %zeros = call i64 @llvm.ctlz.i64(i64 %below, i1 true)
  %b = sub i64 63, %zeros
  %shift = sub i64 %b, 2
  %steps = lshr i64 %below, %shift
  %up = add i64 %steps, 1
  %capacity = shl i64 %up, %shift
  %k = sub i64 %steps, 4
  %b4 = mul i64 %b, 4
  %class = add i64 %b4, %k
  %cached = call ptr @xjit_buffer_take(i64 %class, i64 %capacity)
  %have = icmp ne ptr %cached, null
  br i1 %have, label %done, label %make
make:
  %made = call ptr @xjit_buffer_make(i64 %class, i64 %capacity)
  %ok = icmp ne ptr %made, null
  br i1 %ok, label %done, label %undo
undo:
  call void @xjit_buffer_not_live(i64 %capacity)
  br label %fail
done:
  %block = phi ptr [ %cached, %round ], [ %made, %make ]
  %data = getelementptr i8, ptr %block, i64 $HEADER_BYTES
  ret ptr %data
fail:
  ret ptr null
}

define void @xjit_scratch_free(ptr %data) {
entry:
  %null = icmp eq ptr %data, null
  br i1 %null, label %exit, label %put
put:
  %block = getelementptr i8, ptr %data, i64 -$HEADER_BYTES
  %kept = call i1 @xjit_buffer_put(ptr %block)
  br i1 %kept, label %exit, label %trim
trim:
  call void @xjit_buffer_trim()
  %kept_now = call i1 @xjit_buffer_put(ptr %block)
  br i1 %kept_now, label %exit, label %drop
drop:
  %capacity = load i64, ptr %block, align 8
  call void @xjit_buffer_not_live(i64 %capacity)
  call void @xjit_buffer_destroy(ptr %block)
  br label %exit
exit:
  ret void
}
"""

_MAKE_AND_DESTROY = """
define internal ptr @xjit_buffer_make(i64 %class, i64 %capacity) {
entry:
  %slot = alloca ptr, align 8
  %small = icmp ult i64 %capacity, $MAP_MIN_BYTES
  br i1 %small, label %heap, label %map
heap:
  %error = call i32 @posix_memalign(ptr %slot, i64 64, i64 %capacity)
  %ok = icmp eq i32 %error, 0
  br i1 %ok, label %from_heap, label %fail
from_heap:
  %heap_block = load ptr, ptr %slot, align 8
  br label %fill
map:
  %large = icmp uge i64 %capacity, $HUGE_MIN_BYTES
  %slack = select i1 %large, i64 $HUGE_PAGE_BYTES, i64 0
  %length = add i64 %capacity, %slack
  %mapping = call ptr @mmap(ptr null, i64 %length, i32 3, i32 $MAP_FLAGS, i32 -1, i64 0)
  %mapping_int = ptrtoint ptr %mapping to i64
  %failed = icmp eq i64 %mapping_int, -1
  br i1 %failed, label %fail, label %mapped
mapped:
  br i1 %large, label %align, label %fill
align:
  %last = add i64 %mapping_int, $HUGE_PAGE_MASK
  %start_int = and i64 %last, -$HUGE_PAGE_BYTES
  %start = inttoptr i64 %start_int to ptr
  $ADVISE
  br label %fill
fill:
  %block = phi ptr [ %heap_block, %from_heap ], [ %mapping, %mapped ], [ %start, %align ]
  %origin = phi ptr [ null, %from_heap ], [ %mapping, %mapped ], [ %mapping, %align ]
  %bytes = phi i64 [ 0, %from_heap ], [ %length, %mapped ], [ %length, %align ]
  store i64 %capacity, ptr %block, align 8
  %class_ptr = getelementptr %Block, ptr %block, i64 0, i32 2
  store i64 %class, ptr %class_ptr, align 8
  %origin_ptr = getelementptr %Block, ptr %block, i64 0, i32 3
  store ptr %origin, ptr %origin_ptr, align 8
  %bytes_ptr = getelementptr %Block, ptr %block, i64 0, i32 4
  store i64 %bytes, ptr %bytes_ptr, align 8
  ret ptr %block
fail:
  ret ptr null
}

define internal void @xjit_buffer_destroy(ptr %block) {
entry:
  %origin_ptr = getelementptr %Block, ptr %block, i64 0, i32 3
  %origin = load ptr, ptr %origin_ptr, align 8
  %heap = icmp eq ptr %origin, null
  br i1 %heap, label %to_heap, label %unmap
to_heap:
  call void @free(ptr %block)
  ret void
unmap:
  %bytes_ptr = getelementptr %Block, ptr %block, i64 0, i32 4
  %bytes = load i64, ptr %bytes_ptr, align 8
  %error = call i32 @munmap(ptr %origin, i64 %bytes)
  ret void
}
"""

_NUMPY = """
define ptr @xjit_numpy_malloc(ptr %context, i64 %bytes) {
  %data = call ptr @xjit_scratch_alloc(i64 %bytes)
  ret ptr %data
}
define ptr @xjit_numpy_calloc(ptr %context, i64 %count, i64 %size) {
entry:
  %product = call {i64, i1} @llvm.umul.with.overflow.i64(i64 %count, i64 %size)
  %overflow = extractvalue {i64, i1} %product, 1
  %bytes = extractvalue {i64, i1} %product, 0
  br i1 %overflow, label %fail, label %alloc
alloc:
  %data = call ptr @xjit_scratch_alloc(i64 %bytes)
  %null = icmp eq ptr %data, null
  br i1 %null, label %fail, label %clear
clear:
  call void @llvm.memset.p0.i64(ptr align 64 %data, i8 0, i64 %bytes, i1 false)
  ret ptr %data
fail:
  ret ptr null
}
define ptr @xjit_numpy_realloc(ptr %context, ptr %data, i64 %bytes) {
entry:
  %fresh = call ptr @xjit_scratch_alloc(i64 %bytes)
  %failed = icmp eq ptr %fresh, null
  %nothing = icmp eq ptr %data, null
  %stop = or i1 %failed, %nothing
  br i1 %stop, label %exit, label %move
move:
  %block = getelementptr i8, ptr %data, i64 -$HEADER_BYTES
  %capacity = load i64, ptr %block, align 8
  %room = sub i64 %capacity, $HEADER_BYTES
  %count = call i64 @llvm.umin.i64(i64 %room, i64 %bytes)
  call void @llvm.memcpy.p0.p0.i64(ptr align 64 %fresh, ptr align 64 %data, i64 %count, i1 false)
  call void @xjit_scratch_free(ptr %data)
  br label %exit
exit:
  ret ptr %fresh
}
define void @xjit_numpy_free(ptr %context, ptr %data, i64 %bytes) {
  call void @xjit_scratch_free(ptr %data)
  ret void
}
"""
