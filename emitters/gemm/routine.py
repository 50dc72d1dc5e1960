"""What of the code of a multiplication one call needs: programs compile nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from xjit.dataclass import dataclass
from xjit.emitters.gemm.blocking.convolution_shapes import ConvolutionParameters
from xjit.emitters.gemm.blocking.method import GemmTypes, Method
from xjit.emitters.gemm.blocking.register_tile import register_tile
from xjit.emitters.gemm.blocking.shapes import GemmParameters
from xjit.emitters.gemm.blocking.storage import size_of
from xjit.llvm import Target
from xjit.llvm.types import I32

ROW_GROUPS = (1, 4)
"""Rows that the vector methods compute together, one function for each. Missing rows are computed from zeros, on memory
that the result must have: it has a multiple of the group of rows.
"""


@dataclass(frozen=True, slots=True)
class Routine:
    """What a multiplication has: methods (none: all sums are zero), copies of operands and results (of any strides:
    `transposes`; of results if it `unpacks`), a loop over batches, and kernels of its own, unless it is `linked` to
    them. Where all copies are of `whole` panels and lanes, there is no code for what is left over.
    """

    tiles: bool = True
    vectors: tuple[Method, ...] = (Method.VECTOR_ALONG_N, Method.VECTOR_ALONG_K)
    row_groups: tuple[int, ...] = ROW_GROUPS
    transposes: bool = True
    copies: bool = True
    unpacks: bool = True
    whole: bool = False
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
        if copies:
            copies += f"{'_whole' if self.whole else ''}{'' if self.unpacks else '_in_place'}"
        batches = "_batches" if self.batches else ""
        return f"{methods}{groups}{copies}{'_transposes' if self.transposes else ''}{batches}"


@dataclass(frozen=True, slots=True)
class ConvolutionRoutine:
    """The same for a convolution: what it can do, tiles or depthwise or both."""

    tiles: bool = True
    depthwise: bool = True
    transposes: bool = True
    whole: bool = False
    linked: bool = False

    @property
    def suffix(self) -> str:
        """The end of its name."""
        kind = "_any" if self.tiles and self.depthwise else "_depthwise" if self.depthwise else ""
        return f"{kind}{'_transposes' if self.transposes else ''}{'_whole' if self.whole else ''}"


@dataclass(frozen=True, slots=True)
class _Copied:
    """What is packed of an operand, if it is: k of the left one, columns of the right one; of all, and of a block."""

    k: tuple[int, ...]
    columns: tuple[int, ...]

    def are_whole(self, types: GemmTypes, target: Target) -> bool:
        """Whether rows are whole vectors, and panels too: or where lanes hold several elements of k, their columns."""
        tile, group = register_tile(target, types), types.lanes.group
        width = tile.width if group == 1 else max(tile.width, target.vector_width(I32))
        columns = tile.columns if group == 1 else width
        return not any(size % (group * width) for size in self.k) and not any(n % columns for n in self.columns)


def routine_for(plan: GemmParameters, types: GemmTypes, target: Target, *, epilogue: bool = False) -> Routine:
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
        is_shared = types.lhs is types.rhs is types.compute is types.out  # that of operands does it
        lengths = (plan.k_inner, min(plan.block_k_inner, plan.k_inner)) if plan.pack_lhs else ()
        pieces = _Copied(lengths, (plan.n, plan.block_n))
        whole = bool(plan.pack_rhs) and not any(strided) and pieces.are_whole(types, target)
        return Routine(True, (), (), any(strided), copies, bool(unpacks) or is_shared, whole, batches, linked=True)
    if plan.method == Method.ZERO:
        return Routine(False, (), (), any(strided), batches=batches)
    group = next(rows for rows in ROW_GROUPS if rows >= min(plan.m, ROW_GROUPS[-1]))  # a block has all rows
    return Routine(False, (Method(plan.method),), (group,), any(strided), batches=batches)


def more_able(routine: Routine) -> Iterator[Routine]:
    """Yields the routines that can do all of what a routine does, and more, but for fast copies in other directions."""
    abilities = {  # of one without copies it does not matter which they are
        "copies": {routine.copies, True},
        "unpacks": {routine.unpacks, True} if routine.copies else {True, False},
        "whole": {routine.whole, False} if routine.copies else {True, False},
        "batches": {routine.batches, True},
    }
    for values in itertools.product(*abilities.values()):
        able = replace(routine, **dict(zip(abilities, values, strict=True)))
        if able != routine:
            yield able


def convolution_routine_for(plan: ConvolutionParameters, types: GemmTypes, target: Target) -> ConvolutionRoutine:
    """The same for a convolution."""
    strided = (
        plan.channels > 1 and plan.in_channel != size_of(types.lhs),
        plan.features > 1 and plan.tap_feature != size_of(types.rhs),
        plan.use_scratch and plan.features > 1 and plan.out_feature != size_of(types.out),
    )
    deep = bool(plan.depthwise)
    channels, features = (plan.channels, plan.chunk_channels), (plan.features, plan.block_features)
    pieces = _Copied((*channels, *features), ()) if deep else _Copied(channels, features)
    whole = not any(strided) and pieces.are_whole(types, target)
    return ConvolutionRoutine(not deep, deep, any(strided), whole, linked=not deep)
