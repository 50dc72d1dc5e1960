"""The text of schedules: what is printed parses to an equal schedule; what is wrong has a place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import xjit
from tests.support.hlo_samples import sample_modules
from tests.support.schedules import parse_schedules
from xjit.emitters.access.access_analysis import MapCache
from xjit.emitters.planners.module import plan_module
from xjit.emitters.planners.plan import PlanContext
from xjit.emitters.schedule.parser import parse_schedule
from xjit.emitters.schedule.schedule import Schedule
from xjit.emitters.schedule.verify_view import verify_for_view
from xjit.llvm.target import Target
from xjit.passes.framework.driver import PassDriver
from xjit.passes.pipelines import PipelineOptions, cpu_pipeline
from xjit.passes.schedule_and_memory.buffer_assignment import assign_buffers
from xjit.text.parser import parse_hlo

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
TEXTS = {**sample_modules(), **{p.stem: p.read_text() for p in sorted(EXAMPLES.glob("*.hlo"))}}


def schedules_of(text: str) -> Iterator[Schedule]:
    """The schedules of a module's kernels, verified; none where it cannot be compiled."""
    module = parse_hlo(text)
    module.clear_schedule()
    try:
        PassDriver().run(cpu_pipeline(PipelineOptions()), module)
        plans = list(plan_module(assign_buffers(module), PlanContext(Target.for_features("avx512"), MapCache())))
    except xjit.Unsupported:
        return
    for view, found in plans:
        for plan in found:
            if isinstance(plan, Schedule):
                verify_for_view(plan, view)
                yield plan


@pytest.mark.parametrize("name", TEXTS)
def test_every_schedule_of_the_samples_parses_back(name: str) -> None:
    for schedule in schedules_of(TEXTS[name]):
        assert parse_schedule(str(schedule)) == schedule


def test_the_samples_have_schedules() -> None:
    found = [s for text in TEXTS.values() for s in schedules_of(text)]
    assert len(found) > 20 and {"loop", "copy", "dynamic-update-slice", "column-reduction"} >= {s.kind for s in found}
    text = "\n".join(map(str, found))
    assert parse_schedules(text) == found


GOOD = """schedule %r loop, operations=1, repeated=0, bytes=2 {
  part {
    task vector(8) d0 in [0, 9] {
      out0[d0] = %r[d0]
    }
  }
}
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("%r loop", "r loop", "expected a name, found 'r'"),
        ("part {", "park {", "expected '}', found 'park'"),
        ("task", "queue", "expected a statement, found 'queue'"),
        ("d0 in", "e0 in", "expected a variable, found 'e0'"),
        ("[0, 9]", "[0, x]", "expected a number, found 'x'"),
        ("out0[d0]", "out0[d0 +]", "expected d<i>, s<i>, a number"),
        ("    }\n  }", "      vector(8) d0 in [0, 8] { }\n    }\n  }", r"d0 has had the bounds \[0, 9\]"),
        ("d0 in [0, 9] {", "d1 in [0, 9] {", "variables must be d0, d1, ... without a gap"),
        ("}\n}\n", "}\n}\nmore", "expected the end of the text"),
    ],
)
def test_errors_have_a_place(old: str, new: str, message: str) -> None:
    parse_schedule(GOOD)
    with pytest.raises(xjit.HloParseError, match=message) as caught:
        parse_schedule(GOOD.replace(old, new))
    assert caught.value.span is not None and caught.value.span.line >= 1
