"""Conversions of element types, complex numbers and their parts, reduced precision."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np

from xjit.hlo import HloInstruction, Literal
from xjit.hlo import attributes as at
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.simplify.algebra.constants import converted_array
from xjit.passes.simplify.algebra.kinds import embeds, is_complex, is_integer
from xjit.passes.simplify.algebra.rule import AlgebraRule, bound, converted


def _passes_through(convert: HloInstruction) -> bool:
    """Whether convert(convert(x: A to B) to C) is convert(x: A to C): B has all values of A.

    Integers wrap on their way to integers, but floats saturate: if B is of floats, C must have all values of A, too.
    """
    between, last = convert.operand(0).shape.element_type, convert.shape.element_type
    first = convert.operand(0).operand(0).shape.element_type
    if not embeds(first, between) or (last is PrimitiveType.PRED and first.is_float):
        return False  # whether a subnormal is zero depends on the type it is computed in
    discrete = first.is_integer and last.is_integer
    return not (discrete and between.is_float) or embeds(first, last)


def _converted_once(match: Match, into: Expansion) -> HloInstruction | None:
    return converted("x")(match, into) if _passes_through(match.root) else None


def _bits(instruction: HloInstruction) -> int:
    return instruction.shape.element_type.bit_width


def _cast_once(match: Match, into: Expansion) -> HloInstruction | None:
    x, between, root = match["x"], match["between"], match.root
    if _bits(between) not in (_bits(x), _bits(root)) and x.shape.dimensions != root.shape.dimensions:
        return None
    return into.like_source("bitcast-convert", [x])


def _cast_parts(match: Match, into: Expansion) -> HloInstruction | None:
    whole, root = match["whole"], match.root
    kinds = {o.operand(0).shape.element_type for o in whole.operands if o.opcode == "bitcast-convert"}
    parts = [o.operand(0) for o in whole.operands if o.opcode == "bitcast-convert"]
    same_width = _bits(root) == _bits(whole) and all(_bits(p) == _bits(whole) for p in parts)
    if len(parts) != whole.operand_count or kinds != {root.shape.element_type} or not same_width:
        return None
    return into.like_source("concatenate", parts, whole.attributes)


def _converted_broadcast(match: Match, into: Expansion) -> HloInstruction | None:
    x, old = match["x"], match["broadcast"]
    if x.shape.num_elements >= old.shape.num_elements:
        return None
    small = into.make("convert", x, shape=x.shape.with_element_type(match.root.shape.element_type))
    return into.like_source("broadcast", [small], old.attributes)


_NARROWED = frozenset({"add", "subtract", "multiply"})
_NARROWED_UNSIGNED = frozenset({"divide", "remainder"})
"""Of signed integers the least by -1 is no number of the narrow type."""


def _computed_narrow(match: Match, into: Expansion) -> HloInstruction | None:
    """convert(op(convert(x), convert(y))) of integers, back to the type of x and y."""
    op, x, y = match["op"], match["x"], match["y"]
    narrow, wide = match.root.shape.element_type, op.shape.element_type
    if {x.shape.element_type, y.shape.element_type} != {narrow} or not wide.is_integer or not embeds(narrow, wide):
        return None
    unsigned = narrow.is_unsigned and wide.is_unsigned
    if op.opcode not in _NARROWED and not (unsigned and op.opcode in _NARROWED_UNSIGNED):
        return None
    return into.like_source(op.opcode, [x, y])


def _converted_constant(match: Match, into: Expansion) -> HloInstruction | None:
    """The constant itself in another type, which is not wider."""
    root, c = match.root, match["c"]
    if not 8 <= _bits(root) <= _bits(c):
        return None
    array = converted_array(c.attributes_as(at.ConstantAttributes).literal.array, root.shape.element_type)
    return into.constant(Literal(root.shape.with_default_layouts(), np.array(array, order="C")))


def _keeps_precision(i: HloInstruction) -> bool:
    """Whether a reduce-precision has the exponent and mantissa of its type; of 8 bits it flushes subnormals."""
    wanted, info = i.attributes_as(at.ReducePrecisionAttributes), ml_dtypes.finfo(i.shape.dtype)
    return info.bits >= 16 and (wanted.exponent_bits, wanted.mantissa_bits) == (info.nexp, info.nmant)


def _same_precision(i: HloInstruction) -> bool:
    return i.operand(0).opcode == "reduce-precision" and i.operand(0).attributes == i.attributes


def _zeros(match: Match, into: Expansion) -> HloInstruction:
    """Zeros of the shape of what is replaced; dynamic sizes are those of its operand."""
    shape = match.root.shape
    made = into.full(replace(shape, dynamic_dimensions=()), 0)
    for dimension in range(shape.rank):
        if shape.is_dynamic_dimension(dimension):
            along = at.DimensionAttributes(dimension)
            size = into.make("get-dimension-size", match.root.operand(0), attributes=along)
            made = into.make("set-dimension-size", made, size, attributes=along)
    return made


_X, _Y = m.any("x"), m.any("y")
_WIDENED = m.op("|".join(sorted(_NARROWED | _NARROWED_UNSIGNED)),
                *[m.op("convert", x).one_use() for x in (_X, _Y)], name="op").one_use()  # fmt: skip
_IS_REAL = m.any("x").where(lambda i: not is_complex(i))

CONVERSIONS = (
    AlgebraRule("R79,R80", "convert(convert(x)) = convert(x) through a type that has all values of the first",
                m.op("convert", m.op("convert", _X)), _converted_once),
    AlgebraRule("R81", "bitcast-convert(bitcast-convert(x)) = bitcast-convert(x)",
                m.op("bitcast-convert", m.op("bitcast-convert", _X, name="between")), _cast_once),
    AlgebraRule("R81b", "bitcast-convert(x) = x when the type stays",
                m.op("bitcast-convert", _X)
                .where(lambda i: i.shape.element_type is i.operand(0).shape.element_type), bound("x")),
    AlgebraRule("N23", "bitcast-convert(concatenate(bitcast-convert(x), ..)) = concatenate(x, ..)",
                m.op("bitcast-convert", m.op("concatenate", name="whole")), _cast_parts),
    AlgebraRule("R82", "reduce-precision(x) = x when the type has no more precision",
                m.op("reduce-precision", _X).where(_keeps_precision), bound("x"),
                option="enable_remove_no_op_reduce_precision"),
    AlgebraRule("R82b", "reduce-precision(reduce-precision(x)) = reduce-precision(x)",
                m.op("reduce-precision", m.any("once")).where(_same_precision), bound("once")),
    AlgebraRule("R84", "convert(broadcast(x)) = broadcast(convert(x))",
                m.op("convert", m.op("broadcast", _X, name="broadcast").one_use()), _converted_broadcast),
    AlgebraRule("N60", "convert(add(convert(x), convert(y))) = add(x, y) of integers in a wider type",
                m.op("convert", _WIDENED).where(is_integer), _computed_narrow),
    AlgebraRule("N71", "convert(constant) = constant of a type that is not wider",
                m.op("convert", m.op("constant", name="c").one_use()), _converted_constant,
                option="use_convert_constant_folding"),
)  # fmt: skip

COMPLEX_PARTS = (
    AlgebraRule("R83", "real(complex(a, b)) = a", m.op("real", m.op("complex", _X, _Y)), bound("x")),
    AlgebraRule("R83b", "imag(complex(a, b)) = b", m.op("imag", m.op("complex", _X, _Y)), bound("y")),
    AlgebraRule("R83c", "complex(real(z), imag(z)) = z",
                m.op("complex", m.op("real", _X.where(is_complex)), m.op("imag", m.any("x"))), bound("x")),
    AlgebraRule("R83d", "real(x) = x of floats", m.op("real", _IS_REAL), bound("x")),
    AlgebraRule("R83e", "imag(x) = 0 of floats", m.op("imag", _IS_REAL), _zeros),
)  # fmt: skip
