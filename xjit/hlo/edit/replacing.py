"""Putting one instruction in the place of another: uses, control edges and annotations go over, once and for all."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from xjit.hlo.annotations.metadata import NO_METADATA
from xjit.hlo.diagnostics import InvalidArgument

if TYPE_CHECKING:
    from xjit.hlo.ir.instruction import HloInstruction


def replace(old: HloInstruction, new: HloInstruction, made: Sequence[HloInstruction] = ()) -> list[HloInstruction]:
    """Makes everything that uses `old` use `new`, whatever its shape, and removes `old` and what only it needed.

    `made` are further instructions that were made for `new`. What had to run before `old`, or before what only it
    needed, runs before all of them that do something, what had to run after it, after them. If `new` was there before,
    and something depends on it, it is not made to wait: what used `old` waits instead. A new instruction inherits the
    annotations of `old` that it has none of its own of, and its name if it has its opcode. A parameter, or an `old`
    that `new` reads, stays. Returns what lost a user and stays. InvalidArgument unless both are in one computation.
    """
    computation = old.parent
    if computation is None or new.parent is not computation:
        stray = old if computation is None else new
        raise InvalidArgument(f"{stray.name} is not in computation {computation.name if computation else '(none)'}")
    if old is new:
        return []
    told = computation.parent.on_rewrite if computation.parent is not None else None
    text = str(old) if told is not None else ""
    is_new = new in made or _nothing_depends_on(new)
    if is_new:
        inherit_annotations(new, old, same_value=True)
        made = (*made, new)
    readers = old.users
    if old.control_predecessors or old.control_successors:
        _hand_over_control_edges(old, new, dict.fromkeys(made))
    old.replace_all_uses_with_different_shape(new)
    staying: list[HloInstruction] = []
    if not old.user_count and old.opcode != "parameter":
        awaited: dict[HloInstruction, None] = {}  # by what goes with `old`
        staying = computation.remove_instruction_and_unused_operands(
            old, lambda unused: awaited.update(dict.fromkeys(unused.control_predecessors))
        )
        if predecessors := [i for i in awaited if i.parent is computation]:
            _add_edges(predecessors, _first_of(new, dict.fromkeys(made), readers))
        if is_new and _does_the_same(new, old):
            new.name = old.name
    if told is not None:
        told(text, new)
    return staying


def inherit_annotations(new: HloInstruction, old: HloInstruction, same_value: bool = False) -> None:
    """Gives a new instruction the metadata, place, frontend attributes and sharding of an old one, if it has none.

    The sharding goes over where the shapes agree, and with `same_value` the original value, too.
    """
    if new.metadata is NO_METADATA or new.metadata == NO_METADATA:
        new.metadata = old.metadata
    if new.place is None:
        new.place = old.place
    if old.frontend_attributes and not new.frontend_attributes:
        new.frontend_attributes = dict(old.frontend_attributes)
    if old.sharding is not None and new.sharding is None and new.shape.compatible(old.shape):
        new.sharding = old.sharding
    if same_value and old.origin and not new.origin and new.shape.compatible(old.shape):
        new.origin = old.origin


def _does_the_same(new: HloInstruction, old: HloInstruction) -> bool:
    """Whether both have one opcode, and calls of the library one target."""
    if new.opcode != "custom-call" or old.opcode != "custom-call":
        return new.opcode == old.opcode
    return getattr(new.attributes, "custom_call_target", "") == getattr(old.attributes, "custom_call_target", "")


def _nothing_depends_on(instruction: HloInstruction) -> bool:
    used = instruction.user_count or instruction.control_successors or instruction.is_root()
    return not used and instruction.opcode != "parameter"


def _hand_over_control_edges(old: HloInstruction, new: HloInstruction, made: Collection[HloInstruction]) -> None:
    predecessors, successors = list(old.control_predecessors), list(old.control_successors)
    old.drop_all_control_deps()
    last = [i for i in made if i is new or not any(user in made for user in i.users)]
    _add_edges(predecessors, _first_of(new, made, [*old.users, *successors]))
    _add_edges(last if new in made else [*last, new], successors)


def _first_of(
    new: HloInstruction, made: Collection[HloInstruction], readers: Sequence[HloInstruction]
) -> list[HloInstruction]:
    """Returns what must wait for what `old` waited for: it is the readers if `new` was there before."""
    first = [i for i in made if i is new or (_does_something(i) and not any(o in made for o in i.operands))]
    return first if new in made else [*first, *readers]


def _add_edges(before: Sequence[HloInstruction], after: Sequence[HloInstruction]) -> None:
    for predecessor in before:
        for successor in dict.fromkeys(after):
            if predecessor is not successor:
                predecessor.add_control_dependency_to(successor)


def _does_something(instruction: HloInstruction) -> bool:
    """Whether an instruction is more than a constant or the like: it reads something or has a side effect."""
    return bool(instruction.operand_count) or instruction.has_side_effect()
