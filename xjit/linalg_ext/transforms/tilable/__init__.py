"""Operations as what tiling and fusing need of them. An op that is none of these rows cannot be tiled."""

from __future__ import annotations

from collections.abc import Callable

from xjit.linalg_ext.dialects.packing import PACK, UNPACK
from xjit.linalg_ext.ir import LinalgError, Operation
from xjit.linalg_ext.structured import STRUCTURED_ROWS
from xjit.linalg_ext.transforms.tilable.interface import Tilable
from xjit.linalg_ext.transforms.tilable.packing import PackTilable, UnpackTilable
from xjit.linalg_ext.transforms.tilable.padding import InsertSliceTilable, PadTilable
from xjit.linalg_ext.transforms.tilable.reshaping import CollapseTilable, ExpandTilable
from xjit.linalg_ext.transforms.tilable.structured import StructuredTilable
from xjit.linalg_ext.transforms.tilable.views import EmptyTilable, ExtractSliceTilable

__all__ = ["StructuredTilable", "Tilable", "as_tilable", "find_tilable"]

_ROWS: dict[str, Callable[[Operation], Tilable]] = {
    **dict.fromkeys(STRUCTURED_ROWS, StructuredTilable),
    **dict.fromkeys(PACK, PackTilable),
    **dict.fromkeys(UNPACK, UnpackTilable),
    "tensor.pad": PadTilable,
    "tensor.insert_slice": InsertSliceTilable,
    "tensor.extract_slice": ExtractSliceTilable,
    "tensor.expand_shape": ExpandTilable,
    "tensor.collapse_shape": CollapseTilable,
    "tensor.empty": EmptyTilable,
}


def as_tilable(op: Operation, reason: str = "only TilingInterface ops are supported") -> Tilable:
    """Returns what tiles the operation; LinalgError, with the reason, if nothing does."""
    row = _ROWS.get(op.name)
    if row is None:
        raise LinalgError(f"'{op.name}' op cannot be tiled: {reason}", op.location)
    return row(op)


def find_tilable(op: Operation) -> Tilable | None:
    """Returns what tiles the operation, None if nothing does."""
    try:
        return as_tilable(op)
    except LinalgError:
        return None
