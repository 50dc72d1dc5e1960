"""The pairs of (output element, operand element) that indexing maps relate, and those that the evaluator shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

import xjit
from xjit.affine import IndexingMap
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.module import HloModule
from xjit.hlo.types.shape import Shape

Array = np.ndarray[Any, Any]
ValueOf = Callable[[HloInstruction], Array]


def related(m: IndexingMap, from_dims: Sequence[int], to_dims: Sequence[int], value_of: ValueOf) -> Array:
    """Returns a bool matrix [from elements, to elements] of what a map relates.

    Run-time variables take the value of their source, clamped to the feasible values.
    """
    matrix = np.zeros((prod(from_dims), prod(to_dims)), dtype=bool)
    if m.is_unknown:
        matrix[:] = True
    if m.is_unknown or m.is_known_empty:
        return matrix
    bounds = [*m.dim_bounds, *[v.bounds for v in m.range_vars]]
    shape = tuple(b.size for b in bounds)
    assert prod(shape) <= 1 << 22, shape
    values = [
        np.arange(b.lower, b.upper + 1).reshape([-1 if a == axis else 1 for a in range(len(bounds))])
        for axis, b in enumerate(bounds)
    ]
    dims, symbols = values[: m.num_dims], values[m.num_dims :]
    for variable in m.rt_vars:
        assert isinstance(variable.source, HloInstruction)
        source = value_of(variable.source)
        index = variable.map.evaluate(dims, _padded(symbols, variable.map.num_symbols))
        read = source[tuple(np.asarray(i) for i in index)] if index else source[()]
        symbols = [*symbols, np.clip(np.asarray(read).astype(np.int64), *_ends(variable.feasible_values))]
    inside = np.broadcast_to(m.contains(dims, symbols), shape).copy()
    results = [np.broadcast_to(r, shape) for r in m.evaluate(dims, symbols)]
    for r, n in zip(results, to_dims, strict=True):
        inside &= (r >= 0) & (r < n)
    place = [np.broadcast_to(d, shape)[inside] for d in dims]
    matrix[_flat(place, from_dims, inside), _flat([r[inside] for r in results], to_dims, inside)] = True
    return matrix


def _padded(symbols: Sequence[Any], count: int) -> list[Any]:
    """As many symbols as the map takes; it uses none that is not known yet."""
    return [*symbols, *[0] * count][:count]


def _ends(interval: Any) -> tuple[int, int]:
    return interval.lower, interval.upper


def _flat(index: Sequence[Array], dims: Sequence[int], inside: Array) -> Array:
    total = np.zeros(int(inside.sum()), dtype=np.int64)
    for i, n in zip(index, dims, strict=True):
        total = total * n + i
    return total


def relation(maps: Sequence[IndexingMap], from_dims: Sequence[int], to_dims: Sequence[int], value_of: ValueOf) -> Array:
    """Returns the union of what a set of maps relates."""
    matrix = np.zeros((prod(from_dims), prod(to_dims)), dtype=bool)
    for m in maps:
        matrix |= related(m, from_dims, to_dims, value_of)
    return matrix


def random_input(shape: Shape, rng: np.random.Generator) -> Array:
    """Returns generic values: no two floats equal, small integers."""
    kind, size = shape.element_type, shape.dimensions
    if kind.is_complex:
        return (rng.standard_normal(size) + 1j * rng.standard_normal(size)).astype(shape.dtype)
    if kind.is_float:
        return np.asarray(np.abs(rng.standard_normal(size) + 3)).astype(shape.dtype)
    if kind.is_integer:
        return np.asarray(rng.integers(0, 4, size)).astype(shape.dtype)
    return np.asarray(rng.integers(0, 2, size)).astype(shape.dtype)


def perturbed(x: Array, place: tuple[int, ...]) -> Array:
    """Returns a copy with one element changed."""
    y = np.array(x)
    if x.dtype == np.bool_:
        y[place] = ~y[place]
    else:
        two = np.asarray(2).astype(x.dtype)
        y[place] = y[place] + two if x.dtype.kind in "iu" else y[place] * two
    return y


def leaves(value: Any) -> list[Array]:
    """Returns the arrays of a nested tuple, left to right."""
    if isinstance(value, tuple):
        return [leaf for element in value for leaf in leaves(element)]
    return [] if value is None else [np.asarray(value)]


def observed(module: HloModule, inputs: Sequence[Array], operand: int, place: tuple[int, ...]) -> list[Array]:
    """Returns, per result leaf, which elements change (flat) when one element of an input does."""
    before = leaves(xjit.evaluate(module, *inputs))
    changed = list(inputs)
    changed[operand] = perturbed(inputs[operand], place)
    after = leaves(xjit.evaluate(module, *changed))
    return [_differs(a, b).reshape(-1) for a, b in zip(before, after, strict=True)]


def _differs(a: Array, b: Array) -> Array:
    return ~((a == b) | ((a != a) & (b != b)))
