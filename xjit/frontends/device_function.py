"""Modules of scalars as device functions that numba-cuda's kernels call: `@cuda.jit` code with fused maths of ours."""

from __future__ import annotations

import importlib
from functools import cached_property
from typing import Any

from xjit.dataclass import dataclass
from xjit.emitters.gpu.device_function import C_TYPES, emit_device_function
from xjit.frontends.loading import ModuleLike, load_module
from xjit.hlo.diagnostics import FailedPrecondition
from xjit.llvm.gpu_models import DEFAULT_GPU
from xjit.llvm.target import Target
from xjit.ops.verifier import verify_module
from xjit.runtime.machine_code.nvptx import to_ptx

_NUMBA_CUDA = "numba.cuda"


@dataclass(frozen=True)
class DeviceFunction:
    """A function of scalars for one GPU architecture. `signature` is numba's, such as "float32(float32, int32)"."""

    name: str
    signature: str
    architecture: str
    ir_text: str

    @cached_property
    def ptx(self) -> str:
        """The code, as PTX: link it to what calls the function by CUDA's C conventions."""
        return to_ptx(self.ir_text, Target.for_gpu(self.architecture))

    def declare(self) -> Any:
        """Returns what a `@cuda.jit` kernel calls; numba-cuda links the code to the kernel.

        Errors: FailedPrecondition without numba-cuda.
        """
        try:
            cuda = importlib.import_module(_NUMBA_CUDA)
            source = cuda.PTXSource(self.ptx.encode())
        except (ImportError, AttributeError) as error:
            raise FailedPrecondition("device functions need numba-cuda: pip install 'xjit[cuda]'") from error
        return cuda.declare_device(self.name, self.signature, link=source, abi="c")


def device_function(module: ModuleLike, name: str = "", architecture: str = DEFAULT_GPU) -> DeviceFunction:
    """Compiles a module of scalars for the kernels of others, on a GPU such as "sm_90".

    `name` is by default that of the module.

    Errors: InvalidArgument for a name or an architecture; Unsupported names what is no scalar or not elementwise.
    """
    loaded = load_module(module)
    verify_module(loaded)
    entry = loaded.entry_computation
    own = name or loaded.name
    text = emit_device_function(loaded, own, Target.for_gpu(architecture))
    types = [C_TYPES[p.shape.element_type] for p in entry.parameter_instructions]
    signature = f"{C_TYPES[entry.root_instruction.shape.element_type]}({', '.join(types)})"
    return DeviceFunction(own, signature, architecture, text)
