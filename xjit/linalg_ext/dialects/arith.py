"""The arith and math dialects: scalars, and tensors elementwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from xjit.linalg_ext.dialects.arith_types import check_cast, check_floats, check_integers
from xjit.linalg_ext.dialects.assembly import op
from xjit.linalg_ext.dialects.definition import CustomAssembly, OpDefinition, make_rows, words
from xjit.linalg_ext.ir.attributes import Attribute, BoolAttr, DenseAttr, DenseResourceAttr, FloatAttr, IntegerAttr
from xjit.linalg_ext.ir.errors import LinalgVerifyError
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.ir.types import IndexType, IntegerType, Type

if TYPE_CHECKING:
    from xjit.linalg_ext.text.parser import Parser, ParseState
    from xjit.linalg_ext.text.printer import Printer

__all__ = ["ARITH_ROWS", "constant_name", "type_of_constant"]

I1 = IntegerType(1)


def type_of_constant(value: Attribute) -> Type | None:
    """Returns the type of a constant with this value, None for attributes that are no constants."""
    if isinstance(value, IntegerAttr | FloatAttr | DenseAttr | DenseResourceAttr):
        return value.type
    return I1 if isinstance(value, BoolAttr) else None


def parse_constant(p: Parser, state: ParseState) -> None:
    state.attributes.update(p.optional_dictionary())
    value = p.attribute()
    type = type_of_constant(value)
    if type is None:
        p.fail(f"expected a number or dense elements, found {value}", state.span)
    if isinstance(value, BoolAttr):
        value = IntegerAttr(int(value.value), I1)
    state.attributes["value"] = value
    state.result_types = [type]


def print_constant(p: Printer, op: Operation) -> None:
    text = p.dictionary(op, frozenset({"value"}))
    value = op.attributes["value"]
    if isinstance(value, IntegerAttr) and value.type == I1:
        value = BoolAttr(bool(value.value))
    p.write(f" {text} " if text else " ")
    p.write(p.attribute(value))


def check_constant(op: Operation) -> None:
    value = op.attributes.get("value")
    found = None if value is None else type_of_constant(value)
    if found is None or op.result_types != (found,):
        raise LinalgVerifyError(f"'arith.constant' op has value {value}, but type {op.result.type}", op.location)


def constant_name(op: Operation) -> str:
    """Returns what the printer calls a constant: `c1`, `c1_i32`, `true`, `cst`."""
    value = op.attributes.get("value")
    if not isinstance(value, IntegerAttr):
        return "cst"
    if value.type == I1:
        return "true" if value.value else "false"
    return f"c{value.value}" if isinstance(value.type, IndexType) else f"c{value.value}_{value.type}"


def _comparison(name: str, kind: str, flags: str) -> OpDefinition:
    """A row whose format gives the operands' type; the result's follows from it."""
    format = f"{kind}(predicate) , %lhs , %rhs {flags} attrs : type(lhs)"
    return op(name, "lhs;rhs =lhs", "result boolean lhs", format, traits="pure")


def parse_select(p: Parser, state: ParseState) -> None:
    names = [p.operand()]
    for _ in range(2):
        p.expect(",")
        names.append(p.operand())
    state.attributes.update(p.optional_dictionary())
    p.expect(":")
    types = p.type_list()
    if len(types) == 1:
        types.insert(0, I1)
    if len(types) != 2:
        p.fail("expected the type of the values, or those of condition and values", state.span)
    state.operands = p.resolve_all(names, [types[0], types[1], types[1]])
    state.result_types = [types[1]]


def print_select(p: Printer, op: Operation) -> None:
    text = p.dictionary(op, frozenset())
    condition = op.operands[0].type
    prefix = "" if condition == I1 else f"{p.type(condition)}, "
    p.write(f" {', '.join(map(p.value, op.operands))}{' ' + text if text else ''} : {prefix}{p.type(op.result.type)}")


_FLOAT_BINARY = words(
    """
    addf subf mulf divf remf maximumf minimumf maxnumf minnumf maxf minf
    """
)
_WRAPPING = words(
    """
    addi subi muli shli
    """
)
_INTEGER_BINARY = words(
    """
    andi ori xori shrsi shrui divsi divui ceildivsi ceildivui floordivsi remsi remui maxsi maxui minsi minui
    """
)
_COMMUTATIVE = frozenset(
    words(
        """
    addf mulf maximumf minimumf maxnumf minnumf maxf minf addi muli andi ori xori maxsi maxui minsi minui
    """
    )
)
_CASTS = words(
    """
    extsi extui trunci sitofp uitofp fptosi fptoui index_cast index_castui bitcast extf
    """
)
_MATH_UNARY = words(
    """
    absf acos acosh asin asinh atan atanh cbrt ceil cos cosh erf erfc exp exp2 expm1 floor log log10 log1p log2
    round roundeven rsqrt sin sinh sqrt tan tanh trunc
    """
)
_MATH_INTEGER = words(
    """
    absi ctlz cttz ctpop
    """
)
_MATH_CLASSES = words(
    """
    isfinite isinf isnan isnormal
    """
)
_MATH_BINARY = words(
    """
    atan2 copysign powf
    """
)
UNARY = "%operand {flags} attrs : type(result)"
BINARY = "%lhs , %rhs {flags} attrs : type(result)"
FASTMATH = "{ fastmath(fastmath) }?fastmath"
OVERFLOW = "{ overflow(overflowFlags) }?overflowFlags"


def _binary(name: str, flags: str = "", check: Callable[[Operation], None] = check_integers) -> OpDefinition:
    traits = "pure commutative" if name.removeprefix("arith.") in _COMMUTATIVE else "pure"
    format = BINARY.replace("{flags}", flags)
    return op(name, "lhs =result;rhs =result", "result", format, traits=traits, check=check)


def _unary(name: str, flags: str = "", check: Callable[[Operation], None] = check_integers) -> OpDefinition:
    return op(name, "operand =result", "result", UNARY.replace("{flags}", flags), traits="pure", check=check)


def _cast(name: str) -> OpDefinition:
    return op(name, "in", "out", f"%in {FASTMATH} attrs : type(in) to type(out)", traits="pure", check=check_cast)


ARITH_ROWS = make_rows(
    op(
        "arith.constant",
        "",
        "result",
        assembly=CustomAssembly(parse_constant, print_constant),
        needs="attr(value)",
        traits="pure constant",
        check=check_constant,
    ),
    *(_binary(f"arith.{name}", FASTMATH, check_floats) for name in _FLOAT_BINARY),
    *(_binary(f"arith.{name}", OVERFLOW) for name in _WRAPPING),
    *(_binary(f"arith.{name}") for name in _INTEGER_BINARY),
    *(_cast(f"arith.{name}") for name in _CASTS),
    op(
        "arith.truncf",
        "in",
        "out",
        f"%in {{ rounding(roundingmode) }}?roundingmode {FASTMATH} attrs : type(in) to type(out)",
        traits="pure",
        check=check_cast,
    ),
    op(
        "arith.addui_extended",
        "lhs =sum;rhs =sum",
        "sum;overflow",
        "%lhs , %rhs attrs : type(sum) , type(overflow)",
        traits="pure commutative",
        result_names=("sum", "overflow"),
    ),
    *(
        op(
            f"arith.{name}",
            "lhs;rhs =lhs",
            "low =lhs;high =lhs",
            "%lhs , %rhs attrs : type(lhs)",
            traits="pure commutative",
            result_names=("low", "high"),
        )
        for name in ("mulsi_extended", "mului_extended")
    ),
    _unary("arith.negf", FASTMATH, check_floats),
    _comparison("arith.cmpi", "cmpi", ""),
    _comparison("arith.cmpf", "cmpf", FASTMATH),
    op(
        "arith.select",
        "condition;true_value;false_value",
        "result",
        assembly=CustomAssembly(parse_select, print_select),
        traits="pure",
    ),
    *(_unary(f"math.{name}", FASTMATH, check_floats) for name in _MATH_UNARY),
    *(_unary(f"math.{name}") for name in _MATH_INTEGER),
    *(_binary(f"math.{name}", FASTMATH, check_floats) for name in _MATH_BINARY),
    _binary("math.ipowi"),
    *(
        op(
            f"math.{name}",
            "operand",
            "result boolean operand",
            f"%operand {FASTMATH} attrs : type(operand)",
            traits="pure",
        )
        for name in _MATH_CLASSES
    ),
    op(
        "math.sincos",
        "operand",
        "sin =operand;cos =operand",
        f"%operand {FASTMATH} attrs : type(operand)",
        traits="pure",
        result_names=("sin", "cos"),
    ),
    op(
        "math.clampf",
        "value =result;min =result;max =result",
        "result",
        f"%value to [ %min , %max ] {FASTMATH} attrs : type(result)",
        traits="pure",
    ),
    op(
        "math.fma",
        "a =result;b =result;c =result",
        "result",
        f"%a , %b , %c {FASTMATH} attrs : type(result)",
        traits="pure",
    ),
    op(
        "math.fpowi",
        "lhs =result;rhs",
        "result =lhs",
        f"%lhs , %rhs {FASTMATH} attrs : type(result , rhs)",
        traits="pure",
    ),
)
