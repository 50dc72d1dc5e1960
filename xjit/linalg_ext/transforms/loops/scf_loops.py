"""Rewrites of single `scf.for` loops: unrolled, peeled, with what does not change moved out."""

from __future__ import annotations

from xjit.affine import AffineExpr, AffineMap, constant, dim, symbol
from xjit.linalg_ext.ir import AffineMapAttr, Builder, LinalgError, Operation, Value, constant_value
from xjit.linalg_ext.rewrite.effects import is_pure
from xjit.linalg_ext.transforms.building_blocks.index_values import Index, IndexBuilder
from xjit.linalg_ext.transforms.loops.repeat_body import check_factor, repeat_body

__all__ = ["move_invariants_out", "peel", "unroll"]

_DIVISIONS = ("divs", "divu", "rems", "remu", "ceildivs", "ceildivu", "floordivs")
_MAY_FAIL = frozenset(name for each in _DIVISIONS for name in (f"arith.{each}i", f"index.{each}"))
"""Pure operations that must not run where the program would not have run them."""


def _bounds(loop: Operation) -> tuple[Index, Index, int]:
    """Returns the lower and upper bound and the step of a loop; LinalgError if the step is not a positive number."""
    if loop.name != "scf.for":
        raise LinalgError(f"'{loop.name}' op is no scf.for loop", loop.location)
    known = [constant_value(v) for v in loop.operands[:3]]
    lower, upper = (v if n is None else n for v, n in zip(loop.operands[:2], known))
    if known[2] is None or known[2] <= 0:
        raise LinalgError(f"'{loop.name}' op has a step that is not a known positive number", loop.location)
    return lower, upper, known[2]


def _not_before(builder: IndexBuilder, split: AffineExpr, lower: Index, upper: Index) -> Index:
    """Returns a place between the bounds (d0, d1), the lower one for a loop that has no iteration."""
    size = upper.defining_op if isinstance(upper, Value) else None
    if lower == 0 and size is not None and size.name in ("tensor.dim", "memref.dim"):
        return builder.apply(split, (lower, upper))
    return builder.maximum((split, dim(0)), (lower, upper))


def _split_at(loop: Operation, split: Index, builder: IndexBuilder) -> Operation:
    """Ends a loop at `split`; returns the loop that goes on from there."""
    end = builder.value(split)
    rest = Builder.after(loop).insert(loop.clone())
    rest.set_operand(0, end)
    loop.replace_all_uses_with(rest.results)
    for number, result in enumerate(loop.results):
        rest.set_operand(3 + number, result)
    loop.set_operand(1, end)
    return rest


def unroll(loop: Operation, factor: int) -> None:
    """Makes `factor` iterations one; those that are left over run in a loop behind. LinalgError for unknown steps."""
    check_factor(loop, factor)
    lower, upper, step = _bounds(loop)
    if factor == 1:
        return
    builder = IndexBuilder(Builder.before(loop))
    whole = dim(0) + (dim(1) - dim(0)).ceildiv(step).floordiv(factor) * (step * factor)
    split = _not_before(builder, whole, lower, upper)
    exact = isinstance(lower, int) and isinstance(upper, int) and -(-(upper - lower) // step) % factor == 0
    if not exact:
        _split_at(loop, split, builder)
    repeat_body(loop, factor, step)
    loop.set_operand(2, builder.value(step * factor))


def peel(loop: Operation) -> tuple[Operation, Operation]:
    """Splits the last, partial step off; returns the loop of whole steps, and one that runs once, or not at all.

    LinalgError if the bounds tell that there is none, or the step is unknown.
    """
    lower, upper, step = _bounds(loop)
    if isinstance(lower, int) and isinstance(upper, int) and (upper - lower) % step == 0:
        raise LinalgError("failed to peel: the steps divide the loop", loop.location)
    if step == 1:
        raise LinalgError("failed to peel: all steps are whole", loop.location)
    builder = IndexBuilder(Builder.before(loop))
    split = _not_before(builder, dim(1) - (dim(1) - dim(0)) % step, lower, upper)
    rest = _split_at(loop, split, builder)
    for each, is_whole in ((loop, True), (rest, False)):
        for op in list(each.body.operations):
            if op.name == "affine.min":
                _decide(op, each.body.arguments[0], upper, step, is_whole)
    return loop, rest


def _decide(op: Operation, variable: Value, upper: Index, step: int, is_whole: bool) -> None:
    """What is left of the loop is at least a step where steps are whole, and less than one in the remainder."""
    attribute = op.attributes["map"]
    assert isinstance(attribute, AffineMapAttr)
    map = attribute.map
    variables = [*(dim(i) for i in range(map.num_dims)), *(symbol(i) for i in range(map.num_symbols))]
    known: dict[Value, AffineExpr] = dict(zip(op.operands, variables))
    end = constant(upper) if isinstance(upper, int) else known.get(upper)
    if variable not in known or end is None:
        return
    left = end - known[variable]
    others = [e for e in map.results if e is not left]
    if len(others) == len(map.results):
        return
    if is_whole and any(e.is_constant and e.value <= step for e in others):
        kept = others
    elif not is_whole:
        kept = [e for e in map.results if e is left or not (e.is_constant and e.value >= step)]
    else:
        return
    if len(kept) < len(map.results):
        op.attributes["map"] = AffineMapAttr(AffineMap(map.num_dims, map.num_symbols, tuple(kept)))


def move_invariants_out(root: Operation) -> None:
    """Moves pure operations that use nothing of a loop in front of it: of `root` and all loops in it, inner ones first.

    The pass `loop-invariant-code-motion`, for a module.
    """
    for inner in reversed([op for op in root.walk() if op.name in ("scf.for", "scf.forall", "scf.parallel")]):
        for op in inner.body.operations[:-1]:
            may_fail = any(each.name in _MAY_FAIL for each in op.walk())
            if is_pure(op) and not may_fail and not _uses_inside(op, inner):
                op.move_before(inner)


def _uses_inside(op: Operation, loop: Operation) -> bool:
    """Whether an operation, or what is inside of it, uses values that the loop defines outside of the operation."""
    for each in op.walk():
        for value in each.operands:
            block = value.parent_block
            around = None if block is None else block.parent_op
            if around is not None and loop.is_ancestor_of(around) and not op.is_ancestor_of(around):
                return True
    return False
