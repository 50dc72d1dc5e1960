"""Lines of LLVM's IR taken apart: calls, and instructions that access memory."""

from __future__ import annotations

import re

from xjit.dataclass import dataclass
from xjit.hlo.diagnostics import CompileError
from xjit.runtime.gpu_sim.findings import Access
from xjit.runtime.gpu_sim.kernel_text import split_top_level

_NAME = r'%(?:"[^"]+"|[\w.$-]+)'
_CALL = re.compile(
    rf"(?:(?P<result>{_NAME}) = )?(?:tail |musttail |notail )?call (?P<type>.*?)"
    r'@(?P<callee>"[^"]+"|[\w.$-]+)\((?P<arguments>.*)\)(?P<rest>[^()]*)'
)
_DEFINITION = re.compile(rf"(?P<name>{_NAME}) = (?P<op>\w+) (?P<rest>.*)")
_POINTER = re.compile(
    r"(?P<before>(?:.*? )??)ptr(?: addrspace\((?P<space>\d+)\))? (?P<operand>.*?)"
    r'(?P<after>(?: syncscope\("[^"]*"\))?(?: (?:unordered|monotonic|acquire|release|acq_rel|seq_cst))*)'
)
_SCALAR_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64, "fp128": 128, "ptr": 64}
_SEQUENCE = re.compile(r"[<\[](?P<count>\d+) x (?P<element>.*)[>\]]")
_ORDERS = {
    "acquire": Access.ACQUIRE,
    "release": Access.RELEASE,
    "acq_rel": Access.ACQUIRE | Access.RELEASE,
    "seq_cst": Access.ACQUIRE | Access.RELEASE,
}


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a named function. `type` has the flags and attributes in front of the type, too."""

    result: str
    type: str
    callee: str
    arguments: tuple[str, ...]

    @property
    def result_type(self) -> str:
        """The type alone; of a function's type, what it returns."""
        text = self.type.split(" (")[0]
        return text[text.index("{") :] if text.endswith("}") else text.split()[-1]

    @property
    def result_vector(self) -> str:
        """The type, which is a vector."""
        return self.type[self.type.index("<") :]

    def vector_type(self, number: int) -> str:
        """The type of an argument that is a vector."""
        return self.arguments[number].split(">", 1)[0] + ">"

    def operand(self, number: int) -> str:
        """The value of an argument, without its type and attributes."""
        return self.arguments[number].split()[-1]

    def operand_type(self, number: int) -> str:
        """The type of an argument that is a scalar."""
        return self.arguments[number].split()[0]


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """One access of an instruction: the part of its line with the pointer, `{}` in the place of the operand."""

    pointer: str
    size: int
    align: int
    access: Access
    template: str


def parse_call(line: str) -> Call | None:
    """Returns the call of a line; None if it is none, or calls through a pointer."""
    match = _CALL.fullmatch(line)
    if match is None:
        return None
    arguments = tuple(split_top_level(match["arguments"]))
    return Call(match["result"] or "", match["type"].strip(), match["callee"].strip('"'), arguments)


def parse_access(line: str) -> MemoryAccess | None:
    """Returns what a load, store, atomicrmw or cmpxchg does to memory; None for another instruction."""
    definition = _DEFINITION.fullmatch(line)
    op = definition["op"] if definition else line.split(" ", 1)[0]
    if op not in _POSITIONS:
        return None
    parts = split_top_level(line)
    position = _POSITIONS[op]
    match = _POINTER.fullmatch(parts[position])
    assert match is not None, f"an access has another form: {line}"
    is_atomic = op in ("atomicrmw", "cmpxchg") or f"{op} atomic " in line
    access = _KINDS[op] | (Access.ATOMIC if is_atomic else Access(0))
    if op in ("load", "store", "cmpxchg"):  # what orders an atomicrmw is lost on the way to PTX
        words = " ".join(parts[position:]).split()
        access |= _ORDERS[next((word for word in words if word in _ORDERS), "none")] if is_atomic else Access(0)
    head = parts[0].split(f"{op} ", 1)[1].removeprefix("atomic ").removeprefix("volatile ")
    kind = head if op == "load" else _type_in_front(head if op == "store" else parts[1])
    operand = match["operand"]
    before, space = match["before"], f" addrspace({match['space']})" if match["space"] else ""
    changed = [*parts]
    changed[position] = f"{before}ptr{space} {{}}{match['after']}"
    align = next(int(part.split()[1]) for part in parts if part.startswith("align "))
    template = ", ".join(part if n == position else _escaped(part) for n, part in enumerate(changed))
    return MemoryAccess(operand, type_bytes(kind), align, access, template)


_POSITIONS = {"load": 1, "store": 1, "atomicrmw": 0, "cmpxchg": 0}
"""Which part of the line has the pointer."""

_KINDS = {
    "load": Access.READ,
    "store": Access.WRITE,
    "atomicrmw": Access.READ | Access.WRITE,
    "cmpxchg": Access.READ | Access.WRITE,
}
_ORDERS["none"] = Access(0)


def type_bytes(text: str) -> int:
    """Bytes in memory of a type; CompileError for one that is no number, pointer, vector or array."""
    if match := _SEQUENCE.fullmatch(text):
        count, element = int(match["count"]), match["element"]
        if text.startswith("<"):
            return -(-count * _scalar_bits(element) // 8)
        return count * type_bytes(element)
    return -(-_scalar_bits(text) // 8)


def _scalar_bits(text: str) -> int:
    if text.startswith("ptr"):
        return _SCALAR_BITS["ptr"]
    if re.fullmatch(r"i\d+", text):
        return int(text[1:])
    if text not in _SCALAR_BITS:
        raise CompileError(f"a kernel accesses memory as '{text}', which the sanitizer does not know")
    return _SCALAR_BITS[text]


def _type_in_front(text: str) -> str:
    """The type of `TYPE VALUE`."""
    if text[0] in "<[{":
        closing = {"<": ">", "[": "]", "{": "}"}[text[0]]
        depth = 0
        for position, character in enumerate(text):
            depth += (character == text[0]) - (character == closing)
            if depth == 0:
                return text[: position + 1]
    return text.split(" ", 1)[0]


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
