"""Modules of scalars as device functions: their values, their PTX, and numba-cuda's kernels around them."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import xjit
from xjit.frontends import device_function as frontend
from xjit.runtime.cuda import has_assembler, images
from xjit.runtime.gpu_sim import MemoryRange, simulate
from xjit.thunks import GpuKernel, LaunchDimensions

SWISH = """HloModule swish
ENTRY main {
  x = f32[] parameter(0)
  k = s32[] parameter(1)
  b = f32[] convert(k)
  y = f32[] multiply(x, b)
  s = f32[] logistic(y)
  ROOT r = f32[] multiply(x, s)
}
"""
KERNEL = """
define ptx_kernel void @around(ptr addrspace(1) %x, ptr addrspace(1) %y) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %p = getelementptr float, ptr addrspace(1) %x, i32 %t
  %v = load float, ptr addrspace(1) %p, align 4
  %w = call float @swish(float %v, i32 2)
  %q = getelementptr float, ptr addrspace(1) %y, i32 %t
  store float %w, ptr addrspace(1) %q, align 4
  ret void
}
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
"""
CALLER = """.version 7.8
.target sm_90
.address_size 64
.extern .func (.param .b32 out) swish (.param .b32 a, .param .b32 b);
.visible .entry around(.param .u64 x) {
  .reg .b32 %r<4>;
  .reg .b64 %d<2>;
  ld.param.u64 %d1, [x];
  ld.global.b32 %r1, [%d1];
  mov.u32 %r2, 2;
  { .param .b32 p0; .param .b32 p1; .param .b32 q;
    st.param.b32 [p0], %r1;
    st.param.b32 [p1], %r2;
    call.uni (q), swish, (p0, p1);
    ld.param.b32 %r3, [q]; }
  st.global.b32 [%d1], %r3;
  ret;
}
"""


def linked(*texts: str) -> bytearray:
    """The cubin of several texts of PTX."""
    linker = importlib.import_module(images._LINKER)
    handle = linker.create(1, ["-arch=sm_90"])
    try:
        for text in texts:
            linker.add_data(handle, linker.InputType.PTX, text.encode(), len(text), "part")
        linker.complete(handle)
        cubin = bytearray(linker.get_linked_cubin_size(handle))
        linker.get_linked_cubin(handle, cubin)
        return cubin
    finally:
        linker.destroy(handle)


def test_values_are_the_cpus() -> None:
    """Called from a kernel, thread by thread, it has the bits of the same module on the CPU."""
    function = xjit.device_function(SWISH)
    assert (function.name, function.signature) == ("swish", "float32(float32, int32)")
    x = np.linspace(-9, 9, 64, dtype=np.float32)
    y = np.zeros_like(x)
    kernel = GpuKernel("around", function.ir_text + KERNEL, LaunchDimensions((1, 1, 1), (64, 1, 1)), instruction="r")
    simulate(kernel, [MemoryRange.of(x), MemoryRange.of(y)], sanitize=True)
    executable = xjit.compile(SWISH)
    assert y.tolist() == [float(executable(v, np.int32(2))) for v in x]


def test_the_code_is_a_function_by_c_conventions() -> None:
    ptx = xjit.device_function(SWISH, "mine", "sm_80").ptx
    assert ".target sm_80" in ptx and ".entry" not in ptx and "call" not in ptx
    assert ".visible .func  (.param .b32 func_retval0) mine(" in ptx and ptx.count(".param .b32 mine_param_") == 2


@pytest.mark.skipif(not has_assembler(), reason="needs the package nvidia-nvjitlink")
def test_it_links_to_a_caller() -> None:
    """A kernel that declares the function, and the function, become one cubin without anything undefined."""
    assert linked(CALLER, xjit.device_function(SWISH).ptx)[:4] == b"\x7fELF"
    with pytest.raises(Exception, match="ERROR"):
        linked(CALLER)


NUMBA = """
import numpy as np
from numba import cuda, types
import xjit
from tests.frontends.test_device_function import SWISH, linked

function = xjit.device_function(SWISH)
swish = function.declare()

def kernel(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = swish(x[i], 2)

array = types.Array(types.float32, 1, "C")
ptx, _ = cuda.compile_ptx(kernel, types.void(array, array), cc=(9, 0), abi="numba")
assert ".extern .func" in ptx and "swish" in ptx, ptx
assert linked(ptx, function.ptx)[:4] == b"\\x7fELF"
print("compiled")
"""


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("numba_cuda") is None, reason="needs numba-cuda")
def test_numba_compiles_a_kernel_that_calls_it() -> None:
    """In a process of its own: numba-cuda warns, and changes the module numba. Needs its compilers, but no GPU."""
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", NUMBA], cwd=root, capture_output=True, text=True, timeout=200)
    if "DynamicLibNotFoundError" in done.stderr or "NvvmSupportError" in done.stderr:
        pytest.skip("needs the packages nvidia-cuda-nvrtc and nvidia-nvvm")
    assert done.stdout.strip() == "compiled", done.stderr


def test_without_numba_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frontend, "_NUMBA_CUDA", "xjit.there_is_no_such_module")
    with pytest.raises(xjit.FailedPrecondition, match="device functions need numba-cuda"):
        xjit.device_function(SWISH).declare()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("x = f32[4] parameter(0)\n ROOT r = f32[4] negate(x)", "'x' is f32[4]"),
        ("x = bf16[] parameter(0)\n ROOT r = bf16[] negate(x)", "take and return scalars of f32, f64"),
        ("x = f32[] parameter(0)\n ROOT r = (f32[]) tuple(x)", "'r' is (f32[])"),
    ],
)
def test_what_is_no_function_of_scalars(body: str, message: str) -> None:
    with pytest.raises(xjit.Unsupported) as error:
        xjit.device_function(f"HloModule m\nENTRY e {{ {body} }}")
    assert message in str(error.value)


def test_names() -> None:
    with pytest.raises(xjit.InvalidArgument, match="cannot be the name of a device function"):
        xjit.device_function(SWISH, "a.b")
    with pytest.raises(xjit.InvalidArgument):
        xjit.device_function(SWISH, "", "sm_1")
