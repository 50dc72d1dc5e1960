"""`pack` and `unpack`: tensors whose dimensions are cut into tiles, which become dimensions of their own at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xjit.linalg_ext.dialects.assembly import op
from xjit.linalg_ext.dialects.definition import DYNAMIC, OpDefinition, make_rows
from xjit.linalg_ext.ir.attributes import Attribute, DenseArrayAttr
from xjit.linalg_ext.ir.errors import LinalgVerifyError
from xjit.linalg_ext.ir.operation import Operation, Value
from xjit.linalg_ext.ir.types import Shape, TensorType, element_type

__all__ = ["PACK", "PACKING_ROWS", "UNPACK", "Packing", "packed_shape", "packing_of"]

PACK = ("tensor.pack", "linalg.pack")
UNPACK = ("tensor.unpack", "linalg.unpack")


@dataclass(frozen=True)
class Packing:
    """How a tensor is packed: `outer` has, per leading dimension of the packed one, the dimension whose tiles it
    counts; the dimensions behind them are those inside of tiles, of dimensions `inner`, with sizes `tiles`.
    """

    outer: tuple[int, ...]
    inner: tuple[int, ...]
    tiles: tuple[int | Value, ...]

    def tile_of(self, dimension: int) -> int | Value:
        """Returns the size of tiles along a dimension of the unpacked tensor; 1 if it is not cut."""
        return self.tiles[self.inner.index(dimension)] if dimension in self.inner else 1

    @property
    def static_tiles(self) -> tuple[int | None, ...]:
        """The sizes as a type has them."""
        return tuple(n if isinstance(n, int) else None for n in self.tiles)

    @property
    def order(self) -> tuple[int, ...]:
        """Where the packed dimensions are among those of the unpacked tensor with each tile behind its dimension."""
        places: list[tuple[int, bool]] = []
        for dimension in range(len(self.outer)):
            places.append((dimension, False))
            places += [(dimension, True)] * (dimension in self.inner)
        found = [(dimension, False) for dimension in self.outer] + [(dimension, True) for dimension in self.inner]
        return tuple(map(places.index, found))

    @property
    def groups(self) -> list[tuple[int, ...]]:
        """The dimensions, each with that of its tiles."""
        found: list[tuple[int, ...]] = []
        for dimension in range(len(self.outer)):
            first = found[-1][-1] + 1 if found else 0
            found.append((first, first + 1) if dimension in self.inner else (first,))
        return found


def packing_of(op: Operation) -> Packing:
    """Returns how a `pack` or `unpack` packs; LinalgVerifyError if its attributes do not say that."""
    unpacked = op.operands[0 if op.name in PACK else 1].type
    rank = unpacked.rank if isinstance(unpacked, TensorType) else 0
    outer, inner = _ints(op.attributes.get("outer_dims_perm")), _ints(op.attributes.get("inner_dims_pos"))
    static = _ints(op.attributes.get("static_inner_tiles"))
    if len(set(inner)) != len(inner) or not all(0 <= i < rank for i in inner):
        raise LinalgVerifyError(f"'{op.name}' op invalid inner_dims_pos vector {list(inner)}", op.location)
    if outer and sorted(outer) != list(range(rank)):
        raise LinalgVerifyError(f"'{op.name}' op invalid outer_dims_perm vector {list(outer)}", op.location)
    if len(static) != len(inner):
        raise LinalgVerifyError(
            f"'{op.name}' op tiling factors must equal the number of inner tiles, found {len(static)}", op.location
        )
    values = iter(op.operands[len(op.operands) - static.count(DYNAMIC) :])
    return Packing(outer or tuple(range(rank)), inner, tuple(next(values) if n == DYNAMIC else n for n in static))


def _ints(attribute: Attribute | None) -> tuple[int, ...]:
    return attribute.ints if isinstance(attribute, DenseArrayAttr) else ()


def packed_shape(shape: Shape, outer: Sequence[int], inner: Sequence[int], tiles: Sequence[int | None]) -> Shape:
    """Returns the shape of a packed tensor, None for sizes that are not known."""
    counts: list[int | None] = []
    for dimension in outer:
        size = shape[dimension]
        tile = tiles[inner.index(dimension)] if dimension in inner else 1
        counts.append(None if size is None or tile is None else -(-size // tile))
    return (*counts, *tiles)


def _check(op: Operation) -> None:
    """The packed tensor has the shape that packing gives; without padding, tiles fill it."""
    packs = op.name in PACK
    unpacked, packed = (v.type for v in (op.operands[:2] if packs else op.operands[1::-1]))
    how = packing_of(op)
    if not isinstance(unpacked, TensorType) or not isinstance(packed, TensorType):
        raise LinalgVerifyError(f"'{op.name}' op takes tensors, found {unpacked} and {packed}", op.location)
    if any(isinstance(n, int) and n < 1 for n in how.tiles):
        raise LinalgVerifyError(f"'{op.name}' op invalid tile factor", op.location)
    expected = packed_shape(unpacked.shape, how.outer, how.inner, how.static_tiles)
    if packed.rank != len(expected):
        raise LinalgVerifyError(
            f"'{op.name}' op packed rank != (unpacked rank + num tiling factors), got {packed.rank} != {len(expected)}",
            op.location,
        )
    if packed.element != unpacked.element:
        raise LinalgVerifyError(f"'{op.name}' op mismatched element types {unpacked} and {packed}", op.location)
    outside = len(how.outer)
    if any(found not in (n, None) and n is not None for n, found in zip(expected[outside:], packed.shape[outside:])):
        raise LinalgVerifyError(
            f"'{op.name}' op mismatch in inner tile sizes specified and shaped of tiled dimension in {packed}",
            op.location,
        )
    if any(n is not None and found is not None and found < n for n, found in zip(expected, packed.shape)):
        raise LinalgVerifyError(
            f"'{op.name}' op the shape of output is not large enough to hold the packed data. Expected at least"
            f" '{unpacked.with_shape(expected)}', got '{packed}'",
            op.location,
        )
    if packs:
        _check_padding(op, how, unpacked)


def _check_padding(op: Operation, how: Packing, unpacked: TensorType) -> None:
    padding = op.operands[2 : len(op.operands) - sum(isinstance(n, Value) for n in how.tiles)]
    if padding and padding[0].type != element_type(unpacked):
        raise LinalgVerifyError(
            f"'{op.name}' op expected padding_value has '{unpacked.element}' but got: '{padding[0].type}'", op.location
        )
    sizes = [(unpacked.shape[d], n) for d, n in zip(how.inner, how.tiles)]
    if not padding and any(size is not None and isinstance(n, int) and size % n for size, n in sizes):
        raise LinalgVerifyError(
            f"'{op.name}' op invalid tile factor or output size provided. Only full tiles are supported when"
            " padding_value is not set",
            op.location,
        )


_HOW = (
    "{ outer_dims_perm = sizes(outer_dims_perm) }?outer_dims_perm inner_dims_pos = sizes(inner_dims_pos)"
    " inner_tiles = indices(inner_tiles, static_inner_tiles) into %dest attrs : type(source) -> type(dest)"
)


def _pack(name: str) -> OpDefinition:
    return op(
        name,
        "source;dest;padding_value?;inner_tiles* index",
        "result =dest",
        f"%source {{ padding_value ( %padding_value : type(padding_value) ) }}?padding_value {_HOW}",
        traits="pure",
        result_names=("pack",),
        check=_check,
    )


def _unpack(name: str) -> OpDefinition:
    return op(
        name,
        "source;dest;inner_tiles* index",
        "result =dest",
        f"%source {_HOW}",
        traits="pure",
        result_names=("unpack",),
        check=_check,
    )


PACKING_ROWS = make_rows(*map(_pack, PACK), *map(_unpack, UNPACK))
