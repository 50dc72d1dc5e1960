"""Libraries of multiplications: linked to every program that needs one, compiled once."""

from __future__ import annotations

import numpy as np

import xjit
from xjit.emitters.gemm.library import gemm_library_text, link_gemm_library
from xjit.emitters.gemm.method import GemmTypes
from xjit.llvm import Module, Target
from xjit.runtime import jit
from xjit.runtime.ir_check import defined_symbols

DOT = """
HloModule dot
ENTRY main {{
  x = f32[{n},{n}] parameter(0)
  y = f32[{n},{n}] parameter(1)
  ROOT dot = f32[{n},{n}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
"""


def test_two_functions_are_visible() -> None:
    text = gemm_library_text(GemmTypes(), Target.host())
    assert defined_symbols(text) == {"xjit_gemm_f32_f32_f32", "xjit_convolution_gemm_f32_f32_f32"}
    assert gemm_library_text(GemmTypes(), Target.host()) is text


def test_a_module_lists_a_library_once() -> None:
    module = Module("m")
    for _ in range(2):
        link_gemm_library(module, GemmTypes())
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
    text = gemm_library_text(GemmTypes(), Target.for_features("avx2"))
    assert text != gemm_library_text(GemmTypes(), Target.for_features("sse2"))
    first, again, other = (library_object(text, level) for level in (2, 2, 1))
    assert first is again and first is not other


def library_object(text: str, level: int) -> bytes:
    with jit.ProgramCompiler(jit.CodegenOptions(opt_level=level)) as compiler:
        compiler.add(text, is_library=True)
        return compiler.objects()[0]
