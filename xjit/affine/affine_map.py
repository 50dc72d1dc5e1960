"""AffineMap: `(d0, d1)[s0] -> (d0 + s0, d1 * 2)`, a tuple of expressions over numbered dims and symbols, no bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xjit.affine.errors import IndexingError
from xjit.affine.expr import AffineExpr
from xjit.affine.expr_text import AffineParser, variable_scope
from xjit.affine.pool import constant, dim, symbol
from xjit.affine.printer import expr_to_string
from xjit.affine.walks import Substitution, evaluate, substitute_all
from xjit.dataclass import dataclass

__all__ = ["AffineMap"]


@dataclass(frozen=True, slots=True)
class AffineMap:
    """`num_dims` dims and `num_symbols` symbols to `results`; IndexingError if a result uses a variable beyond."""

    num_dims: int
    num_symbols: int
    results: tuple[AffineExpr, ...]

    def __post_init__(self) -> None:
        if type(self.results) is not tuple:
            object.__setattr__(self, "results", tuple(self.results))
        for e in self.results:
            if e.dim_mask >> self.num_dims or e.symbol_mask >> self.num_symbols:
                raise IndexingError(f"{e} uses a variable beyond {self.num_dims} dims and {self.num_symbols} symbols")

    @staticmethod
    def identity(rank: int) -> AffineMap:
        return AffineMap(rank, 0, tuple(dim(i) for i in range(rank)))

    @staticmethod
    def constants(values: Sequence[int], num_dims: int = 0) -> AffineMap:
        return AffineMap(num_dims, 0, tuple(constant(v) for v in values))

    @staticmethod
    def permutation(permutation: Sequence[int]) -> AffineMap:
        """Returns the map whose result i is d<permutation[i]>."""
        if sorted(permutation) != list(range(len(permutation))):
            raise IndexingError(f"expected a permutation of 0..{len(permutation) - 1}, found {tuple(permutation)}")
        return AffineMap(len(permutation), 0, tuple(dim(i) for i in permutation))

    @staticmethod
    def parse(text: str) -> AffineMap:
        """Returns the map in MLIR-like text; inverse of `str`."""
        parser = AffineParser(text)
        result = AffineMap.parse_from(parser)
        if not parser.at_end():
            raise parser.error(f"unexpected {parser.peek()!r} after the map")
        return result

    @staticmethod
    def parse_from(parser: AffineParser) -> AffineMap:
        """Parses a map at the parser's position."""
        dims = parser.names("(", ")")
        symbols = parser.names("[", "]") if parser.peek() == "[" else []
        parser.expect("->")
        outer, parser.scope = parser.scope, variable_scope(dims, symbols)
        results = parser.expressions()
        parser.scope = outer
        return AffineMap(len(dims), len(symbols), results)

    @property
    def is_identity(self) -> bool:
        return len(self.results) == self.num_dims and all(e is dim(i) for i, e in enumerate(self.results))

    @property
    def is_permutation(self) -> bool:
        return len(self.results) == self.num_dims and set(self.results) == {dim(i) for i in range(self.num_dims)}

    @property
    def is_constant(self) -> bool:
        return all(e.is_constant for e in self.results)

    def compose(self, inner: AffineMap) -> AffineMap:
        """Returns self(inner(x)), as MLIR: inner's symbols follow self's own.

        Shapes: inner maps to `self.num_dims` results.
        """
        if len(inner.results) != self.num_dims:
            raise IndexingError(f"compose: inner map has {len(inner.results)} results, expected {self.num_dims}")
        inputs: Sequence[AffineExpr] = inner.results
        if self.num_symbols and inner.num_symbols:
            inputs = substitute_all(inputs, None, [symbol(self.num_symbols + i) for i in range(inner.num_symbols)])
        return AffineMap(inner.num_dims, self.num_symbols + inner.num_symbols, substitute_all(self.results, inputs))

    def replace(self, dim_map: Substitution, symbol_map: Substitution, num_dims: int, num_symbols: int) -> AffineMap:
        """Returns the map with variables substituted, over new variables."""
        return AffineMap(num_dims, num_symbols, substitute_all(self.results, dim_map, symbol_map))

    def evaluate(self, dims: Sequence[Any], symbols: Sequence[Any] = ()) -> tuple[Any, ...]:
        """Returns the results for ints or NumPy int64 arrays."""
        if len(dims) != self.num_dims or len(symbols) != self.num_symbols:
            raise IndexingError(
                f"evaluate: found {len(dims)} dims and {len(symbols)} symbols, "
                f"expected {self.num_dims} and {self.num_symbols}"
            )
        return tuple(evaluate(e, dims, symbols) for e in self.results)

    def text(self, ceiled: bool) -> str:
        """Returns MLIR's text; `ceiled`: with ceildiv where a quotient is one, see `expr_to_string`."""
        dims = ", ".join(f"d{i}" for i in range(self.num_dims))
        symbols = ", ".join(f"s{i}" for i in range(self.num_symbols))
        results = ", ".join(expr_to_string(e, ceiled=ceiled) for e in self.results)
        return f"({dims}){f'[{symbols}]' if symbols else ''} -> ({results})"

    def __str__(self) -> str:
        return self.text(ceiled=False)
