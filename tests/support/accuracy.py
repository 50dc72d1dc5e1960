"""How far compiled math functions are from the truth, in units in the last place (ULP), and the page that says so.

`python -m tests.support.accuracy` writes docs/accuracy.md; `--all` looks at all 2^32 inputs of f32 (an hour or more).

The test of this page measures again. The truth is NumPy's or SciPy's function in f64, whose own error is a millionth of an f32 ULP or less. Subnormal inputs
count as zero, as the programs read them; results below the smallest normal number may be zero. A NaN must be a NaN, and
what rounds to infinity infinity, else the error is infinite.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import scipy.special

import xjit

PAGE = Path(__file__).resolve().parents[2] / "docs" / "accuracy.md"
Array = np.ndarray[Any, Any]

TRUTH: dict[str, Callable[[Array], Array]] = {
    "exponential": np.exp,
    "exponential-minus-one": np.expm1,
    "log": np.log,
    "log-plus-one": np.log1p,
    "sine": np.sin,
    "cosine": np.cos,
    "tan": np.tan,
    "tanh": np.tanh,
    "logistic": scipy.special.expit,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "cbrt": np.cbrt,
    "erf": scipy.special.erf,
}
"""Opcodes, and what they are in f64."""

TYPES: dict[str, np.dtype[Any]] = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
}
CHUNK = 1 << 16
SAMPLE_STEP = 4099
"""Every so many bit patterns of f32 are looked at unless all are; a prime."""


@functools.cache
def program(opcode: str, kind: str) -> Any:
    """The compiled function, on `CHUNK` elements."""
    return xjit.compile(f"ENTRY e {{ x = {kind}[{CHUNK}] parameter(0) ROOT y = {kind}[{CHUNK}] {opcode}(x) }}")


def inputs(kind: str, every: bool = False) -> Iterator[Array]:
    """Chunks of bit patterns: all of a 16-bit type; of f32 all, or a sample with its ends and powers of two."""
    dtype = TYPES[kind]
    if dtype.itemsize == 2:
        yield np.arange(1 << 16, dtype=np.uint16).view(dtype)
        return
    step = 1 if every else SAMPLE_STEP
    for start in range(0, 1 << 32, CHUNK * step):
        bits = np.arange(start, start + CHUNK * step, step, dtype=np.uint64)
        yield np.minimum(bits, (1 << 32) - 1).astype(np.uint32).view(dtype)
    exponents = np.arange(256, dtype=np.uint32)[:, None] << 23
    near = (exponents + np.arange(-64, 64, dtype=np.int64).astype(np.uint32)).reshape(-1)
    yield np.resize(np.concatenate([near, near | np.uint32(1 << 31)]), CHUNK).view(dtype)


def flushes(dtype: np.dtype[Any]) -> bool:
    """Whether subnormals count as zero. Those of f16 are normal numbers of f32, which computes."""
    return dtype != np.float16


def ulp_errors(found: Array, exact: Array, dtype: np.dtype[Any]) -> Array:
    """The error of each element in ULPs of the exact value; infinite where it is NaN or infinite by mistake."""
    facts = ml_dtypes.finfo(dtype)
    smallest, largest = float(facts.tiny), float(facts.max)
    digits = facts.nmant
    got = found.astype(np.float64)
    magnitude = np.clip(np.abs(exact), smallest, largest)
    ulp = np.exp2(np.floor(np.log2(magnitude)) - digits)
    with np.errstate(invalid="ignore"):
        error = np.abs(got - exact) / ulp
    if flushes(dtype):
        error[(np.abs(exact) < smallest) & (np.abs(got) <= smallest)] = 0
    overflows = np.abs(exact) >= largest + ulp / 2
    error[overflows] = np.where(got[overflows] == np.copysign(np.inf, exact[overflows]), 0, np.inf)
    error[np.isinf(got) & ~overflows] = np.inf
    error[np.isnan(exact) & np.isnan(got)] = 0
    error[np.isnan(exact) != np.isnan(got)] = np.inf
    return error


def steps_off(found: Array, exact: Array) -> Array:
    """How many representable numbers lie from the correctly rounded value to the one found."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(found.dtype)
    return np.abs(_ordered(found) - _ordered(rounded))


def _ordered(x: Array) -> Array:
    """Integers in the order of the numbers, equal for both zeros."""
    bits = x.view(f"u{x.dtype.itemsize}").astype(np.int64)
    sign = 1 << (8 * x.dtype.itemsize - 1)
    return np.where(bits & sign, sign - bits, bits)


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The largest error in ULPs, the input that has it, and the most steps from the correctly rounded result."""

    ulp: float
    at: float
    steps: int

    def __str__(self) -> str:
        return f"{math.ceil(self.ulp * 1000) / 1000:.3f} ({self.steps})"


def measure(opcode: str, kind: str, every: bool = False) -> Accuracy:
    """Returns how accurate an opcode is, over the inputs of `inputs`."""
    dtype, run = TYPES[kind], program(opcode, kind)
    smallest = float(ml_dtypes.finfo(dtype).tiny) if flushes(dtype) else 0.0
    worst, where, steps = 0.0, math.nan, 0
    for x in inputs(kind, every):
        with np.errstate(all="ignore"):
            wide = x.astype(np.float64)
            wide = np.where(np.abs(wide) < smallest, np.copysign(0, wide), wide)
            found, exact = run(x), TRUTH[opcode](wide)
            errors = ulp_errors(found, exact, dtype)
        position = int(np.argmax(errors))
        if errors[position] > worst:
            worst, where = float(errors[position]), float(x[position])
        steps = max(steps, int(steps_off(found, exact)[errors > 0].max(initial=0)))
    return Accuracy(worst, where, steps)


def page(every: bool = False) -> str:
    """The text of docs/accuracy.md."""
    inputs_of_f32 = "all inputs" if every else f"one input in {SAMPLE_STEP:,}, and near all powers of two"
    rows = [f"| `{op}` | {' | '.join(str(measure(op, kind, every)) for kind in TYPES)} |" for op in TRUTH]
    return PAGE_HEAD.format(inputs=inputs_of_f32) + "\n".join(rows) + "\n"


PAGE_HEAD = """# Accuracy of the math functions

The largest error of a compiled function in units in the last place, and in parentheses how many representable numbers lie at most between
the result and the correctly rounded one: 0 is correctly rounded, 1 a neighbour. Subnormal numbers of f32 and bf16 count as zero, as in XLA's
CPU code; those of f16 do not. The table is for a CPU with fused multiply-add.

f16 and bf16: all inputs. f32: {inputs}.

| opcode | f16 | bf16 | f32 |
| --- | --- | --- | --- |
"""


if __name__ == "__main__":
    PAGE.write_text(page("--all" in sys.argv), encoding="utf-8")
