"""split_reduction: a reduction as one of a reshaped input into partial results, and a second one of these."""

from __future__ import annotations

from xjit.affine import AffineExpr, AffineExprKind, AffineMap, dim
from xjit.dataclass import dataclass
from xjit.linalg_ext.ir import Builder, DenseArrayAttr, Operation, TensorType, Value
from xjit.linalg_ext.structured import PARALLEL, REDUCTION, StructuredOp, as_structured, shape_of
from xjit.linalg_ext.structured.creation import create_generic
from xjit.linalg_ext.transforms.building_blocks.collectives import Combiner, combiner_of, neutral_element
from xjit.linalg_ext.transforms.building_blocks.index_values import IndexBuilder
from xjit.linalg_ext.transforms.building_blocks.slices import create_empty
from xjit.linalg_ext.transforms.reductions.tile_reduction import merge_parts
from xjit.linalg_ext.transforms.single_ops.generalize import generic_body
from xjit.linalg_ext.transforms.single_ops.reshapes import dynamic_sizes, expand_shape
from xjit.linalg_ext.transforms.tilable import as_tilable

__all__ = ["SplitReduction", "split_reduction"]


@dataclass(frozen=True)
class SplitReduction:
    """`empty` makes the tensor of partial results, `fill` starts them, `split` adds to them, `merge` reduces them."""

    empty: Operation
    fill: Operation
    split: Operation
    merge: Operation


@dataclass(frozen=True)
class _Cut:
    """Loop `loop` of `size` iterations becomes `factor` times as many as are left; loop `position` is the new one."""

    view: StructuredOp
    combiner: Combiner
    loop: int
    size: int
    factor: int
    position: int
    inner_parallel: bool

    def moved(self, loop: int) -> AffineExpr:
        """Returns what a loop is called beside the new one."""
        return dim(loop if loop < self.position else loop + 1)


def split_reduction(op: Operation, factor: int, position: int, inner_parallel: bool = False) -> SplitReduction:
    """Splits the one reduction loop of an op on tensors into a parallel one of `factor` iterations, and the rest.

    The new loop is number `position`, and so is the new dimension of the partial results. It is the outer one of the
    two in the inputs unless it is `inner_parallel`.
    LinalgError, with the operation's place, for what is no such reduction; then nothing has changed. Floats are added
    in another order than before.
    """
    cut = _cut(op, factor, position, inner_parallel)
    builder = Builder.before(op)
    inputs = [_expanded(cut, builder, value, map) for value, map in zip(cut.view.inputs, cut.view.indexing_maps)]
    init = cut.view.inits[0]
    kind = init.type
    assert isinstance(kind, TensorType)
    index = IndexBuilder(builder)
    sizes = [index.dim_of(init, axis) for axis in range(kind.rank)]
    sizes.insert(position, factor)
    start = builder.constant(neutral_element(cut.combiner.op.name, kind.element), kind.element)
    empty = create_empty(builder, sizes, kind)
    segments = {"operandSegmentSizes": DenseArrayAttr.i32((1, 1))}
    fill = builder.create("linalg.fill", (start, empty), (empty.type,), segments)
    split = _split(cut, builder, [value for value, _ in inputs], fill.result, [map for _, map in inputs])
    merge = merge_parts(builder, cut.combiner, split.result, init, position)
    op.replace_all_uses_with(merge.results)
    op.erase()
    assert empty.defining_op is not None
    return SplitReduction(empty.defining_op, fill, split, merge)


def _cut(op: Operation, factor: int, position: int, inner_parallel: bool) -> _Cut:
    """Checks what is split."""
    tilable = as_tilable(op)
    view = as_structured(op)
    if view is None or not op.results or not view.has_tensor_semantics:
        raise tilable.error("is no reduction of tensors")
    combiner = combiner_of(view)
    if combiner is None:
        raise tilable.error("is no reduction with one result and one known scalar op that combines elements")
    loops = [loop for loop, kind in enumerate(view.iterator_types) if kind == REDUCTION]
    if len(loops) != 1:
        raise tilable.error(f"expected one loop of a reduction, found {len(loops)}")
    if view.has_index_semantics or not all(_is_projection(map) for map in view.indexing_maps):
        raise tilable.error("is split only if its maps are projections, and its body asks for no indices")
    extent = view.loop_ranges[loops[0]]
    if extent is None or factor < 1 or extent % factor:
        found = "?" if extent is None else extent
        raise tilable.error(f"has a reduction of {found} elements, which {factor} does not divide")
    if not 0 <= position <= len(shape_of(view.inits[0])):
        raise tilable.error(f"has no place {position} for a new dimension of its result")
    return _Cut(view, combiner, loops[0], extent, factor, position, inner_parallel)


def _is_projection(map: AffineMap) -> bool:
    return all(e.kind is AffineExprKind.DIM for e in map.results) and len(set(map.results)) == len(map.results)


def _expanded(cut: _Cut, builder: Builder, value: Value, map: AffineMap) -> tuple[Value, AffineMap]:
    """Returns an input with the dimension of the loop as two, and the map of that."""
    groups: list[list[int]] = []
    shape: list[int | None] = []
    exprs: list[AffineExpr] = []
    for e, size in zip(map.results, shape_of(value)):
        parts, sizes = [cut.moved(e.position)], [size]
        if e.position == cut.loop:
            parts, sizes = [dim(cut.position), *parts], [cut.factor, cut.size // cut.factor]
            if cut.inner_parallel:
                parts, sizes = parts[::-1], sizes[::-1]
        groups.append(list(range(len(exprs), len(exprs) + len(parts))))
        shape += sizes
        exprs += parts
    expanded = expand_shape(builder, value, groups, tuple(shape), dynamic_sizes(builder, value))
    return expanded, AffineMap(map.num_dims + 1, 0, tuple(exprs))


def _split(cut: _Cut, builder: Builder, inputs: list[Value], partial: Value, maps: list[AffineMap]) -> Operation:
    """The reduction into a tensor that has the new dimension, too."""
    view = cut.view
    results = [cut.moved(e.position) for e in view.indexing_maps[-1].results]
    results.insert(cut.position, dim(cut.position))
    kinds = list(view.iterator_types)
    kinds.insert(cut.position, PARALLEL)
    target = AffineMap(len(kinds), 0, tuple(results))
    return create_generic(builder, inputs, [partial], [*maps, target], kinds, generic_body(view))
