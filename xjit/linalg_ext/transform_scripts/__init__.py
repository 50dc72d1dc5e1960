"""The interpreter of transform scripts."""

from __future__ import annotations
