"""Values as lists of their arrays: what annotations say of each, and tuples made of them and taken apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xjit.hlo import HloInstruction, Shape, Unsupported
from xjit.hlo.annotations.device_sharding import REPLICATED, DeviceSharding, read_sharding
from xjit.passes.sharding.sharding_slots import by_leaf, leaf_shapes, leaves_of
from xjit.passes.sharding.spmd.builder import SpmdBuilder
from xjit.passes.sharding.spmd.partitioned_hlo import PartitionedHlo
from xjit.passes.sharding.spmd.placement import local_shape


def annotated_leaves(instruction: HloInstruction) -> list[DeviceSharding]:
    """Returns the sharding of each array of a value; what is not annotated, or on one device, is replicated.

    Unsupported for a sharding that cannot be read, or does not have as many elements as the value.
    """
    shapes = list(leaf_shapes(instruction.shape))
    if instruction.sharding is None:
        return [REPLICATED] * len(shapes)
    given = by_leaf([read_sharding(leaf).without_origin() for leaf in leaves_of(instruction.sharding)], shapes)
    if given is None or any(s.kind == "opaque" for s in given):
        raise Unsupported(f"{instruction.opcode} has a sharding {instruction.sharding}", instruction.span)
    return [_normal(s, shape) for s, shape in zip(given, shapes, strict=True)]


def _normal(sharding: DeviceSharding, shape: Shape) -> DeviceSharding:
    if not shape.is_array or sharding.kind in ("maximal", "unknown"):
        return sharding if sharding.kind == "manual" else REPLICATED
    return sharding


def assemble(shape: Shape, leaves: Iterator[PartitionedHlo], b: SpmdBuilder) -> HloInstruction:
    """Returns a value of the structure of `shape`, of arrays in order."""
    if shape.is_tuple and shape.tuple_shapes:
        return b.tuple_of(*[assemble(element, leaves, b) for element in shape.tuple_shapes])
    return next(leaves).local


def take_apart(
    local: HloInstruction, shape: Shape, shardings: Sequence[DeviceSharding], b: SpmdBuilder
) -> list[PartitionedHlo]:
    """Returns the arrays of a value whose whole form has `shape`."""
    found = zip(_elements(local, b), leaf_shapes(shape), shardings, strict=True)
    return [PartitionedHlo(element, leaf, sharding) for element, leaf, sharding in found]


def _elements(local: HloInstruction, b: SpmdBuilder) -> Iterator[HloInstruction]:
    if local.shape.is_tuple and local.shape.tuple_shapes:
        for n in range(len(local.shape.tuple_shapes)):
            yield from _elements(b.element(local, n), b)
    else:
        yield local


def local_value_shape(shape: Shape, shardings: Iterator[DeviceSharding], devices: int) -> Shape:
    """Returns the shape of one device's part of a value."""
    if shape.is_tuple and shape.tuple_shapes:
        return Shape.tuple_of([local_value_shape(s, shardings, devices) for s in shape.tuple_shapes])
    return local_shape(shape, next(shardings), devices)
