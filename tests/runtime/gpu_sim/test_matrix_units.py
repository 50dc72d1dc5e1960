"""Matrix instructions as the simulator does them: each by itself, on random blocks, against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.support.gpu_kernels import kernel_of, run
from xjit.affine import constant, substitute
from xjit.hlo.types.primitive_type import PrimitiveType as P
from xjit.llvm.gpu_models import WARP_SIZE
from xjit.llvm.matrix_units import MATRIX_UNITS, MatrixUnit, Place
from xjit.llvm.target import Target
from xjit.runtime.gpu_sim import SimulationError
from xjit.runtime.machine_code.nvptx import to_ptx

REGISTERS = {P.F16: "<2 x half>", P.F64: "double"}
SUMS = {P.F32: "float", P.S32: "i32", P.F64: "double"}


def kernel_text(unit: MatrixUnit, lanes: str = "true") -> str:
    """A kernel whose lanes load their registers, multiply, and store their sums; only those where `lanes` is true."""
    operand, total = REGISTERS.get(unit.lhs, "i32"), SUMS[unit.sums]
    kinds = [operand] * (unit.lhs_registers + unit.rhs_registers) + [total] * unit.num_sums
    sources = ["a"] * unit.lhs_registers + ["b"] * unit.rhs_registers + ["c"] * unit.num_sums
    numbers = [*range(unit.lhs_registers), *range(unit.rhs_registers), *range(unit.num_sums)]
    counts = {"a": unit.lhs_registers, "b": unit.rhs_registers, "c": unit.num_sums}
    lines = []
    for i, (kind, source, number) in enumerate(zip(kinds, sources, numbers, strict=True)):
        lines += [
            f"%o{i} = mul i32 %lane, {counts[source]}",
            f"%n{i} = add i32 %o{i}, {number}",
            f"%p{i} = getelementptr {kind}, ptr addrspace(1) %{source}, i32 %n{i}",
            f"%v{i} = load {kind}, ptr addrspace(1) %p{i}, align 4",
        ]
    result = f"{{ {', '.join([total] * unit.num_sums)} }}"
    arguments = ", ".join(f"{kind} %v{i}" for i, kind in enumerate(kinds))
    lines.append(f"%d = call {result} @llvm.{unit.intrinsic}({arguments})")
    for i in range(unit.num_sums):
        lines += [
            f"%e{i} = extractvalue {result} %d, {i}",
            f"store {total} %e{i}, ptr addrspace(1) %p{len(kinds) - unit.num_sums + i}, align 4",
        ]
    body = "\n".join(f"  {line}" for line in lines)
    return f"""
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare {result} @llvm.{unit.intrinsic}({", ".join(kinds)})
define ptx_kernel void @k(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c) {{
  %lane = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %few = icmp ult i32 %lane, 20
  %go = select i1 {lanes}, i1 true, i1 %few
  br i1 %go, label %work, label %end
work:
{body}
  br label %end
end:
  ret void
}}
"""


def fragments(block: np.ndarray, place: Place, count: int) -> np.ndarray:
    """What each lane holds of a block."""
    held = np.empty((WARP_SIZE, count), block.dtype)
    for lane, element in np.ndindex(held.shape):
        held[lane, element] = block[whole(place, lane, element)]
    return held


def whole(place: Place, lane: int, element: int) -> tuple[int, int]:
    i, j = (substitute(e, {0: constant(lane), 1: constant(element)}).value for e in place)
    return i, j


def random_block(rng: np.random.Generator, kind: P, rows: int, columns: int) -> np.ndarray:
    if kind.is_integer:
        info = np.iinfo(kind.dtype)
        return rng.integers(info.min, info.max + 1, (rows, columns)).astype(kind.dtype)
    return rng.standard_normal((rows, columns)).astype(kind.dtype)


@pytest.mark.parametrize("unit", MATRIX_UNITS.values(), ids=lambda unit: unit.name)
def test_a_unit_multiplies_blocks(unit: MatrixUnit) -> None:
    rng = np.random.default_rng(0)
    a, b = random_block(rng, unit.lhs, unit.m, unit.k), random_block(rng, unit.rhs, unit.n, unit.k)
    c = random_block(rng, unit.sums, unit.m, unit.n)
    lhs = fragments(a, unit.lhs_place, unit.lhs_registers * unit.per_register)
    rhs = fragments(b, unit.rhs_place, unit.rhs_registers * unit.per_register)
    sums = fragments(c, unit.sum_place, unit.num_sums)
    run(kernel_of(kernel_text(unit), "k", 1, WARP_SIZE), lhs, rhs, sums)
    wide = np.int64 if unit.sums.is_integer else np.float64
    given = [x.astype(wide) for x in (a, b)]
    if unit.lhs is P.F32:
        given = [(x.view(np.int32) & ~0x1FFF).view(np.float32).astype(wide) for x in (a, b)]
    expected = fragments((c + given[0] @ given[1].T).astype(unit.sums.dtype), unit.sum_place, unit.num_sums)
    tolerance = {P.F32: 2e-6, P.F64: 1e-14}.get(unit.sums, 0)
    np.testing.assert_allclose(sums, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("unit", MATRIX_UNITS.values(), ids=lambda unit: unit.name)
def test_a_unit_is_selected_where_the_table_says(unit: MatrixUnit) -> None:
    ptx = to_ptx(kernel_text(unit), Target.for_gpu(f"sm_{unit.compute_capability}"))
    assert f"mma.sync.aligned.{unit.name.split('.')[0]}" in ptx


def test_all_lanes_of_the_warp_must_take_part() -> None:
    unit = MATRIX_UNITS["m16n8k16.bf16.bf16"]
    arrays = [np.zeros((WARP_SIZE, 8), ml_dtypes.bfloat16), np.zeros((WARP_SIZE, 4), ml_dtypes.bfloat16)]
    text = kernel_text(unit, "false").replace("label %work, label %end", "label %work, label %wait")
    text = text.replace(
        "end:", "wait:\n  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n  br label %end\nend:"
    )
    text += "declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)\n"
    with pytest.raises(SimulationError, match="lane"):
        run(kernel_of(text, "k", 1, WARP_SIZE), *arrays, np.zeros((WARP_SIZE, 4), np.float32))
