"""Measuring cublasLt's algorithms while a program is compiled: the driver and the library are those of tests."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Iterator

import pytest

import xjit
from tests.runtime.test_cublaslt import CALLS
from tests.support.fake_cublaslt import FakeCublasLt
from tests.support.fake_cuda import FakeDriver
from tests.support.kernels import compare, leaves_of, random_inputs
from xjit.gpu_compiler import DeviceExecutable, compile_for_gpu
from xjit.gpu_tuning import MAX_ALGORITHMS, PRODUCTS_PER_RUN, CublasLtDevice, product_pickers
from xjit.hlo.diagnostics import ExecutionError, InvalidArgument
from xjit.passes.framework.base import PassWarning
from xjit.passes.gpu.autotuner import Algorithm, Array, Autotuner
from xjit.runtime.cuda.libraries.cublaslt import CublasLt
from xjit.text.parser import parse_hlo

PRODUCT = """HloModule m ENTRY e { x = f32[32,24] parameter(0)  y = f32[24,16] parameter(1)
  ROOT d = f32[32,16] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""
SECONDS = {0: 50, 1: 40, 2: 5, 3: 10, 4: 20}
"""Microseconds of each algorithm."""


class Gpu:
    """A driver and a library whose algorithm n takes SECONDS[n]; some are `wrong`, or write `beyond` their result."""

    def __init__(self) -> None:
        self.driver = FakeDriver({})
        self.library = FakeCublasLt()
        self.library.algorithms = len(SECONDS)
        self.library.after_product = self._after_product
        self.wrong: set[int] = set()
        self.beyond: set[int] = set()

    def _after_product(self, number: int, d: Array) -> None:
        self.driver.pass_time(SECONDS[number])
        if number in self.wrong:
            d += d.dtype.type(9)
        if number in self.beyond:
            ctypes.memset(d.ctypes.data + d.nbytes, 0, 4)

    @property
    def products(self) -> int:
        """How many were computed."""
        return self.library.log.count("cublasLtMatmul")

    def device(self) -> CublasLtDevice:
        """The device, for an autotuner."""
        return CublasLtDevice(self.driver, CublasLt(self.library))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gpu]:
    """What target "cuda" finds. It gets all of its memory and events back but those that programs keep."""
    made = Gpu()
    monkeypatch.setattr("xjit.gpu_compiler.cuda_driver", lambda device=0: made.driver)
    monkeypatch.setattr("xjit.gpu_compiler.has_cublaslt", lambda wanted: wanted is not False)
    monkeypatch.setattr("xjit.runtime.cuda.runtime_calls.load_cublaslt", lambda: CublasLt(made.library))
    yield made
    assert not made.driver.events


def compiled(level: int, text: str = PRODUCT, deterministic: bool = False) -> tuple[DeviceExecutable, str]:
    """A program, and the algorithm of its only product, "" if none is selected."""
    options = xjit.CompileOptions(xla_gpu_autotune_level=level, deterministic=deterministic)
    executable = xjit.compile(text, "cuda", options)
    assert isinstance(executable, DeviceExecutable)
    (line,) = (line for line in executable.as_text("thunks").splitlines() if " in f32" in line)
    return executable, line.partition("algorithm=")[2].split(" ")[0]


def test_the_fastest_right_algorithm_is_taken_by_the_program(gpu: Gpu) -> None:
    gpu.wrong, gpu.beyond, gpu.library.failed_algorithm = {2}, {3}, 1
    with pytest.warns(PassWarning) as warned:
        executable, chosen = compiled(4)
    assert [str(w.message).rpartition(" of ")[0] for w in warned] == ["algorithm 2", "algorithm 3"]
    assert [str(w.message).split(" ", 4)[4] for w in warned] == [
        "gives another result than the first one",
        "writes beyond its buffers",
    ]
    assert chosen == "4" and gpu.driver.live_memory == 0
    x, y = random_inputs(parse_hlo(PRODUCT), 1)
    compare(leaves_of(executable(x, y))[0], x @ y, 1e-5, 1e-5, "product")
    assert gpu.library.taken == 4


@pytest.mark.parametrize("level", [1, 2, 3])
def test_lower_levels_only_time(gpu: Gpu, level: int) -> None:
    gpu.wrong, gpu.beyond = {2}, {2}
    assert compiled(level)[1] == "2"


def test_a_second_compilation_measures_nothing(gpu: Gpu) -> None:
    assert compiled(4)[1] == "2"
    products = gpu.products
    assert products == len(SECONDS) * 3 * PRODUCTS_PER_RUN  # one run to warm up, and two that take as long
    assert compiled(4)[1] == compiled(4, PRODUCT.replace("HloModule m", "HloModule other"))[1] == "2"
    assert gpu.products == products
    assert compiled(1)[1] == "2" and gpu.products > products, "another level asks for other measurements"


def test_by_default_nothing_is_measured(gpu: Gpu) -> None:
    executable, chosen = compiled(0)
    assert chosen == "" and gpu.library.log == ["cublasLtCreate"]
    executable(*random_inputs(parse_hlo(PRODUCT), 1))
    assert gpu.library.taken == 0
    assert not product_pickers(gpu.driver, xjit.CompileOptions(xla_gpu_autotune_level=4)), "without the library"


def test_where_results_must_not_depend_on_time_none_is_taken(gpu: Gpu) -> None:
    assert compiled(4, deterministic=True)[1] == "0" and not gpu.products
    assert compiled(4)[1] == "2", "what was chosen without times is no measurement"


@pytest.mark.parametrize("function", ["cublasLtMatmulAlgoGetHeuristic", "cublasLtMatmulDescCreate"])
def test_what_cannot_be_measured_warns_and_keeps_the_default(gpu: Gpu, function: str) -> None:
    gpu.library.fail = function
    with pytest.warns(PassWarning, match=f"no algorithm was measured for .*: {function} failed"):
        executable, chosen = compiled(4)
    gpu.library.fail = ""
    assert chosen == ""
    x, y = random_inputs(parse_hlo(PRODUCT), 1)
    compare(leaves_of(executable(x, y))[0], x @ y, 1e-5, 1e-5, "product")


def test_a_library_that_refuses_all_products_leaves_the_default(gpu: Gpu) -> None:
    gpu.library.fail = "cublasLtMatmul"
    with pytest.warns(PassWarning, match="no algorithm of .* runs and is right"):
        chosen = compiled(4)[1]
    assert chosen == "" and gpu.driver.live_memory == 0


def test_kernels_and_other_targets_measure_nothing(gpu: Gpu) -> None:
    options = xjit.CompileOptions(xla_gpu_autotune_level=4, xla_gpu_enable_cublaslt=True)
    assert "algorithm=" not in xjit.compile(PRODUCT, "cuda-sim:sm_90", options).as_text("thunks")
    x, y = random_inputs(parse_hlo(PRODUCT), 1)
    on_cpu = xjit.compile(PRODUCT, options=xjit.CompileOptions(xla_gpu_autotune_level=4))
    compare(leaves_of(on_cpu(x, y))[0], x @ y, 1e-5, 1e-5, "product")
    assert not gpu.library.log


def test_dots_that_stay_kernels_are_not_measured(gpu: Gpu) -> None:
    text = PRODUCT.replace("f32[", "s32[")  # the library has no such product
    gpu.driver = FakeDriver(compile_for_gpu(parse_hlo(text), "sm_90", xjit.CompileOptions()).program.program.kernels)
    executable = xjit.compile(text, "cuda", xjit.CompileOptions(xla_gpu_autotune_level=4))
    x, y = random_inputs(parse_hlo(text), 1)
    assert (leaves_of(executable(x, y))[0] == x @ y).all() and not gpu.products


@pytest.mark.parametrize("name", CALLS)
def test_every_kind_of_product_can_be_measured(name: str) -> None:
    gpu, call = Gpu(), parse_hlo(CALLS[name][0]).entry_computation.root_instruction
    tuner = Autotuner(gpu.device())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chosen = tuner(call)
    assert chosen is not None and chosen.algorithm == 2
    assert gpu.driver.live_memory == 0 and not gpu.driver.events


def test_the_result_is_that_of_the_call_in_its_layout() -> None:
    text = CALLS["alpha and beta"][0].replace("f32[6,5] parameter", "f32[6,5]{0,1} parameter")
    call = parse_hlo(text).entry_computation.root_instruction
    a, b, c = random_inputs(parse_hlo(text), 1)
    before, gpu = c.copy(), Gpu()
    trial = gpu.device().run(call, Algorithm(3), [a, b, c], True)
    compare(trial.result.reshape(6, 4), 2.5 * (a @ b) - 0.5 * c, 1e-5, 1e-5, "product")
    assert (c == before).all() and trial.red_zones_are_intact
    assert trial.seconds == pytest.approx(1e-6 * (SECONDS[3] + 1 / PRODUCTS_PER_RUN))


def test_a_device_says_what_it_is_and_has() -> None:
    gpu, call = Gpu(), parse_hlo(CALLS["plain"][0]).entry_computation.root_instruction
    device = gpu.device()
    assert device.description == "sm_90, cublasLt 13.12.11" and device.free_bytes() == gpu.driver.free_memory
    gpu.library.algorithms, gpu.library.failed_algorithm = 100, 1
    assert [a.number for a in device.algorithms(call)] == [n for n in range(MAX_ALGORITHMS) if n != 1]
    gpu.library.algorithms = 0
    with pytest.raises(ExecutionError, match="no algorithm"):
        device.algorithms(call)


def test_only_levels_of_xla_are_taken() -> None:
    for level in (-1, 5):
        with pytest.raises(InvalidArgument, match=f"xla_gpu_autotune_level is {level}, expected 0, 1, 2, 3 or 4"):
            xjit.CompileOptions(xla_gpu_autotune_level=level)
