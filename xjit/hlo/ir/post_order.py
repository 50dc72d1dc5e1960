"""Post order of any graph: every node behind all that it needs. Without recursion, and always the same order."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from xjit.hlo.diagnostics import InvalidArgument

if TYPE_CHECKING:
    from xjit.hlo.ir.computation import HloComputation
    from xjit.hlo.ir.instruction import HloInstruction

Node = TypeVar("Node", bound=Hashable)


def post_order(
    starts: Iterable[Node], needs: Callable[[Node], Sequence[Node]], on_cycle: Callable[[Node], None] | None = None
) -> list[Node]:
    """Returns `starts` and all that they need, directly or not, each once and behind what it needs.

    A need that leads back to a node on the way is a cycle: `on_cycle` gets that node, and raises; without it such a
    need is passed over.
    """
    order: list[Node] = []
    done: set[Node] = set()
    for start in starts:
        if start not in done:
            extend_post_order(order, done, start, needs, on_cycle)
    return order


def extend_post_order(
    order: list[Node],
    done: set[Node],
    start: Node,
    needs: Callable[[Node], Sequence[Node]],
    on_cycle: Callable[[Node], None] | None = None,
) -> None:
    """Appends `start`, behind what it needs, to an order; what is `done` is left out. See `post_order`."""
    active: set[Node] = set()  # what is on the way: its needs are above it on the stack
    stack = [start]
    while stack:
        node = stack[-1]
        if node in done:
            stack.pop()
            continue
        if node not in active:
            missing = [needed for needed in reversed(needs(node)) if needed not in done]
            if missing:
                active.add(node)
                for needed in missing:
                    if needed not in active:
                        stack.append(needed)
                    elif on_cycle is not None:
                        on_cycle(needed)
                continue
        stack.pop()
        done.add(node)
        order.append(node)


def needs_of(instruction: HloInstruction) -> Sequence[HloInstruction]:
    """Returns what must run before an instruction: its operands and control predecessors."""
    before = instruction.control_predecessors
    return (*instruction._operands, *before) if before else instruction._operands


def instruction_post_order(computation: HloComputation) -> list[HloInstruction]:
    """Returns all instructions of a computation, operands and control predecessors first.

    InvalidArgument if there is a cycle, or if an instruction reads one of another computation.
    """
    listed = computation.instructions
    done: set[HloInstruction] = set()
    first = _first_out_of_order(listed, done)
    order = list(listed[:first])
    for start in listed[first:]:
        if start in done:
            continue
        before = start.control_predecessors
        if done.issuperset(start._operands) and not (before and not done.issuperset(before)):
            done.add(start)
            order.append(start)
        else:
            extend_post_order(order, done, start, needs_of, _refuse_cycle)
    if len(order) != computation.instruction_count:
        raise InvalidArgument(f"computation {computation.name} reads an instruction of another computation")
    return order


def _first_out_of_order(listed: Sequence[HloInstruction], done: set[HloInstruction]) -> int:
    """Returns the position of the first instruction that needs one behind it; those before it are done.

    Most computations are listed in post order already: then that is the end.
    """
    for i, instruction in enumerate(listed):
        before = instruction.control_predecessors
        if not done.issuperset(instruction._operands) or (before and not done.issuperset(before)):
            return i
        done.add(instruction)
    return len(listed)


def reading_order(computation: HloComputation) -> list[HloInstruction]:
    """Returns all instructions in the order in which XLA prints them: each is near to the first that reads it.

    It is the post order from the instructions that nothing uses, control predecessors before operands. InvalidArgument
    as in `instruction_post_order`.
    """
    ends = computation.unread_instructions()
    order = post_order(ends, _needs_in_reading_order, _refuse_cycle)
    return order if len(order) == computation.instruction_count else instruction_post_order(computation)


def _needs_in_reading_order(instruction: HloInstruction) -> Sequence[HloInstruction]:
    before = instruction.control_predecessors
    return (*reversed(before), *instruction._operands) if before else instruction._operands


def _refuse_cycle(instruction: HloInstruction) -> None:
    raise InvalidArgument(f"the graph has a cycle through {instruction.name}")
