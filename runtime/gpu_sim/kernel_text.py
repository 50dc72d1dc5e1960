"""A kernel's IR in one canonical form, cut into parts that can be rewritten line by line.

LLVM parses, verifies and prints the module; before that, what the kernel calls is inlined, as all threads of a block
must be able to wait anywhere, and every value gets a name.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping

import llvmlite.binding as llvm

from xjit.dataclass import dataclass
from xjit.hlo.diagnostics import CompileError
from xjit.llvm.function import global_name
from xjit.runtime.machine_code.jit import parse_and_verify, target_machine

_GLOBAL = re.compile(
    r'(?P<name>@(?:"[^"]+"|[\w.$-]+)) = [a-z_ ]*?(?:addrspace\((?P<space>\d+)\) )?'
    r"(?P<definition>(?P<kind>global|constant) .*?(?:, align (?P<align>\d+))?)"
)
_HEADER = re.compile(r'define [^@]*(?P<name>@(?:"[^"]+"|[\w.$-]+))\((?P<params>.*)\)(?P<rest>[^()]*)\{')
_LABEL = re.compile(r'(?P<label>"[^"]+"|[\w.$-]+):')


@dataclass(frozen=True, slots=True)
class KernelParameter:
    """A parameter: its type, its name with the %, its attributes."""

    type: str
    name: str
    attributes: str

    @property
    def is_pointer(self) -> bool:
        """Whether it is the address of a buffer."""
        return self.type.startswith("ptr")

    @property
    def alignment(self) -> int:
        """Bytes: what the kernel relies on."""
        match = re.search(r"\balign (\d+)", self.attributes)
        return int(match[1]) if match else 1


@dataclass(frozen=True, slots=True)
class BasicBlock:
    """A label without its %, and the lines of the block; the last one is the terminator."""

    label: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GlobalVariable:
    """A global of `size` bytes: `name` has its @, `definition` is what follows linkage and address space."""

    name: str
    address_space: int
    is_constant: bool
    size: int
    align: int
    definition: str

    @property
    def is_shared(self) -> bool:
        """Whether it is shared memory."""
        return self.address_space == _SHARED

    @property
    def is_dynamic(self) -> bool:
        """Whether the launch says how large it is."""
        return self.is_shared and self.size == 0

    def with_size(self, size: int) -> GlobalVariable:
        """The same of another size."""
        return dataclasses.replace(self, size=size)


_SHARED = 3


@dataclass(frozen=True, slots=True)
class KernelText:
    """The parts of a kernel's module; `attributes` are those of the kernel itself, as LLVM prints them."""

    parameters: tuple[KernelParameter, ...]
    attributes: str
    blocks: tuple[BasicBlock, ...]
    globals: tuple[GlobalVariable, ...]
    types: tuple[str, ...]
    metadata: tuple[str, ...]

    @property
    def lines(self) -> Iterator[str]:
        """The instructions."""
        for block in self.blocks:
            yield from block.lines


def read_kernel(ir_text: str, name: str) -> KernelText:
    """Returns the parts of the kernel `name`. CompileError if LLVM rejects the text or there is no such kernel."""
    text, sizes = _canonical(ir_text, name)
    lines = text.splitlines()
    headers = [number for number, line in enumerate(lines) if line.startswith("define ")]
    own = [number for number in headers if _name_of(lines[number]) == global_name(name)]
    if not own:
        raise CompileError(f"its module does not define '{name}'")
    if len(headers) > 1:
        others = ", ".join(_name_of(lines[number]) for number in headers if number not in own)
        raise CompileError(f"it calls functions that cannot be inlined: {others}")
    start = own[0]
    header = _HEADER.fullmatch(lines[start])
    assert header is not None, f"the header of a function has another form: {lines[start]}"
    groups = dict(_attribute_group(line) for line in lines if line.startswith("attributes "))
    return KernelText(
        tuple(map(_parameter, split_top_level(header["params"]))),
        " ".join(groups.get(word, word) for word in header["rest"].split()),
        tuple(_blocks(lines[start + 1 : lines.index("}", start)])),
        tuple(_global(line, sizes) for line in lines if line.startswith("@")),
        tuple(line for line in lines if line.startswith("%")),
        tuple(line for line in lines if line.startswith("!")),
    )


def _canonical(ir_text: str, name: str) -> tuple[str, dict[str, int]]:
    """The module as LLVM prints it, with all calls inlined and everything named; bytes of the globals by name."""
    with target_machine() as machine, llvm.create_context() as context:
        module = parse_and_verify(ir_text.replace(" noinline", ""), context)
        try:
            for function in module.functions:
                if not function.is_declaration and function.name != name:
                    function.add_function_attribute("alwaysinline")
                    function.linkage = "internal"
            builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=0))
            passes = llvm.create_new_module_pass_manager()
            passes.add_always_inliner_pass()
            passes.add_global_dead_code_eliminate_pass()
            passes.add_instruction_namer_pass()
            passes.run(module, builder)
            data = machine.target_data
            sizes = {g.name: data.get_abi_size(g.global_value_type) for g in module.global_variables}
            return str(module), sizes
        finally:
            module.close()


def split_top_level(text: str) -> list[str]:
    """Cuts at the commas that are in no brackets or quotes: `store <2 x i8> <i8 1, i8 2>, ptr %p` has two parts."""
    parts, depth, start, quoted = list[str](), 0, 0, False
    for position, character in enumerate(text):
        if character == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif character in "(<[{":
            depth += 1
        elif character in ")>]}":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def _blocks(lines: list[str]) -> Iterator[BasicBlock]:
    """The blocks of a body; a switch becomes one line."""
    label, collected, pending = "", list[str](), ""
    for line in lines:
        code = line.split(" ; ")[0].strip() if line.startswith(" ") else line.split(";")[0].strip()
        if not code:
            continue
        if not line.startswith(" ") and (match := _LABEL.fullmatch(code)):
            if label:
                yield BasicBlock(label, tuple(collected))
            label, collected = match["label"], []
            continue
        pending = f"{pending} {code}".strip()
        if pending.count("[") == pending.count("]"):
            collected.append(pending)
            pending = ""
    yield BasicBlock(label, tuple(collected))


def _parameter(text: str) -> KernelParameter:
    kind, *words, name = re.findall(r'addrspace\(\d+\)|\S+\([^()]*\)|%"[^"]*"|<[^>]*>|\S+', text)
    return KernelParameter(kind, name, " ".join(word for word in words if not word.startswith("addrspace")))


def _global(line: str, sizes: Mapping[str, int]) -> GlobalVariable:
    match = _GLOBAL.fullmatch(line)
    assert match is not None, f"a global has another form: {line}"
    size = sizes[match["name"][1:].strip('"')]
    is_constant, align = match["kind"] == "constant", int(match["align"] or 1)
    return GlobalVariable(match["name"], int(match["space"] or 0), is_constant, size, align, match["definition"])


def _attribute_group(line: str) -> tuple[str, str]:
    _, number, _, words = line.split(" ", 3)
    return number, words.strip("{} ")


def _name_of(header: str) -> str:
    match = _HEADER.fullmatch(header)
    return match["name"] if match else header
