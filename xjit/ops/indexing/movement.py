"""Output-to-input rules of opcodes that keep or move elements: elementwise, broadcast, slices, reshapes, pads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import lcm
from types import MappingProxyType

from xjit.affine import (
    AffineExpr,
    IndexingMap,
    Interval,
    compose_indexing_maps,
    constant,
    delinearize,
    dim,
    linearize,
    logical_map,
    physical_map,
    reshape_map,
    substitute,
    symbol,
)
from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape
from xjit.ops.indexing.maps import (
    Constraints,
    Maps,
    Rule,
    array_shape,
    boxed_map,
    identity_map,
    make_map,
    scalar_map,
)


def elementwise(instruction: HloInstruction) -> list[Maps]:
    """The same element of every operand; the one element of a scalar operand."""
    dims = array_shape(instruction.shape).dimensions
    identity = (identity_map(dims),)
    if not dims:
        return [identity for _ in instruction.operands]
    return [identity if o.shape.rank else (scalar_map(dims),) for o in instruction.operands]


def _broadcast(instruction: HloInstruction) -> list[Maps]:
    dimensions = instruction.attributes_as(at.DimensionsAttributes).dimensions
    return [(make_map(instruction.shape.dimensions, [dim(d) for d in dimensions]),)]


def _transpose(instruction: HloInstruction) -> list[Maps]:
    permutation = instruction.attributes_as(at.DimensionsAttributes).dimensions
    results: list[AffineExpr] = [constant(0)] * len(permutation)
    for out, source in enumerate(permutation):
        results[source] = dim(out)
    return [(make_map(instruction.shape.dimensions, results),)]


def _reverse(instruction: HloInstruction) -> list[Maps]:
    dims = instruction.shape.dimensions
    turned = set(instruction.attributes_as(at.DimensionsAttributes).dimensions)
    results = [constant(size - 1) - dim(i) if i in turned else dim(i) for i, size in enumerate(dims)]
    return [(make_map(dims, results),)]


def _slice(instruction: HloInstruction) -> list[Maps]:
    attrs = instruction.attributes_as(at.SliceAttributes)
    results = [dim(i) * s.stride + s.start for i, s in enumerate(attrs.slice)]
    return [(make_map(instruction.shape.dimensions, results),)]


def _reshape(instruction: HloInstruction) -> list[Maps]:
    return [(reshape_map(instruction.operand(0).shape.dimensions, instruction.shape.dimensions),)]


def _bitcast(instruction: HloInstruction) -> list[Maps]:
    """Element of the same bytes: transpose to physical order, reshape, transpose back; tiles included."""
    source, target = instruction.operand(0).shape, instruction.shape
    if source.element_type.byte_width != target.element_type.byte_width:
        return [(_reinterpreted(source, target),)]
    if _tiles(source) or _tiles(target):
        to_offset = physical_map(target.dimensions, target.minor_to_major, _tiles(target))
        return [(compose_indexing_maps(to_offset, _logical(source)).simplify(),)]
    inner = reshape_map(_physical(source), _physical(target)).map
    renamed = {i: dim(d) for i, d in enumerate(reversed(target.minor_to_major))}
    results = _to_logical(source, [substitute(e, renamed) for e in inner.results])
    return [(make_map(target.dimensions, results),)]


def _tiles(shape: Shape) -> tuple[tuple[int, ...], ...]:
    return shape.layout.tile_dimensions if shape.layout is not None else ()


def _physical(shape: Shape) -> list[int]:
    """Sizes from the most major to the most minor dimension."""
    return [shape.dimensions[d] for d in reversed(shape.minor_to_major)]


def _logical(shape: Shape) -> IndexingMap:
    return logical_map(shape.dimensions, shape.minor_to_major, _tiles(shape))


def _to_logical(shape: Shape, physical: Sequence[AffineExpr]) -> list[AffineExpr]:
    results: list[AffineExpr] = [constant(0)] * shape.rank
    for e, d in zip(physical, reversed(shape.minor_to_major), strict=True):
        results[d] = e
    return results


def _reinterpreted(source: Shape, target: Shape) -> IndexingMap:
    """Bytes read as elements of another width: a wide element takes several narrow ones, or lends a part of itself."""
    sizes = target.dimensions
    renamed = [dim(d) for d in reversed(target.minor_to_major)]
    if _tiles(source) or _tiles(target):
        offset = physical_map(sizes, target.minor_to_major, _tiles(target)).results[0]
    else:
        offset = linearize(renamed, _physical(target))
    wide, narrow = source.element_type.byte_width, target.element_type.byte_width
    common = lcm(wide, narrow)
    ranges: list[int] = []
    if wide > narrow:
        offset = offset.floordiv(common // narrow)
    else:
        offset, ranges = offset * (common // wide) + symbol(0), [common // wide]
    if not _tiles(source):
        results = _to_logical(source, delinearize(offset, _physical(source)))
        return make_map(sizes, results, ranges).simplify()
    return compose_indexing_maps(make_map(sizes, [offset], ranges), _logical(source)).simplify()


def _bitcast_convert(instruction: HloInstruction) -> list[Maps]:
    source, target = instruction.operand(0).shape, instruction.shape
    dims = [dim(i) for i in range(target.rank)]
    if source.rank == target.rank:
        return [(make_map(target.dimensions, dims),)]
    if source.rank < target.rank:  # one wide element gives several narrow ones
        return [(make_map(target.dimensions, dims[:-1]),)]
    return [(make_map(target.dimensions, [*dims, symbol(0)], ranges=[source.dimensions[-1]]),)]


def _concatenate(instruction: HloInstruction) -> list[Maps]:
    axis = instruction.attributes_as(at.ConcatenateAttributes).dimension
    sizes = instruction.shape.dimensions
    maps: list[Maps] = []
    offset = 0
    for operand in instruction.operands:
        length = operand.shape.dimensions[axis]
        results = [dim(i) - offset if i == axis else dim(i) for i in range(len(sizes))]
        bounds = [Interval(0, size - 1) for size in sizes]
        bounds[axis] = Interval(offset, offset + length - 1)
        maps.append((boxed_map(bounds, results),))
        offset += length
    return maps


def _pad(instruction: HloInstruction) -> list[Maps]:
    sizes = instruction.shape.dimensions
    source = instruction.operand(0).shape.dimensions
    results: list[AffineExpr] = []
    bounds: list[Interval] = []
    constraints: Constraints = []
    for i, pad in enumerate(instruction.attributes_as(at.PadAttributes).padding):
        step, low = pad.interior_padding + 1, pad.edge_padding_low
        shifted = dim(i) - low
        results.append(shifted.floordiv(step))
        last = low + max(source[i] - 1, -1) * step
        bounds.append(Interval(max(low, 0), min(last, sizes[i] - 1)))
        if step > 1:
            constraints.append((shifted.mod(step), Interval(0, 0)))
    return [(boxed_map(bounds, results, constraints),), (scalar_map(sizes),)]


def _set_dimension_size(instruction: HloInstruction) -> list[Maps]:
    dims = instruction.shape.dimensions
    return [(identity_map(dims),), (scalar_map(dims),)]


def _nothing_of_operands(instruction: HloInstruction) -> list[Maps]:
    """No element of any operand (a size, an order of execution)."""
    return [() for _ in instruction.operands]


def _rng(instruction: HloInstruction) -> list[Maps]:
    return [(scalar_map(instruction.shape.dimensions),) for _ in instruction.operands]


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "map": elementwise,
        "broadcast": _broadcast,
        "transpose": _transpose,
        "reverse": _reverse,
        "slice": _slice,
        "reshape": _reshape,
        "bitcast": _bitcast,
        "bitcast-convert": _bitcast_convert,
        "concatenate": _concatenate,
        "pad": _pad,
        "set-dimension-size": _set_dimension_size,
        "get-dimension-size": _nothing_of_operands,
        "rng": _rng,
        "parameter": _nothing_of_operands,
        "constant": _nothing_of_operands,
        "iota": _nothing_of_operands,
        "partition-id": _nothing_of_operands,
        "replica-id": _nothing_of_operands,
        "rng-get-and-update-state": _nothing_of_operands,
        "after-all": _nothing_of_operands,
    }
)
