"""The stage `linalg`: a module as structured operations, and tiled and fused as the cost model has it."""

from __future__ import annotations

from xjit.gpu_compiler import split_gpu_target
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.ir.module import HloModule
from xjit.linalg_ext import from_hlo, run_passes, tile_and_fuse
from xjit.llvm.cache_sizes import tile_bytes
from xjit.llvm.target import Target

_CLEANUP = ("rewrite-diag-products", "canonicalize-ext", "cse")


def structured_form(module: HloModule, target: str) -> str:
    """Returns the text of two modules of MLIR, split by `// -----`; tiles fit in the target's caches or shared memory.

    Errors: InvalidArgument for another target.
    """
    gpu = split_gpu_target(target)
    if gpu is None and target != "cpu":
        raise InvalidArgument(f"unknown target '{target}'")
    near = tile_bytes(Target.host() if gpu is None else Target.for_gpu(gpu[1]))
    raised = from_hlo(module)
    structured = str(raised)
    nests = tile_and_fuse(raised, near)
    run_passes(raised, _CLEANUP)
    return (
        f"// {module.name}: structured operations\n{structured}\n// -----\n"
        f"// tiled: {nests} nests of loops, tiles of up to {near} bytes\n{raised}"
    )
