"""Errors of the indexing core. The core knows nothing of HLO, so they stand apart from the HLO diagnostics."""

from __future__ import annotations

__all__ = ["IndexingBudgetError", "IndexingError"]


class IndexingError(ValueError):
    """Invalid indexing input: the message says what was found and what was expected."""


class IndexingBudgetError(IndexingError):
    """An expression or a search would outgrow its budget; callers fall back to an unknown map."""
