"""Sums of a softmax that programs keep are theirs in rows with infinite maxima, where those of kernels are others.

Kernels subtract 0 for -inf, and inf as it is, whatever a program has in their place: there, a row's sum is its largest
exponential, or several of these, all NaN, 0 or infinite.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xjit.affine import dim
from xjit.hlo import HloComputation, HloInstruction, PrimitiveType
from xjit.hlo import attributes as at
from xjit.ops import build
from xjit.passes.analysis.attention.digits import digits_of
from xjit.passes.analysis.attention.places import MOVES, Place, Space
from xjit.passes.analysis.attention.softmax import Softmax, difference_of
from xjit.passes.analysis.attention.weights import softmax_of
from xjit.passes.fusion.aligned_rows import aligned

_PASSED = MOVES | {"convert"}


def state_sums(computation: HloComputation, softmax: Softmax, inside: Collection[HloInstruction]) -> None:
    """Has what reads a softmax's sums, but for divisions, read what they are where maxima are infinite.

    What is `inside` of a kernel stays, and so do sums that are those of kernels.
    """
    exponential, total = softmax.exponential.instruction, softmax.total.instruction
    if (
        total.opcode != "reduce"
        or total.operand(0) is not exponential
        or difference_of(exponential).opcode != "subtract"
    ):
        return
    if softmax.maximum.instruction.shape.element_type is not PrimitiveType.F32:
        return  # no result of kernels
    readers = _further_readers(total, inside)
    (column,) = total.attributes_as(at.DimensionsAttributes).dimensions
    stated = _where_finite(computation, exponential, column, total) if readers else None
    if stated is not None:
        _replace_in(computation, readers, total, stated)


def _further_readers(total: HloInstruction, inside: Collection[HloInstruction]) -> list[tuple[HloInstruction, int]]:
    """Returns the operands outside that are sums or their squares, moved or not, but for divisors."""
    found: list[tuple[HloInstruction, int]] = []
    stack = [total]
    while stack:
        value = stack.pop()
        for user in value.users:
            if user.opcode in MOVES or (user.opcode == "multiply" and user.operand(0) is user.operand(1)):
                stack.append(user)
            elif user not in inside:
                numbers = [n for n, operand in enumerate(user.operands) if operand is value]
                found += [(user, n) for n in numbers if user.opcode != "divide" or n == 0]
    return found


def _where_finite(
    computation: HloComputation, exponential: HloInstruction, column: int, total: HloInstruction
) -> HloInstruction | None:
    """Returns the sums of rows with finite maxima, and of others the largest exponential.

    None if kernels have the same anyway, or what is subtracted is no array of rows.
    """
    space = Space(exponential.shape.dimensions)
    place = space.identity(exponential)
    softmax = softmax_of(space, place, dim(column))
    shift = space.operand(Place(difference_of(exponential), place.index), 1)
    if softmax is None or shift is None or _is_of_kernels(space, shift):
        return None
    of_rows = [space.behind(p, MOVES) for p in (softmax.maximum, shift)]
    if any(digits_of(p, space.sizes) is None or any(e.uses_dim(column) for e in p.index) for p in of_rows):
        return None
    wanted = {d: size for d, size in enumerate(space.sizes) if d != column}
    largest, subtracted = (aligned(computation, p, space.sizes, wanted) for p in of_rows)
    is_finite = computation.add_instruction(build.unary("is-finite", largest))
    exponent = computation.add_instruction(build.binary("subtract", largest, subtracted))
    if softmax.factor != 1.0:
        factor = computation.add_instruction(build.make_constant(softmax.factor, PrimitiveType.F32))
        factors = computation.add_instruction(build.broadcast(factor, exponent.shape, ()))
        exponent = computation.add_instruction(build.binary("multiply", exponent, factors))
    value = computation.add_instruction(build.unary("exponential", exponent))
    return computation.add_instruction(build.select(is_finite, total, value))


def _is_of_kernels(space: Space, shift: Place) -> bool:
    """Whether what is subtracted is a maximum with 0 for -inf alone."""
    guard = space.behind(shift, _PASSED)
    test = space.operand(guard, 0) if guard.opcode == "select" else None
    return test is not None and space.behind(test, MOVES).opcode == "compare"


def _replace_in(
    computation: HloComputation,
    readers: Sequence[tuple[HloInstruction, int]],
    total: HloInstruction,
    stated: HloInstruction,
) -> None:
    """Gives operands that are made of the sums what is made of others likewise."""
    made = {total: stated}
    for user, number in readers:
        moves: list[HloInstruction] = []
        value = user.operand(number)
        while value not in made:
            moves.append(value)
            value = value.operand(0)
        for move in reversed(moves):
            operands = [made[operand] for operand in move.operands]
            made[move] = computation.add_instruction(move.clone_with_new_operands(move.shape, operands))
        user.replace_operand_with(number, made[user.operand(number)])
