"""Joins loops of a generic that walk memory as one: `collapse_dims`, and the pass that finds such loops."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import AffineMap, dim
from xjit.affine.expr import AffineExprKind
from xjit.linalg_ext.ir.attributes import IntegerAttr
from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation, Value
from xjit.linalg_ext.ir.types import IndexType, MemRefType
from xjit.linalg_ext.structured import PARALLEL, StructuredOp, as_structured, shape_of, structured
from xjit.linalg_ext.structured.creation import create_generic, size_of
from xjit.linalg_ext.transforms.single_ops.generalize import generalize, generic_body
from xjit.linalg_ext.transforms.single_ops.reshapes import Groups, collapse_shape, dynamic_sizes, expand_shape

__all__ = ["collapse_dims", "collapse_loops", "collapsible_loops", "flatten_elementwise"]


def collapse_dims(operation: Operation, reassociation: Groups) -> Operation:
    """Makes one loop of each group of loops of a `linalg.generic`; returns the new generic.

    Operands are collapsed, results expanded again. LinalgError if a group's loops are of several kinds, or are no
    neighbours in this order in an operand, or if a memref is not row-major.
    """
    if operation.name != "linalg.generic":
        raise LinalgError(
            f"collapse_dims transformation should be applied on linalg.generic, not on '{operation.name}'",
            operation.location,
        )
    op = structured(operation)
    groups = _all_groups(op, reassociation)
    _check_groups(op, groups)
    number_of = {loop: number for number, group in enumerate(groups) for loop in group}
    builder = Builder.before(operation)
    operands: list[Value] = []
    maps: list[AffineMap] = []
    shapes = [_operand_groups(m, groups) for m in op.indexing_maps]
    for value, old, axes in zip(op.operands, op.indexing_maps, shapes):
        operands.append(collapse_shape(builder, value, axes))
        maps.append(AffineMap(len(groups), 0, tuple(dim(number_of[old.results[group[0]].position]) for group in axes)))
    count = len(op.inputs)
    iterators = [op.iterator_types[group[0]] for group in groups]
    sizes = _index_sizes(builder, op, groups) if op.has_index_semantics else {}
    region = generic_body(op)
    new = create_generic(builder, operands[:count], operands[count:], maps, iterators, region)
    _split_indices(new, groups, sizes)
    for i, result in enumerate(operation.results):
        init = op.inits[i]
        expanded = new.results[i]
        if shape_of(init) != shape_of(expanded):
            sizes_of_init = dynamic_sizes(builder, init)
            expanded = expand_shape(builder, expanded, shapes[count + i], shape_of(init), sizes_of_init)
        result.replace_all_uses_with(expanded)
    operation.erase()
    return new


def flatten_elementwise(operation: Operation) -> Operation:
    """Makes one loop of all loops of an elementwise op; returns the generic that it is now, or the op if it has one.

    LinalgError for other ops, and as `collapse_dims` raises it.
    """
    op = as_structured(operation)
    if op is None or not op.is_elementwise:
        raise LinalgError(f"'{operation.name}' op is not elementwise: it cannot be flattened", operation.location)
    if op.num_loops < 2:
        return operation
    group = tuple(range(op.num_loops))
    _check_groups(op, [group])  # a named op that cannot be flattened stays one
    return collapse_dims(operation if operation.name == "linalg.generic" else generalize(operation), [group])


def _refused(op: StructuredOp, message: str) -> LinalgError:
    return LinalgError(f"'{op.operation.name}' op {message}", op.operation.location)


def _all_groups(op: StructuredOp, reassociation: Groups) -> list[tuple[int, ...]]:
    """Returns the groups and all other loops on their own, in the order of their first loops."""
    named = [loop for group in reassociation for loop in group]
    if len(set(named)) != len(named) or any(not 0 <= loop < op.num_loops for loop in named):
        raise _refused(op, f"expected groups of its {op.num_loops} loops, found {[list(g) for g in reassociation]}")
    groups = [tuple(group) for group in reassociation if group]
    groups += [(loop,) for loop in range(op.num_loops) if loop not in named]
    return sorted(groups)


def _check_groups(op: StructuredOp, groups: Groups) -> None:
    for m in op.indexing_maps:
        positions = [e.position if e.kind is AffineExprKind.DIM else None for e in m.results]
        if None in positions or len(set(positions)) != len(positions):
            raise _refused(op, f"cannot collapse loops: {m} is no projected permutation")
        for group in groups:
            found = [positions.index(loop) for loop in group if loop in positions]
            if found and found != list(range(found[0], found[0] + len(group))):
                raise _refused(op, f"cannot collapse loops {list(group)}: they are no neighbours in {m}")
    for group in groups:
        if len({op.iterator_types[loop] for loop in group}) > 1:
            raise _refused(op, f"cannot collapse loops {list(group)}: some are parallel, some reductions")
    if any(isinstance(v.type, MemRefType) and v.type.layout is not None for v in op.operands):
        raise _refused(op, "cannot collapse loops: an operand is no row-major memref")


def _operand_groups(m: AffineMap, groups: Groups) -> list[tuple[int, ...]]:
    """Returns the dimensions of an operand by group of loops, in the operand's order."""
    group_of = {group[0]: group for group in groups}
    result: list[tuple[int, ...]] = []
    axis = 0
    while axis < len(m.results):
        size = len(group_of[m.results[axis].position])
        result.append(tuple(range(axis, axis + size)))
        axis += size
    return result


def _index_sizes(builder: Builder, op: StructuredOp, groups: Groups) -> dict[int, Value]:
    """Returns the sizes of all but the first loop of each group, as values."""
    inner = [loop for group in groups for loop in group[1:]]
    return {loop: size_of(builder, op.operands[op.loop_sources[loop][0]], op.loop_sources[loop][1]) for loop in inner}


def _split_indices(new: Operation, groups: Groups, sizes: dict[int, Value]) -> None:
    """Computes the old loop variables that the body asks for from the new ones."""
    for op in new.body.operations:
        if op.name != "linalg.index":
            continue
        loop = op.attributes["dim"]
        assert isinstance(loop, IntegerAttr)
        number, group = next((n, g) for n, g in enumerate(groups) if loop.value in g)
        builder = Builder.before(op)
        index = builder.create("linalg.index", (), (IndexType(),), {"dim": IntegerAttr(number, loop.type)}).result
        for inner in reversed(group[group.index(loop.value) + 1 :]):
            index = builder.create("arith.divui", (index, sizes[inner]), (IndexType(),)).result
        if loop.value != group[0]:
            index = builder.create("arith.remui", (index, sizes[loop.value]), (IndexType(),)).result
        op.result.replace_all_uses_with(index)
        op.erase()


def collapsible_loops(op: StructuredOp, kind: str = PARALLEL) -> list[tuple[int, ...]]:
    """Returns groups of loops of one kind that are neighbours wherever they are used, from the innermost on.

    A group has at most one loop of unknown length, as the sizes of what it is made of could not be told apart.
    """
    maps = op.indexing_maps
    groups: list[tuple[int, ...]] = []
    current: list[int] = []
    for e in reversed(maps[0].results if maps else ()):
        loop = e.position
        fits = op.iterator_types[loop] == kind and (not current or _are_neighbours(maps, loop, current[0]))
        if not (current and fits and _is_static_but_one(op, [loop, *current])):
            _close(groups, current)
            current = []
        if op.iterator_types[loop] == kind:
            current.insert(0, loop)
    _close(groups, current)
    return groups


def _close(groups: list[tuple[int, ...]], current: Sequence[int]) -> None:
    if len(current) > 1:
        groups.append(tuple(current))


def _are_neighbours(maps: Sequence[AffineMap], left: int, right: int) -> bool:
    for m in maps:
        positions = [e.position for e in m.results]
        if (left in positions) != (right in positions):
            return False
        if left in positions and positions.index(left) + 1 != positions.index(right):
            return False
    return True


def _is_static_but_one(op: StructuredOp, loops: Sequence[int]) -> bool:
    return sum(op.loop_ranges[loop] is None for loop in loops) <= 1


def collapse_loops(module: Operation, kind: str = PARALLEL) -> bool:
    """The pass `linalg-collapse-loops`: collapses loops of a kind in every generic where it can; says if it did."""
    changed = False
    for operation in list(module.walk()):
        if operation.name != "linalg.generic":
            continue
        op = structured(operation)
        if _is_eligible(op):
            groups = collapsible_loops(op, kind)
            if groups:
                collapse_dims(operation, groups)
                changed = True
    return changed


def _is_eligible(op: StructuredOp) -> bool:
    """Whether all maps are projected permutations, no body asks for loop variables, all memrefs are row-major."""
    for m in op.indexing_maps:
        positions = [e.position for e in m.results if e.kind is AffineExprKind.DIM]
        if len(positions) != len(m.results) or len(set(positions)) != len(positions):
            return False
    if op.has_index_semantics:
        return False
    return not any(isinstance(v.type, MemRefType) and v.type.layout is not None for v in op.operands)
