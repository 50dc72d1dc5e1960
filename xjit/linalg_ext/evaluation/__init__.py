"""The reference evaluator: the meaning of a module, with which every transformation is compared."""

from __future__ import annotations

from typing import Any

import numpy as np

from xjit.hlo.diagnostics import InvalidArgument
from xjit.linalg_ext.evaluation.constants import Resources
from xjit.linalg_ext.evaluation.interpreter import Interpreter
from xjit.linalg_ext.evaluation.values import Array, Runtime, dtype_of
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.ir.types import MemRefType, TensorType, Type

__all__ = ["DEFAULT_STEP_LIMIT", "Resources", "evaluate", "evaluate_with_undefined"]

DEFAULT_STEP_LIMIT = 5_000_000


def evaluate(
    module: Operation,
    function: str,
    *arrays: Any,
    step_limit: int = DEFAULT_STEP_LIMIT,
    resources: Resources | None = None,
) -> Any:
    """Runs a function of a module on NumPy arrays; memrefs among them are written in place.

    Returns nothing for no results, one array or number for one, else a tuple. Elements that the program never wrote are
    NaN, or the least integer. `resources` gives the elements of `dense_resource` constants. InvalidArgument if the
    arrays do not fit the function's types; LinalgError if the program does what it must not, or takes longer.
    """
    results = [
        result.data if isinstance(result, Array) else result
        for result in _run(module, function, arrays, step_limit, resources)
    ]
    return None if not results else results[0] if len(results) == 1 else tuple(results)


def evaluate_with_undefined(
    module: Operation,
    function: str,
    *arrays: Any,
    step_limit: int = DEFAULT_STEP_LIMIT,
    resources: Resources | None = None,
) -> list[tuple[Any, Any]]:
    """As `evaluate`, with a mask per result that is true for elements that nothing has written."""
    pairs: list[tuple[Any, Any]] = []
    for result in _run(module, function, arrays, step_limit, resources):
        data = np.asarray(result.data if isinstance(result, Array) else result)
        undefined = result.undefined if isinstance(result, Array) else None
        pairs.append((data, np.zeros(data.shape, np.bool_) if undefined is None else undefined))
    return pairs


def _run(
    module: Operation, function: str, arrays: tuple[Any, ...], step_limit: int, resources: Resources | None
) -> list[Runtime]:
    interpreter = Interpreter(module, step_limit, resources)
    op = interpreter.function(function)
    types = [argument.type for argument in op.regions[0].blocks[0].arguments]
    if len(arrays) != len(types):
        raise InvalidArgument(f"@{function} takes {len(types)} arguments, found {len(arrays)}")
    arguments = [_argument(function, i, t, given) for i, (t, given) in enumerate(zip(types, arrays))]
    with np.errstate(all="ignore"):
        return interpreter.call(op, arguments)


def _argument(function: str, number: int, t: Type, given: Any) -> Runtime:
    where = f"argument {number} of @{function} ({t})"
    if not isinstance(t, TensorType | MemRefType):
        return int(given) if str(t) == "index" else dtype_of(t).type(given)
    array = np.asarray(given)
    if len(array.shape) != t.rank or any(n not in (None, found) for n, found in zip(t.shape, array.shape)):
        raise InvalidArgument(f"{where} got an array of shape {list(array.shape)}")
    if array.dtype != dtype_of(t.element):
        raise InvalidArgument(f"{where} got elements of type {array.dtype}")
    return Array(array)
