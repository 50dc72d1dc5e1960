"""Calls of programs with dynamic shapes: arrays of their true sizes in, and out.

Role: the program itself is static: its arrays have the sizes of the bounds, what counts stands in front, and the sizes
are further parameters and results behind all others (`xjit.passes.dynamic.static_interface`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjit.hlo.diagnostics import InvalidArgument
from xjit.runtime.arrays.arguments import flatten_arguments, leaf_paths, place_of, to_array
from xjit.runtime.arrays.physical_layout import Array
from xjit.runtime.program import ProgramInterface, unflatten_tree

Places = Sequence[tuple[int, int]]
"""Dynamic dimensions, as (number of the array, dimension), in the order of their sizes."""


class DynamicCall:
    """What stands in front of the call of such a program.

    Args:
        call: the program's own call, with sizes.
        program: what it takes and gives.
        parameters, results: which dimensions are dynamic.
    """

    def __init__(
        self, call: Callable[..., Any], program: ProgramInterface, parameters: Places, results: Places
    ) -> None:
        self._call = call
        self._parameters, self._results = parameters, results
        self._tree = program.parameter_tree[: len(program.parameter_tree) - len(parameters)]
        self._whole_tree = program.parameter_tree
        self._signatures = program.parameters[: len(program.parameters) - len(parameters)]
        self._paths = leaf_paths(self._tree)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Pads the arguments, calls, and returns what counts of the results.

        Errors: InvalidArgument for an array larger than its bounds, and for `out` and `donate`.
        """
        if options:
            message = f"a program of dynamic shapes takes no {', '.join(options)}: its arrays have the bounds as sizes"
            raise InvalidArgument(message)
        leaves = flatten_arguments(self._tree, self._signatures, arguments)
        sizes: list[np.int32] = []
        for n in dict.fromkeys(n for n, _ in self._parameters):
            array = to_array(leaves[n], self._signatures[n], self._paths[n])
            dimensions = [d for leaf, d in self._parameters if leaf == n]
            leaves[n] = self._padded(array, n, dimensions)
            sizes += [np.int32(array.shape[d]) for d in dimensions]
        whole = [*leaves, *map(np.asarray, sizes)]
        result = self._call(*(unflatten_tree(node, whole) for node in self._whole_tree))
        if not self._results:
            return result
        value, *found = result
        cut: dict[int, dict[int, int]] = {}
        for (n, d), size in zip(self._results, found, strict=True):
            cut.setdefault(n, {})[d] = int(size)
        return _sliced(value, cut, [0])

    def _padded(self, array: Array, n: int, dimensions: Sequence[int]) -> Array:
        """The array with its bounds as sizes."""
        bounds, shape = self._signatures[n].shape, array.shape
        if shape == bounds:
            return array
        sizes = enumerate(zip(shape, bounds, strict=False))
        fits = all(size == bound or (d in dimensions and size < bound) for d, (size, bound) in sizes)
        if len(shape) != len(bounds) or not fits:
            what = ",".join(f"<={b}" if d in dimensions else str(b) for d, b in enumerate(bounds))
            place = place_of(self._paths[n], self._signatures[n].name)
            raise InvalidArgument(f"{place}: expected the shape [{what}], got {list(shape)}")
        padded = np.zeros(bounds, array.dtype)
        padded[tuple(map(slice, shape))] = array
        return padded


def _sliced(value: Any, cut: dict[int, dict[int, int]], counter: list[int]) -> Any:
    """The nested result with its arrays cut to their sizes; `counter` holds the number of the next array."""
    if isinstance(value, tuple):
        return tuple(_sliced(element, cut, counter) for element in value)
    n = counter[0]
    counter[0] += 1
    sizes = cut.get(n)
    if sizes is None:
        return value
    return np.ascontiguousarray(value[tuple(slice(sizes.get(d)) for d in range(value.ndim))])
