"""The op table is complete: every opcode has a row, and every gap in a row has its reason."""

from __future__ import annotations

import pytest

import xjit.ops
from xjit.hlo import OPCODES
from xjit.ops import OPS
from xjit.ops.evaluation.table import UNSUPPORTED


def test_one_row_per_opcode():
    assert list(OPS) == list(OPCODES)
    assert all(row.opcode is OPCODES[name] for name, row in OPS.items())


def test_every_row_has_a_shape_rule():
    assert [name for name, row in OPS.items() if row.infer_shape is None] == []


def test_rows_without_evaluation_have_a_reason():
    assert {name for name, row in OPS.items() if row.evaluate is None} == set(UNSUPPORTED)


def test_unknown_names_of_the_package_are_errors():
    with pytest.raises(AttributeError, match="NO_SUCH_TABLE"):
        _ = xjit.ops.NO_SUCH_TABLE
