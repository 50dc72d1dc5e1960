"""IR of the native call path: a METH_FASTCALL function that serves every executable from a table.

`self` is a capsule that points to a `%Call` record (built by `xjit.runtime.fast_call`). The function compares each
argument with its record, allocates the results, calls the entry, and returns the array or the flat tuple of arrays.
Whatever does not fit exactly goes to the Python callable `slow`, with the same arguments. It holds the GIL except,
optionally, around the entry.

Offsets into PyArrayObject and PyCapsule are fixed numbers here; `xjit.runtime.fast_call` verifies them before use.
Results of at least `POOLED_MIN_BYTES` live in pooled blocks: the array is created around the block, then marked as the
owner (OWNDATA) with our NEP 49 handler, so that NumPy returns the block to the pool with the last reference.
"""

from __future__ import annotations

from xjit.llvm.execution_context import EXECUTION_CONTEXT

POOLED_MIN_BYTES = 1024
"""Below, NumPy's own small-block cache is faster and its alignment good enough."""

# Call:      entry, #parameters, #results, parameters, results, constants,
#            arena size, release GIL, returns tuple, slow, on error, initial context
# Parameter: descriptor, rank, dimensions, required flags, alignment mask
# Result:    descriptor, rank, dimensions, bytes, order flag (1: C, 2: Fortran)
FAST_CALL_IR = """
%Call = type { ptr, i64, i64, ptr, ptr, ptr, i64, i64, i64, ptr, ptr, ptr }
%Parameter = type { ptr, i64, ptr, i64, i64 }
%Result = type { ptr, i64, ptr, i64, i64 }
@xjit_mem_handler = global ptr null, align 8
@PyArray_Type = external global i8

declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyErr_NoMemory()
declare ptr @PyLong_FromLong(i64)
declare ptr @PyArray_NewFromDescr(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)

; The data pointer of %object if it is what %record asks for, else null.
define internal ptr @xjit_match(ptr %object, ptr %record) {
entry:
  %type_ptr = getelementptr i8, ptr %object, i64 8
  %type = load ptr, ptr %type_ptr, align 8
  %is_array = icmp eq ptr %type, @PyArray_Type
  br i1 %is_array, label %check, label %miss
check:
  %descr_ptr = getelementptr i8, ptr %object, i64 56
  %descr = load ptr, ptr %descr_ptr, align 8
  %want_descr = load ptr, ptr %record, align 8
  %same_descr = icmp eq ptr %descr, %want_descr
  %rank_ptr = getelementptr i8, ptr %object, i64 24
  %rank32 = load i32, ptr %rank_ptr, align 4
  %rank = sext i32 %rank32 to i64
  %want_rank_ptr = getelementptr %Parameter, ptr %record, i64 0, i32 1
  %want_rank = load i64, ptr %want_rank_ptr, align 8
  %same_rank = icmp eq i64 %rank, %want_rank
  %flags_ptr = getelementptr i8, ptr %object, i64 64
  %flags32 = load i32, ptr %flags_ptr, align 4
  %flags = zext i32 %flags32 to i64
  %want_flags_ptr = getelementptr %Parameter, ptr %record, i64 0, i32 3
  %want_flags = load i64, ptr %want_flags_ptr, align 8
  %common = and i64 %flags, %want_flags
  %same_flags = icmp eq i64 %common, %want_flags
  %data_ptr = getelementptr i8, ptr %object, i64 16
  %data = load ptr, ptr %data_ptr, align 8
  %data_int = ptrtoint ptr %data to i64
  %mask_ptr = getelementptr %Parameter, ptr %record, i64 0, i32 4
  %mask = load i64, ptr %mask_ptr, align 8
  %low = and i64 %data_int, %mask
  %aligned = icmp eq i64 %low, 0
  %a = and i1 %same_descr, %same_rank
  %b = and i1 %same_flags, %aligned
  %c = and i1 %a, %b
  br i1 %c, label %shape, label %miss
shape:
  %dims_ptr = getelementptr i8, ptr %object, i64 32
  %dims = load ptr, ptr %dims_ptr, align 8
  %want_dims_ptr = getelementptr %Parameter, ptr %record, i64 0, i32 2
  %want_dims = load ptr, ptr %want_dims_ptr, align 8
  br label %next
next:
  %i = phi i64 [ 0, %shape ], [ %i_next, %dim ]
  %end = icmp eq i64 %i, %rank
  br i1 %end, label %match, label %dim
dim:
  %d_ptr = getelementptr i64, ptr %dims, i64 %i
  %d = load i64, ptr %d_ptr, align 8
  %want_d_ptr = getelementptr i64, ptr %want_dims, i64 %i
  %want_d = load i64, ptr %want_d_ptr, align 8
  %i_next = add i64 %i, 1
  %same = icmp eq i64 %d, %want_d
  br i1 %same, label %next, label %miss
match:
  ret ptr %data
miss:
  ret ptr null
}

; A new array for %record, or null with a Python exception set.
define internal ptr @xjit_new_result(ptr %record) {
entry:
  %descr = load ptr, ptr %record, align 8
  %rank_ptr = getelementptr %Result, ptr %record, i64 0, i32 1
  %rank64 = load i64, ptr %rank_ptr, align 8
  %rank = trunc i64 %rank64 to i32
  %dims_ptr = getelementptr %Result, ptr %record, i64 0, i32 2
  %dims = load ptr, ptr %dims_ptr, align 8
  %bytes_ptr = getelementptr %Result, ptr %record, i64 0, i32 3
  %bytes = load i64, ptr %bytes_ptr, align 8
  %order_ptr = getelementptr %Result, ptr %record, i64 0, i32 4
  %order = load i64, ptr %order_ptr, align 8
  %order32 = trunc i64 %order to i32
  %pooled = icmp uge i64 %bytes, $POOLED_MIN_BYTES
  br i1 %pooled, label %pool, label %plain
plain:
  %fortran = and i32 %order32, 2
  call void @Py_IncRef(ptr %descr)
  %array = call ptr @PyArray_NewFromDescr(
      ptr @PyArray_Type, ptr %descr, i32 %rank, ptr %dims, ptr null, ptr null, i32 %fortran, ptr null)
  ret ptr %array
pool:
  %data = call ptr @xjit_scratch_alloc(i64 %bytes)
  %no_memory = icmp eq ptr %data, null
  br i1 %no_memory, label %memory_error, label %wrap
memory_error:
  %null = call ptr @PyErr_NoMemory()
  ret ptr null
wrap:
  %flags = or i32 %order32, 1280
  call void @Py_IncRef(ptr %descr)
  %view = call ptr @PyArray_NewFromDescr(
      ptr @PyArray_Type, ptr %descr, i32 %rank, ptr %dims, ptr null, ptr %data, i32 %flags, ptr null)
  %failed = icmp eq ptr %view, null
  br i1 %failed, label %give_back, label %own
give_back:
  call void @xjit_scratch_free(ptr %data)
  ret ptr null
own:
  %flags_ptr = getelementptr i8, ptr %view, i64 64
  %old_flags = load i32, ptr %flags_ptr, align 4
  %new_flags = or i32 %old_flags, 4
  store i32 %new_flags, ptr %flags_ptr, align 4
  %handler = load ptr, ptr @xjit_mem_handler, align 8
  call void @Py_IncRef(ptr %handler)
  %handler_ptr = getelementptr i8, ptr %view, i64 88
  store ptr %handler, ptr %handler_ptr, align 8
  ret ptr %view
}

define internal void @xjit_drop(ptr %objects, i64 %count) {
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i_next, %drop ]
  %end = icmp eq i64 %i, %count
  br i1 %end, label %exit, label %drop
drop:
  %place = getelementptr ptr, ptr %objects, i64 %i
  %object = load ptr, ptr %place, align 8
  call void @Py_DecRef(ptr %object)
  %i_next = add i64 %i, 1
  br label %next
exit:
  ret void
}

; Raises through the Python callable; returns null.
define internal ptr @xjit_raise_status(ptr %call, i32 %status) {
entry:
  %argument = alloca ptr, align 8
  %wide = sext i32 %status to i64
  %number = call ptr @PyLong_FromLong(i64 %wide)
  %failed = icmp eq ptr %number, null
  br i1 %failed, label %exit, label %raise
raise:
  store ptr %number, ptr %argument, align 8
  %on_error_ptr = getelementptr %Call, ptr %call, i64 0, i32 10
  %on_error = load ptr, ptr %on_error_ptr, align 8
  %never = call ptr @PyObject_Vectorcall(ptr %on_error, ptr %argument, i64 1, ptr null)
  call void @Py_DecRef(ptr %number)
  br label %exit
exit:
  ret ptr null
}

define internal i32 @xjit_run(ptr %call, ptr %context, ptr %parameters, ptr %results, ptr %arena) {
entry:
  %entry_fn = load ptr, ptr %call, align 8
  %constants_ptr = getelementptr %Call, ptr %call, i64 0, i32 5
  %constants = load ptr, ptr %constants_ptr, align 8
  %release_ptr = getelementptr %Call, ptr %call, i64 0, i32 7
  %release = load i64, ptr %release_ptr, align 8
  %keep = icmp eq i64 %release, 0
  br i1 %keep, label %with_gil, label %without_gil
with_gil:
  %status = call i32 @xjit_call_entry(
      ptr %entry_fn, ptr %context, ptr %parameters, ptr %results, ptr %arena, ptr %constants)
  ret i32 %status
without_gil:
  %thread = call ptr @PyEval_SaveThread()
  %status2 = call i32 @xjit_call_entry(
      ptr %entry_fn, ptr %context, ptr %parameters, ptr %results, ptr %arena, ptr %constants)
  call void @PyEval_RestoreThread(ptr %thread)
  ret i32 %status2
}

define ptr @xjit_fast_call(ptr %self, ptr %args, i64 %count) {
entry:
  %call_ptr = getelementptr i8, ptr %self, i64 16
  %call = load ptr, ptr %call_ptr, align 8
  %num_parameters_ptr = getelementptr %Call, ptr %call, i64 0, i32 1
  %num_parameters = load i64, ptr %num_parameters_ptr, align 8
  %num_results_ptr = getelementptr %Call, ptr %call, i64 0, i32 2
  %num_results = load i64, ptr %num_results_ptr, align 8
  %parameter_table_ptr = getelementptr %Call, ptr %call, i64 0, i32 3
  %parameter_table = load ptr, ptr %parameter_table_ptr, align 8
  %result_table_ptr = getelementptr %Call, ptr %call, i64 0, i32 4
  %result_table = load ptr, ptr %result_table_ptr, align 8
  %parameters = alloca ptr, i64 %num_parameters, align 16
  %results = alloca ptr, i64 %num_results, align 16
  %objects = alloca ptr, i64 %num_results, align 16
  %context = alloca [$CONTEXT_BYTES x i8], align 16
  %right_count = icmp eq i64 %count, %num_parameters
  br i1 %right_count, label %next_parameter, label %slow

next_parameter:
  %p = phi i64 [ 0, %entry ], [ %p_next, %accept ]
  %p_end = icmp eq i64 %p, %num_parameters
  br i1 %p_end, label %next_result, label %parameter
parameter:
  %object_ptr = getelementptr ptr, ptr %args, i64 %p
  %object = load ptr, ptr %object_ptr, align 8
  %record = getelementptr %Parameter, ptr %parameter_table, i64 %p
  %data = call ptr @xjit_match(ptr %object, ptr %record)
  %miss = icmp eq ptr %data, null
  br i1 %miss, label %slow, label %accept
accept:
  %data_slot = getelementptr ptr, ptr %parameters, i64 %p
  store ptr %data, ptr %data_slot, align 8
  %p_next = add i64 %p, 1
  br label %next_parameter

slow:
  %slow_ptr = getelementptr %Call, ptr %call, i64 0, i32 9
  %slow_fn = load ptr, ptr %slow_ptr, align 8
  %slow_result = call ptr @PyObject_Vectorcall(ptr %slow_fn, ptr %args, i64 %count, ptr null)
  ret ptr %slow_result

next_result:
  %r = phi i64 [ 0, %next_parameter ], [ %r_next, %created ]
  %r_end = icmp eq i64 %r, %num_results
  br i1 %r_end, label %arena, label %result
result:
  %result_record = getelementptr %Result, ptr %result_table, i64 %r
  %array = call ptr @xjit_new_result(ptr %result_record)
  %result_failed = icmp eq ptr %array, null
  br i1 %result_failed, label %fail, label %created
created:
  %object_slot = getelementptr ptr, ptr %objects, i64 %r
  store ptr %array, ptr %object_slot, align 8
  %array_data_ptr = getelementptr i8, ptr %array, i64 16
  %array_data = load ptr, ptr %array_data_ptr, align 8
  %result_slot = getelementptr ptr, ptr %results, i64 %r
  store ptr %array_data, ptr %result_slot, align 8
  %r_next = add i64 %r, 1
  br label %next_result
fail:
  %made = phi i64
      [ %r, %result ], [ %num_results, %arena_failed ], [ %num_results, %status_failed ], [ %num_results, %tuple ]
  call void @xjit_drop(ptr %objects, i64 %made)
  ret ptr null

arena:
  %arena_size_ptr = getelementptr %Call, ptr %call, i64 0, i32 6
  %arena_size = load i64, ptr %arena_size_ptr, align 8
  %no_arena = icmp eq i64 %arena_size, 0
  br i1 %no_arena, label %run, label %take_arena
take_arena:
  %block = call ptr @xjit_scratch_alloc(i64 %arena_size)
  %no_block = icmp eq ptr %block, null
  br i1 %no_block, label %arena_failed, label %run
arena_failed:
  %no_memory = call ptr @PyErr_NoMemory()
  br label %fail

run:
  %arena_data = phi ptr [ null, %arena ], [ %block, %take_arena ]
  %initial_ptr = getelementptr %Call, ptr %call, i64 0, i32 11
  %initial = load ptr, ptr %initial_ptr, align 8
  call void @llvm.memcpy.p0.p0.i64(ptr align 16 %context, ptr align 8 %initial, i64 $CONTEXT_BYTES, i1 false)
  %status = call i32 @xjit_run(ptr %call, ptr %context, ptr %parameters, ptr %results, ptr %arena_data)
  call void @xjit_scratch_free(ptr %arena_data)
  %ok = icmp eq i32 %status, 0
  br i1 %ok, label %finish, label %status_failed
status_failed:
  %raised = call ptr @xjit_raise_status(ptr %call, i32 %status)
  br label %fail

finish:
  %returns_tuple_ptr = getelementptr %Call, ptr %call, i64 0, i32 8
  %returns_tuple = load i64, ptr %returns_tuple_ptr, align 8
  %single = icmp eq i64 %returns_tuple, 0
  br i1 %single, label %one, label %tuple
one:
  %only = load ptr, ptr %objects, align 8
  ret ptr %only
tuple:
  %packed = call ptr @PyTuple_New(i64 %num_results)
  %tuple_failed = icmp eq ptr %packed, null
  br i1 %tuple_failed, label %fail, label %next_item
next_item:
  %t = phi i64 [ 0, %tuple ], [ %t_next, %item ]
  %t_end = icmp eq i64 %t, %num_results
  br i1 %t_end, label %return_tuple, label %item
item:
  %item_slot = getelementptr ptr, ptr %objects, i64 %t
  %item_object = load ptr, ptr %item_slot, align 8
  %set = call i32 @PyTuple_SetItem(ptr %packed, i64 %t, ptr %item_object)
  %t_next = add i64 %t, 1
  br label %next_item
return_tuple:
  ret ptr %packed
}
""".replace("$POOLED_MIN_BYTES", str(POOLED_MIN_BYTES)).replace("$CONTEXT_BYTES", str(EXECUTION_CONTEXT.size))
