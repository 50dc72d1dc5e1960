"""HLO as structured operations: the way back of `to_hlo`."""

from __future__ import annotations

from xjit.linalg_ext.from_hlo.functions import from_hlo

__all__ = ["from_hlo"]
