"""Every opcode on every element type against the reference evaluator, in scalars and vectors, for each instruction
set."""

from types import SimpleNamespace

import numpy as np
import pytest

from tests.llvm import jit
from xjit.emitters import elemental as el
from xjit.hlo import attributes as at
from xjit.hlo.types.primitive_type import PrimitiveType as P
from xjit.ops.evaluation import convert as convert_reference
from xjit.ops.evaluation import elementwise as reference
from xjit.ops.evaluation.numerics import flush

INTERPRETER = SimpleNamespace(flush=flush)
TYPES = [t for t in P if t.is_array and t.value.dtype is not None]
REAL_TYPES = [t for t in TYPES if not t.is_complex]
UNARY = [
    "abs", "negate", "ceil", "floor", "round-nearest-afz", "round-nearest-even", "sign", "is-finite", "real", "imag",
    "not", "popcnt", "count-leading-zeros", "cbrt", "exponential", "log", "rsqrt", "sine", "sqrt", "tanh",
]  # fmt: skip
BINARY = [
    "add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum", "and", "or", "xor", "mulhi",
    "shift-left", "shift-right-arithmetic", "shift-right-logical", "complex", "atan2", "power",
]  # fmt: skip
EXACT = set(UNARY[:13]) | set(BINARY) - {"atan2", "power"}


def parts_of(kind):
    return 2 if kind.is_complex else 1


def storage_types(kinds):
    return [el.storage_type(kind) for kind in kinds for _ in range(parts_of(kind))]


def storage_arrays(arrays):
    """The arrays as the kernels store them: parts of complex numbers apart, narrow types as integers."""
    result = []
    for array in arrays:
        if array.dtype.kind == "c":
            result += [array.real.copy(), array.imag.copy()]
        else:
            result.append(array)
    return result


def run(opcode, result_type, operands, attributes=at.NO_ATTRIBUTES, width=8, target=None):
    """Runs one opcode over arrays (multiples of `width` long)."""
    kinds = [P.from_dtype(a.dtype) for a in operands]

    def emit(b, *stored):
        stored, values = list(stored), []
        for kind in kinds:
            if kind.is_complex:
                values.append(el.ComplexValue(stored.pop(0), stored.pop(0)))
            else:
                values.append(el.load_convert(b, kind, stored.pop(0)))
        result = el.emit_elementwise(b, opcode, result_type, kinds, values, attributes)
        if isinstance(result, el.ComplexValue):
            return [result.real, result.imag]
        return [el.store_convert(b, result_type, result)]

    kernel = jit.Kernel(emit, storage_types(kinds), storage_types([result_type]), width, target)
    assert not kernel.undefined, f"{opcode} of {kinds} calls {kernel.undefined}"
    dtypes = [result_type.component.dtype] * parts_of(result_type)
    results = kernel(storage_arrays(operands), dtypes)
    if not result_type.is_complex:
        return results[0]
    pair = np.empty(results[0].shape, result_type.dtype)
    pair.real, pair.imag = results
    return pair


def samples(kind, count=512, seed=0):
    """Random bits, special values and small numbers of a type; no subnormals of f32 and f64."""
    rng = np.random.default_rng([seed, kind.proto])
    if kind.is_complex:
        parts = [samples(kind.component, count, seed + k) for k in (1, 2)]
        pair = np.empty(count, kind.dtype)
        pair.real, pair.imag = parts[0], rng.permutation(parts[1])
        return pair
    if kind is P.PRED:
        return rng.integers(0, 2, count).astype(np.bool_)
    if kind.is_integer:
        low, high = (
            (-(1 << (kind.bit_width - 1)), 1 << (kind.bit_width - 1)) if kind.is_signed else (0, 1 << kind.bit_width)
        )
        values = [
            int(v)
            for v in rng.integers(low, high - 1, count, endpoint=True, dtype=np.int64 if kind.is_signed else np.uint64)
        ]
        for i, special in enumerate([low, high - 1, 0, 1, max(low, -1), 2, 3, 5, 7, 8, 31, 32, 33, 63, 64]):
            if low <= special < high:
                values[i::37] = [special] * len(values[i::37])
        wide = np.int64 if kind.is_signed else np.uint64
        return (
            np.array(values, wide).astype(kind.dtype)
            if kind.bit_width >= 8
            else np.array(values).astype(np.int8).astype(kind.dtype)
        )
    if kind.bit_width <= 8:
        first = 1 if kind is P.F8E8M0FNU else 0  # its 0 is 2^-127, subnormal as f32
        return np.resize(np.arange(first, 1 << kind.bit_width, dtype=np.uint8), count).view(kind.dtype)
    bits = rng.integers(0, 1 << 63, count, dtype=np.uint64) * np.uint64(2) >> np.uint64(64 - kind.bit_width)
    values = bits.astype(f"u{kind.byte_width}").view(kind.dtype)
    values[::2] = (rng.normal(size=count) * 4).astype(kind.dtype)[::2]
    special = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 3.0, 1e4, -7.0, 0.25]
    for i, number in enumerate(special):
        values[i::53] = np.asarray(number).astype(kind.dtype)
    with np.errstate(all="ignore"):
        if kind.bit_width >= 32:
            return flush(values)
    return values


def check(got, want, kind, exact=True):
    if kind.is_complex:
        check(got.real.copy(), want.real.copy(), kind.component, exact)
        check(got.imag.copy(), want.imag.copy(), kind.component, exact)
        return
    if not kind.is_float:
        np.testing.assert_array_equal(
            got.astype(np.int64 if kind.is_signed else np.uint64),
            want.astype(np.int64 if kind.is_signed else np.uint64),
        )
        return
    with np.errstate(all="ignore"):
        got, want = (np.asarray(v).astype(np.float64) for v in (got, want))
    if exact:
        np.testing.assert_array_equal(got, want)
        if kind not in (P.F4E2M1FN, P.F6E2M3FN, P.F6E3M2FN):  # their zeros stand for NaN, too
            nan = np.isnan(want)
            np.testing.assert_array_equal(np.signbit(got)[~nan], np.signbit(want)[~nan])
    else:
        epsilon = {P.F64: 2.0**-50, P.F32: 2.0**-21}.get(
            kind, 2.0**-7 if kind is P.BF16 else 2.0**-9 if kind is P.F16 else 0.6
        )
        np.testing.assert_allclose(got, want, rtol=epsilon, atol=2.0**-1020 if kind is P.F64 else 2.0**-124)


def result_type_of(opcode, kind):
    if opcode == "is-finite":
        return P.PRED
    if opcode == "complex":
        return {P.F32: P.C64, P.F64: P.C128}[kind]
    if opcode in ("abs", "real", "imag"):
        return kind.component
    return kind


def defined(opcode, kind):
    if opcode == "complex":
        return kind in (P.F32, P.F64)
    row = reference.TABLE[opcode]
    return row.select(kind) is not None and (kind.dtype.itemsize > 0)


@pytest.mark.parametrize("kind", TYPES, ids=lambda t: t.text)
def test_opcodes_match_the_evaluator(kind):
    width = 8
    for opcode in (*UNARY, *BINARY):
        if not defined(opcode, kind) or not el.supports_elementwise(opcode, kind):
            continue
        if kind.is_complex and opcode not in ("abs", "negate", "real", "imag", "add", "subtract"):
            continue  # test_complex.py
        operands = [samples(kind, seed=7 * i) for i in range(1 if opcode in UNARY else 2)]
        result_type = result_type_of(opcode, kind)
        with np.errstate(all="ignore"):
            want = reference.apply(INTERPRETER, opcode, result_type.dtype, *operands)
        got = run(opcode, result_type, operands, width=width)
        try:
            check(got, want, result_type, opcode in EXACT and not (kind.is_complex and opcode == "abs"))
        except AssertionError as error:
            raise AssertionError(f"{opcode} on {kind.text}: {error}") from None


@pytest.mark.parametrize("source", TYPES, ids=lambda t: t.text)
def test_conversions_match_the_evaluator(source):
    x = samples(source)
    for target in TYPES:
        with np.errstate(all="ignore"):
            want = convert_reference.convert(INTERPRETER, x, target)
        got = run("convert", target, [x])
        try:
            check(got, want, target)
        except AssertionError as error:
            raise AssertionError(f"{source.text} to {target.text}: {error}") from None


@pytest.mark.parametrize("level", jit.host_levels())
@pytest.mark.parametrize("kind", [t for t in TYPES if t.is_float and t.bit_width <= 16], ids=lambda t: t.text)
def test_narrow_floats_are_exact(kind, level):
    """All codes decode as in ml_dtypes, and f32 numbers around all boundaries encode as there."""
    target = jit.Target.for_features(level)
    count = 1 << (16 if kind.bit_width == 16 else 8)
    codes = np.arange(count, dtype=f"u{kind.byte_width}")
    codes &= (1 << kind.bit_width) - 1
    values = codes.view(kind.dtype)
    with np.errstate(all="ignore"):
        want = values.astype(np.float32)
    got = run("convert", P.F32, [values], width=8, target=target)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got)[~np.isnan(want)], np.signbit(want)[~np.isnan(want)])

    finite = np.unique(want[np.isfinite(want)])
    middles = (finite[:-1].astype(np.float64) + finite[1:]) / 2
    limit = np.float64(np.abs(finite).max())
    edges = np.concatenate(
        [finite, middles, [limit * 1.01, limit * 1.1, limit * 2, -limit * 4, np.inf, -np.inf, np.nan, 1e30, 0.0, -0.0]]
    )
    with np.errstate(over="ignore"):
        edges = edges.astype(np.float32)
    x = np.concatenate([edges, np.nextafter(edges, np.float32(np.inf)), np.nextafter(edges, np.float32(-np.inf))])
    x = x[(np.abs(x) >= 2.0**-126) | (x == 0) | np.isnan(x)]
    x = np.concatenate([x, np.zeros(-x.size % 8, np.float32)])
    with np.errstate(all="ignore"):
        want = x.astype(kind.dtype)
    got = run("convert", kind, [x], width=8, target=target)
    nan = np.isnan(want.astype(np.float32))
    same = got.view(codes.dtype) == want.view(codes.dtype)
    bad = np.nonzero(~(same | (nan & np.isnan(got.astype(np.float32)))))[0]
    assert bad.size == 0, [(float(x[i]), got[i], want[i]) for i in bad[:5]]


@pytest.mark.parametrize("level", jit.host_levels())
def test_f16_is_shortened_to_f8e5m2(level):
    """All codes: where the bits of the f16 are known, the upper byte is rounded."""
    codes = np.arange(1 << 16, dtype=np.uint16)
    target = jit.Target.for_features(level)
    got = run("convert", P.F8E5M2, [codes.view(np.float16)], width=16, target=target)
    with np.errstate(all="ignore"):
        want = codes.view(np.float16).astype(P.F8E5M2.dtype)
    nan = np.isnan(want.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(got.astype(np.float32)), nan)
    np.testing.assert_array_equal(got.view(np.uint8)[~nan], want.view(np.uint8)[~nan])


@pytest.mark.parametrize("kind", [P.C64, P.C128], ids=lambda t: t.text)
def test_real_parts_clamp_complex_numbers(kind):
    parts = [-np.inf, -1.0, -0.0, 0.0, 2.0, np.nan]
    values = np.array([complex(a, b) for a in parts for b in (-1.0, -0.0, 2.0, np.nan)], kind.dtype)
    operands = [np.ascontiguousarray(x).ravel() for x in np.broadcast_arrays(*np.ix_(values, values, values))]
    instruction = SimpleNamespace(shape=SimpleNamespace(dtype=kind.dtype))
    want = reference.EVALUATORS["clamp"](INTERPRETER, instruction, operands)
    got = run("clamp", kind, operands)
    assert np.array_equal(got.real.copy(), want.real, equal_nan=True)
    assert np.array_equal(got.imag.copy(), want.imag, equal_nan=True)


@pytest.mark.parametrize("kind", [t for t in TYPES if t.is_float and t.bit_width < 32], ids=lambda t: t.text)
def test_what_was_rounded_or_loaded_is_stored_without_rounding(kind):
    function = jit.Module("m").add_function("f", jit.ty.VOID, [(jit.ty.FLOAT, "x"), (el.storage_type(kind), "y")])
    builder = jit.IRBuilder(function.append_block())
    rounded = el.round_to_type(builder, kind, function.args[0])
    loaded = el.load_convert(builder, kind, function.args[1])
    before = len(builder.block.lines)
    stored = [el.store_convert(builder, kind, value) for value in (rounded, loaded)]
    added = len(builder.block.lines) - before
    assert added == (0 if kind is not P.BF16 else 6)  # f32 to bf16: the high half, in three instructions
    assert kind is P.BF16 or stored[1] is function.args[1]


@pytest.mark.parametrize(
    "opcode", ["add", "multiply", "maximum", "exponential", "tanh", "log", "power", "negate", "floor"]
)
def test_nans_of_bf16_stay_nans(opcode):
    """Also those whose payload has all bits, which rounding must not carry out of."""
    codes = np.array([0x7F81, 0x7FC0, 0x7FFF, 0xFF81, 0xFFC0, 0xFFFF, 0x7FFE, 0xFFFE], np.uint16)
    nans = codes.view(P.BF16.dtype)
    operands = [nans, nans[::-1].copy()] if opcode in BINARY else [nans]
    assert np.isnan(run(opcode, P.BF16, operands).astype(np.float32)).all()
