"""`xjit.compare`: one module on several targets, side by side, as tables, a page, CSV and JSON."""

from xjit.comparison.comparison import Comparison, TargetResult, compare

__all__ = ["Comparison", "TargetResult", "compare"]
