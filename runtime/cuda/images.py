"""From PTX to what a driver loads: a cubin by nvJitLink where it is installed, else the PTX itself."""

from __future__ import annotations

import dataclasses
import importlib
import re
import struct
from collections.abc import Callable
from typing import Any

from xjit.dataclass import dataclass
from xjit.hlo.diagnostics import CompileError, FailedPrecondition
from xjit.runtime.machine_code.object_cache import cached_code
from xjit.version import __version__

_LINKER = "cuda.bindings.nvjitlink"
_INPUT_PTX = "PTX"
_RESOURCES = struct.Struct("<5q")


@dataclass(frozen=True, slots=True)
class KernelResources:
    """What one thread, or one block, of an assembled kernel takes: registers, bytes of shared memory, stack, spills."""

    registers: int
    shared_bytes: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int


@dataclass(frozen=True, slots=True)
class AssembledKernel:
    """The cubin of a module with one kernel, and what the assembler says of it."""

    cubin: bytes
    resources: KernelResources

    def to_bytes(self) -> bytes:
        """What `from_bytes` reads."""
        return _RESOURCES.pack(*dataclasses.astuple(self.resources)) + self.cubin

    @staticmethod
    def from_bytes(data: bytes) -> AssembledKernel:
        """Returns the kernel that `to_bytes` wrote."""
        return AssembledKernel(data[_RESOURCES.size :], KernelResources(*_RESOURCES.unpack_from(data)))


def kernel_image(ptx: str, architecture: str, cache_dir: str | None = None) -> bytes:
    """Returns the cubin of a module for an architecture such as "sm_90", or its PTX for the driver to assemble.

    Errors: CompileError with nvJitLink's message if it rejects the text.
    """
    return assemble_kernel(ptx, architecture, cache_dir).cubin if has_assembler() else ptx.encode() + b"\0"


def assemble_kernel(ptx: str, architecture: str, cache_dir: str | None = None) -> AssembledKernel:
    """Returns the assembled kernel, or that of the cache, if there is one (see `object_cache`).

    Errors: as of `kernel_image`; FailedPrecondition without nvJitLink.
    """
    linker = _linker()
    if linker is None:
        hint = "pip install cuda-bindings nvidia-nvjitlink; no GPU is needed"
        raise FailedPrecondition("assembling PTX needs NVIDIA's package nvidia-nvjitlink", None, hint)

    def parts() -> tuple[str, ...]:
        return "cubin", __version__, str(linker.version()), architecture, ptx

    def make() -> bytes:
        return _assembled(linker, ptx, architecture).to_bytes()

    return AssembledKernel.from_bytes(cached_code(cache_dir, parts, make, f"cubin for {architecture}"))


def has_assembler() -> bool:
    """Whether nvJitLink is installed."""
    return _linker() is not None


def _linker() -> Any:
    """Returns nvJitLink; None without its package or library."""
    try:
        linker = importlib.import_module(_LINKER)
        linker.version()
    except Exception:  # its library is looked for at the first call, and each release has its own error
        return None
    return linker


def _assembled(linker: Any, ptx: str, architecture: str) -> AssembledKernel:
    options = [f"-arch={architecture}", "-Xptxas=-v"]
    handle = linker.create(len(options), options)
    try:
        data = ptx.encode()
        linker.add_data(handle, getattr(linker.InputType, _INPUT_PTX), data, len(data), "kernel")
        linker.complete(handle)
        cubin = bytearray(linker.get_linked_cubin_size(handle))
        linker.get_linked_cubin(handle, cubin)
        log = _text(linker.get_info_log_size, linker.get_info_log, handle)
    except Exception as error:
        message = _text(linker.get_error_log_size, linker.get_error_log, handle)
        raise CompileError(f"nvJitLink rejected the PTX for {architecture}: {message or error}") from error
    finally:
        linker.destroy(handle)
    return AssembledKernel(bytes(cubin), read_resources(log))


def _text(size_of: Callable[[int], int], read: Callable[[int, bytearray], None], handle: int) -> str:
    log = bytearray(size_of(handle))
    read(handle, log)
    return log.rstrip(b"\0").decode(errors="replace")


_FIGURES = {
    "registers": re.compile(r"Used (\d+) registers"),
    "shared_bytes": re.compile(r"(\d+) bytes smem"),
    "stack_bytes": re.compile(r"(\d+) bytes stack frame"),
    "spill_store_bytes": re.compile(r"(\d+) bytes spill stores"),
    "spill_load_bytes": re.compile(r"(\d+) bytes spill loads"),
}
"""How the assembler's remarks on a kernel write each figure; what it does not mention is zero."""


def read_resources(log: str) -> KernelResources:
    """Returns the figures in the assembler's remarks (`ptxas -v`) on a module with one kernel."""
    found = {name: pattern.search(log) for name, pattern in _FIGURES.items()}
    return KernelResources(**{name: int(match[1]) if match else 0 for name, match in found.items()})
