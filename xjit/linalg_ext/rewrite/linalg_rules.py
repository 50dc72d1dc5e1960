"""Rules of linalg: structured ops that copy, or add to nothing."""

from __future__ import annotations

from xjit.linalg_ext.dialects.linalg import inputs_and_outputs
from xjit.linalg_ext.ir.attributes import AffineMapAttr, ArrayAttr, EnumAttr, FloatAttr, IntegerAttr
from xjit.linalg_ext.ir.operation import BlockArgument, Operation, Value
from xjit.linalg_ext.ir.types import TensorType
from xjit.linalg_ext.rewrite.rule import Rule, constant_attribute, replace

__all__ = ["LINALG_EXT_RULES", "LINALG_RULES"]


def _maps(op: Operation) -> list[AffineMapAttr]:
    attribute = op.attributes.get("indexing_maps")
    return [e for e in attribute.elements if isinstance(e, AffineMapAttr)] if isinstance(attribute, ArrayAttr) else []


def copy_of_inputs(op: Operation) -> bool:
    """A body that only yields elements of inputs, in the order in which they lie, gives the inputs."""
    block = op.body
    inputs, _ = inputs_and_outputs(op)
    maps = _maps(op)
    if len(block.operations) != 1 or not op.results or len(maps) != len(op.operands):
        return False
    values: list[Value] = []
    for i, value in enumerate(block.terminator.operands):
        if not isinstance(value, BlockArgument) or value.block is not block or value.index >= len(inputs):
            return False
        source = inputs[value.index]
        if maps[value.index] != maps[len(inputs) + i] or source.type != op.results[i].type:
            return False
        values.append(source)
    return replace(op, values)


def add_to_zero(op: Operation) -> bool:
    """in + out, elementwise, where out is zero (or empty: any value may be assumed), is in."""
    inputs, outputs = inputs_and_outputs(op)
    if len(inputs) != 1 or len(outputs) != 1 or not op.results or inputs[0].type != op.result.type:
        return False
    block = op.body
    if len(block.operations) != 2 or block.operations[0].name not in ("arith.addf", "arith.addi"):
        return False
    if set(block.operations[0].operands) != set(block.arguments) or len(block.arguments) != 2:
        return False
    iterators = op.attributes.get("iterator_types")
    kinds = [e.value for e in iterators.elements if isinstance(e, EnumAttr)] if isinstance(iterators, ArrayAttr) else []
    maps = _maps(op)
    plain = len(maps) == 2 and all(m.map.is_identity for m in maps) and set(kinds) <= {"parallel"}
    return plain and _is_zero(outputs[0]) and replace(op, [inputs[0]])


def _is_zero(value: Value) -> bool:
    """Whether a tensor was filled with zero, or with nothing."""
    op = value.defining_op
    if op is None or not isinstance(value.type, TensorType):
        return False
    if op.name == "tensor.empty":
        return True
    if op.name != "linalg.fill":
        return False
    number = constant_attribute(op.operands[0])
    return isinstance(number, IntegerAttr | FloatAttr) and number.value == 0


def copy_to_itself(op: Operation) -> bool:
    """A copy of a tensor into itself is that tensor; one of a buffer is nothing."""
    return op.operands[0] is op.operands[1] and replace(op, [op.operands[0]] if op.results else [])


LINALG_RULES: tuple[Rule, ...] = (
    Rule(("linalg.generic",), copy_of_inputs),
    Rule(("linalg.copy", "memref.copy"), copy_to_itself),
)
LINALG_EXT_RULES: tuple[Rule, ...] = (Rule(("linalg.generic",), add_to_zero),)
