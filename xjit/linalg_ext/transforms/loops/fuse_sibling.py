"""fuse_sibling: two loops side by side with the same iterations as one."""

from __future__ import annotations

from xjit.linalg_ext.dialects.registry import has_trait
from xjit.linalg_ext.dialects.scf_parallel import forall_bounds
from xjit.linalg_ext.ir import Builder, DenseArrayAttr, LinalgError, Operation, Value, constant_value
from xjit.linalg_ext.rewrite.effects import is_pure

__all__ = ["fuse_sibling"]


def fuse_sibling(target: Operation, source: Operation) -> Operation:
    """Moves the iterations of `target` into those of `source`, `scf.for` or `scf.forall`; returns the loop of both.

    It stands where the second one stood. LinalgError, with the operation's place, if the loops are of different kinds,
    if one uses results of the other, if iterations are not known to be the same, or for loops that do more than
    computing tensors, where what stands between them cannot make way either; then nothing has changed.
    """
    if target is source or target.name != source.name or target.name not in ("scf.for", "scf.forall"):
        raise LinalgError(f"'{target.name}' op is fused only with another loop of its kind", target.location)
    if target.block is not source.block or target.block is None:
        raise LinalgError("target and source are not in the same block", target.location)
    first, second = (target, source) if target.is_before(source) else (source, target)
    if not (_computes_only(target) and _computes_only(source)):
        raise LinalgError("target and source do more than computing values: their order matters", target.location)
    if _reaches(first, second):
        raise LinalgError(
            "values used inside regions of target should be properly dominated by source", target.location
        )
    if not _same_iterations(target, source):
        raise LinalgError("target and source iteration spaces are not the same", target.location)
    _move_users_behind(first, second)
    joined = _joined_for if target.name == "scf.for" else _joined_forall
    return joined(target, source, second)


def _computes_only(loop: Operation) -> bool:
    """Whether nothing in a loop reads or writes memory; tiles may be put into its results."""
    tiles = ("scf.forall.in_parallel", "tensor.parallel_insert_slice")
    return all(has_trait(op, "recursive") or op.name in tiles or is_pure(op) for op in loop.walk())


def _same_iterations(left: Operation, right: Operation) -> bool:
    if left.name == "scf.forall":
        pairs = [(a, b) for x, y in zip(forall_bounds(left), forall_bounds(right)) for a, b in zip(x, y)]
        same = len(forall_bounds(left)[0]) == len(forall_bounds(right)[0])
        return same and left.attributes.get("mapping") == right.attributes.get("mapping") and all(map(_same, pairs))
    return all(map(_same, zip(left.operands[:3], right.operands[:3])))


def _same(pair: tuple[Value | int, Value | int]) -> bool:
    left, right = (constant_value(v) if isinstance(v, Value) and constant_value(v) is not None else v for v in pair)
    return left is right or (isinstance(left, int) and left == right)


def _users_between(first: Operation, second: Operation) -> list[Operation]:
    """Returns the operations between two others that need results of the first one, themselves or through others."""
    assert first.block is not None
    needed, found = set(first.results), list[Operation]()
    for op in first.block.operations:
        if (
            first.is_before(op)
            and op.is_before(second)
            and any(v in needed for each in op.walk() for v in each.operands)
        ):
            found.append(op)
            needed.update(op.results)
    return found


def _reaches(first: Operation, second: Operation) -> bool:
    """Whether the second loop needs the first one."""
    needed: set[Value] = {*first.results, *(r for op in _users_between(first, second) for r in op.results)}
    return any(v in needed for each in second.walk() for v in each.operands)


def _move_users_behind(first: Operation, second: Operation) -> None:
    users = _users_between(first, second)
    if not all(map(is_pure, users)):
        raise LinalgError("operations between target and source cannot be moved", first.location)
    assert second.block is not None
    following = second.block.next_of(second)
    for op in users:
        if following is not None:
            op.move_before(following)


def _joined_for(target: Operation, source: Operation, anchor: Operation) -> Operation:
    """The carried values of the source come first."""
    body, other = source.body, target.body
    arguments = [body.add_argument(t) for t in target.result_types]
    for old, new in zip(other.arguments, (body.arguments[0], *arguments)):
        old.replace_all_uses_with(new)
    end, other_end = body.terminator, other.terminator
    for op in other.operations[:-1]:
        op.move_before(end)
    end.set_operands([*end.operands, *other_end.operands])
    return _replaced(target, source, [*source.operands, *target.operands[3:]], anchor)


def _joined_forall(target: Operation, source: Operation, anchor: Operation) -> Operation:
    body, other = source.body, target.body
    rank = len(body.arguments) - len(source.results)
    arguments = [body.add_argument(t) for t in target.result_types]
    for old, new in zip(other.arguments, (*body.arguments[:rank], *arguments)):
        old.replace_all_uses_with(new)
    end, other_end = body.terminator, other.terminator
    for op in other.operations[:-1]:
        op.move_before(end)
    inside = Builder.at_end(end.body)
    for op in list(other_end.body.operations):
        op.remove()
        inside.insert(op)
    count = len(target.results)
    segments = source.attributes["operandSegmentSizes"]
    assert isinstance(segments, DenseArrayAttr)
    source.attributes["operandSegmentSizes"] = DenseArrayAttr.i32((*segments.ints[:3], segments.ints[3] + count))
    return _replaced(target, source, [*source.operands, *target.operands[len(target.operands) - count :]], anchor)


def _replaced(target: Operation, source: Operation, operands: list[Value], anchor: Operation) -> Operation:
    """Makes the loop with the results of both, of the source's region."""
    [region] = source.regions
    source.regions.clear()
    region.op = None
    types = [*source.result_types, *target.result_types]
    new = Operation(source.name, operands, types, source.attributes, [region], source.location)
    Builder.before(anchor).insert(new)
    count = len(source.results)
    source.replace_all_uses_with(new.results[:count])
    target.replace_all_uses_with(new.results[count:])
    source.erase()
    target.erase()
    return new
