"""What the linalg-ext engine reports about its input."""

from __future__ import annotations

from xjit.hlo.diagnostics import HloError, HloParseError, HloVerifyError

__all__ = ["LinalgError", "LinalgParseError", "LinalgVerifyError"]


class LinalgError(HloError):
    """A pass or a transform operation cannot do what it was asked to; names the operation."""


class LinalgParseError(HloParseError):
    """The text is not MLIR."""


class LinalgVerifyError(HloVerifyError):
    """An operation breaks its rules."""
