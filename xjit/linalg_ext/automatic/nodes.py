"""What estimates need to know of an operation, read from it once: which parts of operands make a part of a result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import TypeAlias

from xjit.affine.expr import AffineExpr, AffineExprKind
from xjit.affine.interval import Interval
from xjit.affine.walks import interval_of
from xjit.dataclass import dataclass
from xjit.linalg_ext.ir import Block, FloatType, IntegerType, LinalgError, Operation, OpResult, Value, element_type
from xjit.linalg_ext.structured import STRUCTURED_ROWS, Access, StructuredOp, as_structured, shape_of
from xjit.linalg_ext.transforms.single_ops.reshapes import groups_of

__all__ = ["Node", "OperandFacts", "Tile", "node_of", "static_loops"]

_Extent: TypeAlias = tuple[int, int]
"""How many elements of a dimension one tile has, and which loops of the root move it, as bits."""

Tile: TypeAlias = tuple[_Extent, ...]


def static_loops(op: StructuredOp) -> list[int]:
    """Returns the lengths of the loops; LinalgError if one is known at run time only."""
    ranges = [n for n in op.loop_ranges if n is not None]
    if len(ranges) != len(op.loop_ranges):
        raise LinalgError(f"'{op.operation.name}' op: no tile sizes for loops of unknown length", op.operation.location)
    return ranges


@dataclass(frozen=True, slots=True)
class OperandFacts:
    """An operand: its elements have `bytes`; its index in each dimension is in `access`, with the dimension's size.

    `producer`: the operation that a nest may compute it in, whose result number `result` it is, at `position` of the
    block; None for values that are loaded, or, unless `is_loaded`, are not there at all.
    """

    bytes: int
    access: tuple[tuple[AffineExpr | None, int], ...]
    producer: Operation | None
    result: int
    position: int
    is_loaded: bool

    def tile(self, loops: Tile) -> Tile:
        """Returns what the operand's index takes on over a tile of the loops."""
        found: list[_Extent] = []
        for index, size in self.access:
            if index is None:
                found.append((size, 0))
            elif index.kind is AffineExprKind.DIM:
                length, moved = loops[index.position]
                found.append((min(size, length), moved))
            else:
                moved = 0
                for d in index.dims:
                    moved |= loops[d][1]
                spans = [Interval(0, length - 1) for length, _ in loops]
                found.append((min(size, interval_of(index, spans).size), moved))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Node:
    """An operation: a structured one with loops of `ranges`, or one that is a part of its source (None).

    `results`: per result the loops that are an index of it, each with the dimension. `facts`: what all of this was
    made of, but for which operations the operands come from.
    """

    op: Operation
    operands: Sequence[OperandFacts]
    ranges: Sequence[int] | None
    trips: int
    reduces: bool
    results: Sequence[Sequence[tuple[int, int]]]
    result_bytes: Sequence[int]
    facts: object

    def loops_for(self, requests: Sequence[tuple[int, Tile]]) -> Tile:
        """Returns the part of each loop that consumers of tiles need: all of it where no result's index is the loop."""
        assert self.ranges is not None
        found: list[_Extent | None] = [None] * len(self.ranges)
        for number, tile in requests:
            for loop, axis in self.results[number]:
                old, (size, moved) = found[loop], tile[axis]
                found[loop] = (size, moved) if old is None else (max(size, old[0]), moved | old[1])
        return tuple([(n, 0) if extent is None else extent for extent, n in zip(found, self.ranges)])

    def source_tile(self, tiles: Sequence[Tile]) -> Tile:
        """Returns which tile of its source the operation needs for tiles of its result, about."""
        return tuple(_SOURCES[self.op.name](self.op, _largest(tiles)))


def node_of(op: Operation, block: Block | None) -> Node:
    """Reads the facts of an operation in a block; LinalgError for loops of unknown length."""
    view = as_structured(op)
    values = op.operands[:1] if view is None else view.operands
    accesses = [(None,) * len(shape_of(v)) for v in values] if view is None else view.accesses
    operands = [_operand(value, access, block) for value, access in zip(values, accesses)]
    shapes = tuple((o.bytes, o.access, o.producer is None, o.result, o.is_loaded) for o in operands)
    sizes = tuple(map(_bytes, op.results))
    if view is None:
        return Node(op, operands, None, 0, False, (), sizes, (op.name, shapes, _reassociation(op)))
    ranges, outputs = static_loops(view), view.accesses[len(view.inputs) :]
    results = tuple(
        tuple((e.position, axis) for axis, e in enumerate(access) if e is not None and e.kind is AffineExprKind.DIM)
        for access in outputs
    )
    reduces = bool(view.reduction_loops)
    facts = (op.name, shapes, sizes, view.iterator_types)
    return Node(op, operands, ranges, prod(ranges), reduces, results, sizes, facts)


def _operand(value: Value, access: Access, block: Block | None) -> OperandFacts:
    dims: list[tuple[AffineExpr | None, int]] = []
    for index, size in zip(access, shape_of(value)):
        if size is None:
            raise LinalgError("no tile sizes for tensors of unknown size")
        dims.append((index, size))
    op, number = (value.owner, value.index) if isinstance(value, OpResult) else (None, 0)
    if op is None or block is None or op.block is not block:
        return OperandFacts(_bytes(value), tuple(dims), None, number, 0, True)
    if op.name in _SOURCES or op.name in STRUCTURED_ROWS:
        return OperandFacts(_bytes(value), tuple(dims), op, number, block.position(op), True)
    return OperandFacts(_bytes(value), tuple(dims), None, number, 0, op.name != "tensor.empty")


def _bytes(value: Value) -> int:
    kind = element_type(value.type)
    bits = kind.width if isinstance(kind, FloatType | IntegerType) else 64
    return max(1, bits // 8)


def _reassociation(op: Operation) -> object:
    """What a reshape does to dimensions; other sources keep them."""
    return tuple(map(tuple, groups_of(op))) if op.name in ("tensor.collapse_shape", "tensor.expand_shape") else ()


def _largest(tiles: Sequence[Tile]) -> Tile:
    if len(tiles) == 1:
        return tiles[0]
    found: list[_Extent] = []
    for along in zip(*tiles):
        moved = 0
        for _, loops in along:
            moved |= loops
        found.append((max(size for size, _ in along), moved))
    return tuple(found)


def _collapsed(op: Operation, tile: Tile) -> Iterator[_Extent]:
    """The tile of what is collapsed: inner dimensions first."""
    shape = shape_of(op.operands[0])
    for group, (rest, loops) in zip(groups_of(op), tile):
        part = dict[int, _Extent]()
        for d in reversed(group):
            size = min(shape[d] or 1, rest)
            part[d], rest = (size, loops), -(-rest // size)
        yield from (part[d] for d in group)


def _expanded(op: Operation, tile: Tile) -> Iterator[_Extent]:
    for group in groups_of(op):
        moved = 0
        for d in group:
            moved |= tile[d][1]
        yield prod([tile[d][0] for d in group]), moved


def _same(op: Operation, tile: Tile) -> Iterator[_Extent]:
    yield from ((min(size, n or 1), loops) for (size, loops), n in zip(tile, shape_of(op.operands[0])))


_SOURCES: dict[str, Callable[[Operation, Tile], Iterator[_Extent]]] = {
    "tensor.collapse_shape": _collapsed,
    "tensor.expand_shape": _expanded,
    "tensor.extract_slice": _same,
    "tensor.pad": _same,
}
