"""Shape rules of the elementwise opcodes: element i of the result comes from elements i of the operands."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xjit.hlo import attributes as at
from xjit.hlo.attributes.opcodes import OPCODES, Trait
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.hlo.types.shape import Shape
from xjit.ops.opdef import ShapeRule
from xjit.ops.shape_inference.common import (
    COMPLEX_TYPES,
    FLOAT_TYPES,
    INTEGER_TYPES,
    SIGNED_TYPES,
    array_operand,
    compatible_up_to_precision,
    declared_array,
    dynamic_marks,
    fail,
    higher_precision,
    same_type,
    show,
)

PRED = PrimitiveType.PRED
_PRED_ONLY = frozenset({PRED})
_FLOAT_OR_COMPLEX = FLOAT_TYPES | COMPLEX_TYPES
_ARITHMETIC = INTEGER_TYPES | _FLOAT_OR_COMPLEX
_ANY = _ARITHMETIC | _PRED_ONLY
_LOGICAL = INTEGER_TYPES | _PRED_ONLY
_SIGNED_NUMBERS = SIGNED_TYPES | _FLOAT_OR_COMPLEX

# Element types that an opcode takes, and the words for them in messages.
_ACCEPTED: Mapping[str, tuple[frozenset[PrimitiveType], str]] = {
    **dict.fromkeys(
        ("ceil", "floor", "round-nearest-afz", "round-nearest-even", "cbrt", "erf", "is-finite"),
        (FLOAT_TYPES, "floating-point"),
    ),
    **{
        op.name: (_FLOAT_OR_COMPLEX, "floating-point or complex")
        for op in OPCODES.values()
        if op.has(Trait.TRANSCENDENTAL) and op.arity == 1 and op.name not in ("cbrt", "erf")
    },
    **dict.fromkeys(("real", "imag", "atan2"), (_FLOAT_OR_COMPLEX, "floating-point or complex")),
    **dict.fromkeys(("count-leading-zeros", "popcnt", "mulhi"), (INTEGER_TYPES, "integer")),
    **dict.fromkeys(("shift-left", "shift-right-arithmetic", "shift-right-logical"), (INTEGER_TYPES, "integer")),
    **dict.fromkeys(("not", "and", "or", "xor"), (_LOGICAL, "pred or integer")),
    **dict.fromkeys(("abs", "sign"), (_SIGNED_NUMBERS, "signed, floating-point or complex")),
    **dict.fromkeys(("negate", "subtract", "divide", "remainder", "power"), (_ARITHMETIC, "arithmetic")),
    **dict.fromkeys(("add", "multiply", "maximum", "minimum"), (_ANY, "array")),
    "complex": (frozenset({PrimitiveType.F32, PrimitiveType.F64}), "f32 or f64"),
}


def _checked_type(instruction: HloInstruction, kind: PrimitiveType) -> None:
    accepted, words = _ACCEPTED[instruction.opcode]
    if kind not in accepted:
        fail(instruction, f"the operands must have {words} elements, but have type {kind.text}")


def infer_unary(instruction: HloInstruction) -> Shape:
    """The operand's shape, for the element types that the opcode takes."""
    shape = array_operand(instruction, 0)
    _checked_type(instruction, shape.element_type)
    return shape


def infer_component(instruction: HloInstruction) -> Shape:
    """abs, real, imag: complex operands give their real component type."""
    shape = infer_unary(instruction)
    component = shape.element_type.component
    return shape if component is shape.element_type else shape.with_element_type(component)


def infer_is_finite(instruction: HloInstruction) -> Shape:
    """A pred for each floating-point element."""
    return infer_unary(instruction).with_element_type(PRED)


def infer_copy(instruction: HloInstruction) -> Shape:
    """The operand's shape, whatever it is."""
    return instruction.operand(0).shape


def infer_convert(instruction: HloInstruction) -> Shape:
    """The operand's dimensions with the declared element type."""
    return array_operand(instruction, 0).with_element_type(declared_array(instruction).element_type)


def infer_bitcast_convert(instruction: HloInstruction) -> Shape:
    """Same bits, declared type: a narrower type adds a minor dimension, a wider one takes the minor dimension up."""
    shape = array_operand(instruction, 0)
    old, new = shape.element_type, declared_array(instruction).element_type
    if old.is_complex != new.is_complex:
        fail(instruction, f"cannot convert between complex and real types, {old.text} to {new.text}")
    if max(old.bit_width, new.bit_width) % min(old.bit_width, new.bit_width):
        fail(instruction, f"the bit widths of {old.text} and {new.text} do not divide one another")
    if old.bit_width == new.bit_width:
        return shape.with_element_type(new)
    marks = dynamic_marks(shape)
    if old.bit_width > new.bit_width:
        dims = (*shape.dimensions, old.bit_width // new.bit_width)
        return _row_major(new, dims, (*marks, False))
    ratio = new.bit_width // old.bit_width
    if not shape.dimensions or shape.dimensions[-1] != ratio:
        fail(instruction, f"{old.text} to {new.text} needs a last dimension of size {ratio}, operand is {show(shape)}")
    return _row_major(new, shape.dimensions[:-1], marks[:-1])


def _row_major(kind: PrimitiveType, dims: tuple[int, ...], marks: tuple[bool, ...]) -> Shape:
    shape = Shape.array(kind, dims)
    return Shape(kind, dims, shape.layout, marks) if any(marks) else shape


def infer_binary(instruction: HloInstruction) -> Shape:
    """The common shape of two operands; precisions may differ (the wider wins), dimensions may not."""
    shape = common_operand_shape(instruction)
    _checked_type(instruction, shape.element_type)
    return shape


def common_operand_shape(instruction: HloInstruction) -> Shape:
    """Returns the shape that two operands share; HLO has no implicit broadcast."""
    a, b = instruction.operand(0).shape, instruction.operand(1).shape
    if a.element_type is b.element_type and a.dimensions == b.dimensions and a.element_type in _ANY:
        return a if not b.dynamic_dimensions else _merge_dynamic(a, b)
    array_operand(instruction, 0)
    array_operand(instruction, 1)
    if not same_type(a.element_type, b.element_type):
        fail(instruction, f"the operands have different element types, {show(a)} and {show(b)}")
    if a.dimensions != b.dimensions:
        fail(
            instruction,
            f"the operands have different dimensions, {show(a)} and {show(b)}",
            "HLO has no implicit broadcast: use a broadcast instruction",
        )
    return _merge_dynamic(a.with_element_type(higher_precision(a.element_type, b.element_type)), b)


def _merge_dynamic(a: Shape, b: Shape) -> Shape:
    marks = tuple(x or y for x, y in zip(dynamic_marks(a), dynamic_marks(b), strict=True))
    return Shape(a.element_type, a.dimensions, a.layout, marks if any(marks) else ())


def infer_complex(instruction: HloInstruction) -> Shape:
    """c64 of two f32, c128 of two f64."""
    shape = common_operand_shape(instruction)
    kinds = [o.shape.element_type for o in instruction.operands]
    if kinds[0] is not kinds[1]:
        fail(instruction, f"real and imaginary part have different types, {kinds[0].text} and {kinds[1].text}")
    _checked_type(instruction, kinds[0])
    return shape.with_element_type(PrimitiveType.C64 if kinds[0] is PrimitiveType.F32 else PrimitiveType.C128)


def infer_stochastic_convert(instruction: HloInstruction) -> Shape:
    """The declared type from floating values and as many unsigned random bits."""
    shape, bits = array_operand(instruction, 0), array_operand(instruction, 1)
    if not shape.element_type.is_float:
        fail(instruction, f"the operand must be floating-point, but has shape {show(shape)}")
    if not bits.element_type.is_unsigned or bits.element_type.bit_width != shape.element_type.bit_width:
        fail(
            instruction,
            f"the random bits must be unsigned with {shape.element_type.bit_width} bits, but have shape {show(bits)}",
        )
    if shape.dimensions != bits.dimensions:
        fail(instruction, f"operand {show(shape)} and random bits {show(bits)} have different dimensions")
    return shape.with_element_type(declared_array(instruction).element_type)


_DIRECTIONS = ("EQ", "NE", "GE", "GT", "LE", "LT")


def infer_compare(instruction: HloInstruction) -> Shape:
    """A pred per element; direction and comparison type must fit the operand type."""
    attributes = instruction.attributes_as(at.CompareAttributes)
    shape = common_operand_shape(instruction)
    kind = shape.element_type
    if attributes.direction not in _DIRECTIONS:
        fail(instruction, f"direction '{attributes.direction}' is none of {', '.join(_DIRECTIONS)}")
    if kind.is_complex and attributes.direction not in ("EQ", "NE"):
        fail(instruction, f"complex numbers have no order, direction {attributes.direction} needs a real type")
    fitting = _comparison_types(kind)
    if attributes.type and attributes.type not in fitting:
        fail(instruction, f"type={attributes.type} does not fit operands of type {kind.text}, expected {fitting[0]}")
    return shape.with_element_type(PRED)


def _comparison_types(kind: PrimitiveType) -> tuple[str, ...]:
    if kind.is_float:
        return ("FLOAT", "TOTALORDER")
    if kind.is_complex:
        return ("FLOAT",)
    return ("SIGNED",) if kind.is_signed else ("UNSIGNED",)


def infer_select(instruction: HloInstruction) -> Shape:
    """The common shape of both values; the predicate is a pred of the same dimensions or a scalar."""
    pred, on_true, on_false = (array_operand(instruction, i) for i in range(3))
    if pred.element_type is not PRED:
        fail(instruction, f"the first operand must be pred, but has shape {show(pred)}")
    if not compatible_up_to_precision(on_true, on_false):
        fail(instruction, f"the values have different shapes, {show(on_true)} and {show(on_false)}")
    if pred.dimensions and pred.dimensions != on_true.dimensions:
        fail(instruction, f"predicate {show(pred)} and values {show(on_true)} have different dimensions")
    kind = higher_precision(on_true.element_type, on_false.element_type)
    shape = on_true if kind is on_true.element_type else on_true.with_element_type(kind)
    for other in (on_false, pred):
        if other.dynamic_dimensions:
            shape = _merge_dynamic(shape, other)
    return shape


def infer_clamp(instruction: HloInstruction) -> Shape:
    """The operand's shape; min and max have that shape, too, or are scalars of its type."""
    low, shape, high = (array_operand(instruction, i) for i in range(3))
    for bound, name in ((low, "min"), (high, "max")):
        if not same_type(bound.element_type, shape.element_type):
            fail(instruction, f"{name} {show(bound)} and operand {show(shape)} have different element types")
        if bound.dimensions and bound.dimensions != shape.dimensions:
            fail(instruction, f"{name} {show(bound)} is neither a scalar nor of the operand's shape {show(shape)}")
    return shape


def infer_reduce_precision(instruction: HloInstruction) -> Shape:
    """The operand's shape; needs at least one exponent bit."""
    attributes = instruction.attributes_as(at.ReducePrecisionAttributes)
    shape = array_operand(instruction, 0)
    if not shape.element_type.is_float:
        fail(instruction, f"the operand must be floating-point, but has shape {show(shape)}")
    if attributes.exponent_bits < 1:
        fail(instruction, f"exponent_bits must be at least 1, got {attributes.exponent_bits}")
    if attributes.mantissa_bits < 0:
        fail(instruction, f"mantissa_bits must not be negative, got {attributes.mantissa_bits}")
    return shape


_UNARY = [op for op in _ACCEPTED if OPCODES[op].arity == 1]
_BINARY = [op for op in _ACCEPTED if OPCODES[op].arity == 2]

RULES: Mapping[str, ShapeRule] = MappingProxyType(
    {
        **dict.fromkeys(_UNARY, infer_unary),
        **dict.fromkeys(_BINARY, infer_binary),
        **dict.fromkeys(("abs", "real", "imag"), infer_component),
        "is-finite": infer_is_finite,
        "copy": infer_copy,
        "convert": infer_convert,
        "bitcast-convert": infer_bitcast_convert,
        "complex": infer_complex,
        "stochastic-convert": infer_stochastic_convert,
        "compare": infer_compare,
        "select": infer_select,
        "clamp": infer_clamp,
        "reduce-precision": infer_reduce_precision,
    }
)
