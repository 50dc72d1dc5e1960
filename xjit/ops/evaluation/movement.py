"""Data movement: shapes, slices, pads, concatenation, iota, constants, and the sizes of dynamic dimensions.

A dynamic dimension has its actual size in the array, so set-dimension-size cuts and get-dimension-size reads the shape.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from xjit.affine import tile_array, untile_array
from xjit.affine.reshape import common_factors
from xjit.hlo.attributes import (
    ConcatenateAttributes,
    ConstantAttributes,
    DimensionAttributes,
    DimensionsAttributes,
    DynamicSliceAttributes,
    IotaAttributes,
    PadAttributes,
    SliceAttributes,
)
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.literal import Literal
from xjit.hlo.types.shape import Shape
from xjit.ops.evaluation.convert import bitcast_elements
from xjit.ops.evaluation.numerics import Array, Value, concrete_int, unsupported, widen
from xjit.ops.opdef import Evaluator

if TYPE_CHECKING:
    from xjit.ops.evaluation.interpreter import Interpreter


def literal_value(literal: Literal) -> Value:
    """Returns the value of a literal."""
    if literal.shape.is_tuple:
        return tuple(literal_value(e) for e in literal.elements)
    return literal.array if literal.shape.is_array else None


def pad_array(
    x: Array, value: Array, low: Sequence[int], high: Sequence[int], interior: Sequence[int] | None = None
) -> Array:
    """Pads with a scalar; negative edges crop, `interior` goes between elements."""
    gaps = interior or (0,) * x.ndim
    if not any(gaps) and not any(low) and not any(high):
        return x
    spread = [n + max(n - 1, 0) * g for n, g in zip(x.shape, gaps)]
    result = np.full([max(lo + n + hi, 0) for lo, n, hi in zip(low, spread, high)], value, x.dtype)
    source: list[slice] = []
    target: list[slice] = []
    for n, g, lo, size in zip(x.shape, gaps, low, result.shape):
        step = g + 1
        first = max(0, -(lo // step)) if lo < 0 else 0
        last = min(n, (size - 1 - lo) // step + 1) if size > 0 else 0
        last = max(first, last)
        source.append(slice(first, last))
        begin = lo + first * step
        target.append(slice(begin, max(begin, begin + (last - first - 1) * step + 1) if last > first else begin, step))
    if 0 not in result.shape:
        result[tuple(target)] = x[tuple(source)]
    return result


def _constant(_interpreter: Interpreter, instruction: HloInstruction, _operands: Sequence[Array]) -> Value:
    return literal_value(instruction.attributes_as(ConstantAttributes).literal)


def _iota(_interpreter: Interpreter, instruction: HloInstruction, _operands: Sequence[Array]) -> Array:
    shape = instruction.shape
    if not shape.rank:
        return np.zeros((), shape.dtype)
    dimension = instruction.attributes_as(IotaAttributes).iota_dimension
    line = np.arange(shape.dimensions[dimension])
    if shape.element_type.is_float and shape.element_type.bit_width < 32:
        line = line.astype(np.float32)
    sizes = [1] * shape.rank
    sizes[dimension] = -1
    return np.broadcast_to(line.astype(shape.dtype).reshape(sizes), shape.dimensions)


def _broadcast(_interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Array:
    x = operands[0]
    if not instruction.shape.rank:
        return x
    mapped = instruction.attributes_as(DimensionsAttributes).dimensions
    sizes = list(instruction.shape.dimensions)
    order = sorted(range(len(mapped)), key=lambda i: mapped[i])
    moved = x.transpose(order)
    spread = [1] * len(sizes)
    for position, i in enumerate(order):
        spread[mapped[i]] = moved.shape[position]
        if instruction.operand(0).shape.is_dynamic_dimension(i):
            sizes[mapped[i]] = moved.shape[position]
    return np.broadcast_to(moved.reshape(spread), sizes)


def _reshape(_interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Array:
    x = operands[0]
    if not instruction.shape.rank and not instruction.operand(0).shape.rank:
        return x
    shape = instruction.shape
    if x.size == shape.num_elements:
        return x.reshape(shape.dimensions)
    dynamic = [d for d in range(shape.rank) if shape.is_dynamic_dimension(d)]
    others = math.prod(n for d, n in enumerate(shape.dimensions) if d not in dynamic)
    if len(dynamic) == 1 and others and not x.size % others:
        return x.reshape([x.size // others if d in dynamic else n for d, n in enumerate(shape.dimensions)])
    sizes = _sizes_of_runs(x.shape, instruction.operand(0).shape.dimensions, shape)
    if math.prod(sizes) != x.size:
        raise unsupported("reshape of an array with a dynamic dimension below its bound")
    return x.reshape(sizes)


def _sizes_of_runs(sizes: Sequence[int], bounds: Sequence[int], shape: Shape) -> list[int]:
    """Returns the sizes after a reshape: one dynamic dimension of each run of dimensions makes up for the others."""
    found = list(shape.dimensions)
    cuts = common_factors(bounds, shape.dimensions) if all((*bounds, *shape.dimensions)) else []
    for (a, b), (c, d) in pairwise(cuts):
        dynamic = [t for t in range(b, d) if shape.is_dynamic_dimension(t)]
        if len(dynamic) == 1:
            found[dynamic[0]] = math.prod(sizes[a:c]) * found[dynamic[0]] // math.prod(found[b:d])
    return found


def _dynamic_reshape(_interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Array:
    sizes = [concrete_int(s) for s in operands[1:]]
    if np.prod(sizes, dtype=object) != operands[0].size:
        raise unsupported(f"dynamic-reshape of {operands[0].size} elements to {sizes}")
    return operands[0].reshape(sizes)


def _bitcast(_interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Array:
    """Reads the operand's bytes, in the order of its layout, as the result's layout says."""
    x, source, target = operands[0], instruction.operand(0).shape, instruction.shape
    tiles = [s.layout.tile_dimensions if s.layout is not None else () for s in (source, target)]
    same_order = source.dimensions == target.dimensions and source.minor_to_major == target.minor_to_major
    same_width = source.element_type.bit_width == target.element_type.bit_width
    if same_width and same_order and tiles[0] == tiles[1]:
        return x if x.dtype == target.dtype else bitcast_elements(x, target.element_type)
    flat = tile_array(x, source.minor_to_major, tiles[0])
    if same_width:
        flat = bitcast_elements(flat, target.element_type)
    elif all(shape.element_type.bit_width == 8 * shape.element_type.byte_width for shape in (source, target)):
        flat = np.ascontiguousarray(flat).view(target.element_type.dtype)
    else:
        raise unsupported(f"bitcast between elements of different width, {source} to {target}")
    return untile_array(flat, target.dimensions, target.minor_to_major, tiles[1])


def _transpose(_interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Array:
    return operands[0].transpose(instruction.attributes_as(DimensionsAttributes).dimensions)


def _reverse(_interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Array:
    return np.flip(operands[0], instruction.attributes_as(DimensionsAttributes).dimensions)


def _slice(_interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Array:
    dimensions = instruction.attributes_as(SliceAttributes).slice
    return operands[0][tuple(slice(d.start, d.limit, d.stride) for d in dimensions)]


def _concatenate(_interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Array:
    return np.concatenate(operands, axis=instruction.attributes_as(ConcatenateAttributes).dimension)


def _pad(_interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Array:
    padding = instruction.attributes_as(PadAttributes).padding
    low = [p.edge_padding_low for p in padding]
    high = [p.edge_padding_high for p in padding]
    return pad_array(operands[0], operands[1], low, high, [p.interior_padding for p in padding])


def _starts(instruction: HloInstruction, first: int, operands: Sequence[Array], rank: int) -> list[int]:
    """Returns the start indices: scalars, or (old form) one vector."""
    given = operands[first:]
    if len(given) == 1 and instruction.operand(first).shape.rank == 1:
        return [int(i) for i in given[0]]
    return [concrete_int(i) for i in given[:rank]]


def _window(x: Array, starts: Sequence[int], sizes: Sequence[int]) -> tuple[slice, ...]:
    """A dynamic dimension may have less than a window that is its bound: all of it, then."""
    clamped = [max(min(s, n - size), 0) for s, n, size in zip(starts, x.shape, sizes)]
    return tuple(slice(s, s + size) for s, size in zip(clamped, sizes))


def _dynamic_slice(_interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Array:
    x = operands[0]
    return x[
        _window(
            x,
            _starts(instruction, 1, operands, x.ndim),
            instruction.attributes_as(DynamicSliceAttributes).dynamic_slice_sizes,
        )
    ]


def _dynamic_update_slice(_interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Array:
    x, update = operands[:2]
    result = x.copy()
    result[_window(x, _starts(instruction, 2, operands, x.ndim), update.shape)] = update
    return result


def _get_dimension_size(_interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Array:
    return np.asarray(operands[0].shape[instruction.attributes_as(DimensionAttributes).dimension], np.int32)


def _set_dimension_size(_interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Array:
    x, dimension, size = (
        operands[0],
        instruction.attributes_as(DimensionAttributes).dimension,
        concrete_int(widen(operands[1])),
    )
    if not instruction.shape.is_dynamic_dimension(dimension):
        size = instruction.shape.dimensions[dimension]
    if not 0 <= size <= instruction.shape.dimensions[dimension]:
        raise unsupported(f"set-dimension-size to {size}, the bound is {instruction.shape.dimensions[dimension]}")
    high = [0] * x.ndim
    high[dimension] = size - x.shape[dimension]
    return pad_array(x, np.zeros((), x.dtype), [0] * x.ndim, high)


EVALUATORS: Mapping[str, Evaluator] = MappingProxyType(
    {
        "constant": _constant,
        "iota": _iota,
        "broadcast": _broadcast,
        "reshape": _reshape,
        "dynamic-reshape": _dynamic_reshape,
        "bitcast": _bitcast,
        "transpose": _transpose,
        "reverse": _reverse,
        "slice": _slice,
        "concatenate": _concatenate,
        "pad": _pad,
        "dynamic-slice": _dynamic_slice,
        "dynamic-update-slice": _dynamic_update_slice,
        "get-dimension-size": _get_dimension_size,
        "set-dimension-size": _set_dimension_size,
    }
)
