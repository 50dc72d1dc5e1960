"""Transformations of structured operations, each a function.

`building_blocks` are what the others are made of, `tilable` is what an operation must know to be tiled; `tiling`,
`fusion`, `reductions`, `loops` and `single_ops` change structured operations and loops, `lowering` ends with loops.
"""

from __future__ import annotations

from xjit.linalg_ext.transforms.fusion.emit import FusionResult, Keep
from xjit.linalg_ext.transforms.fusion.fuse import fuse, fuse_ext
from xjit.linalg_ext.transforms.fusion.fuse_into_containing_op import fuse_into_containing_op
from xjit.linalg_ext.transforms.fusion.fuse_operands import fuse_operands
from xjit.linalg_ext.transforms.loops.loop_hint import PARALLEL_LOOP, tile_loop_hint
from xjit.linalg_ext.transforms.reductions.distributed_style import shared_output_to_distributed_style
from xjit.linalg_ext.transforms.reductions.split_softmax import SoftmaxSplit, split_softmax
from xjit.linalg_ext.transforms.reductions.split_squares import split_squares
from xjit.linalg_ext.transforms.reductions.tile_reduction import (
    ReductionTiling,
    tile_reduction_using_for,
    tile_reduction_using_forall,
)
from xjit.linalg_ext.transforms.tiling.forall import tile_to_forall
from xjit.linalg_ext.transforms.tiling.tile import TilingResult, tile

__all__ = [
    "PARALLEL_LOOP",
    "FusionResult",
    "Keep",
    "ReductionTiling",
    "SoftmaxSplit",
    "TilingResult",
    "fuse",
    "fuse_ext",
    "fuse_into_containing_op",
    "fuse_operands",
    "shared_output_to_distributed_style",
    "split_softmax",
    "split_squares",
    "tile",
    "tile_loop_hint",
    "tile_reduction_using_for",
    "tile_reduction_using_forall",
    "tile_to_forall",
]
