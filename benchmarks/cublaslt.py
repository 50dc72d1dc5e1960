"""A matrix product by NVIDIA's cublasLt, through ctypes: what `gpu.py` holds its own products against.

Only what that takes: row-major D = A B without bias, the best algorithm of the library's heuristic. Enumeration values
are those of cublasLt.h and library_types.h.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from dataclasses import dataclass
from typing import Any

from xjit.hlo.diagnostics import FailedPrecondition
from xjit.runtime.cuda import CudaDriver

_DATA_TYPES = {"bf16": 14, "tf32": 0, "f32": 0}  # CUDA_R_16BF, CUDA_R_32F
_COMPUTE_TYPES = {"bf16": 68, "tf32": 77, "f32": 68}  # CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32
_SCALE_TYPE = 0  # CUDA_R_32F
_MAX_WORKSPACE_BYTES = 1  # CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
_WORKSPACE = 32 << 20
_HEURISTIC_BYTES = 96  # of cublasLtMatmulHeuristicResult_t, which begins with the algorithm
_WIDTH = {"bf16": 2, "tf32": 4, "f32": 4}
REPEATS = 10


@dataclass(slots=True)
class _Library:
    api: ctypes.CDLL

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function; FailedPrecondition if its status is not success."""
        status = getattr(self.api, name)(*arguments)
        if status:
            raise FailedPrecondition(f"{name} failed with status {status}")


def _load() -> _Library:
    for name in ("libcublasLt.so.13", "libcublasLt.so.12", ctypes.util.find_library("cublasLt")):
        try:
            return _Library(ctypes.CDLL(name))
        except (OSError, TypeError):  # TypeError: no such library was found
            continue
    try:
        import cuda.pathfinder as pathfinder  # type: ignore[import-not-found]

        return _Library(ctypes.CDLL(pathfinder.load_nvidia_dynamic_lib("cublasLt").abs_path))
    except Exception as error:  # not installed, or no library that it knows of
        raise FailedPrecondition("cublasLt is not installed: pip install nvidia-cublas") from error


def seconds_of(m: int, n: int, k: int, kind: str, driver: CudaDriver) -> float:
    """Returns the best time of a product [m, k] x [k, n] of "bf16", "tf32" or "f32" on the device.

    Errors: FailedPrecondition without the library, or with the name of the function that failed.
    """
    library = _load()
    driver.make_current()
    handle, description, preference = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    library.call("cublasLtCreate", ctypes.byref(handle))
    library.call("cublasLtMatmulDescCreate", ctypes.byref(description), _COMPUTE_TYPES[kind], _SCALE_TYPE)
    # The library counts columns first: D^T = B^T A^T has the rows of ours as columns.
    layouts = [_layout(library, kind, rows, columns) for rows, columns in ((n, k), (k, m), (n, m))]
    library.call("cublasLtMatmulPreferenceCreate", ctypes.byref(preference))
    size = ctypes.c_size_t(_WORKSPACE)
    library.call("cublasLtMatmulPreferenceSetAttribute", preference, _MAX_WORKSPACE_BYTES, ctypes.byref(size), 8)
    heuristic, count = ctypes.create_string_buffer(_HEURISTIC_BYTES), ctypes.c_int()
    b, a, d = layouts
    library.call(
        "cublasLtMatmulAlgoGetHeuristic", handle, description, b, a, d, d, preference, 1, heuristic, ctypes.byref(count)
    )
    if not count.value:
        raise FailedPrecondition(f"cublasLt has no algorithm for {m}x{k}x{n} of {kind}")
    stream, width = driver.create_stream(), _WIDTH[kind]
    memory = [driver.allocate(n_bytes, stream) for n_bytes in (width * k * n, width * m * k, width * m * n, _WORKSPACE)]
    one, zero = ctypes.c_float(1.0), ctypes.c_float(0.0)
    b_at, a_at, d_at, scratch = map(ctypes.c_void_p, memory)
    best = float("inf")
    for _ in range(REPEATS):
        start = driver.record_time(stream)
        library.call(
            "cublasLtMatmul", handle, description, ctypes.byref(one), b_at, b, a_at, a, ctypes.byref(zero), d_at, d,
            d_at, d, heuristic, scratch, ctypes.c_size_t(_WORKSPACE), ctypes.c_void_p(stream),
        )  # fmt: skip
        end = driver.record_time(stream)
        driver.synchronize(stream)
        best = min(best, driver.seconds_between(start, end))
        driver.destroy_event(start)
        driver.destroy_event(end)
    for address in memory:
        driver.free(address, stream)
    return best


def _layout(library: _Library, kind: str, rows: int, columns: int) -> ctypes.c_void_p:
    layout = ctypes.c_void_p()
    sizes = (ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(rows))
    library.call("cublasLtMatrixLayoutCreate", ctypes.byref(layout), _DATA_TYPES[kind], *sizes)
    return layout
