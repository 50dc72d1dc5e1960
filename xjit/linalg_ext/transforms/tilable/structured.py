"""Structured ops: the tile of an operand is the image of the domain under its indexing map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xjit.affine import AffineExpr, AffineExprKind, AffineMap, DimVar, IndexingMap, Interval, dim, substitute
from xjit.indexing import propagate_tile
from xjit.linalg_ext.ir import Builder, IntegerAttr, MemRefType, Operation, OpResult, TensorType, Value
from xjit.linalg_ext.structured import REDUCTION, Access, StructuredOp, shape_of, structured
from xjit.linalg_ext.transforms.building_blocks.index_values import Index, IndexBuilder
from xjit.linalg_ext.transforms.building_blocks.tiles import Tile
from xjit.linalg_ext.transforms.tilable.interface import Tilable
from xjit.linalg_ext.transforms.tilable.topk import with_indices

__all__ = ["StructuredTilable"]

_UNKNOWN_EXTENT = 2**40  # stands for the size of a dynamic loop where a bound is asked for

_NORMALIZES = {
    "linalg.softmax": "its results along the reduced dimension need the whole dimension",
    "linalg_ext.softmax": "its results along the reduced dimension need the whole dimension",
    "linalg_ext.layer_norm": "its results along the normalized dimensions need all of them",
}
"""Ops whose results along their reduced loops are not final before all of these have been seen."""


class StructuredTilable(Tilable):
    """A structured op, tensors or memrefs."""

    def __init__(self, op: Operation) -> None:
        super().__init__(op)
        self.view: StructuredOp = structured(op)

    @property
    def iterator_types(self) -> tuple[str, ...]:
        return self.view.iterator_types

    @property
    def fixed_loops(self) -> Mapping[int, str]:
        reason = _NORMALIZES.get(self.op.name)
        if reason is not None:
            return {i: reason for i, kind in enumerate(self.iterator_types) if kind == REDUCTION}
        if self.op.name == "linalg_ext.diag":
            rank = len(self.iterator_types)
            return dict.fromkeys((rank - 2, rank - 1), "a block of a diagonal matrix is not diagonal")
        return {}

    def extents(self, index: IndexBuilder) -> tuple[Index, ...]:
        """Sizes that are asked for at run time are asked for operand by operand, as MLIR does."""
        sources = self.view.loop_sources
        sizes = {source: index.dim_of(self.view.operands[source[0]], source[1]) for source in sorted(sources)}
        return tuple(sizes[source] for source in sources)

    def operand_tiles(self, index: IndexBuilder, domain: Tile) -> list[Tile | None]:
        return [
            self._image(index, value, access, domain) if isinstance(value.type, TensorType | MemRefType) else None
            for value, access in zip(self.view.operands, self.view.accesses)
        ]

    def result_tile(self, index: IndexBuilder, number: int, domain: Tile) -> Tile:
        return self._image(index, self.view.inits[number], self._init_access(number), domain)

    def _init_access(self, number: int) -> Access:
        return self.view.accesses[len(self.view.inputs) + number]

    def _image(self, index: IndexBuilder, value: Value, access: Access, domain: Tile) -> Tile:
        dimensions: list[tuple[Index, Index, bool]] = []
        whole = None
        for axis, e in enumerate(access):
            if e is not None and e.kind is AffineExprKind.DIM:
                dimensions.append(domain.dimensions[e.position])
                continue
            whole = whole or self.whole_loops(index, domain)
            if e is None or (all(whole[d] for d in e.dims) and self._refused(index, e, domain)):
                dimensions.append((0, index.dim_of(value, axis), True))
            else:
                offset, size = self._linear_image(index, e, domain)
                covered = self._covers(e, whole, domain, shape_of(value)[axis])
                dimensions.append((offset, size, covered))
        return Tile.of(dimensions)

    def _refused(self, index: IndexBuilder, e: AffineExpr, domain: Tile) -> str:
        """Returns why an index has no image that is a tile, "" if it has one."""
        if e.constant_term < 0 or any(t.kind is not AffineExprKind.DIM or k < 0 for t, k in e.terms):
            return "the tiles have other indices"
        if any(index.may_be_zero(domain.sizes[d]) for d in e.dims):
            return "a tile without elements has no place"
        return ""

    def _linear_image(self, index: IndexBuilder, e: AffineExpr, domain: Tile) -> tuple[Index, Index]:
        """The tiled op keeps its maps, so that a map is the same in every tile but for an offset: linear, growing."""
        refused = self._refused(index, e, domain)
        if refused:
            raise self.error(f"cannot be tiled along a loop of the index {e}: {refused}")
        rank = len(domain.offsets)
        bounds = [DimVar(Interval(0, (n or _UNKNOWN_EXTENT) - 1)) for n in self.view.loop_ranges]
        found = propagate_tile(IndexingMap(AffineMap(rank, 0, (e - e.constant_term,)), tuple(bounds)))
        indices = (*domain.offsets, *domain.sizes)
        sizes_as_dims = [dim(rank + i) for i in range(rank)]
        span = (found.sizes[0] - 1) * found.strides[0] + (1 + e.constant_term)
        offset = index.apply(found.offsets[0], indices)
        return offset, index.apply(substitute(span, None, sizes_as_dims), indices)

    def _covers(self, e: AffineExpr, whole: Sequence[bool], domain: Tile, size: int | None) -> bool:
        """Whether windows over the cut loop, if one is, follow one another without gaps, to the dimension's end."""
        ranges = self.view.loop_ranges
        window, last, cut = 1, e.constant_term + 1, []
        for term, k in e.terms:
            extent = ranges[term.position]
            if extent is None or not domain.covers[term.position]:
                return False
            last += k * (extent - 1)
            if whole[term.position]:
                window += k * (extent - 1)
            else:
                cut.append(k)
        if not cut:
            return last == size
        return len(cut) == 1 and window >= cut[0] and last == size and e.constant_term == 0

    def domain_of(self, index: IndexBuilder, number: int, tile: Tile) -> Tile | None:
        dimensions: list[tuple[Index, Index, bool]] = [(0, extent, True) for extent in self.extents(index)]
        seen: set[int] = set()
        for e, dimension in zip(self._init_access(number), tile.dimensions):
            if e is None or e.is_constant:
                continue
            if e.kind is not AffineExprKind.DIM or e.position in seen:
                return None
            seen.add(e.position)
            dimensions[e.position] = dimension
        return Tile.of(dimensions)

    def emit(self, index: IndexBuilder, domain: Tile, operands: Sequence[Value]) -> list[Value]:
        builder = index.builder
        attributes = self.op.attributes
        if self.op.name == "linalg_ext.topk":
            operands, attributes = with_indices(index, self.view, domain, operands)
        inits = operands[len(operands) - len(self.view.inits) :]
        types = [v.type for v in inits if isinstance(v.type, TensorType)] if self.op.results else []
        new = Operation(self.op.name, operands, types, attributes, (), self.op.location)
        for region in self.op.regions:
            new.add_region(region.clone({}))
        builder.insert(new)
        _shift_indices(new, domain)
        return list(new.results)

    def init_of(self, result: OpResult) -> int | None:
        return len(self.view.inputs) + result.index

    def reads_init(self, number: int) -> bool:
        return self.view.reads_init(number)


def _shift_indices(op: Operation, domain: Tile) -> None:
    """`linalg.index` counts from the tile's start: adds its offset."""
    for inner in [o for o in op.walk() if o.name == "linalg.index"]:
        attribute = inner.attributes["dim"]
        assert isinstance(attribute, IntegerAttr)
        offset = domain.offsets[attribute.value]
        if offset == 0:
            continue
        index = IndexBuilder(Builder.after(inner))
        shifted = index.apply(dim(0) + dim(1), (inner.result, offset))
        assert isinstance(shifted, Value)
        keep = shifted.defining_op
        inner.result.replace_uses_if(shifted, lambda use, keep=keep: use.owner is not keep)
