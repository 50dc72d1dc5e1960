"""Structured operations on tensors and buffers: MLIR's linalg with ByteIR's extensions, tiled and fused."""

from __future__ import annotations

from xjit.linalg_ext.automatic import tile_and_fuse
from xjit.linalg_ext.compilation import compile
from xjit.linalg_ext.evaluation import evaluate
from xjit.linalg_ext.from_hlo import from_hlo
from xjit.linalg_ext.passes import PASSES, run_passes
from xjit.linalg_ext.text.parser import parse_module as parse
from xjit.linalg_ext.text.printer import print_module
from xjit.linalg_ext.to_hlo import to_hlo
from xjit.linalg_ext.verify import verify

__all__ = [
    "PASSES",
    "compile",
    "evaluate",
    "from_hlo",
    "parse",
    "print_module",
    "run_passes",
    "tile_and_fuse",
    "to_hlo",
    "verify",
]
