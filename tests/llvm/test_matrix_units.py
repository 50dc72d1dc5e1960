"""The table of matrix instructions: every element of a block is somewhere, and where PTX's figures show it."""

from __future__ import annotations

import itertools

import pytest

from xjit.affine import AffineExpr, constant, substitute
from xjit.hlo.types.primitive_type import PrimitiveType as P
from xjit.llvm.gpu_models import GPU_MODELS, WARP_SIZE
from xjit.llvm.matrix_units import MATRIX_UNITS, MatrixUnit, Place, matrix_unit


def at(place: Place, lane: int, element: int) -> tuple[int, int]:
    def value(expr: AffineExpr) -> int:
        return substitute(expr, {0: constant(lane), 1: constant(element)}).value

    return value(place[0]), value(place[1])


@pytest.mark.parametrize("unit", MATRIX_UNITS.values(), ids=lambda unit: unit.name)
def test_every_element_of_a_block_is_held_once(unit: MatrixUnit) -> None:
    blocks = [
        (unit.lhs_place, unit.lhs_registers * unit.per_register, unit.m, unit.k),
        (unit.rhs_place, unit.rhs_registers * unit.per_register, unit.n, unit.k),
        (unit.sum_place, unit.num_sums, unit.m, unit.n),
    ]
    for place, count, rows, columns in blocks:
        held = [at(place, lane, element) for lane in range(WARP_SIZE) for element in range(count)]
        assert sorted(held) == sorted(itertools.product(range(rows), range(columns)))


def test_sizes_are_those_of_the_names() -> None:
    for unit in MATRIX_UNITS.values():
        assert unit.name.split(".")[0] == f"m{unit.m}n{unit.n}k{unit.k}"


def test_places_are_those_of_ptx() -> None:
    unit = MATRIX_UNITS["m16n8k16.bf16.bf16"]
    assert [at(unit.lhs_place, 5, i) for i in range(8)] == [
        (1, 2), (1, 3), (9, 2), (9, 3), (1, 10), (1, 11), (9, 10), (9, 11)
    ]  # fmt: skip
    assert [at(unit.rhs_place, 5, i) for i in range(4)] == [(1, 2), (1, 3), (1, 10), (1, 11)]
    assert [at(unit.sum_place, 5, i) for i in range(4)] == [(1, 2), (1, 3), (9, 2), (9, 3)]


@pytest.mark.parametrize(
    ("architecture", "kind", "name"),
    [
        ("sm_75", P.F16, "m16n8k8.f16.f16"),
        ("sm_75", P.BF16, None),
        ("sm_75", P.S8, "m8n8k16.s8.s8"),
        ("sm_80", P.F16, "m16n8k16.f16.f16"),
        ("sm_80", P.F8E4M3FN, None),
        ("sm_80", P.F64, "m8n8k4.f64.f64"),
        ("sm_89", P.F8E4M3FN, "m16n8k32.f8e4m3fn.f8e4m3fn"),
        ("sm_120", P.BF16, "m16n8k16.bf16.bf16"),
        ("sm_120", P.S32, None),
    ],
)
def test_an_architecture_has_the_largest_unit_of_its_age(architecture: str, kind: P, name: str | None) -> None:
    unit = matrix_unit(GPU_MODELS[architecture], kind, kind)
    assert (unit and unit.name) == name
