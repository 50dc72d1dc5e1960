"""What has no structured form: calls of functions without a body."""

from __future__ import annotations

from xjit.hlo import HloInstruction, Shape
from xjit.linalg_ext.from_hlo.scope import Raised, Scope
from xjit.linalg_ext.from_hlo.types import raised_type
from xjit.linalg_ext.ir.attributes import StringAttr, SymbolRefAttr, TypeAttr
from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.operation import Operation, Region, Value
from xjit.linalg_ext.ir.types import FunctionType

__all__ = ["leaf_shapes", "leaf_values", "opaque_call", "tuple_of"]


def leaf_shapes(shape: Shape) -> list[Shape]:
    """Returns the shapes of the arrays and tokens of a shape."""
    return [leaf for part in shape.tuple_shapes for leaf in leaf_shapes(part)] if shape.is_tuple else [shape]


def leaf_values(raised: Raised) -> list[Value]:
    """Returns the values of a value or tuple."""
    return [leaf for part in raised for leaf in leaf_values(part)] if isinstance(raised, tuple) else [raised]


def tuple_of(shape: Shape, leaves: list[Value]) -> Raised:
    """Takes values from the front of `leaves` and puts them together as a shape says."""
    return tuple(tuple_of(part, leaves) for part in shape.tuple_shapes) if shape.is_tuple else leaves.pop(0)


def opaque_call(scope: Scope, instruction: HloInstruction) -> Raised:
    """Writes a call of a private function `@hlo.NAME`, by the instruction's name; its attribute `hlo` is the text."""
    name = f"hlo.{instruction.name}"
    operands = [leaf for o in instruction.operands for leaf in leaf_values(scope.values[o])]
    results = tuple(raised_type(s) for s in leaf_shapes(instruction.shape))
    attributes = {
        "sym_name": StringAttr(name),
        "sym_visibility": StringAttr("private"),
        "function_type": TypeAttr(FunctionType(tuple(v.type for v in operands), results)),
        "hlo": StringAttr(str(instruction)),
    }
    first = scope.module.body.operations[0]
    Builder.before(first).insert(Operation("func.func", (), (), attributes, [Region()]))
    call = scope.builder.create("func.call", operands, results, {"callee": SymbolRefAttr(name)})
    return tuple_of(instruction.shape, list(call.results))
