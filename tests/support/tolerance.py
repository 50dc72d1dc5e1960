"""How far a floating-point result may be from the right one: per element, in units of its type.

An element may be off by `ulps` units in the last place of its own magnitude. Where an element is a sum of terms that
may cancel, its error is relative to the sum of their magnitudes, which the caller gives as `scale` (an array like the
result, or a number); the largest of other elements is never a reason to accept one.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]


def ulp(dtype: np.dtype[Any]) -> float:
    """Returns the distance from 1 to the next number of a float or complex type (of its parts)."""
    real = np.empty(0, dtype).real.dtype if dtype.kind == "c" else dtype
    return float(ml_dtypes.finfo(real).eps)


def smallest(dtype: np.dtype[Any]) -> float:
    """Returns the smallest normal number of a type: what is below may be flushed to zero."""
    real = np.empty(0, dtype).real.dtype if dtype.kind == "c" else dtype
    return float(ml_dtypes.finfo(real).smallest_normal)


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether elements are floating-point or complex numbers, narrow ones included."""
    return dtype.kind in "fc" or (dtype.kind == "V" and not np.can_cast(dtype, np.int32))


def close(actual: Array, expected: Array, ulps: float, scale: Array | float = 0.0) -> Any:
    """Returns for each element whether it is near enough. Integers must be equal; a NaN is near a NaN."""
    if not is_float(expected.dtype):
        return actual == expected
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    a, e = actual.astype(wide), expected.astype(wide)
    with np.errstate(all="ignore"):
        magnitude = np.maximum(np.abs(e), scale)
        near = np.abs(a - e) <= ulps * ulp(expected.dtype) * magnitude + smallest(expected.dtype)
    return (near & np.isfinite(a) & np.isfinite(e)) | (a == e) | (np.isnan(a) & np.isnan(e))


def same_bits(actual: Array, expected: Array) -> bool:
    """Returns whether all elements have the same bits; NaNs, whose bits processors choose, are all the same."""
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return False
    parts = [np.ascontiguousarray(array) for array in (actual, expected)]
    if actual.dtype.kind == "c":
        parts = [part.reshape(-1).view(part.real.dtype) for part in parts]
    if is_float(actual.dtype):
        parts = [np.where(np.isnan(part), part.dtype.type(np.nan), part) for part in parts]
    return bool(parts[0].tobytes() == parts[1].tobytes())


def mismatch(actual: Array, expected: Array, ulps: float, scale: Array | float = 0.0) -> str:
    """Returns what is wrong with a result, in words; "" if nothing is."""
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return f"{actual.dtype}{list(actual.shape)} instead of {expected.dtype}{list(expected.shape)}"
    wrong = ~np.asarray(close(actual, expected, ulps, scale))
    if not wrong.any():
        return ""
    where = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{int(wrong.sum())} of {wrong.size} elements; at {list(where)}: {actual[where]!r} not {expected[where]!r}"
