"""Structured functions on static tensors become HLO modules."""

from __future__ import annotations

from xjit.linalg_ext.to_hlo.functions import to_hlo

__all__ = ["to_hlo"]
