"""The stage `linalg`: a module as structured operations, tiled and fused by the cost model, and what is compiled so."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.ir.module import HloModule
from xjit.linalg_ext import from_hlo, run_passes, tile_and_fuse
from xjit.linalg_ext.automatic.rows import structured_rows
from xjit.llvm.cache_sizes import tile_bytes
from xjit.llvm.target import Target
from xjit.passes import PassDriver
from xjit.passes.dynamic.static_interface import is_dynamic, with_static_interface
from xjit.passes.fusion.row_tiling import RowTiling
from xjit.passes.pipelines import cpu_pipeline, gpu_pipeline
from xjit.targets import split_gpu_target

_CLEANUP = ("rewrite-diag-products", "canonicalize-ext", "cse")


def structured_form(module: HloModule, target: str) -> str:
    """Returns the text of two modules of MLIR, split by `// -----`; tiles fit in the target's caches or shared memory.

    One more module follows for each part of the program that the pipeline has compiled from such a form.
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
    return "\n// -----\n".join((
        f"// {module.name}: structured operations\n{structured}",
        f"// tiled: {nests} nests of loops, tiles of up to {near} bytes\n{raised}",
        *_compiled(module, is_for_gpu=gpu is not None),
    ))  # fmt: skip


def _compiled(module: HloModule, is_for_gpu: bool) -> Iterator[str]:
    """Runs the pipeline up to the pass that cuts rows; yields the forms that it compiles."""
    source = with_static_interface(module) if is_dynamic(module) else module.clone("")
    source.clear_schedule()
    pipeline = gpu_pipeline() if is_for_gpu else cpu_pipeline()
    PassDriver().run(list(takewhile(lambda p: not isinstance(p, RowTiling), pipeline)), source)
    for region, parts in RowTiling().regions(source):
        found = structured_rows(region.as_module(), parts)
        if found is not None:
            yield f"// compiled: {region.outputs[-1].name}, rows in {parts} parts\n{found}"
