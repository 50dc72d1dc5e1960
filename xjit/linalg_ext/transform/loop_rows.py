"""Operations of scripts on loops."""

from __future__ import annotations

from xjit.linalg_ext.ir.attributes import IntegerAttr
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.rewrite.loop_rules import known_trips
from xjit.linalg_ext.transform.state import Handles, Script, TransformRow
from xjit.linalg_ext.transform.structured_rows import located
from xjit.linalg_ext.transforms.coalesce import coalesce
from xjit.linalg_ext.transforms.scf_loops import move_invariants_out, peel, unroll

__all__ = ["LOOP_ROWS"]


def get_parent_for(script: Script, op: Operation) -> Handles:
    """The n-th loop around each payload operation."""
    loops = op.attributes.get("num_loops")
    number = loops.value if isinstance(loops, IntegerAttr) else 1
    if number < 1:
        raise LinalgError(f"'{op.name}' op expects 'num_loops' to be 1 or more, found {number}", op.location)
    found: dict[Operation, None] = {}
    for target in script.payload(op):
        around = [p for p in target.ancestors() if p.name in ("scf.for", "affine.for")]
        if len(around) < number:
            raise LinalgError(f"could not find an 'scf.for' parent of '{target.name}'", op.location)
        found[around[number - 1]] = None
    return [list(found)]


def unroll_loop(script: Script, op: Operation) -> Handles:
    factor = op.attributes.get("factor")
    if not isinstance(factor, IntegerAttr):
        raise LinalgError(f"'{op.name}' op expects a number as 'factor', found {factor}", op.location)
    for loop in script.payload(op):
        located(op, lambda loop=loop: unroll(loop, factor.value) or ())
    return []


def peel_loop(script: Script, op: Operation) -> Handles:
    main: list[Operation] = []
    remainder: list[Operation] = []
    for loop in script.payload(op):
        whole, rest = located(op, lambda loop=loop: peel(loop))
        main.append(whole)
        remainder.append(rest)
    return [main, remainder][: len(op.results)]


def coalesce_loops(script: Script, op: Operation) -> Handles:
    """The loops that nests have become."""
    return [[loop for target in script.payload(op) for loop in located(op, lambda t=target: (coalesce(t),))]]


def licm(script: Script, op: Operation) -> Handles:
    for loop in script.payload(op):
        move_invariants_out(loop)
    return []


def promote(script: Script, op: Operation) -> Handles:
    """Loops of one iteration become their bodies."""
    for loop in script.payload(op):
        if loop.name == "scf.for":
            known_trips(loop)
    return []


LOOP_ROWS: tuple[TransformRow, ...] = (
    TransformRow("transform.loop.get_parent_for", get_parent_for),
    TransformRow("transform.loop.unroll", unroll_loop, (0,)),
    TransformRow("transform.loop.peel", peel_loop, (0,)),
    TransformRow("transform.loop.coalesce", coalesce_loops, (0,)),
    TransformRow("transform.apply_licm", licm),
    TransformRow("transform.loop.promote_if_one_iteration", promote, (0,)),
)
