"""Math functions that are called instead of emitted again: the same bits, and short kernels."""

from __future__ import annotations

import re

import numpy as np
import pytest

import xjit
from xjit.llvm.math import shared_bodies

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, 2.0**20, -(2.0**20), 1e7, 3e38]


def chain(opcodes: list[str], type_name: str, size: int) -> str:
    shape = f"{type_name}[{size}]"
    lines = [f"  x{n + 1} = {shape} {opcode}(x{n})" for n, opcode in enumerate(opcodes)]
    lines[-1] = f"  ROOT {lines[-1].strip()}"
    return "\n".join(["HloModule m", "ENTRY e {", f"  x0 = {shape} parameter(0)", *lines, "}"])


@pytest.mark.parametrize("level", ["sse2", ""])
@pytest.mark.parametrize("type_name", ["f32", "f64"])
def test_called_bodies_give_the_bits_of_emitted_ones(
    type_name: str, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.concatenate([np.linspace(-3e6, 3e6, 1013), SPECIAL]).astype(
        {"f32": np.float32, "f64": np.float64}[type_name]
    )
    text = chain(["sine", "tan", "cosine", "tanh"] * 4, type_name, x.size)
    results = []
    for limit in (0, 120, 10**9):
        monkeypatch.setattr(shared_bodies, "INLINE_LINES", limit)
        executable = xjit.compile(text, options=xjit.CompileOptions(cpu_level=level))
        assert ("@shared_sine" in executable.as_text("llvm")) == (limit < 10**9)
        results.append(executable(x))
    assert np.array_equal(results[0], results[1], equal_nan=True)
    assert np.array_equal(results[0], results[2], equal_nan=True)


def test_a_long_chain_is_short_code() -> None:
    few, many = (xjit.compile(chain(["sine", "cosine"] * n, "f32", 4096)).as_text("llvm") for n in (5, 13))
    assert len(many.splitlines()) - len(few.splitlines()) < 16 * 4  # a call each, in the vector loop and after it
    assert len(many.splitlines()) < 1200
    assert many.count("declare void @xjit_reduce_large_angle") == 1


def test_where_more_are_to_come_all_are_calls() -> None:
    text = xjit.compile(chain(["sine"] * 3, "f32", 4096)).as_text("llvm")
    assert len(re.findall(r"call <\d+ x float> @shared_sine", text)) == 3
    sine = re.search(r"^define internal .* @shared_sine.*?^}", text, re.MULTILINE | re.DOTALL)
    assert sine
    assert "@xjit_reduce_large_angle" in sine[0]
    assert "call void @xjit_reduce_large_angle" not in text.replace(sine[0], "")


def test_short_functions_stay_in_line() -> None:
    assert "@shared_" not in xjit.compile(chain(["exponential"] * 3, "f32", 4096)).as_text("llvm")


def test_two_sines_are_in_line() -> None:
    assert "@shared_sine" not in xjit.compile(chain(["sine", "sine"], "f32", 4096)).as_text("llvm")
