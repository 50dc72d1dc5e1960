"""Slices of carried tensors that are carried themselves, and what stands in the way."""

from __future__ import annotations

import pytest

from tests.linalg_ext.equivalence import check_transformation
from xjit.linalg_ext.ir import Operation
from xjit.linalg_ext.transforms.loops.hoist_subsets import hoist_loop_invariant_subsets

NEST = """
func.func @f(%a: tensor<8x8xf32>, %b: tensor<8x4xf32>, %o: index) -> tensor<8x8xf32> {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %trips = arith.constant {trips} : index
  %0 = scf.for %i = %c0 to %trips step %c1 iter_args(%t = %a) -> (tensor<8x8xf32>) {{
    {body}
    scf.yield %r : tensor<8x8xf32>
  }}
  return %0 : tensor<8x8xf32>
}}"""

SLICE = "tensor.extract_slice %{of}[{at}] [8, 4] [1, 1] : tensor<8x8xf32> to tensor<8x4xf32>"
INSERT = "tensor.insert_slice %{x} into %{of}[{at}] [8, 4] [1, 1] : tensor<8x4xf32> into tensor<8x8xf32>"
ADD = "linalg.add ins(%{x}, %{y} : tensor<8x4xf32>, tensor<8x4xf32>) outs(%{x} : tensor<8x4xf32>) -> tensor<8x4xf32>"


def lines(*texts: str) -> str:
    return "\n    ".join(texts)


def changed(slice_at: str, insert_at: str | None = None) -> str:
    return lines(
        f"%s = {SLICE.format(of='t', at=slice_at)}",
        f"%x = {ADD.format(x='s', y='b')}",
        f"%r = {INSERT.format(x='x', of='t', at=insert_at or slice_at)}",
    )


def hoist(module: Operation) -> None:
    for loop in [op for op in module.walk() if op.name == "scf.for"][:1]:
        hoist_loop_invariant_subsets(loop)


def slices_in_loops(module: Operation) -> int:
    slices = ("tensor.extract_slice", "tensor.insert_slice")
    return sum(op.name in slices and any(p.name == "scf.for" for p in op.ancestors()) for op in module.walk())


@pytest.mark.parametrize("trips", [0, 3])
@pytest.mark.parametrize("at", ["0, 4", "0, %o"])
def test_a_slice_is_carried(trips: int, at: str) -> None:
    after = check_transformation(NEST.format(trips=trips, body=changed(at)), hoist)
    assert slices_in_loops(after) == 0
    [loop] = [op for op in after.walk() if op.name == "scf.for"]
    assert [str(t) for t in loop.result_types] == ["tensor<8x8xf32>", "tensor<8x4xf32>"]


def test_slices_beside_each_other_and_nested_loops() -> None:
    body = lines(
        "%r = scf.for %j = %c0 to %c1 step %c1 iter_args(%u = %t) -> (tensor<8x8xf32>) {",
        f"%s = {SLICE.format(of='u', at='0, 0')}",
        f"%q = {SLICE.format(of='u', at='0, 4')}",
        f"%x = {ADD.format(x='s', y='q')}",
        f"%v = {INSERT.format(x='x', of='u', at='0, 0')}",
        f"%y = {ADD.format(x='q', y='x')}",
        f"%w = {INSERT.format(x='y', of='v', at='0, 4')}",
        "scf.yield %w : tensor<8x8xf32> }",
    )
    after = check_transformation(NEST.format(trips=2, body=body), hoist)
    assert slices_in_loops(after) == 0


@pytest.mark.parametrize(
    "body",
    [
        changed("0, %i"),  # moves with the loop
        changed("0, 0", "0, 4"),  # is put back elsewhere
        changed("0, 0").replace("%r =", "%z =")
        + lines("", f"%p = {SLICE.format(of='z', at='0, 2')}", f"%r = {INSERT.format(x='p', of='z', at='0, 2')}"),
        lines(changed("0, 0").replace("%r =", "%z ="), "%r = linalg.exp ins(%t : tensor<8x8xf32>) outs(%z : tensor<8x8xf32>) -> tensor<8x8xf32>"),
    ],
    ids=["moves", "elsewhere", "overlaps", "read as a whole"],
)  # fmt: skip
def test_what_is_not_carried(body: str) -> None:
    before = NEST.format(trips=3, body=body)
    after = check_transformation(before, hoist)
    assert slices_in_loops(after) == before.count("_slice %")
