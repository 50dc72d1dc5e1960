"""What of the code of a multiplication one call needs: programs compile nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from xjit.emitters.gemm.convolution_shapes import ConvolutionParameters
from xjit.emitters.gemm.method import GemmTypes, Method
from xjit.emitters.gemm.shapes import GemmParameters
from xjit.emitters.gemm.storage import size_of

ROW_GROUPS = (1, 4)
"""Rows that the vector methods compute together, one function for each. Missing rows are computed from zeros, on memory
that the result must have: it has a multiple of the group of rows.
"""


@dataclass(frozen=True, slots=True)
class Routine:
    """Methods that a function has, and whether its copies are fast for operands and results that are transposed.

    Any routine does any strides, and what has no terms.
    """

    tiles: bool = True
    vectors: tuple[Method, ...] = (Method.VECTOR_ALONG_N, Method.VECTOR_ALONG_K)
    row_groups: tuple[int, ...] = ROW_GROUPS
    transposes: bool = True

    @property
    def suffix(self) -> str:
        """The end of its name: that of tiles in rows has none."""
        methods = (
            "_any" if self.tiles and self.vectors else "".join(f"_{method.name.lower()}" for method in self.vectors)
        )
        groups = f"_{self.row_groups[-1]}" if self.row_groups and not self.tiles else ""
        return f"{methods}{groups}{'_transposes' if self.transposes else ''}"


def routine_for(plan: GemmParameters, types: GemmTypes) -> Routine:
    """The routine for a plan and no more."""
    is_tiles = plan.method in (Method.ZERO, Method.TILES)
    strided = (
        (plan.pack_lhs or not is_tiles) and plan.k_inner > 1 and plan.lhs_k_inner != size_of(types.lhs),
        plan.pack_rhs and plan.n > 1 and plan.rhs_column != size_of(types.rhs),
        plan.use_scratch and plan.n > 1 and plan.out_column != size_of(types.out),
    )
    if is_tiles:
        return Routine(vectors=(), row_groups=(), transposes=any(strided))
    groups = ROW_GROUPS[: 1 + next(i for i, rows in enumerate(ROW_GROUPS) if rows >= min(plan.m, ROW_GROUPS[-1]))]
    return Routine(False, (Method(plan.method),), groups, any(strided))


def convolution_transposes(plan: ConvolutionParameters, types: GemmTypes) -> bool:
    """Whether copies of a convolution's input, kernel or output change the direction."""
    strided = (
        plan.channels > 1 and plan.in_channel != size_of(types.lhs),
        plan.features > 1 and plan.tap_feature != size_of(types.rhs),
        plan.use_scratch and plan.features > 1 and plan.out_feature != size_of(types.out),
    )
    return any(strided)
