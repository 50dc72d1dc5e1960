"""The computations that an instruction calls, by the role they play: condition, body, branches, reducer, ..."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xjit.hlo.ir.use_def import set_called_computation

if TYPE_CHECKING:
    from xjit.hlo.ir.computation import HloComputation
    from xjit.hlo.ir.instruction import HloInstruction


class CalledComputations:
    """What HloInstruction says of its called computations; `_called` lists them in the order of `op.called`."""

    __slots__ = ()

    if TYPE_CHECKING:
        name: str
        _called: list[HloComputation]
        _operands: list[HloInstruction]

    @property
    def called_computations(self) -> tuple[HloComputation, ...]:
        """The computations this instruction calls, in the order of `op.called`."""
        return tuple(self._called)

    @property
    def to_apply(self) -> HloComputation:
        """The computation that a reduce, map, call, ... applies."""
        return self._called[0]

    @to_apply.setter
    def to_apply(self, computation: HloComputation) -> None:
        self._replace(0, computation)

    @property
    def while_condition(self) -> HloComputation:
        """The condition of a while."""
        return self._called[0]

    @while_condition.setter
    def while_condition(self, computation: HloComputation) -> None:
        self._replace(0, computation)

    @property
    def while_body(self) -> HloComputation:
        """The body of a while."""
        return self._called[1]

    @while_body.setter
    def while_body(self, computation: HloComputation) -> None:
        self._replace(1, computation)

    @property
    def while_init(self) -> HloInstruction:
        """The value that a while starts with."""
        return self._operands[0]

    @property
    def branch_computations(self) -> tuple[HloComputation, ...]:
        """The branches of a conditional (true, false for a predicate)."""
        return tuple(self._called)

    @property
    def fused_instructions_computation(self) -> HloComputation:
        """The computation inside a fusion."""
        return self._called[0]

    @property
    def fused_expression_root(self) -> HloInstruction:
        """The root inside a fusion."""
        return self._called[0].root_instruction

    @property
    def fused_parameters(self) -> tuple[HloInstruction, ...]:
        """The parameters inside a fusion, by number."""
        return self._called[0].parameter_instructions

    def set_branch_computation(self, i: int, computation: HloComputation) -> None:
        """Replaces branch `i` of a conditional."""
        self._replace(i, computation)

    def _replace(self, i: int, computation: HloComputation) -> None:
        set_called_computation(cast("HloInstruction", self), i, computation)
