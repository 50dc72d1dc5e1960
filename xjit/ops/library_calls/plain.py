"""The plain HLO that stands for a call to a GPU library where there is no such library."""

from __future__ import annotations

from collections.abc import Callable

from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.ops.library_calls.convolution import plain_convolution
from xjit.ops.library_calls.gemm import plain_gemm
from xjit.ops.library_calls.normalization import plain_batch_norm, plain_cholesky
from xjit.ops.library_calls.pivots import PIVOTS, plain_permutation
from xjit.ops.library_calls.solvers import SOLVER_TARGETS, plain_solver
from xjit.ops.library_calls.targets import BATCH_NORM_TARGETS, CHOLESKY, CONV_TARGETS, MATMUL_TARGETS, call_target

PLAIN: dict[str, Callable[[HloInstruction], HloComputation]] = {
    **dict.fromkeys(MATMUL_TARGETS, plain_gemm),
    **dict.fromkeys(CONV_TARGETS, plain_convolution),
    **dict.fromkeys(BATCH_NORM_TARGETS, plain_batch_norm),
    CHOLESKY: plain_cholesky,
    **dict.fromkeys(SOLVER_TARGETS, plain_solver),
    PIVOTS: plain_permutation,
}


def plain_computation(call: HloInstruction) -> HloComputation:
    """The computation, of the call's operands and result, that a call to one of the targets of PLAIN means."""
    return PLAIN[call_target(call)](call)
