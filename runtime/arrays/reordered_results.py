"""Results whose layout is a permutation of row-major: made in memory order, transposed by NumPy.

A transposed array is a view, so no byte moves. Role: keeps programs whose results are transposed off the slow path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjit.affine.layout_maps import minor_to_major_inverse
from xjit.dataclass import dataclass
from xjit.runtime.arrays.physical_layout import Array
from xjit.runtime.program import ArraySignature, CpuProgram


@dataclass(frozen=True, slots=True)
class Reordering:
    """`dimensions`: the sizes in memory order; `axes`: where each logical dimension is among them."""

    dimensions: tuple[int, ...]
    axes: tuple[int, ...]

    @property
    def inverse(self) -> tuple[int, ...]:
        """The axes that undo it."""
        return tuple(sorted(range(len(self.axes)), key=self.axes.__getitem__))


def reordering(signature: ArraySignature) -> Reordering | None:
    """How a result is a transpose of a row-major array; None if it is row- or column-major itself, tiled or padded."""
    order, shape = signature.minor_to_major, signature.shape
    if order is None or signature.tiles or order == tuple(range(len(shape))):
        return None
    dimensions = tuple(shape[d] for d in reversed(order))
    if signature.byte_size != int(np.prod(dimensions, dtype=object)) * signature.dtype.itemsize:
        return None
    return Reordering(dimensions, minor_to_major_inverse(order))


@dataclass(frozen=True, slots=True)
class ReorderedResults:
    """Gives the results of a native call their logical order; one entry for each, None where they have it.

    `slow` takes what the native call does not, and returns logical arrays.
    """

    orders: Sequence[Reordering | None]
    is_tuple: bool
    slow: Callable[..., Any]

    @staticmethod
    def of(program: CpuProgram, slow: Callable[..., Any]) -> ReorderedResults | None:
        """What a program's results need; None if all have their order."""
        orders = [reordering(signature) for signature in program.results]
        if not any(orders):
            return None
        return ReorderedResults(orders, not isinstance(program.result_tree, int), slow)

    def __call__(self, native: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        """Calls `native`. With keywords the results may be the caller's own arrays, which stay as they are."""
        if keywords:
            return self.slow(*arguments, **keywords)
        return self._each(native(*arguments), lambda order: order.axes)

    def convert(self, *arguments: Any) -> Any:
        """What the native call calls for other arguments: its results, in memory order."""
        return self._each(self.slow(*arguments), lambda order: order.inverse)

    def _each(self, results: Any, axes: Callable[[Reordering], tuple[int, ...]]) -> Any:
        arrays: Sequence[Array] = results if self.is_tuple else (results,)
        moved = [a if o is None else a.transpose(axes(o)) for a, o in zip(arrays, self.orders, strict=True)]
        return tuple(moved) if self.is_tuple else moved[0]
