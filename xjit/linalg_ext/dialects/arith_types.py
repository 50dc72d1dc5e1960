"""Types that scalar operations take: floats or integers, and the types that a value may be cast to."""

from __future__ import annotations

from collections.abc import Callable

from xjit.linalg_ext.ir.errors import LinalgVerifyError
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.ir.types import FloatType, IndexType, IntegerType, MemRefType, TensorType, Type, element_type

__all__ = ["check_cast", "check_floats", "check_integers", "check_same_types"]


def check_same_types(op: Operation) -> None:
    """Operands and results have one type, which is no memref."""
    found = {v.type for v in (*op.operands, *op.results)}
    if len(found) > 1:
        raise LinalgVerifyError(
            f"'{op.name}' op requires one type for operands and results, found {', '.join(sorted(map(str, found)))}",
            op.location,
        )
    if any(isinstance(t, MemRefType) for t in found):
        raise LinalgVerifyError(f"'{op.name}' op does not take memrefs", op.location)


def check_floats(op: Operation) -> None:
    """Operands and results have one type, of floats."""
    check_same_types(op)
    _check_elements(op, "floating-point-like", _is_float)


def check_integers(op: Operation) -> None:
    """Operands and results have one type, of integers without a sign, or indices."""
    check_same_types(op)
    _check_elements(op, "signless-integer-like", lambda t: isinstance(t, IntegerType | IndexType))


def _check_elements(op: Operation, kind: str, is_wanted: Callable[[Type], bool]) -> None:
    for number, value in enumerate(op.operands):
        if not is_wanted(element_type(value.type)):
            raise LinalgVerifyError(
                f"'{op.name}' op operand #{number} must be {kind}, but got '{value.type}'", op.location
            )


def _is_float(type: Type) -> bool:
    return isinstance(type, FloatType)


def _is_integer(type: Type) -> bool:
    return isinstance(type, IntegerType)


def _width(type: Type) -> int:
    return type.width if isinstance(type, IntegerType | FloatType) else 0


def check_cast(op: Operation) -> None:
    """The operand can be cast to the type of the result, by this operation."""
    source, target = op.operands[0].type, op.results[0].type
    shapes = [t.shape if isinstance(t, TensorType | MemRefType) else () for t in (source, target)]
    a, b = element_type(source), element_type(target)
    rule = _CASTS[op.name.partition(".")[2]]
    if isinstance(source, MemRefType) or shapes[0] != shapes[1] or not rule.fits(a, b):
        raise LinalgVerifyError(
            f"'{op.name}' op operand type '{source}' and result type '{target}' are cast incompatible", op.location
        )
    if rule.wider and (_width(b) - _width(a)) * rule.wider <= 0:
        relation = "wider" if rule.wider > 0 else "shorter"
        raise LinalgVerifyError(
            f"'{op.name}' op result type '{target}' must be {relation} than operand type '{source}'", op.location
        )


class _Rule:
    """Element types that fit, and whether the result is `wider` than the operand (1), or shorter (-1)."""

    def __init__(self, fits: Callable[[Type, Type], bool], wider: int = 0) -> None:
        self.fits = fits
        self.wider = wider


def _both(is_wanted: Callable[[Type], bool]) -> Callable[[Type, Type], bool]:
    return lambda a, b: is_wanted(a) and is_wanted(b)


def _is_index_and_integer(a: Type, b: Type) -> bool:
    return (isinstance(a, IndexType) and _is_integer(b)) or (isinstance(b, IndexType) and _is_integer(a))


_TO_FLOAT = _Rule(lambda a, b: _is_integer(a) and _is_float(b))
_TO_INTEGER = _Rule(lambda a, b: _is_float(a) and _is_integer(b))
_CASTS: dict[str, _Rule] = {
    "extf": _Rule(_both(_is_float), 1),
    "truncf": _Rule(_both(_is_float), -1),
    "extsi": _Rule(_both(_is_integer), 1),
    "extui": _Rule(_both(_is_integer), 1),
    "trunci": _Rule(_both(_is_integer), -1),
    "sitofp": _TO_FLOAT,
    "uitofp": _TO_FLOAT,
    "fptosi": _TO_INTEGER,
    "fptoui": _TO_INTEGER,
    "index_cast": _Rule(_is_index_and_integer),
    "index_castui": _Rule(_is_index_and_integer),
    "bitcast": _Rule(lambda a, b: _width(a) == _width(b) > 0),
}
