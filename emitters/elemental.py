"""The table of element-wise opcodes: which code computes one element, or one vector of elements, of each opcode and
type.

Role: FusedIrEmitter and IrEmitterNested call `emit_elementwise` with register values (see
`xjit.llvm.conversions` for what those are). Invariants: operands and result are register values of their
element types, narrow floats rounded and sub-byte integers wrapped after every operation; all operands have the same
vector width; nothing calls a library function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from xjit.hlo import attributes as at
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm import complex_ops, integer_ops
from xjit.llvm.builder import IRBuilder
from xjit.llvm.conversions import (
    BASIC_OPCODES,
    ComplexValue,
    RegisterValue,
    bitcast_part,
    constant_register,
    convert_part,
    float_to_integer,
    from_low_bits,
    load_convert,
    round_part,
    store_convert,
)
from xjit.llvm.element_types import register_type, storage_type
from xjit.llvm.math import math_functions, rounding
from xjit.llvm.math.remainder import remainder
from xjit.llvm.math.vec import Vec
from xjit.llvm.small_floats import decode, encode, has_signalling_nans
from xjit.llvm.values import Value

__all__ = [
    "ComplexValue",
    "RegisterValue",
    "constant_register",
    "emit_elementwise",
    "from_low_bits",
    "load_convert",
    "register_type",
    "round_to_type",
    "storage_type",
    "store_convert",
    "supports_elementwise",
]

P = PrimitiveType

_NEVER_ROUNDED = frozenset({"abs", "negate", "maximum", "minimum", "sign", "floor", "ceil"})
"""Opcodes whose results bf16 and f16 have, as their operands are of these types."""


@dataclass(frozen=True, slots=True)
class Operation:
    """What is asked for: the opcode with its types and attributes."""

    opcode: str
    result_type: PrimitiveType
    operand_types: Sequence[PrimitiveType]
    attributes: at.Attributes

    @property
    def operand_type(self) -> PrimitiveType:
        """The type of the first operand."""
        return self.operand_types[0]


RealFunction = Callable[..., Vec]
ComplexFunction = Callable[..., complex_ops.Complex | Vec]


@dataclass(frozen=True, slots=True)
class Row:
    """One opcode: a function per kind of element; None where HLO does not define it (or nothing emits it)."""

    real: RealFunction | None = None
    complex: ComplexFunction | None = None
    integer: Callable[[Operation, Sequence[Vec]], Vec] | None = None
    pred: RealFunction | None = None


def emit_elementwise(
    builder: IRBuilder,
    opcode: str,
    result_type: PrimitiveType,
    operand_types: Sequence[PrimitiveType],
    operands: Sequence[RegisterValue],
    attributes: at.Attributes = at.NO_ATTRIBUTES,
) -> RegisterValue:
    """Emits one element-wise opcode on register values and returns the register value of the result.

    Raises Unsupported if the opcode is not defined for the element types.
    """
    operation = Operation(opcode, result_type, operand_types, attributes)
    special = _SPECIAL.get(opcode)
    if special is not None:
        return special(builder, operation, operands)
    row = _TABLE.get(opcode)
    kind = operand_types[0]
    if row is not None and kind.is_complex and row.complex is not None:
        return _from_complex(row.complex(*[_complex(builder, value) for value in operands]))
    function = None if row is None else _function_of(row, operation)
    if function is None:
        raise Unsupported(f"no code for {opcode} of {', '.join(t.text for t in operand_types)}")
    result = function(*[Vec(builder, _real(value)) for value in operands])
    if opcode in _NEVER_ROUNDED and result_type in (P.BF16, P.F16):
        return result.v
    operands_fit = all(t is result_type for t in operand_types)
    is_basic = opcode in BASIC_OPCODES or opcode in _NEVER_ROUNDED
    return round_part(result_type, result, operands_fit=operands_fit, is_basic=is_basic).v


def supports_elementwise(opcode: str, operand_type: PrimitiveType) -> bool:
    """Whether `emit_elementwise` has code for the opcode on operands of that type."""
    if opcode in _SPECIAL:
        return True
    row = _TABLE.get(opcode)
    if row is None:
        return False
    if operand_type.is_complex:
        return row.complex is not None
    return _function_of(row, Operation(opcode, operand_type, (operand_type,), at.NO_ATTRIBUTES)) is not None


def round_to_type(builder: IRBuilder, kind: PrimitiveType, value: RegisterValue) -> RegisterValue:
    """A value in the register type of `kind`, rounded or wrapped to `kind`; complex and wide types as they are."""
    if isinstance(value, ComplexValue):
        return value
    return round_part(kind, Vec(builder, value)).v


def _function_of(row: Row, operation: Operation) -> RealFunction | None:
    kind = operation.operand_type
    if kind is P.PRED:
        return row.pred
    if kind.is_float:
        return row.real
    if kind.is_integer and row.integer is not None:
        integer = row.integer
        return lambda *operands: integer(operation, operands)
    return None


def _real(value: RegisterValue) -> Value:
    if isinstance(value, ComplexValue):
        raise TypeError("a complex value where a real one is expected")
    return value


def _complex(builder: IRBuilder, value: RegisterValue) -> complex_ops.Complex:
    if not isinstance(value, ComplexValue):
        raise TypeError("a real value where a complex one is expected")
    return complex_ops.Complex(Vec(builder, value.real), Vec(builder, value.imag))


def _from_complex(value: complex_ops.Complex | Vec) -> RegisterValue:
    return value.v if isinstance(value, Vec) else ComplexValue(value.real.v, value.imag.v)


# -- opcodes whose operands or results are not all of one type


def _convert(builder: IRBuilder, operation: Operation, operands: Sequence[RegisterValue]) -> RegisterValue:
    source, target = operation.operand_type, operation.result_type
    value = operands[0]
    if isinstance(value, ComplexValue):
        if target.is_complex:
            parts = [
                convert_part(Vec(builder, part), source.component, target.component).v
                for part in (value.real, value.imag)
            ]
            return ComplexValue(parts[0], parts[1])
        value, source = value.real, source.component
    result = convert_part(Vec(builder, value), source, target.component)
    return ComplexValue(result.v, result.const(0.0).v) if target.is_complex else result.v


def _bitcast_convert(builder: IRBuilder, operation: Operation, operands: Sequence[RegisterValue]) -> RegisterValue:
    source, target = operation.operand_type, operation.result_type
    value = operands[0]
    if source is target:
        return value
    if source.bit_width != target.bit_width or source is P.C128:
        raise Unsupported(f"bitcast-convert from {source.text} to {target.text} is not element-wise")
    if isinstance(value, ComplexValue):
        low, high = (Vec(builder, part).as_int().zext(register_type(P.U64)) for part in (value.real, value.imag))
        return bitcast_part(low | (high << 32), P.U64, target).v
    if target.is_complex:
        bits = bitcast_part(Vec(builder, value), source, P.U64)
        low, high = (half.trunc(register_type(P.U32)).as_float().v for half in (bits, bits >> 32))
        return ComplexValue(low, high)
    return bitcast_part(Vec(builder, value), source, target).v


def _select(builder: IRBuilder, operation: Operation, operands: Sequence[RegisterValue]) -> RegisterValue:
    condition, yes, no = _real(operands[0]), operands[1], operands[2]
    if isinstance(yes, ComplexValue) and isinstance(no, ComplexValue):
        return ComplexValue(builder.select(condition, yes.real, no.real), builder.select(condition, yes.imag, no.imag))
    return builder.select(condition, _real(yes), _real(no))


_DIRECTIONS: Mapping[str, str] = MappingProxyType(
    {"EQ": "==", "NE": "!=", "GE": ">=", "GT": ">", "LE": "<=", "LT": "<"}
)


def _compare(builder: IRBuilder, operation: Operation, operands: Sequence[RegisterValue]) -> RegisterValue:
    attributes = operation.attributes
    if not isinstance(attributes, at.CompareAttributes):
        raise TypeError(f"compare needs CompareAttributes, not {attributes}")
    op, kind = _DIRECTIONS[attributes.direction], operation.operand_type
    if kind.is_complex:
        return _compare_complex(builder, op, operands)
    a, b = (_real(value) for value in operands)
    if kind.is_float:
        if attributes.type == "TOTALORDER":
            return builder.icmp_signed(op, _total_order_key(builder, kind, a), _total_order_key(builder, kind, b))
        return builder.fcmp_unordered(op, a, b) if op == "!=" else builder.fcmp_ordered(op, a, b)
    return builder.icmp_signed(op, a, b) if kind.is_signed else builder.icmp_unsigned(op, a, b)


def _compare_complex(builder: IRBuilder, op: str, operands: Sequence[RegisterValue]) -> RegisterValue:
    a, b = (_complex(builder, value) for value in operands)
    if op == "==":
        return (a.real.eq(b.real) & a.imag.eq(b.imag)).v
    if op == "!=":
        return (a.real.ne(b.real) | a.imag.ne(b.imag)).v
    raise Unsupported(f"complex numbers have no order: compare {op}")


def _total_order_key(builder: IRBuilder, kind: PrimitiveType, x: Value) -> Value:
    """Signed integers in the order -NaN < -inf < ... < -0 < +0 < ... < +inf < +NaN."""
    if has_signalling_nans(kind):  # of which registers, which hold them as f32, may make quiet ones
        bits = Vec(builder, store_convert(builder, kind, x))
    else:
        bits = Vec(builder, x).as_int()
    flipped = bits ^ ((1 << (bits.type.elem.bits - 1)) - 1)
    return flipped.where(bits < 0, bits).v


def _clamp(builder: IRBuilder, operation: Operation, operands: Sequence[RegisterValue]) -> RegisterValue:
    low, x, high = operands
    kind = operation.result_type
    if kind.is_complex:
        return _clamp_complex(builder, operands)
    lower = emit_elementwise(builder, "maximum", kind, [kind, kind], [low, x])
    return emit_elementwise(builder, "minimum", kind, [kind, kind], [lower, high])


def _clamp_complex(builder: IRBuilder, operands: Sequence[RegisterValue]) -> RegisterValue:
    """By real parts, as in XLA's CPU code: complex numbers have no order; of equal real parts the bound wins over x."""
    low, x, high = (_complex(builder, value) for value in operands)
    raised = [a.where(low.real >= x.real, b) for a, b in ((low.real, x.real), (low.imag, x.imag))]
    stays = raised[0] <= high.real
    return ComplexValue(raised[0].where(stays, high.real).v, raised[1].where(stays, high.imag).v)


def _make_complex(builder: IRBuilder, operation: Operation, operands: Sequence[RegisterValue]) -> RegisterValue:
    return ComplexValue(_real(operands[0]), _real(operands[1]))


def _real_part(builder: IRBuilder, operation: Operation, operands: Sequence[RegisterValue]) -> RegisterValue:
    value = operands[0]
    return value.real if isinstance(value, ComplexValue) else value


def _imag_part(builder: IRBuilder, operation: Operation, operands: Sequence[RegisterValue]) -> RegisterValue:
    value = operands[0]
    return value.imag if isinstance(value, ComplexValue) else Vec(builder, value).const(0).v


def _is_finite(builder: IRBuilder, operation: Operation, operands: Sequence[RegisterValue]) -> RegisterValue:
    return (Vec(builder, _real(operands[0])).abs() < float("inf")).v


def _copy(builder: IRBuilder, operation: Operation, operands: Sequence[RegisterValue]) -> RegisterValue:
    return operands[0]


def _reduce_precision(builder: IRBuilder, operation: Operation, operands: Sequence[RegisterValue]) -> RegisterValue:
    attributes, kind = operation.attributes, operation.result_type
    if not isinstance(attributes, at.ReducePrecisionAttributes):
        raise TypeError(f"reduce-precision needs ReducePrecisionAttributes, not {attributes}")
    x = Vec(builder, _real(operands[0]))
    if kind is not P.F16:
        return round_part(kind, rounding.reduce_precision(x, attributes.exponent_bits, attributes.mantissa_bits)).v
    bits = rounding.reduce_precision_bits(encode(P.F16, x), 5, 10, attributes.exponent_bits, attributes.mantissa_bits)
    return x.where(x.is_nan(), decode(P.F16, bits)).v


def _stochastic_convert(builder: IRBuilder, operation: Operation, operands: Sequence[RegisterValue]) -> RegisterValue:
    """Rounds toward zero, or away where random is less than the whole part of fraction * 2^bits, as in XLA."""
    target, random_type = operation.result_type, operation.operand_types[1]
    if not target.is_integer:
        raise Unsupported(f"stochastic-convert to {target.text}")
    x = Vec(builder, _real(operands[0]))
    x = x if x.is_double else x.to_double()
    size = x.abs()
    whole = rounding.truncate(size)
    random, scaled = _real(operands[1]), (size - whole) * 2.0**random_type.bit_width
    below = builder.icmp_unsigned("<", random, builder.fptoui(scaled.v, random.type.elem))
    rounded = (whole + x.const(1.0).where(Vec(builder, below), 0.0)).copysign(x)
    return float_to_integer(rounded.where(size < float("inf"), x), target).v


_SPECIAL: Mapping[str, Callable[[IRBuilder, Operation, Sequence[RegisterValue]], RegisterValue]] = MappingProxyType(
    {
        "bitcast": _bitcast_convert,
        "bitcast-convert": _bitcast_convert,
        "clamp": _clamp,
        "compare": _compare,
        "complex": _make_complex,
        "convert": _convert,
        "copy": _copy,
        "imag": _imag_part,
        "is-finite": _is_finite,
        "real": _real_part,
        "reduce-precision": _reduce_precision,
        "select": _select,
        "stochastic-convert": _stochastic_convert,
    }
)

# -- opcodes on operands of one type


def _plain(function: RealFunction) -> Callable[[Operation, Sequence[Vec]], Vec]:
    return lambda operation, operands: function(*operands)


def _signed(function: RealFunction) -> Callable[[Operation, Sequence[Vec]], Vec]:
    return lambda operation, operands: function(*operands, operation.operand_type.is_signed)


def _bits(function: RealFunction) -> Callable[[Operation, Sequence[Vec]], Vec]:
    return lambda operation, operands: function(*operands, operation.operand_type.bit_width)


def _multiply_high(operation: Operation, operands: Sequence[Vec]) -> Vec:
    kind = operation.operand_type
    return integer_ops.multiply_high(operands[0], operands[1], kind.bit_width, kind.is_signed)


def _integer_abs(operation: Operation, operands: Sequence[Vec]) -> Vec:
    return integer_ops.absolute(operands[0]) if operation.operand_type.is_signed else operands[0]


_ARITHMETIC: Mapping[str, Row] = MappingProxyType(
    {
        "abs": Row(Vec.abs, complex_ops.absolute, _integer_abs),
        "add": Row(Vec.__add__, complex_ops.add, _plain(Vec.__add__), Vec.__or__),
        "and": Row(None, None, _plain(Vec.__and__), Vec.__and__),
        "count-leading-zeros": Row(integer=_bits(integer_ops.count_leading_zeros)),
        "divide": Row(Vec.__truediv__, complex_ops.divide, _signed(integer_ops.divide)),
        "maximum": Row(rounding.maximum, None, _signed(integer_ops.maximum), Vec.__or__),
        "minimum": Row(rounding.minimum, None, _signed(integer_ops.minimum), Vec.__and__),
        "mulhi": Row(integer=_multiply_high),
        "multiply": Row(Vec.__mul__, complex_ops.multiply, _plain(Vec.__mul__), Vec.__and__),
        "negate": Row(Vec.__neg__, complex_ops.negate, _plain(Vec.__neg__)),
        "not": Row(None, None, _plain(Vec.__invert__), Vec.__invert__),
        "or": Row(None, None, _plain(Vec.__or__), Vec.__or__),
        "popcnt": Row(integer=_bits(integer_ops.population_count)),
        "power": Row(math_functions.BINARY["power"], complex_ops.power, _signed(integer_ops.power)),
        "remainder": Row(remainder, None, _signed(integer_ops.remainder)),
        "shift-left": Row(integer=_bits(integer_ops.shift_left)),
        "shift-right-arithmetic": Row(integer=_bits(integer_ops.shift_right_arithmetic)),
        "shift-right-logical": Row(integer=_bits(integer_ops.shift_right_logical)),
        "sign": Row(rounding.sign, complex_ops.sign, _signed(integer_ops.sign)),
        "subtract": Row(Vec.__sub__, complex_ops.subtract, _plain(Vec.__sub__), Vec.__xor__),
        "xor": Row(None, None, _plain(Vec.__xor__), Vec.__xor__),
    }
)

_TABLE: Mapping[str, Row] = MappingProxyType(
    {
        **{
            opcode: Row(function, complex_ops.FUNCTIONS.get(opcode))
            for opcode, function in {**math_functions.UNARY, **math_functions.BINARY}.items()
        },
        **_ARITHMETIC,
    }
)
