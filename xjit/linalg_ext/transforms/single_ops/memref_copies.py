"""Copies of buffers as structured ops, so that they can be tiled and fused like others."""

from __future__ import annotations

from xjit.affine import AffineMap
from xjit.linalg_ext.ir import Block, Builder, MemRefType, Operation, Region
from xjit.linalg_ext.structured import PARALLEL
from xjit.linalg_ext.structured.creation import create_generic

__all__ = ["copies_to_linalg"]


def copies_to_linalg(module: Operation) -> None:
    """The pass `memref-copy-to-linalg`: each `memref.copy` becomes a generic that yields what it reads."""
    for op in [op for op in module.walk() if op.name == "memref.copy"]:
        source, target = op.operands
        assert isinstance(source.type, MemRefType)
        body = Block([source.type.element] * 2)
        Builder(body, location=op.location).create("linalg.yield", (body.arguments[0],))
        maps = [AffineMap.identity(source.type.rank)] * 2
        kinds = [PARALLEL] * source.type.rank
        create_generic(Builder.before(op), (source,), (target,), maps, kinds, Region([body]))
        op.erase()
