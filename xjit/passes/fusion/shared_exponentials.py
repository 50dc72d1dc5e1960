"""Two exponentials of the same scores become one: those of a softmax and those of its logarithm's sum beside it.

What replaces infinite maxima by 0 in one of them makes them differ in rows of -inf alone, where exponentials are NaN,
or all 0: but quotients by their own sums, and the gradients of these, are NaN either way.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xjit.affine import dim
from xjit.hlo import HloInstruction
from xjit.hlo.edit.replacing import replace
from xjit.passes.analysis.attention.places import MOVES, Place, Space
from xjit.passes.analysis.attention.softmax import Softmax
from xjit.passes.analysis.attention.weights import softmax_of

_PASSED = MOVES | {"convert"}
_KEEPING = _PASSED | {"add", "multiply", "negate", "reduce", "subtract"}
"""Opcodes of which results are not finite where an operand is not."""
MAX_STEPS = 64
"""Instructions that are looked at for a quotient."""


def share_exponentials(exponentials: Sequence[HloInstruction]) -> bool:
    """Makes one of exponentials of the same scores, with rows along their last dimension; True if there were two."""
    known: dict[tuple[Place, Place, float], list[tuple[HloInstruction, Softmax]]] = {}
    for exponential in exponentials:
        space = Space(exponential.shape.dimensions)
        column = exponential.shape.rank - 1
        if column < 1:
            continue
        found = softmax_of(space, space.identity(exponential), dim(column))
        if found is not None:
            key = space.behind(found.logits, _PASSED), found.maximum, found.factor
            known.setdefault(key, []).append((exponential, found))
    changed = False
    for same in known.values():
        for exponential, softmax in same[:-1]:
            other, kept = same[-1]
            if _is_only_divided(exponential, softmax.total.instruction):
                changed |= _share(exponential, softmax, other, kept)
            elif len(same) == 2 and _is_only_divided(other, kept.total.instruction):
                changed |= _share(other, kept, exponential, softmax)
    return changed


def _share(old: HloInstruction, softmax: Softmax, new: HloInstruction, kept: Softmax) -> bool:
    """Uses one array and its sums for another; False if the sums lie otherwise."""
    if softmax.total.instruction.shape != kept.total.instruction.shape or old.shape != new.shape:
        return False
    replace(softmax.total.instruction, kept.total.instruction)
    replace(old, new)
    return True


def _is_only_divided(exponential: HloInstruction, total: HloInstruction) -> bool:
    """Whether exponentials are summed and divided by that sum, and what else is done to either is part of the gradient:
    exponentials times what is divided by the sum, or by its square.
    """
    divisors = _divisors(total)
    readers = [user for user in exponential.users if user is not total]
    if divisors is None or not any(user.opcode == "divide" for user in readers):
        return False
    for user in readers:
        others = [operand for operand in user.operands if operand is not exponential]
        is_quotient = user.opcode == "divide" and user.operand(0) is exponential and user.operand(1) in divisors
        is_product = user.opcode == "multiply" and len(others) == 1 and _is_quotient(others[0], divisors)
        if not (is_quotient or is_product):
            return False
    return True


def _divisors(total: HloInstruction) -> set[HloInstruction] | None:
    """Returns what sums, and their squares, are moved to; None if something does not divide by these."""
    stack, seen = [total], {total}
    while stack:
        instruction = stack.pop()
        if instruction.is_root():
            return None
        for user in instruction.users:
            if user.opcode in MOVES or (user.opcode == "multiply" and user.operand(0) is user.operand(1)):
                stack += [user] if user not in seen else []
                seen.add(user)
            elif user.opcode != "divide" or user.operand(0) is instruction or user.operand(1) is not instruction:
                return None
    return seen


def _is_quotient(value: HloInstruction, divisors: Collection[HloInstruction]) -> bool:
    """Whether something is computed from a quotient by any of the divisors, and so is not finite where that is not."""
    stack, seen = [value], {value}
    while stack and len(seen) < MAX_STEPS:
        instruction = stack.pop()
        if instruction.opcode == "divide" and instruction.operand(1) in divisors:
            return True
        if instruction.opcode in _KEEPING:
            new = [operand for operand in instruction.operands if operand not in seen]
            seen.update(new)
            stack += new
    return False
