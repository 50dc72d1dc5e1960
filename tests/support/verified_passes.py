"""Importing this makes all compilations of the test run verify the module after every pass."""

from __future__ import annotations

import os

os.environ.setdefault("XJIT_FLAGS", "--xjit_verify_passes=true")
