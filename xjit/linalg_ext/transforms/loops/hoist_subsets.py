"""hoist_loop_invariant_subsets: a slice that iterations take out of a carried tensor and put back is carried itself."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.linalg_ext.ir import Block, Builder, Operation, Region, Value
from xjit.linalg_ext.ir.types import IndexType
from xjit.linalg_ext.transforms.building_blocks.slices import slice_lists

__all__ = ["hoist_loop_invariant_subsets"]

_EXTRACT, _INSERT = "tensor.extract_slice", "tensor.insert_slice"


def hoist_loop_invariant_subsets(loop: Operation) -> dict[Operation, Operation]:
    """Hoists the slices of an `scf.for`, and of those inside, from the innermost loop on: the slice is taken once, in
    front of the loop, carried through it, and put back behind it. Returns the loops that others have replaced.
    """
    replaced: dict[Operation, Operation] = {}
    for inner in reversed([op for op in loop.walk() if op.name == "scf.for"]):
        current: Operation | None = inner
        while current is not None:
            current = _hoist_one(current)
            if current is not None:
                replaced[inner] = current
    return replaced


def _hoist_one(loop: Operation) -> Operation | None:
    """Hoists one slice; returns the loop that there is then, None if there was nothing to hoist."""
    for number in range(len(loop.results)):
        chain = _chain(loop, number)
        found = None if chain is None else _matching(loop, chain)
        if found is not None:
            return _hoisted(loop, number, *found)
    return None


def _chain(loop: Operation, number: int) -> list[Operation] | None:
    """Returns the slices taken out of a carried tensor and put into it, in order; None if it is used otherwise."""
    found: list[Operation] = []
    value: Value = loop.body.arguments[1 + number]
    yielded = loop.body.terminator
    while True:
        following: list[tuple[Operation, Value]] = []
        for use in value.uses:
            user = use.owner
            if user is yielded and use.index == number:
                continue
            after = _after(loop, user, use.index)
            if after is not None:
                following.append((user, after))
            elif user.name == _EXTRACT and user.block is loop.body:
                found.append(user)
            else:
                return None
        if len(following) + (yielded.operands[number] is value) != 1:
            return None
        if not following:
            return found
        [(user, value)] = following
        if user.name == _INSERT:
            found.append(user)


def _after(loop: Operation, user: Operation, operand: int) -> Value | None:
    """Returns what a carried tensor is behind a user: with a slice put in, or passed through a loop as it is."""
    if user.block is not loop.body:
        return None
    if user.name == _INSERT and operand == 1:
        return user.result
    if user.name != "scf.for" or operand < 3:
        return None
    argument, passed_on = user.body.arguments[operand - 2], user.body.terminator.operands[operand - 3]
    return user.results[operand - 3] if passed_on is argument and len(argument.uses) == 1 else None


def _matching(loop: Operation, chain: Sequence[Operation]) -> tuple[Operation, Operation] | None:
    """Returns an extraction and the insertion at the same place; all other slices lie elsewhere."""
    for place, insertion in enumerate(chain):
        if insertion.name != _INSERT or not _is_invariant(loop, insertion):
            continue
        before = [op for op in chain[:place] if op.name == _EXTRACT and _same_slice(op, insertion)]
        others = [op for op in chain if op is not insertion and op not in before]
        if len(before) != 1 or before[0].result.type != insertion.operands[0].type:
            continue
        if all(_disjoint(op, insertion) for op in others):
            return before[0], insertion
    return None


def _leading(op: Operation) -> int:
    return 1 if op.name == _EXTRACT else 2


def _same_slice(left: Operation, right: Operation) -> bool:
    pairs = zip(slice_lists(left, _leading(left)), slice_lists(right, _leading(right)))
    return all(a is b or (isinstance(a, int) and a == b) for x, y in pairs for a, b in zip(x, y))


def _is_invariant(loop: Operation, insertion: Operation) -> bool:
    """Whether the place of a slice is known in front of the loop."""
    for value in insertion.operands[2:]:
        block = value.parent_block
        around = None if block is None else block.parent_op
        if around is None or loop.is_ancestor_of(around):
            return False
    return True


def _disjoint(left: Operation, right: Operation) -> bool:
    """Whether two slices have no element in common, as far as numbers tell."""
    first, second = slice_lists(left, _leading(left)), slice_lists(right, _leading(right))
    for o, n, s, p, m, t in zip(*first, *second):
        if not all(isinstance(i, int) for i in (o, n, s, p, m, t)):
            continue
        if o + (n - 1) * s < p or p + (m - 1) * t < o:  # type: ignore[operator]
            return True
    return False


def _hoisted(loop: Operation, number: int, extraction: Operation, insertion: Operation) -> Operation:
    """Moves a pair out; returns the loop that carries the slice."""
    outer = Builder.before(loop)
    first = outer.clone(extraction, {extraction.operands[0]: loop.operands[3 + number]}).result
    old, body = loop.body, Block([IndexType(), *(t for t in loop.result_types), first.type])
    for argument, new in zip(old.arguments, body.arguments):
        argument.replace_all_uses_with(new)
    extraction.replace_all_uses_with([body.arguments[-1]])
    source = insertion.operands[0]
    insertion.replace_all_uses_with([insertion.operands[1]])
    for op in old.operations:
        op.remove()
        body.append(op)
    terminator = body.terminator
    terminator.set_operands([*terminator.operands, source])
    types = [*loop.result_types, first.type]
    new_loop = Operation(loop.name, [*loop.operands, first], types, loop.attributes, [Region([body])], loop.location)
    outer.insert(new_loop)
    *carried, last = new_loop.results
    back = insertion.clone({insertion.operands[0]: last, insertion.operands[1]: carried[number]})
    for position, (result, value) in enumerate(zip(loop.results, carried)):
        result.replace_all_uses_with(back.result if position == number else value)
    Builder.after(new_loop).insert(back)
    insertion.erase()
    extraction.erase()
    loop.erase()
    return new_loop
