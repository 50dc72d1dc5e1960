"""Where instructions go, and how their results are named."""

from __future__ import annotations

from xjit.llvm.function import Block, Function
from xjit.llvm.module import Module
from xjit.llvm.target import Target
from xjit.llvm.types import LLVMType
from xjit.llvm.values import Value


class InsertionPoint:
    """The end of a block: lines are added there, before its terminator if it has one."""

    __slots__ = ("_block", "_function", "_lines")

    def __init__(self, block: Block) -> None:
        self.position_at_end(block)

    @property
    def block(self) -> Block:
        """The block that instructions are added to."""
        return self._block

    @property
    def function(self) -> Function:
        """The function of the current block."""
        return self._function

    @property
    def module(self) -> Module:
        """The module of the current function."""
        if self._function.module is None:
            raise AssertionError(f"@{self._function.name} belongs to no module")
        return self._function.module

    @property
    def target(self) -> Target:
        """The target of the module."""
        return self.module.target

    def position_at_end(self, block: Block) -> None:
        """Adds instructions to `block` from now on (before its terminator, if it has one)."""
        self._block = block
        self._function = block.function
        self._lines = block.lines

    def append_block(self, label: str = "block") -> Block:
        """Adds a block at the end of the function, without moving there."""
        return self._function.append_block(label)

    def comment(self, text: str) -> None:
        """Writes a comment into the IR."""
        self._lines.extend(f"; {line}" for line in text.splitlines())

    def write(self, line: str) -> None:
        """Adds an instruction without result, or a label, as text."""
        self._lines.append(line)

    def assign(self, instruction: str, type: LLVMType, name: str) -> Value:
        """Adds an instruction, as text, whose result of `type` gets a new name `%name.number`."""
        function = self._function
        function._counter = number = function._counter + 1
        text = f"%{name}.{number}"
        self._lines.append(f"{text} = {instruction}")
        return Value(type, text)
