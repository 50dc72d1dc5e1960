"""The multiplication and the convolution of a combination of types, as an LLVM module of their own.

No shape and no epilogue is fixed in them, so programs share them: a module that calls them declares them and lists this
module's text under `Module.libraries`. The text is made once per process; the runtime compiles equal texts once.
"""

from __future__ import annotations

import functools

from xjit.emitters.gemm.block import GEMM_PARAMS
from xjit.emitters.gemm.convolution import CONVOLUTION_PARAMS, convolution_name, emit_convolution
from xjit.emitters.gemm.gemm import emit_gemm, gemm_name
from xjit.emitters.gemm.method import GemmTypes
from xjit.llvm import Module, Target
from xjit.llvm.types import VOID


def link_gemm_library(module: Module, types: GemmTypes) -> None:
    """Declares the functions of those types in `module`."""
    name = gemm_name(types)
    if name not in module.libraries:
        module.declare(name, VOID, [type for type, _ in GEMM_PARAMS])
        module.declare(convolution_name(types), VOID, [type for type, _ in CONVOLUTION_PARAMS])
        module.libraries[name] = gemm_library_text(types, module.target)


@functools.lru_cache(maxsize=64)
def gemm_library_text(types: GemmTypes, target: Target) -> str:
    """The text of the library module."""
    module = Module(f"{gemm_name(types)}_library", target)
    exported = (emit_gemm(module, target, types), emit_convolution(module, target, types))
    for function in module.functions.values():
        function.linkage = "" if function in exported else "internal"
    return module.to_text()
