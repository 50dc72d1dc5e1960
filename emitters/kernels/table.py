"""Which kernel emitter serves which hero: opcode -> emitter. The loop kernel serves everything that is not listed.

The emitters of `EPILOGUE_HEROES` also compute what is made of their hero; the others write the hero's results only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xjit.emitters.coverage import LEFT_OVER, UNSUPPORTED
from xjit.emitters.kernels.calls.custom_call import emit_custom_call
from xjit.emitters.kernels.fft.fft import emit_fft
from xjit.emitters.kernels.kernel import Kernel, KernelContext, KernelView
from xjit.emitters.kernels.linalg.cholesky import emit_cholesky
from xjit.emitters.kernels.linalg.convolution import emit_convolution
from xjit.emitters.kernels.linalg.dot import emit_dot
from xjit.emitters.kernels.linalg.triangular_solve import emit_triangular_solve
from xjit.emitters.kernels.loops import column_reduction
from xjit.emitters.kernels.loops.dynamic_update_slice import emit_dynamic_update_slice
from xjit.emitters.kernels.loops.loop import emit_loop_kernels
from xjit.emitters.kernels.loops.scatter import emit_scatter
from xjit.emitters.kernels.random.rng_bit_generator import emit_rng_bit_generator
from xjit.emitters.kernels.random.rng_state import emit_rng_get_and_update_state
from xjit.emitters.kernels.sort.sort import emit_sort
from xjit.emitters.kernels.sort.topk import emit_topk
from xjit.emitters.kernels.windows.prefix_scan import emit_reduce_window
from xjit.emitters.kernels.windows.select_and_scatter import emit_select_and_scatter
from xjit.hlo.diagnostics import Unsupported

KernelEmitter = Callable[[KernelContext, KernelView], list[Kernel]]


def _reduce(context: KernelContext, view: KernelView) -> list[Kernel]:
    if column_reduction.applies(view):
        return [column_reduction.emit_column_reduction(context, view)]
    return emit_loop_kernels(context, view)


HERO_EMITTERS: Mapping[str, KernelEmitter] = {
    "convolution": emit_convolution,
    "dot": emit_dot,
    "dynamic-update-slice": emit_dynamic_update_slice,
    "scatter": emit_scatter,
    "rng-bit-generator": emit_rng_bit_generator,
    "rng-get-and-update-state": emit_rng_get_and_update_state,
    "select-and-scatter": emit_select_and_scatter,
    "reduce": _reduce,
    "reduce-window": emit_reduce_window,
    "sort": emit_sort,
    "topk": emit_topk,
    "custom-call": emit_custom_call,
    "cholesky": emit_cholesky,
    "fft": emit_fft,
    "triangular-solve": emit_triangular_solve,
}


EPILOGUE_HEROES = frozenset({"convolution", "dot"})


def emit_kernels(context: KernelContext, view: KernelView) -> list[Kernel]:
    """Emits the kernels that compute a view, in the order in which they must run."""
    hero = view.hero
    reason = UNSUPPORTED.get(hero.opcode) or LEFT_OVER.get(hero.opcode)
    if reason is not None:
        raise Unsupported(f"{hero.opcode} '{hero.name}' cannot be compiled: {reason}", hero.span)
    if view.roots != (hero,) and hero.opcode not in EPILOGUE_HEROES:
        return emit_loop_kernels(context, view)
    return HERO_EMITTERS.get(hero.opcode, emit_loop_kernels)(context, view)
