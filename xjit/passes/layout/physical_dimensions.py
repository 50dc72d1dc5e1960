"""Instructions whose dimensions are numbered in the order of memory: attributes and operands, by opcode."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from xjit.hlo import HloInstruction, Shape, Trait
from xjit.hlo import attributes as at
from xjit.hlo.attributes.opcodes import OPCODES
from xjit.passes.simplify.algebra.memory_order import is_bitcast

T = TypeVar("T")


@dataclass(frozen=True)
class Physical:
    """What computes an instruction's bytes from row-major views of `operands`; no opcode: the only operand is it.

    The view of the last operand is transposed first, if `last_order` is given.
    """

    opcode: str
    operands: Sequence[HloInstruction]
    attributes: at.Attributes | None = None
    last_order: tuple[int, ...] = ()


Rule = Callable[[HloInstruction], Physical | None]
"""Returns the physical form of an instruction of plain arrays; None if there is none."""


def order_of(shape: Shape) -> tuple[int, ...]:
    """Returns the dimensions from the most major to the most minor one."""
    return shape.minor_to_major[::-1]


def _places(shape: Shape) -> list[int]:
    """Returns where in memory each dimension is, 0 the most major place."""
    order = order_of(shape)
    return [order.index(d) for d in range(len(order))]


def _sorted_by(items: Sequence[T], shape: Shape) -> tuple[T, ...]:
    """Returns one item per dimension in the order of memory."""
    return tuple(items[d] for d in order_of(shape))


def _keeps_layout(i: HloInstruction, arrays: Iterable[HloInstruction]) -> bool:
    return all(a.shape.rank == 0 or a.shape.minor_to_major == i.shape.minor_to_major for a in arrays)


def _elementwise(i: HloInstruction) -> Physical | None:
    return Physical(i.opcode, i.operands, i.attributes) if _keeps_layout(i, i.operands) else None


def _bitcast_convert(i: HloInstruction) -> Physical | None:
    """The dimension that the wider type has not must be the most minor one."""
    wide, narrow = sorted((i.operand(0).shape, i.shape), key=lambda s: s.rank)
    more = (wide.rank,) if narrow.rank > wide.rank else ()
    return Physical(i.opcode, i.operands) if (*more, *wide.minor_to_major) == narrow.minor_to_major else None


def _concatenate(i: HloInstruction) -> Physical | None:
    along = i.attributes_as(at.ConcatenateAttributes).dimension
    attributes = at.ConcatenateAttributes(_places(i.shape)[along])
    return Physical(i.opcode, i.operands, attributes) if _keeps_layout(i, i.operands) else None


def _slice(i: HloInstruction) -> Physical | None:
    attributes = at.SliceAttributes(_sorted_by(i.attributes_as(at.SliceAttributes).slice, i.shape))
    return Physical(i.opcode, i.operands, attributes) if _keeps_layout(i, i.operands) else None


def _dynamic_slice(i: HloInstruction) -> Physical | None:
    array, *starts = i.operands
    sizes = _sorted_by(i.attributes_as(at.DynamicSliceAttributes).dynamic_slice_sizes, i.shape)
    if len(starts) != i.shape.rank or not _keeps_layout(i, [array]):
        return None
    return Physical(i.opcode, [array, *_sorted_by(starts, i.shape)], at.DynamicSliceAttributes(sizes))


def _dynamic_update_slice(i: HloInstruction) -> Physical | None:
    array, update, *starts = i.operands
    if len(starts) != i.shape.rank or not _keeps_layout(i, [array, update]):
        return None
    return Physical(i.opcode, [array, update, *_sorted_by(starts, i.shape)])


def _pad(i: HloInstruction) -> Physical | None:
    attributes = at.PadAttributes(_sorted_by(i.attributes_as(at.PadAttributes).padding, i.shape))
    return Physical(i.opcode, i.operands, attributes) if _keeps_layout(i, i.operands) else None


def _reverse(i: HloInstruction) -> Physical | None:
    places = _places(i.shape)
    reversed_ = sorted(places[d] for d in i.attributes_as(at.DimensionsAttributes).dimensions)
    attributes = at.DimensionsAttributes(tuple(reversed_))
    return Physical(i.opcode, i.operands, attributes) if _keeps_layout(i, i.operands) else None


def _reduce_window(i: HloInstruction) -> Physical | None:
    window = i.attributes_as(at.WindowAttributes).window
    if not _keeps_layout(i, i.operands) or len(window.dimensions) != i.shape.rank:
        return None
    return Physical(i.opcode, i.operands, at.WindowAttributes(at.Window(_sorted_by(window.dimensions, i.shape))))


def _broadcast(i: HloInstruction) -> Physical:
    places, dimensions = _places(i.shape), i.attributes_as(at.DimensionsAttributes).dimensions
    placed = tuple(places[dimensions[d]] for d in order_of(i.operand(0).shape))
    return Physical(i.opcode, i.operands, at.DimensionsAttributes(placed))


def _iota(i: HloInstruction) -> Physical:
    along = i.attributes_as(at.IotaAttributes).iota_dimension
    return Physical(i.opcode, (), at.IotaAttributes(_places(i.shape)[along]))


def _reshape(i: HloInstruction) -> Physical | None:
    return Physical(i.opcode, i.operands) if is_bitcast(i) else None


def _transpose(i: HloInstruction) -> Physical:
    return _moved(i, i.attributes_as(at.DimensionsAttributes).dimensions)


def _copy(i: HloInstruction) -> Physical:
    same = i.operand(0).shape == i.shape
    return Physical(i.opcode, i.operands) if same else _moved(i, range(i.shape.rank))


def _moved(i: HloInstruction, dimensions: Sequence[int]) -> Physical:
    """A move whose dimension d is operand dimension `dimensions[d]`; a transpose that names dimensions anew is none."""
    places = _places(i.operand(0).shape)
    order = tuple(places[dimensions[d]] for d in order_of(i.shape))
    if i.opcode == "transpose" and order == tuple(range(len(order))):
        return Physical("", i.operands)
    return Physical("transpose", i.operands, at.DimensionsAttributes(order))


def _convolution(i: HloInstruction) -> Physical:
    a, shapes = i.attributes_as(at.ConvolutionAttributes), (i.operand(0).shape, i.operand(1).shape, i.shape)
    changes: dict[str, int | tuple[int, ...]] = {}
    for side, shape in zip(("input", "kernel", "output"), shapes, strict=True):
        places = _places(shape)
        for field in dataclasses.fields(a.dim_labels):
            if field.name.startswith(f"{side}_"):
                old: int | tuple[int, ...] = getattr(a.dim_labels, field.name)
                changes[field.name] = places[old] if isinstance(old, int) else tuple(places[d] for d in old)
    labels = dataclasses.replace(a.dim_labels, **changes)  # type: ignore[arg-type]
    return Physical(i.opcode, i.operands, dataclasses.replace(a, dim_labels=labels))


def _scatter(i: HloInstruction) -> Physical | None:
    """A scatter of one array whose rows stay in their order; updates are moved if windows would be out of order."""
    a, (array, indices, updates) = i.attributes_as(at.ScatterAttributes), i.operands
    rows = [d for d in order_of(indices.shape) if d != a.index_vector_dim]
    if a.input_batching_dims or rows != sorted(rows) or not _keeps_layout(i, [array]):
        return None
    places = _places(array.shape)
    kept = [d for d in range(array.shape.rank) if d not in a.inserted_window_dims]
    windows = [a.update_window_dims[kept.index(d)] for d in order_of(array.shape) if d in kept]
    batch = [d for d in range(updates.shape.rank) if d not in windows]
    order, wanted = list(order_of(updates.shape)), [*batch, *windows]
    stays = [d for d in order if d in windows] == windows and [d for d in order if d in batch] == batch
    last = tuple(order.index(d) for d in wanted)
    attributes = dataclasses.replace(
        a,
        update_window_dims=tuple((order if stays else wanted).index(d) for d in windows),
        inserted_window_dims=tuple(sorted(places[d] for d in a.inserted_window_dims)),
        scatter_dims_to_operand_dims=tuple(places[d] for d in a.scatter_dims_to_operand_dims),
        index_vector_dim=[*_places(indices.shape), len(indices.shape.dimensions)][a.index_vector_dim],
    )
    return Physical(i.opcode, i.operands, attributes, () if stays else last)


PHYSICAL: Mapping[str, Rule] = {
    **{name: _elementwise for name, opcode in OPCODES.items() if opcode.has(Trait.ELEMENTWISE)},
    "bitcast-convert": _bitcast_convert,
    "broadcast": _broadcast,
    "concatenate": _concatenate,
    "convolution": _convolution,
    "copy": _copy,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "iota": _iota,
    "pad": _pad,
    "reduce-window": _reduce_window,
    "reshape": _reshape,
    "reverse": _reverse,
    "scatter": _scatter,
    "slice": _slice,
    "transpose": _transpose,
}
"""The rule of each opcode that has a physical form."""
