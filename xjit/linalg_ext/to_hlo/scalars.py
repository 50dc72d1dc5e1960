"""Operations of `arith` and `math` as HLO opcodes, on scalars and on whole arrays."""

from __future__ import annotations

from collections.abc import Callable

from xjit.hlo import HloError, HloInstruction, PrimitiveType, Shape
from xjit.linalg_ext.evaluation.constants import constant_elements
from xjit.linalg_ext.evaluation.scalar_ops import SCALAR_OPS, predicate_of
from xjit.linalg_ext.evaluation.values import plain
from xjit.linalg_ext.ir.attributes import IntegerAttr
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.ir.types import IndexType, IntegerType, element_type
from xjit.linalg_ext.to_hlo.composed import COMPOSED, Compose
from xjit.linalg_ext.to_hlo.scope import Handler, Lowered, Scope
from xjit.linalg_ext.to_hlo.writer import FunctionWriter, primitive_type

__all__ = ["OPCODES", "SCALAR_HANDLERS", "opcode_of"]

_SPELLINGS = """
arith: addi addf=add, subi subf=subtract, muli mulf=multiply, divsi divf=divide, remsi remf=remainder, andi=and, ori=or,
arith: xori=xor, shli=shift-left, shrsi=shift-right-arithmetic, shrui=shift-right-logical, negf=negate, select=select,
arith: maxsi maximumf maxf=maximum, minsi minimumf minf=minimum,
math: exp=exponential, expm1=exponential-minus-one, log=log, log1p=log-plus-one, sqrt=sqrt, rsqrt=rsqrt, cbrt=cbrt,
math: tanh=tanh, sin=sine, cos=cosine, tan=tan, sinh=sinh, cosh=cosh, asin=asin, acos=acos, atan2=atan2, erf=erf,
math: powf ipowi=power, ceil=ceil, floor=floor, round=round-nearest-afz, roundeven=round-nearest-even, absf absi=abs,
math: ctpop=popcnt
"""


def _opcodes() -> dict[str, str]:
    found: dict[str, str] = {}
    for line in _SPELLINGS.strip().splitlines():
        dialect, entries = line.split(": ")
        for entry in entries.strip(", ").split(","):
            names, opcode = entry.split("=")
            found.update((f"{dialect}.{name}", opcode) for name in names.split())
    return found


OPCODES: dict[str, str] = _opcodes()
"""The opcode of each operation that is one."""

_ONE_BIT_OPCODES = {
    **dict.fromkeys(("arith.addi", "arith.subi"), "xor"),
    **dict.fromkeys(("arith.muli", "arith.maxsi"), "and"),
    "arith.minsi": "or",
}
"""On integers of one bit, -1 and 0, which are HLO's booleans."""


def _bit_or_nothing(writer: FunctionWriter, operands: list[HloInstruction]) -> HloInstruction:
    """A shift by one bit leaves nothing."""
    a, b = operands
    return writer.elementwise("and", a, writer.make("not", b))


def _bit_if_both(writer: FunctionWriter, operands: list[HloInstruction]) -> HloInstruction:
    return writer.elementwise("and", *operands)


def _first_bit(writer: FunctionWriter, operands: list[HloInstruction]) -> HloInstruction:
    return writer.shaped_alike(*operands)[0]


def _no_bit(writer: FunctionWriter, operands: list[HloInstruction]) -> HloInstruction:
    return writer.like(_first_bit(writer, operands), False)


_ONE_BIT: dict[str, Callable[[FunctionWriter, list[HloInstruction]], HloInstruction]] = {
    **dict.fromkeys(("arith.shli", "arith.shrui"), _bit_or_nothing),
    "arith.shrsi": _first_bit,
    **{f"arith.{name}": _bit_if_both for name in ("divsi", "divui", "floordivsi", "ceildivsi", "ceildivui")},
    **dict.fromkeys(("arith.remsi", "arith.remui"), _no_bit),
}
"""What operations of integers of one bit are that HLO's booleans do not have; divided by 0 nothing is left."""

_UNSIGNED_OPCODES = {
    "arith.divui": "divide",
    "arith.remui": "remainder",
    "arith.maxui": "maximum",
    "arith.minui": "minimum",
}
"""On the same bits as unsigned integers."""

_UNSIGNED_TYPES = {
    PrimitiveType.S8: PrimitiveType.U8,
    PrimitiveType.S16: PrimitiveType.U16,
    PrimitiveType.S32: PrimitiveType.U32,
    PrimitiveType.S64: PrimitiveType.U64,
}


def opcode_of(op: Operation) -> str:
    """Returns the opcode of an operation that is one."""
    of_bits = element_type(op.operands[0].type) == IntegerType(1)
    return _ONE_BIT_OPCODES.get(op.name, OPCODES[op.name]) if of_bits else OPCODES[op.name]


def _unsigned(writer: FunctionWriter, x: HloInstruction) -> HloInstruction:
    kind = _UNSIGNED_TYPES.get(x.shape.element_type)
    return x if kind is None else _bits(writer, x, kind)


def _bits(writer: FunctionWriter, x: HloInstruction, kind: PrimitiveType) -> HloInstruction:
    if x.shape.element_type is kind:
        return x
    return writer.make("bitcast-convert", x, shape=Shape.array(kind, x.shape.dimensions))


def _one_opcode(writer: FunctionWriter, op: Operation, operands: list[HloInstruction]) -> HloInstruction:
    return writer.elementwise(opcode_of(op), *operands)


def _unsigned_opcode(writer: FunctionWriter, op: Operation, operands: list[HloInstruction]) -> HloInstruction:
    result = writer.elementwise(_UNSIGNED_OPCODES[op.name], *(_unsigned(writer, x) for x in operands))
    return _bits(writer, result, operands[0].shape.element_type)


def _divide_up_unsigned(writer: FunctionWriter, op: Operation, operands: list[HloInstruction]) -> HloInstruction:
    a, b = writer.shaped_alike(*(_unsigned(writer, x) for x in operands))
    is_more = writer.compare("NE", writer.make("remainder", a, b), writer.like(a, 0))
    quotient = writer.make("divide", a, b)
    up = writer.make("add", quotient, writer.convert(is_more, a.shape.element_type))
    return _bits(writer, up, operands[0].shape.element_type)


def _convert(writer: FunctionWriter, op: Operation, operands: list[HloInstruction]) -> HloInstruction:
    return writer.convert(operands[0], primitive_type(op.result.type))


def _convert_signed(writer: FunctionWriter, op: Operation, operands: list[HloInstruction]) -> HloInstruction:
    """One-bit integers are -1 and 0."""
    result = _convert(writer, op, operands)
    return writer.make("negate", result) if operands[0].shape.element_type is PrimitiveType.PRED else result


def _convert_unsigned(writer: FunctionWriter, op: Operation, operands: list[HloInstruction]) -> HloInstruction:
    return writer.convert(_unsigned(writer, operands[0]), primitive_type(op.result.type))


def _truncate(writer: FunctionWriter, op: Operation, operands: list[HloInstruction]) -> HloInstruction:
    """Integers lose their upper bits."""
    [x] = operands
    if primitive_type(op.result.type) is not PrimitiveType.PRED:
        return _convert(writer, op, operands)
    return writer.compare("NE", writer.make("and", x, writer.like(x, 1)), writer.like(x, 0))


def _cast_index(extend: Compose) -> Compose:
    """To one bit, indices lose their upper bits; integers of one bit are extended."""

    def write(writer: FunctionWriter, op: Operation, operands: list[HloInstruction]) -> HloInstruction:
        is_cut = primitive_type(op.result.type) is PrimitiveType.PRED
        return (_truncate if is_cut else extend)(writer, op, operands)

    return write


def _bitcast(writer: FunctionWriter, op: Operation, operands: list[HloInstruction]) -> HloInstruction:
    return _bits(writer, operands[0], primitive_type(op.result.type))


_DIRECTIONS = {"eq": "EQ", "ne": "NE", "gt": "GT", "ge": "GE", "lt": "LT", "le": "LE"}
_OPPOSITE = {"GT": "LE", "GE": "LT", "LT": "GE", "LE": "GT"}


def _compare_integers(writer: FunctionWriter, op: Operation, operands: list[HloInstruction]) -> HloInstruction:
    name = predicate_of(op)
    if name[0] == "u":
        operands = [_unsigned(writer, x) for x in operands]
    elif name[0] == "s" and operands[0].shape.element_type is PrimitiveType.PRED:
        operands = operands[::-1]  # -1 is less than 0
    return writer.comparison(_DIRECTIONS[name[-2:]], *operands)


def _compare_floats(writer: FunctionWriter, op: Operation, operands: list[HloInstruction]) -> HloInstruction:
    """HLO's comparisons are false for NaN, but NE is true: so `une` and the ordered ones; others from these."""
    name = predicate_of(op)
    a, b = operands
    if name in ("false", "true"):
        same = writer.comparison("EQ", a, b)
        return writer.like(same, name == "true")
    if name in ("ord", "uno"):
        ordered = writer.elementwise("and", writer.compare("EQ", a, a), writer.compare("EQ", b, b))
        return ordered if name == "ord" else writer.make("not", ordered)
    direction = _DIRECTIONS[name[1:]]
    if name in ("one", "ueq"):
        differ = writer.make("or", writer.comparison("LT", a, b), writer.comparison("GT", a, b))
        return differ if name == "one" else writer.make("not", differ)
    if name[0] == "u" and direction in _OPPOSITE:
        return writer.make("not", writer.comparison(_OPPOSITE[direction], a, b))
    return writer.comparison(direction, a, b)


_WRITERS: dict[str, Compose] = {
    **dict.fromkeys(OPCODES, _one_opcode),
    **dict.fromkeys(_UNSIGNED_OPCODES, _unsigned_opcode),
    "arith.ceildivui": _divide_up_unsigned,
    **dict.fromkeys(("arith.extf", "arith.truncf", "arith.fptosi", "arith.fptoui"), _convert),
    **dict.fromkeys(("arith.extsi", "arith.sitofp"), _convert_signed),
    **dict.fromkeys(("arith.extui", "arith.uitofp"), _convert_unsigned),
    "arith.index_cast": _cast_index(_convert_signed),
    "arith.index_castui": _cast_index(_convert_unsigned),
    "arith.trunci": _truncate,
    "arith.bitcast": _bitcast,
    "arith.cmpi": _compare_integers,
    "arith.cmpf": _compare_floats,
    **COMPOSED,
}


def _scalar(scope: Scope, op: Operation) -> list[Lowered]:
    """Indices that are known are computed now, as the evaluator does."""
    lowered = [scope.values[v] for v in op.operands]
    numbers = [x for x in lowered if isinstance(x, int)]
    if len(numbers) == len(lowered) and op.result.type in (IndexType(), IntegerType(1)):
        return [int(SCALAR_OPS[op.name](op, *numbers))]
    operands = [scope.materialized(x, v) for x, v in zip(lowered, op.operands)]
    if op.name in _ONE_BIT and operands[0].shape.element_type is PrimitiveType.PRED:
        return [_ONE_BIT[op.name](scope.writer, operands)]
    try:
        return [_WRITERS[op.name](scope.writer, op, operands)]
    except HloError as error:
        kinds = ", ".join(str(element_type(v.type)) for v in op.operands)
        raise LinalgError(f"'{op.name}' op of {kinds} cannot be compiled: {error.message}", op.location) from error


def _constant(scope: Scope, op: Operation) -> list[Lowered]:
    value, t = op.attributes["value"], op.result.type
    if isinstance(value, IntegerAttr) and isinstance(t, IndexType):
        return [value.value]
    return [scope.writer.constant(plain(constant_elements(value, t, None)), primitive_type(t))]


def _index(scope: Scope, op: Operation) -> list[Lowered]:
    loop = op.attributes["dim"]
    assert isinstance(loop, IntegerAttr)
    return [scope.loop_indices[loop.value]]


SCALAR_HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(_WRITERS, _scalar),
    "arith.constant": _constant,
    "linalg.index": _index,
}
"""What the body of a structured op may consist of, with the operations of `affine`."""
