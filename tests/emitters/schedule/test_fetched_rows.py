"""Elements that an index array picks from the rows of a large array: the next row is fetched meanwhile."""

from __future__ import annotations

import re

import numpy as np
import pytest

import xjit
from tests.support.kernels import check
from xjit.emitters.access.access_analysis import MapCache
from xjit.emitters.planners.module import plan_module
from xjit.emitters.planners.plan import PlanContext
from xjit.emitters.schedule.parser import parse_schedule
from xjit.emitters.schedule.verify import ScheduleError
from xjit.emitters.schedule.verify_view import verify_for_view
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.target import Target
from xjit.passes.framework.driver import PassDriver
from xjit.passes.pipelines import PipelineOptions, cpu_pipeline
from xjit.passes.schedule_and_memory.buffer_assignment import assign_buffers


def columns(kind: str, rows: int, length: int, picks: int) -> str:
    """Picks the same columns of all rows."""
    return f"""
ENTRY e {{
  x = {kind}[{rows},{length}] parameter(0)
  i = s32[{picks},1] parameter(1)
  ROOT g = {kind}[{rows},{picks}] gather(x, i), offset_dims={{0}}, collapsed_slice_dims={{1}}, start_index_map={{1}},
    index_vector_dim=1, slice_sizes={{{rows},1}}
}}
"""


def along_rows(rows: int, length: int, picks: int) -> str:
    """Picks others in each row."""
    return f"""
ENTRY e {{
  x = f32[{rows},{length}] parameter(0)
  i = s32[{rows},{picks},1] parameter(1)
  ROOT g = f32[{rows},{picks}] gather(x, i), offset_dims={{}}, collapsed_slice_dims={{1}}, start_index_map={{1}},
    operand_batching_dims={{0}}, start_indices_batching_dims={{0}}, index_vector_dim=2, slice_sizes={{1,1}}
}}
"""


def fetched(text: str) -> list[str]:
    """The indices of what is fetched."""
    return re.findall(r"fetch %x\[(.*)\]", xjit.compile(text).as_text("schedule"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (columns("f32", 600, 2048, 2048), ["d0 + 1, d1"]),
        (columns("f32", 600, 2048, 3000), ["d0 + 1, d1"]),
        (columns("f32", 1200, 1000, 300), [f"d0 + 1, d1 * 4{more}" for more in ("", " + 16", " + 32", " + 48")]),
        (along_rows(600, 2048, 2048), ["d0 + 1, d1"]),
        (columns("c64", 600, 2048, 2048), None),
        (columns("u8", 600, 8192, 8192), None),
        (columns("f32", 600, 2048, 100), []),  # most lines of a row are not needed
        (columns("f32", 60, 2048, 2048), []),  # stays in a cache
    ],
    ids=["columns", "more", "fewer", "along rows", "complex", "bytes", "few", "small"],
)
def test_next_rows(text: str, expected: list[str] | None) -> None:
    found = fetched(text)
    assert found == expected if expected is not None else found
    x, i = (p.shape for p in xjit.parse_hlo(text).entry_computation.parameter_instructions)
    rng = np.random.default_rng(0)
    array = rng.integers(0, 100, x.dimensions).astype(x.element_type.dtype)
    check(text, array, rng.integers(-5, x.dimensions[1] + 5, i.dimensions, dtype=np.int32))


@pytest.mark.parametrize("kind", ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"])
def test_indices_are_clamped_in_their_own_type(kind: str) -> None:
    """To bounds that the type may not hold."""
    limits = np.iinfo(PrimitiveType.from_text(kind).dtype)
    for length in (3, 100, 200, 300, 70000):
        text = columns("f32", 2, length, 40).replace("s32[", f"{kind}[")
        near = [limits.min, -1, 0, 1, length - 1, length, limits.max]
        i = np.resize(np.array([n for n in near if limits.min <= n <= limits.max], limits.dtype), (40, 1))
        check(text, np.arange(2 * length, dtype=np.float32).reshape(2, length), i)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("fetch %x[d0 + 1, d1]", "fetch %x[d0 + 1, d9]", "fetch %x: d9 has no value here"),
        ("fetch %x[d0 + 1, d1]", "fetch %x[d0 + 1]", "1 indices for f32[600,2048]"),
        ("fetch %x[d0 + 1, d1]", "fetch %g[d0 + 1, d1]", "it is no array that the kernel reads"),
    ],
)
def test_fetches_that_mean_nothing_are_refused(old: str, new: str, message: str) -> None:
    module = xjit.parse_hlo(columns("f32", 600, 2048, 2048))
    PassDriver().run(cpu_pipeline(PipelineOptions()), module)
    plans = plan_module(assign_buffers(module), PlanContext(Target.for_features("avx512"), MapCache()))
    ((view, (schedule,)),) = list(plans)
    assert old in str(schedule)
    with pytest.raises(ScheduleError) as error:
        verify_for_view(parse_schedule(str(schedule).replace(old, new)), view)
    assert message in str(error.value)
