"""The gpu dialect: what passes put between threads of a block. Programs are evaluated with one thread per block."""

from __future__ import annotations

from xjit.linalg_ext.dialects.assembly import op
from xjit.linalg_ext.dialects.definition import make_rows

__all__ = ["GPU_ROWS"]

GPU_ROWS = make_rows(op("gpu.barrier", "", "", "attrs"))
