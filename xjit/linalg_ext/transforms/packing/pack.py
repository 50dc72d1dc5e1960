"""pack: a structured op as a generic on operands that are packed into tiles, with loops over the tiles' elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xjit.affine import AffineExprKind, AffineMap, dim, symbol
from xjit.affine.semi import ceildiv
from xjit.linalg_ext.dialects.definition import SEGMENTS
from xjit.linalg_ext.ir import (
    Attribute,
    Builder,
    DenseArrayAttr,
    FloatAttr,
    FloatType,
    IntegerAttr,
    LinalgError,
    Operation,
    TensorType,
    Type,
    Value,
)
from xjit.linalg_ext.structured import PARALLEL, StructuredOp, as_structured
from xjit.linalg_ext.structured.creation import create_generic
from xjit.linalg_ext.transforms.building_blocks.index_values import Index, IndexBuilder
from xjit.linalg_ext.transforms.building_blocks.slices import create_empty, static_list
from xjit.linalg_ext.transforms.single_ops.generalize import generic_body

__all__ = ["PackedOp", "create_packing", "pack", "packable", "zero_of"]


@dataclass(frozen=True)
class PackedOp:
    """`op` computes on tiles; `packs` are the packs of operands, None for those that are as they were, `unpacks` the
    unpacks of results.
    """

    op: Operation
    packs: tuple[Operation | None, ...]
    unpacks: tuple[Operation, ...]


def pack(operation: Operation, packed_sizes: Sequence[Index]) -> PackedOp:
    """Cuts loop i of a structured op on tensors into tiles of `packed_sizes[i]`, 0 leaves it; operands are packed.

    Tiles that are not full are filled with zeros. LinalgError, with the operation's place, for an op whose operands
    are read at other indices than plain loops, or if zeros would change what is reduced; then nothing has changed.
    """
    op = packable(operation, packed_sizes)
    sizes = [*packed_sizes, *[0] * (op.num_loops - len(packed_sizes))]
    loops = [loop for loop, size in enumerate(sizes) if size != 0]
    places = [_places(op, number, loops) for number in range(len(op.operands))]
    index = IndexBuilder(Builder.before(operation))
    packs: list[Operation | None] = []
    maps: list[AffineMap] = []
    for value, old, cut in zip(op.operands, op.indexing_maps, places):
        inner = {axis: sizes[loop] for loop, axis in cut.items()}
        packs.append(_packed(index, value, inner) if cut else None)
        tiles = tuple(dim(op.num_loops + loops.index(loop)) for loop in cut)
        maps.append(AffineMap(op.num_loops + len(loops), 0, (*old.results, *tiles)))
    operands = [value if made is None else made.result for value, made in zip(op.operands, packs)]
    count = len(op.inputs)
    iterators = (*op.iterator_types, *(op.iterator_types[loop] for loop in loops))
    new = create_generic(index.builder, operands[:count], operands[count:], maps, iterators, generic_body(op))
    results, unpacks = _unpacked(index.builder, new, op, packs[count:])
    operation.replace_all_uses_with(results)
    operation.erase()
    return PackedOp(new, tuple(packs), tuple(unpacks))


def _refused(op: StructuredOp, message: str) -> LinalgError:
    return LinalgError(f"'{op.operation.name}' op {message}", op.operation.location)


def packable(operation: Operation, packed_sizes: Sequence[Index]) -> StructuredOp:
    """Returns the op as one that `pack` takes with these sizes; raises what that raises."""
    op = as_structured(operation)
    if op is None or not op.row.pointwise or not op.has_tensor_semantics or op.has_index_semantics:
        raise LinalgError(f"'{operation.name}' op cannot be packed: no loops on tensors", operation.location)
    if len(packed_sizes) > op.num_loops or any(isinstance(n, int) and n < 0 for n in packed_sizes):
        raise _refused(op, f"has {op.num_loops} loops to pack, found sizes {list(packed_sizes)}")
    for loop, size in enumerate(packed_sizes):
        if size != 0:
            _check_padding(op, loop, size)
    return op


def _places(op: StructuredOp, number: int, loops: Sequence[int]) -> dict[int, int]:
    """Returns the dimension of operand `number` that is read at each of some loops, for those that it is read at."""
    found: dict[int, int] = {}
    for axis, e in enumerate(op.indexing_maps[number].results):
        if e.kind is AffineExprKind.DIM and e.position in loops and e.position not in found:
            found[e.position] = axis
        elif any(loop in e.dims for loop in loops):
            raise _refused(op, f"cannot be packed: operand {number} is read at {e}")
    return dict(sorted(found.items()))


def _check_padding(op: StructuredOp, loop: int, size: Index) -> None:
    """Zeros among what is reduced change nothing where products are summed."""
    extent = op.loop_ranges[loop]
    if op.iterator_types[loop] == PARALLEL or (isinstance(size, int) and extent is not None and extent % size == 0):
        return
    if not _sums_products(op, loop):
        raise _refused(op, f"cannot be packed: tiles of loop {loop} may need padding, which its reduction would count")


def _sums_products(op: StructuredOp, loop: int) -> bool:
    """Whether the body adds to its init a product of inputs that are all read along a loop, or one such input."""
    inputs: list[Value] = [*op.body.arguments[: len(op.inputs)]]
    if len(op.inits) != 1:
        return False
    total, add = op.body.arguments[-1], op.yielded[0].defining_op
    if add is None or add.name not in _SUMS or list(add.operands).count(total) != 1:
        return False
    [term] = [v for v in add.operands if v is not total]
    product = term.defining_op
    factors = product.operands if product is not None and product.name in _PRODUCTS else (term,)
    for factor in factors:
        cast = factor.defining_op
        if cast is not None and cast.name in _CASTS:
            factor = cast.operands[0]
        if factor not in inputs or all(loop not in e.dims for e in op.indexing_maps[inputs.index(factor)].results):
            return False
    return True


_SUMS = ("arith.addf", "arith.addi")
_PRODUCTS = ("arith.mulf", "arith.muli")
_CASTS = ("arith.extf", "arith.truncf", "arith.extsi", "arith.extui", "arith.trunci", "arith.sitofp", "arith.uitofp")


def _packed(index: IndexBuilder, value: Value, inner: dict[int, Index]) -> Operation:
    """Packs a value into an empty tensor; tiles that may not be full are padded with zeros."""
    kind = value.type
    assert isinstance(kind, TensorType)
    counts: list[Index] = []
    full = True
    for axis, size in enumerate(kind.shape):
        tile, extent = inner.get(axis, 1), index.dim_of(value, axis)
        counts.append(_count(index, extent, tile))
        full = full and isinstance(tile, int) and (tile == 1 or (size is not None and size % tile == 0))
    tiles = list(inner.values())
    dest = create_empty(index.builder, [*counts, *tiles], kind)
    padding = () if full else (index.builder.constant(zero_of(kind.element), kind.element),)
    return create_packing(index.builder, "tensor.pack", value, dest, list(inner), tiles, padding)


def _count(index: IndexBuilder, extent: Index, tile: Index) -> Index:
    """Returns how many tiles have all elements."""
    return extent if tile == 1 else index.apply(ceildiv(dim(0), symbol(0)), (extent,), (tile,))


def zero_of(element: Type) -> Attribute:
    """Returns the constant zero of a type of elements."""
    return FloatAttr(0.0, element) if isinstance(element, FloatType) else IntegerAttr(0, element)  # pyright: ignore[reportArgumentType]


def create_packing(
    builder: Builder,
    name: str,
    source: Value,
    dest: Value,
    inner: Sequence[int],
    tiles: Sequence[Index],
    padding: Sequence[Value] = (),
    outer: Sequence[int] = (),
) -> Operation:
    """Makes a `pack` or `unpack` of dimensions `inner` in tiles of sizes `tiles`."""
    values = [n for n in tiles if isinstance(n, Value)]
    attributes: dict[str, Attribute] = {
        "inner_dims_pos": DenseArrayAttr.i64(inner),
        "static_inner_tiles": static_list(tiles),
    }
    if outer:
        attributes["outer_dims_perm"] = DenseArrayAttr.i64(outer)
    if name.endswith(".pack"):
        attributes[SEGMENTS] = DenseArrayAttr.i32((1, 1, len(padding), len(values)))
    return builder.create(name, (source, dest, *padding, *values), (dest.type,), attributes)


def _unpacked(
    builder: Builder, new: Operation, op: StructuredOp, packs: Sequence[Operation | None]
) -> tuple[list[Value], list[Operation]]:
    """Unpacks the results into what the inits were."""
    results: list[Value] = []
    unpacks: list[Operation] = []
    for result, made, init in zip(new.results, packs, op.inits):
        if made is None:
            results.append(result)
            continue
        attributes = {name: a for name, a in made.attributes.items() if name != SEGMENTS}
        segments = made.attributes[SEGMENTS]
        assert isinstance(segments, DenseArrayAttr)
        tiles = made.operands[len(made.operands) - segments.ints[-1] :]
        unpacks.append(builder.create("tensor.unpack", (result, init, *tiles), (init.type,), attributes))
        results.append(unpacks[-1].result)
    return results, unpacks
