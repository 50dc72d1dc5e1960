"""Tiling and fusing without a script: a cost model chooses the tile sizes."""

from __future__ import annotations

from xjit.linalg_ext.automatic.tile_and_fuse import tile_and_fuse

__all__ = ["tile_and_fuse"]
