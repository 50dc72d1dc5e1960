"""ScalarLoops: emits a loop nest, and in it indices, loads, stores and scalar code."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import AffineExpr, AffineMap, dim, substitute
from xjit.affine.expr import AffineExprKind
from xjit.linalg_ext.ir.attributes import IntegerAttr
from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.operation import Block, Operation, Region, Value
from xjit.linalg_ext.ir.types import IndexType, MemRefType, Type
from xjit.linalg_ext.structured import shape_of
from xjit.linalg_ext.structured.creation import size_of
from xjit.linalg_ext.structured.scalars import constant_of

__all__ = ["ScalarLoops"]


class ScalarLoops:
    """Emits before `anchor`; `builder` is where the code of the innermost open loop goes. Constants are made once."""

    def __init__(self, anchor: Operation) -> None:
        self._outer = Builder.before(anchor)
        self.builder = self._outer
        self.loops: list[Operation] = []
        self.variables: list[Value] = []
        self._constants: dict[int, Value] = {}
        self._numbers: dict[tuple[float, Type], Value] = {}

    def index(self, value: int) -> Value:
        """Returns an index constant, in front of the loops."""
        found = self._constants.get(value)
        if found is None:
            found = self._constants[value] = self._outer.constant_index(value)
        return found

    def number(self, value: float, type: Type) -> Value:
        """Returns a constant of an element type, in front of the loops."""
        found = self._numbers.get((value, type))
        if found is None:
            found = self._numbers[value, type] = constant_of(self._outer, value, type)
        return found

    def size(self, value: Value, axis: int) -> Value:
        """Returns the size of a dimension, in front of the loops."""
        static = shape_of(value)[axis]
        return size_of(self._outer, value, axis) if static is None else self.index(static)

    def open(self, upper: Value, carried: Sequence[Value] = ()) -> list[Value]:
        """Opens a loop from 0 to `upper`; returns what it carries, seen from inside."""
        block = Block([IndexType(), *(value.type for value in carried)])
        operands = (self.index(0), upper, self.index(1), *carried)
        loop = self.builder.create("scf.for", operands, [v.type for v in carried], {}, (Region([block]),))
        if not self.loops:
            self._outer = Builder.before(loop)  # what is needed later must stand before the loops, too
        self.loops.append(loop)
        self.variables.append(block.arguments[0])
        self.builder = Builder(block, location=self.builder.location)
        return list(block.arguments[1:])

    def close(self, yielded: Sequence[Value] = ()) -> Sequence[Value]:
        """Closes the innermost open loop; returns its results."""
        self.builder.create("scf.yield", yielded)
        self.variables.pop()
        loop = self.builder.block.parent_op
        assert loop is not None and loop.block is not None
        self.builder = Builder.after(loop)
        return loop.results

    def open_all(self, uppers: Sequence[Value]) -> list[Value]:
        """Opens a loop for each bound; returns their variables."""
        for upper in uppers:
            self.open(upper)
        return self.variables[len(self.variables) - len(uppers) :]

    def close_all(self, count: int) -> None:
        for _ in range(count):
            self.close()

    def at(self, e: AffineExpr, variables: Sequence[Value]) -> Value:
        """Returns an index expression of loop variables."""
        if e.is_constant:
            return self.index(e.value)
        if e.kind is AffineExprKind.DIM:
            return variables[e.position]
        used = sorted(e.dims)
        compact = substitute(e, {loop: dim(number) for number, loop in enumerate(used)})
        return self.builder.affine_apply(AffineMap(len(used), 0, (compact,)), [variables[i] for i in used])

    def load(self, memref: Value, indices: Sequence[Value]) -> Value:
        """Returns an element of a memref, and a scalar as it is."""
        if not isinstance(memref.type, MemRefType):
            return memref
        return self.builder.create("memref.load", (memref, *indices), (memref.type.element,)).result

    def store(self, value: Value, memref: Value, indices: Sequence[Value]) -> None:
        self.builder.create("memref.store", (value, memref, *indices))

    def inline(self, body: Block, arguments: Sequence[Value | None]) -> list[Value]:
        """Copies scalar code; `linalg.index` is the variable of an open loop. Returns what it yields.

        None stands for arguments that the body does not use.
        """
        mapping: dict[Value, Value] = {a: v for a, v in zip(body.arguments, arguments) if v is not None}
        for op in body.operations[:-1]:
            if op.name == "linalg.index":
                loop = op.attributes["dim"]
                assert isinstance(loop, IntegerAttr)
                mapping[op.result] = self.variables[loop.value]
            else:
                self.builder.clone(op, mapping)
        return [mapping.get(v, v) for v in body.terminator.operands]

    def apply(self, name: str, *operands: Value) -> Value:
        """Returns the result of an operation whose result has the type of its first operand."""
        return self.builder.create(name, operands, (operands[0].type,)).result

    def select(self, condition: Value, yes: Value, no: Value) -> Value:
        """Returns one of two values of a type."""
        return self.builder.create("arith.select", (condition, yes, no), (yes.type,)).result
