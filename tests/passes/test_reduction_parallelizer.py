"""Which reductions are split, and that the result stays what it was."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from tests.support.kernels import compare, random_inputs
from tests.support.reductions import reduce_text
from xjit.passes.fusion.reduction_parallelizer import ReductionParallelizer
from xjit.text.parser import parse_hlo


def split(text: str) -> xjit.HloModule | None:
    """The module after the pass; None if nothing changed."""
    module = parse_hlo(text)
    return module if ReductionParallelizer().run(module) else None


@pytest.mark.parametrize(
    ("dims", "reduced", "expected"),
    [
        ((1 << 18,), (0,), True),
        ((4096, 64), (0,), True),
        ((6304, 768), (0,), True),
        ((32, 197, 64), (0, 1), True),
        ((8, 56, 56, 64), (0, 1, 2), True),
        ((2, 3, 1 << 17), (0, 1, 2), True),
        ((2, 64, 3, 1 << 10), (0, 2), False),  # other dimensions between
        ((4096, 64), (1,), False),  # enough rows
        ((64, 128, 64), (1,), False),  # enough outer results
        ((64, 4096), (0,), False),  # few rows per partial result
        ((4099, 64), (0,), False),  # a prime number of rows
        ((1024, 64), (0,), False),  # too small
    ],
)
def test_what_is_split(dims: tuple[int, ...], reduced: tuple[int, ...], expected: bool) -> None:
    assert (split(reduce_text("f32", dims, reduced)) is not None) is expected


@pytest.mark.parametrize(
    ("kind", "dims", "reduced", "init"),
    [
        ("s32", (4096, 64), (0,), "7"),
        ("s32", (32, 130, 64), (0, 1), "-3"),
        ("s32", (2, 2048, 64), (1,), "5"),
        ("s32", (4, 30, 40, 64), (0, 1, 2), "9"),
        ("s32", (3, 5, 50000), (1, 2), "1"),
        ("s32", (1, 8, 64, 300), (0, 1, 2, 3), "2"),
    ],
)
def test_results(kind: str, dims: tuple[int, ...], reduced: tuple[int, ...], init: str) -> None:
    text = reduce_text(kind, dims, reduced, init=init)
    module = split(text)
    assert module is not None
    inputs = random_inputs(module)
    compare(xjit.evaluate(module, *inputs), xjit.evaluate(parse_hlo(text), *inputs), 0.0, 0.0, str(dims))


@pytest.mark.parametrize(
    ("dims", "reduced", "partial"),
    [
        ((8, 56, 56, 64), (0, 1, 2), "s32[8,8,64]"),
        ((64, 56, 64), (0, 1), "s32[64,64]"),
        ((400, 30, 64), (0, 1), "s32[50,64]"),
        ((3, 1 << 18), (0, 1), "s32[3,16]"),
        ((1 << 40,), (0,), "s32[64]"),  # divisors are not looked for among all numbers
    ],
)
def test_there_are_about_64_partial_results(dims: tuple[int, ...], reduced: tuple[int, ...], partial: str) -> None:
    module = split(reduce_text("s32", dims, reduced))
    assert module is not None
    found = [i for i in module.entry_computation.instructions if i.opcode == "reduce"]
    assert str(found[0].shape).startswith(partial)


@pytest.mark.parametrize("rows", [(2, 4096, 64), (2, 2200, 3)])
def test_a_reduction_in_parts_keeps_the_layout_of_its_result(rows: tuple[int, ...]) -> None:
    """Those of many columns are cut for threads, those of few by `narrow-reduction-rewriter`."""
    batch, _, columns = rows
    text = f"""HloModule m, entry_computation_layout={{(f32{list(rows)}{{2,1,0}})->f32[{batch},{columns}]{{0,1}}}}
add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}
ENTRY e {{
  x = f32{list(rows)}{{2,1,0}} parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[{batch},{columns}]{{0,1}} reduce(x, z), dimensions={{1}}, to_apply=add
}}
"""
    (x,) = random_inputs(parse_hlo(text))
    executable = xjit.compile(text, options=xjit.CompileOptions(keep_intermediate_layouts=True))
    assert len(executable.kernels) == 2
    compare(executable(x), x.astype(np.float64).sum(1).astype(np.float32), 1e-5, 1e-3, "sums")


def test_complex_products_are_not_cut() -> None:
    """A product with 1 makes a NaN of the imaginary part of an infinity."""
    text = """HloModule m
multiply { a = c64[] parameter(0) b = c64[] parameter(1) ROOT c = c64[] multiply(a, b) }
ENTRY e {
  x = c64[262144] parameter(0)
  z = c64[] constant((1, 0))
  ROOT r = c64[] reduce(x, z), dimensions={0}, to_apply=multiply
}
"""
    assert split(text) is None
