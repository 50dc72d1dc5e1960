"""Elementwise fusion: producers into consumers, ops that share an input, across reshapes."""

from __future__ import annotations

from xjit.linalg_ext.transforms.elementwise_fusion.driver import fuse_elementwise, remove_aliases, simplify_dims

__all__ = ["fuse_elementwise", "remove_aliases", "simplify_dims"]
