"""`linalg.generic` becomes the named op that does the same, where there is one: `generalize` the other way round.

Named ops are tried as the table has them: loops may be numbered in another way, inputs may change places, and sums and
products be written in any order.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence

from xjit.affine import AffineMap
from xjit.affine.expr import AffineExprKind
from xjit.linalg_ext.ir.attributes import Attribute, DenseArrayAttr
from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.errors import LinalgError, LinalgVerifyError
from xjit.linalg_ext.ir.operation import Operation, Value
from xjit.linalg_ext.ir.types import TensorType
from xjit.linalg_ext.rewrite.effects import is_pure
from xjit.linalg_ext.structured import StructuredOp, shape_of, structured

__all__ = ["specialize", "specialize_all"]

_UNARY = ("exp", "log", "abs", "ceil", "floor", "negf", "round", "sqrt", "rsqrt", "tanh", "erf", "reciprocal", "square")
_BINARY = ("add", "sub", "mul", "div", "div_unsigned", "max", "min", "powf")
_CONTRACTIONS = (
    *("matmul", "matmul_transpose_a", "matmul_transpose_b"),
    *("batch_matmul", "batch_matmul_transpose_a", "batch_matmul_transpose_b", "batch_reduce_matmul"),
    *("matvec", "vecmat", "batch_matvec", "batch_vecmat", "dot"),
)
_COMMUTATIVE = frozenset(
    f"arith.{name}"
    for name in ("addf", "addi", "mulf", "muli", "maximumf", "minimumf", "maxsi", "minsi", "andi", "ori")
)
_IGNORED = frozenset({"fastmath", "overflowFlags"})
"""Attributes that allow more than named ops do."""


def specialize(operation: Operation) -> Operation:
    """Replaces a generic by the named op that does the same; other ops stay. LinalgError if there is none."""
    if operation.name != "linalg.generic":
        return operation
    named = _named(structured(operation))
    if named is None:
        raise LinalgError(f"'{operation.name}' op does what no named op does", operation.location)
    operation.replace_all_uses_with(named.results)
    operation.erase()
    return named


def specialize_all(module: Operation) -> bool:
    """The pass `linalg-specialize-generic-ops`: specializes all generics for which that is possible."""
    generics = [op for op in module.walk() if op.name == "linalg.generic" and op.block is not None]
    found = [(op, _named(structured(op))) for op in generics]
    for operation, named in found:
        if named is not None:
            operation.replace_all_uses_with(named.results)
            operation.erase()
    return any(named is not None for _, named in found)


def _named(op: StructuredOp) -> Operation | None:
    """Makes the named op in front of a generic."""
    if len(op.inits) != 1 or op.has_index_semantics or not all(map(is_pure, op.body.operations[:-1])):
        return None
    for name, attributes in _candidates(op):
        for order in _orders(len(op.inputs)):
            named = _create(op, name, [op.inputs[n] for n in order], attributes)
            if _does_the_same(op, structured(named), order):
                return named
            named.erase()
    return None


def _orders(count: int) -> Sequence[Sequence[int]]:
    return ((0, 1), (1, 0)) if count == 2 else (range(count),)


def _candidates(op: StructuredOp) -> Iterator[tuple[str, Mapping[str, Attribute]]]:
    """Yields the ops with as many inputs, and what they are written with."""
    if len(op.inputs) == 1:
        yield from _moves(op)
        yield from ((name, {}) for name in _UNARY)
    elif len(op.inputs) == 2:
        yield from ((name, {}) for name in (*_BINARY, *_CONTRACTIONS))
    elif len(op.inputs) == 3:
        yield "select", {}


def _moves(op: StructuredOp) -> Iterator[tuple[str, Mapping[str, Attribute]]]:
    """Of an input whose elements are the output's, by how their ranks differ."""
    source, target = op.inputs[0], op.inits[0]
    if not shape_of(source) and not isinstance(source.type, TensorType):
        yield "fill", {}
        return
    loops = [m.results for m in op.indexing_maps]
    rank = len(loops[1])
    if len(loops[0]) == rank:
        yield "copy", {}
        if set(loops[0]) == set(loops[1]):
            yield "transpose", {"permutation": DenseArrayAttr.i64([loops[0].index(loop) for loop in loops[1]])}
    elif len(loops[0]) < rank and isinstance(target.type, TensorType) == isinstance(source.type, TensorType):
        yield "broadcast", {"dimensions": DenseArrayAttr.i64([i for i in range(rank) if loops[1][i] not in loops[0]])}


def _create(op: StructuredOp, name: str, inputs: Sequence[Value], attributes: Mapping[str, Attribute]) -> Operation:
    types = [value.type for value in op.inits if isinstance(value.type, TensorType)]
    segments = {} if attributes else {"operandSegmentSizes": DenseArrayAttr.i32((len(inputs), 1))}
    builder = Builder.before(op.operation)
    return builder.create(f"linalg.{name}", (*inputs, *op.inits), types, {**attributes, **segments})


def _does_the_same(op: StructuredOp, named: StructuredOp, order: Sequence[int]) -> bool:
    """Whether a named op, whose inputs are those of a generic in some order, does what that does."""
    operands = (*order, len(order))
    try:
        named.row.check(named)
        numbers = _loops(named.indexing_maps, [op.indexing_maps[n] for n in operands], op.num_loops)
        if numbers is None or [op.iterator_types[n] for n in numbers] != list(named.iterator_types):
            return False
        body = named.body
    except LinalgVerifyError:
        return False
    own: dict[Value, int] = dict(zip(op.body.arguments, range(len(op.operands))))
    others: dict[Value, int] = dict(zip(body.arguments, operands))
    return _key(op.yielded[0], own) == _key(body.terminator.operands[0], others)


def _loops(named: Sequence[AffineMap], maps: Sequence[AffineMap], count: int) -> list[int] | None:
    """Returns which loop of the maps each loop of a named op is; None if operands are read in other ways."""
    found: dict[int, int] = {}
    for left, right in zip(named, maps):
        if len(left.results) != len(right.results):
            return None
        for a, b in zip(left.results, right.results):
            if a.kind is not AffineExprKind.DIM or b.kind is not AffineExprKind.DIM:
                return None
            if found.setdefault(a.position, b.position) != b.position:
                return None
    if sorted(found) != list(range(count)) or sorted(found.values()) != list(range(count)):
        return None
    return [found[n] for n in range(count)]


def _key(value: Value, arguments: Mapping[Value, int]) -> Hashable:
    """What a number of a body is computed from, the same for sums and products in any order."""
    if value in arguments:
        return arguments[value]
    op = value.defining_op
    if op is None or op.regions:
        return value
    operands = [_key(operand, arguments) for operand in op.operands]
    if op.name in _COMMUTATIVE:
        operands.sort(key=repr)
    attributes = tuple(sorted((name, str(a)) for name, a in op.attributes.items() if name not in _IGNORED))
    return op.name, str(op.result_types[0]), attributes, tuple(operands)
