"""A matrix product by NVIDIA's cublasLt, by the runtime's binding: what `gpu.py` holds xjit's own products against."""

from __future__ import annotations

import json

from xjit.passes.gpu.matmul_calls import matmul_spec
from xjit.runtime.cuda import CudaDriver
from xjit.runtime.cuda.libraries.cublaslt import load_cublaslt
from xjit.text.parser import parse_hlo
from xjit.thunks import MatmulSpec

_WORKSPACE = 32 << 20
_TYPES = {"bf16": "bf16", "tf32": "f32", "f32": "f32"}
REPEATS = 10


def product(m: int, n: int, k: int, kind: str) -> MatmulSpec:
    """A row-major product [m, k] x [k, n] of "bf16", "tf32" or "f32"."""
    dtype = _TYPES[kind]
    numbers = {"lhs_contracting_dimensions": ["1"], "rhs_contracting_dimensions": ["0"]}
    precision = {"algorithm": "ALG_DOT_TF32_TF32_F32"} if kind == "tf32" else {}
    config = json.dumps({"dot_dimension_numbers": numbers, "precision_config": precision})
    result = f"({dtype}[{m},{n}], s8[{_WORKSPACE}])"
    text = f"""HloModule product
ENTRY e {{
  a = {dtype}[{m},{k}] parameter(0)
  b = {dtype}[{k},{n}] parameter(1)
  ROOT d = {result} custom-call(a, b), custom_call_target="__cublas$lt$matmul", backend_config={config}
}}"""
    return matmul_spec(parse_hlo(text).entry_computation.root_instruction)


def seconds_of(m: int, n: int, k: int, kind: str, driver: CudaDriver) -> float:
    """Returns the best time of a product [m, k] x [k, n] of "bf16", "tf32" or "f32" on the device.

    Errors: FailedPrecondition without the library; ExecutionError with the name of the function that failed.
    """
    spec = product(m, n, k, kind)
    driver.make_current()
    library = load_cublaslt()
    stream, width = driver.create_stream(), spec.a.kind.byte_width
    sizes = (width * m * k, width * k * n, width * m * n, _WORKSPACE)
    memory = [driver.allocate(size, stream) for size in sizes]
    best = float("inf")
    for _ in range(REPEATS):
        start = driver.record_time(stream)
        library.multiply(spec, memory, stream, "product")
        end = driver.record_time(stream)
        driver.synchronize(stream)
        best = min(best, driver.seconds_between(start, end))
        driver.destroy_event(start)
        driver.destroy_event(end)
    for address in memory:
        driver.free(address, stream)
    return best
