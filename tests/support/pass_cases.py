"""Pass tests as data: HLO files with a module before and after a pass, or one that it must leave alone.

A file is a header and cases:

    // RUN: algebraic-simplifier{is_layout_sensitive=true},hlo-dce   passes with options, in order
    // EQUAL: metadata, control                                  further things that must be equal (see ANNOTATIONS)
    // VALUES: ulps=16 scale=1e-2 devices                        how values are compared; `none`: not at all
    // BEFORE: name of the case
    HloModule ...
    // AFTER
    HloModule ...
    // UNCHANGED: name of the case
    HloModule ...

A line of the header that stands right below BEFORE or UNCHANGED is for that case only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from xjit.hlo import HloComputation, HloInstruction, HloModule
from xjit.hlo.io.printing import HloPrintOptions
from xjit.passes import PASSES
from xjit.passes.framework.base import HloModulePass
from xjit.passes.framework.pass_text import make_pass, split_pass_list

CASES = Path(__file__).resolve().parents[1] / "passes" / "cases"
ANNOTATIONS = ("layouts", "metadata", "control", "sharding", "frontend")
_KEYS = ("RUN", "EQUAL", "VALUES")
_LINE = re.compile(r"// ?([A-Z]+)(?:: *(.*))?$")


@dataclass(frozen=True)
class PassCase:
    """One case; `after` is None if nothing may change. `lines` are the lines of the expected text in the file."""

    path: Path
    name: str
    run: str
    equal: frozenset[str]
    values: dict[str, str]
    before: str
    after: str | None
    lines: tuple[int, int]

    @property
    def id(self) -> str:
        """`theme/file:name`."""
        return f"{self.path.relative_to(CASES).with_suffix('')}:{self.name.replace(' ', '_')}"

    def passes(self) -> list[HloModulePass]:
        """Fresh passes with the options of the case."""
        return [make_pass(PASSES, text) for text in split_pass_list(self.run)]


def read_cases(path: Path) -> list[PassCase]:
    """Returns the cases of a file. AssertionError, with the place, for what is not a case."""
    header: dict[str, str] = {}
    cases: list[PassCase] = []
    for start, key, title, lines in _sections(path):
        if key == "AFTER":
            before = cases.pop()
            assert before.after is None and before.lines == (0, 0), f"{path}:{start}: AFTER without BEFORE"
            end = start + len(lines)
            cases.append(PassCase(**{**vars(before), "after": "\n".join(lines), "lines": (start, end)}))
            continue
        if not key:
            header = {m[1]: m[2] or "" for line in lines if (m := _LINE.match(line)) and m[1] in _KEYS}
            continue
        own = dict(header)
        while lines and (match := _LINE.match(lines[0])) and match[1] in _KEYS:
            own[match[1]] = match[2] or ""
            lines = lines[1:]
        assert key in ("BEFORE", "UNCHANGED"), f"{path}:{start}: unknown section {key}"
        assert own.get("RUN"), f"{path}:{start}: no RUN line"
        equal = frozenset(filter(None, (e.strip() for e in own.get("EQUAL", "").split(","))))
        assert equal <= set(ANNOTATIONS), f"{path}:{start}: EQUAL is one of {ANNOTATIONS}"
        values = dict((v.split("=", 1) if "=" in v else (v, "")) for v in own.get("VALUES", "").split())
        place = (0, 0) if key == "BEFORE" else (-1, -1)
        cases.append(PassCase(path, title, own["RUN"], equal, values, "\n".join(lines), None, place))
    unfinished = [c.name for c in cases if c.lines == (0, 0)]
    assert not unfinished, f"{path}: BEFORE without AFTER: {unfinished}"
    return cases


def _sections(path: Path) -> Iterator[tuple[int, str, str, list[str]]]:
    """Yields (index of the first line, key, title, lines); the header has no key."""
    start, key, title, lines = 0, "", "", list[str]()
    for number, line in enumerate(path.read_text().splitlines()):
        match = _LINE.match(line)
        if match and match[1] in ("BEFORE", "AFTER", "UNCHANGED"):
            yield start, key, title, lines
            start, key, title, lines = number + 1, match[1], match[2] or "", []
        else:
            lines.append(line)
    yield start, key, title, lines


def all_cases() -> list[PassCase]:
    """Returns the cases of all files."""
    return [case for path in sorted(CASES.rglob("*.hlo")) for case in read_cases(path)]


def update_golden(case: PassCase, module: HloModule) -> None:
    """Writes what a pass makes of a module into its file as the expected text."""
    assert case.after is not None, f"{case.id} is UNCHANGED, but it changed"
    options = HloPrintOptions(
        print_metadata="metadata" in case.equal,
        print_layouts="layouts" in case.equal,
        print_percent=False,
        print_program_shape=False,
    )
    text = [line.rstrip() for line in module.to_string(options).strip().splitlines() if line.strip()]
    lines = case.path.read_text().splitlines()
    begin, end = next(c.lines for c in read_cases(case.path) if c.name == case.name)  # earlier ones may have moved it
    lines[begin:end] = [*text, ""]
    case.path.write_text("\n".join(lines).rstrip() + "\n")


class Structure:
    """Numbers instructions so that equal graphs have equal numbers, up to names and the order of instructions.

    One object compares modules with each other; `equal` are the ANNOTATIONS that count.
    """

    def __init__(self, equal: frozenset[str]) -> None:
        self._equal = equal
        self._numbers: dict[object, int] = {}

    def of(self, module: HloModule) -> int:
        """The number of a module: its entry with all that it calls, dead instructions, how many computations there are."""
        known: dict[HloComputation, int] = {}
        for computation in module.make_computation_post_order():
            known[computation] = self._computation(computation, known)
        return self._number(("module", known[module.entry_computation], module.computation_count))

    def _number(self, key: object) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _computation(self, computation: HloComputation, known: dict[HloComputation, int]) -> int:
        keys: dict[HloInstruction, int] = {}
        for i in computation.make_instruction_post_order():
            operands = tuple(keys[o] for o in i.operands)
            called = tuple(known[c] for c in i.called_computations)
            shape = i.shape.to_string(layout="layouts" in self._equal)
            keys[i] = self._number((i.opcode, shape, _attributes(i), operands, called, *self._annotations(i, keys)))
        return self._number((keys[computation.root_instruction], tuple(sorted(keys.values()))))

    def _annotations(self, i: HloInstruction, keys: dict[HloInstruction, int]) -> list[object]:
        found: list[object] = []
        if "metadata" in self._equal:
            found.append(repr(i.metadata))
        if "control" in self._equal:
            found.append(tuple(sorted(keys[p] for p in i.control_predecessors)))
        if "sharding" in self._equal:
            found.append(repr(i.sharding))
        if "frontend" in self._equal:
            found.append(repr(sorted(i.frontend_attributes.items())))
        return found


def _attributes(i: HloInstruction) -> str:
    """Attributes as text; literals by value."""
    return i.literal.digest().hex() if i.opcode == "constant" else repr(i.attributes)
