"""compare, select, clamp, bitcast-convert, reduce-precision, stochastic-convert; no library calls on any instruction
set."""

import numpy as np
import pytest

from tests.llvm import jit
from tests.llvm.test_elementwise import BINARY, INTERPRETER, TYPES, UNARY, check, defined, result_type_of, run, samples
from xjit.emitters import elemental as el
from xjit.hlo import attributes as at
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.types.primitive_type import PrimitiveType as P
from xjit.llvm import types as ty
from xjit.llvm import values as va
from xjit.ops.evaluation import convert as convert_reference
from xjit.ops.evaluation import elementwise as reference
from xjit.ops.evaluation.numerics import ordered_bits, widen

DIRECTIONS = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "GE": np.greater_equal,
    "GT": np.greater,
    "LE": np.less_equal,
    "LT": np.less,
}
REAL_TYPES = [t for t in TYPES if not t.is_complex]


@pytest.mark.parametrize("kind", TYPES, ids=lambda t: t.text)
def test_compare(kind):
    a, b = samples(kind, seed=1), samples(kind, seed=2)
    b[::3] = a[::3]
    for direction, function in DIRECTIONS.items():
        if kind.is_complex and direction not in ("EQ", "NE"):
            continue
        got = run("compare", P.PRED, [a, b], at.CompareAttributes(direction))
        with np.errstate(all="ignore"):
            want = function(widen(a), widen(b))
        np.testing.assert_array_equal(got, want, err_msg=direction)
        if kind in (P.F32, P.F64, P.F16, P.BF16):
            got = run("compare", P.PRED, [a, b], at.CompareAttributes(direction, "TOTALORDER"))
            with np.errstate(all="ignore"):
                both = ~(np.isnan(a.astype(np.float64)) & np.isnan(b.astype(np.float64)))
            want = function(ordered_bits(a), ordered_bits(b))
            np.testing.assert_array_equal(got[both], want[both], err_msg=f"total order {direction}")


@pytest.mark.parametrize("kind", REAL_TYPES, ids=lambda t: t.text)
def test_clamp_and_select(kind):
    low, x, high = (samples(kind, seed=k) for k in (3, 4, 5))
    with np.errstate(all="ignore"):
        lower = reference.apply(INTERPRETER, "maximum", kind.dtype, low, x)
        want = reference.apply(INTERPRETER, "minimum", kind.dtype, lower, high)
    check(run("clamp", kind, [low, x, high]), want, kind)
    flags = samples(P.PRED)
    check(run("select", kind, [flags, low, x]), np.where(flags, low, x), kind)


@pytest.mark.parametrize("source", TYPES, ids=lambda t: t.text)
def test_bitcast_convert(source):
    x = samples(source)
    for target in TYPES:
        if target.bit_width != source.bit_width or source is P.C128 or target is P.C128:
            continue
        if P.PRED in (source, target) and source is not target:
            continue  # only 0 and 1 are valid bits of a pred
        want = convert_reference.bitcast_elements(x, target)
        got = run("bitcast-convert", target, [x])
        if source in (P.F16, P.BF16):  # conversion to f32 makes signalling NaNs quiet
            quiet = ~np.isnan(x.astype(np.float32)) | (x.view(np.uint16) & (0x200 if source is P.F16 else 0x40) != 0)
            got, want = got[quiet], want[quiet]
        check(got, want, target)


def test_bitcast_convert_of_other_widths_is_not_elementwise():
    with pytest.raises(Unsupported, match="not element-wise"):
        run("bitcast-convert", P.U16, [samples(P.F32)])


@pytest.mark.parametrize("kind", [P.F64, P.F32, P.F16, P.BF16], ids=lambda t: t.text)
@pytest.mark.parametrize("bits", [(8, 7), (5, 10), (5, 2), (4, 3), (11, 52), (2, 1), (8, 0)])
def test_reduce_precision(kind, bits):
    x = samples(kind)
    wide = x.astype(np.float32) if kind is P.BF16 else x
    with np.errstate(all="ignore"):
        want = convert_reference.reduce_precision(wide, *bits).astype(kind.dtype)
    check(run("reduce-precision", kind, [x], at.ReducePrecisionAttributes(*bits)), want, kind)


def test_stochastic_convert():
    x = np.array([0.25, 0.75, -0.25, -1.5, 1e9, -1e9, np.nan, 100.5] * 2, np.float32)
    random = np.array([1 << 30] * 8 + [(1 << 30) - 1] * 8, np.uint32)
    got = run("stochastic-convert", P.S8, [x, random])
    assert got.tolist() == [0, 1, 0, -2, 127, -128, 0, 101, 1, 1, -1, -2, 127, -128, 0, 101]


DIVISORS = [
    (kind, divisor)
    for kind in (P.S8, P.S32, P.U32, P.S64, P.U64)
    for divisor in (1, 3, 7, 8, 127, -1, -5, 0)
    if divisor >= 0 or kind.is_signed
]


@pytest.mark.parametrize(("kind", "divisor"), DIVISORS, ids=lambda v: getattr(v, "text", str(v)))
def test_division_by_constants(kind, divisor):
    x = samples(kind)

    def emit(b, value):
        constant = va.const_int(value.type, divisor)
        return [el.emit_elementwise(b, op, kind, [kind, kind], [value, constant]) for op in ("divide", "remainder")]

    storage = el.storage_type(kind)
    quotient, rest = jit.Kernel(emit, [storage], [storage] * 2, 8)([x], [kind.dtype] * 2)
    y = np.full_like(x, divisor)
    np.testing.assert_array_equal(quotient, reference.apply(INTERPRETER, "divide", kind.dtype, x, y))
    np.testing.assert_array_equal(rest, reference.apply(INTERPRETER, "remainder", kind.dtype, x, y))


@pytest.mark.parametrize("kind", [P.S64, P.U64], ids=lambda t: t.text)
@pytest.mark.parametrize("divisor", [6, 7, 10, 641, (1 << 32) - 1, (1 << 32) + 1, 10**18, (1 << 62) + 1, (1 << 63) - 1])
def test_division_of_long_integers_near_multiples(kind, divisor):
    bits = np.random.default_rng(divisor % 97).integers(0, 1 << 64, 512, np.uint64, endpoint=False)
    multiples = bits // np.uint64(divisor) * np.uint64(divisor)
    x = np.concatenate([bits, multiples, multiples - np.uint64(1), multiples + np.uint64(1), -multiples]).view(
        kind.dtype
    )

    def emit(b, value):
        constant = va.const_int(value.type, divisor)
        return [el.emit_elementwise(b, op, kind, [kind, kind], [value, constant]) for op in ("divide", "remainder")]

    storage = el.storage_type(kind)
    quotient, rest = jit.Kernel(emit, [storage], [storage] * 2, 8)([x], [kind.dtype] * 2)
    truth = [abs(int(v)) // divisor * (1 if v >= 0 else -1) for v in x]
    assert quotient.tolist() == truth
    assert rest.tolist() == [int(v) - q * divisor for v, q in zip(x, truth, strict=True)]


@pytest.mark.parametrize("kind", [P.F32, P.S32, P.S64, P.C64, P.BF16], ids=lambda t: t.text)
def test_scalars(kind):
    """Width 1 gives the same answers."""
    for opcode in ("add", "divide", "multiply", "power", "maximum"):
        if not el.supports_elementwise(opcode, kind):
            continue
        operands = [samples(kind, 128, seed=k) for k in (1, 2)]
        check(run(opcode, kind, operands, width=1), run(opcode, kind, operands, width=8), kind)


@pytest.mark.slow
@pytest.mark.parametrize("level", jit.LEVELS)
def test_no_library_calls(level):
    """Every opcode on every type, and every conversion, compiles to code without undefined symbols (`run` asserts
    that)."""
    if level not in jit.available_levels():
        pytest.skip(f"the host lacks {level}")
    target = jit.Target.for_features(level)
    for kind in TYPES:
        for opcode in (*UNARY, *BINARY):
            if defined(opcode, kind) and el.supports_elementwise(opcode, kind):
                operands = [samples(kind, 16)] * (1 if opcode in UNARY else 2)
                width = target.vector_width(el.storage_type(kind))
                run(opcode, result_type_of(opcode, kind), operands, width=min(width, 16), target=target)
    for source in (P.S8, P.U16, P.S32, P.U32, P.S64, P.U64, P.F64, P.F32, P.C128):
        for result in TYPES:
            run("convert", result, [samples(source, 16)], width=16, target=target)


def test_undefined_combinations_say_so():
    with pytest.raises(Unsupported, match="no code for popcnt of f32"):
        run("popcnt", P.F32, [samples(P.F32)])
    with pytest.raises(Unsupported, match="have no order"):
        run("compare", P.PRED, [samples(P.C64)] * 2, at.CompareAttributes("LT"))


def test_constants_are_rounded():
    assert el.constant_register(P.BF16, 1.00390625).constant == 1.0
    assert el.constant_register(P.S4, 9).constant == -7
    assert el.constant_register(P.U8, 255).type is ty.I8
    assert el.constant_register(P.PRED, True).constant == 1
    pair = el.constant_register(P.C64, 1 + 2j)
    assert (pair.real.constant, pair.imag.constant) == (1.0, 2.0)
