"""Rewriting: effects, the greedy driver, rules per dialect, common subexpressions."""

from __future__ import annotations
