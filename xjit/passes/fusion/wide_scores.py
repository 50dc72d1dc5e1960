"""Scores of bf16 in a fusion are computed in f32: what is in registers anyway need not be rounded step by step.

From the products that scores are made from to the product that reads them, each elementwise step of bf16 has the same
in f32: one rounding less for each. What is read for its bits or compared is rounded as it was, and so are sums with
what is no step: where a mask of a large number was added, few numbers are left, and rows that it masks wholly are even.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from xjit.hlo import HloComputation, HloInstruction, PrimitiveType
from xjit.hlo import attributes as at
from xjit.hlo.edit.replacing import replace
from xjit.ops import build
from xjit.passes.analysis.attention.places import MOVES

NARROW = PrimitiveType.BF16
"""Its numbers have the range of f32's: none is infinite there that was finite here."""
_STEPS = MOVES | {
    "abs", "add", "clamp", "convert", "cosine", "divide", "dot", "erf", "exponential", "log", "logistic", "maximum",
    "minimum", "multiply", "negate", "power", "rsqrt", "select", "sine", "sqrt", "subtract", "tanh",
}  # fmt: skip
"""What may be computed in f32 instead."""


def widen_scores(fused: HloComputation) -> None:
    """Computes what the products of a fusion take of its other products in f32."""
    order = fused.make_instruction_post_order()
    from_dots = _reached({i for i in order if i.opcode == "dot"}, order, lambda i: i.operands)
    outer = {i for i in order if i.opcode == "dot" and not from_dots.isdisjoint(i.operands)}
    above = _reached(outer, order[::-1], lambda i: i.users) - outer
    varying = _reached(from_dots | {i for i in order if _rounds(i)}, order, lambda i: i.operands)
    steps = [i for i in order if i in above and i in varying and _is_step(i)]
    if steps:
        _Widener(fused, steps).run(outer)


def keep_rows_wide(computation: HloComputation, rows: Collection[HloInstruction]) -> bool:
    """Has what is computed of numbers of rows, which are f32, as many and moved to scores, in f32; True if any was not.

    So kernels that compute scores in f32 have them as they are.
    """
    stack, steps = [i for i in rows if _is_f32(i)], set[HloInstruction]()
    size = max((i.shape.num_elements for i in stack), default=0)
    while stack:
        for user in stack.pop().users:
            if user not in steps and _is_of_rows(user, size) and not _is_last(user, size):
                steps.add(user)
                stack.append(user)
    if not any(map(_is_step, steps)):
        return False
    order = [i for i in computation.make_instruction_post_order() if i in steps]
    moved = _reached({i for i in order if i.shape.num_elements > size}, order[::-1], lambda i: i.users)
    narrow = [i for i in order if i in moved and _is_step(i)]
    if narrow:
        _Widener(computation, narrow).run(())
    return bool(narrow)


def _is_of_rows(instruction: HloInstruction, size: int) -> bool:
    """Whether something moves numbers of rows, or computes as many."""
    if instruction.opcode in MOVES:
        return True
    return instruction.opcode in _STEPS and instruction.shape.num_elements <= size


def _is_last(instruction: HloInstruction, size: int) -> bool:
    """Whether an instruction rounds numbers of rows, and only scores, or what is no step, read these."""
    return _rounds(instruction) and not any(
        _is_of_rows(u, size) and (_is_step(u) or (u.opcode == "convert" and _is_f32(u))) for u in instruction.users
    )


def _rounds(instruction: HloInstruction) -> bool:
    """Whether an instruction is a conversion from f32."""
    return instruction.opcode == "convert" and _is_step(instruction) and _is_f32(instruction.operand(0))


def _is_f32(instruction: HloInstruction) -> bool:
    return instruction.shape.element_type is PrimitiveType.F32


def _is_step(instruction: HloInstruction) -> bool:
    return instruction.opcode in _STEPS and instruction.shape.is_array and instruction.shape.element_type is NARROW


def _reached(
    sources: Collection[HloInstruction],
    order: Iterable[HloInstruction],
    behind: Callable[[HloInstruction], Collection[HloInstruction]],
) -> set[HloInstruction]:
    """Returns the sources and all of an order that, directly or not, have one `behind` them."""
    found = set(sources)
    for instruction in order:
        if not found.isdisjoint(behind(instruction)):
            found.add(instruction)
    return found


class _Widener:
    """Puts steps of f32 in the places of narrow ones, operands first."""

    def __init__(self, fused: HloComputation, steps: Collection[HloInstruction]) -> None:
        self.fused = fused
        self.steps = dict.fromkeys(steps)
        self.wide: dict[HloInstruction, HloInstruction] = {}

    def run(self, outer: Collection[HloInstruction]) -> None:
        """Replaces all steps; `outer` dots read them in f32, what reads them otherwise has them rounded."""
        for step in self.steps:
            self.wide[step] = self._widened(step)
        for dot in outer:
            if any(operand in self.wide for operand in dot.operands):
                operands = [self._in_f32(operand) for operand in dot.operands]
                replace(dot, self._add(dot.clone_with_new_operands(dot.shape, operands)))
        for step in reversed(self.steps):
            self._replace(step)

    def _add(self, instruction: HloInstruction) -> HloInstruction:
        return self.fused.add_instruction(instruction)

    def _widened(self, step: HloInstruction) -> HloInstruction:
        if step.opcode == "convert":
            return self._in_f32(step.operand(0))
        shape = step.shape.with_element_type(PrimitiveType.F32)
        operands = step.operands if step.opcode == "dot" else [self._in_f32(operand) for operand in step.operands]
        wide = self._add(step.clone_with_new_operands(shape, operands))
        if step.opcode in ("add", "subtract") and not all(operand in self.steps for operand in step.operands):
            return self._add(build.convert(self._add(build.convert(wide, NARROW)), PrimitiveType.F32))
        return wide

    def _in_f32(self, value: HloInstruction) -> HloInstruction:
        """Returns a value in f32, if it is of floats: moved after it is converted, as the value itself is read."""
        if value in self.wide:
            return self.wide[value]
        kind = value.shape.element_type
        return value if not kind.is_float or kind is PrimitiveType.F32 else self._convert(value)

    def _convert(self, value: HloInstruction) -> HloInstruction:
        if value.opcode == "broadcast" and value.operand(0).opcode == "constant":
            number = float(value.operand(0).attributes_as(at.ConstantAttributes).literal.array.astype("float32")[()])
            constant = self._add(build.make_constant(number, PrimitiveType.F32))
            self.wide[value] = self._add(
                build.broadcast(constant, value.shape.with_element_type(PrimitiveType.F32), ())
            )
        else:
            self.wide[value] = self._add(build.convert(value, PrimitiveType.F32))
        return self.wide[value]

    def _replace(self, step: HloInstruction) -> None:
        """Has what is not of steps read a wide step, rounded unless it converts it to f32."""
        wide = self.wide[step]
        for user in step.users:
            if user.opcode == "convert" and user.shape.element_type is PrimitiveType.F32:
                replace(user, wide)
        if step.parent is not None:
            replace(step, self._add(build.convert(wide, NARROW)) if step.user_count else wide)
