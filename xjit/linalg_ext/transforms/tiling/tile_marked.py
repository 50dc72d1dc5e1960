"""The pass `linalg-op-tile`: tiles the structured ops that the program marks."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.linalg_ext.ir import Operation, StringAttr
from xjit.linalg_ext.transforms.loops.loop_hint import tile_loop_hint
from xjit.linalg_ext.transforms.tiling.forall import tile_to_forall
from xjit.linalg_ext.transforms.tiling.tile import tile

__all__ = ["tile_marked"]

_MARK = ("__internal_linalg_transform__", StringAttr("__byteir_tile__"))


def tile_marked(module: Operation, tile_sizes: Sequence[int] = (), loop_type: str = "scf") -> None:
    """Tiles ops with `__internal_linalg_transform__ = "__byteir_tile__"`, and marks the loops that are parallel.

    `loop_type`: `parallel` makes one `scf.forall`, others a nest of `scf.for`. Sizes that are not given, and 0, leave a
    loop. LinalgError, with the place of an op, where one cannot be tiled like that.
    """
    name, value = _MARK
    for op in [op for op in module.walk() if op.attributes.get(name) == value]:
        del op.attributes[name]
        if loop_type == "parallel":
            tile_to_forall(op, tile_sizes)
        else:
            tile_loop_hint(tile(op, tile_sizes).tiled_op)
