"""Rules of linalg: structured ops that copy, or add to nothing."""

from __future__ import annotations

from xjit.linalg_ext.dialects.linalg import inputs_and_outputs
from xjit.linalg_ext.dialects.registry import has_trait
from xjit.linalg_ext.ir.attributes import AffineMapAttr, ArrayAttr, DenseArrayAttr, EnumAttr, FloatAttr, IntegerAttr
from xjit.linalg_ext.ir.operation import BlockArgument, Operation, Value
from xjit.linalg_ext.ir.types import MemRefType, TensorType
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


def moved_back(op: Operation) -> bool:
    """A transpose that moves nothing is its input; one of a transpose is one of what that is of."""
    order = op.attributes.get("permutation")
    if not op.results or not isinstance(order, DenseArrayAttr):
        return False
    if list(order.ints) == list(range(len(order.ints))):
        return op.operands[0].type == op.result.type and replace(op, [op.operands[0]])
    inner = op.operands[0].defining_op
    first = None if inner is None or inner.name != op.name else inner.attributes.get("permutation")
    if inner is None or not isinstance(first, DenseArrayAttr):
        return False
    op.set_operand(0, inner.operands[0])
    op.attributes["permutation"] = DenseArrayAttr.i64(first.ints[i] for i in order.ints)
    return True


def without_elements(op: Operation) -> bool:
    """An op on a memref without elements does nothing."""
    if op.dialect != "linalg" or op.results or not has_trait(op, "structured"):
        return False
    none = any(isinstance(v.type, MemRefType) and 0 in v.type.shape for v in op.operands)
    return none and replace(op, [])


LINALG_RULES: tuple[Rule, ...] = (
    Rule(("linalg.generic",), copy_of_inputs),
    Rule(("linalg.copy", "memref.copy"), copy_to_itself),
    Rule(("linalg.transpose",), moved_back),
    Rule(("",), without_elements),
)
LINALG_EXT_RULES: tuple[Rule, ...] = (Rule(("linalg.generic",), add_to_zero),)
