"""The computations of a text by name; a computation may be called before it is defined."""

from __future__ import annotations

from xjit.hlo.diagnostics import did_you_mean
from xjit.hlo.ir.computation import HloComputation
from xjit.text.cursor import Cursor


class ComputationTable:
    """The computations of a text by name; a computation may be called before it is defined."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.in_order: list[HloComputation] = []
        self._defined: dict[str, HloComputation] = {}
        self._awaited: dict[str, tuple[HloComputation, int]] = {}

    def reference(self, name: str, index: int) -> HloComputation:
        """Returns the computation of that name, to be filled later if the text has not defined it yet."""
        computation = self._defined.get(name)
        if computation is None:
            computation = self._awaited.setdefault(name, (HloComputation(name), index))[0]
        return computation

    def define(self, name: str, index: int) -> HloComputation:
        """Returns the computation to fill for a definition in the text."""
        if name in self._defined:
            self.cursor.fail(f"computation '{name}' is defined twice", index)
        awaited = self._awaited.pop(name, None)
        computation = self._defined[name] = awaited[0] if awaited else HloComputation(name)
        return computation

    def finish(self, computation: HloComputation) -> None:
        """Appends a complete computation."""
        self.in_order.append(computation)

    def add_anonymous(self, computation: HloComputation) -> HloComputation:
        """Adds a computation that the text does not name."""
        self.in_order.append(computation)
        return computation

    def check_complete(self) -> None:
        """Raises HloParseError if a called computation is not defined."""
        for name, (_, index) in self._awaited.items():
            hint = did_you_mean(name, self._defined)
            self.cursor.fail(f"computation '{name}' is not defined{hint}", index)
