"""Properties of the PTX: wide accesses, no stack, no calls; and that every architecture can select the code."""

from __future__ import annotations

import pytest

from tests.emitters.gpu.test_schedules import reduced, softmax, transposed, unary
from tests.support.gpu_planning import SM, gpu_kernels, module_text, ptx_of
from xjit.hlo.diagnostics import CompileError, InvalidArgument
from xjit.llvm.gpu_models import GPU_MODELS
from xjit.llvm.nvptx_intrinsics import NVVM_INTRINSICS, check_nvptx_ir
from xjit.llvm.target import Target
from xjit.runtime.machine_code.nvptx import to_ptx

PROGRAMS = {
    "exponential": unary("f32[64,512]", "exponential"),
    "cosine": unary("f32[4096]", "cosine"),
    "power of two halves": unary("f16[4096]", "tanh"),
    "bf16": unary("bf16[4099]", "logistic"),
    "complex": unary("c64[1000]", "sine"),
    "doubles": unary("f64[4096]", "log"),
    "rows of warps": reduced("f32[65,256]", "f32[65]", "1"),
    "rows of blocks": reduced("f32[10,8192]", "f32[10]", "1"),
    "columns": reduced("f32[512,70]", "f32[70]", "0"),
    "softmax": softmax(100, 4096),
    "softmax of a large array": softmax(8192, 4096),
    "transpose": transposed("f32[40,100]", "f32[100,40]", "1,0"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_on_the_stack_or_called(name: str) -> None:
    ptx = ptx_of(PROGRAMS[name])
    assert ".local" not in ptx and "call" not in ptx and ".extern" not in ptx


@pytest.mark.parametrize("architecture", GPU_MODELS)
def test_every_architecture_selects_every_program(architecture: str) -> None:
    for text in PROGRAMS.values():
        ptx = ptx_of(text, architecture)
        model = GPU_MODELS[architecture]
        assert f".target {architecture}" in ptx and f".version {model.ptx_version}" in ptx


def test_elements_are_loaded_and_stored_128_bits_at_a_time() -> None:
    ptx = ptx_of(PROGRAMS["exponential"])
    assert "ld.global.nc.v4.b32" in ptx and "st.global.v4.b32" in ptx
    assert "ld.global.nc.b32" not in ptx


def test_a_row_of_a_warp_needs_no_barrier() -> None:
    ptx = ptx_of(PROGRAMS["rows of warps"])
    assert ptx.count("shfl.sync.bfly") == 2 * 5 and "bar.sync" not in ptx and ".shared" not in ptx


def test_a_row_of_a_block_goes_through_shared_memory_once() -> None:
    ptx = ptx_of(PROGRAMS["rows of blocks"])
    assert ptx.count("shfl.sync.bfly") == 5 + 3 and ptx.count("bar.sync") == 1


def test_the_threads_of_a_block_are_declared() -> None:
    assert ".reqntid 256" in ptx_of(PROGRAMS["softmax"])


def test_products_and_sums_are_not_contracted() -> None:
    entry = "ENTRY e { x = f32[64] parameter(0)\n y = f32[64] parameter(1)\n p = f32[64] multiply(x, y)\n"
    fused = f"f {entry[8:]} ROOT s = f32[64] add(p, y) }}\n"
    call = "ENTRY e { x = f32[64] parameter(0)\n y = f32[64] parameter(1)\n"
    ptx = ptx_of(f"HloModule m\n{fused}{call} ROOT r = f32[64] fusion(x, y), kind=kLoop, calls=f }}")
    assert "mul.rn.f32" in ptx and "add.rn.f32" in ptx and "fma" not in ptx


@pytest.mark.parametrize("name", ["llvm.exp.f32", "llvm.sin.v4f32", "llvm.pow.f64", "llvm.x86.avx2.psad.bw"])
def test_what_llvm_aborts_on_is_refused(name: str) -> None:
    with pytest.raises(CompileError, match=f"{name} cannot be compiled for {SM}"):
        to_ptx(f"declare float @{name}(float)\n", Target.for_gpu(SM))


def test_an_intrinsic_of_a_newer_architecture_is_refused() -> None:
    text = "declare i32 @llvm.nvvm.redux.sync.add(i32, i32)"
    check_nvptx_ir(text, GPU_MODELS["sm_80"])
    with pytest.raises(CompileError, match="needs sm_80; the target is sm_75"):
        check_nvptx_ir(text, GPU_MODELS["sm_75"])


OPERANDS = {
    "shfl": "i32 -1, {0} {1}, i32 1, i32 31",
    "vote": "i32 -1, i1 true",
    "redux": "i32 7, i32 -1",
    "match": "i32 -1, i32 7",
}


@pytest.mark.parametrize("name", [name for name in NVVM_INTRINSICS if ".mma." not in name and ".cp." not in name])
def test_every_intrinsic_of_the_table_is_selected_where_it_says(name: str) -> None:
    kind = "float" if name.endswith("f32") else "i1" if ".vote.a" in name else "i32"
    family = next((f for f in OPERANDS if f".{f}." in name), "")
    given = OPERANDS.get(family, "").format(kind, "0.0" if kind == "float" else "0")
    if "barrier" in name or "bar.warp" in name:
        body = f"call void @{name}(i32 {0 if 'barrier' in name else -1})"
        declared = f"declare void @{name}(i32)"
    else:
        body = f"%v = call {kind} @{name}({given})\n store {kind} %v, ptr addrspace(1) %p"
        types = ", ".join(operand.split()[0] for operand in given.split(", ") if operand)
        declared = f"declare {kind} @{name}({types})"
    text = f"{declared}\ndefine ptx_kernel void @k(ptr addrspace(1) %p) {{\n {body}\n ret void\n}}\n"
    lowest = f"sm_{max(75, NVVM_INTRINSICS[name])}"
    assert ".entry k(" in to_ptx(text, Target.for_gpu(lowest))


def test_undefined_symbols_and_broken_ir_are_errors() -> None:
    target = Target.for_gpu(SM)
    with pytest.raises(CompileError, match="nothing defines: helper"):
        to_ptx("declare void @helper()\n", target)
    with pytest.raises(CompileError, match="LLVM rejected"):
        to_ptx("define ptx_kernel void @k() { ret i32 0 }\n", target)


def test_an_unknown_architecture_names_the_known_ones() -> None:
    with pytest.raises(InvalidArgument, match="unknown GPU 'sm_70': expected one of sm_75"):
        Target.for_gpu("sm_70")


def test_kernels_have_names_that_ptx_takes() -> None:
    entry = "ENTRY e { x = f32[8] parameter(0)\n ROOT add.1 = f32[8] add(x, x) }"
    (kernel,) = gpu_kernels(f"HloModule m\n{entry}")
    assert kernel.function.name == "add_1_kernel" and ".visible .entry add_1_kernel(" in ptx_of(f"HloModule m\n{entry}")
    assert "addrspace(1) noalias align 16 readonly" in module_text(kernel)


def test_occupancy_follows_from_the_table() -> None:
    model = GPU_MODELS["sm_90"]
    assert model.occupancy(256, 0) == 1.0
    assert model.occupancy(256, 100 * 1024) == 2 * 256 / 2048
    assert model.occupancy(256, 0, registers=128) == 2 * 256 / 2048
