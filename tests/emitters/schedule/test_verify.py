"""The verifier of schedules: what means nothing, or reaches beyond its arrays, is refused with its place."""

from __future__ import annotations

import pytest

import xjit
from tests.emitters.schedule.test_blocked_softmax import SOFTMAX, online
from tests.support.kernels import view_of
from tests.support.random_schedules import RandomSchedules
from xjit import optimized_module
from xjit.emitters import unnested
from xjit.emitters.schedule.parser import parse_schedule
from xjit.emitters.schedule.renumber import renumber
from xjit.emitters.schedule.verify import ScheduleError, verify_schedule
from xjit.emitters.schedule.verify_view import verify_for_view
from xjit.llvm.target import Target
from xjit.text.parser import parse_hlo


@pytest.mark.parametrize("seed", range(20))
def test_random_schedules_verify_print_and_parse(seed: int) -> None:
    make = RandomSchedules(seed)
    for _ in range(20):
        schedule = make.schedule()
        verify_schedule(schedule)
        numbered = renumber(schedule)
        verify_schedule(numbered)
        assert parse_schedule(str(numbered)) == numbered
        assert renumber(numbered) == numbered


WIDE = Target.for_features("avx512")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("out0[d0, d6]", "out0[d0, d4]", "out0[...] = %y: d4 has no value here"),
        ("stage %scores[d0, d1", "stage %scores[d0, d6", "stage %scores: d6 has no value here"),
        ("vector(16) d6", "task vector(16) d6", "task d6: stands in the task loop of d0"),
        ("vector(16) d6", "thread d6", "thread d6: stands in the task loop of d0"),
        ("serial d4", "vector(4) d4", "lanes within lanes"),
        ("vector(16) d6", "unroll d6", "unroll d6: more than 64 steps are unrolled"),
        ("vector(16) d6 in [0, 39999] {", "serial d6 in [0, 39999] transposes d0 {", "serial d6: transposes d0"),
        ("    tile %top in register\n", "", "init %top: it has no tile"),
        ("      init %total[d0]\n", "", "serial d1: %total has no initial value here"),
        ("tile %top in register", "tile %top over d2 in register", "carries %top, whose accumulators are not single"),
        ("tile %scores over d2", "tile %scores over d9", "tile %scores: no statement binds d9"),
        ("carries %top, %total {", "carries %top {", "rescale %total: no loop around it carries %total"),
        ("%top[d0] tree over vector(16) x 4 d3", "%top[d0] serial over vector(16) x 4 d3", "serial with lanes"),
        ("%top[d0] tree over vector(16) x 4 d3", "%top[d0] select over vector(16) x 4 d3", "those of a select"),
        ("%top[d0] tree over vector(16) x 4 d3 in [0, 4095]", "%top[d0] tree over d3 in [0, 4095]", "without lanes"),
    ],
)  # fmt: skip
def test_what_means_nothing_is_refused(old: str, new: str, message: str) -> None:
    text = str(online(WIDE))
    assert old in text
    with pytest.raises(ScheduleError) as error:
        verify_schedule(parse_schedule(text.replace(old, new)))
    assert message in str(error.value) and "schedule %y" in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("out0[d0, d6]", "out0[d0, d6 + 1]", "index 1 is d6 + 1, in [1, 40000], outside of f32[3,40000]"),
        ("out0[d0, d6]", "out0[d0]", "1 indices for f32[3,40000]"),
        ("out0[d0, d6]", "out2[d0, d6]", "there are 1 results"),
        ("%y[d0, d6]", "%y#1[d0, d6]", "there is no value number 1"),
        ("%y[d0, d6]", "%nobody[d0, d6]", "the view has no such instruction"),
        ("init %top[d0]", "init %top[d0 + 3]", "outside of f32[3]"),
        ("[d0, d1 * 4096 + d2]", "[d0, d1 * 8192 + d2]", "outside of f32[3,40000]"),
        ("d6 in [0, 39999]", "d6 in [0, 39990]", "out0: 119973 elements are stored, it has 120000"),
        ("tile %scores over d2 in stack", "tile %scores over d1, d2, d6 in stack", "bytes of stack memory are too many"),
        ("tile %scores over d2 in stack", "tile %scores over d1, d2 in shared", "147456 bytes of shared memory"),
    ],
)  # fmt: skip
def test_what_reaches_beyond_its_arrays_is_refused(old: str, new: str, message: str) -> None:
    view = view_of(parse_hlo(SOFTMAX).entry_computation.root_instruction)
    text = str(online(WIDE))
    assert old in text
    verify_for_view(online(WIDE), view)
    with pytest.raises(ScheduleError) as error:
        verify_for_view(parse_schedule(text.replace(old, new)), view)
    assert message in str(error.value)


@pytest.mark.parametrize("asked", [True, False])
def test_compilation_verifies_schedules_and_buffers_if_flags_ask(asked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planner or packer that is wrong is found where it is, not by its values."""
    seen: list[str] = []
    monkeypatch.setenv("XJIT_FLAGS", f"--xjit_verify_passes={str(asked).lower()}")
    monkeypatch.setattr(unnested, "verify_for_view", lambda schedule, _view: seen.append(schedule.instruction))
    monkeypatch.setattr(optimized_module, "verify_buffer_assignment", lambda found: seen.append(found.module.name))
    for target in ("cpu", "cuda-sim"):
        xjit.compile("HloModule m ENTRY e { x = f32[40] parameter(0)  ROOT n = f32[40] negate(x) }", target=target)
    assert seen == (["m", "n"] * 2 if asked else [])
