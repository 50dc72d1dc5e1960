"""From PTX to what a driver loads: a cubin by nvJitLink where it is installed, else the PTX itself."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from xjit.hlo.diagnostics import CompileError

_LINKER = "cuda.bindings.nvjitlink"
_INPUT_PTX = "PTX"


def kernel_image(ptx: str, architecture: str) -> bytes:
    """Returns the cubin of a module for an architecture such as "sm_90", or its PTX for the driver to assemble.

    Errors: CompileError with nvJitLink's message if it rejects the text.
    """
    assemble = _assembler()
    return ptx.encode() + b"\0" if assemble is None else assemble(ptx, architecture)


def _assembler() -> Callable[[str, str], bytes] | None:
    """Returns a function of nvJitLink; None without its package or library."""
    try:
        linker = importlib.import_module(_LINKER)
        linker.version()
    except Exception:  # its library is looked for at the first call, and each release has its own error
        return None
    return lambda ptx, architecture: _assembled(linker, ptx, architecture)


def _assembled(linker: Any, ptx: str, architecture: str) -> bytes:
    options = [f"-arch={architecture}"]
    handle = linker.create(len(options), options)
    try:
        data = ptx.encode()
        linker.add_data(handle, getattr(linker.InputType, _INPUT_PTX), data, len(data), "kernel")
        linker.complete(handle)
        cubin = bytearray(linker.get_linked_cubin_size(handle))
        linker.get_linked_cubin(handle, cubin)
    except Exception as error:
        log = bytearray(linker.get_error_log_size(handle))
        linker.get_error_log(handle, log)
        message = log.rstrip(b"\0").decode(errors="replace")
        raise CompileError(f"nvJitLink rejected the PTX for {architecture}: {message or error}") from error
    finally:
        linker.destroy(handle)
    return bytes(cubin)
