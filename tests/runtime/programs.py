"""Hand-written programs for the tests of the runtime: IR text with its signature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xjit.runtime.machine_code.elf import undefined_symbols
from xjit.runtime.machine_code.jit import compile_ir_to_object
from xjit.runtime.program import ArraySignature, CpuProgram, LeafTree


def array(
    dtype: Any, *shape: int, name: str = "", layout: tuple[int, ...] | None = None, **more: Any
) -> ArraySignature:
    """A signature whose buffer has no padding, unless `byte_size` says so."""
    dtype = np.dtype(dtype)
    byte_size = more.pop("byte_size", int(np.prod(shape, dtype=object)) * dtype.itemsize)
    return ArraySignature(dtype, shape, layout, byte_size, name, **more)


def program(
    ir_text: str,
    parameters: Sequence[ArraySignature],
    results: Sequence[ArraySignature],
    result_tree: LeafTree = 0,
    **more: Any,
) -> CpuProgram:
    """A program whose parameters are arrays, unless `parameter_tree` says so."""
    more.setdefault("parameter_tree", tuple(range(len(parameters))))
    object_code = compile_ir_to_object(ir_text)
    return CpuProgram(
        name=more.pop("name", "test"),
        object_code=(object_code,),
        external_symbols=tuple(sorted(undefined_symbols([object_code]))),
        entry="entry",
        parameters=tuple(parameters),
        results=tuple(results),
        result_tree=result_tree,
        **more,
    )


def elementwise(operation: str, llvm_type: str, count: int, num_parameters: int = 2) -> str:
    """`result[i] = operation(x[i], y[i])`, a scalar loop; a unary operation gets the one parameter twice."""
    second = 1 if num_parameters == 2 else 0
    return f"""
define i32 @entry(ptr %context, ptr %parameters, ptr %results, ptr %arena, ptr %constants) {{
entry:
  %x = load ptr, ptr %parameters
  %y_ptr = getelementptr ptr, ptr %parameters, i64 {second}
  %y = load ptr, ptr %y_ptr
  %out = load ptr, ptr %results
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %end = icmp eq i64 %i, {count}
  br i1 %end, label %exit, label %body
body:
  %a_ptr = getelementptr {llvm_type}, ptr %x, i64 %i
  %b_ptr = getelementptr {llvm_type}, ptr %y, i64 %i
  %o_ptr = getelementptr {llvm_type}, ptr %out, i64 %i
  %a = load {llvm_type}, ptr %a_ptr
  %b = load {llvm_type}, ptr %b_ptr
  %o = {operation} {llvm_type} %a, %b
  store {llvm_type} %o, ptr %o_ptr
  %next = add i64 %i, 1
  br label %loop
exit:
  ret i32 0
}}
"""


def add_program(*shape: int, dtype: Any = np.float32, **more: Any) -> CpuProgram:
    """`x + y` in f32 (or another dtype with an LLVM type below)."""
    types = {"float32": "fadd float", "float64": "fadd double", "int32": "add i32"}
    operation, llvm_type = types[np.dtype(dtype).name].split()
    count = int(np.prod(shape))
    parameters = [array(dtype, *shape, name="x"), array(dtype, *shape, name="y")]
    return program(elementwise(operation, llvm_type, count), parameters, [array(dtype, *shape)], **more)


def copies(byte_sizes: Sequence[int]) -> str:
    """Result i is a copy of parameter i."""
    moves = "\n".join(
        f"  %p{i} = getelementptr ptr, ptr %parameters, i64 {i}\n  %s{i} = load ptr, ptr %p{i}\n"
        f"  %r{i} = getelementptr ptr, ptr %results, i64 {i}\n  %d{i} = load ptr, ptr %r{i}\n"
        f"  call void @llvm.memcpy.p0.p0.i64(ptr %d{i}, ptr %s{i}, i64 {size}, i1 false)"
        for i, size in enumerate(byte_sizes)
    )
    return f"""
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define i32 @entry(ptr %context, ptr %parameters, ptr %results, ptr %arena, ptr %constants) {{
{moves}
  ret i32 0
}}
"""


def returns(status: int, num_results: int = 0) -> str:
    """Returns a status and does nothing else."""
    return f"define i32 @entry(ptr %context, ptr %parameters, ptr %results, ptr %arena, ptr %constants) {{\n  ret i32 {status}\n}}\n"
