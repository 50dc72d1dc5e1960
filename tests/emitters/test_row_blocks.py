"""Columns of rows of 5 to 16 elements: blocks of rows are loaded as they lie and turned in registers."""

from __future__ import annotations

import ctypes
import mmap
import sys

import numpy as np
import pytest

import xjit
from tests.support.kernels import check
from xjit.hlo.types.primitive_type import PrimitiveType

ROWS = 8300  # with which rows of two elements are worth code for each column
REDUCERS = """HloModule m
larger {{ a = {kind}[] parameter(0)  b = {kind}[] parameter(1)  ROOT r = {kind}[] maximum(a, b) }}
add {{ a = {kind}[] parameter(0)  b = {kind}[] parameter(1)  ROOT r = {kind}[] add(a, b) }}
first {{
  a = {kind}[] parameter(0)
  i = s32[] parameter(1)
  b = {kind}[] parameter(2)
  j = s32[] parameter(3)
  greater = pred[] compare(a, b), direction=GT
  equal = pred[] compare(a, b), direction=EQ
  before = pred[] compare(i, j), direction=LT
  tie = pred[] and(equal, before)
  wins = pred[] or(greater, tie)
  value = {kind}[] select(wins, a, b)
  index = s32[] select(wins, i, j)
  ROOT r = ({kind}[], s32[]) tuple(value, index)
}}
"""
MODULE = """ENTRY e {{
  x = {kind}[{rows},{length}] parameter(0)
  z = {kind}[] constant({init})
  {body}
}}
"""
LARGEST = "ROOT r = {kind}[{rows}] reduce(x, z), dimensions={{1}}, to_apply=larger"
SUMS = "ROOT r = {kind}[{rows}] reduce(x, z), dimensions={{1}}, to_apply=add"
POSITIONS = """n = s32[{rows},{length}] iota(), iota_dimension=1
  zero = s32[] constant(0)
  ROOT r = ({kind}[{rows}], s32[{rows}]) reduce(x, n, z, zero), dimensions={{1}}, to_apply=first"""
COLUMN = """c = {kind}[{rows},1] slice(x), slice={{[0:{rows}], [3:4]}}
  d = {kind}[{rows},1] slice(x), slice={{[0:{rows}], [4:5]}}
  ROOT r = {kind}[{rows},1] multiply(c, d)"""


def text(body: str, kind: str, length: int, rows: int = ROWS) -> str:
    return (REDUCERS + MODULE).format(
        kind=kind,
        rows=rows,
        length=length,
        init={LARGEST: "-100", POSITIONS: "-100"}.get(body, "0"),
        body=body.format(kind=kind, rows=rows, length=length),
    )


@pytest.mark.parametrize("level", ["sse2", "avx2", "avx512"])
@pytest.mark.parametrize("kind", ["f32", "f64", "s8", "bf16"])
def test_values(kind: str, level: str) -> None:
    """In the last block, whose last row ends with the array, too."""
    options = xjit.CompileOptions(cpu_level=level)
    for body in (LARGEST, SUMS, POSITIONS, COLUMN):
        for length in (5, 11, 16):
            tolerance = {"f32": 1e-5, "f64": 1e-12, "bf16": 2e-2}.get(kind, 0)
            check(text(body, kind, length), options=options, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("body", [LARGEST, SUMS, POSITIONS, COLUMN])
@pytest.mark.parametrize("length", [5, 10, 16])
def test_blocks_are_turned_and_not_gathered(body: str, length: int) -> None:
    """640 rows are whole vectors: their code has nothing else."""
    options = xjit.CompileOptions(cpu_level="avx512")
    code = xjit.compile(text(body, "f32", length, rows=640), options=options).as_text("llvm")
    assert "shufflevector" in code and "gather" not in code


def test_columns_of_two_arrays_are_as_many_as_registers_hold() -> None:
    """Products of longer rows are summed along these, and their sums side by side."""
    sums = "y = f32[{rows},{length}] parameter(1)\n  p = f32[{rows},{length}] multiply(x, y)\n  " + SUMS
    for length, across in ((8, True), (9, False)):
        module = text(sums, "f32", length).replace("reduce(x", "reduce(p")
        assert ("reduce rows" not in xjit.compile(module).as_text("schedule")) == across
        check(module, rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mprotect of the C library")
@pytest.mark.parametrize("length", [5, 11, 16])
def test_nothing_behind_the_array_is_read(length: int) -> None:
    """Behind the last row lies a page that nobody may read."""
    x = np.random.default_rng(0).normal(size=(640, length)).astype(np.float32)
    pages = -(-x.nbytes // mmap.PAGESIZE)
    memory = np.frombuffer(mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE), np.uint8)
    end = memory.ctypes.data + pages * mmap.PAGESIZE
    assert not ctypes.CDLL(None).mprotect(ctypes.c_void_p(end), ctypes.c_size_t(mmap.PAGESIZE), 0)
    at_end = memory[pages * mmap.PAGESIZE - x.nbytes : pages * mmap.PAGESIZE].view(np.float32).reshape(x.shape)
    at_end[:] = x
    result = xjit.compile(text(LARGEST, "f32", length, rows=640))(at_end)
    np.testing.assert_array_equal(np.asarray(result), x.max(axis=1))


SOFTMAX = """lowest = {kind}[] constant(-inf)
  top = {kind}[{rows}] reduce(x, lowest), dimensions={{1}}, to_apply=larger
  tops = {kind}[{rows},{length}] broadcast(top), dimensions={{0}}
  below = {kind}[{rows},{length}] subtract(x, tops)
  weights = {kind}[{rows},{length}] exponential(below)
  total = {kind}[{rows}] reduce(weights, z), dimensions={{1}}, to_apply=add
  totals = {kind}[{rows},{length}] broadcast(total), dimensions={{0}}
  ROOT r = {kind}[{rows},{length}] divide(weights, totals)"""
BOTH = (
    SOFTMAX.replace("ROOT r", "r")
    + """
  largest = pred[{rows},{length}] compare(x, tops), direction=EQ
  ROOT t = ({kind}[{rows},{length}], pred[{rows},{length}]) tuple(r, largest)"""
)


@pytest.mark.parametrize("level", ["sse2", "avx2", "avx512"])
@pytest.mark.parametrize("kind", ["f32", "f64", "bf16"])
def test_rows_that_are_written_again(kind: str, level: str) -> None:
    """All columns at once, also of two results, the last rows under a mask."""
    options = xjit.CompileOptions(cpu_level=level)
    tolerance = {"f32": 2e-6, "f64": 1e-14, "bf16": 2e-2}[kind]
    for body in (SOFTMAX, BOTH):
        for length in (2, 3, 7, 16):
            check(text(body, kind, length), options=options, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("length", [3, 8, 11])
def test_softmax_of_short_rows_computes_each_exponential_once(length: int) -> None:
    options = xjit.CompileOptions(cpu_level="avx512")
    schedule = xjit.compile(text(SOFTMAX, "f32", length, rows=8192), options=options).as_text("schedule")
    stores = [line for line in schedule.splitlines() if "out0[" in line]
    assert len(stores) == length and "task vector(16)" in schedule


STACK = """ENTRY e {{
  x = {kind}[{rows},64] parameter(0)
  {columns}
  {joined} = {kind}[{rows},{length}] concatenate({names}), dimensions={{1}}
  {rest}
}}
"""


def stack(kind: str, length: int, rows: int = ROWS, rest: str = "") -> str:
    """Columns from all over a wide array, each changed in its own way."""
    columns = "\n  ".join(
        f"c{n} = {kind}[{rows},1] slice(x), slice={{[0:{rows}], [{7 * n % 64}:{7 * n % 64 + 1}]}}\n"
        f"  d{n} = {kind}[{rows},1] {f'negate(c{n})' if n % 2 else f'add(c{n}, c{n})'}"
        for n in range(length)
    )
    names = ", ".join(f"d{n}" for n in range(length))
    joined = "joined" if rest else "ROOT joined"
    return "HloModule m\n" + STACK.format(
        kind=kind, rows=rows, columns=columns, length=length, names=names, joined=joined, rest=rest
    )


@pytest.mark.parametrize("level", ["sse2", "avx2", "avx512"])
@pytest.mark.parametrize("kind", ["f32", "f64", "s8", "c64"])
def test_joined_columns(kind: str, level: str) -> None:
    for length in (3, 6, 13, 17):
        check(stack(kind, length), options=xjit.CompileOptions(cpu_level=level))


@pytest.mark.parametrize("length", [3, 12])
def test_columns_are_joined_in_registers(length: int) -> None:
    options = xjit.CompileOptions(cpu_level="avx512")
    code = xjit.compile(stack("f32", length, rows=8192), options=options).as_text("llvm")
    assert "scatter" not in code
    rest = f"ROOT r = f32[8192,{length}] add(joined, joined)"
    check(stack("f32", length, rows=8192, rest=rest), options=options)


CENTERS = """x = {kind}[{rows},{length}] parameter(0)
  y = {kind}[{count},{length}] parameter(1)
  z = {kind}[] constant(0)
  a = {kind}[{rows},{count},{length}] broadcast(x), dimensions={{0,2}}
  b = {kind}[{rows},{count},{length}] broadcast(y), dimensions={{1,2}}
  d = {kind}[{rows},{count},{length}] subtract(a, b)
  s = {kind}[{rows},{count},{length}] multiply(d, d)
  ROOT r = {kind}[{rows},{count}] reduce(s, z), dimensions={{2}}, to_apply=add"""


@pytest.mark.parametrize("level", ["sse2", "avx2", "avx512"])
@pytest.mark.parametrize(("length", "count"), [(3, 16), (5, 2), (8, 8), (16, 3), (9, 11)])
def test_distances_from_a_few_centers(length: int, count: int, level: str) -> None:
    """The rows of one array are turned once, and the other's elements are the same for all lanes."""
    for kind in ("f32", "s32"):
        sizes = {"kind": kind, "rows": ROWS, "length": length, "count": count}
        module = (REDUCERS + "ENTRY e {{\n  " + CENTERS + "\n}}\n").format(**sizes)
        check(module, options=xjit.CompileOptions(cpu_level=level), rtol=2e-6, atol=2e-6)


RUNS = """HloModule m
ENTRY e {{
  x = {kind}[3,4,5,{length}] parameter(0)
  t = {kind}[3,5,4,{length}] transpose(x), dimensions={{0,2,1,3}}
  ROOT n = {kind}[3,5,4,{length}] negate(t)
}}
"""


@pytest.mark.parametrize("level", ["sse2", "avx2", "avx512"])
@pytest.mark.parametrize("kind", ["f32", "f64", "s8"])
def test_pieces_of_rows_are_loaded_as_they_lie(kind: str, level: str) -> None:
    """As pictures are cut into patches: what a vector takes lies in a few places."""
    for length in (3, 4, 7, 12):
        check(RUNS.format(kind=kind, length=length), options=xjit.CompileOptions(cpu_level=level))


def test_pieces_of_twelve_elements_are_not_gathered() -> None:
    code = xjit.compile(RUNS.format(kind="f32", length=12), options=xjit.CompileOptions(cpu_level="avx512"))
    assert "gather" not in code.as_text("llvm")


GATHERED = """HloModule m
ENTRY e {{
  x = {kind}[90,{length}] parameter(0)
  i = s32[{rows},1] parameter(1)
  w = {kind}[{rows},{length}] parameter(2)
  g = {kind}[{rows},{length}] gather(x, i), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}},
    index_vector_dim=1, slice_sizes={{1,{length}}}
  ROOT r = {kind}[{rows},{length}] multiply(g, w)
}}
"""


@pytest.mark.parametrize("level", ["sse2", "avx2", "avx512"])
@pytest.mark.parametrize("kind", ["f32", "f64", "s8", "c64"])
def test_short_rows_from_anywhere(kind: str, level: str) -> None:
    """Indices outside of the array are those of its first and last row."""
    rng = np.random.default_rng(1)
    for length in (2, 3, 5):
        module = GATHERED.format(kind=kind, length=length, rows=ROWS)
        dtype = PrimitiveType.from_text(kind).dtype
        x, w = (rng.integers(-9, 9, (n, length)).astype(dtype) for n in (90, ROWS))
        places = rng.integers(-3, 95, (ROWS, 1)).astype(np.int32)
        check(module, x, places, w, options=xjit.CompileOptions(cpu_level=level))


@pytest.mark.parametrize("length", [2, 3, 4, 5])
def test_short_rows_from_anywhere_are_loaded_as_rows(length: int) -> None:
    options = xjit.CompileOptions(cpu_level="avx512")
    code = xjit.compile(GATHERED.format(kind="f32", length=length, rows=8192), options=options).as_text("llvm")
    assert "gather.v" not in code and "scatter" not in code
