"""Which object a pointer of a kernel points into: a parameter, a global, the stack.

A pointer's object is that of what it was computed from. Where control flow or a select decides, a phi or select of
object numbers beside that of the pointers does, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from xjit.runtime.gpu_sim.checker_ir import LOCAL_OBJECT, UNKNOWN_OBJECT
from xjit.runtime.gpu_sim.kernel_text import KernelText, split_top_level

_NAME = r'[%@](?:"[^"]+"|[\w.$-]+)'
_DERIVED = re.compile(
    rf"(?P<name>{_NAME}) = (?P<op>getelementptr|addrspacecast|bitcast|freeze|phi|select|alloca)\b(?P<rest>.*)"
)
_POINTER_OPERAND = re.compile(r"ptr(?: addrspace\(\d+\))?(?: \w+)* (?P<value>\S.*)")
_INCOMING = re.compile(r"\[ (?P<value>.*?), (?P<label>%\S+) \]")


class PointerObjects:
    """The objects of all pointers of one kernel, as operands of type i32: numbers, or names of values."""

    def __init__(self, kernel: KernelText, objects: Sequence[str]) -> None:
        """`objects`: names of parameters (with %) and globals (with @), in the order of their numbers."""
        self._objects = {name: str(number) for number, name in enumerate(objects)}
        self._sources: dict[str, str] = {}
        for line in kernel.lines:
            match = _DERIVED.fullmatch(line)
            if match is not None:
                self._note(match["name"], match["op"], match["rest"])

    def __getitem__(self, operand: str) -> str:
        """The number of the object of a pointer, or of a vector of pointers."""
        seen: set[str] = set()
        while operand in self._sources:
            assert operand not in seen, f"the pointer {operand} is computed from itself"
            seen.add(operand)
            operand = self._sources[operand]
        if operand in self._objects:
            return self._objects[operand]
        names = [name for name in re.findall(_NAME, operand) if name.startswith("@")]  # of a constant expression
        return self._objects.get(names[0], str(UNKNOWN_OBJECT)) if names else str(UNKNOWN_OBJECT)

    def mirror(self, line: str) -> list[str]:
        """The phi or select of object numbers that is to follow a line with one of pointers; none for other lines."""
        match = _DERIVED.fullmatch(line)
        if match is None or self._objects.get(match["name"]) != _mirror_name(match["name"]):
            return []
        name, rest = _mirror_name(match["name"]), match["rest"]
        if match["op"] == "phi":
            pairs = [f"[ {self[m['value']]}, {m['label']} ]" for m in _INCOMING.finditer(rest)]
            return [f"{name} = phi i32 {', '.join(pairs)}"]
        condition, *choices = split_top_level(rest)
        values = [_POINTER_OPERAND.fullmatch(choice) for choice in choices]
        numbers = [f"i32 {self[value['value']]}" for value in values if value is not None]
        return [f"{name} = select {', '.join([condition, *numbers])}"]

    def _note(self, name: str, op: str, rest: str) -> None:
        if op == "alloca":
            self._objects[name] = str(LOCAL_OBJECT)
        elif op in ("phi", "select"):
            if rest.startswith(" ptr") or (op == "select" and ", ptr" in rest):
                self._objects[name] = _mirror_name(name)
        else:
            part = split_top_level(rest)[1 if op == "getelementptr" else 0]
            if (source := _POINTER_OPERAND.fullmatch(part)) is not None:
                self._sources[name] = source["value"].split(" to ")[0]


def _mirror_name(name: str) -> str:
    return f"%xjit.object.{name[1:].strip(chr(34))}"
