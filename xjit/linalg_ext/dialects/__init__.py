"""The dialects: one file per dialect, whose operations are rows."""

from __future__ import annotations
