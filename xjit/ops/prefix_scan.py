"""Which reduce-windows are scans: cumulative sums, products, extrema."""

from __future__ import annotations

from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.ops.reducers import reduction_identity

MIN_SIZE = 4
MIN_REGROUPED = 64
"""From here on the window of any reducer is a scan from the high end, too: what follows an element is combined first.

That regroups, but keeps the order; it may be, as a reducer and its initial value form a monoid by StableHLO's
definition. Shorter windows are combined one by one: the work is quadratic, the last bit that of the definition.
"""


def prefix_dimension(instruction: HloInstruction) -> int | None:
    """Returns the dimension along which a reduce-window is a scan, or None.

    From the low end, any reducer and initial value will do: a scan combines in the order of the window. From the high
    end it combines an element with what follows it, in this order. That regroups, which a known operation with its
    identity allows at any length, others as `MIN_REGROUPED` says.
    """
    if instruction.opcode != "reduce-window" or instruction.operand_count != 2 or not instruction.shape.is_array:
        return None
    window = instruction.attributes_as(at.WindowAttributes).window.dimensions
    sizes = instruction.operand(0).shape.dimensions
    found = [d for d, w in enumerate(window) if w != at.WindowDimension()]
    if len(found) != 1 or sizes[found[0]] < MIN_SIZE:
        return None
    n = sizes[found[0]]
    ways = [at.WindowDimension(size=n, padding_low=n - 1), at.WindowDimension(size=n, padding_high=n - 1)]
    if window[found[0]] not in ways:
        return None
    if window[found[0]] == ways[0]:
        return found[0]
    return found[0] if n >= MIN_REGROUPED or starts_with_identity(instruction) else None


def starts_with_identity(instruction: HloInstruction) -> bool:
    """Whether a reduce-window of one array is one known operation, and its initial value changes nothing."""
    identity = reduction_identity(instruction.to_apply)
    init = instruction.operand(1)
    if identity is None or init.opcode != "constant":
        return False
    value = init.attributes_as(at.ConstantAttributes).literal.splat_value()
    return value is not None and bool(value == identity[1])  # -0 equals 0
