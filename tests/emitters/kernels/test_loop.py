"""The loop kernel against the evaluator: regions, layouts, sizes, several results, any partition of the units."""

from __future__ import annotations

import itertools
import re

import pytest

import xjit
from tests.support.kernels import LAYOUTS, check, check_units, kernel_text
from xjit.llvm.target import Target
from xjit.llvm.types import FLOAT

AVX2 = Target.for_features("avx2")
KINDS = ["f32", "f64", "bf16", "s8", "u16", "s64", "pred", "c64", "c128", "f8e4m3fn", "s4"]


def elementwise(shape: str, opcode: str = "copy") -> str:
    return f"ENTRY e {{\n  x = {shape} parameter(0)\n  ROOT r = {shape} {opcode}(x)\n}}\n"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", ["", "1", "3", "16", "17", "100", "3,5", "1,1", "65,1", "2,3,4,5,6"])
def test_sizes_and_types(kind: str, size: str) -> None:
    """Scalars, less than a vector, whole vectors and tails."""
    opcode = "not" if kind == "pred" else "negate"
    check_units(elementwise(f"{kind}[{size}]", opcode))


@pytest.mark.parametrize("size", ["0", "3,0", "0,0,5"])
def test_no_elements(size: str) -> None:
    check(elementwise(f"f32[{size}]", "negate"))


@pytest.mark.parametrize("rank", [2, 3])
def test_every_pair_of_layouts(rank: int) -> None:
    """An operand in one layout, one in another, the result in a third."""
    sizes = {2: "19,35", 3: "3,18,20"}[rank]
    orders = [",".join(map(str, order)) for order in itertools.permutations(range(rank))]
    for a, b in itertools.product(orders, orders):
        check_units(f"""ENTRY e {{
  x = f32[{sizes}]{{{a}}} parameter(0)
  y = f32[{sizes}]{{{b}}} parameter(1)
  ROOT r = f32[{sizes}]{{{orders[-1]}}} subtract(x, y)
}}
""")


@pytest.mark.parametrize("layout", ["{1,0:T(8,128)}", "{0,1:T(4,2)}", "{1,0:T(8,128)(2,1)}"])
def test_tiled_layouts(layout: str) -> None:
    check(
        f"""ENTRY e {{
  x = f32[19,35] parameter(0)
  y = f32[19,35]{layout} copy(x)
  ROOT r = f32[19,35] negate(y)
}}
""",
        options=LAYOUTS,
    )


# -- planning


def test_equal_walks_are_one_loop() -> None:
    """Four dimensions that all arrays walk through alike are one vector loop over whole memory."""
    text = kernel_text(elementwise("f32[3,5,7,11]", "negate"), AVX2)
    assert text.count("phi") == 1 and "div" not in text and "rem" not in text


def test_outer_loops_are_merged_for_parallel_work() -> None:
    """Rows that do not merge with columns still give one parallel range."""
    text = """ENTRY e {
  x = f32[3,5,7,40]{3,2,0,1} parameter(0)
  ROOT r = f32[3,5,7,40]{3,2,1,0} copy(x)
}
"""
    assert check_units(text) == 15


def test_short_innermost_dimensions_share_a_vector() -> None:
    """Pairs, as of a broadcast along the last dimension, are not handled two at a time."""
    text = """ENTRY e {
  x = f32[50] parameter(0)
  ROOT r = f32[50,2] broadcast(x), dimensions={0}
}
"""
    emitted = kernel_text(text, AVX2)
    assert "<8 x float>" in emitted and "gather" not in emitted
    check_units(text)


@pytest.mark.parametrize(
    ("source", "reshaped", "permutation", "result"),
    [
        ("6,160", "6,5,32", "1,0,2", "5,6,32"),
        ("12,10", "3,4,10", "1,2,0", "4,10,3"),
        ("120", "2,3,4,5", "3,1,2,0", "5,3,4,2"),
        ("8,64", "8,2,4,8", "0,2,1,3", "8,4,2,8"),
    ],
)
def test_divisions_are_split_away(source: str, reshaped: str, permutation: str, result: str) -> None:
    """Reshape and transpose, and back: loops have no division inside."""
    text = f"""fused {{
  x = f32[{source}] parameter(0)
  n = f32[{source}] negate(x)
  s = f32[{reshaped}] reshape(n)
  t = f32[{result}] transpose(s), dimensions={{{permutation}}}
  ROOT r = f32[{source}] reshape(t)
}}
ENTRY e {{
  x = f32[{source}] parameter(0)
  ROOT fusion = f32[{source}] fusion(x), kind=kLoop, calls=fused
}}
"""
    check_units(text)
    emitted = kernel_text(text, AVX2)
    innermost = re.findall(r"(?s)\nv_loop[^\n]*:(.*?)\n  br", emitted)
    assert all("udiv" not in body and "urem" not in body for body in innermost)


# -- concatenate at the root


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("layout", ["{2,1,0}", "{0,1,2}", "{1,2,0}"])
def test_concatenate_has_a_loop_per_operand(axis: int, layout: str) -> None:
    sizes = [1, 6, 0, 17]
    shapes = [[3, 5, 7] for _ in sizes]
    for shape, size in zip(shapes, sizes):
        shape[axis] = size
    total = [sum(sizes) if d == axis else n for d, n in enumerate([3, 5, 7])]
    operands = [f"f32[{','.join(map(str, s))}]" for s in shapes]
    lines = "\n".join(f"  x{i} = {s} parameter({i})" for i, s in enumerate(operands))
    text = f"""ENTRY e {{
{lines}
  ROOT r = f32[{",".join(map(str, total))}]{layout} concatenate(x0, x1, x2, x3), dimensions={{{axis}}}
}}
"""
    check_units(text)
    assert "select <" not in kernel_text(text, AVX2), "no element is chosen between operands"


@pytest.mark.parametrize("level", ["sse2", "avx2"])
@pytest.mark.parametrize(("kind", "count"), [("f32", 2), ("f32", 3), ("f32", 5), ("u8", 3), ("bf16", 4), ("c64", 3)])
def test_stacked_columns_have_one_loop(kind: str, count: int, level: str) -> None:
    columns = "\n".join(f"  x{n} = {kind}[6,37,1] parameter({n})" for n in range(count))
    names = ", ".join(f"x{n}" for n in range(count))
    text = f"""HloModule m
ENTRY e {{
{columns}
  ROOT r = {kind}[6,37,{count}] concatenate({names}), dimensions={{2}}
}}
"""
    options = xjit.CompileOptions(cpu_level=level)
    assert xjit.compile(text, options=options).as_text("schedule").count("part {") == 1
    check(text, options=options)
    check_units(text)


@pytest.mark.parametrize("level", ["sse2", "avx2"])
@pytest.mark.parametrize(
    ("kind", "sizes"),
    [("f32", (2, 3)), ("f32", (1, 2, 3)), ("f32", (2, 2)), ("f32", (1, 0, 7)), ("u8", (4, 3)), ("c64", (2, 3))],
)
def test_short_rows_of_several_columns(kind: str, sizes: tuple[int, ...], level: str) -> None:
    """One vector, or a few, take elements of all operands, whose lanes are known: no gathers."""
    columns = "\n".join(f"  x{n} = {kind}[3,37,{size}] parameter({n})" for n, size in enumerate(sizes))
    names = ", ".join(f"x{n}" for n in range(len(sizes)))
    row = sum(sizes)
    text = f"""HloModule m
ENTRY e {{
{columns}
  ROOT r = {kind}[3,37,{row}] concatenate({names}), dimensions={{2}}
}}
"""
    options = xjit.CompileOptions(cpu_level=level)
    lanes = {"sse2": 4, "avx2": 8}[level]
    parts = xjit.compile(text, options=options).as_text("schedule").count("part {")
    assert parts == (1 if row <= lanes else sum(map(bool, sizes)))
    check(text, options=options)
    check_units(text)
    if kind == "f32" and level == "avx2":
        assert "gather" not in kernel_text(text, AVX2)


def test_wider_columns_and_many_have_a_loop_each() -> None:
    def parts(shape: str, operand: str, count: int) -> int:
        columns = "  ".join(f"x{n} = {operand} parameter({n})" for n in range(count))
        names = ", ".join(f"x{n}" for n in range(count))
        text = f"HloModule m ENTRY e {{ {columns} ROOT r = {shape} concatenate({names}), dimensions={{1}} }}"
        check(text)
        return xjit.compile(text).as_text("schedule").count("part {")

    assert parts("f32[30,340]", "f32[30,170]", 2) == 2, "short rows are one loop"
    assert parts("f32[30,4]{0,1}", "f32[30,2]{0,1}", 2) == 2
    assert parts("f32[30,9]", "f32[30,1]", 9) == 9
    assert parts("f32[30,2]{0,1}", "f32[30,1]{0,1}", 2) == 2


def test_concatenate_of_computed_operands() -> None:
    check_units("""fused {
  x = f32[40,9] parameter(0)
  y = f32[13] parameter(1)
  n = f32[40,9] negate(x)
  t = f32[9,40] transpose(n), dimensions={1,0}
  b = f32[9,13] broadcast(y), dimensions={1}
  ROOT c = f32[9,93] concatenate(t, b, t), dimensions={1}
}
ENTRY e {
  x = f32[40,9] parameter(0)
  y = f32[13] parameter(1)
  ROOT fusion = f32[9,93] fusion(x, y), kind=kLoop, calls=fused
}
""")


def test_concatenate_of_many() -> None:
    count = 40
    lines = "\n".join(f"  x{i} = f32[{i % 5},3] parameter({i})" for i in range(count))
    names = ", ".join(f"x{i}" for i in range(count))
    total = sum(i % 5 for i in range(count))
    check_units(f"ENTRY e {{\n{lines}\n  ROOT r = f32[{total},3] concatenate({names}), dimensions={{0}}\n}}\n")


# -- several results


@pytest.mark.parametrize("layouts", [("{1,0}", "{1,0}"), ("{1,0}", "{0,1}"), ("{0,1}", "{0,1}")])
def test_several_results(layouts: tuple[str, str]) -> None:
    first, second = layouts
    check_units(f"""fused {{
  x = f32[33,20] parameter(0)
  n = f32[33,20]{first} negate(x)
  h = bf16[33,20]{second} convert(x)
  ROOT t = (f32[33,20]{first}, bf16[33,20]{second}) tuple(n, h)
}}
ENTRY e {{
  x = f32[33,20] parameter(0)
  ROOT fusion = (f32[33,20]{first}, bf16[33,20]{second}) fusion(x), kind=kLoop, calls=fused
}}
""")


@pytest.mark.parametrize(
    "shapes", [("f32[8,3]", "f32[3,8]"), ("f32[24]", "f32[8,3]"), ("f32[2]", "f32[8,3]"), ("f32[8,3]", "f32[]")]
)
def test_results_of_different_dimensions(shapes: tuple[str, str]) -> None:
    """One kernel for each kind of dimensions."""
    a, b = shapes
    text = f"""fused {{
  x = {a} parameter(0)
  y = {b} parameter(1)
  n = {a} negate(x)
  m = {b} negate(y)
  ROOT t = ({a}, {b}) tuple(n, m)
}}
ENTRY e {{
  x = {a} parameter(0)
  y = {b} parameter(1)
  ROOT fusion = ({a}, {b}) fusion(x, y), kind=kLoop, calls=fused
}}
"""
    check_units(text)
    check(text)


def test_a_sum_beside_its_summands() -> None:
    check_units(
        """sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
fused {
  x = f32[9,40] parameter(0)
  z = f32[] constant(0)
  n = f32[9,40] negate(x)
  s = f32[9] reduce(n, z), dimensions={1}, to_apply=sum
  c = f32[40] reduce(n, z), dimensions={0}, to_apply=sum
  m = f32[9] negate(s)
  ROOT t = (f32[9,40], f32[9], f32[40], f32[9]) tuple(n, s, c, m)
}
ENTRY e {
  x = f32[9,40] parameter(0)
  ROOT fusion = (f32[9,40], f32[9], f32[40], f32[9]) fusion(x), kind=kLoop, calls=fused
}
""",
        rtol=1e-5,
        atol=1e-5,
    )


@pytest.mark.parametrize("size", ["4096,3", "3,4096", "100,100", "64,64,64", "70000"])
def test_large_results_split_evenly(size: str) -> None:
    """Kernels of real work have units to share."""
    assert check_units(elementwise(f"f32[{size}]", "negate")) >= 64


def test_the_type_of_an_index_does_not_shorten_vectors() -> None:
    text = """f { x = f32[4,256] parameter(0)  i = s64[] parameter(1)  z = s64[] constant(0)
      d = f32[1,256] dynamic-slice(x, i, z), dynamic_slice_sizes={1,256}  ROOT n = f32[1,256] negate(d) }
    ENTRY e { x = f32[4,256] parameter(0)  i = s64[] parameter(1)
      ROOT n = f32[1,256] fusion(x, i), kind=kLoop, calls=f }"""
    widths = [re.findall(r"load <(\d+) x float>", kernel_text(t)) for t in (text, text.replace("s64", "s32"))]
    assert widths[0] == widths[1] != []


@pytest.mark.parametrize(("length", "units"), [(40_000, 3 * 2), (32_771, 3 * 2 + 3)])
def test_few_long_rows_are_shared_out_in_pieces(length: int, units: int) -> None:
    text = f"""
    HloModule m
    f {{
      x = f32[3,{length}] parameter(0)
      b = f32[3] parameter(1)
      bs = f32[3,{length}] broadcast(b), dimensions={{0}}
      ROOT s = f32[3,{length}] add(x, bs)
    }}
    ENTRY e {{
      x = f32[3,{length}] parameter(0)
      b = f32[3] parameter(1)
      ROOT r = f32[3,{length}] fusion(x, b), kind=kLoop, calls=f
    }}
    """
    assert check_units(text) == units


@pytest.mark.parametrize("kind", ["f32", "bf16", "s8", "f64", "c64"])
@pytest.mark.parametrize(
    ("operand", "padding", "layout"),
    [
        ("90,200", "3_3x3_3", "1,0"),
        ("90,200", "0_1x17_0", "0,1"),
        ("200,300", "-3_2x1_-90", "1,0"),
        ("90,300", "-90_90x0_0", "1,0"),  # nothing is left
        ("50,200", "1_2_1x5_7", "1,0"),
        ("4,30,40,9", "0_0x1_1x2_0x0_0", "3,2,1,0"),
        ("4,30,40,9", "1_0x1_1x-2_0x0_0_1", "0,2,1,3"),
        ("14,18,30", "1_2_1x0_0_2x3_1_1", "2,1,0"),
        ("14,18,30", "-1_2_1x0_-3_2x3_1_3", "2,1,0"),
    ],
)
def test_padding_by_parts(kind: str, operand: str, padding: str, layout: str) -> None:
    edges = [[int(n) for n in d.split("_")] for d in padding.split("x")]
    sizes = [int(n) for n in operand.split(",")]
    result = ",".join(
        str(low + high + size + (size - 1) * sum(inner)) for size, (low, high, *inner) in zip(sizes, edges)
    )
    check_units(f"""ENTRY e {{
  x = {kind}[{operand}]{{{layout}}} parameter(0)
  z = {kind}[] parameter(1)
  ROOT r = {kind}[{result}]{{{layout}}} pad(x, z), padding={padding}
}}
""")


def test_padding_between_elements_needs_no_gather() -> None:
    text = """ENTRY e {
  x = f32[14,18,30] parameter(0)
  z = f32[] parameter(1)
  ROOT r = f32[30,52,63] pad(x, z), padding=1_2_1x0_0_2x3_1_1
}
"""
    assert "gather" not in kernel_text(text, AVX2)


def test_results_of_a_reduction_decide_its_lanes() -> None:
    """Sums of 64-bit numbers are as many as registers hold, also where what is reduced is narrow."""
    text = """HloModule m
larger {
  a = pred[] parameter(0)
  i = s64[] parameter(1)
  b = pred[] parameter(2)
  k = s64[] parameter(3)
  o = pred[] or(a, b)
  s = s64[] select(a, i, k)
  ROOT t = (pred[], s64[]) tuple(o, s)
}
ENTRY e {
  x = pred[4,1000] parameter(0)
  n = s64[4,1000] parameter(1)
  f = pred[] constant(false)
  z = s64[] constant(0)
  ROOT r = (pred[1000], s64[1000]) reduce(x, n, f, z), dimensions={0}, to_apply=larger
}
"""
    check(text)
    schedule = xjit.compile(text, options=xjit.CompileOptions(cpu_level="avx2")).as_text("schedule")
    assert "vector(16)" in schedule, "four registers of four numbers"


@pytest.mark.parametrize("columns", [3, 5, 6, 7, 9, 12])
@pytest.mark.parametrize("kind", ["f32", "u8", "f64"])
def test_short_rows_share_several_vectors(columns: int, kind: str) -> None:
    """Those of images, say: the columns' numbers stand in the same lanes again after some vectors."""
    text = f"""ENTRY e {{
  x = {kind}[50,{columns}] parameter(0)
  c = {kind}[{columns}] parameter(1)
  r = {kind}[50] parameter(2)
  columns = {kind}[50,{columns}] broadcast(c), dimensions={{1}}
  rows = {kind}[50,{columns}] broadcast(r), dimensions={{0}}
  y = {kind}[50,{columns}] multiply(x, columns)
  ROOT z = {kind}[50,{columns}] subtract(y, rows)
}}
"""
    check_units(text)
    if columns == 3 and kind == "f32":
        assert f"<{3 * AVX2.vector_width(FLOAT)} x float>" in kernel_text(text, AVX2)
        assert "gather" not in kernel_text(text, AVX2)


def test_bytes_fill_vectors() -> None:
    text = """ENTRY e {
  x = u8[3000] parameter(0)
  y = u8[3000] parameter(1)
  ROOT z = u8[3000] and(x, y)
}
"""
    check_units(text)
    assert "<32 x i8>" in kernel_text(text, AVX2)
    assert "<32 x i8>" not in kernel_text(
        text.replace("ROOT z", "a").replace("}", "ROOT z = f32[3000] convert(a)\n}"), AVX2
    )


def test_spread_elements_are_no_gathers() -> None:
    """Between the elements that an interior padding keeps, all others exist as well: nothing needs a mask."""
    text = """ENTRY e {
  x = f32[20,64] parameter(0)
  zero = f32[] constant(0)
  ROOT p = f32[39,127] pad(x, zero), padding=0_0_1x0_0_1
}
"""
    check_units(text)
    assert "gather" not in kernel_text(text, AVX2)


@pytest.mark.parametrize("operations", [4, 30])
def test_long_elements_take_two_registers(operations: int) -> None:
    steps = "".join(f"  v{n + 1} = f32[600] divide(x, v{n})\n" for n in range(operations))
    text = f"ENTRY e {{\n  x = f32[600] parameter(0)\n  v0 = f32[600] parameter(1)\n{steps}"
    text += f"  ROOT r = f32[600] add(x, v{operations})\n}}\n"
    check_units(text)
    assert ("<16 x float>" in kernel_text(text, AVX2)) == (operations > 24)


def test_windows_are_summed_in_four_registers() -> None:
    text = """add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY e {
  x = f32[700] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[660] reduce-window(x, zero), window={size=41}, to_apply=add
}
"""
    check_units(text)
    assert "<32 x float>" in kernel_text(text, AVX2)
