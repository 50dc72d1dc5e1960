"""`tensor.expand_shape` and `tensor.collapse_shape`: tiles through the map of the reshape, if its constraints hold."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xjit.affine import AffineExpr, AffineMap, DimVar, IndexingMap, Interval, delinearize, dim, linearize, substitute
from xjit.indexing import SymbolicTile, propagate_tile
from xjit.linalg_ext.ir import ArrayAttr, Operation, TensorType, Value
from xjit.linalg_ext.structured.view import integers_of
from xjit.linalg_ext.transforms.building_blocks.index_values import Index, IndexBuilder
from xjit.linalg_ext.transforms.building_blocks.slices import static_list
from xjit.linalg_ext.transforms.building_blocks.tiles import Tile
from xjit.linalg_ext.transforms.tilable.interface import Tilable

__all__ = ["CollapseTilable", "ExpandTilable"]

_Group = tuple[int, ...]


def _groups(op: Operation) -> list[_Group]:
    attribute = op.attributes["reassociation"]
    assert isinstance(attribute, ArrayAttr)
    return [integers_of(group) or () for group in attribute.elements]


def _shape(value: Value) -> tuple[int | None, ...]:
    assert isinstance(value.type, TensorType)
    return value.type.shape


class _Reshape(Tilable):
    """Loops are the dimensions of the result; each group of dimensions is one dimension on the other side."""

    def __init__(self, op: Operation) -> None:
        super().__init__(op)
        self.groups = _groups(op)
        self.source = _shape(op.operands[0])
        self.shape = _shape(op.result)

    def _propagated(
        self, index: IndexBuilder, results: Sequence[AffineExpr], bounds: Sequence[int], domain: Tile, axes: _Group
    ) -> list[tuple[Index, Index, bool]]:
        """Returns the tile of dimensions with the indices `results`, over the loops `axes` of `bounds` steps."""
        if any(index.may_be_zero(domain.sizes[a]) for a in axes):
            raise self.error("cannot be tiled like this: a tile without elements has no place")
        rank = len(axes)
        variables = tuple(DimVar(Interval(0, n - 1)) for n in bounds)
        found = propagate_tile(IndexingMap(AffineMap(rank, 0, tuple(results)), variables))
        offsets, sizes = [domain.offsets[a] for a in axes], [domain.sizes[a] for a in axes]
        known = _Known(index, offsets, sizes)
        if not known.allows(found):
            raise self.error("cannot be tiled like this: a tile is no box on the other side of the reshape")
        covered = all(domain.covers[a] for a in axes)
        return [(known.index_of(o), known.index_of(s), covered) for o, s in zip(found.offsets, found.sizes)]


class _Known:
    """What is known of a tile's offsets (d<i>) and sizes (s<i>): numbers, or multiples of numbers."""

    def __init__(self, index: IndexBuilder, offsets: Sequence[Index], sizes: Sequence[Index]) -> None:
        self._index = index
        self._indices = (*offsets, *sizes)
        self._rank = len(offsets)
        self._offsets = [dim(i) * index.divisor(o) if isinstance(o, Value) else o for i, o in enumerate(offsets)]
        self._sizes = [
            dim(self._rank + i) * index.divisor(s) if isinstance(s, Value) else s for i, s in enumerate(sizes)
        ]

    def _simplified(self, e: AffineExpr) -> AffineExpr:
        return substitute(e, self._offsets, self._sizes)

    def allows(self, tile: SymbolicTile) -> bool:
        """Whether one of the alternatives of each constraint is known to hold."""
        return all(
            any(all(_within(self._simplified(e), interval) for e, interval in every) for every in alternatives)
            for alternatives in tile.constraints
        )

    def index_of(self, e: AffineExpr) -> Index:
        simplified = self._simplified(e)
        if simplified.is_constant:
            return simplified.value
        return self._index.apply(substitute(e, None, [dim(self._rank + i) for i in range(self._rank)]), self._indices)


def _within(e: AffineExpr, interval: Interval) -> bool:
    return e.is_constant and e.value in interval


class ExpandTilable(_Reshape):
    """Splits dimensions of the source."""

    def extents(self, index: IndexBuilder) -> tuple[Index, ...]:
        attribute = self.op.attributes.get("static_output_shape")
        values = iter(self.op.operands[1:])
        if attribute is not None and len(self.op.operands) > 1:
            return tuple(n if n is not None else next(values) for n in self.shape)
        return super().extents(index)

    def operand_tiles(self, index: IndexBuilder, domain: Tile) -> list[Tile | None]:
        whole = self.whole_loops(index, domain)
        dimensions: list[tuple[Index, Index, bool]] = []
        for axis, group in enumerate(self.groups):
            moving = tuple(d for d in group if self.shape[d] != 1)
            if all(whole[d] for d in group):
                dimensions.append((0, index.dim_of(self.op.operands[0], axis), True))
            elif any(domain.sizes[d] != 1 for d in group if d not in moving):
                raise self.error("cannot be tiled along a dimension of size one")
            elif len(moving) <= 1:
                dimensions += [domain.dimensions[d] for d in moving] or [(0, 1, True)]
            else:
                inner = [self.shape[d] for d in moving[1:]]
                if None in inner:
                    raise self.error("cannot be tiled along a dimension outside of one of unknown size")
                bounds = [self.shape[moving[0]] or 2**40, *[n or 0 for n in inner]]
                linear = linearize([dim(i) for i in range(len(moving))], bounds)
                dimensions += self._propagated(index, [linear], bounds, domain, moving)
        return [Tile.of(dimensions), *[None] * (len(self.op.operands) - 1)]

    def emit(self, index: IndexBuilder, domain: Tile, operands: Sequence[Value]) -> list[Value]:
        kind = self.op.result.type
        assert isinstance(kind, TensorType)
        attributes = {**self.op.attributes, "static_output_shape": static_list(domain.sizes)}
        values = [s for s in domain.sizes if isinstance(s, Value)]
        result = TensorType(domain.static_sizes, kind.element)
        return [index.builder.create("tensor.expand_shape", (operands[0], *values), (result,), attributes).result]


class CollapseTilable(_Reshape):
    """Joins dimensions of the source."""

    def extents(self, index: IndexBuilder) -> tuple[Index, ...]:
        sizes: list[Index] = []
        for axis, group in enumerate(self.groups):
            size: Index | None = self.shape[axis]
            if size is None:
                size = 1
                for d in group:
                    size = index.multiply(size, index.dim_of(self.op.operands[0], d))
            sizes.append(size)
        return tuple(sizes)

    def operand_tiles(self, index: IndexBuilder, domain: Tile) -> list[Tile | None]:
        whole = self.whole_loops(index, domain)
        dimensions: list[tuple[Index, Index, bool]] = []
        for axis, group in enumerate(self.groups):
            moving = [d for d in group if self.source[d] != 1]
            found: dict[int, tuple[Index, Index, bool]] = {}
            if whole[axis]:
                found = {d: (0, index.dim_of(self.op.operands[0], d), True) for d in group}
            elif not moving:
                raise self.error("cannot be tiled along a dimension of size one")
            elif len(moving) == 1:
                found = {moving[0]: domain.dimensions[axis]}
            else:
                inner = [self.source[d] for d in moving[1:]]
                if None in inner:
                    raise self.error("cannot be tiled along a dimension with a part of unknown size")
                sizes = [self.source[moving[0]] or 2**40, *[n or 0 for n in inner]]
                parts = delinearize(dim(0), sizes)
                found = dict(zip(moving, self._propagated(index, parts, [prod(sizes)], domain, (axis,))))
            dimensions += [found.get(d, (0, 1, True)) for d in group]
        return [Tile.of(dimensions)]

    def emit(self, index: IndexBuilder, domain: Tile, operands: Sequence[Value]) -> list[Value]:
        kind, source = self.op.result.type, _shape(operands[0])
        assert isinstance(kind, TensorType)
        parts = [[source[d] for d in group] for group in self.groups]
        shape = tuple(None if None in part else prod(n or 0 for n in part) for part in parts)
        collapsed = index.builder.create(
            "tensor.collapse_shape", operands, (TensorType(shape, kind.element),), self.op.attributes
        ).result
        if shape == domain.static_sizes:
            return [collapsed]
        wanted = TensorType(domain.static_sizes, kind.element)
        return [index.builder.create("tensor.cast", (collapsed,), (wanted,)).result]
