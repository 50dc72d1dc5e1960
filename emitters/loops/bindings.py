"""Which values the variables of a kernel have, and from which level on: loops bind them, and so do run-time indices."""

from __future__ import annotations

from xjit.affine import AffineExpr
from xjit.dataclass import dataclass
from xjit.llvm.values import Value

UNBOUND = -1


@dataclass(frozen=True, slots=True)
class Binding:
    """The value of a variable, known from level `depth` on; `lanes` (a vector of i64) where it differs per lane."""

    depth: int
    value: Value | None = None
    lanes: Value | None = None


class Bindings:
    """What the variables are bound to while their loops are open. A loop's variable can be bound again."""

    __slots__ = ("_bound", "_depth_of_mask", "lane_variables")

    def __init__(self) -> None:
        self._bound: dict[int, Binding] = {}
        self._depth_of_mask: dict[int, int] = {}
        self.lane_variables = 0  # bit set of the variables whose values differ per lane by themselves

    def bind(self, position: int, value: Value, depth: int) -> None:
        """Gives a variable its value, known from level `depth` on."""
        self._bound[position] = Binding(depth, value)
        self._depth_of_mask.clear()

    def bind_lanes(self, position: int, lanes: Value, depth: int) -> None:
        """Gives a variable one value per lane of the current vector variable (a vector of i64)."""
        self._bound[position] = Binding(depth, None, lanes)
        self.lane_variables |= 1 << position
        self._depth_of_mask.clear()

    def value(self, position: int) -> Value:
        """Returns the value of a variable whose loop is open."""
        bound = self._bound.get(position)
        assert bound is not None and bound.value is not None, f"loop variable d{position} is used outside its loop"
        return bound.value

    def lanes(self, position: int) -> Value:
        """Returns the values per lane of a variable that was given such."""
        lanes = self._bound[position].lanes
        assert lanes is not None
        return lanes

    def depth(self, position: int) -> int:
        """Returns the level from which on a variable is known; UNBOUND where it has no value yet."""
        bound = self._bound.get(position)
        return UNBOUND if bound is None else bound.depth

    def depth_of(self, expr: AffineExpr) -> int:
        """Depth of the outermost level at which the expression can be computed."""
        mask = expr.dim_mask
        depth = self._depth_of_mask.get(mask)
        if depth is None:
            depth = max((self.depth(p) for p in expr.dims), default=0)
            self._depth_of_mask[mask] = depth
        return depth
