"""Functions and basic blocks: lists of text lines that stay open until the function is printed.

Role: the containers that `IRBuilder` writes to. Invariants: every name in a function is `hint.counter`, so it is
unique; a block accepts instructions at any time, whether or not it has its terminator, so loop emitters hoist into
pre-headers.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xjit.llvm.types import PTR, LLVMType
from xjit.llvm.values import Value

if TYPE_CHECKING:
    from xjit.llvm.module import Module

_NOT_IN_IDENTIFIER = re.compile(r"[^A-Za-z0-9_]")
_PLAIN_GLOBAL = re.compile(r"[A-Za-z$._-][A-Za-z$._0-9-]*")


@functools.lru_cache(maxsize=65536)
def identifier(text: str) -> str:
    """`text` as a hint for local names: letters, digits and `_`, no leading digit."""
    clean = _NOT_IN_IDENTIFIER.sub("_", text)
    return clean if clean and not clean[0].isdigit() else f"_{clean}"


def global_name(name: str) -> str:
    """`@name`, quoted if LLVM's lexer needs that."""
    if _PLAIN_GLOBAL.fullmatch(name):
        return f"@{name}"
    escaped = "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\' else f"\\{b:02X}" for b in name.encode())
    return f'@"{escaped}"'


def string_attribute(name: str, value: str) -> str:
    """A function attribute of LLVM's that is a pair of strings: `"name"="value"`."""
    return f'"{name}"="{value}"'


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter: type, name, and attributes such as `noalias` or `align 64`."""

    type: LLVMType
    name: str
    attributes: tuple[str, ...] = ()


@dataclass(slots=True, unsafe_hash=True)
class Phi(Value):
    """A phi node: usable as a value at once; `add_incoming` may come later, until the function is printed."""

    incoming: list[tuple[Value, Block]] = field(default_factory=list, compare=False)

    def add_incoming(self, value: Value, block: Block) -> None:
        """Adds the value that arrives from `block`."""
        if value.type is not self.type:
            raise TypeError(f"phi of {self.type} cannot take {value}")
        self.incoming.append((value, block))

    def line(self) -> str:
        """The instruction."""
        pairs = ", ".join(f"[ {value.text}, %{block.exit_label} ]" for value, block in self.incoming)
        return f"{self.text} = phi {self.type.text} {pairs}"


@dataclass(slots=True, eq=False)
class Block:
    """A basic block. Its terminator is apart from its lines: `lines` can grow after the block is terminated.

    `IRBuilder.if_then` and `IRBuilder.do_while` put small branches and loops inside: one way in, at `label`, and one
    way out, at `exit_label`, which is what phi nodes of successors name.
    """

    label: str
    function: Function
    lines: list[str] = field(default_factory=list)
    phis: list[Phi] = field(default_factory=list)
    terminator: str | None = None
    exit_label: str = ""

    def __post_init__(self) -> None:
        self.exit_label = self.exit_label or self.label

    @property
    def operand(self) -> str:
        """`%label`: the block as an operand."""
        return f"%{self.label}"

    @property
    def is_terminated(self) -> bool:
        """Whether the block has its terminator."""
        return self.terminator is not None

    def to_lines(self) -> list[str]:
        """The text of the block; a block without terminator is an error of the emitter."""
        if self.terminator is None:
            raise AssertionError(f"block {self.label} of @{self.function.name} has no terminator")
        body = [f"  {line}" for line in (*(phi.line() for phi in self.phis), *self.lines, self.terminator)]
        return [f"{self.label}:", *body]


_UNOPTIMIZED = ("noinline", "optnone")  # LLVM takes the second only with the first


class Function:
    """A function that is defined here. Make one with `Module.add_function`.

    `attributes` are words such as `nounwind`, or pairs (`string_attribute`); calls name the `calling_convention`, too.
    `is_cold` says that its own instructions take no time beside what it calls, so that LLVM is not to optimize them;
    `may_fail`, that it may leave a status in the execution context. `stored_bits` are the bits in memory of values that
    were loaded or rounded, by name and type, so that a store makes them no second time. `scratch_bytes` are
    those of memory that each call takes beside its arguments, as far as what writes the code counts it.
    """

    __slots__ = (
        "_counter", "args", "attributes", "blocks", "calling_convention", "is_cold", "linkage", "may_fail", "module",
        "name", "params", "return_type", "scratch_bytes", "stored_bits",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        return_type: LLVMType,
        params: Sequence[Param | tuple[LLVMType, str]] = (),
        attributes: Sequence[str] = ("nounwind",),
        linkage: str = "",
        module: Module | None = None,
        calling_convention: str = "",
    ) -> None:
        self.name = name
        self.return_type = return_type
        self.params = tuple(param if isinstance(param, Param) else Param(*param) for param in params)
        names = [identifier(param.name) for param in self.params]
        if len(set(names)) != len(names):
            raise ValueError(f"parameters of @{name} share a name: {', '.join(names)}")
        self.args = tuple(Value(param.type, f"%{text}") for param, text in zip(self.params, names))
        self.attributes = tuple(attributes)
        self.linkage = linkage
        self.calling_convention = calling_convention
        self.is_cold = False
        self.may_fail = False
        self.scratch_bytes = 0
        self.module = module
        self.blocks: list[Block] = []
        self._counter = 0
        self.stored_bits: dict[str, dict[Hashable, Value]] = {}

    @property
    def operand(self) -> str:
        """`@name`."""
        return global_name(self.name)

    @property
    def value(self) -> Value:
        """The address of the function."""
        return Value(PTR, self.operand)

    @property
    def entry(self) -> Block:
        """The first block."""
        return self.blocks[0]

    @property
    def is_complete(self) -> bool:
        """Whether every block has its terminator."""
        return bool(self.blocks) and all(block.is_terminated for block in self.blocks)

    def number(self) -> int:
        """A number that no name of this function has yet."""
        self._counter = number = self._counter + 1
        return number

    def append_block(self, label: str = "block") -> Block:
        """Adds a block at the end."""
        block = Block(f"{identifier(label)}.{self.number()}", self)
        self.blocks.append(block)
        return block

    def to_text(self) -> str:
        """The definition."""
        params = ", ".join(
            " ".join((param.type.text, *param.attributes, arg.text)) for param, arg in zip(self.params, self.args)
        )
        before = ("define", self.linkage, self.calling_convention, self.return_type.text)
        attributes = (*self.attributes, *_UNOPTIMIZED) if self.is_cold else self.attributes
        words = (*before, f"{self.operand}({params})", *attributes, "{")
        lines = [" ".join(word for word in words if word)]
        for block in self.blocks:
            lines.extend(block.to_lines())
        return "\n".join((*lines, "}"))
