"""The variables of an indexing map, with their bounds, and its constraints."""

from __future__ import annotations

from typing import TypeAlias

from xjit.affine.affine_map import AffineMap
from xjit.affine.expr import AffineExpr
from xjit.affine.interval import Interval
from xjit.dataclass import dataclass

__all__ = ["Constraint", "DimVar", "RTVar", "RangeVar"]

Constraint: TypeAlias = tuple[AffineExpr, Interval]


@dataclass(frozen=True, slots=True)
class DimVar:
    """A dimension of the map's domain: a tensor dimension or a GPU grid id."""

    bounds: Interval
    name: str = ""


@dataclass(frozen=True, slots=True)
class RangeVar:
    """A dimension that the target has and the source has not: a loop."""

    bounds: Interval


@dataclass(frozen=True, slots=True)
class RTVar:
    """A value read at run time from element map(dims, symbols) of `source`, which the core does not look into."""

    feasible_values: Interval
    source: object
    map: AffineMap

    @property
    def bounds(self) -> Interval:
        return self.feasible_values
