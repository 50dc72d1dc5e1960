"""The state of a script that is executed: what its handles stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from xjit.linalg_ext.ir.attributes import Attribute
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation, Value

__all__ = ["Handles", "Payload", "Script", "TransformRow", "payload_of", "script_operations"]

Payload: TypeAlias = Operation | Value | Attribute
"""What a handle may stand for: operations and values of the program, and parameters, which are attributes."""

Handles: TypeAlias = Sequence[Sequence[Payload]]
"""For each result of a script's operation, what it stands for."""


def payload_of(op: Operation, found: Iterable[Payload]) -> list[Operation]:
    """Returns what a handle stands for as operations; LinalgError, at the place of `op`, if it stands for others."""
    operations: list[Operation] = []
    for each in found:
        if not isinstance(each, Operation):
            raise LinalgError(f"'{op.name}' op expects a handle of operations", op.location)
        operations.append(each)
    return operations


@dataclass
class Script:
    """`root` is the program; `run` executes region `number` of an operation, with the handles of its arguments.

    `running`: the named sequences that are being executed, the innermost last.
    """

    root: Operation
    run: Callable[[Script, Operation, Handles, int], Handles]
    handles: dict[Value, list[Payload]] = field(default_factory=dict)
    consumed: dict[Value, Operation] = field(default_factory=dict)
    running: list[Operation] = field(default_factory=list)

    def lookup(self, op: Operation, index: int = 0) -> list[Payload]:
        """Returns what operand `index` of a script's operation stands for, of the program that there is now.

        LinalgError if there is no such operand, or an operation before has consumed the handle.
        """
        if index >= len(op.operands):
            raise LinalgError(
                f"'{op.name}' op has {len(op.operands)} operands, expected more than {index}", op.location
            )
        handle = op.operands[index]
        consumer = self.consumed.get(handle)
        if consumer is not None:
            place = f" (line {consumer.location.line})" if consumer.location else ""
            raise LinalgError(f"'{op.name}' op uses a handle that '{consumer.name}'{place} has consumed", op.location)
        return [each for each in self.handles.get(handle, []) if self._is_there(each)]

    def _is_there(self, each: Payload) -> bool:
        if isinstance(each, Value):
            block = each.parent_block
            around = block.parent_op if block is not None else None
            return around is not None and self.root.is_ancestor_of(around)
        return isinstance(each, Attribute) or self.root.is_ancestor_of(each)

    def payload(self, op: Operation, index: int = 0) -> list[Operation]:
        """Returns the operations that operand `index` of a script's operation stands for."""
        return payload_of(op, self.lookup(op, index))

    def consume(self, op: Operation, index: int = 0) -> None:
        """Makes a handle unusable: what it stood for is about to be replaced."""
        self.consumed[op.operands[index]] = op

    def replace_payload(self, replaced: Mapping[Operation, Operation]) -> None:
        """Makes handles of operations that are no more stand for those that have taken their place."""
        for value, found in self.handles.items():
            self.handles[value] = [replaced.get(p, p) if isinstance(p, Operation) else p for p in found]

    def bind(self, values: Sequence[Value], handles: Handles) -> None:
        """Gives handles what they stand for; those of a region that runs once more are as new."""
        for value, found in zip(values, handles):
            self.handles[value] = list(found)
            self.consumed.pop(value, None)


def script_operations(module: Operation) -> Iterator[Operation]:
    """Yields the operations of a module, and those of modules inside of it: scripts often have one to themselves."""
    for op in module.body.operations:
        if op.name == "builtin.module" and op.regions[0].blocks:
            yield from script_operations(op)
        else:
            yield op


@dataclass(frozen=True)
class TransformRow:
    """What an operation of scripts does: `apply` returns the handles of its results. `consumes` lists operands."""

    name: str
    apply: Callable[[Script, Operation], Handles]
    consumes: tuple[int, ...] = ()
