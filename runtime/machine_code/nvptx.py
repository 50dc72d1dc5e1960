"""LLVM IR of GPU kernels to PTX: LLVM's NVPTX back end, with its optimizations. Needs no GPU and no CUDA.

The pass pipeline runs with the target machine: that is what turns generic pointers into those of an address space and
merges neighbouring accesses.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Generator
from contextlib import contextmanager

import llvmlite.binding as llvm

from xjit.hlo.diagnostics import CompileError
from xjit.llvm.nvptx_intrinsics import check_nvptx_ir, ptx_version
from xjit.llvm.target import Target, ptx_feature
from xjit.runtime.machine_code.codegen_switches import FOR_GPUS, generating_code
from xjit.runtime.machine_code.ir_check import external_symbols
from xjit.runtime.machine_code.jit import parse_and_verify
from xjit.runtime.machine_code.object_cache import cached_code
from xjit.runtime.machine_code.toolchain import toolchain_versions

OPT_LEVEL = 3

_DYNAMIC_SHARED_MEMORY = re.compile(r"^@([\w.$-]+) = external addrspace\(3\) global", re.MULTILINE)
"""What a launch gives the size of: declared, as nothing defines it."""


@functools.cache
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def optimize_nvptx(ir_text: str, target: Target) -> str:
    """Returns the IR as code is generated from it. Errors: as of `to_ptx`."""
    with _optimized(ir_text, target) as (module, _):
        return str(module)


def to_ptx(ir_text: str, target: Target, cache_dir: str | None = None) -> str:
    """Compiles a module of kernels for a GPU target and returns the PTX text, or that of the cache, if there is one.

    Errors: CompileError for IR that LLVM rejects, for an intrinsic that the architecture has not, and for a function
    that is declared but not defined.
    """

    def make() -> bytes:
        with _optimized(ir_text, target) as (module, machine):
            return machine.emit_assembly(module).encode()

    def parts() -> tuple[str, ...]:
        return "ptx", *toolchain_versions(), target.cpu, str(OPT_LEVEL), *FOR_GPUS, ir_text

    return cached_code(cache_dir, parts, make, f"PTX for {target.cpu}").decode()


@contextmanager
def _optimized(ir_text: str, target: Target) -> Generator[tuple[llvm.ModuleRef, llvm.TargetMachine]]:
    """The module after the pass pipeline, and the machine to generate code with."""
    assert target.gpu is not None, f"{target.name} is no GPU"
    check_nvptx_ir(ir_text, target.gpu)
    if unknown := sorted({*external_symbols(ir_text)} - {*_DYNAMIC_SHARED_MEMORY.findall(ir_text)}):
        raise CompileError(f"a GPU kernel uses symbols that nothing defines: {', '.join(unknown)}")
    _initialize()
    found = llvm.Target.from_triple(target.triple)
    features = ptx_feature(ptx_version(ir_text, target.gpu))
    machine = found.create_target_machine(cpu=target.cpu, features=features, opt=OPT_LEVEL, codemodel="default")
    with generating_code(FOR_GPUS), llvm.create_context() as context:
        module = parse_and_verify(ir_text, context)
        try:
            builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=OPT_LEVEL))
            builder.getModulePassManager().run(module, builder)
            yield module, machine
        finally:
            module.close()
