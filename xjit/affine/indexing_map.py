"""IndexingMap: an affine map with the domain it holds on.

Symbols are numbered range variables first, then run-time variables. A map relates a point of the dims to every result
that some assignment of the symbols within their bounds and the constraints gives (existential in the symbols).
Invariants: immutable; constraints in canonical order, one interval per expression; a known-empty map relates nothing;
`UNKNOWN` relates everything (nothing is known), and only its own identity is meaningful.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from itertools import product
from typing import Any, Final

from xjit.affine import map_inverse, map_simplify, map_text
from xjit.affine.affine_map import AffineMap
from xjit.affine.errors import IndexingBudgetError, IndexingError
from xjit.affine.expr import AffineExpr
from xjit.affine.interval import Interval
from xjit.affine.map_variables import Constraint, DimVar, RangeVar, RTVar
from xjit.affine.pool import dim, symbol
from xjit.affine.walks import evaluate
from xjit.dataclass import dataclass

__all__ = ["UNKNOWN", "Constraint", "DimVar", "IndexingMap", "RTVar", "RangeVar"]


def _merge_constraints(constraints: Sequence[Constraint]) -> tuple[Constraint, ...]:
    merged: dict[AffineExpr, Interval] = {}
    for expr, interval in constraints:
        known = merged.get(expr)
        merged[expr] = interval if known is None else known.intersect(interval)
    return tuple(sorted(merged.items(), key=lambda c: _constraint_order(c[0])))


def _constraint_order(expr: AffineExpr) -> tuple[Any, ...]:
    first_dim = (expr.dim_mask & -expr.dim_mask).bit_length() or 1 << 20  # constraints without dims last
    first_symbol = (expr.symbol_mask & -expr.symbol_mask).bit_length()
    return first_dim, first_symbol, tuple([(t.order, k) for t, k in expr.terms]), expr.constant_term


@dataclass(frozen=True, slots=True)
class IndexingMap:
    """`map` on the box of the variables cut by `constraints`; see the module's docstring."""

    map: AffineMap
    dim_vars: tuple[DimVar, ...] = ()
    range_vars: tuple[RangeVar, ...] = ()
    rt_vars: tuple[RTVar, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    is_known_empty: bool = False
    is_unknown: bool = False
    _cache: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.is_unknown:
            return
        num_symbols = len(self.range_vars) + len(self.rt_vars)
        if self.map.num_dims != len(self.dim_vars) or self.map.num_symbols != num_symbols:
            raise IndexingError(
                f"map {self.map} has {self.map.num_dims} dims and {self.map.num_symbols} symbols, "
                f"found bounds for {len(self.dim_vars)} and {num_symbols}"
            )
        if len(self.constraints) > 1:
            object.__setattr__(self, "constraints", _merge_constraints(self.constraints))
        for expr, _ in self.constraints:
            if expr.dim_mask >> self.map.num_dims or expr.symbol_mask >> num_symbols:
                raise IndexingError(f"constraint on {expr} uses a variable that the map {self.map} does not have")

    def __hash__(self) -> int:
        cached = self._cache.get("hash")
        if cached is None:
            parts = (self.map, self.dim_vars, self.range_vars, self.constraints, self.is_known_empty)
            cached = self._cache["hash"] = hash((parts, len(self.rt_vars), self.is_unknown))
        return cached

    # --- construction ---

    @staticmethod
    def from_tensor_sizes(
        affine_map: AffineMap, dim_sizes: Sequence[int], symbol_sizes: Sequence[int] = ()
    ) -> IndexingMap:
        """Returns the map with dims d_i in [0, dim_sizes[i] - 1] and all symbols as range variables likewise.

        A size of 0 gives a known-empty map.
        """
        if any(n < 0 for n in (*dim_sizes, *symbol_sizes)):
            raise IndexingError(f"sizes must not be negative, found {tuple(dim_sizes)} and {tuple(symbol_sizes)}")
        return IndexingMap(
            affine_map,
            tuple([DimVar(Interval(0, n - 1)) for n in dim_sizes]),
            tuple([RangeVar(Interval(0, n - 1)) for n in symbol_sizes]),
            is_known_empty=0 in dim_sizes or 0 in symbol_sizes,
        )

    @staticmethod
    def identity(shape: Sequence[int]) -> IndexingMap:
        """Returns (d0, ..) -> (d0, ..) on `shape`."""
        return IndexingMap.from_tensor_sizes(AffineMap.identity(len(shape)), shape)

    @staticmethod
    def parse(text: str) -> IndexingMap:
        """Returns the map in `text`, in either form (see `map_text`); IndexingError, with position, if it is not one.

        Inverse of `str` up to the sources of run-time variables, which become the text after `hlo:`.
        """
        found = map_text.parse_map(text)
        if found is None:
            return UNKNOWN
        parsed = IndexingMap(found.map, found.dim_vars, found.range_vars, found.rt_vars, found.constraints)
        return parsed.as_known_empty() if found.is_known_empty else parsed

    def replace(self, **changes: Any) -> IndexingMap:
        """Returns a copy with fields replaced."""
        fields = ("map", "dim_vars", "range_vars", "rt_vars", "constraints", "is_known_empty", "is_unknown")
        return IndexingMap(**{name: changes.get(name, getattr(self, name)) for name in fields})

    def as_known_empty(self) -> IndexingMap:
        """Returns the map of the same signature that relates nothing."""
        return self.replace(is_known_empty=True, constraints=())

    # --- queries ---

    @property
    def num_dims(self) -> int:
        return len(self.dim_vars)

    @property
    def num_symbols(self) -> int:
        return len(self.range_vars) + len(self.rt_vars)

    @property
    def results(self) -> tuple[AffineExpr, ...]:
        return self.map.results

    @property
    def is_undefined(self) -> bool:
        """XLA's word for `is_unknown`."""
        return self.is_unknown

    @property
    def is_identity(self) -> bool:
        found = self._cache.get("is_identity")
        if found is None:
            some = not (self.constraints or self.is_unknown or self.is_known_empty)
            found = self._cache["is_identity"] = some and self.map.is_identity
        return found

    @property
    def dim_bounds(self) -> tuple[Interval, ...]:
        found = self._cache.get("dim_bounds")
        if found is None:
            found = self._cache["dim_bounds"] = tuple([v.bounds for v in self.dim_vars])
        return found

    @property
    def symbol_bounds(self) -> tuple[Interval, ...]:
        found = self._cache.get("symbol_bounds")
        if found is None:
            ranges = [v.bounds for v in self.range_vars]
            found = self._cache["symbol_bounds"] = (*ranges, *[v.feasible_values for v in self.rt_vars])
        return found

    def evaluate(self, dims: Sequence[Any], symbols: Sequence[Any] = ()) -> tuple[Any, ...]:
        """Returns the results at a point (ints or NumPy arrays), in the domain or not."""
        self._require_known("evaluate")
        return self.map.evaluate(dims, symbols)

    def contains(self, dims: Sequence[Any], symbols: Sequence[Any] = ()) -> Any:
        """True where the point lies in the domain: within all bounds and constraints."""
        self._require_known("contains")
        inside: Any = not self.is_known_empty
        checks = [*zip(dims, self.dim_bounds), *zip(symbols, self.symbol_bounds)]
        checks += [(evaluate(e, dims, symbols), interval) for e, interval in self.constraints]
        for value, interval in checks:
            inside = inside & (value >= interval.lower) & (value <= interval.upper)
        return inside

    def box_size(self) -> int:
        """Number of points in the box of all variables, constraints aside."""
        total = 1
        for interval in (*self.dim_bounds, *self.symbol_bounds):
            total *= interval.size
        return total

    def enumerate_domain(self, limit: int = 1_000_000) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Yields every (dims, symbols) of the domain, dims major; IndexingBudgetError if its box exceeds `limit`."""
        self._require_known("enumerate_domain")
        if self.is_known_empty:
            return
        if self.box_size() > limit:
            raise IndexingBudgetError(f"domain box of {self.box_size()} points is over the limit of {limit}")
        bounds = (*self.dim_bounds, *self.symbol_bounds)
        for point in product(*[range(i.lower, i.upper + 1) for i in bounds]):
            dims, symbols = point[: self.num_dims], point[self.num_dims :]
            if self.contains(dims, symbols):
                yield dims, symbols

    def domain_size(self, limit: int = 1_000_000) -> int:
        """Number of points (dims and symbols) in the domain; exact.

        IndexingBudgetError if there are constraints and the box exceeds `limit`.
        """
        if self.is_known_empty:
            return 0
        if not self.constraints:
            return self.box_size()
        return sum(1 for _ in self.enumerate_domain(limit))

    # --- transformation ---

    def simplify(self) -> IndexingMap:
        """Returns an equal relation in simplest form, unused symbols removed; idempotent, computed once per map."""
        found = self._cache.get("simplified")
        if found is None:
            found = map_simplify.simplify_map(self)
            found._cache["simplified"] = found
            self._cache["simplified"] = found
        return found

    def renumber(
        self, keep_dims: Sequence[int], keep_range_vars: Sequence[int], keep_rt_vars: Sequence[int]
    ) -> IndexingMap:
        """Returns the map over the variables kept, by position, renumbered; the others must be unused."""
        symbols = [*keep_range_vars, *[len(self.range_vars) + i for i in keep_rt_vars]]
        dim_map = {old: dim(new) for new, old in enumerate(keep_dims)}
        symbol_map = {old: symbol(new) for new, old in enumerate(symbols)}

        def move(m: AffineMap, num_symbols: int) -> AffineMap:
            return m.replace(dim_map, symbol_map, len(keep_dims), num_symbols)

        rt_vars = [self.rt_vars[i] for i in keep_rt_vars]
        moved = move(AffineMap(self.num_dims, self.num_symbols, tuple(e for e, _ in self.constraints)), len(symbols))
        return IndexingMap(
            move(self.map, len(symbols)),
            tuple([self.dim_vars[i] for i in keep_dims]),
            tuple([self.range_vars[i] for i in keep_range_vars]),
            tuple([RTVar(v.feasible_values, v.source, move(v.map, _rt_symbols(v.map, symbols))) for v in rt_vars]),
            tuple(zip(moved.results, [interval for _, interval in self.constraints])),
            is_known_empty=self.is_known_empty,
        )

    def _used(self) -> tuple[int, int]:
        """Bit sets of the dims and symbols in use: by results, constraints, and maps of run-time variables in use."""
        dims = symbols = 0
        for e in (*self.map.results, *[e for e, _ in self.constraints]):
            dims |= e.dim_mask
            symbols |= e.symbol_mask
        pending = True
        while pending:
            before = symbols
            for i, variable in enumerate(self.rt_vars, len(self.range_vars)):
                if symbols >> i & 1:
                    for e in variable.map.results:
                        dims |= e.dim_mask
                        symbols |= e.symbol_mask
            pending = symbols != before
        return dims, symbols

    def remove_unused_symbols(self) -> IndexingMap:
        """Returns the map without range and run-time variables that nothing uses; known empty if one had no value."""
        if self.is_unknown or not self.num_symbols:
            return self
        _, used = self._used()
        if used == (1 << self.num_symbols) - 1:
            return self
        bounds = self.symbol_bounds
        empty = self.is_known_empty or any(i.is_empty for n, i in enumerate(bounds) if not used >> n & 1)
        first_rt = len(self.range_vars)
        kept = self.renumber(
            range(self.num_dims),
            [i for i in range(first_rt) if used >> i & 1],
            [i for i in range(len(self.rt_vars)) if used >> (first_rt + i) & 1],
        )
        return kept.as_known_empty() if empty else kept

    def remove_unused_dims(self) -> IndexingMap:
        """Returns the map without dims that nothing uses."""
        used, _ = self._used()
        if self.is_unknown or used == (1 << self.num_dims) - 1:
            return self
        empty = self.is_known_empty or any(i.is_empty for i in self.dim_bounds)
        keep = [i for i in range(self.num_dims) if used >> i & 1]
        kept = self.renumber(keep, range(len(self.range_vars)), range(len(self.rt_vars)))
        return kept.as_known_empty() if empty else kept

    def replace_point_vars(self) -> IndexingMap:
        """Returns the map with dims and range variables of a single value replaced by it; the variables stay."""
        dims = {n: i.lower for n, i in enumerate(self.dim_bounds) if i.is_point}
        symbols = {n: i.lower for n, i in enumerate(self.symbol_bounds[: len(self.range_vars)]) if i.is_point}
        return self.substitute(dims, symbols) if dims or symbols else self

    def substitute(
        self, dim_map: Mapping[int, AffineExpr | int], symbol_map: Mapping[int, AffineExpr | int]
    ) -> IndexingMap:
        """Returns the map with variables replaced by expressions of its own variables; bounds are not re-checked."""
        exprs = AffineMap(self.num_dims, self.num_symbols, tuple(e for e, _ in self.constraints))
        exprs = exprs.replace(dim_map, symbol_map, self.num_dims, self.num_symbols)
        rt_vars = [
            RTVar(v.feasible_values, v.source, v.map.replace(dim_map, symbol_map, self.num_dims, v.map.num_symbols))
            for v in self.rt_vars
        ]
        return self.replace(
            map=self.map.replace(dim_map, symbol_map, self.num_dims, self.num_symbols),
            rt_vars=tuple(rt_vars),
            constraints=tuple(zip(exprs.results, [interval for _, interval in self.constraints])),
        )

    def rescale_symbols(self) -> IndexingMap:
        """Returns the simplified map with s = k*s' + a for each range variable s under a constraint s mod k = a."""
        return map_simplify.rescale_symbols(self)

    def inverse(self) -> IndexingMap | None:
        """Returns the map from results to dims if it is a bijection by construction, else None."""
        return map_inverse.inverse_map(self)

    def _require_known(self, what: str) -> None:
        if self.is_unknown:
            raise IndexingError(f"{what}: the indexing map is unknown")

    def __str__(self) -> str:
        return map_text.print_indexing_map(self)


def _rt_symbols(rt_map: AffineMap, symbols: Sequence[int]) -> int:
    return len(symbols) if any(e.symbol_mask for e in rt_map.results) else 0


UNKNOWN: Final = IndexingMap(AffineMap(0, 0, ()), is_unknown=True)
