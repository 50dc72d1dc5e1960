"""Constant folding: scalar code on constants, numbers or tensors of them, and tensors that are made of constants."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from xjit.linalg_ext.dialects.registry import operand_group
from xjit.linalg_ext.evaluation.constants import constant_elements
from xjit.linalg_ext.evaluation.scalar_ops import SCALAR_OPS
from xjit.linalg_ext.evaluation.values import dtype_of, plain
from xjit.linalg_ext.ir.attributes import DenseArrayAttr, DenseAttr, FloatAttr, IntegerAttr
from xjit.linalg_ext.ir.builder import Builder, constant_value
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation, Value
from xjit.linalg_ext.ir.types import FloatType, IndexType, IntegerType, TensorType, Type, element_type
from xjit.linalg_ext.rewrite.rule import Rule, constant_attribute, replace, replace_with_constant

__all__ = ["FOLDING_RULES"]

_MOST_ELEMENTS = 1 << 12
"""Larger constants than that are only folded where all elements are one number."""

_NOT_FOLDED = frozenset(
    ("linalg_ext.alias", *(f"math.{name}" for name in ("fma", "fpowi", "ipowi", "rsqrt", "cbrt", "clampf", "erfc")))
)
_FOLDED = tuple(n for n in SCALAR_OPS if n.split(".")[0] in ("arith", "math") and n not in _NOT_FOLDED)
_DIVISIONS = frozenset(
    f"arith.{n}" for n in ("divsi", "divui", "remsi", "remui", "floordivsi", "ceildivsi", "ceildivui")
)
_SHIFTS = frozenset(("arith.shli", "arith.shrsi", "arith.shrui"))
_OF_BITS = frozenset(f"math.{n}" for n in ("absf", "absi", "ceil", "floor", "trunc", "round", "roundeven", "copysign"))


def fold(op: Operation) -> bool:
    """Replaces scalar code on constants by its result, unless that means nothing or another machine rounds it."""
    t = op.results[0].type
    constants = [_constant(v) for v in op.operands]
    if any(c is None for c in constants) or not constants or not _is_known(t):
        return False
    if isinstance(t, TensorType) and _is_large(t, constants):
        return False
    if op.name.startswith("math.") and op.name not in _OF_BITS and str(element_type(t)) in ("f16", "bf16"):
        return False
    given = [c[0] for c in constants if c is not None]
    if not _means_something(op, given):
        return False
    try:
        with np.errstate(all="ignore"):
            found = np.asarray(SCALAR_OPS[op.name](op, *given)).astype(dtype_of(element_type(t)), copy=False)
    except LinalgError:
        return False
    return _replaced(op, found.reshape(-1), t)


def _constant(value: Value) -> tuple[Any, bool] | None:
    """Returns the elements of a constant, one if all are the same, and whether it is one number."""
    attribute = constant_attribute(value)
    if not isinstance(attribute, IntegerAttr | FloatAttr | DenseAttr) or not _is_known(value.type):
        return None
    if isinstance(attribute, DenseAttr):
        if not attribute.values or not isinstance(value.type, TensorType):
            return None
        elements = constant_elements(attribute, value.type, None).data
        return (np.asarray(elements.reshape(-1)[:1]) if attribute.is_splat else elements), attribute.is_splat
    return np.asarray(plain(constant_elements(attribute, value.type, None))), True


def _is_known(t: Type) -> bool:
    """Whether the evaluator has the elements of a type, and a tensor's sizes are known."""
    if isinstance(t, TensorType) and not t.has_static_shape:
        return False
    element = element_type(t)
    if isinstance(element, IntegerType) and element.signedness:
        return False
    try:
        dtype_of(element)
    except LinalgError:
        return False
    return isinstance(element, FloatType | IntegerType | IndexType) and (t == element or isinstance(t, TensorType))


def _is_large(t: TensorType, constants: Sequence[tuple[Any, bool] | None]) -> bool:
    count = prod(n or 0 for n in t.shape)
    return count == 0 or (count > _MOST_ELEMENTS and not all(c is None or c[1] for c in constants))


def _means_something(op: Operation, given: Sequence[Any]) -> bool:
    """Whether no element divides by zero, is shifted by all its bits or has no integer near."""
    if op.name in _DIVISIONS:
        return bool(np.all(given[1])) and given[0].dtype.kind != "b"
    if op.name in _SHIFTS:
        bits = given[0].dtype.itemsize * 8
        return given[0].dtype.kind != "b" and bool(np.all((given[1] >= 0) & (given[1] < bits)))
    if op.name in ("arith.fptosi", "arith.fptoui"):
        target = element_type(op.results[0].type)
        width = target.width if isinstance(target, IntegerType) else 64
        low, high = (-(2 ** (width - 1)), 2 ** (width - 1)) if op.name == "arith.fptosi" else (0, 2**width)
        numbers = np.trunc(given[0].astype(np.float64))
        return bool(np.all((numbers >= low) & (numbers < high)))
    return True


def _numbers(elements: Any, t: Type) -> list[Any]:
    element = element_type(t)
    if isinstance(element, FloatType):
        return [float(x) for x in elements]
    return [int(x) for x in elements]


def _replaced(op: Operation, elements: Any, t: Type) -> bool:
    numbers, element = _numbers(elements, t), element_type(t)
    if isinstance(t, TensorType):
        count = prod(n or 0 for n in t.shape)
        if len(numbers) not in (1, count):
            return False
        return replace_with_constant(op, _dense(numbers, t), t)
    value = FloatAttr(numbers[0], element) if isinstance(element, FloatType) else IntegerAttr(numbers[0], element)  # pyright: ignore[reportArgumentType]
    return replace_with_constant(op, value, t)


def _dense(numbers: Sequence[Any], t: TensorType) -> DenseAttr:
    """Returns the elements, one if all are the same; a zero is not its negative."""
    same = len({(x, str(x)) for x in numbers}) == 1
    return DenseAttr(tuple(numbers[:1]) if same else tuple(numbers), t)


def fold_made(op: Operation) -> bool:
    """`tensor.from_elements` and `tensor.splat` of constants."""
    t = op.result.type
    attributes = [constant_attribute(v) for v in op.operands]
    numbers = [a.value for a in attributes if isinstance(a, IntegerAttr | FloatAttr)]
    if not isinstance(t, TensorType) or not t.has_static_shape or not numbers or len(numbers) != len(attributes):
        return False
    return 0 not in t.shape and replace_with_constant(op, _dense(numbers, t), t)


def fold_moved(op: Operation) -> bool:
    """A reshape of a constant, and a slice of one number."""
    attribute, t = constant_attribute(op.operands[0]), op.result.type
    if not isinstance(attribute, DenseAttr) or not isinstance(t, TensorType) or not t.has_static_shape:
        return False
    if op.name == "tensor.extract_slice" and not attribute.is_splat:
        return False
    return replace_with_constant(op, DenseAttr(attribute.values, t), t)


def fold_coordinates(op: Operation) -> bool:
    """`affine.delinearize_index` and `affine.linearize_index` of constants."""
    split = op.name == "affine.delinearize_index"
    indices = op.operands[:1] if split else operand_group(op, "multi_index")
    numbers = [n for n in map(constant_value, indices) if n is not None]
    basis = op.attributes["static_basis"]
    sizes = basis.ints if isinstance(basis, DenseArrayAttr) else ()
    if len(numbers) != len(indices) or any(n < 1 for n in sizes):
        return False
    count = len(op.results) if split else len(numbers)
    sizes = sizes[len(sizes) - count + 1 :]
    if not split:
        total = sum(n * prod(sizes[i:]) for i, n in enumerate(numbers))
        return replace_with_constant(op, IntegerAttr(total, op.results[0].type), op.results[0].type)
    found: list[int] = []
    left = numbers[0]
    for size in reversed(sizes):
        left, rest = divmod(left, size)
        found.append(rest)
    builder = Builder.before(op)
    return replace(op, [builder.constant_index(n) for n in (left, *reversed(found))])


FOLDING_RULES: tuple[Rule, ...] = (
    Rule(_FOLDED, fold),
    Rule(("tensor.from_elements", "tensor.splat"), fold_made),
    Rule(("tensor.expand_shape", "tensor.collapse_shape", "tensor.extract_slice"), fold_moved),
    Rule(("affine.delinearize_index", "affine.linearize_index"), fold_coordinates),
)
