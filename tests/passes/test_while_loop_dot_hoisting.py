"""Which dots leave a loop, and that results stay what they were."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from xjit.ops.evaluation import evaluate
from xjit.passes.loops import while_loop_dot_hoisting
from xjit.passes.loops.while_loop_dot_hoisting import WhileLoopDotHoisting

LOOP = """HloModule m
cond {{ p = {state} parameter(0) i = s32[] get-tuple-element(p), index=0
  n = s32[] constant({trips}) ROOT c = pred[] compare(i, n), direction=LT }}
body {{ p = {state} parameter(0) i = s32[] get-tuple-element(p), index=0
  h = {out} get-tuple-element(p), index=1 xs = {xs} get-tuple-element(p), index=2 w = {w} get-tuple-element(p), index=3
  one = s32[] constant(1) j = s32[] add(i, one) z = s32[] constant(0) last = s32[] constant(7) r = s32[] subtract(last, i)
  d = {part} dynamic-slice(xs, {starts}), dynamic_slice_sizes={{{sizes}}} v = {step} reshape(d)
  a = {out} dot({dot}
  s = {out} add(a, h) y = {out} tanh(s) {more}
  ROOT t = {state} tuple(j, y, {next}, w) }}
ENTRY e {{ h = {out} parameter(0) xs = {xs} parameter(1) w = {w} parameter(2) z = s32[] constant(0)
  t = {state} tuple(z, h, xs, w) l = {state} while(t), condition=cond, body=body
  ROOT q = {out} get-tuple-element(l), index=1 }}
"""
FORWARD = {
    "xs": "f32[8,4,6]", "w": "f32[6,5]", "out": "f32[4,5]", "part": "f32[1,4,6]", "step": "f32[4,6]", "trips": "8",
    "starts": "i, z, z", "sizes": "1,4,6", "dot": "v, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "more": "", "next": "xs",
}  # fmt: skip


def text_of(**changes: str) -> str:
    """The text of a loop that adds up products of slices."""
    values = FORWARD | changes
    return LOOP.format(state=f"(s32[], {values['out']}, {values['xs']}, {values['w']})", **values)


HOISTED = {
    "forward": text_of(),
    "backward": text_of(starts="r, z, z"),
    "slices on the right": text_of(
        xs="f32[6,8,4]", part="f32[6,1,4]", step="f32[6,4]", starts="z, i, z", sizes="6,1,4", out="f32[5,4]",
        dot="w, v), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    ),
    "the last dimension": text_of(
        xs="f32[4,6,8]", part="f32[4,6,1]", starts="z, z, i", sizes="4,6,1",
    ),
    "batches": text_of(
        w="f32[4,6,5]",
        dot="v, w), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    ),
}  # fmt: skip
KEPT = {
    "more slices than trips": text_of(trips="7"),
    "many rows": text_of(xs="f32[8,65,6]", part="f32[1,65,6]", step="f32[65,6]", sizes="1,65,6", out="f32[65,5]"),
    "slices change": text_of(more="k = f32[8,4,6] negate(xs)", next="k"),
    "indices in one vector": text_of(
        xs="f32[8]",
        part="f32[1]",
        step="f32[]",
        starts="v1",
        sizes="1",
        w="f32[6]",
        out="f32[6]",
        dot="v, w)",
    ).replace("  d = ", "  v1 = s32[1] reshape(i)\n  d = "),
    "two slices at a time": text_of(part="f32[2,4,6]", step="f32[8,6]", sizes="2,4,6", out="f32[8,5]"),
}


def arguments(module: xjit.HloModule) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [
        rng.standard_normal(p.shape.dimensions, dtype=np.float32)
        for p in module.entry_computation.parameter_instructions
    ]


@pytest.mark.parametrize("name", HOISTED)
def test_dots_of_slices_are_one_dot_before_the_loop(name: str) -> None:
    module = xjit.parse_hlo(HOISTED[name])
    expected = evaluate(module, *arguments(module))
    assert WhileLoopDotHoisting().run(module)
    (loop,) = [i for i in module.entry_computation.instructions if i.opcode == "while"]
    assert not [i for i in loop.while_body.instructions if i.opcode == "dot"]
    assert [i for i in module.entry_computation.instructions if i.opcode == "dot"]
    np.testing.assert_allclose(evaluate(module, *arguments(module)), expected, rtol=1e-6, atol=1e-6)
    assert not WhileLoopDotHoisting().run(module)


@pytest.mark.parametrize("name", KEPT)
def test_what_stays_in_the_loop(name: str) -> None:
    assert not WhileLoopDotHoisting().run(xjit.parse_hlo(KEPT[name]))


@pytest.mark.parametrize("missing", [0, 1])
def test_products_of_a_loop_share_a_limit(missing: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(while_loop_dot_hoisting, "MAX_BYTES", 8 * 4 * 5 * 4 - missing)
    assert WhileLoopDotHoisting().run(xjit.parse_hlo(text_of())) == (not missing)


def test_a_compiled_loop_multiplies_before_it() -> None:
    text = text_of(trips="64", xs="f32[64,4,6]")
    executable = xjit.compile(text)
    assert "f32[64,4,5]" in executable.as_text()
    module = xjit.parse_hlo(text)
    values = arguments(module)
    np.testing.assert_allclose(executable(*values), evaluate(module, *values), rtol=1e-5, atol=1e-5)
