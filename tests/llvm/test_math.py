"""Accuracy of the inline functions in units of the last place, on every instruction set; run with -s for the table.

References are long double (64-bit mantissa): good to about 2^-10 ULP of f64.
"""

import numpy as np
import pytest
from scipy import special

from tests.llvm import jit
from xjit.llvm import Target
from xjit.llvm import types as ty
from xjit.llvm import values as va
from xjit.llvm.math.math_functions import BINARY, UNARY
from xjit.llvm.math.remainder import remainder
from xjit.llvm.math.vec import Vec

LONG = np.longdouble
PI = LONG("3.14159265358979323846264338327950288")


def erf(x):
    """By the series with positive terms up to 3, beyond by the complement."""
    a = np.abs(x)
    near = np.minimum(a, 3)
    term = total = near
    for n in range(1, 90):
        term = term * 2 * near * near / (2 * n + 1)
        total = total + term
    series = 2 / np.sqrt(PI) * np.exp(-near * near) * total
    return np.copysign(np.where(a < 3, series, 1 - LONG(special.erfc(a.astype(np.float64)))), x)


REFERENCE = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "cosh": np.cosh,
    "cosine": np.cos,
    "erf": erf,
    "exponential": np.exp,
    "exponential-minus-one": np.expm1,
    "log": np.log,
    "log-plus-one": np.log1p,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sine": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
}

BUDGET = {
    "acos": 1.6, "acosh": 3.0, "asin": 2.5, "asinh": 3.0, "atan": 2.5, "atanh": 2.5, "cbrt": 0.6, "cosh": 2.0,
    "cosine": 1.0, "erf": 1.6, "exponential": 1.1, "exponential-minus-one": 2.2, "log": 1.0, "log-plus-one": 1.6,
    "logistic": 2.5, "rsqrt": 1.5, "sine": 1.0, "sinh": 2.9, "sqrt": 0.5, "tan": 1.5, "tanh": 2.9,
}  # fmt: skip
"""Largest error allowed; what XLA allows itself is in no case less, counted in whole ULP of the rounded result."""

TYPES = {"f32": (np.float32, ty.FLOAT), "f64": (np.float64, ty.DOUBLE)}


def samples(dtype, count, seed=0):
    """Random bits, ordinary numbers, the whole range of exp, and special values. No subnormals."""
    rng, info = np.random.default_rng(seed), np.finfo(dtype)
    raw = rng.integers(0, 1 << 63, count // 4, dtype=np.uint64) * np.uint64(2) >> np.uint64(64 - info.bits)
    anything = raw.astype(f"u{info.bits // 8}").view(dtype)
    ordinary = (rng.normal(size=count // 2) * 10.0 ** rng.uniform(-3, 2, count // 2)).astype(dtype)
    limit = 89 if dtype is np.float32 else 711
    middle = rng.uniform(-limit, limit, count // 4).astype(dtype)
    special_values = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        np.inf,
        -np.inf,
        np.nan,
        info.max,
        -info.max,
        info.tiny,
        np.pi,
        1e5,
    ]
    special_values += [np.pi / 2, 2.0**20, -(2.0**20), 1e22, 2.0, 3.0, 1 - info.epsneg, 1 + info.eps, 1e-8, -1e-8, 1e30]
    x = np.concatenate([np.array(special_values, dtype), anything, ordinary, middle])
    x[np.abs(x) < info.tiny] = 0
    return x[: x.size // 16 * 16]


def vectors(function):
    return lambda b, *values: function(*[Vec(b, value) for value in values]).v


@pytest.mark.parametrize("level", jit.host_levels())
@pytest.mark.parametrize("type_name", TYPES)
def test_accuracy(type_name, level):
    dtype, llvm_type = TYPES[type_name]
    target = Target.for_features(level)
    x = samples(dtype, 16384, seed=jit.LEVELS.index(level))
    failures = []
    for opcode, reference in REFERENCE.items():
        kernel = jit.Kernel(vectors(UNARY[opcode]), [llvm_type], [llvm_type], target.vector_width(llvm_type), target)
        assert not kernel.undefined, f"{opcode} calls {kernel.undefined}"
        with np.errstate(all="ignore"):
            exact = reference(x.astype(LONG))
        (result,) = kernel([x], [dtype])
        error = jit.ulp_error(result, exact)
        worst = int(np.argmax(error))
        print(f"{level:7} {type_name} {opcode:22} max {float(error[worst]):6.3f} mean {float(error.mean()):5.3f} ULP")
        if not error[worst] <= BUDGET[opcode]:
            failures.append(f"{opcode}: {error[worst]} ULP at {x[worst]!r}: {result[worst]!r}, not {exact[worst]!r}")
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("level", jit.host_levels())
def test_floats_are_good_to_one_ulp(level):
    """Also where nothing is fused; around the places where ranges of arguments meet."""
    target = Target.for_features(level)
    x = np.random.default_rng(3).uniform(0.2, 2.0, 32768).astype(np.float32)
    for opcode in (
        "exponential",
        "exponential-minus-one",
        "log",
        "log-plus-one",
        "sine",
        "cosine",
        "tanh",
        "rsqrt",
        "erf",
    ):
        width = target.vector_width(ty.FLOAT)
        (result,) = jit.Kernel(vectors(UNARY[opcode]), [ty.FLOAT], [ty.FLOAT], width, target)([x], [np.float32])
        error = jit.ulp_error(result, REFERENCE[opcode](x.astype(LONG)))
        assert error.max() <= 1, (opcode, error.max(), x[np.argmax(error)])


@pytest.mark.slow
@pytest.mark.parametrize("type_name", TYPES)
@pytest.mark.parametrize("opcode", REFERENCE)
def test_accuracy_on_many_samples(opcode, type_name):
    dtype, llvm_type = TYPES[type_name]
    x = samples(dtype, 1 << 20, seed=99)
    kernel = jit.Kernel(vectors(UNARY[opcode]), [llvm_type], [llvm_type], Target.host().vector_width(llvm_type))
    with np.errstate(all="ignore"):
        exact = REFERENCE[opcode](x.astype(LONG))
    error = jit.ulp_error(kernel([x], [dtype])[0], exact)
    assert error.max() <= BUDGET[opcode], (error.max(), x[np.argmax(error)])


@pytest.mark.parametrize("type_name", TYPES)
def test_width_does_not_change_results(type_name):
    """Scalars, and vectors of any width, have the same bits."""
    dtype, llvm_type = TYPES[type_name]
    x = samples(dtype, 2048)
    for opcode, function in UNARY.items():
        results = []
        for width in (1, 4, 16):
            (result,) = jit.Kernel(vectors(function), [llvm_type], [llvm_type], width)([x], [dtype])
            results.append(np.where(np.isnan(result), 0, result).tobytes())
        assert results[0] == results[1] == results[2], opcode


def pairs(dtype, seed):
    x, y = samples(dtype, 8192, seed), samples(dtype, 8192, seed + 50)
    corner = np.array(
        [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.0, -2.0, 0.5, 3.0, -3.0, 1e4, -0.3, 4.0, 5.0], dtype
    )
    a, b = (grid.ravel() for grid in np.meshgrid(corner, corner))
    return np.concatenate([a, x]), np.concatenate([b, np.random.default_rng(seed).permutation(y)])


@pytest.mark.parametrize("level", jit.host_levels())
@pytest.mark.parametrize("type_name", TYPES)
@pytest.mark.parametrize("opcode", ["atan2", "power", "remainder"])
def test_binary_accuracy(opcode, type_name, level):
    dtype, llvm_type = TYPES[type_name]
    target = Target.for_features(level)
    x, y = pairs(dtype, jit.LEVELS.index(level))
    if opcode == "power":  # more bases near 1 and moderate powers, where log must be accurate
        rng = np.random.default_rng(5)
        x = np.concatenate(
            [x, np.exp(rng.normal(size=8192) * 0.1).astype(dtype), np.exp(rng.uniform(-80, 80, 8192)).astype(dtype)]
        )
        y = np.concatenate([y, rng.normal(size=8192).astype(dtype) * 800, rng.normal(size=8192).astype(dtype) * 3])
    function = remainder if opcode == "remainder" else BINARY[opcode]
    kernel = jit.Kernel(vectors(function), [llvm_type] * 2, [llvm_type], target.vector_width(llvm_type), target)
    assert not kernel.undefined
    (result,) = kernel([x, y], [dtype])
    with np.errstate(all="ignore"):
        exact = {"atan2": np.arctan2, "power": np.power, "remainder": np.fmod}[opcode](x.astype(LONG), y.astype(LONG))
        rounded = exact.astype(dtype)
    error = jit.ulp_error(result, exact)
    worst = int(np.argmax(error))
    print(f"{level:7} {type_name} {opcode:22} max {float(error[worst]):6.3f} mean {float(error.mean()):5.3f} ULP")
    limit = {"atan2": 2.8, "power": 1.2, "remainder": 0.0}[opcode]
    assert error[worst] <= limit, (x[worst], y[worst], result[worst], exact[worst])
    zero = exact == 0  # and underflows
    np.testing.assert_array_equal(np.signbit(result[zero]), np.signbit(rounded[zero]))


@pytest.mark.parametrize("level", jit.host_levels())
@pytest.mark.parametrize("type_name", TYPES)
@pytest.mark.parametrize("exponent", [0.5, -0.5, 3.0])
def test_powers_with_a_constant_exponent(exponent, type_name, level):
    """A few instructions, which differ from roots at -0 and -inf."""
    dtype, llvm_type = TYPES[type_name]
    target = Target.for_features(level)
    x = samples(dtype, 4096, seed=1)
    x[:3] = 0.0, -0.0, -np.inf
    kernel = jit.Kernel(
        lambda b, x: BINARY["power"](Vec(b, x), Vec(b, va.constant(x.type, exponent))).v,
        [llvm_type], [llvm_type], target.vector_width(llvm_type), target,
    )  # fmt: skip
    assert not kernel.undefined
    (result,) = kernel([x], [dtype])
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(LONG), LONG(exponent))
    assert jit.ulp_error(result, exact).max() <= {0.5: 0.5, -0.5: 1.5, 3.0: 1.25}[exponent]
    known = {0.5: [0, 0, np.inf], -0.5: [np.inf, np.inf, 0], 3.0: [0, -0.0, -np.inf]}[exponent]
    np.testing.assert_array_equal(result[:3], known)
    np.testing.assert_array_equal(np.signbit(result[:3]), np.signbit(known))


@pytest.mark.parametrize("level", jit.host_levels())
@pytest.mark.parametrize("type_name", TYPES)
def test_powers_of_two(type_name, level):
    dtype, llvm_type = TYPES[type_name]
    target = Target.for_features(level)
    special = [np.inf, -np.inf, np.nan, 0, -0.0, 1e30, -1e30]
    limit = 126 if dtype is np.float32 else 1022
    y = np.concatenate([np.random.default_rng(0).uniform(-limit, limit + 1, 4089), special]).astype(dtype)
    y[:40] = np.arange(-20, 20)
    kernel = jit.Kernel(
        lambda b, y: BINARY["power"](Vec(b, va.constant(y.type, 2.0)), Vec(b, y)).v,
        [llvm_type], [llvm_type], target.vector_width(llvm_type), target,
    )  # fmt: skip
    assert not kernel.undefined
    (result,) = kernel([y], [dtype])
    with np.errstate(all="ignore"):
        exact = np.power(LONG(2), y.astype(LONG))
    assert jit.ulp_error(result, exact).max() <= (0.6 if dtype is np.float32 else 1.2)
    np.testing.assert_array_equal(result[:40], exact[:40].astype(dtype))
    np.testing.assert_array_equal(result[-7:], np.array([np.inf, 0, np.nan, 1, 1, np.inf, 0], dtype))


@pytest.mark.parametrize("level", jit.host_levels())
@pytest.mark.parametrize("type_name", TYPES)
@pytest.mark.parametrize("divisor", [1.0, -4.0, 2.0**100])
def test_remainders_by_a_constant_power_of_two(divisor, type_name, level):
    dtype, llvm_type = TYPES[type_name]
    target = Target.for_features(level)
    x = samples(dtype, 4096, seed=2)
    x[:3] = -0.0, -8.0, 7.5
    kernel = jit.Kernel(
        lambda b, x: remainder(Vec(b, x), Vec(b, va.constant(x.type, divisor))).v,
        [llvm_type], [llvm_type], target.vector_width(llvm_type), target,
    )  # fmt: skip
    assert not kernel.undefined
    (result,) = kernel([x], [dtype])
    with np.errstate(all="ignore"):
        want = np.fmod(x, dtype(divisor))
    np.testing.assert_array_equal(result, want)
    ordinary = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(result[ordinary]), np.signbit(want[ordinary]))


def test_trigonometric_functions_of_huge_and_nearly_critical_arguments():
    hard = [
        6381956970095103.0 * 2.0**797,
        1e22,
        1.7976931348623157e308,
        2.0**300,
        1.5707963267948966,
        355.0,
        3.14159265358979e5,
    ]
    x = np.array([*hard, 2.0**20 - 0.25] + [-v for v in hard] + [1e-300])
    for opcode in ("sine", "cosine", "tan"):
        (result,) = jit.Kernel(vectors(UNARY[opcode]), [ty.DOUBLE], [ty.DOUBLE], 8)([x], [np.float64])
        with np.errstate(all="ignore"):
            error = jit.ulp_error(result, REFERENCE[opcode](x.astype(LONG)))
        # beyond 2^63 long double's own functions are not reliable: compare with known values below
        assert error[np.abs(x) < 2.0**60].max() < 1.5, opcode
    (sine,) = jit.Kernel(vectors(UNARY["sine"]), [ty.DOUBLE], [ty.DOUBLE], 1)([np.array([1e22])], [np.float64])
    assert sine[0] == -0.8522008497671888
    (cosine,) = jit.Kernel(vectors(UNARY["cosine"]), [ty.DOUBLE], [ty.DOUBLE], 1)([np.array([hard[0]])], [np.float64])
    assert abs(cosine[0] / -4.6871659242546277e-19 - 1) < 1e-15


@pytest.mark.parametrize("opcode", ["exponential", "tanh"])
def test_special_values_are_exact(opcode):
    x = np.array([np.inf, -np.inf, np.nan, -0.0, 0.0, 200.0, -200.0, 1e-30], np.float32)
    (result,) = jit.Kernel(vectors(UNARY[opcode]), [ty.FLOAT], [ty.FLOAT], 8)([x], [np.float32])
    want = {
        "exponential": [np.inf, 0, np.nan, 1, 1, np.inf, 0, 1],
        "tanh": [1, -1, np.nan, -0.0, 0.0, 1, -1, np.float32(1e-30)],
    }[opcode]
    np.testing.assert_array_equal(result, np.array(want, np.float32))
    np.testing.assert_array_equal(np.signbit(result)[3:], np.signbit(want)[3:])
