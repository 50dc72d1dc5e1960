"""Operands and results of one instruction have one floating-point precision, but where opcodes have their own rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xjit
from xjit.ops.evaluation import evaluate
from xjit.ops.verifier import verify_module

ADD = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
WINDOW = "window={size=2}, to_apply=add"
MIXED = {
    "negate": "ROOT r = f64[8] negate(x)",
    "copy": "ROOT r = f64[8] copy(x)",
    "reverse": "ROOT r = f64[8] reverse(x), dimensions={0}",
    "slice": "ROOT r = bf16[2] slice(x), slice={[0:2]}",
    "narrow": "ROOT r = f32[8] exponential(h)",
    "add": "ROOT r = f32[8] add(x, h)",
    "concatenate": "ROOT r = f32[16] concatenate(x, h), dimensions={0}",
    "reduce": "z = f32[] constant(0)\n ROOT r = f32[] reduce(h, z), dimensions={0}, to_apply=add",
    "reducer": "z = bf16[] constant(0)\n ROOT r = f32[] reduce(h, z), dimensions={0}, to_apply=add",
    "reduce-window": f"z = bf16[] constant(0)\n ROOT r = f32[7] reduce-window(h, z), {WINDOW}",
    "reduce-window init": f"z = bf16[] constant(0)\n ROOT r = f32[7] reduce-window(x, z), {WINDOW}",
}
MEANT = {
    "dot": "ROOT r = f32[] dot(h, h), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    "dot of two types": "ROOT r = f32[] dot(h, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    "convert": "ROOT r = f32[8] convert(h)",
    "tuple": "ROOT r = (f32[8], bf16[8]) tuple(x, h)",
}


def _module(body: str) -> str:
    return f"HloModule m\n{ADD}ENTRY e {{\n x = f32[8] parameter(0)\n h = bf16[8] parameter(1)\n {body}\n}}"


def _inputs() -> tuple[Any, Any]:
    x = np.arange(8, dtype=np.float32)
    return x, x.astype(ml_dtypes.bfloat16)


@pytest.mark.parametrize("body", MIXED.values(), ids=MIXED)
@pytest.mark.parametrize(
    "use", [xjit.compile, lambda text: xjit.evaluate(text, *_inputs())], ids=["compile", "evaluate"]
)
def test_mixed_precision_is_refused(use: Callable[[str], Any], body: str) -> None:
    """Kernels read and wrote the types of the operands, callers made buffers of the declared ones."""
    with pytest.raises(xjit.HloError, match=r"precisions|declared shape|has type") as caught:
        use(_module(body))
    assert caught.value.span is not None


@pytest.mark.parametrize("body", MEANT.values(), ids=MEANT)
def test_opcodes_with_precisions_of_their_own(body: str) -> None:
    text = _module(body)
    assert str(xjit.compile(text)(*_inputs())) == str(xjit.evaluate(text, *_inputs()))


@pytest.mark.parametrize(
    "body",
    [
        "p = pred[8] constant({1,0,1,0,1,0,1,0})  ROOT r = bf16[8] select(p, x, h)",
        "p = pred[8] constant({1,0,1,0,1,0,1,0})  ROOT r = f32[8] select(p, h, h)",
        "ROOT r = bf16[8] reverse(x), dimensions={0}",
        "ROOT r = bf16[2] slice(x), slice={[0:2]}",
    ],
)
def test_what_passes_may_mix_is_evaluated_in_the_declared_precision(body: str) -> None:
    """Passes may leave mixed precisions, which `verify_module` allows; a select raised an AssertionError."""
    module = xjit.parse_hlo(_module(body))
    verify_module(module)
    x, h = (value / 3 for value in _inputs())
    shape = module.entry_computation.root_instruction.shape
    (got,) = (evaluate(module, x, h),)
    assert got.dtype == shape.dtype
    wide = xjit.parse_hlo(
        _module(
            body.replace("bf16", "f32")
            .replace("h)", "w)")
            .replace("h,", "w,")
            .replace("ROOT", "w = f32[8] convert(h)  ROOT")
        )
    )
    np.testing.assert_array_equal(got, evaluate(wide, x, h).astype(shape.dtype))
