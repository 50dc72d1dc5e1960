"""Takes dimensions of size one out of the operands of a generic, and loops of one iteration out of it."""

from __future__ import annotations

from xjit.affine import AffineExpr, AffineMap, constant, dim, substitute_all
from xjit.linalg_ext.ir.attributes import IntegerAttr
from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation, Value
from xjit.linalg_ext.ir.types import TensorType
from xjit.linalg_ext.structured import StructuredOp, shape_of, structured
from xjit.linalg_ext.structured.creation import create_generic
from xjit.linalg_ext.transforms.single_ops.generalize import generic_body
from xjit.linalg_ext.transforms.single_ops.reshapes import collapse_shape, dynamic_sizes, expand_shape

__all__ = ["fold_unit_extent_dims"]


def fold_unit_extent_dims(operation: Operation, fold_loops: bool = False) -> Operation:
    """Collapses dimensions of size one that a `linalg.generic` on tensors reads at the constant 0; returns the new op.

    With `fold_loops`, loops of one iteration are taken out first, which makes their indices 0. Returns the op itself if
    nothing changes. LinalgError for another op.
    """
    if operation.name != "linalg.generic":
        raise LinalgError(
            f"fold_unit_extent_dims transformation should be applied on linalg.generic, not on '{operation.name}'",
            operation.location,
        )
    op = structured(operation)
    kept = [loop for loop, n in enumerate(op.loop_ranges) if not fold_loops or n != 1]
    maps = _maps_over(op, kept)
    groups = [_groups(value, m) for value, m in zip(op.operands, maps)]
    changes = any(len(g) != len(shape_of(v)) for g, v in zip(groups, op.operands))
    if not op.has_tensor_semantics or (not changes and len(kept) == op.num_loops) or not _covers(maps, groups):
        return operation
    return _rebuilt(op, kept, maps, groups)


def _maps_over(op: StructuredOp, kept: list[int]) -> list[AffineMap]:
    """Returns the maps with the other loops at 0."""
    new: list[AffineExpr] = [dim(kept.index(i)) if i in kept else constant(0) for i in range(op.num_loops)]
    return [AffineMap(len(kept), 0, tuple(substitute_all(m.results, new))) for m in op.indexing_maps]


def _groups(value: Value, m: AffineMap) -> list[tuple[int, ...]]:
    """Returns the dimensions that stay, each with the unit dimensions behind it, the first also with those before."""
    shape = shape_of(value)
    is_unit = [n == 1 and e.is_constant and e.value == 0 for n, e in zip(shape, m.results)]
    if all(is_unit):
        return []
    groups: list[list[int]] = []
    leading: list[int] = []
    for axis, unit in enumerate(is_unit):
        if not unit:
            groups.append([*leading, axis])
            leading = []
        else:
            (groups[-1] if groups else leading).append(axis)
    return [tuple(group) for group in groups]


def _kept_axis(m: AffineMap, shape: tuple[int | None, ...], group: tuple[int, ...]) -> int:
    """Returns the dimension of a group that is not a unit dimension."""
    return next(a for a in group if not (shape[a] == 1 and m.results[a].is_constant and m.results[a].value == 0))


def _covers(maps: list[AffineMap], groups: list[list[tuple[int, ...]]]) -> bool:
    """Whether each loop is still an index of its own somewhere, so that its length is known."""
    found = {e for m in maps for e in m.results}
    return all(dim(i) in found for i in range(maps[0].num_dims)) if maps else True


def _rebuilt(
    op: StructuredOp, kept: list[int], maps: list[AffineMap], groups: list[list[tuple[int, ...]]]
) -> Operation:
    operation = op.operation
    builder = Builder.before(operation)
    operands: list[Value] = []
    new_maps: list[AffineMap] = []
    for value, m, axes in zip(op.operands, maps, groups):
        if not isinstance(value.type, TensorType):
            operands.append(value)
            new_maps.append(m)
            continue
        operands.append(collapse_shape(builder, value, axes))
        indices = tuple(m.results[_kept_axis(m, shape_of(value), group)] for group in axes)
        new_maps.append(AffineMap(m.num_dims, 0, indices))
    count = len(op.inputs)
    iterators = [op.iterator_types[loop] for loop in kept]
    new = create_generic(builder, operands[:count], operands[count:], new_maps, iterators, generic_body(op))
    _renumber_indices(new, kept)
    for i, result in enumerate(operation.results):
        init = op.inits[i]
        value: Value = new.results[i]
        if shape_of(value) != shape_of(init):
            sizes = dynamic_sizes(builder, init)
            value = expand_shape(builder, value, groups[count + i], shape_of(init), sizes)
        result.replace_all_uses_with(value)
    operation.erase()
    return new


def _renumber_indices(new: Operation, kept: list[int]) -> None:
    """Loop variables that the body asks for have new numbers, or are 0."""
    for op in new.body.operations:
        if op.name != "linalg.index":
            continue
        loop = op.attributes["dim"]
        assert isinstance(loop, IntegerAttr)
        if loop.value in kept:
            op.attributes["dim"] = IntegerAttr(kept.index(loop.value), loop.type)
        else:
            op.result.replace_all_uses_with(Builder.before(op).constant_index(0))
            op.erase()
