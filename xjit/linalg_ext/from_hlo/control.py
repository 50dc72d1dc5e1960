"""Tuples, calls, branches and loops."""

from __future__ import annotations

from xjit.hlo import HloComputation, HloInstruction, PrimitiveType
from xjit.hlo import attributes as at
from xjit.linalg_ext.from_hlo.opaque import leaf_shapes, leaf_values, tuple_of
from xjit.linalg_ext.from_hlo.scope import Raised, Rule, Scope
from xjit.linalg_ext.from_hlo.types import raised_type
from xjit.linalg_ext.ir.attributes import Attribute, DenseArrayAttr
from xjit.linalg_ext.ir.operation import Block, Region
from xjit.linalg_ext.ir.types import IndexType, IntegerType
from xjit.linalg_ext.structured.scalars import cast

__all__ = ["CONTROL_RULES"]


def _tuple(scope: Scope, instruction: HloInstruction) -> Raised:
    return tuple(scope.values[o] for o in instruction.operands)


def _element(scope: Scope, instruction: HloInstruction) -> Raised:
    whole = scope.values[instruction.operand(0)]
    assert isinstance(whole, tuple)
    return whole[instruction.attributes_as(at.GetTupleElementAttributes).index]


def _same(scope: Scope, instruction: HloInstruction) -> Raised:
    return scope.values[instruction.operand(0)]


def _call(scope: Scope, instruction: HloInstruction) -> Raised:
    return scope.run(instruction.to_apply, [scope.values[o] for o in instruction.operands])


def _while(scope: Scope, instruction: HloInstruction) -> Raised:
    """`scf.while` over the leaves of the state: its first region is the condition, which hands the state on."""
    init = leaf_values(scope.values[instruction.operand(0)])
    types = [v.type for v in init]
    blocks = [Block(types), Block(types)]
    shape = instruction.shape
    before, after = (scope.inner(block) for block in blocks)
    goes_on = before.run(instruction.while_condition, [tuple_of(shape, list(blocks[0].arguments))])
    [flag] = leaf_values(goes_on)
    condition = before.builder.create("tensor.extract", (flag,), (IntegerType(1),)).result
    before.builder.create("scf.condition", (condition, *blocks[0].arguments))
    state = after.run(instruction.while_body, [tuple_of(shape, list(blocks[1].arguments))])
    after.builder.create("scf.yield", leaf_values(state))
    regions = [Region([block]) for block in blocks]
    loop = scope.builder.create("scf.while", init, types, {}, regions)
    return tuple_of(shape, list(loop.results))


def _conditional(scope: Scope, instruction: HloInstruction) -> Raised:
    """`scf.if`, or `scf.index_switch`, whose default is the last branch, as in HLO."""
    chooser, *arguments = instruction.operands
    types = [raised_type(s) for s in leaf_shapes(instruction.shape)]
    condition = scope.scalar(chooser)
    regions = [_branch(scope, c, scope.values[a]) for c, a in zip(instruction.branch_computations, arguments)]
    if chooser.shape.element_type is PrimitiveType.PRED:
        chosen = scope.builder.create("scf.if", (condition,), types, {}, regions)
    else:
        index = cast(scope.builder, condition, IndexType())
        cases: dict[str, Attribute] = {"cases": DenseArrayAttr.i64(range(len(regions) - 1))}
        chosen = scope.builder.create("scf.index_switch", (index,), types, cases, [regions[-1], *regions[:-1]])
    return tuple_of(instruction.shape, list(chosen.results))


def _branch(scope: Scope, computation: HloComputation, argument: Raised) -> Region:
    block = Block([])
    inner = scope.inner(block)
    inner.builder.create("scf.yield", leaf_values(inner.run(computation, [argument])))
    return Region([block])


CONTROL_RULES: dict[str, Rule] = {
    "tuple": _tuple,
    "get-tuple-element": _element,
    "opt-barrier": _same,
    "call": _call,
    "while": _while,
    "conditional": _conditional,
}
