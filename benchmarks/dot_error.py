"""Errors of f32 products beside XLA:CPU's: by multiply-adds, and by bf16 planes on matrix units.

The matrix unit is emulated where the CPU has none, bit for bit (level "amx_emulated"); nothing is timed. An error is
that of an element against f64, divided by the sum of its absolute products. Columns "/ XLA" are ratios to XLA:CPU's, of
the largest error and of the root of the mean square; where XLA is exact, they say whether the product is, too. "planes"
says whether the operands were multiplied so, or fell back on multiply-adds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from reporting import Report, parse_arguments
from xla_cpu import XlaExecutable, to_device

import xjit

_TEXT = """HloModule m
ENTRY e {{
  x = f32[{m},{k}] parameter(0)
  w = f32[{k},{n}] parameter(1)
  ROOT d = f32[{m},{n}] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
"""
Operands = tuple[np.ndarray, np.ndarray]
_M, _N = 512, 528


def _floats(make: Callable[[Generator, tuple[int, int]], np.ndarray]) -> Callable[[Generator, int], Operands]:
    return lambda rng, k: (
        make(rng, (_M, k)).astype(np.float32),
        make(rng, (k, _N)).astype(np.float32),
    )


def _wide(binades: int) -> Callable[[Generator, int], Operands]:
    half = binades // 2
    return _floats(
        lambda rng, size: rng.uniform(1, 2, size) * _signs(rng, size) * 2.0 ** rng.integers(-half, half, size)
    )


def _signs(rng: Generator, size: tuple[int, ...]) -> np.ndarray:
    return rng.choice([-1.0, 1.0], size)


def _integers(bits: int) -> Callable[[Generator, int], Operands]:
    return _floats(lambda rng, size: rng.integers(-(2**bits), 2**bits + 1, size))


def _halves(rng: Generator, k: int) -> Operands:
    """The second half of each sum takes back the first but for 2^-12 of it."""
    x, w = rng.standard_normal((_M, k // 2)), rng.standard_normal((k // 2, _N))
    taken_back = -x * (1 + 2.0**-12 * rng.standard_normal(x.shape))
    return np.hstack([x, taken_back]).astype(np.float32), np.vstack([w, w]).astype(np.float32)


def _neighbours(rng: Generator, k: int) -> Operands:
    """Every product takes back the one before it but for 2^-12 of it."""
    x, w = _halves(rng, k)
    order = np.arange(k).reshape(2, -1).T.ravel()
    return np.ascontiguousarray(x[:, order]), np.ascontiguousarray(w[order])


def _with(value: float) -> Callable[[Generator, int], Operands]:
    def make(rng: Generator, k: int) -> Operands:
        x, w = _floats(Generator.standard_normal)(rng, k)
        x[rng.random(x.shape) < 1e-4] = value
        return x, w

    return make


CLASSES: dict[str, Callable[[Generator, int], Operands]] = {
    "normal": _floats(Generator.standard_normal),
    "uniform, positive": _floats(Generator.random),
    "40 binades": _wide(40),
    "80 binades": _wide(80),
    "integers of 7 bits": _integers(7),
    "integers of 12 bits": _integers(12),
    "integers of 20 bits": _integers(20),
    "cancelling halves": _halves,
    "cancelling neighbours": _neighbours,
    "some subnormal": _with(2.0**-130),
    "some 2^-120": _with(2.0**-120),
    "some infinite": _with(np.inf),
    "some NaN": _with(np.nan),
}


def errors(result: np.ndarray, operands: Operands) -> np.ndarray:
    """Of all elements; of those that are not finite: 0 if they are what f64 has, else infinity."""
    x, w = (operand.astype(np.float64) for operand in operands)
    with np.errstate(invalid="ignore"):
        expected, size = x @ w, np.abs(x) @ np.abs(w)
        relative = np.abs(result - expected) / size
    same = np.where(np.isnan(expected), np.isnan(result), result == expected)
    return np.where(np.isfinite(expected), relative, np.where(same, 0, np.inf))


def _ratios(found: np.ndarray, known: np.ndarray) -> str:
    if not known.any():
        return "exact" if not found.any() else "NOT EXACT"
    return f"{found.max() / known.max():.2f} {np.sqrt((found**2).mean() / (known**2).mean()):.2f}"


def main() -> None:
    """Prints a row for each class of data and number of terms."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--terms", type=int, nargs="+", default=[1024, 2048], help="terms of a sum")
    options = parse_arguments(parser)
    report = Report(["XLA max", "FMA / XLA", "planes / XLA", "planes"])
    for k in options.terms:
        text = _TEXT.format(m=_M, n=_N, k=k)
        xla = XlaExecutable(text)
        fma, planes = (
            xjit.compile(text, options=xjit.CompileOptions(cpu_level=level)) for level in ("avx512", "amx_emulated")
        )
        for number, (name, make) in enumerate(CLASSES.items()):
            operands = make(np.random.default_rng(number), k)
            known = errors(np.asarray(xla([to_device(operand) for operand in operands])[0]), operands)
            results = [executable(*operands) for executable in (fma, planes)]
            used = not np.array_equal(*results, equal_nan=True) or not known.any()
            values = {
                "XLA max": float(known.max()),
                "FMA / XLA": _ratios(errors(results[0], operands), known),
                "planes / XLA": _ratios(errors(results[1], operands), known),
                "planes": "yes" if used else "no",
            }
            report.add(f"{k}: {name}", **values)
    report.finish(options.json)


if __name__ == "__main__":
    main()
