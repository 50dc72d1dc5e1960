"""A GPU kernel rewritten for the host: a function that runs one thread, which may stop where it waits for others.

What a GPU has and the host has not becomes: facts of a thread - fields of a `Thread`; a wait - a post of what is waited
for and a suspend point of an LLVM coroutine; address spaces - one; shared memory - globals of the module, as blocks run
one after the other.
"""

from __future__ import annotations

import re

from xjit.dataclass import dataclass
from xjit.hlo.diagnostics import CompileError
from xjit.runtime.gpu_sim.block_rewriter import BlockRewriter, host_line, host_type
from xjit.runtime.gpu_sim.device_intrinsics import WAITS
from xjit.runtime.gpu_sim.ir_lines import parse_call
from xjit.runtime.gpu_sim.kernel_text import GlobalVariable, KernelText, read_kernel
from xjit.runtime.gpu_sim.library import library_declarations
from xjit.runtime.gpu_sim.matrix_ir import matrix_functions
from xjit.runtime.gpu_sim.records import THREAD

START, BODY = "xjit_sim_start", "xjit_sim_body"
FRAME_ALIGNMENT = 64
"""Bytes."""

MAX_STATIC_SHARED_BYTES = 48 << 10
"""More shared memory than this must be dynamic."""

_KEPT_PARAMETER_ATTRIBUTES = ("noalias", "readonly", "writeonly", "noundef")
_FLUSHES = re.compile(r'denormal[^,"]*"?="?preserve-?sign|denormal_fpenv\([^)]*preserve')


@dataclass(frozen=True, slots=True)
class HostKernel:
    """The host's module of a kernel.

    Args:
        text: its IR. It defines `START`, `ptr (ptr thread, ptr arguments)`; or `BODY`, which takes the thread and the
            kernel's own parameters.
        has_start: which of the two.
        suspends: whether the start may return before the thread has ended.
        sites: the code of each place that can be reported, by number.
        parameters: for each parameter its LLVM type.
        alignments: for each parameter the alignment that the kernel relies on, in bytes.
        variables: the globals that can be accessed; exported by their names.
        flushes_subnormals: whether the kernel is to run so.
    """

    text: str
    has_start: bool
    suspends: bool
    sites: tuple[str, ...]
    parameters: tuple[str, ...]
    alignments: tuple[int, ...]
    variables: tuple[GlobalVariable, ...]
    flushes_subnormals: bool


def rewrite_for_host(name: str, ir_text: str, dynamic_shared_bytes: int, sanitize: bool) -> HostKernel:
    """Returns the host's module. Errors: CompileError names an intrinsic or function that the host has not."""
    text = read_kernel(ir_text, name)
    static = sum(variable.size for variable in text.globals if variable.is_shared)
    if static > MAX_STATIC_SHARED_BYTES:
        raise CompileError(f"it has {static} bytes of static shared memory, GPUs have {MAX_STATIC_SHARED_BYTES}")
    calls = (parse_call(line) for line in text.lines)
    waits = {WAITS[call.callee] for call in calls if call is not None and call.callee in WAITS}
    suspends = bool(waits)
    units = frozenset(wait.unit for wait in waits if wait.unit is not None)
    rewriter = BlockRewriter(text, sanitize=sanitize, suspends=suspends)
    has_start = suspends or sanitize
    blocks = rewriter.blocks()
    function = _start_function(text, blocks, suspends) if has_start else _body_function(text, blocks)
    variables = tuple(_sized(variable, dynamic_shared_bytes) for variable in text.globals)
    metadata = () if has_start else text.metadata
    data = (*map(host_type, text.types), *map(_host_global, variables))
    return HostKernel(
        "\n".join((*data, function, matrix_functions(units), library_declarations(), *metadata)) + "\n",
        has_start,
        suspends,
        tuple(rewriter.sites),
        tuple(parameter.type for parameter in text.parameters),
        tuple(parameter.alignment for parameter in text.parameters),
        variables,
        _FLUSHES.search(text.attributes) is not None,
    )


def _start_function(kernel: KernelText, blocks: list[tuple[str, list[str]]], suspends: bool) -> str:
    """`ptr start(ptr thread, ptr arguments)`; a coroutine, if it waits, whose frame is memory of the thread."""
    allocas = [line for _, lines in blocks for line in lines if " = alloca " in line]
    entry = [*allocas]
    for number, parameter in enumerate(kernel.parameters):
        place = f"%xjit.argument.{number}"
        entry.append(f"{place} = getelementptr i8, ptr %xjit.arguments, i64 {8 * number}")
        entry.append(f"{parameter.name} = load {host_type(parameter.type)}, ptr {place}, align 8")
    end = ["ret ptr null"]
    if suspends:
        entry += [
            f"%xjit.id = call token @llvm.coro.id(i32 {FRAME_ALIGNMENT}, ptr null, ptr null, ptr null)",
            "%xjit.size = call i64 @llvm.coro.size.i64()",
            f"%xjit.size.field = getelementptr i8, ptr %xjit.thread, i64 {THREAD.offsets['frame_size']}",
            "store i64 %xjit.size, ptr %xjit.size.field, align 8",
            f"%xjit.frame.field = getelementptr i8, ptr %xjit.thread, i64 {THREAD.offsets['frame']}",
            "%xjit.frame = load ptr, ptr %xjit.frame.field, align 8",
            "%xjit.asks = icmp eq ptr %xjit.frame, null",
            "br i1 %xjit.asks, label %xjit.no.frame, label %xjit.begin",
            "xjit.no.frame:",
            "ret ptr null",
            "xjit.begin:",
            "%xjit.handle = call ptr @llvm.coro.begin(token %xjit.id, ptr %xjit.frame)",
        ]
        end = ["call void @llvm.coro.end(ptr %xjit.handle, i1 false, token none)", "ret ptr %xjit.handle"]
    entry.append(f"br label %{blocks[0][0]}")
    lines = [f"define ptr @{START}(ptr %xjit.thread, ptr %xjit.arguments)", "presplitcoroutine" if suspends else ""]
    body = [line for label, block in blocks for line in (f"{label}:", *(t for t in block if " = alloca " not in t))]
    return "\n".join([f"{' '.join(lines)} nounwind {{", *entry, *body, "xjit.end:", *end, "}"])


def _body_function(kernel: KernelText, blocks: list[tuple[str, list[str]]]) -> str:
    """`void body(ptr thread, parameters...)`, to be inlined into loops over threads and blocks."""
    parameters = ["ptr %xjit.thread"]
    for parameter in kernel.parameters:
        kept = [word for word in parameter.attributes.split() if word in _KEPT_PARAMETER_ATTRIBUTES]
        parameters.append(" ".join([host_type(parameter.type), *kept, parameter.name]))
    body = [line for label, block in blocks for line in (f"{label}:", *block)]
    return "\n".join([f"define internal void @{BODY}({', '.join(parameters)}) alwaysinline nounwind {{", *body, "}"])


def _host_global(variable: GlobalVariable) -> str:
    """Shared memory can be seen from outside of the module: LLVM must not think that only one thread writes it."""
    if variable.is_shared:
        align = max(variable.align, FRAME_ALIGNMENT)
        return f"{variable.name} = global [{max(variable.size, 1)} x i8] zeroinitializer, align {align}"
    return f"{variable.name} = {host_line(variable.definition, True)}"


def _sized(variable: GlobalVariable, dynamic_bytes: int) -> GlobalVariable:
    return variable.with_size(dynamic_bytes) if variable.is_dynamic else variable
