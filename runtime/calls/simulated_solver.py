"""What cuSOLVER and cuBLAS do with matrices, on the host: SciPy's LAPACK, in the same memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xjit.ops.evaluation.lapack import lapack_results
from xjit.ops.lapack_call import LapackArray, LapackCall
from xjit.ops.lapack_targets import LAPACK_TARGETS
from xjit.runtime.calls.simulated_matmul import Matrices, vector
from xjit.thunks import SolverSpec


def solve_on_host(spec: SolverSpec, addresses: Sequence[int]) -> None:
    """Does the calls. `addresses`: those of the operands, then of the results. Results that are not written are 0."""
    call = LapackCall(LAPACK_TARGETS[spec.target], (spec.count,), dict(spec.sizes), dict(spec.flags))
    for number in range(spec.count):
        operands = {
            a.name: _array(call, a, addresses[place], number).copy(order="F")
            for a, (_, place) in zip(call.row.operands, spec.operands, strict=True)
        }
        found = lapack_results(call, operands)
        for array, (name, place) in zip(call.row.results, spec.results, strict=True):
            _array(call, array, addresses[place], number)[...] = found.get(name, 0)


def _array(call: LapackCall, array: LapackArray, address: int, number: int) -> Matrices:
    """One batch element of an array, where it lies."""
    dtype, dims = array.element_type(call.row.letter).dtype, call.dimensions(array)
    size = math.prod(dims)
    return vector(dtype, size, address + number * size * dtype.itemsize).reshape(dims, order="F")
