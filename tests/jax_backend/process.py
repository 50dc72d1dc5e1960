"""A process of its own, as JAX's settings are those of a process: code after a prologue on this backend."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PROLOGUE = """
import jax, numpy as np, jax.numpy as jnp
import xjit_jax_plugin
xjit_jax_plugin.initialize()
def raises(kind, text, function):
    try:
        function()
    except kind as error:
        assert text in str(error), str(error)
        return
    raise AssertionError("nothing was raised")
x = jnp.arange(12.0).reshape(3, 4)
"""


def run(
    code: str,
    platforms: str | None = "xjit",
    devices: int | str = 1,
    expected_exit: int = 0,
    flags: str = "",
    **more: str,
) -> str:
    """Runs code after JAX's flags are set and the prologue; returns what it printed."""
    environment = {**os.environ, "XJIT_NUM_DEVICES": str(devices), **more}
    environment.pop("JAX_PLATFORMS", None)
    if platforms is not None:
        environment["JAX_PLATFORMS"] = platforms
    command = [sys.executable, "-W", "ignore", "-c", flags + PROLOGUE + code]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=240)
    assert result.returncode == expected_exit, result.stdout + result.stderr[-4000:]
    return result.stdout
