"""A GPU kernel compiled for the host, once per text and options."""

from __future__ import annotations

import functools
import re
import threading

from xjit.hlo.diagnostics import CompileError
from xjit.runtime.gpu_sim.host_kernel import BODY, START, HostKernel, rewrite_for_host
from xjit.runtime.gpu_sim.library import RUN, library_addresses
from xjit.runtime.gpu_sim.plain_loops_ir import RUN_PLAIN, plain_loops_ir
from xjit.runtime.machine_code.elf import undefined_symbols
from xjit.runtime.machine_code.ir_check import check_ir_text
from xjit.runtime.machine_code.jit import CodegenOptions, compile_optimized, host_features
from xjit.runtime.machine_code.linker import load_object
from xjit.runtime.machine_code.symbols import resolve_symbols
from xjit.thunks.gpu_kernel import GpuKernel

_COROUTINE = re.compile(r"^.*@llvm\.coro\..*$", re.MULTILINE)
_MAX_KERNELS = 4096


class SimulatedKernel:
    """Machine code of a kernel for the host. `lock` is held while it runs: its shared memory is one per kernel.

    Args:
        host: the module it comes from.
        cache_dir: where code is kept, see `object_cache`.
    """

    __slots__ = ("_loaded", "host", "lock", "run", "start", "variables")

    def __init__(self, host: HostKernel, cache_dir: str | None = None) -> None:
        self.host = host
        self.lock = threading.Lock()
        text = host.text
        if not host.has_start:
            text += plain_loops_ir(BODY, host.parameters)
        library = library_addresses()
        check_ir_text(_COROUTINE.sub("", text), host_features(), library.keys())
        options = CodegenOptions(cache_dir=cache_dir)
        code = compile_optimized(text, options, trusted=True)  # -O2 cuts coroutines at their waits
        symbols = resolve_symbols(undefined_symbols([code]) - library.keys()) | dict(library)
        entry = START if host.has_start else RUN_PLAIN
        names = [variable.name[1:].strip('"') for variable in host.variables]
        self._loaded = load_object(code, [entry, *names], symbols)
        self.run = library[RUN] if host.has_start else self._loaded.address(RUN_PLAIN)
        self.start = self._loaded.address(entry)
        self.variables = tuple(self._loaded.address(name) for name in names)


def simulated_kernel(kernel: GpuKernel, sanitize: bool = False, cache_dir: str | None = None) -> SimulatedKernel:
    """Returns the host's code of a kernel, compiled at the first call.

    Errors: CompileError, which names the kernel, if LLVM rejects its text or it needs what the host has not.
    """
    try:
        return _compiled(kernel.name, kernel.ir_text, kernel.launch.dynamic_shared_bytes, sanitize, cache_dir)
    except CompileError as error:
        raise CompileError(f"kernel '{kernel.name}' of instruction '{kernel.instruction}': {error.message}") from error


@functools.lru_cache(maxsize=_MAX_KERNELS)
def _compiled(
    name: str, ir_text: str, dynamic_shared_bytes: int, sanitize: bool, cache_dir: str | None
) -> SimulatedKernel:
    return SimulatedKernel(rewrite_for_host(name, ir_text, dynamic_shared_bytes, sanitize), cache_dir)
