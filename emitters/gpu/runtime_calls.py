"""Which instructions of a GPU's program the runtime does, and what it must know of them."""

from __future__ import annotations

from xjit.emitters.kernels.view import KernelView
from xjit.ops.library_calls.targets import MATMUL_TARGETS, call_target
from xjit.passes.gpu.matmul_calls import matmul_spec
from xjit.thunks import RuntimeCall


def runtime_call(view: KernelView) -> RuntimeCall | None:
    """Returns the call that does a view; None if kernels do it. Errors: Unsupported names what a library cannot do."""
    if call_target(view.hero) in MATMUL_TARGETS:
        return matmul_spec(view.hero, view.leaves)
    return None
