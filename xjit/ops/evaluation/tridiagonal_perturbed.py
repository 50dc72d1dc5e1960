"""The custom call tridiagonal_solve_perturbed_ffi: tridiagonal systems that may be singular (LAPACK's lagtf, lagts)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xjit.hlo.ir.instruction import HloInstruction
from xjit.ops.evaluation.numerics import Array, Value
from xjit.ops.lapack_call import bind_lapack_call
from xjit.ops.lapack_targets import perturbed_row

if TYPE_CHECKING:
    from xjit.ops.evaluation.interpreter import Interpreter


def evaluate_perturbed(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Value:
    """Evaluates `PERTURBED_TARGET`: elimination with row interchanges; pivots near zero are moved."""
    call = bind_lapack_call(instruction, perturbed_row(instruction))
    result = np.zeros(instruction.shape.dimensions, instruction.shape.dtype)
    with np.errstate(all="ignore"):
        for index in np.ndindex(*call.batch):
            if result[index].size:
                result[index] = _solve(*(x[index] for x in operands))
    return interpreter.flush(result)


def _solve(dl: Array, d: Array, du: Array, b: Array) -> Array:
    """One system. `row` is the row of the next pivot, `size` the sum of its magnitudes; U has three diagonals."""
    n, limits = len(d), np.finfo(d.dtype)
    u, x = np.zeros((n, 3), d.dtype), b.copy()
    row, size = np.array([d[0], du[0], 0], d.dtype), abs(d[0]) + abs(du[0])
    largest = max(abs(d[0]), abs(du[0])) if n > 1 else abs(d[0])
    for k in range(n - 1):
        below = np.array([dl[k + 1], d[k + 1], du[k + 1] if k < n - 2 else 0], d.dtype)
        size_below = np.abs(below).sum()
        swap = below[0] != 0 and not abs(below[0]) / size_below <= (abs(row[0]) / size if row[0] != 0 else 0)
        if swap:
            row, below, x[[k, k + 1]] = below, row, x[[k + 1, k]]
        factor = below[0] / row[0] if below[0] != 0 else below[0]
        u[k] = row
        row = np.append(below[1:] - factor * row[1:], np.zeros(1, d.dtype))
        x[k + 1] -= factor * x[k]
        size = abs(row[0]) + abs(row[1]) if swap else size_below
        if k < n - 2:
            largest = max(largest, *np.abs(u[k]))
    u[n - 1, 0] = row[0]
    step = limits.eps * max(largest, abs(row[0]))
    for k in reversed(range(n)):
        for i in range(1, min(3, n - k)):
            x[k] -= u[k, i] * x[k + i]
        pivot, x[k] = _safe_pivot(u[k, 0], x[k], step, limits)
        x[k] /= pivot
    return x


def _safe_pivot(pivot: Any, row: Array, step: Any, limits: Any) -> tuple[Any, Array]:
    """The pivot, moved until it does not make the row overflow, and the row; a tiny one may scale both instead."""
    safe, largest = limits.tiny, np.abs(row).max()
    step = np.copysign(max(step, safe), np.real(pivot))
    while abs(pivot) < 1:
        small = abs(pivot) < safe
        if small and pivot != 0 and largest * safe <= abs(pivot):
            return pivot / safe, row / safe
        if not small and largest * safe <= abs(pivot):
            break
        pivot, step = pivot + step, step * 2
    return pivot, row
