"""A module as several modules, each handed out as soon as it is big enough: code generation runs beside emission.

Every function is defined in one part and declared in the others that use it; private constants go to every part that
reads them. Names that were internal become visible to the other parts, so the parts must be linked by themselves.
Which function goes where depends on the module alone.
"""

from __future__ import annotations

import enum
import itertools
import re
from collections.abc import Callable, Iterable

from xjit.llvm.function import Function, global_name
from xjit.llvm.library import Library
from xjit.llvm.module import Declaration, Module

PART_BYTES = 48_000
"""Text per part; LLVM takes about 40 ms for it, and 3 ms for any module."""

COLD_BYTES = 4_000
"""Cold functions of this size together are worth a part of their own: LLVM takes a third of the time for it, and half a
millisecond for any module."""

COLD_FUNCTION_BYTES = 800
"""Text that takes LLVM as long as any function, however short: a third of a millisecond where it optimizes."""

COLD_LIBRARY_BYTES = 6_000
"""The same of libraries, whose parts every program that calls them has to link: a tenth of a millisecond for each."""

_REFERENCE = re.compile(r'@("[^"]*"|[A-Za-z$._0-9-]+)')


class PartKind(enum.Enum):
    """What a part holds, which says how to compile it."""

    WHOLE = enum.auto()  # all of the module, or all but its cold functions
    WHOLE_COLD = enum.auto()  # what that leaves, or all of the module: not worth optimizing
    HOT = enum.auto()  # one of many
    COLD = enum.auto()  # the last of these: not worth optimizing


UNOPTIMIZED_PARTS = frozenset((PartKind.WHOLE_COLD, PartKind.COLD))

PartSink = Callable[[str, PartKind], None]
"""Takes the text of a part and what it holds. Parts refer to earlier ones, and to libraries, only."""

LibrarySink = Callable[[Library], None]
"""Takes a library that later parts refer to."""


class PartWriter:
    """Cuts a growing module into parts. Call `advance` now and then, and `finish` once the module is complete.

    A function is written after everything it calls and when all its blocks are terminated. Cold functions that no other
    calls come last.
    Variables cannot be in two parts: from the first one on, the rest of the module stays whole.
    """

    def __init__(
        self, module: Module, sink: PartSink, library_sink: LibrarySink, cold_bytes: int | None = None
    ) -> None:
        self._module = module
        self._cold_bytes = COLD_BYTES if cold_bytes is None else cold_bytes
        self._sink = sink
        self._library_sink = library_sink
        self._seen = 0
        self._open: list[Function] = []
        self._cold: dict[str, Function] = {}  # by the name that texts call it
        self._texts: dict[str, str] = {}
        self._size = 0
        self._libraries: set[str] = set()
        self._is_cut = False

    def advance(self) -> None:
        """Writes a part if enough functions are complete."""
        self._write_libraries()
        self._collect()
        if self._size >= PART_BYTES and not self._has_variables():
            self._cut(PartKind.HOT)

    def finish(self, is_short: bool = False) -> None:
        """Writes the rest; the module must be complete. If a run of it `is_short`, nothing is worth optimizing."""
        self.advance()
        assert not self._open, f"@{self._open[0].name} is not complete"
        cold_bytes = sum(len(function.to_text()) + COLD_FUNCTION_BYTES for function in self._cold.values())
        if cold_bytes < self._cold_bytes or self._has_variables():
            self._take(self._cold.values())
            self._cold = {}
        hot, cold = (PartKind.HOT, PartKind.COLD) if self._is_cut else (PartKind.WHOLE, PartKind.WHOLE_COLD)
        if not self._is_cut and (is_short or not (self._texts and self._cold)):
            is_cold = is_short or all(function.is_cold for function in self._module.functions.values())
            self._sink(self._module.to_text(), cold if is_cold else hot)
            return
        if self._texts:
            self._cut(hot)
        if self._cold:
            self._take(self._cold.values())
            self._cut(cold)

    def _write_libraries(self) -> None:
        for name, library in self._module.libraries.items():
            if name not in self._libraries:
                self._libraries.add(name)
                self._library_sink(library)

    def _collect(self) -> None:
        """Takes the functions that were completed since the last time."""
        functions = self._module.functions
        new = [*self._open, *itertools.islice(functions.values(), self._seen, None)]
        self._seen = len(functions)
        self._open = []
        called: list[str] = []
        for function in new:
            if not function.is_complete:
                self._open.append(function)
            elif function.is_cold:
                self._cold[function.operand[1:]] = function
            else:
                called += self._take([function])
        while called and self._cold:  # cold functions that others call
            names = dict.fromkeys(name for text in called for name in _REFERENCE.findall(text) if name in self._cold)
            called = self._take([self._cold.pop(name) for name in names])

    def _take(self, functions: Iterable[Function]) -> list[str]:
        texts = {function.name: function.to_text() for function in functions}
        self._texts.update(texts)
        self._size += sum(map(len, texts.values()))
        return list(texts.values())

    def _has_variables(self) -> bool:
        """An external one counts, too: the module may define it in the end."""
        return not all(variable.may_be_copied for variable in self._module.globals.values())

    def _cut(self, kind: PartKind) -> None:
        self._sink(_part_text(self._module, self._texts), kind)
        self._texts, self._size, self._is_cut = {}, 0, True


def library_parts(library: Library) -> list[tuple[str, PartKind]]:
    """Returns the parts of a library. Where there are several, names that were internal start with the library's: other
    libraries may have functions of the same names.
    """
    module, parts = library.make_module(), list[tuple[str, PartKind]]()
    PartWriter(module, lambda text, kind: parts.append((text, kind)), lambda _: None, COLD_LIBRARY_BYTES).finish()
    if len(parts) == 1:  # of a cut module it has all functions visible
        return [(module.to_text(), parts[0][1])]
    internal = {function.operand[1:]: function.name for function in module.functions.values() if function.linkage}

    def own_name(reference: re.Match[str]) -> str:
        name = internal.get(reference[1])
        return reference[0] if name is None else global_name(f"{library.name}.{name}")

    return [(_REFERENCE.sub(own_name, text), kind) for text, kind in parts]


def with_all_visible(text: str) -> str:
    """Returns the text of a module, or of functions, with all functions visible to other modules."""
    return text.replace("define internal ", "define ")


def _part_text(module: Module, texts: dict[str, str]) -> str:
    """Returns the module that defines the functions of `texts`, with everything they refer to."""
    by_operand = {function.operand[1:]: function for function in module.functions.values()}
    declarations = {declaration.operand[1:]: declaration for declaration in module.declarations.values()}
    globals_ = {variable.value.text[1:]: variable.to_text() for variable in module.globals.values()}
    defined = {module.functions[name].operand[1:] for name in texts}
    bodies = [with_all_visible(text) for text in texts.values()]
    used = _references(bodies, defined, globals_)
    functions = [_declaration(by_operand[name]) for name in used if name in by_operand]
    externals = [declarations[name] for name in used if name in declarations]
    sections = (
        [module.header],
        [globals_[name] for name in used if name in globals_],
        bodies,
        [declaration.to_text() for declaration in (*functions, *externals)],
        list(module.metadata),
    )
    return "\n\n".join("\n".join(section) for section in sections if section) + "\n"


def _references(bodies: Iterable[str], defined: set[str], globals_: dict[str, str]) -> dict[str, None]:
    """Returns the names that texts refer to, and those that the initializers of these refer to."""
    used: dict[str, None] = {}
    pending = list(bodies)
    while pending:
        for reference in dict.fromkeys(_REFERENCE.findall(pending.pop())):
            if reference not in used and reference not in defined:
                used[reference] = None
                if reference in globals_:
                    pending.append(globals_[reference])
    return used


def _declaration(function: Function) -> Declaration:
    types = tuple(param.type for param in function.params)
    return Declaration(function.name, function.return_type, types, calling_convention=function.calling_convention)
