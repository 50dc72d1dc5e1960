"""The machine code of an assembled kernel as text (SASS), by NVIDIA's `nvdisasm`."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from xjit.hlo.diagnostics import CompileError, FailedPrecondition

_TOOL = "nvdisasm"
_PATHFINDER = "cuda.pathfinder"
_SECONDS = 60


def to_sass(cubin: bytes) -> str:
    """Returns the SASS of a cubin.

    Errors: FailedPrecondition if nvdisasm is not installed; CompileError if it fails.
    """
    tool = _find_tool()
    if tool is None:
        hint = "it comes with the CUDA toolkit, or: pip install nvidia-cuda-nvdisasm cuda-pathfinder"
        raise FailedPrecondition(f"printing SASS needs NVIDIA's tool {_TOOL}", None, hint)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        command = [tool, "--print-code", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode:
        raise CompileError(f"{_TOOL} failed: {done.stderr.strip()}")
    return done.stdout


def _find_tool() -> str | None:
    """Returns the path of nvdisasm: on the search path, or in an installed package."""
    found = shutil.which(_TOOL)
    if found is not None:
        return found
    try:
        return importlib.import_module(_PATHFINDER).find_nvidia_binary_utility(_TOOL)
    except Exception:  # not installed, too old to look for tools, or too old to know this one
        return None
