"""How far compiled math functions are from the truth, in units in the last place (ULP), and the page that says so.

`python -m tests.support.accuracy` writes docs/accuracy.md. The test of this page measures again; all 2^32 inputs of f32 are looked at in
`PIECES` pieces, by tests that are slow.

Subnormal inputs count as zero, as the programs read them; results below the smallest normal number may be zero. A NaN must be
a NaN, and what rounds to infinity infinity, else the error is infinite. The error of a complex number is its distance from the
truth in ULPs of the absolute value, where that is finite.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import xjit
from tests.support.accuracy_truth import REAL_ONLY, TRUTH

PAGE = Path(__file__).resolve().parents[2] / "docs" / "accuracy.md"
Array = np.ndarray[Any, Any]

TYPES: dict[str, np.dtype[Any]] = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "c64": np.dtype(np.complex64),
    "c128": np.dtype(np.complex128),
}
WIDER = {"f64": np.longdouble, "c64": np.complex128, "c128": np.clongdouble}
"""In what the truth is computed; that of the other types in f64."""
CHUNK = 1 << 16
SAMPLE_STEP = 4099
"""Every so many bit patterns of f32 are looked at unless all are; a prime."""
PIECES = 16


@functools.cache
def program(opcode: str, kind: str) -> Any:
    """The compiled function, on `CHUNK` elements."""
    return xjit.compile(f"ENTRY e {{ x = {kind}[{CHUNK}] parameter(0) ROOT y = {kind}[{CHUNK}] {opcode}(x) }}")


def inputs(kind: str, piece: int | None = None) -> Iterator[Array]:
    """Chunks of inputs: all of a 16-bit type, or a sample with its ends and powers of two; or all f32 of one piece."""
    dtype = TYPES[kind]
    if dtype.itemsize == 2:
        yield np.arange(1 << 16, dtype=np.uint16).view(dtype)
    elif piece is not None:
        for start in range(piece << 28, (piece + 1) << 28, CHUNK):
            yield np.arange(start, start + CHUNK, dtype=np.uint32).view(dtype)
    elif kind == "f32":
        for start in range(0, 1 << 32, CHUNK * SAMPLE_STEP):
            bits = np.arange(start, start + CHUNK * SAMPLE_STEP, SAMPLE_STEP, dtype=np.uint64)
            yield np.minimum(bits, (1 << 32) - 1).astype(np.uint32).view(dtype)
        yield _near_powers_of_two(23, 64, np.uint32).view(dtype)
    elif kind == "f64":
        yield _near_powers_of_two(52, 8, np.uint64).view(dtype)
        yield from _samples()
    else:
        mixed = np.random.default_rng(1)
        for values in _samples():
            yield (values + 1j * mixed.permutation(values)).astype(dtype)


def _near_powers_of_two(digits: int, steps: int, bits: type[np.unsignedinteger[Any]]) -> Array:
    """Bit patterns of either sign, up to that many steps away from each power of two; the last ones are NaNs."""
    width = np.dtype(bits).itemsize * 8
    exponents = np.arange(1 << (width - 1 - digits), dtype=bits)[:, None] << bits(digits)
    near = (exponents + np.arange(-steps, steps, dtype=np.int64).astype(bits)).reshape(-1)
    return np.resize(np.concatenate([near, near | bits(1 << (width - 1))]), CHUNK)


def _samples() -> Iterator[Array]:
    """Numbers of common sizes, numbers below one, and numbers of all magnitudes up to 2^30 either way."""
    random = np.random.default_rng(0)
    yield random.uniform(-20, 20, CHUNK)
    yield random.uniform(-1, 1, CHUNK)
    yield np.exp2(random.uniform(-30, 30, CHUNK)) * random.choice([-1, 1], CHUNK)


def flushes(dtype: np.dtype[Any]) -> bool:
    """Whether subnormals count as zero. Those of f16 are normal numbers of f32, which computes."""
    return dtype != np.float16


def ulp_errors(found: Array, exact: Array, dtype: np.dtype[Any]) -> Array:
    """The error of each element in ULPs of the exact value; infinite where it is NaN or infinite by mistake."""
    facts = ml_dtypes.finfo(dtype)
    smallest, largest = float(facts.tiny), float(facts.max)
    got = found.astype(exact.dtype)
    magnitude = np.clip(np.abs(exact), smallest, largest)
    ulp = np.ldexp(np.ones_like(magnitude), np.frexp(magnitude)[1] - 1 - facts.nmant)
    with np.errstate(invalid="ignore"):
        error = np.abs(got - exact) / ulp
    if dtype.kind == "c":
        error[(_largest_part(got - exact) <= smallest) | ~(np.abs(exact) < largest / 4)] = 0
        return error
    if flushes(dtype):
        error[(np.abs(exact) < smallest) & (np.abs(got) <= smallest)] = 0
    overflows = np.abs(exact) >= largest + ulp / 2
    error[overflows] = np.where(got[overflows] == np.copysign(np.inf, exact[overflows]), 0, np.inf)
    error[np.isinf(got) & ~overflows] = np.inf
    error[np.isnan(exact) & np.isnan(got)] = 0
    error[np.isnan(exact) != np.isnan(got)] = np.inf
    return error


def _largest_part(x: Array) -> Array:
    return np.maximum(np.abs(x.real), np.abs(x.imag))


def steps_off(found: Array, exact: Array) -> Array:
    """How many representable numbers lie from the correctly rounded value to the one found."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(found.dtype)
    return np.abs(_ordered(found) - _ordered(rounded))


def _ordered(x: Array) -> Array:
    """Integers in the order of the numbers, equal for both zeros."""
    bits = x.view(f"i{x.dtype.itemsize}").astype(np.int64)
    return np.where(bits < 0, np.int64(-1 << (8 * x.dtype.itemsize - 1)) - bits, bits)


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The largest error in ULPs, the input that has it, and the most steps from the correctly rounded result.

    Complex numbers have no order, and so no steps (-1).
    """

    ulp: float
    at: float | complex
    steps: int

    def __str__(self) -> str:
        ulp = f"{math.ceil(self.ulp * 1000) / 1000:.3f}"
        return ulp if self.steps < 0 else f"{ulp} ({self.steps})"


def measure(opcode: str, kind: str, piece: int | None = None) -> Accuracy:
    """Returns how accurate an opcode is, over the inputs of `inputs`."""
    dtype, run = TYPES[kind], program(opcode, kind)
    smallest = float(ml_dtypes.finfo(dtype).tiny) if flushes(dtype) else 0.0
    is_complex = dtype.kind == "c"
    worst, where, steps = 0.0, math.nan, -1 if is_complex else 0
    for x in inputs(kind, piece):
        with np.errstate(all="ignore"):
            wide = x.astype(WIDER.get(kind, np.float64))
            if not is_complex:
                wide = np.where(np.abs(wide) < smallest, np.copysign(0, wide), wide)
            found, exact = run(x), TRUTH[opcode](wide)
            errors = ulp_errors(found, exact, dtype)
        position = int(np.argmax(errors))
        if errors[position] > worst:
            worst, where = float(errors[position]), x[position].item()
        if not is_complex:
            steps = max(steps, int(steps_off(found, exact)[errors > 0].max(initial=0)))
    return Accuracy(worst, where, steps)


def page() -> str:
    """The text of docs/accuracy.md."""
    rows = [f"| `{op}` | {' | '.join(_cell(op, kind) for kind in TYPES)} |" for op in TRUTH]
    return PAGE_HEAD.format(types=" | ".join(TYPES), rule=" | ".join("---" for _ in TYPES)) + "\n".join(rows) + "\n"


def _cell(opcode: str, kind: str) -> str:
    return str(measure(opcode, kind)) if kind in kinds_of(opcode) else ""


def kinds_of(opcode: str) -> tuple[str, ...]:
    """The types that an opcode takes."""
    return tuple(kind for kind in TYPES if kind[0] != "c" or opcode not in REAL_ONLY)


PAGE_HEAD = f"""# Accuracy of the math functions

The largest error of a compiled function in units in the last place, and in parentheses how many representable numbers lie at most between
the result and the correctly rounded one: 0 is correctly rounded, 1 a neighbour. The error of a complex number is its distance
from the truth, in units of its absolute value. Subnormal numbers of f32, bf16 and f64 count as zero, as in XLA's CPU code; those of f16
do not. The table is for a CPU with fused multiply-add; without it, `erf`, `exponential-minus-one` and `rsqrt` of f32 are computed in
f64, and good to 1 ULP, too. The logistic function of c128 is 1 / (1 + exp(-x)), which loses digits near its poles.

f16 and bf16: all inputs. f32: one input in {SAMPLE_STEP:,}, and near all powers of two. f64: near all powers of two, and {3 * CHUNK:,}
random numbers; c64 and c128: as many pairs of them.

| opcode | {{types}} |
| --- | {{rule}} |
"""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
