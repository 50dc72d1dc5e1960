"""`identical`: do two instructions compute the same, apart from names, ids, metadata and control edges?"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from xjit.hlo.attributes.opcodes import Trait
from xjit.hlo.compare.equality import computations_equal
from xjit.hlo.compare.structural_key import content_key

if TYPE_CHECKING:
    from xjit.hlo.ir.computation import HloComputation
    from xjit.hlo.ir.instruction import HloInstruction

EqOperands = Callable[["HloInstruction", "HloInstruction"], bool]
EqComputations = Callable[["HloComputation", "HloComputation"], bool]


def identical(
    a: HloInstruction,
    b: HloInstruction,
    eq_operands: EqOperands | None = None,
    eq_computations: EqComputations | None = None,
    layout_sensitive: bool = True,
) -> bool:
    """Whether opcode, shape, operands, attributes, called computations and annotations agree.

    By default operands must be the same instructions and called computations structurally equal.
    """
    return _identical(a, b, eq_operands or _same, eq_computations, layout_sensitive, ordered=True)


def identical_ignoring_commutative_operand_order(
    a: HloInstruction,
    b: HloInstruction,
    eq_operands: EqOperands | None = None,
    eq_computations: EqComputations | None = None,
    layout_sensitive: bool = True,
) -> bool:
    """As `identical`, but the operands of a commutative opcode may be in either order."""
    return _identical(a, b, eq_operands or _same, eq_computations, layout_sensitive, ordered=False)


def identical_ignoring_channel_id(
    a: HloInstruction, b: HloInstruction, eq_operands: EqOperands | None = None, layout_sensitive: bool = True
) -> bool:
    """As `identical`, but the channels of two collectives may differ, if both have one or none."""
    return _identical(a, b, eq_operands or _same, None, layout_sensitive, ordered=True, channels=False)


def _identical(
    a: HloInstruction,
    b: HloInstruction,
    eq_operands: EqOperands,
    eq_computations: EqComputations | None,
    layout_sensitive: bool,
    ordered: bool,
    channels: bool = True,
) -> bool:
    if a is b:
        return True
    if a.op is not b.op or _content(a, layout_sensitive, channels) != _content(b, layout_sensitive, channels):
        return False
    if not _same_operands(a.operands, b.operands, eq_operands, not ordered and a.op.has(Trait.COMMUTATIVE)):
        return False
    callees = zip(a.called_computations, b.called_computations)
    if len(a.called_computations) != len(b.called_computations):
        return False
    if eq_computations is not None:
        return all(eq_computations(x, y) for x, y in callees)
    return all(x is y or computations_equal(x, y, layouts=layout_sensitive) for x, y in callees)


def _same_operands(
    a: Sequence[HloInstruction], b: Sequence[HloInstruction], equal: EqOperands, commutative: bool
) -> bool:
    if len(a) != len(b):
        return False
    if all(map(equal, a, b)):
        return True
    return commutative and len(a) == 2 and equal(a[0], b[1]) and equal(a[1], b[0])


def _same(a: HloInstruction, b: HloInstruction) -> bool:
    return a is b


def _content(instruction: HloInstruction, layouts: bool, channels: bool) -> tuple[Hashable, ...]:
    key = content_key(instruction, layouts)
    channel = getattr(instruction.attributes, "channel_id", None)
    if channels or channel is None:
        return key
    attributes: Any = instruction.attributes
    return tuple(dataclasses.replace(attributes, channel_id=0) if part is attributes else part for part in key)
