"""Data of a module: constants, variables, and symbols that something else defines."""

from __future__ import annotations

from xjit.dataclass import dataclass
from xjit.llvm.function import global_name
from xjit.llvm.types import LLVMType, pointer
from xjit.llvm.values import Value


@dataclass(frozen=True, slots=True)
class GlobalVariable:
    """A named place in the memory of `address_space`. Without `initializer`, it is defined elsewhere.

    `linkage` holds the words between the name and `global` or `constant` (which is `kind`), such as "internal".
    `align` is in bytes; None leaves it to LLVM.
    """

    name: str
    type: LLVMType
    initializer: Value | None
    align: int | None = None
    linkage: str = ""
    kind: str = "global"
    address_space: int = 0

    @property
    def value(self) -> Value:
        """Its address."""
        return Value(pointer(self.address_space), global_name(self.name))

    @property
    def may_be_copied(self) -> bool:
        """Whether each part of a module may have its own: nobody can tell."""
        return self.kind == "constant" and self.linkage == "private unnamed_addr"

    def to_text(self) -> str:
        """The definition or declaration."""
        words = [
            f"{global_name(self.name)} =",
            self.linkage,
            f"addrspace({self.address_space})" if self.address_space else "",
            self.kind,
            self.type.text if self.initializer is None else f"{self.type.text} {self.initializer.text}",
        ]
        alignment = "" if self.align is None else f", align {self.align}"
        return " ".join(word for word in words if word) + alignment
