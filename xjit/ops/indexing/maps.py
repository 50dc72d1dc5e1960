"""Building blocks of the indexing rules: maps over boxes, and the inverse of a map as a relation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xjit.affine import (
    UNKNOWN,
    AffineExpr,
    AffineExprKind,
    AffineMap,
    DimVar,
    IndexingBudgetError,
    IndexingMap,
    Interval,
    RangeVar,
    RTVar,
    constant,
    dim,
    substitute,
    symbol,
)
from xjit.dataclass import dataclass
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape

Maps = tuple[IndexingMap, ...]
Rule = Callable[[HloInstruction], list[Maps]]
"""Returns the maps of every operand, the same for every output."""
OutputRule = Callable[[HloInstruction, int], list[Maps]]
"""Returns the maps of every operand for one output (the number of a leaf of the result's shape)."""

Constraints = list[tuple[AffineExpr, Interval]]


def make_map(
    dims: Sequence[int],
    results: Sequence[AffineExpr],
    ranges: Sequence[int] = (),
    rt_vars: Sequence[RTVar] = (),
    constraints: Sequence[tuple[AffineExpr, Interval]] = (),
) -> IndexingMap:
    """Returns the map of a box of sizes `dims`, with range variables of sizes `ranges` numbered before `rt_vars`."""
    affine = AffineMap(len(dims), len(ranges) + len(rt_vars), tuple(results))
    return IndexingMap(
        affine,
        tuple([DimVar(Interval(0, size - 1)) for size in dims]),
        tuple([RangeVar(Interval(0, size - 1)) for size in ranges]),
        tuple(rt_vars),
        tuple(constraints),
    )


def boxed_map(
    bounds: Sequence[Interval], results: Sequence[AffineExpr], constraints: Sequence[tuple[AffineExpr, Interval]] = ()
) -> IndexingMap:
    """Returns the map without symbols of a box that need not start at 0."""
    dims = tuple([DimVar(b) for b in bounds])
    return IndexingMap(AffineMap(len(dims), 0, tuple(results)), dims, (), (), tuple(constraints))


def array_shape(shape: Shape, output: int = 0) -> Shape:
    """Returns the shape itself, or element `output` of a (variadic) tuple result."""
    return shape.tuple_shapes[output] if shape.is_tuple and shape.tuple_shapes else shape


def identity_map(dims: Sequence[int]) -> IndexingMap:
    """Returns the map of every element to itself."""
    return make_map(dims, [dim(i) for i in range(len(dims))])


def scalar_map(dims: Sequence[int]) -> IndexingMap:
    """Returns the map to a scalar operand."""
    return make_map(dims, ())


def whole_map(dims: Sequence[int], operand: Shape) -> IndexingMap:
    """Returns the map to every element of an operand, whatever the output element; UNKNOWN unless it is an array."""
    if not operand.is_array:
        return UNKNOWN
    return make_map(dims, [symbol(i) for i in range(operand.rank)], operand.dimensions)


def invert_relation(m: IndexingMap, operand_dims: Sequence[int]) -> IndexingMap:
    """Returns the map from operand elements to the output elements that read them: the same pairs, seen from there.

    A result `k * d + c` gives `d = (x - c) floordiv k` where k divides; a bare range variable is the operand's index
    itself. Output dims that no result determines become range variables, and results that determine nothing become
    constraints. `operand_dims`: the operand's sizes, one per result of `m`.
    """
    if m.is_unknown:
        return UNKNOWN
    if m.is_known_empty:
        zeros = [constant(0)] * m.num_dims
        return make_map(operand_dims, zeros).as_known_empty()
    try:
        inversion = _Inversion(m, operand_dims)
        if inversion.equations and not (m.num_symbols or m.constraints):
            inverse = m.inverse()
            if inverse is not None:
                return inverse
        return inversion.build().simplify()
    except IndexingBudgetError:
        return UNKNOWN


@dataclass(frozen=True, slots=True)
class _Solution:
    """Result `position` of the map, times `factor`, is `coefficient * d + rest`, and rest has symbols only."""

    position: int
    factor: int
    coefficient: int
    rest: AffineExpr


class _Inversion:
    """State of one inversion: which output dims and range variables the operand's index determines."""

    def __init__(self, m: IndexingMap, operand_dims: Sequence[int]) -> None:
        self.m = m
        self.sizes = operand_dims
        self.exact = {e for e, i in m.constraints if e.kind is AffineExprKind.MOD and i == Interval(0, 0)}
        self.ranges: dict[int, int] = {}  # range variable -> operand dim
        self.solved: dict[int, _Solution] = {}  # output dim -> how
        for j, e in enumerate(m.results):
            if e.kind is AffineExprKind.SYMBOL and e.position < len(m.range_vars):
                self.ranges.setdefault(e.position, j)
        used = set(self.ranges.values())
        self.equations = [j for j, e in enumerate(m.results) if j not in used and not self._solve(j, e)]
        """Results that determine nothing: conditions."""

    def _solve(self, j: int, e: AffineExpr) -> bool:
        factor = 1
        while e.kind is AffineExprKind.FLOORDIV and e.lhs.mod(e.rhs) in self.exact:
            e, factor = e.lhs, factor * e.rhs
        dims = [(t, k) for t, k in e.terms if t.kind is AffineExprKind.DIM]
        if len(dims) != 1 or dims[0][0].position in self.solved:
            return False
        variable, k = dims[0]
        rest = e - variable * k
        if rest.dim_mask:
            return False
        self.solved[variable.position] = _Solution(j, factor, k, rest)
        return True

    def build(self) -> IndexingMap:
        """Returns the inverted map, not simplified."""
        m = self.m
        free_dims = [i for i in range(m.num_dims) if i not in self.solved]
        free_ranges = [i for i in range(len(m.range_vars)) if i not in self.ranges]
        first_rt = len(free_dims) + len(free_ranges)
        symbols: dict[int, AffineExpr] = {i: dim(j) for i, j in self.ranges.items()}
        symbols |= {i: symbol(len(free_dims) + n) for n, i in enumerate(free_ranges)}
        symbols |= {len(m.range_vars) + n: symbol(first_rt + n) for n in range(len(m.rt_vars))}
        dims: dict[int, AffineExpr] = {i: symbol(n) for n, i in enumerate(free_dims)}
        constraints: Constraints = [(dim(j), m.range_vars[i].bounds) for i, j in self.ranges.items()]
        for i, s in self.solved.items():
            difference = dim(s.position) * s.factor - substitute(s.rest, None, symbols)
            difference = difference if s.coefficient > 0 else -difference
            dims[i] = difference.floordiv(abs(s.coefficient))
            constraints.append((dims[i], m.dim_bounds[i]))
            if abs(s.coefficient) > 1:
                constraints.append((difference.mod(abs(s.coefficient)), Interval(0, 0)))
        constraints += [(substitute(m.results[j], dims, symbols) - dim(j), Interval(0, 0)) for j in self.equations]
        constraints += [(substitute(e, dims, symbols), interval) for e, interval in m.constraints]
        count = first_rt + len(m.rt_vars)
        rt_vars: list[RTVar] = []
        for v in m.rt_vars:
            element = tuple([substitute(e, dims, symbols) for e in v.map.results])
            used = count if any(e.symbol_mask for e in element) else 0
            rt_vars.append(RTVar(v.feasible_values, v.source, AffineMap(len(self.sizes), used, element)))
        return IndexingMap(
            AffineMap(len(self.sizes), count, tuple([dims[i] for i in range(m.num_dims)])),
            tuple([DimVar(Interval(0, size - 1)) for size in self.sizes]),
            (*[RangeVar(m.dim_bounds[i]) for i in free_dims], *[m.range_vars[i] for i in free_ranges]),
            tuple(rt_vars),
            tuple(constraints),
        )
