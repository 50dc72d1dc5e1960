"""Structured operations on tensors and buffers: MLIR's linalg with ByteIR's extensions, tiled and fused."""

from __future__ import annotations

from xjit.linalg_ext.evaluation import evaluate
from xjit.linalg_ext.passes import PASSES, run_passes
from xjit.linalg_ext.text.parser import parse_module as parse
from xjit.linalg_ext.text.printer import print_module
from xjit.linalg_ext.verify import verify

__all__ = ["PASSES", "evaluate", "parse", "print_module", "run_passes", "verify"]
