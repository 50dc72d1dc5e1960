"""Python numbers as scalars of an element type: what executables and the evaluator accept in place of 0-d arrays."""

from __future__ import annotations

import cmath
from typing import Any

import numpy as np

PYTHON_NUMBERS = (bool, int, float, complex)


def python_number_as_array(value: bool | int | float | complex, dtype: np.dtype[Any]) -> np.ndarray[Any, Any] | None:
    """Returns a 0-d array, or None if the type does not represent the number.

    A float is rounded to a floating-point type whose range it is in; everything else must be representable exactly.
    """
    if isinstance(value, bool) != (dtype == np.bool_) or (isinstance(value, complex) and dtype.kind != "c"):
        return None
    try:
        with np.errstate(all="ignore"):
            array = np.array(value).astype(dtype) if abs(value) < 2**63 else np.array(value, dtype)
    except (OverflowError, TypeError, ValueError):
        return None
    back = array.item()
    if back == value or (value != value and back != back):
        return array
    rounded = isinstance(value, float | complex) and not isinstance(back, int) and cmath.isfinite(back)
    return array if rounded else None
