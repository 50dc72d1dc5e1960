"""What values an instruction can have: integer bounds, and floats that are not below zero."""

from __future__ import annotations

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.ops.reducers import integer_limits
from xjit.passes.framework.rewriting import FarSight
from xjit.passes.simplify.algebra.constants import value_of

Range = tuple[int, int]
"""The least and greatest value, inclusive."""

_DEPTH = 4  # operands of operands that are looked at
_KEEPS_VALUES = frozenset({"copy", "reshape", "broadcast", "transpose", "slice", "reverse", "dynamic-slice"})


def value_range(instruction: HloInstruction, depth: int = _DEPTH) -> Range | None:
    """Returns bounds of the elements of an integer or boolean array; None for other types."""
    kind = instruction.shape.element_type
    limits = (0, 1) if kind is PrimitiveType.PRED else integer_limits(kind) if kind.is_integer else None
    if limits is None or not depth:
        return limits
    value = value_of(instruction)
    if value is not None:
        return int(value), int(value)
    found = _derived(instruction, depth - 1)
    return found if found is not None and limits[0] <= found[0] and found[1] <= limits[1] else limits


def _derived(i: HloInstruction, depth: int) -> Range | None:
    """Bounds that follow from the operands', perhaps beyond the type's: then the value may have wrapped."""
    if i.opcode == "iota":
        return 0, max(i.shape.dimensions[i.attributes_as(at.IotaAttributes).iota_dimension] - 1, 0)
    if i.opcode == "get-dimension-size":
        return 0, i.operand(0).shape.dimensions[i.attributes_as(at.DimensionAttributes).dimension]
    if not i.operand_count:
        return None
    ranges = [value_range(o, depth) for o in i.operands]
    first = ranges[0]
    if i.opcode in _KEEPS_VALUES or i.opcode == "convert":
        return first
    known = [r for r in ranges if r is not None]
    return _RULES[i.opcode](*known) if i.opcode in _RULES and len(known) == i.operand_count else None


def _remainder(x: Range, y: Range) -> Range | None:
    return (0, min(x[1], y[1] - 1)) if x[0] >= 0 and y[0] > 0 else None


def _and(x: Range, y: Range) -> Range | None:
    tops = [r[1] for r in (x, y) if r[0] >= 0]
    return (0, min(tops)) if tops else None


_RULES = {
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "subtract": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "maximum": lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
    "minimum": lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
    "clamp": lambda low, x, high: (min(max(x[0], low[0]), high[0]), min(max(x[1], low[1]), high[1])),
    "select": lambda _p, x, y: (min(x[0], y[0]), max(x[1], y[1])),
    "remainder": _remainder,
    "and": _and,
}


RANGE_RULES = FarSight(
    opcodes=frozenset({"abs", "clamp", "compare", "log", "multiply", "power", "remainder"}),
    through=frozenset({*_KEEPS_VALUES, *_RULES, "convert", "power"}),
    depth=_DEPTH + 2,
)
"""The opcodes whose rules ask for values of operands: what is new far up may say more of these."""


def is_not_negative(x: HloInstruction) -> bool:
    """Whether a real array has no element below zero, and no -0.0; NaNs it may have."""
    kind = x.shape.element_type
    bounds = value_range(x)
    if bounds is not None:
        return bounds[0] >= 0
    if not kind.is_float:
        return False
    if x.opcode == "convert":
        source = x.operand(0)
        bounds = value_range(source)
        return bounds is not None and bounds[0] >= 0
    if x.opcode == "multiply":
        return x.operand(0) is x.operand(1)
    return x.opcode in ("abs", "exponential", "iota", "logistic")


def is_not_below_zero(x: HloInstruction, depth: int = _DEPTH) -> bool:
    """As `is_not_negative`, but for -0.0 and rounding: of extrema, choices, even powers and variances, too."""
    if is_not_negative(x):
        return True
    if not depth or not x.shape.element_type.is_float:
        return False
    value = value_of(x)
    if value is not None:
        return float(value) >= 0
    operands = [lambda o=o: is_not_below_zero(o, depth - 1) for o in x.operands]
    if x.opcode == "maximum":
        return any(holds() for holds in operands)
    if x.opcode in _KEEPS_VALUES or x.opcode == "sqrt":
        return x.opcode == "sqrt" or operands[0]()
    if x.opcode in ("select", "minimum"):
        return all(holds() for holds in operands[-2:])
    if x.opcode == "power":
        exponent = value_of(x.operand(1))
        return operands[0]() or (exponent is not None and float(exponent) % 2 == 0)
    variance = x.opcode == "get-tuple-element" and x.operand(0).opcode == "batch-norm-training"
    return variance and x.attributes_as(at.GetTupleElementAttributes).index == 2
