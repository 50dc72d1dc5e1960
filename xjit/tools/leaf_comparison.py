"""Comparing two results of a module leaf by leaf, and summarising arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from xjit.dataclass import dataclass
from xjit.hlo.types.primitive_type import BY_DTYPE

TOLERANCES = {16: 3e-2, 32: 1e-4, 64: 1e-9}
"""Largest relative L2 error by component width, in bits; 8-bit floats get the one of 16 bits, times four."""


@dataclass(frozen=True, slots=True)
class LeafComparison:
    """One output leaf: the relative L2 error (integers: fraction that differs) and whether it is acceptable.

    Infinities and NaNs must stand in the same places; the error is infinite if they do not.
    """

    error: float
    tolerance: float
    ok: bool


def leaves_of(value: Any) -> list[Any]:
    """Returns the arrays of a nested tuple, left to right."""
    if isinstance(value, tuple):
        return [leaf for item in value for leaf in leaves_of(item)]
    return [] if value is None else [np.asarray(value)]


def compare_leaf(actual: Any, expected: Any, tolerance: float | None = None) -> LeafComparison:
    """Compares one array with its reference; the tolerance of floats is that of their type unless one is given."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return LeafComparison(float("inf"), 0.0, False)
    kind = BY_DTYPE[expected.dtype]
    if not (kind.is_float or kind.is_complex):
        different = float(np.mean(actual != expected)) if expected.size else 0.0
        return LeafComparison(different, 0.0, different == 0.0)
    if tolerance is None:
        tolerance = TOLERANCES.get(kind.component.bit_width, 4 * TOLERANCES[16])
    a, b = _components(actual), _components(expected)
    finite = np.isfinite(a) & np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return LeafComparison(float("inf"), tolerance, False)
    scale = float(np.linalg.norm(b[finite])) or 1.0
    error = float(np.linalg.norm(a[finite] - b[finite])) / scale
    return LeafComparison(error, tolerance, error <= tolerance)


def _components(array: Any) -> np.ndarray[Any, Any]:
    """The elements as float64, flat; complex ones as pairs."""
    if array.dtype.kind == "c":
        return array.astype(np.complex128).reshape(-1).view(np.float64)
    return array.astype(np.float64).reshape(-1)


def summary(array: Any) -> dict[str, Any]:
    """Returns shape and type of an array, statistics of the finite elements, and how many are not finite.

    The statistics of complex arrays are those of all real and imaginary parts.
    """
    kind = BY_DTYPE[array.dtype]
    facts: dict[str, Any] = {"shape": f"{kind.text}[{','.join(map(str, array.shape))}]"}
    values = _components(array)
    finite = values[np.isfinite(values)]
    if finite.size:
        facts |= {"min": float(finite.min()), "max": float(finite.max()), "mean": float(finite.mean())}
    if infinite := int(np.isinf(values).sum()):
        facts["infinite"] = infinite
    if nan := int(np.isnan(values).sum()):
        facts["nan"] = nan
    return facts
