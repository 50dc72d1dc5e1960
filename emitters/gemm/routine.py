"""What of the code of a multiplication one call needs: programs compile nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from xjit.emitters.gemm.blocking.convolution_shapes import ConvolutionParameters
from xjit.emitters.gemm.blocking.method import GemmTypes, Method
from xjit.emitters.gemm.blocking.shapes import GemmParameters
from xjit.emitters.gemm.blocking.storage import size_of

ROW_GROUPS = (1, 4)
"""Rows that the vector methods compute together, one function for each. Missing rows are computed from zeros, on memory
that the result must have: it has a multiple of the group of rows.
"""


@dataclass(frozen=True, slots=True)
class Routine:
    """What a multiplication has: methods (none: all sums are zero), copies of operands and results (of any strides:
    `transposes`), a loop over batches, and kernels of its own, unless it is `linked` to them.
    """

    tiles: bool = True
    vectors: tuple[Method, ...] = (Method.VECTOR_ALONG_N, Method.VECTOR_ALONG_K)
    row_groups: tuple[int, ...] = ROW_GROUPS
    transposes: bool = True
    copies: bool = True
    batches: bool = True
    linked: bool = False

    @property
    def suffix(self) -> str:
        """The end of its name: that of one product by tiles in rows, without copies, has none."""
        methods = "".join(f"_{method.name.lower()}" for method in self.vectors)
        if self.tiles == bool(self.vectors):
            methods = "_any" if self.tiles else "_zero"
        groups = f"_{self.row_groups[-1]}" if self.row_groups and not self.tiles else ""
        copies = "_copies" if self.copies and not self.vectors else ""
        batches = "_batches" if self.batches else ""
        return f"{methods}{groups}{copies}{'_transposes' if self.transposes else ''}{batches}"


@dataclass(frozen=True, slots=True)
class ConvolutionRoutine:
    """The same for a convolution: what it can do, tiles or depthwise or both."""

    tiles: bool = True
    depthwise: bool = True
    transposes: bool = True
    linked: bool = False

    @property
    def suffix(self) -> str:
        """The end of its name."""
        kind = "_any" if self.tiles and self.depthwise else "_depthwise" if self.depthwise else ""
        return f"{kind}{'_transposes' if self.transposes else ''}"


def routine_for(plan: GemmParameters, types: GemmTypes, *, epilogue: bool = False) -> Routine:
    """The routine for a plan and no more; with an epilogue, which takes the sums from where they are."""
    is_tiles, batches = plan.method == Method.TILES, plan.num_batches > 1
    unpacks = plan.use_scratch and not epilogue
    strided = (
        (plan.pack_lhs or not is_tiles) and plan.k_inner > 1 and plan.lhs_k_inner != size_of(types.lhs),
        plan.pack_rhs and plan.n > 1 and plan.rhs_column != size_of(types.rhs),
        unpacks and plan.n > 1 and plan.out_column != size_of(types.out),
    )
    if is_tiles:
        copies = bool(plan.pack_lhs or plan.pack_rhs or unpacks)
        return Routine(True, (), (), any(strided), copies, batches, linked=True)
    if plan.method == Method.ZERO:
        return Routine(False, (), (), any(strided), batches=batches)
    group = next(rows for rows in ROW_GROUPS if rows >= min(plan.m, ROW_GROUPS[-1]))  # a block has all rows
    return Routine(False, (Method(plan.method),), (group,), any(strided), batches=batches)


def convolution_routine_for(plan: ConvolutionParameters, types: GemmTypes) -> ConvolutionRoutine:
    """The same for a convolution."""
    strided = (
        plan.channels > 1 and plan.in_channel != size_of(types.lhs),
        plan.features > 1 and plan.tap_feature != size_of(types.rhs),
        plan.use_scratch and plan.features > 1 and plan.out_feature != size_of(types.out),
    )
    deep = bool(plan.depthwise)
    return ConvolutionRoutine(not deep, deep, any(strided), linked=not deep)
