"""Passes as text: `cse`, `call-inliner{single_call_site=true,max_instructions=100}`, and lists of such, with commas.

The fields of a pass's dataclass are its options; their types say how a value is read.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, get_type_hints

from xjit.hlo.diagnostics import InvalidArgument
from xjit.passes.framework.base import HloModulePass

Passes = Mapping[str, type[HloModulePass]]


def _read_bool(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


_READERS: Mapping[Any, tuple[str, Callable[[str], Any]]] = {
    bool: ("true or false", _read_bool),
    int: ("an integer", lambda text: int(text, 0)),
    float: ("a number", float),
    str: ("text", str),
}


def canonical(name: str) -> str:
    """Returns the dashed spelling of a pass name: `hlo_dce` and `hlo-dce` are one."""
    return name.strip().replace("_", "-").lower()


def find_pass(passes: Passes, name: str) -> type[HloModulePass]:
    """Returns the pass of that name or alias; InvalidArgument with the nearest names if there is none."""
    found = passes.get(name) or passes.get(canonical(name))
    if found is not None:
        return found
    raise InvalidArgument(f"unknown pass '{name}'", None, _nearest(canonical(name), list(passes), "known passes"))


def make_pass(passes: Passes, text: str) -> HloModulePass:
    """Returns the pass that a text describes: its name, then perhaps options in braces.

    InvalidArgument for an unknown pass or option, for a value of the wrong type, and for braces out of place.
    """
    name, brace, rest = text.partition("{")
    cls = find_pass(passes, name.strip())
    if not brace:
        return cls()
    body, closing, behind = rest.partition("}")
    if not closing or behind.strip() or "{" in body:
        raise InvalidArgument(f"pass '{text}': expected {name.strip()}{{option=value,...}}")
    return cls(**dict(_option(cls, item) for item in body.split(",") if item.strip()))


def split_pass_list(text: str) -> list[str]:
    """Splits a list at its commas outside of braces; empty entries are dropped."""
    entries, depth = [""], 0
    for character in text:
        depth += (character == "{") - (character == "}")
        if character == "," and depth <= 0:
            entries.append("")
        else:
            entries[-1] += character
    return [entry.strip() for entry in entries if entry.strip()]


def option_types(cls: type[HloModulePass]) -> dict[str, Any]:
    """Returns the options of a pass, by name, with their types."""
    if not dataclasses.is_dataclass(cls):
        return {}
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def _option(cls: type[HloModulePass], text: str) -> tuple[str, Any]:
    written, equals, value = (part.strip() for part in text.partition("="))
    types = option_types(cls)
    name = written.replace("-", "_")
    if name not in types:
        hint = _nearest(name, list(types), "its options") if types else "it has none"
        raise InvalidArgument(f"pass '{cls.name}' has no option '{written}'", None, hint)
    if types[name] not in _READERS:
        raise InvalidArgument(f"option '{name}' of pass '{cls.name}' can only be set from Python")
    expected, read = _READERS[types[name]]
    try:
        if equals:
            return name, read(value)
    except (KeyError, ValueError):
        pass
    raise InvalidArgument(f"option '{name}' of pass '{cls.name}' is {expected}, found '{value}'")


def _nearest(name: str, known: Iterable[str], title: str) -> str:
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else f"{title}: {', '.join(names)}"
