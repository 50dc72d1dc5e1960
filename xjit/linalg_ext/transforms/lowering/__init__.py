"""Structured ops on memrefs as nests of `scf.for` over loads and stores."""

from __future__ import annotations

from xjit.linalg_ext.transforms.lowering.to_loops import (
    convert_linalg_ext_to_loops,
    convert_linalg_to_loops,
    lower_to_loops,
)

__all__ = ["convert_linalg_ext_to_loops", "convert_linalg_to_loops", "lower_to_loops"]
