"""Puts a check in front of every access of memory, with the object that its pointer must point into.

A pointer's object is where it was computed from: a parameter, a global, the stack. Where control flow or a select
decides, a phi or select of object numbers beside that of the pointer does, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from xjit.hlo.diagnostics import CompileError
from xjit.runtime.gpu_sim.checker_ir import LOCAL_OBJECT, UNKNOWN_OBJECT
from xjit.runtime.gpu_sim.findings import Access
from xjit.runtime.gpu_sim.ir_lines import Call, parse_access, parse_call
from xjit.runtime.gpu_sim.kernel_text import KernelText, split_top_level

_NAME = r'[%@](?:"[^"]+"|[\w.$-]+)'
_DERIVED = re.compile(
    rf"(?P<name>{_NAME}) = (?P<op>getelementptr|addrspacecast|bitcast|freeze|phi|select|alloca)\b(?P<rest>.*)"
)
_POINTER_OPERAND = re.compile(r"ptr(?: addrspace\(\d+\))?(?: \w+)* (?P<value>\S.*)")
_INCOMING = re.compile(r"\[ (?P<value>.*?), (?P<label>%\S+) \]")
_MEMORY_INTRINSIC = re.compile(r"llvm\.(?P<name>memcpy|memmove|memset)(?:\.inline)?\.")
_ALIGNED_POINTER = re.compile(
    r"ptr(?: addrspace\(\d+\))?(?P<words>(?: (?!getelementptr|addrspacecast)\w+(?:\([^)]*\)| \d+)?)*) (?P<value>\S.*)"
)
_OTHER_MEMORY_INTRINSIC = re.compile(r"llvm\.(?:masked|vp|matrix)\.")


class AccessChecks:
    """Rewrites the lines of one kernel. `sites` gets the code of each access; its number there is the site's."""

    def __init__(self, kernel: KernelText, objects: Sequence[str], sites: list[str]) -> None:
        """`objects`: names of parameters (with %) and globals (with @), in the order of their numbers."""
        self._sites = sites
        self._objects = {name: str(number) for number, name in enumerate(objects)}
        for line in kernel.lines:
            match = _DERIVED.fullmatch(line)
            if match is not None:
                self._note(match["name"], match["op"], match["rest"])

    def rewrite(self, line: str) -> list[str]:
        """Returns the lines that take the place of one."""
        if (access := parse_access(line)) is not None:
            if (number := self._object(access.pointer)) == str(LOCAL_OBJECT):
                return [line]
            site = self._site(line)
            checked, size = f"%xjit.checked.{site}", str(access.size)
            check = self._check("ptr", "access", access.pointer, size, access.align, access.access, number, site)
            return [f"{checked} = {check}", access.template.format(checked)]
        if match := _DERIVED.fullmatch(line):
            return [line, *self._mirror(match["name"], match["op"], match["rest"])]
        call = parse_call(line)
        if call is not None and _MEMORY_INTRINSIC.match(call.callee):
            return self._memory_intrinsic(line, call)
        if call is not None and _OTHER_MEMORY_INTRINSIC.match(call.callee):
            raise CompileError(f"the sanitizer does not know what {call.callee} accesses")
        return [line]

    def _note(self, name: str, op: str, rest: str) -> None:
        """Gives a pointer's name its object: that of what it is computed from, or one that is chosen at run time."""
        if op == "alloca":
            self._objects[name] = str(LOCAL_OBJECT)
        elif op in ("phi", "select"):
            if rest.lstrip().startswith("ptr") or (op == "select" and ", ptr" in rest):
                self._objects[name] = _mirror_name(name)
        else:
            part = split_top_level(rest)[1 if op == "getelementptr" else 0]
            if (source := _POINTER_OPERAND.fullmatch(part.strip())) is not None:
                self._objects[name] = f"={source['value'].split(' to ')[0]}"

    def _object(self, operand: str) -> str:
        """The number of the object of a pointer, as an operand of type i32."""
        for _ in range(len(self._objects) + 1):
            number = self._objects.get(operand)
            if number is None:  # a constant expression of one global, or what was loaded
                names = [n for n in re.findall(_NAME, operand) if n in self._objects and n.startswith("@")]
                return self._objects[names[0]] if names else str(UNKNOWN_OBJECT)
            if not number.startswith("="):
                return number
            operand = number[1:]
        raise AssertionError(f"the pointer {operand} is computed from itself")

    def _mirror(self, name: str, op: str, rest: str) -> list[str]:
        """The phi or select of object numbers beside one of pointers."""
        if self._objects.get(name) != _mirror_name(name):
            return []
        if op == "phi":
            pairs = [f"[ {self._object(m['value'])}, {m['label']} ]" for m in _INCOMING.finditer(rest)]
            return [f"{_mirror_name(name)} = phi i32 {', '.join(pairs)}"]
        condition, *choices = split_top_level(rest)
        values = [_POINTER_OPERAND.fullmatch(choice) for choice in choices]
        numbers = [f"i32 {self._object(value['value'])}" for value in values if value is not None]
        return [f"{_mirror_name(name)} = select {', '.join([condition, *numbers])}"]

    def _memory_intrinsic(self, line: str, call: Call) -> list[str]:
        """Checks both ranges of a copy; one that is wrong copies nothing."""
        lines: list[str] = []
        size = call.operand(2)
        site = self._site(line)
        for number in range(1 if ".memset." in f"{call.callee}." else 2):
            pointer = _ALIGNED_POINTER.fullmatch(call.arguments[number])
            assert pointer is not None, f"a copy has another form: {line}"
            align = re.search(r"align (\d+)", pointer["words"])
            access = Access.READ if number else Access.WRITE
            checked = f"%xjit.size.{site}.{number}"
            of = self._object(pointer["value"])
            check = self._check("i64", "range", pointer["value"], size, int(align[1]) if align else 1, access, of, site)
            lines.append(f"{checked} = {check}")
            size = checked
        arguments = ", ".join([*call.arguments[:2], f"i64 {size}", *call.arguments[3:]])
        return [*lines, f"call void @{call.callee}({arguments})"]

    def _check(self, result: str, kind: str, pointer: str, size: str, align: int, access: Access, number: str,
               site: int) -> str:  # fmt: skip
        return (
            f"call {result} @xjit_sim_{kind}(ptr %xjit.thread, ptr {pointer}, i64 {size}, i64 {align}, "
            f"i32 {int(access)}, i32 {site}, i32 {number})"
        )

    def _site(self, line: str) -> int:
        self._sites.append(line)
        return len(self._sites) - 1


def _mirror_name(name: str) -> str:
    return f"%xjit.object.{name[1:].strip(chr(34))}"
