"""The state of a script that is executed: which operations of the program its handles stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation, Value

__all__ = ["Handles", "Script", "TransformRow"]

Handles: TypeAlias = Sequence[Sequence[Operation]]
"""For each result of a script's operation, the operations that it stands for."""


@dataclass
class Script:
    """`root` is the program; `run` executes a block of the script, with the handles of its arguments."""

    root: Operation
    run: Callable[[Script, Operation, Handles], Handles]
    handles: dict[Value, list[Operation]] = field(default_factory=dict)
    consumed: dict[Value, Operation] = field(default_factory=dict)

    def payload(self, op: Operation, index: int = 0) -> list[Operation]:
        """Returns the operations that operand `index` of a script's operation stands for.

        LinalgError if an operation before has consumed the handle.
        """
        handle = op.operands[index]
        consumer = self.consumed.get(handle)
        if consumer is not None:
            place = f" (line {consumer.location.line})" if consumer.location else ""
            raise LinalgError(f"'{op.name}' op uses a handle that '{consumer.name}'{place} has consumed", op.location)
        return [each for each in self.handles.get(handle, []) if self.root.is_ancestor_of(each)]

    def consume(self, op: Operation, index: int = 0) -> None:
        """Makes a handle unusable: what it stood for is about to be replaced."""
        self.consumed[op.operands[index]] = op

    def bind(self, values: Sequence[Value], handles: Handles) -> None:
        """Gives handles their operations."""
        for value, operations in zip(values, handles):
            self.handles[value] = list(operations)


@dataclass(frozen=True)
class TransformRow:
    """What an operation of scripts does: `apply` returns the handles of its results. `consumes` lists operands."""

    name: str
    apply: Callable[[Script, Operation], Handles]
    consumes: tuple[int, ...] = ()
