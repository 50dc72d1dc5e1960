"""The state that all parts of `IRBuilder` share: where instructions go, and how they are named."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.llvm.function import Block, Function
from xjit.llvm.module import Declaration, Module
from xjit.llvm.target import Target
from xjit.llvm.types import VOID, LLVMType
from xjit.llvm.values import Value

Metadata = Sequence[tuple[str, str]]
"""Attachments of an instruction: pairs such as ("range", "!3")."""


class BuilderBase:
    """Appends instructions to the end of one block."""

    __slots__ = ("_block", "_function", "_lines", "fast_math_flags")

    def __init__(self, block: Block, fast_math_flags: str = "") -> None:
        self.fast_math_flags = fast_math_flags
        """Flags of floating-point instructions that are not given their own; none: strict IEEE."""
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

    def call(self, callee: Function | Declaration, args: Sequence[Value], name: str = "call", flags: str = "") -> Value:
        """Calls a function; the Value of a void call must not be used."""
        expected = callee.param_types if isinstance(callee, Declaration) else tuple(p.type for p in callee.params)
        if tuple(arg.type for arg in args) != expected:
            raise TypeError(f"{callee.operand} takes ({_list(expected)}), not ({_list([a.type for a in args])})")
        if callee.calling_convention:
            flags = f"{flags} {callee.calling_convention}".lstrip()
        return self._call(callee.operand, callee.return_type, ", ".join([arg.typed for arg in args]), name, flags)

    def call_pointer(self, callee: Value, return_type: LLVMType, args: Sequence[Value], name: str = "call") -> Value:
        """Calls a function through a pointer."""
        return self._call(callee.text, return_type, ", ".join([arg.typed for arg in args]), name, "")

    def intrinsic(
        self,
        name: str,
        return_type: LLVMType,
        args: Sequence[Value],
        overloads: Sequence[LLVMType] | None = None,
        flags: str = "",
    ) -> Value:
        """Calls `llvm.<name>` and declares it. `overloads` are the types in its suffix (default: the return type)."""
        suffix = (return_type,) if overloads is None else overloads
        full_name = ".".join(("llvm", name, *[type.mangled for type in suffix]))
        self.module.declare(full_name, return_type, [arg.type for arg in args])
        text = ", ".join([arg.typed for arg in args])
        return self._call(f"@{full_name}", return_type, text, name.replace(".", "_"), flags)

    def _call(self, operand: str, return_type: LLVMType, args: str, name: str, flags: str) -> Value:
        flags = f"{flags} " if flags else ""
        if return_type is VOID:
            self._lines.append(f"call {flags}void {operand}({args})")
            return Value(VOID, "")
        return self._value(f"call {flags}{return_type.text} {operand}({args})", return_type, name)

    def _value(self, instruction: str, type: LLVMType, name: str) -> Value:
        function = self._function
        function._counter = number = function._counter + 1
        text = f"%{name}.{number}"
        self._lines.append(f"{text} = {instruction}")
        return Value(type, text)


def attachments(metadata: Metadata) -> str:
    """The text of metadata attachments, with the leading comma."""
    return "".join([f", !{kind} {node}" for kind, node in metadata])


def same_type(a: Value, b: Value, what: str) -> LLVMType:
    """The common type of both operands; TypeError if they differ."""
    if a.type is not b.type:
        raise TypeError(f"operands of {what} differ in type: {a} and {b}")
    return a.type


def _list(types: Sequence[LLVMType]) -> str:
    return ", ".join(type.text for type in types)
