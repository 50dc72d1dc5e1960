"""Runs a function before and after a transformation on random arguments and compares what is defined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xjit.linalg_ext.evaluation import evaluate_with_undefined
from xjit.linalg_ext.evaluation.values import dtype_of
from xjit.linalg_ext.ir import MemRefType, Operation, StringAttr, TensorType, Type
from xjit.linalg_ext.text.parser import parse_module

DYNAMIC_SIZE = 5
"""The size of dimensions that a type leaves open."""


def random_array(t: Type, rng: np.random.Generator, dynamic: int = DYNAMIC_SIZE) -> Any:
    """Returns an argument of a type: normally distributed floats, small integers."""
    if not isinstance(t, TensorType | MemRefType):
        return 3 if str(t) == "index" else dtype_of(t).type(rng.normal())
    dtype = dtype_of(t.element)
    shape = tuple(dynamic if n is None else n for n in t.shape)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.kind in "iu":
        return rng.integers(0, 2, shape).astype(dtype)
    return rng.normal(size=shape).astype(dtype)


def function_of(module: Operation, name: str | None = None) -> Operation:
    """Returns a function with a body, the first one if no name is given."""
    for op in module.body.operations:
        symbol = op.attributes.get("sym_name")
        if op.name != "func.func" or not op.regions[0].blocks or not isinstance(symbol, StringAttr):
            continue
        if name in (None, symbol.value):
            return op
    raise AssertionError(f"no function {name}")


def resources(name: str, t: TensorType) -> Any:
    """Elements for constants that the text leaves out: the same for the same shape."""
    return np.random.default_rng(sum(n or 0 for n in t.shape)).normal(size=t.shape)


def results_of(function: Operation, module: Operation, seed: int = 0) -> list[tuple[Any, Any]]:
    """Runs the function of a module that has the name and the arguments of `function`, on random arguments.

    Returns results, and memrefs that were arguments, each with a mask of the elements that are undefined.
    """
    name = function.attributes["sym_name"].value
    types = [argument.type for argument in function.body.arguments]
    rng = np.random.default_rng(seed)
    arguments = [random_array(t, rng) for t in types]
    results = evaluate_with_undefined(module, name, *arguments, resources=resources)
    memrefs = [(a, np.zeros(a.shape, np.bool_)) for t, a in zip(types, arguments) if isinstance(t, MemRefType)]
    return [*results, *memrefs]


def check_same(before: list[tuple[Any, Any]], after: list[tuple[Any, Any]], tolerance: float = 1e-5) -> None:
    """Compares what `results_of` gave; what was undefined before may be anything."""
    assert len(before) == len(after)
    for (expected, expected_mask), (value, mask) in zip(before, after):
        assert expected.shape == value.shape and expected.dtype == value.dtype
        assert not (mask & ~expected_mask).any(), "elements are undefined that were not"
        _assert_close(expected[~expected_mask], value[~expected_mask], tolerance)


def check_equivalent(before: Operation, after: Operation, seed: int = 0, tolerance: float = 1e-5) -> list[Any]:
    """Runs both programs and compares; returns what the second one gives."""
    function = function_of(before)
    found = results_of(function, after, seed)
    check_same(results_of(function, before, seed), found, tolerance)
    return [value for value, _ in found]


def _assert_close(expected: Any, value: Any, tolerance: float) -> None:
    if expected.dtype.kind in "biu":
        assert (expected == value).all()
        return
    narrow = {2: 1e-2, 1: 1e-1}.get(expected.dtype.itemsize, tolerance)
    np.testing.assert_allclose(value.astype(np.float64), expected.astype(np.float64), rtol=narrow, atol=narrow)


def check_transformation(text: str, transformation: Callable[[Operation], Any], seed: int = 0) -> Operation:
    """Applies a transformation to a module and checks that it computes what it did; returns the result."""
    before = parse_module(text)
    after = before.clone()
    transformation(after)
    check_equivalent(before, after, seed)
    return after


def count(module: Operation, name: str) -> int:
    """Returns how many operations of a name there are."""
    return sum(op.name == name for op in module.walk())
