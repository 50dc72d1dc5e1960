"""Which instructions of a GPU's program the runtime does, and what it must know of them."""

from __future__ import annotations

import math

from xjit.emitters.kernels.linalg.lapack import check_layouts
from xjit.emitters.kernels.view import KernelView
from xjit.hlo.diagnostics import Unsupported
from xjit.ops.lapack_call import KINDS, bind_lapack_call
from xjit.ops.lapack_targets import LAPACK_TARGETS
from xjit.ops.library_calls.targets import MATMUL_TARGETS, call_target
from xjit.passes.gpu.matmul_calls import matmul_spec
from xjit.thunks import RuntimeCall, SolverSpec
from xjit.thunks.solver_spec import SOLVER_FUNCTIONS


def runtime_call(view: KernelView) -> RuntimeCall | None:
    """Returns the call that does a view; None if kernels do it. Errors: Unsupported names what a library cannot do."""
    target = call_target(view.hero)
    if target in MATMUL_TARGETS:
        return matmul_spec(view.hero, view.leaves)
    if target in LAPACK_TARGETS:
        return _solver_spec(view, target)
    return None


def _solver_spec(view: KernelView, target: str) -> SolverSpec:
    call = bind_lapack_call(view.hero, LAPACK_TARGETS[target])
    check_layouts(view, call)
    row = call.row
    if row.routine not in SOLVER_FUNCTIONS:
        message = f"custom-call '{view.hero.name}' to '{target}': cuSOLVER and cuBLAS have no {row.routine}"
        raise Unsupported(f"{message}; those of GPUs are {', '.join(SOLVER_FUNCTIONS)}", view.hero.span)
    numbers = {leaf: number for number, leaf in enumerate(view.leaves)}
    count = math.prod(call.batch)
    return SolverSpec(
        target=target,
        routine=row.routine,
        letter=row.letter,
        count=count,
        sizes=tuple(call.sizes.items()),
        flags=tuple(call.flags.items()),
        operands=tuple((a.name, numbers[o]) for a, o in zip(row.operands, view.hero.operands, strict=True)),
        results=tuple((array.name, len(view.leaves) + n) for n, array in enumerate(row.results)),
        flops=int(count * row.flops(call.sizes)) * (4 if KINDS[row.letter].is_complex else 1),
    )
