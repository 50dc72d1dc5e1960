"""Whole programs in the cache of object code: a module that was compiled once is loaded, not compiled.

The key is a digest of the module's text, of the options, and of everything else that decides the program: the CPU, the
number of threads, the versions, and the files of xjit itself, so that a clone that is worked on never meets old code.
What looks into a compilation (dumps, verified passes) is not spared it. Programs that call functions of this process
are not kept.
"""

from __future__ import annotations

import dataclasses

from xjit.compile_options import CompileOptions
from xjit.emitters.kernels.calls.registered_call import KIND as CUSTOM_CALL
from xjit.flags import Flags, flags_from_environment
from xjit.hlo.diagnostics import InvalidArgument
from xjit.llvm.target import Target
from xjit.optimized_module import ModuleText
from xjit.runtime.machine_code.library_cache import source_fingerprint
from xjit.runtime.machine_code.object_cache import ObjectCache, cache_key, object_cache
from xjit.runtime.machine_code.toolchain import toolchain_versions
from xjit.runtime.program import CpuProgram
from xjit.runtime.program_file import program_from_bytes, program_to_bytes

_NOT_IN_KEYS = ("progress", "cache_dir", "dump_to", "dump_hlo_pass_re")


def program_key(text: ModuleText, options: CompileOptions, target: Target) -> str:
    """Returns the key of the program of a module with that text; "" if it is not to be looked up."""
    if _cache(options) is None or options.dump_to or flags_from_environment() != Flags():
        return ""
    chosen = [
        f"{f.name}={getattr(options, f.name)!r}" for f in dataclasses.fields(options) if f.name not in _NOT_IN_KEYS
    ]
    machine = target.triple, target.cpu, target.features
    return cache_key("program", *toolchain_versions(), source_fingerprint(), *machine, *chosen, text())


def cached_program(key: str, options: CompileOptions) -> CpuProgram | None:
    """Returns the program of a key; None if there is none."""
    cache = _cache(options)
    data = cache.get(key) if cache is not None and key else None
    try:
        return None if data is None else program_from_bytes(data)
    except InvalidArgument:  # nothing that this version has written
        return None


def keep_program(key: str, options: CompileOptions, program: CpuProgram) -> None:
    """Keeps a program, if it can run in another process."""
    cache = _cache(options)
    if cache is not None and key and all(kernel.kind != CUSTOM_CALL for kernel in program.kernels):
        cache.put(key, program_to_bytes(program), f"program {program.name}")


def _cache(options: CompileOptions) -> ObjectCache | None:
    return object_cache(options.cache_dir)
