"""Long rows in parts: what is left to go through memory, where infinities lead, and what compiles them."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from tests.support.call_counts import opcodes_of
from tests.support.hlo_cases import leaves
from xjit import CompileOptions, HloModule, linalg_ext
from xjit.linalg_ext.automatic import rows
from xjit.linalg_ext.ir import LinalgError, Operation
from xjit.passes import PassDriver
from xjit.passes.fusion.row_tiling import RowTiling
from xjit.passes.simplify.hlo_dce import HloDCE

ROWS, LENGTH = 9, 9 << 13
SMALL = RowTiling(max_tile_bytes=1 << 10, max_row_elements=1 << 10, max_fused_elements=1 << 10, min_result_bytes=0)
"""The pass, for rows of thousands."""
SOFTMAX = """
HloModule softmax
larger {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT m = f32[] maximum(a, b) }}
sum {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }}
ENTRY main {{
  logits = f32[{rows},{length}] parameter(0)
  two = f32[] constant(2)
  twos = f32[{rows},{length}] broadcast(two), dimensions={{}}
  x = f32[{rows},{length}] multiply(logits, twos)
  low = f32[] constant(-inf)
  top = f32[{rows}] reduce(x, low), dimensions={{1}}, to_apply=larger
  finite = pred[{rows}] is-finite(top)
  zero = f32[] constant(0)
  zeros = f32[{rows}] broadcast(zero), dimensions={{}}
  finite_top = f32[{rows}] select(finite, top, zeros)
  tops = f32[{rows},{length}] broadcast({shift}), dimensions={{0}}
  below = f32[{rows},{length}] subtract(x, tops)
  weights = f32[{rows},{length}] exponential(below)
  total = f32[{rows}] reduce(weights, zero), dimensions={{1}}, to_apply=sum
  totals = f32[{rows},{length}] broadcast(total), dimensions={{0}}
  ROOT y = f32[{rows},{length}] divide(weights, totals)
}}
"""


def softmax(shift: str = "top", rows: int = ROWS, length: int = LENGTH) -> str:
    return SOFTMAX.format(shift=shift, rows=rows, length=length)


def rows_with_infinities() -> np.ndarray:
    """Rows that grow, fall, are large, and have -inf in whole tiles, everywhere, or +inf or NaN somewhere."""
    x = np.random.default_rng(0).normal(size=(ROWS, LENGTH)).astype(np.float32)
    x[1] += np.linspace(-200, 200, LENGTH, dtype=np.float32)
    x[2] += np.linspace(200, -200, LENGTH, dtype=np.float32)
    x[3, : LENGTH * 2 // 3] = -np.inf
    x[4] = -np.inf
    x[5, 5] = np.inf
    x[6, LENGTH - 1] = np.nan
    x[7] = 1e38
    x[8] *= 1e-30
    return x


def compare_with_whole_rows(text: str, tolerance: float) -> None:
    """Compares rows in parts with the same rows as they are, by values that grow, fall, and are infinite."""
    x = rows_with_infinities()
    module = xjit.parse_hlo(text)
    assert SMALL.run(module)
    plain = xjit.compile(text, options=CompileOptions(disabled_passes=("row-tiling",)))
    np.testing.assert_allclose(xjit.compile(module)(x), plain(x), rtol=tolerance, atol=1e-38)


EXPONENTS = {
    "power-of-two": ("subtract(x, tops)", "power(twos, below)"),
    "turned": ("subtract(tops, x)", "exponential(turned)"),
    "temperature": ("subtract(x, tops)", "exponential(cooled)"),
}
"""Exponents that are multiples of what a softmax has."""


@pytest.mark.parametrize("form", EXPONENTS)
@pytest.mark.parametrize("shift", ["top", "finite_top"])
def test_other_exponents(form: str, shift: str) -> None:
    below, weights = EXPONENTS[form]
    more = "  turned = f32[9,73728] negate(below)\n  cooled = f32[9,73728] divide(below, twos)\n  weights ="
    text = softmax(shift).replace("subtract(x, tops)", below).replace("exponential(below)", weights)
    text = text.replace("  weights =", more)
    compare_with_whole_rows(text, 1e-4)


@pytest.mark.parametrize("shift", ["top", "finite_top"])
def test_infinities_lead_where_they_lead_without_tiles(shift: str) -> None:
    compare_with_whole_rows(softmax(shift), 1e-5)


def test_the_array_is_read_twice_and_written_once() -> None:
    """Before, exponentials went to memory between the sum and the quotient."""
    compiled = xjit.compile(softmax(rows=4, length=1 << 20))
    size = 4 << 20 << 2
    assert compiled.memory_analysis().temp_size_in_bytes < size // 64
    assert 3 * size <= sum(k.bytes_accessed for k in compiled.kernels) < 3.1 * size


def test_rows_that_are_read_again_stay_whole_as_long_as_a_fusion_keeps_them_in_the_cache() -> None:
    """As the vocabularies of language models are; maxima and sums alone are reduced part by part."""
    vocabulary = 128_256
    compiled = xjit.compile(softmax(rows=40, length=vocabulary))
    assert sum(k.bytes_accessed for k in compiled.kernels) < 2.1 * 40 * vocabulary * 4
    assert not RowTiling().regions(xjit.parse_hlo(softmax(rows=40, length=vocabulary)))
    assert RowTiling().regions(xjit.parse_hlo(softmax(rows=40, length=1 << 19)))
    text = softmax(rows=40, length=vocabulary)
    sums_alone = text.replace("ROOT y", "y").replace("\n}\n", "\n  ROOT s = f32[40] negate(total)\n}\n")
    module = xjit.parse_hlo(sums_alone)
    assert HloDCE().run(module)
    assert RowTiling().regions(module)


def test_constants_that_the_logits_need_too_do_not_keep_rows_whole() -> None:
    """A sum in front of the rows starts at the constant that their own sum starts at."""
    text = softmax(rows=4, length=1 << 20).replace(
        "  logits =",
        """  zero = f32[] constant(0)
  given = f32[4,8] parameter(0)
  before = f32[4] reduce(given, zero), dimensions={1}, to_apply=sum
  logits =""",
    )
    text = text.replace("parameter(0)\n  two", "broadcast(before), dimensions={0}\n  two")
    text = text.replace("  zero = f32[] constant(0)\n  zeros", "  zeros")
    module = xjit.parse_hlo(text)
    assert RowTiling().run(module)


FORMS = {
    "logsumexp": ("f32[4]", "log.1 = f32[4] log(total)", "add(top, log.1)"),
    "log_softmax": (
        "f32[4,4104]",
        """log.1 = f32[4] log(total)
  logs = f32[4,4104] broadcast(log.1), dimensions={0}""",
        "subtract(below, logs)",
    ),
    "gradient": (
        "f32[4,4104]",
        """y = f32[4,4104] divide(weights, totals)
  gy = f32[4,4104] multiply(g, y)
  dot = f32[4] reduce(gy, zero), dimensions={1}, to_apply=sum
  dots = f32[4,4104] broadcast(dot), dimensions={0}
  less = f32[4,4104] subtract(g, dots)""",
        "multiply(less, y)",
    ),
    "everything": (
        "(f32[4,4104], f32[4], f32[4], f32[4,4104])",
        "y = f32[4,4104] divide(weights, totals)",
        "tuple(y, top, total, weights)",
    ),
    "of_bf16": (
        "bf16[4,4104]",
        "y = f32[4,4104] divide(weights, totals)",
        "convert(y)",
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_have_the_values_of_the_evaluator(form: str) -> None:
    shape, lines, root = FORMS[form]
    text = softmax(rows=4, length=4104)
    start, end = text.index("  totals = "), text.index("  ROOT y")
    totals = text[start:end] if "totals" in lines else ""
    g = "  g = f32[4,4104] parameter(1)\n" if form == "gradient" else ""
    text = text[:start] + totals + g + f"  {lines}\n  ROOT root = {shape} {root}\n}}\n"
    if form == "of_bf16":
        text = text.replace("logits = f32", "narrow = bf16").replace(
            "  two =", "  logits = f32[4,4104] convert(narrow)\n  two ="
        )
    module = xjit.parse_hlo(text)
    rng = np.random.default_rng(0)
    arrays = [
        rng.normal(size=(4, 4104)).astype(p.shape.element_type.dtype)
        for p in module.entry_computation.parameter_instructions
    ]
    wanted = leaves(xjit.evaluate(module, *arrays))
    PassDriver().run([SMALL], module)
    assert "f32[4,18,228]" in str(module)
    for found, want in zip(leaves(xjit.compile(module)(*arrays)), wanted, strict=True):
        tolerance = 1e-2 if form == "of_bf16" else 1e-4
        np.testing.assert_allclose(found.astype(np.float32), want.astype(np.float32), rtol=tolerance, atol=1e-6)


def test_long_rows_are_compiled_from_structured_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of default compilations; rows that stay in the cache are not raised."""
    forms: list[str] = []

    def to_hlo(module: Operation, function: str) -> HloModule:
        forms.append(str(module))
        return linalg_ext.to_hlo(module, function)

    monkeypatch.setattr(rows, "to_hlo", to_hlo)
    xjit.compile(softmax(rows=4, length=1024))
    assert not forms
    compiled = xjit.compile(softmax(rows=4, length=1 << 20))
    [form] = forms
    assert "tensor<4x1048576xf32> into tensor<4x128x8192xf32>" in form
    assert "f32[4,128,8192]" in compiled.as_text("optimized-hlo")


def test_what_cannot_be_lowered_again_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def to_hlo(module: Operation, function: str) -> HloModule:
        raise LinalgError("an opaque call")

    monkeypatch.setattr(rows, "to_hlo", to_hlo)
    module = xjit.parse_hlo(softmax(rows=4, length=1 << 20))
    assert not xjit.run_passes(module, ["row-tiling"])


NORM = """
HloModule norm
sum {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }}
ENTRY main {{
  x = f32[{rows},{length}] parameter(0)
  zero = f32[] constant(0)
  total = f32[{rows}] reduce(x, zero), dimensions={{1}}, to_apply=sum
  part = f32[] constant({part})
  parts = f32[{rows}] broadcast(part), dimensions={{}}
  mean = f32[{rows}] multiply(total, parts)
  means = f32[{rows},{length}] broadcast(mean), dimensions={{0}}
  centered = f32[{rows},{length}] subtract(x, means)
  squares = f32[{rows},{length}] multiply(centered, centered)
  total.1 = f32[{rows}] reduce(squares, zero), dimensions={{1}}, to_apply=sum
  variance = f32[{rows}] multiply(total.1, parts)
  scale = f32[{rows}] rsqrt(variance)
  scales = f32[{rows},{length}] broadcast(scale), dimensions={{0}}
  ROOT y = f32[{rows},{length}] multiply(centered, scales)
}}
"""


def test_mean_and_variance_take_a_row_through_memory_once() -> None:
    length = 1 << 19
    compiled = xjit.compile(NORM.format(rows=5, length=length, part=1 / length))
    x = np.random.default_rng(0).normal(loc=3, size=(5, length)).astype(np.float32)
    centered = x - x.mean(1, keepdims=True, dtype=np.float64)
    wanted = centered / np.sqrt((centered * centered).mean(1, keepdims=True))
    np.testing.assert_allclose(compiled(x), wanted, rtol=1e-4, atol=1e-5)
    assert 3 * x.nbytes <= sum(k.bytes_accessed for k in compiled.kernels) < 3.1 * x.nbytes
    assert compiled.memory_analysis().temp_size_in_bytes < x.nbytes // 64


TWO = """
HloModule two
larger { a = f32[] parameter(0) b = f32[] parameter(1) ROOT m = f32[] maximum(a, b) }
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY main {
  p = f32[4,4104] parameter(0)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  zeros = f32[4,4104] broadcast(zero), dimensions={}
  x = f32[4,4104] maximum(p, zeros)
  top = f32[4] reduce(x, low), dimensions={1}, to_apply=larger
  tops = f32[4,4104] broadcast(top), dimensions={0}
  below = f32[4,4104] subtract(x, tops)
  weights = f32[4,4104] exponential(below)
  total = f32[4] reduce(weights, zero), dimensions={1}, to_apply=sum
  totals = f32[4,8208] broadcast(total), dimensions={0}
  top.1 = f32[4] reduce(totals, low), dimensions={1}, to_apply=larger
  tops.1 = f32[4,8208] broadcast(top.1), dimensions={0}
  below.1 = f32[4,8208] subtract(totals, tops.1)
  weights.1 = f32[4,8208] exponential(below.1)
  total.1 = f32[4] reduce(weights.1, zero), dimensions={1}, to_apply=sum
  both = f32[4] add(total, total.1)
  ROOT r = (f32[4], f32[4]) tuple(both, top)
}
"""


def test_rows_that_share_constants_and_read_each_other() -> None:
    """The constants of reductions are those of what the rows are computed from, too."""
    module = xjit.parse_hlo(TWO)
    x = np.random.default_rng(0).normal(size=(4, 4104)).astype(np.float32)
    wanted = leaves(xjit.evaluate(module, x))
    PassDriver().run([SMALL], module)
    assert "f32[4,18,228]" in str(module)
    assert "f32[4,36,228]" in str(module)
    for found, want in zip(leaves(xjit.evaluate(module, x)), wanted, strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-5)


def softmax_of_softmax(count: int, between: str = "") -> str:
    """Rows that one softmax after the other normalizes; `between` is done to the results but the last."""
    lines: list[str] = []
    source = "x"
    for i in range(count):
        lines.append(f"""top{i} = f32[4] reduce({source}, low), dimensions={{1}}, to_apply=larger
          tops{i} = f32[4,4104] broadcast(top{i}), dimensions={{0}}
          below{i} = f32[4,4104] subtract({source}, tops{i})
          weights{i} = f32[4,4104] exponential(below{i})
          total{i} = f32[4] reduce(weights{i}, zero), dimensions={{1}}, to_apply=sum
          totals{i} = f32[4,4104] broadcast(total{i}), dimensions={{0}}
          y{i} = f32[4,4104] divide(weights{i}, totals{i})""")
        source = f"y{i}"
        if between:
            lines.append(f"x{i} = f32[4,4104] {between}(y{i})")
            source = f"x{i}"
    return "\n".join([
        "HloModule m",
        "larger { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT m = f32[] maximum(a, b) }",
        "sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }",
        "ENTRY e { x = f32[4,4104] parameter(0)  low = f32[] constant(-inf)  zero = f32[] constant(0)",
        *lines,
        f"ROOT r = f32[4,4104] negate({source}) }}",
    ])  # fmt: skip


@pytest.mark.parametrize("count", [2, 3])
def test_each_softmax_of_softmax_is_cut(count: int) -> None:
    module = xjit.parse_hlo(softmax_of_softmax(count))
    x = np.random.default_rng(0).normal(size=(4, 4104), scale=5).astype(np.float32)
    wanted = xjit.evaluate(module, x)
    assert SMALL.run(module)
    rows = [i.operand(0).shape.dimensions for i in module.entry_computation.instructions if i.opcode == "reduce"]
    assert rows.count((4, 18, 228)) == 2 * count
    assert (4, 4104) not in rows
    assert not SMALL.run(module)
    np.testing.assert_allclose(xjit.evaluate(module, x), wanted, rtol=1e-5)


def test_equal_rows_are_lowered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the layers of a model have them. Other rows are lowered by themselves."""
    lowered: list[str] = []

    def to_hlo(module: Operation, function: str) -> HloModule:
        lowered.append(function)
        return linalg_ext.to_hlo(module, function)

    monkeypatch.setattr(rows, "to_hlo", to_hlo)
    for text, times in ((softmax_of_softmax(4, "tanh"), 1), (TWO, 2)):
        lowered.clear()
        assert SMALL.run(xjit.parse_hlo(text))
        assert len(lowered) == times


def test_finding_rows_takes_time_in_proportion() -> None:
    few, many = (
        opcodes_of(lambda module=module: SMALL.regions(module)) / count
        for count in (40, 160)
        for module in [xjit.parse_hlo(softmax_of_softmax(count, "negate"))]
    )
    assert many < 1.1 * few
