"""How were the polynomials of xjit.llvm.math obtained? This script prints xjit/llvm/math/coefficients.py.

Each row fits a smooth function of one variable by least squares on Chebyshev nodes (near minimax), weighted so that
the error is relative to the final result, in 80-digit arithmetic. Coefficients are rounded to the working precision
one by one, lowest order first, and the rest is fitted again, which absorbs the rounding. Needs mpmath, which xjit
itself does not.

    python benchmarks/fit_math_coefficients.py > xjit/llvm/math/coefficients.py
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
from mpmath import mp, mpf

mp.dps = 80
LN2, PI = mp.log(2), mp.pi


def round_to(value: mpf, bits: int) -> float:
    return float(np.float32(float(value))) if bits == 32 else float(value)


def fit(function: Callable, low: mpf, high: mpf, count: int, bits: int, weight: Callable) -> tuple[list[float], float]:
    """`count` coefficients in increasing order, and log2 of the largest weighted error."""
    n = 12 * count
    middle, radius = (low + high) / 2, (high - low) / 2
    nodes = [middle + radius * mp.cos((2 * i + 1) * PI / (2 * n)) for i in range(n)]
    values = [function(t) for t in nodes]
    weights = [weight(t) ** 2 for t in nodes]
    moments = [mp.fsum(w * t**k for w, t in zip(weights, nodes)) for k in range(2 * count - 1)]
    right = [mp.fsum(w * g * t**k for w, g, t in zip(weights, values, nodes)) for k in range(count)]
    fixed: list[mpf] = []
    for j in range(count):
        rest = range(j, count)
        matrix = mp.matrix([[moments[r + c] for c in rest] for r in rest])
        vector = mp.matrix([right[r] - mp.fsum(fixed[c] * moments[r + c] for c in range(j)) for r in rest])
        fixed.append(mpf(round_to(mp.lu_solve(matrix, vector)[0], bits)))
    errors = [abs(mp.polyval(fixed[::-1], t) - g) * weight(t) for t, g in zip(nodes, values)]
    return [float(c) for c in fixed], float(mp.log(max(errors), 2))


def best_fit(
    function: Callable, low: float, high: float, bits: int, weight: Callable, goal: float
) -> tuple[list[float], float]:
    for count in range(3, 30):
        coefficients, error = fit(function, mpf(low), mpf(high), count, bits, weight)
        if error < goal:
            break
    return coefficients, error


def series_safe(function: Callable, limit: Callable) -> Callable:
    """`function`, but computed with many more digits where it cancels near 0."""

    def evaluate(t: mpf) -> mpf:
        with mp.workdps(240):
            return +function(mpf(t)) if t else limit

    return evaluate


def sqrt_argument(function: Callable) -> Callable:
    return lambda t: function(mp.sqrt(t))


ERFCX_CENTER = mpf(2)
ERFC_ROOT_CENTER = mpf("1.046875")


def erfcx_of(t: mpf) -> mpf:
    x = ERFCX_CENTER * (1 + t) / (1 - t)
    return mp.erfc(x) * mp.exp(x * x)


def rows(bits: int) -> dict[str, tuple[Callable, mpf, mpf, Callable, float]]:
    single = bits == 32
    goal = -28.0 if single else -57.5
    s_max = (mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)
    q = mpf("1.0001")  # a little slack at the ends of the intervals
    half_ln2, quarter_pi, tan_pi_8 = LN2 / 2 * q, PI / 4 * q, mp.tan(PI / 8) * q
    erf_small = mpf(1)
    return {
        "EXP": (lambda r: (mp.exp(r) - 1 - r) / r**2, -half_ln2, half_ln2, lambda r: r * r, goal),
        "LOG": (
            lambda f: (mp.log(1 + f) - f + f * f / 2) / f**3,
            1 / mp.sqrt(2) - mpf("1.001"), mp.sqrt(2) - mpf("0.999"), lambda f: abs(f**2), goal,
        ),
        "ATANH": (
            sqrt_argument(lambda s: (2 * mp.atanh(s) - 2 * s) / s**3), mpf("1e-12"), s_max**2 * q,
            lambda t: t / 2, goal,
        ),
        "SIN": (sqrt_argument(lambda r: (mp.sin(r) - r) / r**3), mpf("1e-12"), quarter_pi**2, lambda t: t, goal),
        "COS": (
            sqrt_argument(lambda r: (mp.cos(r) - 1 + r * r / 2) / r**4), mpf("1e-12"), quarter_pi**2,
            lambda t: t * t, goal,
        ),
        "TAN": (sqrt_argument(lambda r: (mp.tan(r) - r) / r**3), mpf("1e-12"), quarter_pi**2, lambda t: t, goal),
        "TANH": (sqrt_argument(lambda r: (mp.tanh(r) - r) / r**3), mpf("1e-12"), mpf("0.901") ** 2, lambda t: t, goal),
        "ATAN": (sqrt_argument(lambda r: (mp.atan(r) - r) / r**3), mpf("1e-12"), tan_pi_8**2, lambda t: t, goal),
        "ASIN": (sqrt_argument(lambda r: (mp.asin(r) - r) / r**3), mpf("1e-12"), mpf("0.25") * q, lambda t: t, goal),
        "ERF": (sqrt_argument(lambda r: mp.erf(r) / r - 1), mpf("1e-12"), erf_small * q, lambda t: 1, goal + 2.5),
        "ERFCX": (
            erfcx_of, (mpf("0.99") - ERFCX_CENTER) / (mpf("0.99") + ERFCX_CENTER),
            (6 - ERFCX_CENTER) / (6 + ERFCX_CENTER), lambda t: 1, goal + 3,
        ),
        "ERFC_ROOT": (
            lambda t: mp.root(mp.erfc(ERFC_ROOT_CENTER + t), 4), mpf("0.999") - ERFC_ROOT_CENTER,
            mpf("3.95") - ERFC_ROOT_CENTER, lambda t: 4 * mp.root(mp.erfc(ERFC_ROOT_CENTER + t), 4) ** 3, goal + 2.5,
        ),
        "CBRT": (mp.cbrt, mpf(1), mpf(2), lambda m: 1, -9.0),
    }  # fmt: skip


UNUSED = {("LOG", 64), ("ATANH", 32), ("TANH", 64), ("ERFCX", 32), ("ERFC_ROOT", 64)}

HEADER = '''"""Fitted polynomial coefficients, lowest order first.

Printed by benchmarks/fit_math_coefficients.py: do not edit.

What each approximates is said where it is used; `error` is log2 of the largest error relative to the final result.
"""

from __future__ import annotations
'''


def main() -> None:
    print(HEADER, end="")
    for bits in (32, 64):
        for name, (function, low, high, weight, goal) in rows(bits).items():
            if (name, bits) in UNUSED:
                continue
            safe = series_safe(function, mpf(0))
            coefficients, error = best_fit(safe, low, high, bits, weight, goal)
            print(f"\n{name}_F{bits} = (  # error {error:.1f}")
            for coefficient in coefficients:
                print(f"    {coefficient!r},")
            print(")", flush=True)
    # log(1+f) for pow: the remainder of 2 atanh(s) = 2s + 2/3 s^3 + s^5 P(s^2), to about 70 bits
    s_max = (mp.sqrt(2) - 1) / (mp.sqrt(2) + 1) * mpf("1.0001")
    function = series_safe(sqrt_argument(lambda s: (2 * mp.atanh(s) - 2 * s - 2 * s**3 / 3) / s**5), mpf(0))
    coefficients, error = best_fit(function, mpf("1e-12"), s_max**2, 64, lambda t: t * t / 2, -68.0)
    print(f"\nATANH_TAIL_F64 = (  # error {error:.1f}")
    for coefficient in coefficients:
        print(f"    {coefficient!r},")
    print(")")


if __name__ == "__main__":
    sys.exit(main())
