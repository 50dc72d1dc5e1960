"""LAPACK-like calls on GPUs: on the simulator, and by the runtime with libraries of its own. Nothing runs on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xjit
from tests.support.fake_cuda import FakeDriver
from tests.support.fake_solvers import FakeSolvers
from tests.support.kernels import compare, leaves_of
from tests.support.lapack import Variant, inputs, module_text
from xjit.gpu_compiler import SimulatedExecutable, compile_for_gpu
from xjit.hlo.diagnostics import ExecutionError, FailedPrecondition, Unsupported
from xjit.ops.lapack_targets import LAPACK_TARGETS
from xjit.runtime.cuda import CudaExecutable
from xjit.runtime.cuda.libraries.cusolver import Solvers
from xjit.runtime.cuda.runtime_calls import RuntimeCalls
from xjit.text.parser import parse_hlo
from xjit.thunks.solver_spec import SOLVER_FUNCTIONS, solver_function

_SVD = {"m": 5, "n": 3, "x": 3, "y": 3}
_REFLECTED = {"m": 5, "n": 4, "k": 3, "p": 3, "q": 5}
_SOLVED = {"side": "R", "uplo": "L", "trans_x": "T", "diag": "U"}
VARIANTS: dict[str, list[Variant]] = {
    "potrf": [Variant({"n": 4}, {"uplo": "L"}, (2,)), Variant({"n": 3}, {"uplo": "U"})],
    "getrf": [Variant({"m": 5, "n": 3}, {}, (2, 2)), Variant({"m": 0, "n": 3}, {})],
    "geqrf": [Variant({"m": 3, "n": 5}, {}, (3,))],
    "orgqr": [Variant({"m": 5, "n": 4, "k": 3}, {}, (2,))],
    "ormqr": [Variant(_REFLECTED, {"left": True, "transpose": True}, (2,))],
    "syevd": [Variant({"n": 4}, {"mode": "V", "uplo": "L"}, (2,)), Variant({"n": 1}, {"mode": "V", "uplo": "U"})],
    "sytrd": [Variant({"n": 4}, {"uplo": "U"}, (2,))],
    "gesdd": [Variant(_SVD, {"mode": "S"}, (2,)), Variant({"m": 3, "n": 5, "x": 3, "y": 5}, {"mode": "A"})],
    "gesvd": [Variant({"m": 3, "n": 5, "x": 3, "y": 3}, {"mode": "S"}, (2,))],
    "trsm": [Variant({"m": 4, "n": 3, "q": 3}, _SOLVED, (2,)), Variant({"m": 3, "n": 2, "q": 3}, _SOLVED | {"side": "L"})],
}  # fmt: skip
"""By LAPACK's name for real matrices. Vectors of singular and eigenvalues have the signs of SciPy's LAPACK everywhere."""

_COMPLEX = {"orgqr": "ungqr", "ormqr": "unmqr", "syevd": "heevd", "sytrd": "hetrd"}


def on_fake_gpu(executable: SimulatedExecutable, fake: FakeSolvers) -> tuple[CudaExecutable, FakeDriver]:
    """The program on a driver and libraries of its own."""
    driver = FakeDriver(executable.program.program.kernels)
    images = {name: name.encode() for name in executable.program.program.kernels}
    calls = RuntimeCalls(driver, solvers=Solvers(driver, fake, fake))
    return CudaExecutable(executable.program, images, driver, calls), driver


@pytest.mark.parametrize("letter", "dz")
@pytest.mark.parametrize("routine", VARIANTS)
def test_values_are_those_of_lapack(routine: str, letter: str) -> None:
    name = _COMPLEX.get(routine, routine) if letter == "z" else routine
    target = f"lapack_{letter}{name}_ffi"
    text, arrays = module_text(target, VARIANTS[routine]), inputs(target, VARIANTS[routine])
    executable = compile_for_gpu(parse_hlo(text), "sm_90", xjit.CompileOptions())
    expected = leaves_of(xjit.evaluate(parse_hlo(text), *arrays))
    fake = FakeSolvers()
    on_gpu, driver = on_fake_gpu(executable, fake)
    for found in (executable(*arrays), on_gpu(*arrays)):
        for number, pair in enumerate(zip(leaves_of(found), expected, strict=True)):
            if not (routine.startswith("ges") and number % 5 == 0):  # where the matrix was
                compare(*pair, 1e-10, 1e-10, f"result {number}")
    function = solver_function(name, letter)
    count = sum(max(int(np.prod(v.batch)), 1) for v in VARIANTS[routine] if 0 not in v.sizes.values())
    assert fake.log.count(function) == count, "one call for each matrix"
    assert set(fake.streams) == {on_gpu.stream}
    assert not on_gpu.is_static
    del found, pair
    assert driver.live_memory <= len(executable.program.constants), "scratch memory was given back"


def test_every_library_function_serves_all_types_that_lapack_has() -> None:
    served = [(row.routine, row.letter) for row in LAPACK_TARGETS.values() if row.routine in SOLVER_FUNCTIONS]
    assert sorted(served) == sorted((r, letter) for r, (_, letters) in SOLVER_FUNCTIONS.items() for letter in letters)
    assert len(served) == 4 * len(VARIANTS)


def test_what_no_library_has_is_refused() -> None:
    text = module_text("lapack_dgees_ffi", [Variant({"n": 3}, {"mode": "V", "sort": "N"})])
    with pytest.raises(Unsupported, match="cuSOLVER and cuBLAS have no gees; those of GPUs are potrf"):
        compile_for_gpu(parse_hlo(text), "sm_90", xjit.CompileOptions())


def test_failures_and_missing_libraries_name_the_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    variants = [Variant({"n": 3}, {"uplo": "L"})]
    text, arrays = module_text("lapack_dpotrf_ffi", variants), inputs("lapack_dpotrf_ffi", variants)
    executable = compile_for_gpu(parse_hlo(text), "sm_90", xjit.CompileOptions())
    fake = FakeSolvers()
    on_gpu, driver = on_fake_gpu(executable, fake)
    fake.fail = "cusolverDnDpotrf"
    with pytest.raises(ExecutionError, match="cusolverDnDpotrf failed for 'c0': CUSOLVER_STATUS_INTERNAL_ERROR"):
        on_gpu(*arrays)

    def missing(driver: object) -> Any:
        raise FailedPrecondition("libcusolver is not installed: pip install nvidia-cusolver")

    monkeypatch.setattr("xjit.runtime.cuda.runtime_calls.load_solvers", missing)
    with pytest.raises(FailedPrecondition, match=r"'c0' needs cusolverDnDpotrf: .*pip install nvidia-cusolver"):
        CudaExecutable(executable.program, {n: n.encode() for n in executable.program.program.kernels}, driver)


def _gpu_programs() -> dict[str, Callable[[Any, Any], Any]]:
    import jax.numpy as jnp
    from jax import lax

    def wide(x: Any, algorithm: Any) -> Any:
        u, s, vt = lax.linalg.svd(x[:, :3, :], full_matrices=False, algorithm=algorithm)
        return (u * s[:, None, :]) @ vt

    return {
        "cusolver_potrf_ffi": lambda s, x: jnp.linalg.cholesky(s),
        "cusolver_orgqr_ffi": lambda s, x: jnp.linalg.qr(x)[0],
        "cu_lu_pivots_to_permutation": lambda s, x: lax.linalg.lu(x)[2].astype(np.float32),
        "cusolver_syevd_ffi": lambda s, x: jnp.linalg.eigvalsh(s),
        "cusolver_gesvdj_ffi": lambda s, x: wide(x + 1j * s, None),
        "cusolver_gesvd_ffi": lambda s, x: wide(x, lax.linalg.SvdAlgorithm.QR),
        "cusolver_sytrd_ffi": lambda s, x: lax.linalg.tridiagonal(s)[1],
    }


_IN_THE_DEFAULT_SUITE = ("cusolver_orgqr_ffi", "cusolver_gesvdj_ffi")


@pytest.mark.parametrize(
    "target", [t if t in _IN_THE_DEFAULT_SUITE else pytest.param(t, marks=pytest.mark.slow) for t in _gpu_programs()]
)
def test_programs_as_jax_writes_them_for_gpus(target: str) -> None:
    import jax

    function = _gpu_programs()[target]
    x = np.random.default_rng(0).standard_normal((2, 5, 5)).astype(np.float32)
    s = x @ x.transpose(0, 2, 1) + 5 * np.eye(5, dtype=np.float32)
    lowered = jax.jit(function, keep_unused=True).trace(s, x).lower(lowering_platforms=("cuda",))
    text = str(lowered.compiler_ir("stablehlo"))
    assert f"@{target}" in text
    module = xjit.from_stablehlo(text)
    expected = np.asarray(jax.jit(function)(s, x))
    compare(xjit.compile(module, "cuda-sim")(s, x), expected, 1e-4, 1e-4, "simulated")
    compare(xjit.evaluate(module, s, x), expected, 1e-4, 1e-4, "evaluated")
