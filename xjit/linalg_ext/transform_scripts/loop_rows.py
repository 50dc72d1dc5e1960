"""Operations of scripts on loops."""

from __future__ import annotations

from xjit.linalg_ext.ir.attributes import IntegerAttr, StringAttr
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.rewrite.loop_rules import known_trips
from xjit.linalg_ext.transform_scripts.state import Handles, Script, TransformRow
from xjit.linalg_ext.transform_scripts.structured_rows import located
from xjit.linalg_ext.transforms.loops.assumed_branch import take_assumed_branch
from xjit.linalg_ext.transforms.loops.coalesce import coalesce
from xjit.linalg_ext.transforms.loops.forall_to_for import forall_to_for
from xjit.linalg_ext.transforms.loops.forall_to_parallel import forall_to_parallel
from xjit.linalg_ext.transforms.loops.fuse_sibling import fuse_sibling
from xjit.linalg_ext.transforms.loops.hoist_subsets import hoist_loop_invariant_subsets
from xjit.linalg_ext.transforms.loops.outline import outline_loop
from xjit.linalg_ext.transforms.loops.scf_loops import move_invariants_out, peel, unroll
from xjit.linalg_ext.transforms.loops.unroll_affine import unroll_affine

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
        unrolled = unroll_affine if loop.name == "affine.for" else unroll
        located(op, lambda loop=loop, unrolled=unrolled: unrolled(loop, factor.value) or ())
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


def hoist_subsets(script: Script, op: Operation) -> Handles:
    """Handles of the loops stand for those that have taken their place."""
    for loop in script.payload(op):
        script.replace_payload(hoist_loop_invariant_subsets(loop))
    return []


def fuse_siblings(script: Script, op: Operation) -> Handles:
    """The loop of both."""
    targets, sources = script.payload(op, 0), script.payload(op, 1)
    if len(targets) != 1 or len(sources) != 1:
        raise LinalgError(
            f"'{op.name}' op requires exactly one target and one source, found {len(targets)} and {len(sources)}",
            op.location,
        )
    return [located(op, lambda: (fuse_sibling(targets[0], sources[0]),))]


def promote(script: Script, op: Operation) -> Handles:
    """Loops of one iteration become their bodies."""
    for loop in script.payload(op):
        if loop.name == "scf.for":
            known_trips(loop)
    return []


def one_after_the_other(script: Script, op: Operation) -> Handles:
    """The loops of a `scf.forall`, one handle per loop, or all in one."""
    found: list[list[Operation]] = [[] for _ in op.results]
    for target in script.payload(op):
        loops = located(op, lambda target=target: forall_to_for(target))
        if len(found) not in (1, len(loops)):
            raise LinalgError(f"'{op.name}' op has {len(found)} results, but there are {len(loops)} loops", op.location)
        for number, loop in enumerate(loops):
            found[number if len(found) > 1 else 0].append(loop)
    return found


def in_parallel(script: Script, op: Operation) -> Handles:
    """The `scf.parallel` that targets have become."""
    return [[made for target in script.payload(op) for made in located(op, lambda t=target: (forall_to_parallel(t),))]]


def assumed_branches(script: Script, op: Operation) -> Handles:
    """Branches become one of their sides."""
    take_else = op.attributes.get("take_else_branch") is not None
    for target in script.payload(op):
        located(op, lambda target=target: take_assumed_branch(target, take_else) or ())
    return []


def outline_loops(script: Script, op: Operation) -> Handles:
    """The functions that loops have become, and the calls of them."""
    name = op.attributes.get("func_name")
    if not isinstance(name, StringAttr):
        raise LinalgError(f"'{op.name}' op expects a string as 'func_name', found {name}", op.location)
    made = [located(op, lambda loop=loop, name=name: outline_loop(loop, name.value)) for loop in script.payload(op)]
    return [[function for function, _ in made], [call for _, call in made]]


LOOP_ROWS: tuple[TransformRow, ...] = (
    TransformRow("transform.loop.get_parent_for", get_parent_for),
    TransformRow("transform.loop.unroll", unroll_loop, (0,)),
    TransformRow("transform.loop.peel", peel_loop, (0,)),
    TransformRow("transform.loop.forall_to_parallel", in_parallel, (0,)),
    TransformRow("transform.scf.take_assumed_branch", assumed_branches, (0,)),
    TransformRow("transform.loop.coalesce", coalesce_loops, (0,)),
    TransformRow("transform.apply_licm", licm),
    TransformRow("transform.loop.fuse_sibling", fuse_siblings, (0, 1)),
    TransformRow("transform.loop.hoist_loop_invariant_subsets", hoist_subsets),
    TransformRow("transform.loop.forall_to_for", one_after_the_other, (0,)),
    TransformRow("transform.loop.outline", outline_loops, (0,)),
    TransformRow("transform.loop.promote_if_one_iteration", promote, (0,)),
)
