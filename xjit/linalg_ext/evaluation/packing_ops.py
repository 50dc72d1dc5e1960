"""`pack` and `unpack`: tiles of a tensor's dimensions as dimensions of their own, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from xjit.linalg_ext.dialects.packing import PACK, UNPACK, packing_of
from xjit.linalg_ext.evaluation.slicing import integer, mixed_values
from xjit.linalg_ext.evaluation.values import Array, Runtime
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation

if TYPE_CHECKING:
    from xjit.linalg_ext.evaluation.interpreter import Interpreter

__all__ = ["PACKING_OPS"]

_Handler: TypeAlias = "Callable[[Interpreter, Operation, list[Runtime]], Sequence[Runtime]]"


def _tiled_shape(op: Operation, tiles: list[int], packed: tuple[int, ...]) -> list[int]:
    """Returns the shape with each tile behind the dimension that it cuts, and checks the packed one."""
    how = packing_of(op)
    rank = len(how.outer)
    if packed[rank:] != tuple(tiles) or any(n < 1 for n in tiles):
        raise LinalgError(f"'{op.name}' with tiles of {tiles}, and the packed shape is {packed}", op.location)
    shape: list[int] = []
    for dimension in range(rank):
        shape.append(packed[how.outer.index(dimension)])
        shape += [n for d, n in zip(how.inner, tiles) if d == dimension]
    return shape


def _flat(op: Operation, shape: list[int]) -> tuple[int, ...]:
    """Returns the shape of the unpacked tensor if all tiles were full."""
    return tuple(prod(shape[i] for i in group) for group in packing_of(op).groups)


def _pack(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    """What tiles have behind the end of the source is the padding value."""
    how = packing_of(op)
    source, dest, *rest = operands
    padding = rest.pop(0) if len(rest) > sum(not isinstance(n, int) for n in how.tiles) else None
    tiles = mixed_values(op, "static_inner_tiles", rest)
    shape = _tiled_shape(op, tiles, dest.shape)
    flat = _flat(op, shape)
    if any(n < size for n, size in zip(flat, source.shape)) or (padding is None and flat != source.shape):
        raise LinalgError(f"'{op.name}' of shape {source.shape} into tiles of {flat} elements in all", op.location)
    full = Array(np.empty(flat, source.data.dtype))
    if padding is not None:
        full.store(..., padding)
    full.store(tuple(map(slice, source.shape)), source)
    return [full.view(lambda x: x.reshape(shape).transpose(how.order)).copy()]


def _unpack(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    how = packing_of(op)
    source, dest, *rest = operands
    tiles = [integer(n) for n in mixed_values(op, "static_inner_tiles", rest)]
    shape = _tiled_shape(op, tiles, source.shape)
    flat = _flat(op, shape)
    if any(n < size for n, size in zip(flat, dest.shape)):
        raise LinalgError(f"'{op.name}' of tiles of {flat} elements in all to shape {dest.shape}", op.location)

    def unpacked(x: Any) -> Any:
        return x.transpose(np.argsort(how.order)).reshape(flat)[tuple(map(slice, dest.shape))]

    return [source.view(unpacked).copy()]


PACKING_OPS: dict[str, _Handler] = {**dict.fromkeys(PACK, _pack), **dict.fromkeys(UNPACK, _unpack)}
