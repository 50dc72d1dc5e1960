"""Transformations of structured operations, each a function."""

from __future__ import annotations

from xjit.linalg_ext.transforms.fuse import fuse, fuse_ext
from xjit.linalg_ext.transforms.fusing import FusionResult
from xjit.linalg_ext.transforms.tiling import TilingResult, tile

__all__ = ["FusionResult", "TilingResult", "fuse", "fuse_ext", "tile"]
