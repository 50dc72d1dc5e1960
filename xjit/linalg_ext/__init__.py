"""Structured operations on tensors and buffers: MLIR's linalg with ByteIR's extensions, tiled and fused."""

from __future__ import annotations
