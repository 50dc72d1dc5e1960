"""A scanned stack of layers: weights that are transposed in front of the loop take no memory of their own."""

from __future__ import annotations

import numpy as np

import xjit
from xjit.ops.evaluation import evaluate

LAYERS, WIDTH = 16, 128
STACK = f"""HloModule stack
cond {{ p = (s32[], f32[4,{WIDTH}], f32[{LAYERS},{WIDTH},{WIDTH}]) parameter(0) i = s32[] get-tuple-element(p), index=0
  n = s32[] constant({LAYERS}) ROOT c = pred[] compare(i, n), direction=LT }}
body {{ p = (s32[], f32[4,{WIDTH}], f32[{LAYERS},{WIDTH},{WIDTH}]) parameter(0) i = s32[] get-tuple-element(p), index=0
  x = f32[4,{WIDTH}] get-tuple-element(p), index=1 w = f32[{LAYERS},{WIDTH},{WIDTH}] get-tuple-element(p), index=2
  one = s32[] constant(1) j = s32[] add(i, one) z = s32[] constant(0)
  d = f32[1,{WIDTH},{WIDTH}] dynamic-slice(w, i, z, z), dynamic_slice_sizes={{1,{WIDTH},{WIDTH}}}
  v = f32[{WIDTH},{WIDTH}] reshape(d)
  h = f32[4,{WIDTH}] dot(x, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} y = f32[4,{WIDTH}] tanh(h)
  ROOT t = (s32[], f32[4,{WIDTH}], f32[{LAYERS},{WIDTH},{WIDTH}]) tuple(j, y, w) }}
ENTRY e {{
  x = f32[4,{WIDTH}] parameter(0) k = f32[{WIDTH},{LAYERS},{WIDTH}] parameter(1) z = s32[] constant(0)
  w = f32[{LAYERS},{WIDTH},{WIDTH}] transpose(k), dimensions={{1,0,2}}
  t = (s32[], f32[4,{WIDTH}], f32[{LAYERS},{WIDTH},{WIDTH}]) tuple(z, x, w)
  l = (s32[], f32[4,{WIDTH}], f32[{LAYERS},{WIDTH},{WIDTH}]) while(t), condition=cond, body=body
  ROOT r = f32[4,{WIDTH}] get-tuple-element(l), index=1
}}
"""


def test_stacked_weights_are_not_copied() -> None:
    executable = xjit.compile(STACK)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, WIDTH), dtype=np.float32)
    k = rng.standard_normal((WIDTH, LAYERS, WIDTH), dtype=np.float32) / np.float32(np.sqrt(WIDTH))
    assert np.allclose(executable(x, k), evaluate(xjit.parse_hlo(STACK), x, k), 1e-4, 1e-4)
    stacked, layer = k.nbytes, WIDTH * WIDTH * 4
    assert executable.memory_analysis().temp_size_in_bytes < 3 * layer < stacked
    without = xjit.compile(STACK, options=xjit.CompileOptions(disabled_passes=("while-loop-transpose-sinking",)))
    assert without.memory_analysis().temp_size_in_bytes >= stacked
