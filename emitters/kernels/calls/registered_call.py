"""Custom calls to functions that users registered (`xjit.hlo.custom_call_registry` says how they are called)."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.emitters.entry.context_calls import emit_fail
from xjit.emitters.kernels.kernel import Kernel, KernelContext
from xjit.emitters.kernels.view import KernelView
from xjit.hlo.attributes import CustomCallAttributes
from xjit.hlo.custom_call_registry import STATUS_BYTES, STATUS_RETURNING, STATUS_RETURNING_UNIFIED, SYMBOL_PREFIX
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.physical import physical_byte_size
from xjit.hlo.types.shape import Shape
from xjit.llvm.builder import IRBuilder
from xjit.llvm.execution_context import RuntimeStatus
from xjit.llvm.inline_control_flow import return_if
from xjit.llvm.types import I64, PTR, VOID, array
from xjit.llvm.values import Value, const_int
from xjit.ops.custom_call_targets import check_registered_call, opaque_of, operand_aliases

KIND = "custom-call"
"""The kind of kernels that may call back into Python."""

NS_PER_CALL = 1000.0


def emit_registered_call(context: KernelContext, view: KernelView) -> list[Kernel]:
    """Emits the kernel of such a call. Errors: Unsupported for another interface, or values that are no arrays."""
    call = view.hero
    check_registered_view(view)
    function, leaves, results = context.new_kernel(view)
    builder = IRBuilder(function.append_block("entry"))
    outputs = [r.pointer for r in results]
    inputs = [leaves[o].pointer for o in call.operands]
    for number, result in operand_aliases(call).items():  # those lie where the results lie
        operand = call.operand(number)
        if (view.leaves.index(operand), result) not in view.shared:
            builder.memcpy(outputs[result], inputs[number], const_int(I64, physical_byte_size(operand.shape)), align=1)
        inputs[number] = outputs[result]
    operands = _pointers(builder, inputs)
    target = _pointers(builder, outputs) if call.shape.is_tuple else outputs[0]
    symbol = f"{SYMBOL_PREFIX}{call.attributes_as(CustomCallAttributes).custom_call_target}"
    _emit_call(builder, symbol, [target, operands], call)
    builder.ret_void()
    traffic = sum(leaf.shape.byte_size for leaf in view.leaves) + sum(r.shape.byte_size for r in results)
    return [Kernel(function, 1, NS_PER_CALL, KIND, traffic)]


def check_registered_view(view: KernelView) -> None:
    """Errors: Unsupported for another interface, values that are no arrays, or layouts that are not asked for."""
    call = view.hero
    check_registered_call(call)
    if call.attributes_as(CustomCallAttributes).operand_layout_constraints is None:
        _check_row_major([*(o.shape for o in call.operands), *view.result_shapes], call)


def _emit_call(builder: IRBuilder, symbol: str, arguments: list[Value], call: HloInstruction) -> None:
    """Calls the function as its `api_version` says; a status that it sets becomes a failure of the program."""
    version = call.attributes_as(CustomCallAttributes).api_version
    if version not in (STATUS_RETURNING, STATUS_RETURNING_UNIFIED):
        builder.call(builder.module.declare(symbol, VOID, [PTR, PTR]), arguments)
        return
    types = [PTR, PTR]
    if version == STATUS_RETURNING_UNIFIED:
        opaque = opaque_of(call)
        arguments += [builder.module.add_constant_bytes(opaque + b"\0", 1, "opaque"), const_int(I64, len(opaque))]
        types += [PTR, I64]
    status = builder.alloca(array(I64, STATUS_BYTES // 8), align=8, name="status")
    builder.store(const_int(I64, 0), status, align=8)
    builder.call(builder.module.declare(symbol, VOID, [*types, PTR]), [*arguments, status])
    message = builder.load(I64, status, align=8)
    failed = builder.icmp_signed("!=", message, const_int(I64, 0))
    return_if(builder, failed, lambda: emit_fail(builder, RuntimeStatus.CUSTOM_CALL_FAILED, message))


def _check_row_major(shapes: Sequence[Shape], call: HloInstruction) -> None:
    for shape in shapes:
        if shape.layout is not None and not shape.layout.is_row_major():
            target = call.attributes_as(CustomCallAttributes).custom_call_target
            message = f"custom-call to '{target}' with {shape}: a layout needs operand_layout_constraints"
            raise Unsupported(message, call.span)


def _pointers(builder: IRBuilder, values: Sequence[Value]) -> Value:
    """An array of pointers on the stack."""
    table = builder.alloca(array(PTR, max(len(values), 1)), align=8, name="pointers")
    for i, value in enumerate(values):
        builder.store(value, builder.gep(PTR, table, const_int(I64, i)), align=8)
    return table
