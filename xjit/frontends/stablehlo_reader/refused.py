"""What jaxlib's converter does not survive: functions without a body or recursive, and constants of six bits."""

from __future__ import annotations

import linecache
from typing import Any, Final

from xjit.dataclass import dataclass
from xjit.hlo.diagnostics import Span, Unsupported

_SIX_BITS: Final = "f6E"
"""In the name of a tensor's type."""

_CALLEES: Final = {"call": "callee", "composite": "decomposition", "custom_call": "called_computations"}
"""By operation, in any dialect: the attribute that names functions."""


@dataclass(frozen=True, slots=True)
class Source:
    """What a program was read from: the name of a file, and the text, if it is one."""

    file: str
    text: str = ""

    def span(self, op: Any) -> Span | None:
        """The line of the text that an operation was parsed from, or the line of Python in its location."""
        from jaxlib.mlir import ir

        location = op.location
        while isinstance(location, ir.NameLoc):
            location = location.child_loc
        if not isinstance(location, ir.FileLineColLoc):
            return None
        name, line, column = location.filename, location.start_line, location.start_col
        if name != "-":
            return Span(line, column, 1, linecache.getline(name, line).rstrip("\n"), name)
        lines = self.text.split("\n")
        return Span(line, column, 1, lines[line - 1] if 0 < line <= len(lines) else "", self.file)


def check_program(module: Any, source: Source) -> None:
    """Checks a module of MLIR. Errors: Unsupported, at the function or the constant."""
    functions = {op.attributes["sym_name"].value: op for op in module.body.operations if _is_function(op)}
    for op in functions.values():
        if not len(op.regions[0].blocks):
            raise Unsupported(f"the function {op.attributes['sym_name']} has no body", source.span(op))
    callees = {name: _callees(op, source) & functions.keys() for name, op in functions.items()}
    while leaves := [name for name, called in callees.items() if not called]:
        for name in leaves:
            del callees[name]
        for called in callees.values():
            called.difference_update(leaves)
    for name in callees:
        if _reaches(callees, name):
            op = functions[name]
            raise Unsupported(f"the function {op.attributes['sym_name']} calls itself", source.span(op))


def _is_function(op: Any) -> bool:
    return op.operation.name == "func.func"


def _callees(function: Any, source: Source) -> set[str]:
    """The functions that one calls. Errors: Unsupported for its constants."""
    from jaxlib.mlir import ir

    found: set[str] = set()
    refused: list[Any] = []

    def visit(op: Any) -> Any:
        kind = op.name.rpartition(".")[2]
        if kind in _CALLEES and _CALLEES[kind] in op.attributes:
            names: Any = op.attributes[_CALLEES[kind]]
            found.update(name.value for name in ([names] if isinstance(names, ir.FlatSymbolRefAttr) else names))
        elif kind == "constant" and _SIX_BITS in str(op.results[0].type):
            refused.append(op)
        return ir.WalkResult.ADVANCE

    function.operation.walk(visit)
    if refused:
        raise Unsupported(f"a constant of type {refused[0].results[0].type}", source.span(refused[0]))
    return found


def _reaches(callees: dict[str, set[str]], start: str) -> bool:
    """Whether a function's calls lead back to it."""
    seen, waiting = set[str](), list(callees[start])
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(callees[name])
    return start in seen
