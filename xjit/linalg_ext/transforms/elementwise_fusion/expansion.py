"""Takes reshapes out of the way of fusion: generics are expanded to the shape on the other side of the reshape."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import AffineExpr, AffineMap, constant, dim
from xjit.affine.expr import AffineExprKind
from xjit.dataclass import dataclass
from xjit.linalg_ext.ir.attributes import IntegerAttr
from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.operation import Operation, OpResult, Value
from xjit.linalg_ext.ir.types import IndexType, Shape, TensorType
from xjit.linalg_ext.structured import StructuredOp, shape_of, structured
from xjit.linalg_ext.structured.creation import create_generic, size_of
from xjit.linalg_ext.transforms.single_ops.generalize import generic_body
from xjit.linalg_ext.transforms.single_ops.reshapes import collapse_shape, expand_shape, groups_of, is_trivial

__all__ = ["expand_consumer", "expand_producer"]


@dataclass(frozen=True, slots=True)
class _Sizes:
    """How many iterations a loop of the expanded op has: a number, or None and a value."""

    static: int | None
    value: Value | None


@dataclass(frozen=True, slots=True)
class _Expansion:
    """Which loops of the expanded op take the place of each loop, and their lengths where they are several."""

    loops: list[tuple[int, ...]]
    sizes: dict[int, _Sizes]

    @property
    def num_loops(self) -> int:
        return sum(map(len, self.loops))

    def expand_map(self, m: AffineMap) -> AffineMap:
        results: list[AffineExpr] = []
        for e in m.results:
            results += [e] if e.is_constant else [dim(i) for i in self.loops[e.position]]
        return AffineMap(self.num_loops, 0, tuple(results))

    def groups(self, m: AffineMap) -> list[tuple[int, ...]]:
        """Returns the dimensions of an expanded operand by dimension of the operand."""
        groups: list[tuple[int, ...]] = []
        start = 0
        for e in m.results:
            size = 1 if e.is_constant else len(self.loops[e.position])
            groups.append(tuple(range(start, start + size)))
            start += size
        return groups

    def expand_value(self, builder: Builder, value: Value, m: AffineMap) -> Value:
        """Returns an operand in the shape that its expanded map reads; an empty tensor is made anew."""
        shape: list[int | None] = []
        sizes: list[Value] = []
        for axis, e in enumerate(m.results):
            loops = () if e.is_constant else self.loops[e.position]
            if len(loops) <= 1:
                shape.append(shape_of(value)[axis])
                if shape[-1] is None:
                    sizes.append(size_of(builder, value, axis))
                continue
            for loop in loops:
                size = self.sizes[loop]
                shape.append(size.static)
                sizes += [] if size.value is None else [size.value]
        if isinstance(value, OpResult) and value.owner.name == "tensor.empty" and len(shape) != len(shape_of(value)):
            kind = value.type
            assert isinstance(kind, TensorType)
            return builder.create("tensor.empty", sizes, (kind.with_shape(tuple(shape)),)).result
        return expand_shape(builder, value, self.groups(m), tuple(shape), sizes)


def expand_consumer(operation: Operation, index: int) -> Operation | None:
    """Expands a generic whose input `index` is a `collapse_shape` of tensors: it reads what was collapsed.

    Its results are collapsed again. Returns the new generic, None if a map does not allow it.
    """
    op = structured(operation)
    reshape = op.inputs[index].defining_op
    if reshape is None or reshape.name != "tensor.collapse_shape" or not _is_expandable(op, index):
        return None
    source = reshape.operands[0]
    builder = Builder.before(operation)
    sizes = [_Sizes(n, None if n is not None else size_of(builder, source, i)) for i, n in enumerate(shape_of(source))]
    return _expand(op, _expansion(op.indexing_maps[index], groups_of(reshape), sizes), {index: source})


def expand_producer(reshape: Operation) -> Operation | None:
    """Expands the generic whose result an `expand_shape` expands; returns the new generic, None if that cannot be.

    Nothing else may use its results: they would be collapsed for others, which are expanded then, and so without end.
    """
    value = reshape.operands[0]
    if not isinstance(value, OpResult) or value.owner.name != "linalg.generic":
        return None
    if [use.owner for result in value.owner.results for use in result.uses] != [reshape]:
        return None
    op = structured(value.owner)
    index = len(op.inputs) + value.index
    if is_trivial(groups_of(reshape)) or not _is_expandable(op, index) or len(reshape.operands) > 1:
        return None
    shape: Shape = shape_of(reshape.result)
    if None in shape:
        return None
    sizes = [_Sizes(n, None) for n in shape]
    return _expand(op, _expansion(op.indexing_maps[index], groups_of(reshape), sizes), {})


def _is_expandable(op: StructuredOp, index: int) -> bool:
    """Whether loops are parallel, and indices are loops or numbers; those of operand `index` are loops, each once."""
    if not op.has_tensor_semantics or not op.is_elementwise or not op.indexing_maps[index].results:
        return False
    for number, m in enumerate(op.indexing_maps):
        loops = [e for e in m.results if e.kind is AffineExprKind.DIM]
        if len(set(loops)) != len(loops):
            return False
        if len(loops) != len(m.results) and (number == index or not _only_loops_and_numbers(m)):
            return False
    return True


def _only_loops_and_numbers(m: AffineMap) -> bool:
    return all(e.is_constant or e.kind is AffineExprKind.DIM for e in m.results)


def _expansion(m: AffineMap, groups: Sequence[Sequence[int]], sizes: Sequence[_Sizes]) -> _Expansion:
    """Returns the expansion that reads or writes the operand of `m` in groups of dimensions of these sizes."""
    parts = {e.position: groups[axis] for axis, e in enumerate(m.results)}
    loops: list[tuple[int, ...]] = []
    known: dict[int, _Sizes] = {}
    start = 0
    for loop in range(m.num_dims):
        group = parts.get(loop, (0,))
        loops.append(tuple(range(start, start + len(group))))
        if loop in parts:
            known |= {start + i: sizes[axis] for i, axis in enumerate(group)}
        start += len(group)
    return _Expansion(loops, known)


def _expand(op: StructuredOp, expansion: _Expansion, sources: dict[int, Value]) -> Operation | None:
    """Makes the expanded op; operands in `sources` are there in the expanded shape."""
    if op.has_index_semantics and not _has_static_parts(expansion):
        return None
    builder = Builder.before(op.operation)
    operands = [
        sources.get(i) or expansion.expand_value(builder, value, m)
        for i, (value, m) in enumerate(zip(op.operands, op.indexing_maps))
    ]
    count = len(op.inputs)
    maps = [expansion.expand_map(m) for m in op.indexing_maps]
    iterators = ["parallel"] * expansion.num_loops
    new = create_generic(builder, operands[:count], operands[count:], maps, iterators, generic_body(op))
    _join_indices(new, expansion)
    for i, result in enumerate(op.operation.results):
        groups = expansion.groups(op.indexing_maps[count + i])
        result.replace_all_uses_with(collapse_shape(builder, new.results[i], groups))
    op.operation.erase()
    return new


def _has_static_parts(expansion: _Expansion) -> bool:
    return all(expansion.sizes[i].static is not None for group in expansion.loops for i in group[1:])


def _join_indices(new: Operation, expansion: _Expansion) -> None:
    """Loop variables that the body asks for are computed from those of the expanded loops."""
    for op in new.body.operations:
        if op.name != "linalg.index":
            continue
        loop = op.attributes["dim"]
        assert isinstance(loop, IntegerAttr)
        group = expansion.loops[loop.value]
        builder = Builder.before(op)
        variables = [
            builder.create("linalg.index", (), (IndexType(),), {"dim": IntegerAttr(i, loop.type)}).result for i in group
        ]
        linear: AffineExpr = constant(0)
        for number, i in enumerate(group):
            linear = linear * (1 if not number else expansion.sizes[i].static or 0) + dim(number)
        joined = (
            variables[0] if len(group) == 1 else builder.affine_apply(AffineMap(len(group), 0, (linear,)), variables)
        )
        op.result.replace_all_uses_with(joined)
        op.erase()
