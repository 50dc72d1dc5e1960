"""Complex functions against NumPy's long double versions, for c64 and c128; selected special values."""

import numpy as np
import pytest

import xjit
from tests.llvm.test_elementwise import run
from xjit.hlo.types.primitive_type import PrimitiveType as P

REFERENCE = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atanh": np.arctanh,
    "cosh": np.cosh,
    "cosine": np.cos,
    "exponential": np.exp,
    "exponential-minus-one": np.expm1,
    "log": np.log,
    "log-plus-one": np.log1p,
    "logistic": lambda z: 1 / (1 + np.exp(-z)),
    "rsqrt": lambda z: 1 / np.sqrt(z),
    "sine": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
}
INACCURATE = {"logistic": 1e3}  # next to its poles


def points(kind, count=4096):
    rng = np.random.default_rng(kind.proto)
    size = 10.0 ** rng.uniform(-4, 1, count)
    z = np.empty(count, kind.dtype)
    z.real = size * rng.choice([-1, 1], count)
    z.imag = 10.0 ** rng.uniform(-4, 1, count) * rng.choice([-1, 1], count)
    z.real[::16], z.imag[::17] = 0.0, 0.0
    return z


def relative_error(got, want, epsilon):
    """|got - want| / |want| in units of epsilon: the error of the number, not of each part."""
    with np.errstate(all="ignore"):
        error = np.abs(got.astype(np.clongdouble) - want) / np.maximum(np.abs(want), 1e-30) / epsilon
    return error[np.isfinite(want.real) & np.isfinite(want.imag)]


@pytest.mark.parametrize("kind", [P.C64, P.C128], ids=lambda t: t.text)
def test_functions_are_accurate(kind):
    z = points(kind)
    epsilon = float(np.finfo(kind.component.dtype).eps)
    failures, table = [], []
    for opcode, function in REFERENCE.items():
        with np.errstate(all="ignore"):
            want = function(z.astype(np.clongdouble))
        got = run(opcode, kind, [z], width=4)
        worst = float(relative_error(got, want, epsilon).max())
        limit = INACCURATE.get(opcode, 8.0) if kind is P.C128 else 1.0
        table.append(f"{kind.text:5} {opcode:22} {worst:10.2f} eps")
        if not worst <= limit:
            i = int(np.argmax(np.abs(got.astype(np.clongdouble) - want) / np.abs(want)))
            failures.append(f"{opcode}: {worst} eps at {z[i]!r}: {got[i]!r}, not {want[i]!r}")
    print("\n".join(table))
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("kind", [P.C64, P.C128], ids=lambda t: t.text)
def test_arithmetic(kind):
    a, b = points(kind), points(kind)[::-1].copy()
    b[b == 0] = 1
    epsilon = float(np.finfo(kind.component.dtype).eps)
    wide_a, wide_b = a.astype(np.clongdouble), b.astype(np.clongdouble)
    for opcode, want in {"multiply": wide_a * wide_b, "divide": wide_a / wide_b}.items():
        assert relative_error(run(opcode, kind, [a, b]), want, epsilon).max() < 4
    a[a == 0] = 2
    wide_a = a.astype(np.clongdouble)
    small = (b / 4).astype(kind.dtype)
    with np.errstate(all="ignore"):
        want = np.exp(small.astype(np.clongdouble) * np.log(wide_a))
    assert relative_error(run("power", kind, [a, small]), want, epsilon).max() < 100
    size = run("abs", kind.component, [a])
    np.testing.assert_allclose(size, np.abs(wide_a).astype(kind.component.dtype), rtol=2 * epsilon)


SPECIAL = {
    "sqrt": [(complex(-4.0, 0.0), 2j), (complex(-4.0, -0.0), 2j), (complex(-np.inf, 1), complex(0, np.inf)), (0j, 0j)],
    "log": [(complex(-1.0, 0.0), np.pi * 1j), (complex(0.0, 0.0), complex(-np.inf, 0)), (np.inf + 0j, np.inf + 0j)],
    "exponential": [(complex(-np.inf, np.inf), complex(np.nan, np.nan)), (complex(0, 0), 1 + 0j), (np.inf + 0j, np.inf + 0j)],
    "tanh": [(complex(np.inf, 1.0), 1 + 0j), (complex(-1000.0, 1.0), -1 + 0j), (0j, 0j), (complex(400.0, 0.5), 1 + 0j)],
    "abs": [(complex(np.inf, np.nan), np.inf), (complex(3e38, 3e38), np.inf), (complex(3, 4), 5.0)],
    "log-plus-one": [(complex(1e-20, 1e-20), complex(1e-20, 1e-20)), (complex(-1.0, 0.0), complex(-np.inf, 0))],
    "sign": [(0j, 0j), (complex(0, -5), -1j)],
}  # fmt: skip


@pytest.mark.parametrize("opcode", SPECIAL)
def test_special_values(opcode):
    for z, want in SPECIAL[opcode]:
        result = P.F32 if opcode == "abs" else P.C64
        got = run(opcode, result, [np.full(8, z, np.complex64)])[0]
        np.testing.assert_allclose(
            [got.real, got.imag], [np.real(want), np.imag(want)], rtol=1e-6, err_msg=f"{opcode} of {z}"
        )


@pytest.mark.parametrize("kind", [P.C64, P.C128], ids=lambda t: t.text)
@pytest.mark.parametrize(
    "opcode", ["exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "rsqrt", "sqrt"]
)
def test_extremes_are_those_of_the_evaluator(opcode, kind):
    """Zeros of either sign, infinities and NaNs in either part; what is XLA's, and not always that of C99."""
    parts = [0.0, -0.0, 0.5, 1.0, -1.0, 3.0, np.inf, -np.inf, np.nan]
    z = np.array([complex(x, y) for x in parts for y in parts] * 8, kind.dtype)
    text = f"HloModule m\nENTRY e {{\n  z = {kind.text}[{z.size}] parameter(0)\n"
    with np.errstate(all="ignore"):
        want = xjit.evaluate(f"{text}  ROOT r = {kind.text}[{z.size}] {opcode}(z)\n}}", z)
    got = run(opcode, kind, [z])
    rtol = 8 * float(np.finfo(kind.component.dtype).eps)
    for part in ("real", "imag"):
        np.testing.assert_allclose(getattr(got, part), getattr(want, part), rtol=rtol, atol=rtol)


@pytest.mark.parametrize("kind", [P.C64, P.C128])
def test_absolute_values_are_as_good_at_all_magnitudes(kind):
    part = kind.component.dtype
    rng, info = np.random.default_rng(3), np.finfo(part)
    exponents = rng.uniform(np.log2(info.tiny) + 1, np.log2(info.max) - 1, (2, 5000))
    near = exponents[0] + rng.uniform(-3, 0, 5000)  # both parts count
    for other in (exponents[1], near):
        x, y = (np.exp2(e).astype(part) for e in (exponents[0], np.maximum(other, np.log2(info.tiny) + 1)))
        got = run("abs", kind.component, [(x + 1j * y).astype(kind.dtype)])
        want = np.hypot(x.astype(np.longdouble), y.astype(np.longdouble))
        assert np.max(np.abs(got - want) / np.spacing(want.astype(part))) < 1.5
        np.testing.assert_array_equal(run("abs", kind.component, [(x + 0j).astype(kind.dtype)]), x)


def test_extreme_magnitudes_do_not_overflow():
    z = np.array([complex(1e300, 1e300), complex(1e-200, 1e-200), complex(1e308, -1e-308), complex(3e-200, 0)] * 2)
    for opcode, function in {"sqrt": np.sqrt, "log": np.log, "abs": np.abs}.items():
        result = P.F64 if opcode == "abs" else P.C128
        got = run(opcode, result, [z], width=4)
        np.testing.assert_allclose(got, function(z), rtol=1e-14, err_msg=opcode)
