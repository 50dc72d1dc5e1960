"""Libraries of multiplications: linked to every program that needs one, compiled once."""

from __future__ import annotations

import numpy as np

import xjit
from xjit.emitters.gemm.library import convolution_library_text, gemm_library_text, link_gemm
from xjit.emitters.gemm.method import GemmTypes
from xjit.emitters.gemm.plan import plan_gemm
from xjit.emitters.gemm.routine import routine_for
from xjit.emitters.gemm.shapes import row_major
from xjit.llvm import Module, Target
from xjit.llvm.library import Library
from xjit.runtime.machine_code import jit
from xjit.runtime.machine_code.ir_check import defined_symbols

DOT = """
HloModule dot
ENTRY main {{
  x = f32[{n},{n}] parameter(0)
  y = f32[{n},{n}] parameter(1)
  ROOT dot = f32[{n},{n}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
"""


TILES = routine_for(plan_gemm(row_major(64, 64, 64), GemmTypes(), Target.host()), GemmTypes())


def test_one_function_is_visible() -> None:
    text = gemm_library_text(GemmTypes(), TILES, Target.host())
    assert defined_symbols(text) == {"xjit_gemm_f32_f32_f32"}
    assert defined_symbols(convolution_library_text(GemmTypes(), Target.host(), False)) == {
        "xjit_convolution_f32_f32_f32"
    }


def test_a_program_has_the_methods_that_it_needs() -> None:
    """A product of matrices has no code for vectors, and the other way round."""
    vector = routine_for(plan_gemm(row_major(1, 700, 700), GemmTypes(), Target.host()), GemmTypes())
    rows = routine_for(plan_gemm(row_major(4, 900, 900), GemmTypes(), Target.host()), GemmTypes())
    texts = [gemm_library_text(GemmTypes(), routine, Target.host()) for routine in (TILES, vector, rows)]
    assert ["_kernel_" in text for text in texts] == [True, False, False]
    assert ["block_vector_along_n_1(" in text for text in texts] == [False, True, True]
    assert ["block_vector_along_n_4(" in text for text in texts] == [False, False, True]


def test_a_module_lists_a_library_once() -> None:
    module = Module("m")
    for _ in range(2):
        link_gemm(module, GemmTypes(), TILES)
    assert len(module.libraries) == 1
    assert not module.functions


def test_programs_share_the_object() -> None:
    executables = [xjit.compile(DOT.format(n=n)) for n in (32, 48)]
    first, second = (set(exe.program.object_code) for exe in executables)
    assert len(first & second) == 1
    x = np.random.default_rng(0).standard_normal((48, 48), dtype=np.float32)
    np.testing.assert_allclose(executables[1](x, x), x @ x, atol=1e-4)


def test_stages_of_a_program_with_a_library() -> None:
    exe = xjit.compile(DOT.format(n=32))
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
