"""Elementwise opcodes against XLA:CPU on special values of every element type."""

import numpy as np
import pytest

from tests.ops.evaluation import oracle
from tests.support import xla

INTEGERS = ["s2", "u2", "s4", "u4", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"]
FLOATS = [
    "f8e5m2",
    "f8e4m3fn",
    "f8e4m3",
    "f8e4m3b11fnuz",
    "f8e5m2fnuz",
    "f8e4m3fnuz",
    "f8e3m4",
    "f16",
    "bf16",
    "f32",
    "f64",
]
COMPARISONS = ["EQ", "NE", "LT", "LE", "GT", "GE"]
RTOL = {"f16": 2e-3, "bf16": 1.6e-2, "f32": 3e-6, "f64": 1e-14, "c64": 3e-6, "c128": 1e-13}


def compare_outputs(type_name: str, lines: list[tuple[str, str]], *inputs: np.ndarray, tolerant: bool = False) -> None:
    text = oracle.table_module(type_name, len(inputs[0]), lines, len(inputs))
    rtol = RTOL.get(type_name, 0.3) if tolerant else 0.0
    atol = (rtol / 10 if type_name[0] == "c" else 2.0**-126) if tolerant else 0.0
    problems = []
    for (_, expression), got, want in zip(lines, oracle.run(text, *inputs), xla.run(text, *inputs)):
        if problem := oracle.difference(got, want, rtol, atol):
            problems.append(f"{type_name} {expression}: {problem}")
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("t", oracle.some("s4 u8 s32 u64", "s2 u2 u4 s8 s16 u16 u32 s64"))
def test_integer_opcodes(t: str) -> None:
    unary = ["abs", "negate", "sign", "not", "popcnt", "count-leading-zeros"]
    binary = ["add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum", "and", "or", "xor"]
    binary += ["shift-left", "shift-right-logical", "shift-right-arithmetic"]
    if t[0] == "u":  # not accepted by StableHLO, through which jaxlib compiles
        unary = [op for op in unary if op not in ("abs", "sign")]
    if t == "s4":  # XLA:CPU counts the bits of the sign-extended byte
        unary.remove("popcnt")
    lines = [(t, f"{op}(p0)") for op in unary] + [(t, f"{op}(p0, p1)") for op in binary]
    lines += [("pred", f"compare(p0, p1), direction={d}") for d in COMPARISONS]
    a, b = oracle.pairs(oracle.special_values(t))
    compare_outputs(t, lines, a, b)
    few = (b.astype(np.float64) < 64) & (b.astype(np.float64) >= -2)  # XLA:CPU reads only six bits of the exponent
    compare_outputs(t, [(t, "power(p0, p1)")], a[few], b[few])


def test_pred_opcodes() -> None:
    lines = [("pred", f"{op}(p0, p1)") for op in ("and", "or", "xor", "maximum", "minimum", "add", "multiply")]
    lines += [("pred", "not(p0)"), *(("pred", f"compare(p0, p1), direction={d}") for d in COMPARISONS)]
    compare_outputs("pred", lines, *oracle.pairs(oracle.special_values("pred")))


@pytest.mark.parametrize(
    "t", oracle.some("f8e4m3fn f16 bf16 f32", " ".join(sorted({*FLOATS} - {"f8e4m3fn", "f16", "bf16", "f32"})))
)
def test_exact_float_opcodes(t: str) -> None:
    unary = ["abs", "negate", "ceil", "floor", "round-nearest-afz", "round-nearest-even", "sign"]
    binary = ["add", "subtract", "multiply", "divide", "maximum", "minimum"]
    lines = [(t, f"{op}(p0)") for op in unary] + [(t, f"{op}(p0, p1)") for op in binary]
    lines += [("pred", "is-finite(p0)"), *(("pred", f"compare(p0, p1), direction={d}") for d in COMPARISONS)]
    values = oracle.special_values(t)
    compare_outputs(t, lines, *oracle.pairs(values))
    normal = values[values != np.array(1e-40).astype(values.dtype)]  # XLA:CPU's fmod does not flush
    compare_outputs(t, [(t, "remainder(p0, p1)")], *oracle.pairs(normal))


@pytest.mark.parametrize("t", oracle.some("bf16 f32", "f16 f64"))
def test_total_order_compare(t: str) -> None:
    values = oracle.special_values(t)
    values = np.concatenate([values, np.copysign(np.array([np.nan]), -1).astype(values.dtype)])
    lines = [("pred", f"compare(p0, p1), direction={d}, type=TOTALORDER") for d in COMPARISONS]
    compare_outputs(t, lines, *oracle.pairs(values))


TRANSCENDENTAL = [
    "cbrt", "cosine", "erf", "exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "rsqrt", "sine",
    "sqrt", "tan", "tanh",
]  # fmt: skip


@pytest.mark.parametrize("t", oracle.some("bf16 f32", "f16 f64"))
def test_transcendental_opcodes(t: str) -> None:
    rng = np.random.default_rng(1)
    values = np.concatenate([oracle.FLOAT_SPECIALS[:-1], rng.uniform(-8, 8, 200)]).astype(np.float32)
    values = values.astype(oracle.PrimitiveType.from_text(t).dtype)
    compare_outputs(t, [(t, f"{op}(p0)") for op in TRANSCENDENTAL], values, tolerant=True)
    lines = [(t, "power(p0, p1)"), (t, "atan2(p0, p1)")]
    compare_outputs(t, lines, *oracle.pairs(values[:40]), tolerant=True)


@pytest.mark.parametrize("t", oracle.some("c64", "c128"))
def test_complex_opcodes(t: str) -> None:
    part = {"c64": "f32", "c128": "f64"}[t]
    values = oracle.special_values(t)
    exact = [(part, "real(p0)"), (part, "imag(p0)"), (t, "negate(p0)"), (t, "add(p0, p1)"), (t, "subtract(p0, p1)")]
    exact += [("pred", "compare(p0, p1), direction=EQ")]
    exact += [("pred", "compare(p0, p1), direction=NE")]
    compare_outputs(t, exact, *oracle.pairs(values))
    close = [(part, "abs(p0)"), (t, "divide(p0, p1)"), (t, "sign(p0)")]
    unary = [
        "cosine",
        "exponential",
        "exponential-minus-one",
        "log",
        "log-plus-one",
        "rsqrt",
        "sine",
        "sqrt",
        "tan",
        "tanh",
    ]
    close += [(t, f"{op}(p0)") for op in unary]
    moderate = values[np.abs(values) < 30]
    random = oracle.random_array(t, [len(moderate)], seed=5)
    compare_outputs(t, [close[0], *close[2:]], moderate, tolerant=True)
    compare_outputs(
        t,
        [*close, (t, "multiply(p0, p1)"), (t, "power(p0, p1)"), (t, "atan2(p0, p1)")],
        random,
        random[::-1].copy(),
        tolerant=True,
    )


@pytest.mark.parametrize(
    "source",
    oracle.some(
        "s4 u64 bf16 f32", " ".join(sorted({"pred", "c64", *INTEGERS, *FLOATS} - {"s4", "u64", "bf16", "f32"}))
    ),
)
def test_convert_between_all_types(source: str) -> None:
    values = oracle.special_values(source)
    targets = ["pred", *INTEGERS, *FLOATS, "c64", "c128"] if source != "c64" else ["c128", "c64"]
    lines = [(t, "convert(p0)") for t in targets if t != source]
    compare_outputs(source, lines, values)


@pytest.mark.parametrize("t", oracle.some("bf16 f32", "f16 f64"))
def test_reduce_precision(t: str) -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.standard_normal(100), rng.standard_normal(100) * 1e6, oracle.FLOAT_SPECIALS[:-1]])
    with np.errstate(over="ignore"):
        values = values.astype(oracle.PrimitiveType.from_text(t).dtype)
    formats = [(5, 10), (8, 7), (4, 3), (5, 2), (8, 23), (3, 1), (2, 5)]
    lines = [(t, f"reduce-precision(p0), exponent_bits={e}, mantissa_bits={m}") for e, m in formats]
    compare_outputs(t, lines, values)


@pytest.mark.parametrize("t", ["f32", "bf16", "s32", "u8", "c64", "c128"])
def test_clamp_and_select(t: str) -> None:
    values = oracle.special_values(t)
    low, x = oracle.pairs(values)
    high = np.roll(x, 3)
    text = oracle.table_module(t, len(x), [(t, "clamp(p0, p1, p2)")], 3)
    oracle.check(text, low, x, high)
    text = f"""HloModule t
ENTRY e {{
  p = pred[{len(x)}] parameter(0)
  a = {t}[{len(x)}] parameter(1)
  b = {t}[{len(x)}] parameter(2)
  ROOT r = {t}[{len(x)}] select(p, a, b)
}}"""
    oracle.check(text, np.arange(len(x)) % 3 == 0, x, high)


@pytest.mark.parametrize(
    ("source", "target", "shape", "result"),
    [
        ("f32", "s32", [3], [3]),
        ("f32", "u8", [3], [3, 4]),
        ("u8", "f32", [3, 4], [3]),
        ("s64", "u16", [2], [2, 4]),
        ("s16", "bf16", [], []),
        ("u16", "u64", [2, 4], [2]),
        ("s8", "u4", [3], [3, 2]),
        ("s4", "u4", [5], [5]),
        ("f64", "s32", [], [2]),
    ],
)
def test_bitcast_convert(source: str, target: str, shape: list[int], result: list[int]) -> None:
    dims = ",".join(map(str, shape)), ",".join(map(str, result))
    text = f"""HloModule t
ENTRY e {{
  p = {source}[{dims[0]}] parameter(0)
  ROOT r = {target}[{dims[1]}] bitcast-convert(p)
}}"""
    oracle.check(text, oracle.random_array(source, shape))
