"""Where sizes of dynamic dimensions come from, instruction by instruction, and against the evaluator's arrays."""

from __future__ import annotations

import numpy as np
import pytest

from xjit.ops.evaluation import evaluate
from xjit.passes import run_passes
from xjit.passes.analysis.dynamic_dimensions import DynamicDimensionInference
from xjit.text.parser import parse_hlo

COMPUTATIONS = """
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
less { a = f32[] parameter(0)  b = f32[] parameter(1)  c = f32[] parameter(2)  d = f32[] parameter(3)
  ROOT s = pred[] compare(a, b), direction=LT }
"""
D = "x = f32[6,4] parameter(0)  n = s32[] parameter(1)  d = f32[<=6,4] set-dimension-size(x, n), dimensions={0} "
SIZES = {
    "ROOT r = f32[<=6,4] negate(d)": ("d0", None),
    "ROOT r = f32[<=6,4] add(x, d)": ("d0", None),
    "ROOT r = f32[4,<=6] transpose(d), dimensions={1,0}": (None, "d0"),
    "ROOT r = f32[3,<=6,4] broadcast(d), dimensions={1,2}": (None, "d0", None),
    "z = f32[] constant(0) ROOT r = f32[<=6] reduce(d, z), dimensions={1}, to_apply=add": ("d0",),
    "ROOT r = f32[<=24] reshape(d)": ("d0 * 4",),
    "ROOT r = f32[<=3,2,4] reshape(d)": ("d0 floordiv 2", None, None),
    "ROOT r = f32[<=6,2,2] reshape(d)": ("d0", None, None),
    "ROOT r = f32[2,<=3,4] reshape(d)": (None, "d0 floordiv 2", None),
    "ROOT r = f32[<=12,4] concatenate(d, x), dimensions={0}": ("d0 + 6", None),
    "ROOT r = f32[<=6,8] concatenate(x, d), dimensions={1}": ("d0", None),
    "z = f32[] constant(0) ROOT r = f32[<=9,4] pad(d, z), padding=1_2x0_0": ("d0 + 3", None),
    "z = f32[] constant(0) ROOT r = f32[<=11,4] pad(d, z), padding=0_0_1x0_0": (None, None),
    "z = f32[] constant(0) ROOT r = f32[<=4,4] pad(d, z), padding=-2_0x0_0": (None, None),
    "ROOT r = f32[<=6,2] slice(d), slice={[0:6],[1:3]}": ("d0", None),
    "ROOT r = f32[<=3,4] slice(d), slice={[0:3],[0:4]}": (None, None),
    "ROOT r = f32[<=6,4] reverse(d), dimensions={0}": (None, None),
    "y = f32[4,5] parameter(2) ROOT r = f32[<=6,5] dot(d, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}": ("d0", None),
    "m = s32[] constant(2) ROOT r = f32[<=6,<=4] set-dimension-size(d, m), dimensions={1}": ("d0", "2"),
    "t = (f32[<=6,4], s32[]) tuple(d, n) b = (f32[<=6,4], s32[]) opt-barrier(t) ROOT r = f32[<=6,4] get-tuple-element(b), index=0": ("d0", None),
    "s = (f32[<=6,4], f32[<=6,4]) sort(d, d), dimensions={1}, to_apply=less ROOT r = f32[<=6,4] get-tuple-element(s), index=1": ("d0", None),
    "m = s32[] parameter(2) ROOT r = f32[<=12,<=2] dynamic-reshape(d, m, n)": ("d1", "d0"),
    'ROOT r = f32[<=6,4] custom-call(d), custom_call_target="f"': (None, None),
}  # fmt: skip


@pytest.mark.parametrize("body", SIZES)
def test_sizes(body: str) -> None:
    module = parse_hlo(f"HloModule m\n{COMPUTATIONS} ENTRY e {{ {D} {body} }}")
    inference, root = DynamicDimensionInference.of(module), module.entry_computation.root_instruction
    found = [inference.get_dynamic_size(root, (), dimension) for dimension in range(root.shape.rank)]
    assert tuple(None if size is None else str(size.expression) for size in found) == SIZES[body]
    assert inference.has_dynamic_dimension(root)


def test_the_scalar_behind_a_size() -> None:
    module = parse_hlo(
        f"HloModule m ENTRY e {{ {D} f = f32[<=24] reshape(d) ROOT t = (f32[<=6,4], f32[<=24]) tuple(d, f) }}"
    )
    inference, root = DynamicDimensionInference.of(module), module.entry_computation.root_instruction
    whole, scaled = (inference.get_dynamic_size(root, (n,), 0) for n in range(2))
    assert whole is not None and whole.instruction is not None and whole.instruction.name == "n"
    assert scaled is not None and scaled.instruction is None
    assert not inference.has_dynamic_dimension(module.entry_computation.parameter_instruction(0))


EVALUATED = [
    body.replace("(x, d)", "(d, d)")  # arrays of one size
    for body, sizes in SIZES.items()
    if any(sizes) and "parameter(2)" not in body and "reshape" not in body  # which the evaluator refuses
]


@pytest.mark.parametrize("n", range(0, 7, 2))
@pytest.mark.parametrize("body", EVALUATED)
def test_rewritten_sizes_are_those_of_the_arrays(body: str, n: int) -> None:
    sizes = SIZES.get(body) or SIZES[body.replace("(d, d)", "(x, d)")]
    dimension = next(d for d, size in enumerate(sizes) if size)
    body = body.replace("ROOT ", "") + f" ROOT size = s32[] get-dimension-size(r), dimensions={{{dimension}}}"
    module = parse_hlo(f"HloModule m\n{COMPUTATIONS} ENTRY e {{ {D} {body} }}")
    x = np.ones((6, 4), np.float32)
    expected = evaluate(module, x, np.int32(n))
    assert run_passes(module, ["hlo-get-dimension-size-rewriter", "dce"])
    assert all(i.opcode != "get-dimension-size" for i in module.entry_computation.instructions)
    np.testing.assert_array_equal(evaluate(module, x, np.int32(n)), expected)
