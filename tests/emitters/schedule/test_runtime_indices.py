"""Reductions whose index is read at run time: planned, with the index read where it is known."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest

from tests.support.kernels import check_units, emit_view, view_of
from xjit.emitters.reductions import reduction_loops
from xjit.emitters.schedule.statements import Let, Reduce, statements_of
from xjit.text.parser import parse_hlo

HEAD = """HloModule m
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
larger { a = f32[] parameter(0) b = f32[] parameter(1) ROOT m = f32[] maximum(a, b) }
"""
ONE_ROW = """
fused { x = f32[50,300] parameter(0) i = s32[] parameter(1) zero = f32[] constant(0)
  r = f32[50] reduce(x, zero), dimensions={1}, to_apply=sum
  s = f32[8] dynamic-slice(r, i), dynamic_slice_sizes={8}
  ROOT n = f32[8] negate(s) }
ENTRY e { x = f32[50,300] parameter(0) i = s32[] parameter(1)
  ROOT f = f32[8] fusion(x, i), kind=kLoop, calls=fused }
"""
SOFTMAX_OF_A_SLICE = """
fused { x = f32[9,40,64] parameter(0) i = s32[] parameter(1) j = s32[] parameter(2) zero = f32[] constant(0)
  low = f32[] constant(-inf)
  s = f32[1,40,64] dynamic-slice(x, i, j, j), dynamic_slice_sizes={1,40,64}
  y = f32[40,64] reshape(s)
  m = f32[40] reduce(y, low), dimensions={1}, to_apply=larger
  d = f32[40,64] subtract(y, f32[40,64] broadcast(m), dimensions={0})
  w = f32[40,64] exponential(d)
  t = f32[40] reduce(w, zero), dimensions={1}, to_apply=sum
  ROOT q = f32[40,64] divide(w, f32[40,64] broadcast(t), dimensions={0}) }
ENTRY e { x = f32[9,40,64] parameter(0) i = s32[] parameter(1) j = s32[] parameter(2)
  ROOT f = f32[40,64] fusion(x, i, j), kind=kLoop, calls=fused }
"""
ROWS_BY_INDEX = """
fused { x = f32[50,300] parameter(0) i = s32[6,1] parameter(1) zero = f32[] constant(0)
  r = f32[50] reduce(x, zero), dimensions={1}, to_apply=sum
  g = f32[6] gather(r, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}
  b = f32[6,32] broadcast(g), dimensions={0}
  ROOT n = f32[6,32] negate(b) }
ENTRY e { x = f32[50,300] parameter(0) i = s32[6,1] parameter(1)
  ROOT f = f32[6,32] fusion(x, i), kind=kLoop, calls=fused }
"""
TWICE = """
fused { x = f32[50,300] parameter(0) i = s32[] parameter(1) k = s32[50] parameter(2) zero = f32[] constant(0)
  r = f32[50] reduce(x, zero), dimensions={1}, to_apply=sum
  c = s32[1] dynamic-slice(k, i), dynamic_slice_sizes={1}
  j = s32[] reshape(c)
  s = f32[1] dynamic-slice(r, j), dynamic_slice_sizes={1}
  b = f32[32] broadcast(f32[] reshape(s)), dimensions={}
  ROOT n = f32[32] negate(b) }
ENTRY e { x = f32[50,300] parameter(0) i = s32[] parameter(1) k = s32[50] parameter(2)
  ROOT f = f32[32] fusion(x, i, k), kind=kLoop, calls=fused }
"""
CASES = {"slice": ONE_ROW, "softmax": SOFTMAX_OF_A_SLICE, "gather": ROWS_BY_INDEX, "twice": TWICE}


def inputs(text: str) -> list[np.ndarray]:
    """Indices inside and far outside of what they may be: those are clamped."""
    rng = np.random.default_rng(1)
    shapes = [p.shape for p in parse_hlo(text).entry_computation.parameter_instructions]
    x = rng.standard_normal(shapes[0].dimensions).astype(np.float32)
    return [x, *(rng.integers(-20, 70, s.dimensions).astype(np.int32) for s in shapes[1:])]


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    check_units(HEAD + CASES[name], *inputs(HEAD + CASES[name]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_no_reduction_is_planned_while_code_is_made(name: str) -> None:
    view = view_of(parse_hlo(HEAD + CASES[name]).entry_computation.root_instruction)
    with patch.object(reduction_loops, "plan_reduction", side_effect=AssertionError("planned too late")):
        _, (kernel,) = emit_view(view)
    assert kernel.schedule is not None
    statements = [s for part in kernel.schedule.parts for s in statements_of(part.body)]
    assert any(isinstance(s, Reduce) for s in statements)


def test_an_index_is_read_where_its_place_is_known() -> None:
    view = view_of(parse_hlo(HEAD + ROWS_BY_INDEX).entry_computation.root_instruction)
    _, (kernel,) = emit_view(view)
    assert kernel.schedule is not None
    (task,) = [s for s in kernel.schedule.parts[0].body if not isinstance(s, Let)]
    assert "let d2 in [0, 49] = %i[d0, 0]" in str(kernel.schedule) and isinstance(task.body[0], Let)


def test_an_index_that_differs_from_lane_to_lane_is_left_to_the_emitter() -> None:
    """There is no number to let a variable be."""
    text = f"""{HEAD}
fused {{ x = f32[50,300] parameter(0) i = s32[600,1] parameter(1) zero = f32[] constant(0)
  r = f32[50] reduce(x, zero), dimensions={{1}}, to_apply=sum
  g = f32[600] gather(r, i), offset_dims={{}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1,
    slice_sizes={{1}}
  ROOT n = f32[600] negate(g) }}
ENTRY e {{ x = f32[50,300] parameter(0) i = s32[600,1] parameter(1)
  ROOT f = f32[600] fusion(x, i), kind=kLoop, calls=fused }}
"""
    view = view_of(parse_hlo(text).entry_computation.root_instruction)
    _, (kernel,) = emit_view(view)
    assert "let" not in str(kernel.schedule)
    check_units(text, *inputs(text), rtol=1e-5, atol=1e-5)
