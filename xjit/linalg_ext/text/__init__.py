"""MLIR's text: lexer, parser, printer."""

from __future__ import annotations
