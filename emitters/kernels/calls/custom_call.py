"""Custom calls by target: LAPACK, TopK, buffers, and annotations that are the identity on one device."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xjit.emitters.kernels.calls.registered_call import emit_registered_call
from xjit.emitters.kernels.kernel import Kernel, KernelContext, KernelView
from xjit.emitters.kernels.linalg.lapack import emit_lapack
from xjit.emitters.kernels.linalg.tridiagonal_perturbed import emit_tridiagonal_perturbed
from xjit.emitters.kernels.loops.base_copy import emit_copy
from xjit.emitters.kernels.sort.topk import emit_topk
from xjit.hlo import attributes as at
from xjit.hlo.attributes import CustomCallAttributes
from xjit.hlo.custom_call_registry import custom_call_address
from xjit.hlo.diagnostics import Unsupported
from xjit.llvm.builder import IRBuilder
from xjit.llvm.types import I8, I64
from xjit.llvm.values import const_int
from xjit.ops.custom_call_targets import IDENTITY_TARGETS, unknown_target
from xjit.ops.lapack_targets import LAPACK_TARGETS, PERTURBED_TARGET


def _identity(context: KernelContext, view: KernelView) -> list[Kernel]:
    call = view.hero
    if call.operand_count != 1 or not call.operand(0).shape.compatible(call.shape) or not call.shape.is_array:
        target = call.attributes_as(CustomCallAttributes).custom_call_target
        raise Unsupported(f"custom-call '{target}' that changes the shape: it needs several devices", call.span)
    return [emit_copy(context, view, call.operand(0), 0)]


def _allocate(context: KernelContext, view: KernelView) -> list[Kernel]:
    """AllocateBuffer: the contents do not matter, but zeros are the same in every run."""
    function, _, results = context.new_kernel(view)
    builder = IRBuilder(function.append_block("entry"))
    for result in results:
        builder.memset(result.pointer, const_int(I8, 0), const_int(I64, result.shape.byte_size))
    builder.ret_void()
    return [Kernel(function, 1, 0.02 * sum(r.shape.byte_size for r in results), "fill")]


TARGETS: Mapping[str, Callable[[KernelContext, KernelView], list[Kernel]]] = {
    "TopK": emit_topk,
    "AllocateBuffer": _allocate,
    **dict.fromkeys(IDENTITY_TARGETS, _identity),
    **dict.fromkeys(LAPACK_TARGETS, emit_lapack),
    PERTURBED_TARGET: emit_tridiagonal_perturbed,
}


def emit_custom_call(context: KernelContext, view: KernelView) -> list[Kernel]:
    """Emits the kernel of a custom call. Errors: Unsupported names a target that is not known."""
    target = view.hero.attributes_as(at.CustomCallAttributes).custom_call_target
    emitter = TARGETS.get(target)
    if emitter is None and custom_call_address(target) is not None:
        emitter = emit_registered_call
    if emitter is None:
        raise unknown_target(view.hero, TARGETS)
    return emitter(context, view)
