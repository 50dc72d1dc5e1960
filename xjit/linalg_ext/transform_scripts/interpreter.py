"""Executes the transform scripts of a module on the module itself."""

from __future__ import annotations

from xjit.affine import IndexingBudgetError
from xjit.hlo.diagnostics import did_you_mean
from xjit.linalg_ext.dialects.attribute_kinds import FAILURE_MODES, word_of
from xjit.linalg_ext.ir.attributes import StringAttr
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.transform_scripts.control_rows import CONTROL_ROWS
from xjit.linalg_ext.transform_scripts.handle_rows import HANDLE_ROWS
from xjit.linalg_ext.transform_scripts.loop_rows import LOOP_ROWS
from xjit.linalg_ext.transform_scripts.match_rows import MATCH_ROWS
from xjit.linalg_ext.transform_scripts.neighbour_rows import NEIGHBOUR_ROWS
from xjit.linalg_ext.transform_scripts.packing_rows import PACKING_ROWS
from xjit.linalg_ext.transform_scripts.pattern_rows import PATTERN_ROWS
from xjit.linalg_ext.transform_scripts.rewrite_rows import REWRITE_ROWS
from xjit.linalg_ext.transform_scripts.state import Handles, Script, TransformRow, script_operations
from xjit.linalg_ext.transform_scripts.structured_match_rows import STRUCTURED_MATCH_ROWS
from xjit.linalg_ext.transform_scripts.structured_rows import STRUCTURED_TRANSFORM_ROWS

__all__ = ["TRANSFORM_OPS", "interpret"]

TRANSFORM_OPS: dict[str, TransformRow] = {
    row.name: row
    for row in (
        *HANDLE_ROWS,
        *MATCH_ROWS,
        *STRUCTURED_MATCH_ROWS,
        *NEIGHBOUR_ROWS,
        *CONTROL_ROWS,
        *LOOP_ROWS,
        *REWRITE_ROWS,
        *PACKING_ROWS,
        *PATTERN_ROWS,
        *STRUCTURED_TRANSFORM_ROWS,
    )
}
"""The operations that scripts may use."""

_SEQUENCES = ("transform.sequence", "transform.with_pdl_patterns")


def interpret(module: Operation, entry_point: str = "__transform_main") -> None:
    """Executes each `transform.sequence` of a module, and the named sequence `entry_point`, in order.

    Those of modules inside of it, too: their payload is the whole module. LinalgError, at the place of the script's
    operation, for what is unknown or cannot be done; `failures(suppress)` ends the sequence there instead.
    """
    for op in list(script_operations(module)):
        if op.name in _SEQUENCES:
            _run_sequence(Script(module, _run_region), op, [[module]])
        elif op.name == "transform.named_sequence" and op.attributes.get("sym_name") == StringAttr(entry_point):
            _run_region(Script(module, _run_region), op, [[module]])


def _run_sequence(script: Script, op: Operation, arguments: Handles) -> Handles:
    """Runs a sequence, or the sequences inside of one."""
    mode = op.attributes.get("failure_propagation_mode")
    try:
        return _run_region(script, op, arguments)
    except LinalgError:
        if word_of(mode, FAILURE_MODES) == "suppress":
            return [[] for _ in op.results]
        raise


def _run_region(script: Script, op: Operation, arguments: Handles, number: int = 0) -> Handles:
    """Executes the operations of a region; returns what its terminator passes on."""
    if not op.regions[number].blocks:
        return []
    block = op.regions[number].block
    script.bind(block.arguments, arguments)
    for each in block.operations:
        if each.name in ("transform.yield", "transform.match.structured.yield"):
            return [script.lookup(each, i) for i in range(len(each.operands))]
        if each.name in _SEQUENCES:
            inner = [script.lookup(each, i) for i in range(len(each.operands))] or list(arguments)
            script.bind(each.results, _run_sequence(script, each, inner))
            continue
        _execute(script, each)
    return []


def _execute(script: Script, op: Operation) -> None:
    row = TRANSFORM_OPS.get(op.name)
    if row is None:
        raise LinalgError(f"unknown transform operation '{op.name}'{did_you_mean(op.name, TRANSFORM_OPS)}", op.location)
    try:
        handles = row.apply(script, op)
    except IndexingBudgetError as error:
        raise LinalgError(f"'{op.name}' op: {error}", op.location) from error
    if len(handles) != len(op.results):
        raise LinalgError(f"'{op.name}' op has {len(op.results)} results, expected {len(handles)}", op.location)
    for index in row.consumes:
        if index < len(op.operands):
            script.consume(op, index)
    script.bind(op.results, handles)
