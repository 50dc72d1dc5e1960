"""pad: a structured op on tiles of unknown sizes as one on padded tiles, of the largest sizes that they have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xjit.affine import AffineExprKind, dim
from xjit.dataclass import dataclass
from xjit.linalg_ext.ir import (
    AffineMapAttr,
    Attribute,
    Block,
    Builder,
    DenseArrayAttr,
    LinalgError,
    Operation,
    Region,
    TensorType,
    UnitAttr,
    Value,
)
from xjit.linalg_ext.ir.types import IndexType
from xjit.linalg_ext.structured import Access, as_structured, shape_of
from xjit.linalg_ext.structured.creation import origin_of_sizes
from xjit.linalg_ext.transforms.building_blocks.index_values import Index, IndexBuilder
from xjit.linalg_ext.transforms.building_blocks.slices import extract_tile, slice_lists, static_list
from xjit.linalg_ext.transforms.building_blocks.tiles import Tile

__all__ = ["COPIES_BACK", "PaddedOp", "pad"]

COPIES_BACK = ("none", "linalg.copy", "bufferization.materialize_in_destination")
"""What may put a padded result into its destination."""


@dataclass(frozen=True)
class PaddedOp:
    """`op` computes padded tiles; `pads` are the pads of its operands, `copies` the copies of its results."""

    op: Operation
    pads: tuple[Operation, ...]
    copies: tuple[Operation, ...]


def pad(
    op: Operation,
    values: Sequence[Attribute],
    loops: Sequence[int],
    nofold: Sequence[int] = (),
    multiples: Sequence[int] = (),
    copy_back: str = "none",
) -> PaddedOp:
    """Pads the operands of a structured op on tensors along some loops, operand i with constant `values[i]`.

    `nofold` tells which operands get a pad that may not go, though it pads nothing. Sizes along `loops[i]` become a
    multiple of `multiples[i]`, those that are known, too. The results are cut to the sizes that they had, and copied
    into what they were to be written into by `copy_back`, an op of `COPIES_BACK`. Who asks chooses values that the op
    leaves the rest of the result alone for. LinalgError, with the operation's place, if no bound is known for a size;
    then nothing has changed.
    """
    view = as_structured(op)
    if view is None or not op.results or not view.has_tensor_semantics:
        raise LinalgError(f"'{op.name}' op is padded only if it is structured, on tensors", op.location)
    if len(values) != len(view.operands):
        raise LinalgError(f"expected {len(view.operands)} padding values, found {len(values)}", op.location)
    if len(multiples) not in (0, len(loops)) or any(n < 1 for n in multiples):
        raise LinalgError(f"expected {len(loops)} positive multiples, found {list(multiples)}", op.location)
    if copy_back not in COPIES_BACK:
        raise LinalgError(f"expected one of {', '.join(COPIES_BACK)} to copy back, found {copy_back}", op.location)
    index = IndexBuilder(Builder.before(op))
    steps = dict(zip(loops, multiples or [1] * len(loops)))
    bounds = [_bounds(op, value, access, steps) for value, access in zip(view.operands, view.accesses)]
    operands, pads = list(op.operands), []
    for number, (value, shape) in enumerate(zip(view.operands, bounds)):
        kept = number < len(nofold) and bool(nofold[number])
        if isinstance(value.type, TensorType) and (kept or shape != shape_of(value)):
            made = _pad_to(index, value, shape, values[number], kept)
            pads.append(made)
            operands[number] = made.result
    new = Operation(op.name, operands, [v.type for v in operands[len(view.inputs) :]], op.attributes, (), op.location)
    for region in op.regions:
        new.add_region(region.clone({}))
    index.builder.insert(new)
    results = [_cut(index, value, init) for value, init in zip(new.results, view.inits)]
    copies: list[Operation] = []
    if copy_back != "none":
        copies = [_copied(index.builder, copy_back, value, init) for value, init in zip(results, view.inits)]
        results = [copy.result for copy in copies]
    op.replace_all_uses_with(results)
    op.erase()
    return PaddedOp(new, tuple(pads), tuple(copies))


def _copied(builder: Builder, name: str, value: Value, init: Value) -> Operation:
    segments: dict[str, Attribute] = {"operandSegmentSizes": DenseArrayAttr.i32((1, 1))}
    return builder.create(name, (value, init), (init.type,), segments if name == "linalg.copy" else {})


def _bounds(op: Operation, value: Value, access: Access, steps: Mapping[int, int]) -> tuple[int | None, ...]:
    """Returns the shape of a padded operand; `steps` has what the sizes along a loop are to be multiples of."""
    found: list[int | None] = []
    for axis, (size, e) in enumerate(zip(shape_of(value), access)):
        if e is None or e.kind is not AffineExprKind.DIM or e.position not in steps:
            found.append(size)
            continue
        bound = _upper_bound(_size(value, axis))
        if bound is None:
            raise LinalgError(f"'{op.name}' op has a size without a known bound: it cannot be padded", op.location)
        found.append(-(-bound // steps[e.position]) * steps[e.position])
    return tuple(found)


def _size(value: Value, axis: int) -> Index | None:
    """Returns the size of a dimension where the operation that makes the tensor was told it."""
    value = origin_of_sizes(value)
    if shape_of(value)[axis] is not None:
        return shape_of(value)[axis]
    maker = value.defining_op
    if maker is not None and maker.name == "tensor.empty":
        return maker.operands[sum(n is None for n in shape_of(value)[:axis])]
    if maker is not None and maker.name == "tensor.extract_slice":
        sizes = slice_lists(maker, 1)[1]
        return sizes[axis] if len(sizes) == len(shape_of(value)) else None
    return None


def _upper_bound(size: Index | None) -> int | None:
    """Returns the least number that `affine.min` compares a size with."""
    if size is None or isinstance(size, int):
        return size
    op = size.defining_op
    attribute = op.attributes.get("map") if op is not None and op.name == "affine.min" else None
    if not isinstance(attribute, AffineMapAttr):
        return None
    return min((e.value for e in attribute.map.results if e.is_constant), default=None)


def _pad_to(index: IndexBuilder, value: Value, shape: Sequence[int | None], fill: Attribute, nofold: bool) -> Operation:
    """Pads behind the end of each dimension up to a shape."""
    kind = value.type
    assert isinstance(kind, TensorType)
    high: list[Index] = []
    for axis, (old, new) in enumerate(zip(kind.shape, shape)):
        high.append(0 if old == new or new is None else index.apply(new - dim(0), (_known_size(index, value, axis),)))
    constant = index.builder.constant(fill, kind.element)
    region = Region([Block([IndexType()] * kind.rank)])
    Builder(region.block).create("tensor.yield", (constant,))
    amounts = [n for n in high if isinstance(n, Value)]
    attributes: dict[str, Attribute] = {
        "static_low": DenseArrayAttr.i64((0,) * kind.rank),
        "static_high": static_list(high),
        "operandSegmentSizes": DenseArrayAttr.i32((1, 0, len(amounts))),
    }
    if nofold:
        attributes["nofold"] = UnitAttr()
    types = (kind.with_shape(tuple(shape)),)
    return index.builder.create("tensor.pad", (value, *amounts), types, attributes, (region,))


def _known_size(index: IndexBuilder, value: Value, axis: int) -> Index:
    found = _size(value, axis)
    return index.dim_of(value, axis) if found is None else found


def _cut(index: IndexBuilder, value: Value, init: Value) -> Value:
    """The part of a padded result that the result was."""
    if value.type == init.type:
        return value
    sizes = [_known_size(index, init, axis) for axis in range(len(shape_of(init)))]
    return extract_tile(index.builder, value, Tile.of((0, n, True) for n in sizes))
