"""What cuSOLVER and cuBLAS do with matrices, on the host: a LAPACK that is given, in the same memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from xjit.runtime.calls.simulated_matmul import Matrices, vector
from xjit.thunks import SolverSpec
from xjit.thunks.solver_spec import SolverArray

Lapack = Callable[[str, Mapping[str, int], Mapping[str, str], Mapping[str, Any]], Mapping[str, Any]]
"""Takes the target of a call, its sizes and flags and the operands of one matrix; returns results, by name."""


def solve_on_host(spec: SolverSpec, addresses: Sequence[int], lapack: Lapack) -> None:
    """Does the calls. `addresses`: those of the operands, then of the results. Results that are not written are 0."""
    sizes, flags = dict(spec.sizes), dict(spec.flags)
    for number in range(spec.count):
        operands = {a.name: _element(a, addresses[a.number], number).copy(order="F") for a in spec.operands}
        found = lapack(spec.target, sizes, flags, operands)
        for array in spec.results:
            _element(array, addresses[array.number], number)[...] = found.get(array.name, 0)


def _element(array: SolverArray, address: int, number: int) -> Matrices:
    """One batch element of an array, where it lies."""
    elements = vector(array.element_type.dtype, prod(array.dimensions), address + number * array.byte_size)
    return elements.reshape(array.dimensions, order="F")
