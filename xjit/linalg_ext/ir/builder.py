"""A builder makes operations at one place of a block, one behind the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from xjit.affine import AffineMap
from xjit.hlo.diagnostics import Span
from xjit.linalg_ext.ir.attributes import AffineMapAttr, Attribute, FloatAttr, IntegerAttr
from xjit.linalg_ext.ir.operation import Block, Operation, Region, Value
from xjit.linalg_ext.ir.types import FloatType, IndexType, Type

__all__ = ["Builder", "constant_value"]


class Builder:
    """Inserts into `block` before `anchor`, at the end if that is None."""

    __slots__ = ("anchor", "block", "location")

    def __init__(self, block: Block, anchor: Operation | None = None, location: Span | None = None) -> None:
        self.block, self.anchor, self.location = block, anchor, location

    @staticmethod
    def before(op: Operation) -> Builder:
        assert op.block is not None
        return Builder(op.block, op, op.location)

    @staticmethod
    def after(op: Operation) -> Builder:
        assert op.block is not None
        return Builder(op.block, op.block.next_of(op), op.location)

    @staticmethod
    def at_end(block: Block) -> Builder:
        return Builder(block)

    def insert(self, op: Operation) -> Operation:
        """Inserts an operation that is in no block."""
        if self.anchor is None:
            self.block.append(op)
        else:
            self.block.insert_before(self.anchor, op)
        return op

    def create(
        self,
        name: str,
        operands: Iterable[Value] = (),
        result_types: Iterable[Type] = (),
        attributes: Mapping[str, Attribute] | None = None,
        regions: Iterable[Region] = (),
        location: Span | None = None,
    ) -> Operation:
        """Makes an operation and inserts it. Its place in the text is the builder's, if none is given."""
        return self.insert(Operation(name, operands, result_types, attributes, regions, location or self.location))

    def clone(self, op: Operation, mapping: dict[Value, Value] | None = None) -> Operation:
        """Inserts a copy; see `Operation.clone`."""
        return self.insert(op.clone(mapping))

    def constant(self, value: Attribute, type: Type) -> Value:
        """Returns the result of a new `arith.constant`."""
        return self.create("arith.constant", (), (type,), {"value": value}).result

    def constant_index(self, value: int) -> Value:
        """Returns a new constant of type index."""
        return self.constant(IntegerAttr(value, IndexType()), IndexType())

    def constant_float(self, value: float, type: FloatType) -> Value:
        return self.constant(FloatAttr(value, type), type)

    def affine_apply(self, map: AffineMap, operands: Sequence[Value]) -> Value:
        """Returns the one result of a map; operands are the dims and then the symbols."""
        return self._affine("affine.apply", map, operands)

    def _affine(self, name: str, map: AffineMap, operands: Sequence[Value]) -> Value:
        assert len(operands) == map.num_dims + map.num_symbols
        return self.create(name, operands, (IndexType(),), {"map": AffineMapAttr(map)}).result


def constant_value(value: Value) -> int | None:
    """Returns the integer that an `arith.constant` gives, None for any other value."""
    op = value.defining_op
    if op is None or op.name != "arith.constant":
        return None
    attribute = op.attributes.get("value")
    return attribute.value if isinstance(attribute, IntegerAttr) else None
