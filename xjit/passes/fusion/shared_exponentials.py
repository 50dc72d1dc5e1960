"""Two exponentials of the same scores become one: those of a softmax and those of its logarithm's sum beside it.

What replaces infinite maxima by 0 in one of them makes them differ in rows of -inf alone, where exponentials are NaN,
or all 0: but quotients by their own sums, and the gradients of these, are NaN either way.
"""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import dim
from xjit.hlo import HloInstruction
from xjit.hlo.edit.replacing import replace
from xjit.passes.analysis.attention.places import MOVES, Place, Space
from xjit.passes.analysis.attention.softmax import Softmax
from xjit.passes.analysis.attention.weights import softmax_of

_PASSED = MOVES | {"convert"}


def share_exponentials(exponentials: Sequence[HloInstruction]) -> bool:
    """Makes one of exponentials of the same scores, with rows along their last dimension; True if there were two."""
    known: dict[tuple[Place, Place], list[tuple[HloInstruction, Softmax]]] = {}
    for exponential in exponentials:
        space = Space(exponential.shape.dimensions)
        column = exponential.shape.rank - 1
        if column < 1:
            continue
        found = softmax_of(space, space.identity(exponential), dim(column))
        if found is not None:
            key = space.behind(found.logits, _PASSED), found.maximum
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
    readers = [user for user in exponential.users if user is not total]
    if not any(user.opcode == "divide" and user.operand(0) is exponential for user in readers):
        return False
    if any(user.opcode not in ("divide", "multiply") for user in readers):
        return False
    stack, seen = [total], {total}
    while stack:
        instruction = stack.pop()
        if instruction.is_root():
            return False
        for user in instruction.users:
            if user.opcode in MOVES or (user.opcode == "multiply" and user.operand(0) is user.operand(1)):
                stack += [user] if user not in seen else []
                seen.add(user)
            elif user.opcode != "divide" or user.operand(0) is instruction or user.operand(1) is not instruction:
                return False
    return True
