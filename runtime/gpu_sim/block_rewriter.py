"""The blocks of a kernel, line by line, from what a GPU has to what the host has."""

from __future__ import annotations

import re

from xjit.hlo.diagnostics import CompileError
from xjit.runtime.gpu_sim.access_checks import AccessChecks
from xjit.runtime.gpu_sim.device_intrinsics import (
    COPIED,
    COPY_TO_SHARED,
    FENCES,
    FENCES_OF_BLOCK,
    FIELDS_OF_FACTS,
    LANE_FACTS,
    THREAD_FACT,
    WAIT_FOR_COPIES,
    WAITS,
    Wait,
    host_function,
)
from xjit.runtime.gpu_sim.ir_lines import Call, parse_call
from xjit.runtime.gpu_sim.kernel_text import KernelText
from xjit.runtime.gpu_sim.matrix_ir import matrix_function
from xjit.runtime.gpu_sim.records import THREAD

_ADDRESS_SPACE = re.compile(r" addrspace\(\d+\)")
_CAST = re.compile(r"\baddrspacecast\b")
_MANGLED_POINTER = re.compile(r"(?<=\.)p\d+(?=[.(])")
_ATTRIBUTE_GROUP = re.compile(r" #\d+(?=$|,)")
_METADATA = re.compile(r"(?:, ![\w.]+ !\d+)+$")
_SCOPE = re.compile(r' syncscope\("[^"]*"\)')
_LABEL_OF_PHI = re.compile(r", %(\S+) \]")


class BlockRewriter:
    """Rewrites the blocks of one kernel."""

    def __init__(self, kernel: KernelText, *, sanitize: bool, suspends: bool) -> None:
        self._kernel = kernel
        self._sanitize = sanitize
        self._drops_metadata = sanitize or suspends  # what one thread may assume, others can break at a wait
        self._has_start = sanitize or suspends
        self._number = 0
        self.sites: list[str] = []
        objects = [parameter.name for parameter in kernel.parameters] + [v.name for v in kernel.globals]
        self._checks = AccessChecks(kernel, objects, self.sites) if sanitize else None

    def blocks(self) -> list[tuple[str, list[str]]]:
        """Labels and lines. A block that waits ends there, and goes on in one with another label: phis say so."""
        result: list[tuple[str, list[str]]] = []
        exits: dict[str, str] = {}
        for block in self._kernel.blocks:
            label, lines = block.label, list[str]()
            for line in block.lines:
                call = parse_call(line)
                if call is None or call.callee not in WAITS:
                    lines.extend(self._rewrite(line, call))
                    continue
                before, following, after = self._wait(line, call, WAITS[call.callee])
                result.append((label, [*lines, *before]))
                label, lines = following, after
            exits[block.label] = label
            result.append((label, lines))
        return [(label, [_with_exits(line, exits) for line in lines]) for label, lines in result]

    def _rewrite(self, line: str, call: Call | None) -> list[str]:
        if line.startswith("ret "):
            return ["call void @xjit_sim_exit(ptr %xjit.thread)", "br label %xjit.end"] if self._has_start else [line]
        if call is not None:
            if call.callee.startswith(THREAD_FACT):
                return self._thread_fact(call, call.callee.removeprefix(THREAD_FACT))
            if call.callee in FENCES:
                return self._fence("")
            if call.callee in FENCES_OF_BLOCK or call.callee == WAIT_FOR_COPIES:
                return []
            if call.callee == COPY_TO_SHARED:
                return self._copy_to_shared(call)
            if call.callee.startswith("llvm.nvvm."):
                return [self._function(line, call)]
            if not call.callee.startswith("llvm."):
                raise CompileError(f"it calls @{call.callee}, which the host does not have")
        if line.startswith("fence "):
            return self._fence(line)
        lines = [line] if self._checks is None else self._checks.rewrite(line)
        return [host_line(text, self._drops_metadata) for text in lines]

    def _thread_fact(self, call: Call, fact: str) -> list[str]:
        address, index = self._value("address"), self._value("index")
        load = "{result} = load i32, ptr {address}, align 4"
        if fact in FIELDS_OF_FACTS:
            lines, field = (load,), fact
        elif fact in LANE_FACTS:
            lines, field = (load.replace("result", "index"), *LANE_FACTS[fact]), "index"
        else:
            raise CompileError(f"it asks for '{fact}', which the host does not have")
        names = {"result": call.result, "address": address, "index": index}
        names |= {"lane": self._value("lane"), "bit": self._value("bit")}
        pointer = f"{address} = getelementptr i8, ptr %xjit.thread, i64 {THREAD.offsets[field]}"
        return [pointer, *(line.format(**names) for line in lines)]

    def _copy_to_shared(self, call: Call) -> list[str]:
        """An asynchronous copy of 16 bytes, done at once; zeros where its last operand, the bytes to read, is 0."""
        destination, source, count = (call.operand(number) for number in range(3))
        kind, read, none, value = COPIED, self._value("read"), self._value("none"), self._value("copied")
        lines = [
            f"{read} = load {kind}, ptr addrspace(1) {source}, align 16",
            f"{none} = icmp eq i32 {count}, 0",
            f"{value} = select i1 {none}, {kind} zeroinitializer, {kind} {read}",
            f"store {kind} {value}, ptr addrspace(3) {destination}, align 16",
        ]
        return [text for line in lines for text in self._rewrite(line, None)]

    def _fence(self, line: str) -> list[str]:
        lines = ["call void @xjit_sim_fence(ptr %xjit.thread)"] if self._sanitize else []
        return [*lines, _SCOPE.sub("", line)] if line else lines

    def _function(self, line: str, call: Call) -> str:
        function = host_function(call.callee)
        if function is None:
            raise CompileError(f"it uses the intrinsic {call.callee}, which the host does not have")
        return host_line(line.replace(f"@{call.callee}(", f"@{function}("), self._drops_metadata)

    def _wait(self, line: str, call: Call, wait: Wait) -> tuple[list[str], str, list[str]]:
        """The lines up to the suspend point, the label behind it, and the lines there."""
        self.sites.append(line)
        site = len(self.sites) - 1

        def operand(number: int | None) -> str:
            return "0" if number is None else call.operand(number)

        lines, value = self._as_i64(call, wait)
        mask = operand(wait.mask)
        if wait.unit is not None:
            lines, mask, value = self._registers(call), "-1", f"ptrtoint (ptr @{matrix_function(wait.unit)} to i64)"
        state, following = self._value("state"), f"xjit.resume.{site}"
        lines += [
            f"call void @xjit_sim_post(ptr %xjit.thread, i32 {int(wait.state)}, i32 {site}, i32 {int(wait.op)}, "
            f"i32 {mask}, i64 {value}, i32 {operand(wait.operand)}, i32 {operand(wait.clamp)})",
            f"{state} = call i8 @llvm.coro.suspend(token none, i1 false)",
            f"switch i8 {state}, label %xjit.end [ i8 0, label %{following} i8 1, label %xjit.end ]",
        ]
        if not call.result:
            return lines, following, []
        return lines, following, self._sums(call) if wait.unit is not None else self._result(call, wait)

    def _registers(self, call: Call) -> list[str]:
        """Puts the operands of a matrix unit where the other lanes find them."""
        lines: list[str] = []
        for number in range(len(call.arguments)):
            text = call.arguments[number]
            kind = call.vector_type(number) if text.startswith("<") else call.operand_type(number)
            value = text.removeprefix(kind).strip()
            bits = "i64" if kind == "double" else "i32"
            raw, wide = self._value("bits"), self._value("wide")
            lines.append(f"{raw} = bitcast {kind} {value} to {bits}")
            lines.append(f"{wide} = {'zext i32' if bits == 'i32' else 'bitcast i64'} {raw} to i64")
            lines += self._register(number, f"store i64 {wide}, ptr {{}}, align 8")
        return lines

    def _sums(self, call: Call) -> list[str]:
        """The struct of what a matrix unit left in place of its last operands."""
        kinds = [kind.strip() for kind in call.result_type.strip("{ }").split(",")]
        lines, whole = list[str](), "poison"
        for member, kind in enumerate(kinds):
            raw, bits, value = self._value("given"), self._value("bits"), self._value("value")
            narrow = "i64" if kind == "double" else "i32"
            lines += self._register(len(call.arguments) - len(kinds) + member, f"{raw} = load i64, ptr {{}}, align 8")
            lines.append(f"{bits} = {'trunc' if narrow == 'i32' else 'bitcast'} i64 {raw} to {narrow}")
            lines.append(f"{value} = bitcast {narrow} {bits} to {kind}")
            following = call.result if member == len(kinds) - 1 else self._value("sums")
            lines.append(f"{following} = insertvalue {call.result_type} {whole}, {kind} {value}, {member}")
            whole = following
        return lines

    def _register(self, number: int, access: str) -> list[str]:
        """An access of a register that lanes share; `{}` stands for its address."""
        address = self._value("register")
        offset = THREAD.offsets[f"register.{number}"]
        return [f"{address} = getelementptr i8, ptr %xjit.thread, i64 {offset}", access.format(address)]

    def _as_i64(self, call: Call, wait: Wait) -> tuple[list[str], str]:
        """The value that a thread brings along, as an i64."""
        if wait.value is None:
            return [], "0"
        kind, value, lines = call.operand_type(wait.value), call.operand(wait.value), list[str]()
        if kind == "i64":
            return [], value
        if kind == "float":
            bits = self._value("bits")
            lines.append(f"{bits} = bitcast float {value} to i32")
            kind, value = "i32", bits
        wide = self._value("wide")
        lines.append(f"{wide} = {'sext' if wait.is_signed else 'zext'} {kind} {value} to i64")
        return lines, wide

    def _result(self, call: Call, wait: Wait) -> list[str]:
        """What the exchange gave, in the type of the call."""
        given, kind = self._value("given"), call.result_type
        lines = [f"{given} = call i64 @xjit_sim_result(ptr %xjit.thread)"]
        plain = kind.strip("{ }").split(",")[0] if wait.pair else kind
        result = self._value("value") if wait.pair else call.result
        if plain == "float":
            bits = self._value("bits")
            lines += [f"{bits} = trunc i64 {given} to i32", f"{result} = bitcast i32 {bits} to float"]
        else:
            lines.append(f"{result} = trunc i64 {given} to {plain}")
        if wait.pair:
            flag, bit, first = self._value("flag"), self._value("bit"), self._value("first")
            lines += [
                f"{flag} = call i32 @xjit_sim_flag(ptr %xjit.thread)",
                f"{bit} = trunc i32 {flag} to i1",
                f"{first} = insertvalue {kind} poison, {plain} {result}, 0",
                f"{call.result} = insertvalue {kind} {first}, i1 {bit}, 1",
            ]
        return lines

    def _value(self, hint: str) -> str:
        self._number += 1
        return f"%xjit.{hint}.{self._number}"


def host_line(line: str, drops_metadata: bool) -> str:
    """A line without address spaces and scopes of synchronisation, which the host has not."""
    line = _CAST.sub("bitcast", _ADDRESS_SPACE.sub("", line))
    if "@llvm." in line:
        line = _ATTRIBUTE_GROUP.sub("", _MANGLED_POINTER.sub("p0", line))
    return _METADATA.sub("", _SCOPE.sub("", line)) if drops_metadata else _SCOPE.sub("", line)


def host_type(text: str) -> str:
    """A type with one address space."""
    return _ADDRESS_SPACE.sub("", text)


def _with_exits(line: str, exits: dict[str, str]) -> str:
    if " = phi " not in line:
        return line
    return _LABEL_OF_PHI.sub(lambda match: f", %{exits.get(match[1], match[1])} ]", line)
