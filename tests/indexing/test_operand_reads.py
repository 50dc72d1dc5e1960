"""How operands are read, by the maps: what fusion, updates in place and cost decisions stand on."""

from __future__ import annotations

import gc
import weakref

import pytest

from xjit.hlo import HloModule
from xjit.indexing.operand_reads import OperandRead, reads_of
from xjit.text.parser import parse_hlo

MODULE = """HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[4,8,16] parameter(0)
  z = f32[] constant(0)
  i = s32[] parameter(1)
  u = f32[1,8,16] parameter(2)
  rows = f32[4,8] reduce(x, z), dimensions={2}, to_apply=add
  blocks = f32[4] reduce(x, z), dimensions={1,2}, to_apply=add
  columns = f32[8,16] reduce(x, z), dimensions={0}, to_apply=add
  spread = f32[4,8,16] broadcast(rows), dimensions={0,1}
  spread1 = f32[4,1,8,16] broadcast(rows), dimensions={0,2}
  across = f32[4,8,16] broadcast(columns), dimensions={1,2}
  flat = f32[32,16] reshape(x)
  ones = f32[4,1,8,1] reshape(rows)
  turned = f32[16,4,8] transpose(x), dimensions={2,0,1}
  padded = f32[6,8,31] pad(x, z), padding=1_1x0_0x0_0_1
  joined = f32[8,8,16] concatenate(x, x), dimensions={0}
  updated = f32[4,8,16] dynamic-update-slice(x, u, i, i, i)
  sliced = f32[1,8,16] dynamic-slice(x, i, i, i), dynamic_slice_sizes={1,8,16}
  product = f32[4,8,16] multiply(x, spread)
  ROOT out = (f32[4,8,16]) tuple(product)
}
"""


@pytest.fixture(scope="module")
def module() -> HloModule:
    return parse_hlo(MODULE)


def read(module: HloModule, name: str, operand: int = 0) -> OperandRead:
    found = next(i for i in module.entry_computation.instructions if i.name == name)
    return reads_of(found)[operand]


def test_the_same_index(module: HloModule) -> None:
    assert read(module, "product").is_identity and read(module, "product", 1).is_identity
    assert read(module, "updated").is_identity
    assert not any(read(module, n).is_identity for n in ("flat", "turned", "spread", "padded", "joined", "sliced"))


def test_the_same_number(module: HloModule) -> None:
    assert all(read(module, n).keeps_number for n in ("product", "flat", "ones", "updated"))
    assert not any(read(module, n).keeps_number for n in ("turned", "spread", "padded", "joined", "sliced", "rows"))


def test_rows(module: HloModule) -> None:
    assert read(module, "spread").reads_its_row(16) and read(module, "spread1").reads_its_row(16)
    assert not read(module, "across").reads_its_row(16) and not read(module, "spread").reads_its_row(128)
    assert read(module, "rows").reads_whole_row(16) and read(module, "blocks").reads_whole_row(128)
    assert not read(module, "columns").reads_whole_row(4) and not read(module, "rows").reads_whole_row(128)


@pytest.mark.parametrize(
    ("name", "operand", "expected"),
    [
        ("product", 0, 1.0),
        ("spread", 0, 1.0),
        ("rows", 0, 16.0),
        ("rows", 1, 1.0),
        ("blocks", 0, 128.0),
        ("joined", 0, 0.5),
        ("padded", 0, 512 / (6 * 8 * 31)),
        ("updated", 0, 1.0),
        ("updated", 1, 0.25),
        ("sliced", 0, 1.0),
    ],
)
def test_evaluations(module: HloModule, name: str, operand: int, expected: float) -> None:
    assert read(module, name, operand).evaluations == pytest.approx(expected, rel=0.05)


def test_divisions_and_walks_across_memory(module: HloModule) -> None:
    assert read(module, "flat").divides and not read(module, "turned").divides
    assert read(module, "turned").walks_across(2, 2) and not read(module, "flat").walks_across(1, 2)
    assert not read(module, "spread").walks_across(2, 1)  # all along its minor dimension read one element


def test_answers_are_shared_and_keep_no_module_alive() -> None:
    module = parse_hlo(MODULE)
    assert read(module, "sliced") is read(parse_hlo(MODULE), "sliced")
    root = weakref.ref(module.entry_computation.root_instruction)
    del module
    gc.collect()
    assert root() is None
