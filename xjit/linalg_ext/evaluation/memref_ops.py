"""Operations of `memref`: a memref is an Array whose views share its elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from xjit.linalg_ext.dialects.attribute_kinds import ATOMIC_KINDS, word_of
from xjit.linalg_ext.evaluation.atomic import accumulate
from xjit.linalg_ext.evaluation.memref_layout import extract_strided_metadata, reinterpret_cast
from xjit.linalg_ext.evaluation.slicing import reassociation_of, slice_of
from xjit.linalg_ext.evaluation.tensor_ops import (
    TENSOR_OPS,
    element_at,
    expanded_shape,
    new_array,
    rank_reduced,
    shape_from,
)
from xjit.linalg_ext.evaluation.values import Array, Runtime
from xjit.linalg_ext.ir.attributes import AffineMapAttr, SymbolRefAttr
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation

if TYPE_CHECKING:
    from xjit.linalg_ext.evaluation.interpreter import Interpreter

__all__ = ["MEMREF_OPS"]

_Handler: TypeAlias = "Callable[[Interpreter, Operation, list[Runtime]], Sequence[Runtime]]"


def _alloc(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    return [new_array(op, operands)]


def _get_global(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    name = op.attributes["name"]
    assert isinstance(name, SymbolRefAttr)
    return [interpreter.global_memref(name.name, op)]


def _nothing(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    return []


def _store(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    target: Array = operands[1]
    target.store(element_at(op, target, operands[2:]), operands[0])
    return []


def _copy(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    source, target = operands
    if source.shape != target.shape:
        raise LinalgError(f"'{op.name}' from shape {source.shape} to {target.shape}", op.location)
    target.store(..., source.copy())
    return []


def _subview(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    """A result of lower rank leaves out dimensions of size 1."""
    array: Array = operands[0]
    at = slice_of(op, operands[1:], array.shape)
    part = array.view(lambda x: x[at])
    return [_viewed(op, part, rank_reduced(op, part.shape))]


def _viewed(op: Operation, array: Array, shape: tuple[int, ...]) -> Array:
    """Returns a view of another shape; LinalgError where only a copy has it."""

    def reshape(x: Any) -> Any:
        result = x.reshape(shape)
        if x.size and not np.shares_memory(result, x):
            raise LinalgError(f"'{op.name}' has no view of shape {shape} of these strides", op.location)
        return result

    return array.view(reshape)


def _collapse_shape(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    shape = operands[0].shape
    groups = reassociation_of(op)
    return [_viewed(op, operands[0], tuple(prod(shape[i] for i in group) for group in groups))]


def _expand_shape(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    return [_viewed(op, operands[0], expanded_shape(op, operands))]


def _transpose(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    map = op.attributes["permutation"]
    assert isinstance(map, AffineMapAttr)
    order = [e.position for e in map.map.results]
    return [operands[0].view(lambda x: x.transpose(order))]


def _reshape(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    """The sizes are elements of another memref."""
    return [_viewed(op, operands[0], shape_from(op, operands))]


def _realloc(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    """A buffer that begins with the elements of another one, whose place it takes."""
    result = new_array(op, operands[1:])
    count = min(operands[0].shape[0], result.shape[0])
    result.store(slice(count), operands[0].view(lambda x: x[:count]))
    return [result]


def _atomic(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    """The element there is after the update."""
    value, target, *indices = operands
    at = element_at(op, target, indices)
    old = target.view(lambda x: np.asarray(x[at]))
    new = accumulate(word_of(op.attributes["kind"], ATOMIC_KINDS), old, value)
    target.store(at, new)
    return [new]


def _atomic_body(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    target, *indices = operands
    [old] = TENSOR_OPS["tensor.extract"](interpreter, op, operands)
    [new] = interpreter.run_block(op.body, [old])
    target.store(element_at(op, target, indices), new)
    return [new]


MEMREF_OPS: dict[str, _Handler] = {
    "memref.alloc": _alloc,
    "memref.alloca": _alloc,
    "memref.dealloc": _nothing,
    "memref.assume_alignment": _nothing,
    "memref.prefetch": _nothing,
    "affine.prefetch": _nothing,
    "gpu.barrier": _nothing,
    "memref.realloc": _realloc,
    "memref.atomic_rmw": _atomic,
    "memref.generic_atomic_rmw": _atomic_body,
    "memref.transpose": _transpose,
    "memref.reshape": _reshape,
    "memref.get_global": _get_global,
    "memref.load": TENSOR_OPS["tensor.extract"],
    "memref.store": _store,
    "memref.copy": _copy,
    "memref.dim": TENSOR_OPS["tensor.dim"],
    "memref.rank": TENSOR_OPS["tensor.rank"],
    "memref.cast": TENSOR_OPS["tensor.cast"],
    "memref.memory_space_cast": TENSOR_OPS["tensor.cast"],
    "memref.subview": _subview,
    "memref.collapse_shape": _collapse_shape,
    "memref.expand_shape": _expand_shape,
    "memref.extract_strided_metadata": extract_strided_metadata,
    "memref.reinterpret_cast": reinterpret_cast,
}
