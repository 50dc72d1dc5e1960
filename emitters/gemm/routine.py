"""What of the code of a multiplication one call needs: programs compile nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from xjit.emitters.gemm.method import Method
from xjit.emitters.gemm.shapes import GemmParameters

ROW_GROUPS = (1, 4)
"""Rows that the vector methods compute together, one function for each. Missing rows are computed from zeros, on memory
that the result must have: it has a multiple of the group of rows.
"""


@dataclass(frozen=True, slots=True)
class Routine:
    """Methods that a function has. What has no terms is zeros in every routine."""

    tiles: bool = True
    vectors: tuple[Method, ...] = (Method.VECTOR_ALONG_N, Method.VECTOR_ALONG_K)
    row_groups: tuple[int, ...] = ROW_GROUPS

    @property
    def suffix(self) -> str:
        """The end of its name: that of tiles alone has none."""
        if self.tiles:
            return "_any" if self.vectors else ""
        return "".join(f"_{method.name.lower()}" for method in self.vectors) + f"_{self.row_groups[-1]}"


def routine_for(plan: GemmParameters) -> Routine:
    """The routine with the method of a plan alone."""
    if plan.method in (Method.ZERO, Method.TILES):
        return Routine(vectors=(), row_groups=())
    groups = ROW_GROUPS[: 1 + next(i for i, rows in enumerate(ROW_GROUPS) if rows >= min(plan.m, ROW_GROUPS[-1]))]
    return Routine(False, (Method(plan.method),), groups)
