"""Measuring the algorithms of library calls, on a device that multiplies with NumPy and takes the times it is told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from xjit.hlo import HloInstruction
from xjit.hlo.diagnostics import Unsupported
from xjit.passes.framework.base import PassWarning
from xjit.passes.gpu.algorithm_pickers import Choices, Measured
from xjit.passes.gpu.autotuner import MAX_RUNS, Algorithm, Array, Autotuner, Trial, tuned_pickers
from xjit.text.parser import parse_hlo

GEMM = """HloModule m ENTRY e { a = f32[6,5] parameter(0) b = f32[5,4] parameter(1) c = f32[6,4] parameter(2)
  ROOT g = f32[6,4] custom-call(a, b, c), custom_call_target="__cublas$gemm", output_to_operand_aliasing={{}: (2, {})},
    backend_config={"alpha_real":1,"beta":1,"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],
    "rhs_contracting_dimensions":["0"]}} }"""
CONV = """HloModule m ENTRY e { x = f32[1,8,8,4] parameter(0) w = f32[3,3,4,16] parameter(1) b = f32[16] parameter(2)
  ROOT cc = (f32[1,6,6,16], u8[0]) custom-call(x, w, b), window={size=3x3}, dim_labels=b01f_01io->b01f,
    custom_call_target="__cudnn$convBiasActivationForward", backend_config={"activation_mode":"none"} }"""


class Device:
    """Algorithm n takes `seconds(n, number of the run)`, and `faults` says what is wrong with it."""

    def __init__(self, algorithms: Sequence[Algorithm], seconds: Callable[[int, int], float]) -> None:
        self.description = "a device"
        self.lock: Any = nullcontext()
        self.faults: dict[int, str] = {}
        self.runs: list[int] = []
        self.seen: list[Array] = []
        self._algorithms, self._seconds = algorithms, seconds

    def algorithms(self, call: HloInstruction) -> Sequence[Algorithm]:
        del call
        return self._algorithms

    def free_bytes(self) -> int:
        return 1000

    def run(self, call: HloInstruction, algorithm: Algorithm, operands: Sequence[Array], with_red_zones: bool) -> Trial:
        number, fault = algorithm.number, self.faults.get(algorithm.number, "")
        if fault == "fails":
            raise Unsupported(f"algorithm {number}", call.span)
        seconds = self._seconds(number, self.runs.count(number))
        self.runs.append(number)
        if call.operand_count == 3 and not call.shape.is_tuple:
            self.seen.append(operands[2].copy())
            operands[2][...] += operands[0] @ operands[1]  # as a product does that may write over C
            result = operands[2] + (9 if fault == "wrong" else 0.01 * number)
        else:
            result = np.zeros(3, np.float32)
        return Trial(seconds, result, not (with_red_zones and fault == "beyond"))


def _call(text: str) -> HloInstruction:
    return next(i for i in parse_hlo(text).entry_computation.instructions if i.opcode == "custom-call")


def _device(*numbers: int) -> Device:
    return Device([Algorithm(n, 64 * n, n == 3) for n in numbers], lambda number, _: 1.0 / number)


def test_the_fastest_is_taken_with_what_it_needs() -> None:
    assert Autotuner(_device(1, 3, 2))(_call(GEMM)) == Measured(3, 192, True)


@pytest.mark.parametrize(("level", "chosen"), [(1, 4), (2, 4), (3, 4), (4, 2)])
def test_only_the_highest_level_rejects_what_is_wrong(level: int, chosen: int) -> None:
    device = _device(1, 2, 3, 4, 5)
    device.faults = {3: "beyond", 4: "wrong", 5: "fails"}
    if level < 4:
        assert Autotuner(device, level)(_call(GEMM)) == Measured(chosen, 64 * chosen)
        return
    with pytest.warns(PassWarning) as warned:
        assert Autotuner(device, level)(_call(GEMM)) == Measured(chosen, 64 * chosen)
    assert [str(w.message).split(" g ")[1] for w in warned] == [
        "writes beyond its buffers",
        "gives another result than the first one",
    ]


@pytest.mark.filterwarnings("ignore::xjit.passes.framework.base.PassWarning")
def test_the_first_right_result_is_the_reference_and_there_may_be_none() -> None:
    device = _device(1, 2, 3)
    device.faults = {1: "beyond"}
    assert Autotuner(device)(_call(GEMM)) == Measured(3, 192, True)
    device.faults = {1: "beyond", 2: "fails", 3: "beyond"}
    assert Autotuner(device)(_call(GEMM)) is None


@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_what_runs_are_given(level: int) -> None:
    device = _device(1, 2)
    Autotuner(device, level)(_call(GEMM))
    is_zero = not device.seen[0].any()
    same = all((c == device.seen[0]).all() for c in device.seen)
    assert is_zero == (level == 1) and same == (level != 2)  # zeros stay zeros, and are written over by zeros
    again = _device(1, 2)
    Autotuner(again, level)(_call(GEMM))
    assert all((a == b).all() for a, b in zip(device.seen, again.seen, strict=True))


def test_runs_end_when_times_are_steady() -> None:
    device = Device([Algorithm(1), Algorithm(2)], lambda number, run: 1.0 if number == 1 else 1.0 / (run + 1))
    assert Autotuner(device)(_call(GEMM)) == Measured(2)
    assert device.runs.count(1) == 3 and device.runs.count(2) == 1 + MAX_RUNS


def test_no_time_is_taken_where_results_must_not_depend_on_it_and_nothing_at_level_0() -> None:
    device = _device(1, 3)
    assert Autotuner(device, deterministic=True)(_call(GEMM)) == Measured(1, 64)
    assert Autotuner(device, 0)(_call(GEMM)) is None
    assert not device.runs
    with pytest.warns(PassWarning, match="no algorithm of g runs and is right"):
        assert Autotuner(_device(), deterministic=True)(_call(GEMM)) is None


def test_candidates_are_allowed_fit_and_do_what_is_asked_for() -> None:
    algorithms = [Algorithm(1), Algorithm(2, 2000), Algorithm(3, forces_relu=True), Algorithm(4)]
    device = Device(algorithms, lambda number, _: 1.0 / number)
    tuner = Autotuner(device, denied=frozenset({("__cudnn$convBiasActivationForward", 4)}))
    assert tuner(_call(CONV)) == Measured(1)
    assert tuner(_call(CONV.replace('"none"', '"relu"'))) == Measured(3)
    assert tuner(_call(GEMM)) == Measured(4)


def test_a_device_measures_one_thing_at_a_time() -> None:
    device, held = _device(1), threading.Lock()
    device.lock = held
    was_held: list[bool] = []
    run = device.run

    def watched(*arguments: Any) -> Trial:
        was_held.append(held.locked())
        return run(*arguments)

    device.run = watched  # type: ignore[method-assign]
    Autotuner(device)(_call(GEMM))
    assert was_held and all(was_held) and not held.locked()


def test_pickers_measure_once_per_device() -> None:
    choices: Choices = {}
    first, second = _device(1, 2), _device(1, 2)
    second.description = "another device"
    for device in (first, first, second):
        module = parse_hlo(GEMM)
        runs = len(device.runs)
        assert [p.run(module) for p in tuned_pickers(Autotuner(device), choices)] == [False, True]
        config = module.entry_computation.root_instruction.parsed_backend_config
        assert config["selected_algorithm"] == "2"
        assert (len(device.runs) > runs) == (runs == 0)
    conv = parse_hlo(CONV)
    assert [p.run(conv) for p in tuned_pickers(Autotuner(first), choices)] == [True, False]
    assert len(choices) == 3
