"""How arrays are described as slices chosen by indices, and that what is computed for it is right."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from tests.support.passes import random_arguments
from xjit.hlo import HloInstruction, HloModule
from xjit.ops.evaluation import evaluate
from xjit.passes import PASSES, make_pass
from xjit.passes.analysis.indexed_arrays import Constant, IndexedArray, IndexedArrays, Reshaped, ScalarIndexed, Unknown
from xjit.text.parser import parse_hlo

ROWS = "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes"
HEADER = """HloModule m ENTRY e {
  k = s32[3,4] constant({{1,2,3,4},{5,6,7,8},{9,10,11,12}})
  x = s32[3,4] parameter(0)  i = s32[5] parameter(1)  j = s32[2,6] parameter(2)  s = s32[] constant(7)
"""

CASES: Mapping[str, tuple[str, str]] = {
    "an operand": (f"g = s32[5,4] gather(x, i), {ROWS}={{1,4}}", "(scalar-indexed %x %i 0->[0])"),
    "a constant": (
        f"g = s32[5,4] gather(k, i), {ROWS}={{1,4}}",
        "(scalar-indexed-const (constant s32[3,4]) %i 0->[0])",
    ),
    "columns": (
        "g = s32[3,5] gather(x, i), offset_dims={0}, collapsed_slice_dims={1}, start_index_map={1}, "
        "index_vector_dim=1, slice_sizes={3,1}",
        "(scalar-indexed %x %i 1->[1])",
    ),
    "slices that are not whole": (f"g = s32[5,2] gather(x, i), {ROWS}={{1,2}}", "%g"),
    "slices of more than one row": (
        "g = s32[5,2,4] gather(x, i), offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={0}, "
        "index_vector_dim=1, slice_sizes={2,4}",
        "%g",
    ),
    "a gather of a gather": (
        f"h = s32[5,4] gather(k, i), {ROWS}={{1,4}}  "
        "g = s32[2,4,6] gather(h, j), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
        "index_vector_dim=2, slice_sizes={1,4}",
        "(scalar-indexed-const (constant s32[3,4]) (scalar-indexed %i %j 0->[0,1]) 0->[0,2])",
    ),
    "a gather along another dimension": (
        f"h = s32[5,4] gather(k, i), {ROWS}={{1,4}}  "
        "g = s32[5,2,6] gather(h, j), offset_dims={0}, collapsed_slice_dims={1}, start_index_map={1}, "
        "index_vector_dim=2, slice_sizes={5,1}",
        "(scalar-indexed (scalar-indexed-const (constant s32[3,4]) %i 0->[0]) %j 1->[1,2])",
    ),
    "a reshape that keeps the indices": (
        f"h = s32[5,4] gather(k, i), {ROWS}={{1,4}}  g = s32[5,2,2] reshape(h)",
        "(scalar-indexed-const (constant s32[3,2,2]) %i 0->[0])",
    ),
    "a reshape that does not": (
        f"h = s32[5,4] gather(k, i), {ROWS}={{1,4}}  g = s32[20] reshape(h)",
        "(reshape (scalar-indexed-const (constant s32[3,4]) %i 0->[0]) to s32[20])",
    ),
    "an operation": (
        f"h = s32[5,4] gather(k, i), {ROWS}={{1,4}}  g = s32[5,4] negate(h)",
        "(scalar-indexed-const (constant s32[3,4]) %i 0->[0])",
    ),
    "an operation with a scalar": (
        f"h = s32[5,4] gather(k, i), {ROWS}={{1,4}}  b = s32[5,4] broadcast(s), dimensions={{}}  "
        "g = s32[5,4] subtract(b, h)",
        "(scalar-indexed-const (constant s32[3,4]) %i 0->[0])",
    ),
    "an operation with a vector along the slices": (
        f"h = s32[5,4] gather(k, i), {ROWS}={{1,4}}  v = s32[4] constant({{1,2,3,4}})  "
        "b = s32[5,4] broadcast(v), dimensions={1}  g = s32[5,4] multiply(h, b)",
        "(scalar-indexed-const (constant s32[3,4]) %i 0->[0])",
    ),
    "an operation with a vector along the indices": (
        f"h = s32[5,4] gather(k, i), {ROWS}={{1,4}}  v = s32[5] constant({{1,2,3,4,5}})  "
        "b = s32[5,4] broadcast(v), dimensions={0}  g = s32[5,4] multiply(h, b)",
        "%g",
    ),
    "a comparison with something unknown": (
        f"h = s32[5,4] gather(k, i), {ROWS}={{1,4}}  y = s32[5,4] parameter(3)  g = pred[5,4] compare(h, y), direction=LT",
        "%g",
    ),
    "a product": (
        f"h = s32[5,4] gather(k, i), {ROWS}={{1,4}}  w = s32[4,2] constant({{{{1,2}},{{3,4}},{{5,6}},{{7,8}}}})  "
        "g = s32[5,2] dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "(scalar-indexed-const (constant s32[3,2]) %i 0->[0])",
    ),
    "a product from the left": (
        f"h = s32[5,4] gather(k, i), {ROWS}={{1,4}}  w = s32[2,4] constant({{{{1,2,3,4}},{{5,6,7,8}}}})  "
        "g = s32[2,5] dot(w, h), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        "(scalar-indexed-const (constant s32[2,3]) %i 1->[1])",
    ),
    "a product over the indices": (
        f"h = s32[5,4] gather(k, i), {ROWS}={{1,4}}  w = s32[5,2] constant({{{{1,2}},{{3,4}},{{5,6}},{{7,8}},{{9,1}}}})  "
        "g = s32[4,2] dot(h, w), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
        "%g",
    ),
}


def _module(text: str) -> HloModule:
    before, _, last = text.rpartition("g = ")
    return parse_hlo(f"{HEADER} {before} ROOT g = {last} }}")


@pytest.mark.parametrize("name", CASES)
def test_description(name: str) -> None:
    text, expected = CASES[name]
    module = _module(text)
    root = module.entry_computation.root_instruction
    array = IndexedArrays.of(module).array(root)
    assert str(array) == expected
    described = PASSES["indexed-array-analysis"]()
    assert not described.run(module)
    values = _values(module)
    assert np.array_equal(_value_of(array, values), values[root])


def _values(module: HloModule) -> dict[HloInstruction, np.ndarray]:
    """The value of every array of the entry; indices are in bounds or clamped."""
    found: dict[HloInstruction, np.ndarray] = {}
    root = module.entry_computation.root_instruction
    arguments = random_arguments(module)
    for instruction in module.entry_computation.make_instruction_post_order():
        module.entry_computation.set_root_instruction(instruction, accept_different_shape=True)
        found[instruction] = np.asarray(evaluate(module, *arguments))
    module.entry_computation.set_root_instruction(root, accept_different_shape=True)
    return found


def _value_of(array: IndexedArray, values: Mapping[HloInstruction, np.ndarray]) -> np.ndarray:
    """What a description says that a value is."""
    if isinstance(array, Unknown):
        return values[array.instruction]
    if isinstance(array, Constant):
        return array.literal.array
    if isinstance(array, Reshaped):
        return _value_of(array.operand, values).reshape(array.shape.dimensions)
    assert isinstance(array, ScalarIndexed)
    source, indices = _value_of(array.source, values), _value_of(array.indices, values)
    chosen = np.take(source, indices, axis=array.source_dim, mode="clip")
    placed = np.moveaxis(chosen, range(array.source_dim, array.source_dim + indices.ndim), array.output_dims)
    assert placed.shape == array.shape.dimensions
    return placed


def test_the_pass_writes_what_it_finds(capsys: pytest.CaptureFixture[str]) -> None:
    module = _module(CASES["a constant"][0])
    assert not make_pass(PASSES, "indexed-array-analysis").run(module)
    assert capsys.readouterr().err == ""
    assert not make_pass(PASSES, "indexed-array-analysis{verbosity=2}").run(module)
    assert capsys.readouterr().err == f"%g = {CASES['a constant'][1]}\n"
