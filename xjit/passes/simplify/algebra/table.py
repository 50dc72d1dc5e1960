"""All rules of the simplifier, theme by theme. Rules of one opcode are tried in this order."""

from __future__ import annotations

from xjit.passes.simplify.algebra.addition import ADDITION, SUBTRACTION
from xjit.passes.simplify.algebra.broadcasts import BROADCASTS
from xjit.passes.simplify.algebra.collectives import COLLECTIVES
from xjit.passes.simplify.algebra.compare_bounds import COMPARE_BOUNDS
from xjit.passes.simplify.algebra.comparisons import COMPARISONS
from xjit.passes.simplify.algebra.control import CONTROL
from xjit.passes.simplify.algebra.conversions import COMPLEX_PARTS, CONVERSIONS
from xjit.passes.simplify.algebra.convolutions import CONVOLUTIONS
from xjit.passes.simplify.algebra.degenerate_dots import DEGENERATE_DOTS
from xjit.passes.simplify.algebra.division import DIVISION, REMAINDER
from xjit.passes.simplify.algebra.dot_order import DOT_ORDER
from xjit.passes.simplify.algebra.dots import DOTS
from xjit.passes.simplify.algebra.dynamic_indices import DYNAMIC_INDICES
from xjit.passes.simplify.algebra.extrema import EXTREMA
from xjit.passes.simplify.algebra.gathers import GATHERS
from xjit.passes.simplify.algebra.identities import IDENTITIES
from xjit.passes.simplify.algebra.indexed_extrema import INDEXED_EXTREMA
from xjit.passes.simplify.algebra.layouts import LAYOUTS
from xjit.passes.simplify.algebra.logic import LOGIC, SHIFTS
from xjit.passes.simplify.algebra.movement import MOVEMENT
from xjit.passes.simplify.algebra.multiplication import MULTIPLICATION
from xjit.passes.simplify.algebra.padding import CONCATENATION, PADDING
from xjit.passes.simplify.algebra.powers import EXPONENTIALS, POWERS, ROOTS
from xjit.passes.simplify.algebra.reductions import REDUCTIONS
from xjit.passes.simplify.algebra.reordering import REORDERING
from xjit.passes.simplify.algebra.rounding import ROUNDING
from xjit.passes.simplify.algebra.rule import AlgebraRule
from xjit.passes.simplify.algebra.scaled_products import SCALED_PRODUCTS
from xjit.passes.simplify.algebra.scatters import SCATTERS
from xjit.passes.simplify.algebra.selection import SELECTION
from xjit.passes.simplify.algebra.slices import REVERSES, SLICES
from xjit.passes.simplify.algebra.unit_dimensions import UNIT_DIMENSIONS
from xjit.passes.simplify.algebra.updates import UPDATES
from xjit.passes.simplify.algebra.variadic_reductions import VARIADIC_REDUCTIONS
from xjit.passes.simplify.algebra.windows import WINDOWS

ALGEBRA: tuple[AlgebraRule, ...] = (
    *IDENTITIES, *MOVEMENT, *ADDITION, *SUBTRACTION, *MULTIPLICATION, *DIVISION, *REMAINDER, *POWERS, *EXPONENTIALS,
    *ROOTS, *EXTREMA, *ROUNDING, *CONVERSIONS, *COMPLEX_PARTS, *COMPARISONS, *COMPARE_BOUNDS, *SELECTION, *LOGIC,
    *SHIFTS, *SLICES, *REVERSES, *UPDATES, *DYNAMIC_INDICES, *PADDING, *CONCATENATION, *GATHERS, *SCATTERS, *REDUCTIONS,
    *VARIADIC_REDUCTIONS, *INDEXED_EXTREMA, *WINDOWS, *DOTS, *DOT_ORDER, *CONVOLUTIONS, *SCALED_PRODUCTS, *COLLECTIVES,
    *CONTROL, *BROADCASTS, *REORDERING, *DEGENERATE_DOTS, *UNIT_DIMENSIONS, *LAYOUTS,
)  # fmt: skip
