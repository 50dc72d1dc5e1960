"""Transposes through registers: all permutations, sizes that tiles do not divide, narrow and wide elements."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import numpy as np
import pytest

import xjit
from tests.support.kernels import check, check_units, kernel_text
from tests.support.loop_nests import emit_nest
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.llvm.target import Target
from xjit.llvm.transpose import transpose_blocks
from xjit.llvm.types import I64, int_type, vector
from xjit.llvm.values import Value, const_int

SIZES = {2: (37, 53), 3: (18, 5, 33), 4: (3, 17, 2, 20), 5: (2, 3, 9, 2, 17)}


def transpose(kind: str, sizes: tuple[int, ...], permutation: tuple[int, ...]) -> str:
    result = ",".join(str(sizes[d]) for d in permutation)
    return f"""ENTRY e {{
  x = {kind}[{",".join(map(str, sizes))}] parameter(0)
  ROOT t = {kind}[{result}] transpose(x), dimensions={{{",".join(map(str, permutation))}}}
}}
"""


REGISTERS = [
    (32, 1, 4), (32, 2, 2), (32, 4, 4), (32, 8, 8), (32, 16, 16), (32, 4, 16), (32, 2, 8),
    (8, 16, 16), (8, 16, 64), (8, 8, 32), (8, 32, 32), (16, 8, 8), (16, 16, 32), (64, 2, 8), (64, 8, 8),
]  # fmt: skip


@pytest.mark.parametrize(("bits", "rows", "lanes"), REGISTERS)
def test_registers(bits: int, rows: int, lanes: int) -> None:
    """Square blocks side by side are transposed, each by itself."""

    def emit(nest: LoopNest, pointers: Sequence[Value]) -> None:
        builder, type = nest.builder, int_type(bits)

        def address(pointer: Value, i: int) -> Value:
            return builder.gep(type, pointer, const_int(I64, i * lanes))

        values = [builder.load(vector(type, lanes), address(pointers[0], i), align=1) for i in range(rows)]
        for i, value in enumerate(transpose_blocks(builder, values)):
            builder.store(value, address(pointers[1], i), align=1)

    kind = f"uint{bits}"
    x, out = np.arange(rows * lanes).astype(kind).reshape(rows, lanes), np.zeros((rows, lanes), kind)
    emit_nest(2, emit).run(x, out)
    blocks = x.reshape(rows, lanes // rows, rows)
    np.testing.assert_array_equal(out, blocks.transpose(2, 1, 0).reshape(rows, lanes))


@pytest.mark.parametrize("rank", [2, 3, 4])
def test_permutations(rank: int) -> None:
    for permutation in itertools.permutations(range(rank)):
        check_units(transpose("f32", SIZES[rank], permutation))


@pytest.mark.parametrize("permutation", [(4, 3, 2, 1, 0), (0, 4, 1, 3, 2), (2, 4, 0, 1, 3), (1, 0, 4, 2, 3)])
def test_rank_five(permutation: tuple[int, ...]) -> None:
    check_units(transpose("f32", SIZES[5], permutation))


@pytest.mark.parametrize("kind", ["f64", "bf16", "s8", "pred", "c64", "u16", "s64", "f8e5m2"])
@pytest.mark.parametrize("sizes", [(64, 48), (33, 70), (16, 7)])
def test_element_types(kind: str, sizes: tuple[int, ...]) -> None:
    check_units(transpose(kind, sizes, (1, 0)))


@pytest.mark.parametrize("kind", ["f32", "f64", "bf16", "s8"])
def test_whole_tiles_are_loaded_by_rows(kind: str) -> None:
    """Nothing is gathered where tiles cover the array."""
    text = kernel_text(transpose(kind, (128, 64), (1, 0)))
    assert "gather" not in text and "shufflevector" in text


def test_gathers_are_for_the_rest_only() -> None:
    """Whole tiles are loaded in one place and stored row by row; of 100 x 100 elements four rows and columns remain."""
    text = kernel_text(transpose("f32", (100, 100), (1, 0)), Target.for_features("avx2"))
    assert text.count("load <8 x float>") == 8, "one tile, in one place"
    assert text.count("store <8 x float>") >= 8


@pytest.mark.parametrize(("block", "size"), [(18, 53), (36, 100), (20, 50), (10, 30), (12, 48)])
def test_tiles_start_anywhere(block: int, size: int) -> None:
    """The rows fall into blocks; what is peeled off behind the last whole block is tiled, too."""
    check_units(f"""f {{
  x = f32[5,40,{block}] parameter(0)
  t = f32[5,{block},40] transpose(x), dimensions={{0,2,1}}
  r = f32[{5 * block},40] reshape(t)
  s = f32[{size},40] slice(r), slice={{[0:{size}],[0:40]}}
  ROOT n = f32[{size},40] negate(s)
}}
ENTRY e {{
  x = f32[5,40,{block}] parameter(0)
  ROOT w = f32[{size},40] fusion(x), kind=kLoop, calls=f
}}
""")


def test_one_operand_turned_one_not() -> None:
    """Contiguous and transposed reads in one loop, and two outputs."""
    check_units("""f {
  x = f32[50,70] parameter(0)
  y = f32[70,50] parameter(1)
  t = f32[70,50] transpose(x), dimensions={1,0}
  s = f32[70,50] subtract(t, y)
  r = f32[70,50] reverse(t), dimensions={1}
  ROOT p = (f32[70,50], f32[70,50]) tuple(s, r)
}
ENTRY e {
  x = f32[50,70] parameter(0)
  y = f32[70,50] parameter(1)
  ROOT w = (f32[70,50], f32[70,50]) fusion(x, y), kind=kLoop, calls=f
}
""")


def test_layouts_make_a_copy_a_transpose() -> None:
    text = "ENTRY e {\n  x = f32[40,9,30]{0,1,2} parameter(0)\n  ROOT c = f32[40,9,30]{2,1,0} copy(x)\n}\n"
    assert check_units(text) > 1


@pytest.mark.parametrize("sizes", [(3, 1, 4), (4, 4), (2, 6), (1, 1)])
def test_columns_of_several_operands(sizes: tuple[int, ...]) -> None:
    """Lanes of a concatenation walk across the columns of one operand, and then of the next."""
    columns = "\n".join(f"  x{n} = u8[37,{size}]{{0,1}} parameter({n})" for n, size in enumerate(sizes))
    check_units(f"""ENTRY e {{
{columns}
  ROOT c = u8[37,{sum(sizes)}]{{1,0}} concatenate({", ".join(f"x{n}" for n in range(len(sizes)))}), dimensions={{1}}
}}
""")


def test_rows_that_are_read_across_are_reduced_once() -> None:
    """Tiles would reduce each row once more for each vector of it."""
    text = """HloModule m
larger { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }
ENTRY e {
  x = f32[100,40] parameter(0)
  t = f32[40,100] transpose(x), dimensions={1,0}
  three = f32[] constant(3)
  threes = f32[40,100] broadcast(three), dimensions={}
  y = f32[40,100] divide(t, threes)
  low = f32[] constant(-inf)
  top = f32[40] reduce(y, low), dimensions={1}, to_apply=larger
  tops = f32[40,100] broadcast(top), dimensions={0}
  s = f32[40,100] subtract(y, tops)
  ROOT r = f32[40,100] exponential(s)
}
"""
    schedule = str(xjit.compile(text).as_text("schedule"))
    assert "reduce %" in schedule and "transposes" not in schedule
    assert set(re.findall(r"repeated=(\d+)", schedule)) == {"0"}
    check(text, np.random.default_rng(0).normal(size=(100, 40)).astype(np.float32), rtol=1e-6)
