"""Libraries of multiplications: linked to every program that needs one, compiled once."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import xjit
from xjit.emitters.gemm.blocking.method import GemmTypes
from xjit.emitters.gemm.blocking.plan import plan_gemm
from xjit.emitters.gemm.blocking.register_tile import register_tile
from xjit.emitters.gemm.blocking.shapes import row_major
from xjit.emitters.gemm.gemm import gemm_name
from xjit.emitters.gemm.library import convolution_module, gemm_module, kernel_module, link_gemm
from xjit.emitters.gemm.microkernels.kernels import KernelSize, gemm_kernels
from xjit.emitters.gemm.routine import ConvolutionRoutine, routine_for
from xjit.llvm import Module, Target
from xjit.llvm.library import Library
from xjit.runtime.machine_code import jit
from xjit.runtime.machine_code.ir_check import defined_symbols
from xjit.runtime.machine_code.jit import missing_features

DOT = """
HloModule dot
ENTRY main {{
  x = f32[{m},300] parameter(0)
  y = f32[300,64] parameter(1)
  ROOT dot = f32[{m},64] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
"""
"""Its terms are too many for one chunk: small products need no library (`direct_plan`)."""

HAS_AVX512 = not missing_features("+avx512f")
TILES = routine_for(plan_gemm(row_major(64, 64, 64), GemmTypes(), Target.host()), GemmTypes(), Target.host())


def test_one_function_is_visible() -> None:
    text = gemm_module(GemmTypes(), TILES, Target.host()).to_text()
    assert defined_symbols(text) == {"xjit_gemm_f32_f32_f32"}
    text = convolution_module(
        GemmTypes(), ConvolutionRoutine(depthwise=False, transposes=False), Target.host()
    ).to_text()
    assert {name for name in defined_symbols(text) if "kernel" not in name} == {"xjit_convolution_f32_f32_f32"}
    text = kernel_module(GemmTypes(), KernelSize(8, 2), Target.host()).to_text()
    assert defined_symbols(text) == {"xjit_kernel_f32_f32_f32_8x2"}


@pytest.mark.parametrize(
    ("n", "k", "masks"),
    [
        (64, 64, False),  # whole vectors, where the operand lies
        (60, 64, True),
        (60, 4096, False),  # packed, so padded
    ],
)
def test_kernels_mask_what_is_not_packed(n: int, k: int, masks: bool) -> None:
    """They read whole vectors of panels, and no further than a row of an operand that is not packed."""
    target = Target.for_features("avx512")  # those without masks pack what is no whole vector
    plan = plan_gemm(row_major(100, n, k), GemmTypes(), target)
    sizes = gemm_kernels(plan, register_tile(target, GemmTypes()), GemmTypes())
    assert {size.masks for size in sizes} == {masks}
    assert {size.partial for size in sizes} == {n % 16 != 0}


def test_whole_vectors_are_stored_without_masks() -> None:
    """Masked stores are slow but for the widest vectors: kernels branch to plain ones where the last vector is full."""
    for level, plain in (("avx2", 2 * 6 * 2 - 6), ("avx512", 6)):
        text = kernel_module(GemmTypes(), KernelSize(6, 2, partial=True), Target.for_features(level)).to_text()
        assert text.count("call void @llvm.masked.store") == 6
        assert len(re.findall(r"^ *store <", text, re.MULTILINE)) == plain
        whole = kernel_module(GemmTypes(), KernelSize(6, 2), Target.for_features(level)).to_text()
        assert "masked" not in whole and len(re.findall(r"^ *store <", whole, re.MULTILINE)) == 12


def test_a_program_has_the_methods_that_it_needs() -> None:
    """A product of matrices has no code for vectors, and the other way round."""
    vector = routine_for(plan_gemm(row_major(1, 700, 700), GemmTypes(), Target.host()), GemmTypes(), Target.host())
    rows = routine_for(plan_gemm(row_major(4, 900, 900), GemmTypes(), Target.host()), GemmTypes(), Target.host())
    texts = [gemm_module(GemmTypes(), routine, Target.host()).to_text() for routine in (TILES, vector, rows)]
    assert ["_strip(" in text for text in texts] == [True, False, False]
    assert ["block_vector_along_n_1(" in text for text in texts] == [False, True, False]
    assert ["block_vector_along_n_4(" in text for text in texts] == [False, False, True]


def test_a_product_that_copies_nothing_has_no_code_for_it() -> None:
    packed = routine_for(plan_gemm(row_major(300, 300, 300), GemmTypes(), Target.host()), GemmTypes(), Target.host())
    texts = [gemm_module(GemmTypes(), routine, Target.host()).to_text() for routine in (TILES, packed)]
    assert ["xjit_copy" in text for text in texts] == [False, True]
    assert [routine.suffix for routine in (TILES, packed)] == ["", "_copies"]


@pytest.mark.parametrize(
    ("m", "n", "kernels"),
    [
        (12, 20, {"4x2", "8x2"}),
        (9, 40, {"4x3", "8x3"}),
        (21, 64, {"8x2"}),
        (68, 100, {"4x2", "4x3", "8x2", "8x3"}),
        (64, 64, {"8x2"}),
    ],
)
def test_a_product_has_the_kernels_of_its_edges(m: int, n: int, kernels: set[str]) -> None:
    exe = xjit.compile(
        f"""HloModule edges
        ENTRY main {{
          x = f32[{m},300] parameter(0)
          y = f32[300,{n}] parameter(1)
          ROOT dot = f32[{m},{n}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
        }}""",
        options=xjit.CompileOptions(cpu_level="avx512") if HAS_AVX512 else None,
    )
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-8, 9, size).astype(np.float32) for size in ((m, 300), (300, n)))
    np.testing.assert_array_equal(exe(x, y), x @ y)
    if HAS_AVX512:
        assert (
            set(re.findall(r"@xjit_kernel_f32_f32_f32_(\dx\d)(?:_masked|_partial)?\(", exe.as_text("llvm"))) == kernels
        )


@pytest.mark.parametrize(("side", "features"), [(3, 5), (7, 48), (9, 100)])
def test_a_convolution_has_the_kernels_of_its_edges(side: int, features: int) -> None:
    exe = xjit.compile(f"""HloModule edges
        ENTRY main {{
          x = f32[1,{side},{side},6] parameter(0)
          y = f32[1,1,6,{features}] parameter(1)
          ROOT r = f32[1,{side + 2},{side + 2},{features}] convolution(x, y), window={{size=1x1 pad=1_1x1_1}},
            dim_labels=b01f_01io->b01f
        }}""")
    rng = np.random.default_rng(0)
    x = rng.integers(-8, 9, (1, side, side, 6)).astype(np.float32)
    y = rng.integers(-8, 9, (1, 1, 6, features)).astype(np.float32)
    np.testing.assert_array_equal(exe(x, y)[:, 1:-1, 1:-1], x @ y[0, 0])
    np.testing.assert_array_equal(exe(x, y)[:, 0], 0)


def test_a_product_without_copies_takes_what_is_there() -> None:
    module, copying = Module("m"), replace(TILES, copies=True)
    functions = [link_gemm(module, GemmTypes(), routine).name for routine in (copying, TILES)]
    assert functions == [gemm_name(GemmTypes(), copying)] * 2
    assert list(module.libraries) == functions[:1]


def test_a_module_lists_a_library_once() -> None:
    module = Module("m")
    for _ in range(2):
        link_gemm(module, GemmTypes(), TILES)
    assert len(module.libraries) == 1
    assert not module.functions


def test_programs_share_the_object() -> None:
    executables = [xjit.compile(DOT.format(m=m)) for m in (60, 66)]
    first, second = (set(exe.program.object_code) for exe in executables)
    assert len(first & second) >= 2  # the multiplication and its kernel
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(size, dtype=np.float32) for size in ((66, 300), (300, 64)))
    np.testing.assert_allclose(executables[1](x, y), x @ y, atol=1e-4)


def test_stages_of_a_program_with_a_library() -> None:
    exe = xjit.compile(DOT.format(m=32))
    for stage in ("llvm", "llvm-opt", "asm"):
        assert "xjit_gemm_f32_f32_f32" in exe.as_text(stage)
    assert exe.program.external_symbols == tuple(sorted(exe.program.external_symbols))
    assert "xjit_parallel_for" in exe.program.external_symbols


def test_a_library_of_another_target_is_another_object() -> None:
    first, again, other = (library_object(gemm_library(level)) for level in ("avx2", "avx2", "sse2"))
    assert first is again and first != other
    assert library_object(gemm_library("avx2"), opt_level=1) is not first


def gemm_library(level: str) -> Library:
    module = Module("m", Target.for_features(level))
    link_gemm(module, GemmTypes(), TILES)
    return module.libraries["xjit_gemm_f32_f32_f32"]


def library_object(library: Library, opt_level: int = 2) -> bytes:
    with jit.ProgramCompiler(jit.CodegenOptions(opt_level=opt_level)) as compiler:
        compiler.add_library(library)
        return compiler.objects()[0]
