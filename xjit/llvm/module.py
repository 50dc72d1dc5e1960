"""LLVM modules: functions, declarations, globals and metadata, printed as text.

Invariants: declarations and metadata are deduplicated; the text is the same for the same sequence of calls. Functions
whose names `unique_name` makes are never taken for functions of the C library, which LLVM calls on its own account.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from xjit.llvm.function import Function, Param, global_name
from xjit.llvm.global_variable import GlobalVariable
from xjit.llvm.library import Library
from xjit.llvm.target import Target
from xjit.llvm.types import I8, PTR, LLVMType, array
from xjit.llvm.values import Value

_ESCAPES = {b: f"\\{b:02X}" for b in range(256) if not 32 <= b < 127 or b in b'"\\'}
"""Bytes as LLVM writes them in c"..."."""

_READABLE_BYTES = 256


@dataclass(frozen=True, slots=True)
class Declaration:
    """A function that is defined elsewhere: an intrinsic or a symbol of the runtime."""

    name: str
    return_type: LLVMType
    param_types: tuple[LLVMType, ...]
    attributes: tuple[str, ...] = ()
    calling_convention: str = ""

    @property
    def operand(self) -> str:
        """`@name`."""
        return global_name(self.name)

    @property
    def value(self) -> Value:
        """The address of the function."""
        return Value(PTR, self.operand)

    def to_text(self) -> str:
        """The `declare` line."""
        params = ", ".join(param.text for param in self.param_types)
        words = ("declare", self.calling_convention, self.return_type.text, f"{self.operand}({params})")
        return " ".join(word for word in (*words, *self.attributes) if word)


class Module:
    """A module under construction. `libraries`, by name, define what this one declares.

    `shared` are functions that many others call, by what they do: who needs one first defines it.
    `inline_lines` counts what functions got in line instead, by their names and what it does; `expected_uses`, how
    often a function is going to do what, if more than once.
    """

    def __init__(self, name: str = "module", target: Target | None = None) -> None:
        self.name = name
        self.target = target if target is not None else Target.host()
        self.functions: dict[str, Function] = {}
        self.declarations: dict[str, Declaration] = {}
        self.libraries: dict[str, Library] = {}
        self.shared: dict[tuple[str, ...], Function] = {}
        self.inline_lines: dict[tuple[str, ...], int] = {}
        self.expected_uses: dict[tuple[str, str], int] = {}
        self._globals: dict[str, GlobalVariable] = {}
        self._constants: dict[tuple[str, int, int], str] = {}  # names, by what they hold
        self._metadata: list[str] = []
        self._metadata_numbers: dict[str, int] = {}

    def add_function(
        self,
        name: str,
        return_type: LLVMType,
        params: Sequence[Param | tuple[LLVMType, str]] = (),
        attributes: Sequence[str] = ("nounwind",),
        linkage: str = "",
        calling_convention: str = "",
    ) -> Function:
        """Defines a function; `name` must be new."""
        if name in self.functions or name in self.declarations:
            raise ValueError(f"module {self.name} has a function @{name} already")
        function = Function(name, return_type, params, attributes, linkage, self, calling_convention)
        self.functions[name] = function
        return function

    def declare(
        self, name: str, return_type: LLVMType, param_types: Sequence[LLVMType], attributes: Sequence[str] = ()
    ) -> Declaration:
        """Declares an external function, once; a second declaration must agree."""
        found = self.declarations.get(name)
        if found is None:
            found = self.declarations[name] = Declaration(name, return_type, tuple(param_types), tuple(attributes))
        elif found.return_type is not return_type or found.param_types != tuple(param_types):
            raise TypeError(f"@{name} is declared already, as {found.to_text()}")
        return found

    def unique_name(self, hint: str) -> str:
        """A global name that starts with `hint` and is not taken; names such as `exp` and `memcpy` get a number."""
        name, number = hint, 0
        while name.isalnum() or name.startswith("__") or self._is_taken(name):
            number += 1
            name = f"{hint.lstrip('_') or 'name'}.{number}"
        return name

    def _is_taken(self, name: str) -> bool:
        return name in self.functions or name in self.declarations or name in self._globals

    def external_global(
        self, name: str, type: LLVMType = I8, *, align: int | None = None, address_space: int = 0
    ) -> Value:
        """A data symbol that the runtime or the driver provides."""
        if name not in self._globals:
            self._globals[name] = GlobalVariable(
                name, type, None, align, linkage="external", address_space=address_space
            )
        return self._globals[name].value

    def add_constant(
        self, type: LLVMType, initializer: Value, align: int, hint: str = "constant", *, address_space: int = 0
    ) -> Value:
        """A private constant with an initializer of that type; equal ones are shared."""
        key = (initializer.typed, align, address_space)
        name = self._constants.get(key)
        if name is None:
            name = self._constants[key] = self.unique_name(hint)
            self._globals[name] = GlobalVariable(
                name, type, initializer, align, "private unnamed_addr", "constant", address_space
            )
        return self._globals[name].value

    def add_constant_bytes(self, data: bytes, align: int, hint: str = "constant", *, address_space: int = 0) -> Value:
        """A private constant of raw bytes; few ones may be read in the module's text."""
        type = array(I8, len(data))
        if len(data) > _READABLE_BYTES:
            text = "\\" + data.hex("\\")
        else:
            text = data.decode("latin-1").translate(_ESCAPES)
        return self.add_constant(type, Value(type, f'c"{text}"'), align, hint, address_space=address_space)

    def add_constant_array(
        self, values: np.ndarray, align: int = 64, hint: str = "constant", *, address_space: int = 0
    ) -> Value:
        """A private constant with the bytes of a NumPy array, row-major, little-endian."""
        data = np.ascontiguousarray(values).tobytes()
        return self.add_constant_bytes(data, align, hint, address_space=address_space)

    def add_global(
        self,
        name: str,
        type: LLVMType,
        initializer: Value,
        align: int,
        linkage: str = "internal",
        *,
        address_space: int = 0,
    ) -> Value:
        """A mutable global. Memory that has no contents at first (shared memory) is `undef(type)`."""
        if name in self._globals:
            raise ValueError(f"module {self.name} has a global @{name} already")
        variable = GlobalVariable(name, type, initializer, align, linkage, address_space=address_space)
        self._globals[name] = variable
        return variable.value

    def add_metadata(self, body: str) -> str:
        """A node such as `!{i64 0, i64 10}`, shared between equal bodies. Returns `!number`."""
        number = self._metadata_numbers.get(body)
        if number is None:
            number = self._metadata_numbers[body] = len(self._metadata)
            self._metadata.append(f"!{number} = {body}")
        return f"!{number}"

    @property
    def globals(self) -> Mapping[str, GlobalVariable]:
        """The definitions and declarations of data, by name."""
        return self._globals

    @property
    def metadata(self) -> Sequence[str]:
        """The metadata nodes."""
        return self._metadata

    @property
    def header(self) -> str:
        """The lines that every text of this module starts with: its name and target."""
        layout, triple = self.target.data_layout, self.target.triple
        return f'; ModuleID = \'{self.name}\'\ntarget datalayout = "{layout}"\ntarget triple = "{triple}"'

    def to_text(self) -> str:
        """The whole module."""
        sections = [self.header]
        if self._globals:
            sections.append("\n".join(variable.to_text() for variable in self._globals.values()))
        sections.extend(function.to_text() for function in self.functions.values())
        if self.declarations:
            sections.append("\n".join(declaration.to_text() for declaration in self.declarations.values()))
        if self._metadata:
            sections.append("\n".join(self._metadata))
        return "\n\n".join(sections) + "\n"
