"""Shape rules of tuples, calls, control flow, tokens, transfers and asynchronous wrappers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.hlo.types.shape import Shape
from xjit.ops.opdef import ShapeRule
from xjit.ops.shape_inference.common import (
    TOKEN,
    U32_SCALAR,
    check_predicate_result,
    check_signature,
    check_start,
    dynamic_marks,
    fail,
    show,
    token_operand,
)


def infer_parameter(instruction: HloInstruction) -> Shape:
    """The declared shape; `parameter_replication` has one entry per leaf."""
    attributes = instruction.attributes_as(at.ParameterAttributes)
    if attributes.parameter_number < 0:
        fail(instruction, f"the number must not be negative, got {attributes.parameter_number}")
    if attributes.parameter_replication:
        leaves = instruction.shape.leaf_count
        if len(attributes.parameter_replication) != leaves:
            fail(
                instruction,
                f"parameter_replication has {len(attributes.parameter_replication)} entries, expected {leaves}",
            )
    return instruction.shape


def infer_constant(instruction: HloInstruction) -> Shape:
    """The literal's shape."""
    return instruction.attributes_as(at.ConstantAttributes).literal.shape


def infer_tuple(instruction: HloInstruction) -> Shape:
    """The tuple of the operands' shapes."""
    return Shape.tuple_of([o.shape for o in instruction.operands])


def infer_get_tuple_element(instruction: HloInstruction) -> Shape:
    """The shape of one element of the operand."""
    index = instruction.attributes_as(at.GetTupleElementAttributes).index
    elements = _tuple_operand(instruction).tuple_shapes
    if not 0 <= index < len(elements):
        shape = show(instruction.operand(0).shape)
        fail(instruction, f"index {index} is out of range for a tuple of {len(elements)} elements, {shape}")
    return elements[index]


def _tuple_operand(instruction: HloInstruction, at_least: int = 0) -> Shape:
    shape = instruction.operand(0).shape
    if not shape.is_tuple or len(shape.tuple_shapes) < at_least:
        size = f" of at least {at_least} elements" if at_least else ""
        fail(instruction, f"the operand must be a tuple{size}, but has shape {show(shape)}")
    return shape


def infer_while(instruction: HloInstruction) -> Shape:
    """The operand's shape, which condition and body take and the body returns."""
    init = instruction.operand(0).shape
    condition, body = instruction.called_computations
    check_signature(instruction, condition, [init], "condition")
    check_predicate_result(instruction, condition, "condition")
    check_signature(instruction, body, [init], "body")
    result = body.root_instruction.shape
    if not result.compatible(init):
        fail(instruction, f"body {body.name} must return the loop state {show(init)}, but returns {show(result)}")
    return init


def infer_conditional(instruction: HloInstruction) -> Shape:
    """What the branches return; branch i takes operand i + 1. A dimension is dynamic if it is so in any branch."""
    if instruction.operand_count == 0:
        fail(instruction, "needs a predicate or branch index")
    selector, branches = instruction.operand(0).shape, instruction.branch_computations
    if not selector.is_scalar or selector.element_type not in (PrimitiveType.PRED, PrimitiveType.S32):
        fail(instruction, f"the first operand must be pred[] or s32[], but has shape {show(selector)}")
    if selector.element_type is PrimitiveType.PRED and len(branches) != 2:
        fail(instruction, f"a predicate needs exactly 2 branches, got {len(branches)}")
    if not branches:
        fail(instruction, "needs at least one branch")
    if instruction.operand_count != len(branches) + 1:
        fail(instruction, f"needs one operand per branch, {len(branches)}, got {instruction.operand_count - 1}")
    result = branches[0].root_instruction.shape
    for i, branch in enumerate(branches):
        check_signature(instruction, branch, [instruction.operand(i + 1).shape], f"branch {i}")
        other = branch.root_instruction.shape
        if not other.compatible(result):
            fail(instruction, f"branch {i} returns {show(other)}, but branch 0 returns {show(result)}")
        if not other.is_static:
            result = _merge_dynamic(result, other)
    return result


def _merge_dynamic(a: Shape, b: Shape) -> Shape:
    if a.is_tuple:
        pairs = zip(a.tuple_shapes, b.tuple_shapes, strict=True)
        return Shape.tuple_of([_merge_dynamic(x, y) for x, y in pairs])
    marks = tuple(x or y for x, y in zip(dynamic_marks(a), dynamic_marks(b), strict=True))
    return Shape(a.element_type, a.dimensions, a.layout, marks if any(marks) else ())


def infer_call(instruction: HloInstruction) -> Shape:
    """What the called computation returns; it takes the operands."""
    computation = instruction.to_apply
    check_signature(instruction, computation, [o.shape for o in instruction.operands], "computation")
    return computation.root_instruction.shape


_FUSION_KINDS = ("kLoop", "kInput", "kOutput", "kCustom")


def infer_fusion(instruction: HloInstruction) -> Shape:
    """What the fused computation returns; it takes the operands."""
    kind = instruction.attributes_as(at.FusionAttributes).kind
    if kind not in _FUSION_KINDS:
        fail(instruction, f"kind={kind} is none of {', '.join(_FUSION_KINDS)}")
    computation = instruction.fused_instructions_computation
    check_signature(instruction, computation, [o.shape for o in instruction.operands], "fused computation")
    return computation.root_instruction.shape


def infer_custom_call(instruction: HloInstruction) -> Shape:
    """The declared shape; operand layout constraints, if there are any, match the operands."""
    constraints = instruction.attributes_as(at.CustomCallAttributes).operand_layout_constraints
    if constraints is not None:
        if len(constraints) != instruction.operand_count:
            fail(
                instruction,
                f"operand_layout_constraints has {len(constraints)} shapes, expected {instruction.operand_count}",
            )
        for i, (constraint, operand) in enumerate(zip(constraints, instruction.operands, strict=True)):
            if not constraint.compatible(operand.shape):
                fail(
                    instruction,
                    f"operand {i} has shape {show(operand.shape)}, operand_layout_constraints {show(constraint)}",
                )
    return instruction.shape


def infer_same(instruction: HloInstruction) -> Shape:
    """The operand's shape, whatever it is."""
    return instruction.operand(0).shape


def infer_after_all(instruction: HloInstruction) -> Shape:
    """A token of tokens."""
    for i in range(instruction.operand_count):
        token_operand(instruction, i)
    return TOKEN


def infer_add_dependency(instruction: HloInstruction) -> Shape:
    """The first operand's shape; the second is a token."""
    token_operand(instruction, 1)
    return instruction.operand(0).shape


def infer_device_id(instruction: HloInstruction) -> Shape:
    """partition-id, replica-id: u32[]."""
    del instruction
    return U32_SCALAR


def _expect_declared_tuple(instruction: HloInstruction, tail: tuple[Shape, ...]) -> Shape:
    """Checks that the declared shape is (data, *tail)."""
    shape = instruction.shape
    fits = shape.is_tuple and len(shape.tuple_shapes) == len(tail) + 1
    if not fits or not all(s.compatible(t) for s, t in zip(shape.tuple_shapes[1:], tail, strict=True)):
        expected = ", ".join(["data", *map(show, tail)])
        fail(instruction, f"the result must be ({expected}), but has shape {show(shape)}")
    return shape


def infer_infeed(instruction: HloInstruction) -> Shape:
    """(data, token), the data as declared."""
    token_operand(instruction, 0)
    return _expect_declared_tuple(instruction, (TOKEN,))


def infer_outfeed(instruction: HloInstruction) -> Shape:
    """A token; `outfeed_shape` is the shape of the data."""
    token_operand(instruction, 1)
    declared, data = instruction.attributes_as(at.OutfeedAttributes).outfeed_shape, instruction.operand(0).shape
    if declared is not None and not declared.compatible(data):
        fail(instruction, f"outfeed_shape={show(declared)}, but the data has shape {show(data)}")
    return TOKEN


def infer_send(instruction: HloInstruction) -> Shape:
    """(data, u32[], token)."""
    token_operand(instruction, 1)
    return Shape.tuple_of([instruction.operand(0).shape, U32_SCALAR, TOKEN])


def infer_recv(instruction: HloInstruction) -> Shape:
    """(data, u32[], token), the data as declared."""
    token_operand(instruction, 0)
    return _expect_declared_tuple(instruction, (U32_SCALAR, TOKEN))


def infer_send_done(instruction: HloInstruction) -> Shape:
    """A token."""
    _tuple_operand(instruction, at_least=3)
    return TOKEN


def infer_recv_done(instruction: HloInstruction) -> Shape:
    """(data, token)."""
    return Shape.tuple_of([_tuple_operand(instruction, at_least=3).tuple_shapes[0], TOKEN])


def infer_copy_start(instruction: HloInstruction) -> Shape:
    """(destination, source, u32[]); the destination may lie in another memory space."""
    source = instruction.operand(0).shape
    return Shape.tuple_of([source, source, U32_SCALAR])


def infer_copy_done(instruction: HloInstruction) -> Shape:
    """The destination of a copy-start."""
    shape = _tuple_operand(instruction, at_least=2)
    check_start(instruction)
    return shape.tuple_shapes[0]


def infer_async_start(instruction: HloInstruction) -> Shape:
    """((operands...), result, contexts...); the contexts are as declared."""
    computation = instruction.to_apply
    operands = [o.shape for o in instruction.operands]
    check_signature(instruction, computation, operands, "computation")
    contexts = instruction.shape.tuple_shapes[2:] if instruction.shape.is_tuple else ()
    return Shape.tuple_of([Shape.tuple_of(operands), computation.root_instruction.shape, *contexts])


def _async_operand(instruction: HloInstruction) -> Shape:
    operand = instruction.operand(0)
    if operand.opcode not in ("async-start", "async-update"):
        fail(instruction, f"the operand must be async-start or async-update, but is {operand.opcode}")
    mine, theirs = instruction.called_computations, operand.called_computations
    if mine and theirs and mine[0] is not theirs[0]:
        fail(instruction, f"calls {mine[0].name}, but its operand calls {theirs[0].name}")
    return _tuple_operand(instruction, at_least=2)


def infer_async_update(instruction: HloInstruction) -> Shape:
    """The operand's shape."""
    return _async_operand(instruction)


def infer_async_done(instruction: HloInstruction) -> Shape:
    """The result of the wrapped computation."""
    return _async_operand(instruction).tuple_shapes[1]


RULES: Mapping[str, ShapeRule] = MappingProxyType(
    {
        "parameter": infer_parameter,
        "constant": infer_constant,
        "tuple": infer_tuple,
        "get-tuple-element": infer_get_tuple_element,
        "while": infer_while,
        "conditional": infer_conditional,
        "call": infer_call,
        "fusion": infer_fusion,
        "custom-call": infer_custom_call,
        "opt-barrier": infer_same,
        "domain": infer_same,
        "after-all": infer_after_all,
        "add-dependency": infer_add_dependency,
        "partition-id": infer_device_id,
        "replica-id": infer_device_id,
        "infeed": infer_infeed,
        "outfeed": infer_outfeed,
        "send": infer_send,
        "send-done": infer_send_done,
        "recv": infer_recv,
        "recv-done": infer_recv_done,
        "copy-start": infer_copy_start,
        "copy-done": infer_copy_done,
        "async-start": infer_async_start,
        "async-update": infer_async_update,
        "async-done": infer_async_done,
    }
)
