"""Draft: a generic that is being put together from operands with their maps and from bodies of others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TypeAlias

from xjit.affine import AffineMap
from xjit.affine.expr import AffineExprKind
from xjit.dataclass import dataclass
from xjit.linalg_ext.ir.attributes import IntegerAttr
from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.operation import Block, Operation, Region, Value
from xjit.linalg_ext.ir.types import IndexType, IntegerType, element_type
from xjit.linalg_ext.structured import StructuredOp
from xjit.linalg_ext.structured.creation import create_generic

__all__ = ["Draft", "Operand", "copy_body", "covers_loops"]

Operand: TypeAlias = tuple[Value, AffineMap]


def covers_loops(operands: Sequence[Operand], num_loops: int) -> bool:
    """Whether each loop is an index by itself of one of the operands, so that its length is known."""
    found = {e.position for _, m in operands for e in m.results if e.kind is AffineExprKind.DIM}
    return len(found) == num_loops


@dataclass
class Draft:
    """Loops, inputs and inits, of a generic that is not there yet."""

    iterators: Sequence[str]
    inputs: list[Operand] = field(default_factory=list[Operand])
    inits: list[Operand] = field(default_factory=list[Operand])

    def build(self, builder: Builder) -> tuple[Operation, Block]:
        """Inserts the generic, with an empty body; returns it and the body."""
        block = Block([element_type(value.type) for value, _ in (*self.inputs, *self.inits)])
        op = create_generic(
            builder,
            [value for value, _ in self.inputs],
            [value for value, _ in self.inits],
            [m for _, m in (*self.inputs, *self.inits)],
            self.iterators,
            Region([block]),
        )
        return op, block


def copy_body(builder: Builder, source: StructuredOp, mapping: dict[Value, Value], loops: AffineMap) -> list[Value]:
    """Copies scalar code; `loops` gives the loops of the source in those of the new op. Returns what it yields.

    Variables of all new loops come first, if the code asks for any; those that are not needed are left unused.
    """
    variables = [_variable(builder, i) for i in range(loops.num_dims)] if source.has_index_semantics else []
    for op in source.body.operations[:-1]:
        if op.name == "linalg.index":
            mapping[op.result] = _index(builder, op, loops, variables)
        else:
            builder.clone(op, mapping)
    return [mapping.get(value, value) for value in source.yielded]


def _variable(builder: Builder, loop: int) -> Value:
    return builder.create("linalg.index", (), (IndexType(),), {"dim": IntegerAttr(loop, IntegerType(64))}).result


def _index(builder: Builder, op: Operation, loops: AffineMap, variables: Sequence[Value]) -> Value:
    """Returns the loop variable of the source that `op` asks for."""
    number = op.attributes["dim"]
    assert isinstance(number, IntegerAttr)
    e = loops.results[number.value]
    if e.is_constant:
        return builder.constant_index(e.value)
    if e.kind is AffineExprKind.DIM:
        return variables[e.position]
    return builder.affine_apply(AffineMap(loops.num_dims, 0, (e,)), variables)
