"""What callers pass, made into what a program takes: flat leaf arrays of the right type, shape and layout, or a clear
error.

Role: the slow half of a call. Arrays that fit exactly never come here (see `xjit.runtime.calls.fast_call`). Copies are
made only where needed: for order, alignment or layout. Values are never converted silently: a wrong dtype is an error.
Python numbers are accepted for scalars: floats are rounded to the type, everything else must be representable exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xjit.dataclass import dataclass
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.types.python_numbers import PYTHON_NUMBERS, python_number_as_array
from xjit.runtime.arrays.host_arrays import read_array
from xjit.runtime.arrays.physical_layout import Array, to_physical
from xjit.runtime.program import PARAMETER_ALIGNMENT, ArraySignature, LeafTree, hlo_type_name


@dataclass(frozen=True, slots=True)
class LeafPath:
    """Where a leaf is: its index in the tuple at `parent`; without a parent, the number of the parameter."""

    index: int
    parent: LeafPath | None = None

    def indices(self) -> list[int]:
        """From the parameter's number inwards."""
        reverse: list[int] = []
        node: LeafPath | None = self
        while node is not None:
            reverse.append(node.index)
            node = node.parent
        return reverse[::-1]


def flatten_arguments(
    tree: Sequence[LeafTree], signatures: Sequence[ArraySignature], arguments: Sequence[Any]
) -> list[Any]:
    """The leaves of `arguments`: one argument per parameter (tuples nested as in HLO), or one per leaf."""
    if len(arguments) == len(signatures) and (len(arguments) != len(tree) or all(isinstance(n, int) for n in tree)):
        return list(arguments)
    if len(arguments) != len(tree):
        raise InvalidArgument(_wrong_count(tree, signatures, len(arguments)))
    leaves: list[Any] = [None] * len(signatures)
    stack = [(node, value, LeafPath(i)) for i, (node, value) in enumerate(zip(tree, arguments, strict=True))]
    while stack:
        node, value, path = stack.pop()
        if isinstance(node, int):
            leaves[node] = value
            continue
        if not isinstance(value, tuple | list):
            raise InvalidArgument(
                f"{place_of(path, '')}: expected a tuple of {len(node)} elements, got {_describe(value)}"
            )
        if len(value) != len(node):
            raise InvalidArgument(f"{place_of(path, '')}: expected a tuple of {len(node)} elements, got {len(value)}")
        stack.extend(
            (child, element, LeafPath(i, path)) for i, (child, element) in enumerate(zip(node, value, strict=True))
        )
    return leaves


def leaf_paths(tree: Sequence[LeafTree]) -> list[LeafPath]:
    """The place of each leaf, in order."""
    paths: list[LeafPath] = []
    stack = [(node, LeafPath(i)) for i, node in reversed(list(enumerate(tree)))]
    while stack:
        node, path = stack.pop()
        if isinstance(node, int):
            paths.append(path)
        else:
            stack.extend((child, LeafPath(i, path)) for i, child in reversed(list(enumerate(node))))
    return paths


def to_buffer(value: Any, signature: ArraySignature, path: LeafPath) -> Array:
    """The physical buffer of one leaf: 1-D, contiguous, of the right dtype; not always aligned (see `conforming`)."""
    array = value if type(value) is np.ndarray else to_array(value, signature, path)
    if array.shape != signature.shape or array.dtype != signature.dtype:
        raise InvalidArgument(
            f"{place_of(path, signature.name)}: expected {signature.describe()}, got {_describe(value)}"
            f"{_hint(value, array, signature)}"
        )
    if signature.is_row_major and array.nbytes == signature.byte_size:
        return np.ascontiguousarray(array).reshape(-1)
    return np.ascontiguousarray(to_physical(array, signature))


def conforming(array: Array, dtype: np.dtype[Any]) -> Array:
    """`array`, or a copy of it, as a contiguous and aligned ndarray whose dtype is the object `dtype`."""
    result = np.ascontiguousarray(array)
    if result.ctypes.data % PARAMETER_ALIGNMENT or not result.flags.aligned or not result.size:
        fresh = np.empty(result.shape, dtype)
        fresh[...] = result
        return fresh
    return result if result.dtype is dtype and type(result) is np.ndarray else result.view(dtype, np.ndarray)


def _hint(value: Any, array: Array, signature: ArraySignature) -> str:
    """What a caller may have meant, where only the type is wrong."""
    if array.shape != signature.shape or array.dtype.kind not in "biufc":
        return ""
    if isinstance(value, np.ndarray):
        return f": convert it with .astype({_numpy_name(signature.dtype)})"
    return f": pass np.asarray(x, {_numpy_name(signature.dtype)})"


def _numpy_name(dtype: np.dtype[Any]) -> str:
    return f"np.{dtype.name}" if dtype.kind in "biufc" else f"ml_dtypes.{dtype.name}"


def to_array(value: Any, signature: ArraySignature, path: LeafPath) -> Array:
    """What NumPy makes of an argument, of whatever shape; InvalidArgument if it makes nothing of it."""
    if isinstance(value, np.ma.MaskedArray):
        raise InvalidArgument(f"{place_of(path, signature.name)}: a masked array would lose its mask; fill it first")
    if isinstance(value, np.ndarray):
        return value.view(np.ndarray)
    if type(value) in PYTHON_NUMBERS and signature.shape == ():
        return _scalar(value, signature, path)
    try:
        return read_array(value)
    except Exception as error:
        raise InvalidArgument(
            f"{place_of(path, signature.name)}: expected {signature.describe()}, got {_describe(value)}, "
            f"which NumPy cannot read: {error}"
        ) from error


def _scalar(value: bool | int | float | complex, signature: ArraySignature, path: LeafPath) -> Array:
    """A Python number as a 0-d array: floats are rounded, everything else must be representable exactly."""
    dtype = signature.dtype
    array = python_number_as_array(value, dtype)
    if array is None:
        raise InvalidArgument(
            f"{place_of(path, signature.name)}: expected {signature.describe()}, "
            f"got the Python {type(value).__name__} {value!r}, which {hlo_type_name(dtype)} does not represent"
        )
    return array


def place_of(path: LeafPath, name: str) -> str:
    """A leaf in the words of errors: `parameter 0 'x' element {1}`."""
    number, *inner = path.indices()
    element = f" element {{{','.join(map(str, inner))}}}" if inner else ""
    return f"parameter {number}{f' {name!r}' if name else ''}{element}"


def _describe(value: Any) -> str:
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if dtype is not None and shape is not None:
        return f"{dtype} {tuple(shape)}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)} elements"
    return f"{type(value).__name__} {str(value)[:40]}"


def _wrong_count(tree: Sequence[LeafTree], signatures: Sequence[ArraySignature], count: int) -> str:
    shown = ", ".join(f"{s.describe()}{f' {s.name!r}' if s.name else ''}" for s in signatures[:8])
    more = ", ..." if len(signatures) > 8 else ""
    leaves = f" (or {len(signatures)} arrays)" if len(signatures) != len(tree) else ""
    return f"expected {len(tree)} parameters{leaves}, got {count}; the program takes ({shown}{more})"
