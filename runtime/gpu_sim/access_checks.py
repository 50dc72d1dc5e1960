"""Puts a check in front of every access of memory. What is wrong goes to scratch memory, or is left out."""

from __future__ import annotations

import re
from collections.abc import Sequence

from xjit.hlo.diagnostics import CompileError
from xjit.runtime.gpu_sim.checker_ir import LOCAL_OBJECT
from xjit.runtime.gpu_sim.findings import Access
from xjit.runtime.gpu_sim.ir_lines import Call, parse_access, parse_call, type_bytes
from xjit.runtime.gpu_sim.kernel_text import KernelText
from xjit.runtime.gpu_sim.pointer_objects import PointerObjects

_COPY = re.compile(r"llvm\.(?P<name>memcpy|memmove|memset)(?:\.inline)?\.")
_MASKED = re.compile(r"llvm\.masked\.(?P<name>load|store|gather|scatter)\.")
_OTHER_INTRINSIC = re.compile(r"llvm\.(?:masked|vp|matrix)\.")
_POINTER = re.compile(
    r"(?P<type>ptr(?: addrspace\(\d+\))?|<\d+ x ptr(?: addrspace\(\d+\))?>)"
    r"(?P<words>(?: (?!getelementptr|addrspacecast)\w+(?:\([^)]*\)| \d+)?)*) (?P<value>\S.*)"
)
_VECTOR = re.compile(r"<(?P<width>\d+) x (?P<element>[^>]*)>")


class AccessChecks:
    """Rewrites the lines of one kernel. `sites` gets the code of each access; its number there is the site's."""

    def __init__(self, kernel: KernelText, objects: Sequence[str], sites: list[str]) -> None:
        """`objects`: see `PointerObjects`."""
        self._sites = sites
        self._objects = PointerObjects(kernel, objects)

    def rewrite(self, line: str) -> list[str]:
        """Returns the lines that take the place of one. CompileError for an intrinsic whose accesses are not known."""
        if (access := parse_access(line)) is not None:
            if self._objects[access.pointer] == str(LOCAL_OBJECT):
                return [line]
            site = self._site(line)
            checked = f"%xjit.checked.{site}"
            check = self._check("access", access.pointer, str(access.size), access.align, access.access, site)
            return [f"{checked} = call ptr {check}", access.template.format(checked)]
        call = parse_call(line)
        if call is None:
            return [line, *self._objects.mirror(line)]
        if _COPY.match(call.callee):
            return self._copy(line, call)
        if (masked := _MASKED.match(call.callee)) is not None:
            return self._masked(line, call, masked["name"])
        if _OTHER_INTRINSIC.match(call.callee):
            raise CompileError(f"the sanitizer does not know what {call.callee} accesses")
        return [line]

    def _copy(self, line: str, call: Call) -> list[str]:
        """Checks what is written, and what is read; if either is wrong, nothing is copied."""
        lines, size, site = list[str](), call.operand(2), self._site(line)
        for number in range(1 if "memset" in call.callee else 2):
            value, align = _pointer(call, number)
            access = Access.READ if number else Access.WRITE
            checked = f"%xjit.size.{site}.{number}"
            lines.append(f"{checked} = call i64 {self._check('range', value, size, align, access, site)}")
            size = checked
        return [*lines, _with_argument(line, call.arguments[2], f"i64 {size}")]

    def _masked(self, line: str, call: Call, name: str) -> list[str]:
        """Checks the elements whose mask bit is set; those that are wrong lose it."""
        is_load = name in ("load", "gather")
        position = 0 if is_load else 1
        value, align = _pointer(call, position)
        data = _VECTOR.fullmatch(call.result_vector if is_load else call.vector_type(0))
        assert data is not None, f"a masked access has another form: {line}"
        size, access = type_bytes(data["element"]), Access.READ if is_load else Access.WRITE
        lines, site, given = list[str](), self._site(line), call.arguments[position + 1]
        kept = given.split("> ", 1)[1]
        mask_type = f"<{data['width']} x i1>"
        for lane in range(int(data["width"])):
            names = {hint: f"%xjit.{hint}.{site}.{lane}" for hint in ("place", "bit", "size", "done", "fine", "mask")}
            if name in ("load", "store"):
                place = f"getelementptr i8, ptr {value}, i64 {size * lane}"
            else:
                place = f"extractelement <{data['width']} x ptr> {value}, i32 {lane}"
            aligned = align if name in ("gather", "scatter") else min(align, size)
            check = self._check("range", names["place"], names["size"], aligned, access, site, of=value)
            lines += [
                f"{names['place']} = {place}",
                f"{names['bit']} = extractelement {given}, i32 {lane}",
                f"{names['size']} = select i1 {names['bit']}, i64 {size}, i64 0",
                f"{names['done']} = call i64 {check}",
                f"{names['fine']} = icmp ne i64 {names['done']}, 0",
                f"{names['mask']} = insertelement {mask_type} {kept}, i1 {names['fine']}, i32 {lane}",
            ]
            kept = names["mask"]
        return [*lines, _with_argument(line, given, f"{mask_type} {kept}")]

    def _check(self, kind: str, pointer: str, size: str, align: int, access: Access, site: int, of: str = "") -> str:
        """The call of a check, without its type; `of` is the pointer that tells the object, if it is another one."""
        return (
            f"@xjit_sim_{kind}(ptr %xjit.thread, ptr {pointer}, i64 {size}, i64 {align}, i32 {int(access)}, "
            f"i32 {site}, i32 {self._objects[of or pointer]})"
        )

    def _site(self, line: str) -> int:
        self._sites.append(line)
        return len(self._sites) - 1


def _pointer(call: Call, number: int) -> tuple[str, int]:
    """The value of an argument that is a pointer, or a vector of them, and its alignment."""
    match = _POINTER.fullmatch(call.arguments[number])
    assert match is not None, f"a pointer has another form: {call.arguments[number]}"
    align = re.search(r"\balign (\d+)", match["words"])
    return match["value"], int(align[1]) if align else 1


def _with_argument(line: str, old: str, new: str) -> str:
    """The line of a call with one argument replaced, which is not the first of a kind: the last that reads so."""
    before, _, after = line.rpartition(old)
    return f"{before}{new}{after}"
