"""Constants that are one value on half-planes become comparisons of positions, positions iotas: same bits, no array."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xjit
from xjit.hlo import HloComputation, HloInstruction, HloModule
from xjit.ops import build
from xjit.ops.verifier import verify_module
from xjit.passes.fusion import constant_masks
from xjit.passes.fusion.constant_masks import replace_constant_masks

ROWS, COLUMNS = np.arange(7)[:, None], np.arange(9)[None]
TRIL = ROWS >= COLUMNS
WINDOW = TRIL & (ROWS - COLUMNS < 4)
POSITIONS = [
    np.arange(40, dtype=np.int32),
    np.arange(7, 47, dtype=np.int64)[None],
    np.arange(300, 100, -1, dtype=np.int16)[:, None],
    (ROWS - COLUMNS + 3).astype(np.int32),
    (ROWS + COLUMNS).astype(np.int64),
    np.arange(-128, 128).astype(np.int8),  # the last step of its iota wraps around
    np.iinfo(np.int64).max - np.arange(5),
]


def replaced(array: np.ndarray[Any, Any]) -> tuple[bool, HloModule]:
    """Whether a constant is replaced, and the module that adds it to nothing."""
    builder = HloComputation.Builder("e")
    constant = builder.add_instruction(build.make_constant(array))
    copy = builder.add_instruction(build.unary("copy", constant))
    module = HloModule("m")
    computation = module.add_entry_computation(builder.build(copy))
    return replace_constant_masks(computation, [copy], set()), module


@pytest.mark.parametrize(
    "array",
    [
        TRIL,
        ~TRIL.T,
        WINDOW,
        np.where(WINDOW, np.float32(0), np.float32(-1e9)),
        np.where(TRIL, 0, -np.inf).astype(np.float16),
        np.where(ROWS + 2 >= COLUMNS, 1, 0).astype(np.int8),
        np.where(TRIL, 0.5, -3.4e38).astype(ml_dtypes.bfloat16),
        np.broadcast_to(COLUMNS < 6, (7, 9)),
        (COLUMNS < 6),
        (COLUMNS[0] >= 2),
        (COLUMNS[0] >= 2) & (COLUMNS[0] < 7),
        TRIL.reshape(1, 7, 1, 9),
        np.where(TRIL, np.float32(1), np.float32(np.nan)),
        np.where(TRIL, np.float32(0), np.float32(-0.0)),
        np.where(ROWS - COLUMNS >= 0, 1, np.where(ROWS - COLUMNS >= -2, 2, 3)).astype(np.int32),
        *POSITIONS,
    ],
)
def test_masks(array: np.ndarray[Any, Any]) -> None:
    changed, module = replaced(array)
    assert changed
    verify_module(module)
    assert all(i.shape.is_scalar for i in module.entry_computation.instructions if i.opcode == "constant")
    got = xjit.evaluate(module)
    got, want = (np.ascontiguousarray(x).view(np.uint8) for x in (got, array))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "array",
    [
        np.ones((7, 9), np.float32),  # a splat is no array
        (ROWS + COLUMNS) % 2 == 0,
        TRIL & (ROWS != 3),
        np.where(TRIL, COLUMNS, -5).astype(np.float32),  # positions beside a mask
        np.stack([TRIL, ~TRIL]),  # three dimensions
        np.where(TRIL, 1j, 0),
        np.float32(3),
        np.arange(9).astype(np.uint32),  # no position, which may be negative: its differences wrap around
        np.arange(9).astype(np.float32),
        2 * np.arange(9),
        np.append(np.arange(99), 0),
        (ROWS + COLUMNS) ^ (ROWS * COLUMNS == 48),  # but for the last one
        np.zeros((0, 9), np.float32),
        np.where((ROWS >= COLUMNS) & (COLUMNS >= 2) & (COLUMNS < 7), 1.0, 0.0),  # more edges than two
    ],
)
def test_what_is_kept(array: np.ndarray[Any, Any]) -> None:
    changed, module = replaced(np.asarray(array))
    assert not changed
    assert [i.opcode for i in module.entry_computation.instructions] == ["constant", "copy"]


def test_constants_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """That which layers share is no mask for any of them."""
    builder = HloComputation.Builder("e")
    constants = [builder.add_instruction(build.make_constant(array)) for array in (TRIL & (ROWS != 3), TRIL)]
    copies = [builder.add_instruction(build.unary("copy", constant)) for constant in constants]
    computation = HloModule("m").add_entry_computation(builder.build(copies[0]))
    kept: set[HloInstruction] = set()
    assert replace_constant_masks(computation, copies, kept)
    assert kept == {constants[0]}
    monkeypatch.setattr(constant_masks, "_replace_constant", lambda *_: pytest.fail("looked at again"))
    assert not replace_constant_masks(computation, copies, kept)


def test_many_values_are_seen_at_a_glance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constant_masks, "_regions", lambda _: pytest.fail("a mask has few values"))
    assert not replaced(np.arange(90 * 100, dtype=np.float32).reshape(90, 100))[0]


def test_positions_are_what_masks_are_found_from() -> None:
    """Nothing but iotas, and numbers for all of them: whose differences `Positions` knows."""
    for array in POSITIONS:
        opcodes = {i.opcode for i in replaced(array)[1].entry_computation.instructions}
        assert opcodes <= {"iota", "negate", "add", "broadcast", "constant", "copy"}
