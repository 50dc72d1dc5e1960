"""Calls to cuBLAS as steps of a program: on the simulator, and by the runtime for GPUs with a library of its own.

Nothing here runs on a GPU: `FakeCublasLt` multiplies what its descriptions say, `FakeDriver` simulates kernels.
"""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import pytest

import xjit
from tests.support.fake_cublaslt import FakeCublasLt
from tests.support.fake_cuda import FakeDriver
from tests.support.kernels import compare, leaves_of, random_inputs
from xjit.gpu_compiler import SimulatedExecutable, compile_for_gpu
from xjit.hlo.diagnostics import ExecutionError, FailedPrecondition, InvalidArgument, Unsupported
from xjit.passes.gpu.matmul_calls import matmul_spec
from xjit.runtime.cuda import CudaExecutable
from xjit.runtime.cuda.libraries import library
from xjit.runtime.cuda.libraries.cublaslt import CublasLt
from xjit.runtime.cuda.libraries.library import CUBLAS_LT, is_installed, shared_library
from xjit.runtime.cuda.runtime_calls import RuntimeCalls
from xjit.text.parser import parse_hlo

WITH_LIBRARY = xjit.CompileOptions(xla_gpu_enable_cublaslt=True)


def call(
    operands: str, result: str, target: str = "$lt$matmul", lhs: str = "1", rhs: str = "0", batch: str = "", **more: Any
) -> str:
    """A module of one call; `operands` are shapes, each "f32[2,3]"."""
    shapes = operands.split()
    lines = [f"  p{n} = {shape} parameter({n})" for n, shape in enumerate(shapes)]
    numbers = {
        "lhs_contracting_dimensions": [lhs], "rhs_contracting_dimensions": [rhs],
        "lhs_batch_dimensions": list(batch), "rhs_batch_dimensions": list(batch),
    }  # fmt: skip
    config = {"alpha_real": 1, "beta": 0, "epilogue": "DEFAULT", "dot_dimension_numbers": numbers, **more}
    names = ", ".join(f"p{n}" for n in range(len(shapes)))
    text = json.dumps({"gemm_backend_config": config})
    called = f'{result} custom-call({names}), custom_call_target="__cublas{target}", backend_config={text}'
    return "HloModule m\nENTRY e {\n" + "\n".join(lines) + f"\n  ROOT r = {called}\n}}"


def on_fake_gpu(executable: SimulatedExecutable, fake: FakeCublasLt) -> tuple[CudaExecutable, FakeDriver]:
    """The program on a driver and a library of its own."""
    driver = FakeDriver(executable.program.program.kernels)
    images = {name: name.encode() for name in executable.program.program.kernels}
    return CudaExecutable(executable.program, images, driver, RuntimeCalls(driver, CublasLt(fake))), driver


def checked(text: str, rtol: float = 1e-5, atol: float = 1e-5, num_results: int | None = None) -> FakeCublasLt:
    """Both runtimes agree with the evaluator; returns the library."""
    module = parse_hlo(text)
    executable = compile_for_gpu(module, "sm_90", WITH_LIBRARY)
    inputs = random_inputs(module, 1)
    expected = leaves_of(xjit.evaluate(module, *inputs))[:num_results]
    fake = FakeCublasLt()
    on_gpu = on_fake_gpu(executable, fake)[0]
    for found in (executable(*inputs), on_gpu(*inputs)):
        for number, (a, e) in enumerate(zip(leaves_of(found), expected, strict=False)):
            compare(a, e, rtol, atol, f"result {number}")
    assert "cublasLtMatmul" in fake.log
    return fake


CALLS = {
    "plain": (call("f32[6,5] f32[5,4]", "f32[6,4]", "$gemm"), 1e-5),
    "alpha and beta": (call("f32[6,5] f32[5,4] f32[6,4]", "f32[6,4]", "$gemm", alpha_real=2.5, beta=-0.5), 1e-5),
    "transposes": (call("f32[5,6] f32[4,5]", "f32[6,4]", lhs="0", rhs="1"), 1e-5),
    "batches": (call("f32[3,6,5] f32[3,5,4]", "f32[3,6,4]", lhs="2", rhs="1", batch="0"), 1e-5),
    "a bias for all batches": (
        call("f64[3,6,5] f64[3,5,4] f64[4]", "f64[3,6,4]", lhs="2", rhs="1", batch="0", epilogue="BIAS_RELU"), 1e-12
    ),
    "one row": (call("f32[1,5] f32[5,4]", "f32[1,4]"), 1e-5),
    "one column": (call("f32[6,5] f32[5,1]", "f32[6,1]"), 1e-5),
    "one step": (call("f32[6,1] f32[1,4]", "f32[6,4]"), 1e-5),
    "bf16 and gelu": (call("bf16[6,8] bf16[8,4] bf16[4]", "bf16[6,4]", epilogue="BIAS_GELU"), 2e-2),
    "f16 to f32": (call("f16[6,8] f16[8,4]", "f32[6,4]", epilogue="RELU"), 1e-5),
    "complex": (call("c64[6,5] c64[5,4]", "c64[6,4]", alpha_real=1, alpha_imag=2), 1e-4),
    "bytes": (call("s8[6,8] s8[4,8]", "s32[6,4]", "$gemm", rhs="1"), 0),
    "gelu and what it was applied to": (
        call("f32[6,5] f32[5,8] f32[8]", "(f32[6,8], f32[6,8], s8[4096])", epilogue="BIAS_GELU_AUX"), 1e-5
    ),
    "tf32": (
        call("f32[6,5] f32[5,4]", "f32[6,4]", precision_config={"algorithm": "ALG_DOT_TF32_TF32_F32"}), 1e-2
    ),
    "f8 with scales": (
        call("f8e4m3fn[16,32] f8e5m2[32,32] f32[] f32[] bf16[32]", "(bf16[16,32], s8[1024])", "$lt$matmul$f8",
             rhs="1", epilogue="BIAS"), 2e-2
    ),
    "f8 with a scaled result, its largest, and C": (
        call("f8e4m3fn[16,32] f8e4m3fn[32,32] bf16[16,32] f32[] f32[] f32[]", "(f8e4m3fn[16,32], f32[], s8[1024])",
             "$lt$matmul$f8", rhs="1", beta=1, damax_output=True), 0.15
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_values_are_those_of_the_meaning(name: str) -> None:
    text, tolerance = CALLS[name]
    results = 2 if "AUX" in text or "damax" in text else 1
    checked(text, tolerance, tolerance, results)


def test_without_the_option_a_call_of_f8_is_kernels() -> None:
    module = parse_hlo(CALLS["f8 with scales"][0])
    inputs = random_inputs(module, 1)
    executable = compile_for_gpu(module, "sm_90", xjit.CompileOptions())
    assert "cublasLt" not in executable.as_text("thunks")
    expected = leaves_of(xjit.evaluate(module, *inputs))[0]
    compare(leaves_of(executable(*inputs))[0], expected, 2e-2, 2e-2, "kernels")


DENSE = """HloModule m
ENTRY e {
  x = bf16[2,40,24] parameter(0)
  w = bf16[24,36] parameter(1)
  b = bf16[36] parameter(2)
  d = bf16[2,40,36] dot(x, w), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  bs = bf16[2,40,36] broadcast(b), dimensions={2}
  s = bf16[2,40,36] add(d, bs)
  z = bf16[] constant(0)
  zs = bf16[2,40,36] broadcast(z), dimensions={}
  m = bf16[2,40,36] maximum(s, zs)
  ROOT r = bf16[2,40,36] negate(m)
}"""


def test_dots_become_calls_with_what_follows_them() -> None:
    executable = compile_for_gpu(parse_hlo(DENSE), "sm_90", WITH_LIBRARY)
    assert [kernel.kind for kernel in executable.kernels] == ["cublaslt", "loop"]
    assert executable.kernels[0].flops == 2 * 80 * 24 * 36
    assert "bf16[36,80] = bf16[36,24] bf16[24,80] in f32 bias relu" in executable.as_text("thunks")
    fake = checked(DENSE, 2e-2, 2e-2)
    assert fake.log[0] == "cublasLtCreate" and fake.log[-1] == "cublasLtMatmul"
    (description,) = fake.attributes("MatmulDesc")
    assert description["sizes"] == (68, 0)  # CUBLAS_COMPUTE_32F, scaled in CUDA_R_32F
    assert 3 not in description and 4 not in description, "nothing is transposed"
    assert description[7] == struct.pack("=I", 6) and description[26] == struct.pack("=i", 14)  # RELU_BIAS of bf16
    sizes = [made["sizes"] for made in fake.attributes("MatrixLayout")]
    assert sizes == [(14, 36, 24, 36), (14, 24, 80, 24), (14, 36, 80, 36), (14, 36, 80, 36)]
    assert fake.workspace[1] == (32 << 20) - 256


def test_a_product_whose_factors_are_one_array() -> None:
    checked("""HloModule m
ENTRY e { x = f32[32,24] parameter(0)
  ROOT d = f32[32,32] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1} }""")


def test_attention_and_what_the_library_lacks_stay_kernels() -> None:
    text = """HloModule m
ENTRY e { x = s32[16,16] parameter(0)
  y = f32[2,8,3,8] parameter(1)
  d = s32[16,16] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  u = f32[2,3,8,8] dot(y, y), lhs_batch_dims={0,2}, rhs_batch_dims={0,2}, lhs_contracting_dims={3},
    rhs_contracting_dims={3}
  ROOT t = (s32[16,16], f32[2,3,8,8]) tuple(d, u) }"""
    executable = compile_for_gpu(parse_hlo(text), "sm_90", WITH_LIBRARY)
    assert "cublaslt" not in {kernel.kind for kernel in executable.kernels}


LACKING = {
    "bytes whose rows are no words": """HloModule m
ENTRY e { x = s8[16,6] parameter(0)
  y = s8[6,16] parameter(1)
  ROOT d = s32[16,16] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }""",
    "gelu of f64": """HloModule m
ENTRY e { x = f64[8,8] parameter(0)
  d = f64[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  d2 = f64[8,8] multiply(d, d)
  d3 = f64[8,8] multiply(d, d2)
  c = f64[] constant(0.044715)
  cs = f64[8,8] broadcast(c), dimensions={}
  cd = f64[8,8] multiply(d3, cs)
  sum = f64[8,8] add(d, cd)
  s = f64[] constant(0.7978845608028654)
  ss = f64[8,8] broadcast(s), dimensions={}
  inner = f64[8,8] multiply(sum, ss)
  t = f64[8,8] tanh(inner)
  one = f64[] constant(1)
  ones = f64[8,8] broadcast(one), dimensions={}
  more = f64[8,8] add(t, ones)
  h = f64[] constant(0.5)
  hs = f64[8,8] broadcast(h), dimensions={}
  gate = f64[8,8] multiply(more, hs)
  ROOT r = f64[8,8] multiply(d, gate) }""",
}


@pytest.mark.parametrize("name", LACKING)
def test_dots_that_cublaslt_has_not_are_kernels_after_all(name: str) -> None:
    module = parse_hlo(LACKING[name])
    executable, inputs = compile_for_gpu(module, "sm_90", WITH_LIBRARY), random_inputs(module, 1)
    assert "cublaslt" not in {kernel.kind for kernel in executable.kernels}
    compare(executable(*inputs), leaves_of(xjit.evaluate(module, *inputs))[0], 1e-9, 1e-9, name)


def test_one_plan_and_one_heuristic_per_shape_and_alignment() -> None:
    text = """HloModule m
ENTRY e { x = f32[16,16] parameter(0)
  a = f32[16,16] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT b = f32[16,16] dot(a, x), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""
    executable = compile_for_gpu(parse_hlo(text), "sm_90", WITH_LIBRARY)
    fake = FakeCublasLt()
    on_gpu = on_fake_gpu(executable, fake)[0]
    x = np.eye(16, dtype=np.float32) * 2
    for _ in range(3):
        assert (on_gpu(x) == x @ x @ x).all()
    assert fake.log.count("cublasLtMatmul") == 6
    assert len(fake.attributes("MatmulDesc")) == 2, "x x, of one array, and a x"
    assert fake.log.count("cublasLtMatmulAlgoGetHeuristic") == fake.log.count("cublasLtMatmulPreferenceDestroy") <= 4


def test_a_program_with_a_product_is_the_same_steps_every_time() -> None:
    executable = compile_for_gpu(parse_hlo(DENSE), "sm_90", WITH_LIBRARY)
    on_gpu = on_fake_gpu(executable, FakeCublasLt())[0]
    assert on_gpu.is_static
    inputs = on_gpu.to_device(*random_inputs(parse_hlo(DENSE), 1))
    seen: list[str] = []
    result = on_gpu(*inputs, on_step=lambda step: seen.append(step.instruction))
    assert len(seen) == 2 and np.isfinite(np.asarray(result).astype(np.float32)).all()
    on_gpu.capture(*inputs)


def test_failures_name_the_instruction() -> None:
    executable = compile_for_gpu(parse_hlo(DENSE), "sm_90", WITH_LIBRARY)
    name = executable.kernels[0].instruction
    inputs = random_inputs(parse_hlo(DENSE), 1)
    fake = FakeCublasLt()
    on_gpu = on_fake_gpu(executable, fake)[0]
    fake.fail = "cublasLtMatmul"
    with pytest.raises(ExecutionError, match=f"cublasLtMatmul failed for '{name}': CUBLAS_STATUS_NOT_SUPPORTED"):
        on_gpu(*inputs)
    fake = FakeCublasLt()
    fake.algorithms = 0
    with pytest.raises(ExecutionError, match=f"no algorithm for '{name}': bf16"):
        on_fake_gpu(executable, fake)[0](*inputs)


@pytest.mark.parametrize(
    ("selected", "found", "failed", "taken"),
    [
        (None, 5, -1, 0),
        ("-1", 5, -1, 0),
        ("0", 5, -1, 0),
        ("3", 5, -1, 3),
        ("3", 3, -1, 0),
        ("3", 5, 3, 0),
        ("999", 500, -1, 127),
    ],
)
def test_the_selected_algorithm_is_taken_if_there_is_one(
    selected: str | None, found: int, failed: int, taken: int
) -> None:
    text = call("f32[6,5] f32[5,4]", "f32[6,4]", **({} if selected is None else {"selected_algorithm": selected}))
    fake = FakeCublasLt()
    fake.algorithms, fake.failed_algorithm = found, failed
    executable = compile_for_gpu(parse_hlo(text), "sm_90", WITH_LIBRARY)
    assert (f"algorithm={selected}" in executable.as_text("thunks")) == (selected not in (None, "-1"))
    on_fake_gpu(executable, fake)[0](*random_inputs(parse_hlo(text), 1))
    assert fake.taken == taken


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (call("s8[6,8] s8[8,4]", "s32[6,4]"), "unless both operands lie along the sum"),
        (call("s8[6,6] s8[4,6]", "s32[6,4]", rhs="1"), "multiples of 4"),
        (call("f32[6,5] f64[5,4]", "f32[6,4]"), "of f32 and f64"),
        (call("f8e5m2[16,32] f8e5m2[32,32] f32[] f32[]", "bf16[16,32]", "$lt$matmul$f8", rhs="1"), "f8e5m2 and f8e5m2"),
        (call("f32[4,6,5] f32[5,4]", "f32[4,6,4]", lhs="2", epilogue="SILU"), "epilogue 'SILU'"),
        (call("f32[6,5]{0,1} f32[5,4] f32[6,4]{0,1}", "f32[6,4]", beta=1), "another layout"),
        (call("f32[6,5] f32[5,4] f32[4]", "f32[6,4]"), "has 3 operands: expected 2"),
        (call("f32[6,5] f32[5,4]", "(f32[6,4], f32[6,4], s8[64])"), "has 3 results"),
        (call("f64[6,5] f64[5,4]", "f64[6,4]", epilogue="GELU"), "of f64 with gelu"),
        (call("f32[6,5] f32[5,6]", "(f32[6,6], f32[6,6])", epilogue="GELU_AUX"), "in rows of 6"),
    ],
)  # fmt: skip
def test_what_the_library_lacks_has_a_reason(text: str, why: str) -> None:
    with pytest.raises(Unsupported, match=why):
        matmul_spec(parse_hlo(text).entry_computation.root_instruction)


def test_the_option_is_refused_where_it_cannot_be() -> None:
    with pytest.raises(InvalidArgument, match="'cpu' is no GPU"):
        xjit.compile(DENSE, options=WITH_LIBRARY)


def test_a_missing_library_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    shared_library.cache_clear()
    monkeypatch.setattr(library.ctypes, "CDLL", _missing)
    monkeypatch.setattr(library.importlib, "import_module", _missing)
    try:
        with pytest.raises(FailedPrecondition, match="libcublasLt is not installed: pip install nvidia-cublas"):
            shared_library(CUBLAS_LT)
        assert not is_installed(CUBLAS_LT)
        executable = compile_for_gpu(parse_hlo(DENSE), "sm_90", WITH_LIBRARY)
        driver = FakeDriver(executable.program.program.kernels)
        with pytest.raises(FailedPrecondition, match="pip install nvidia-cublas"):
            CudaExecutable(executable.program, {}, driver)
    finally:
        shared_library.cache_clear()


def _missing(name: str) -> Any:
    raise OSError(name)
