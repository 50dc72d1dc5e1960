"""Checks text against CHECK lines, as LLVM's FileCheck does: what XLA's own tests expect of a printed module.

Known are CHECK, CHECK-LABEL (an ordinary CHECK here), CHECK-SAME, CHECK-NEXT, CHECK-NOT, CHECK-DAG and CHECK-COUNT-n, `{{regex}}`,
`[[NAME:regex]]` and `[[NAME]]`. No regular expression matches the end of a line. Runs of white space match any run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_DIRECTIVE = re.compile(r"CHECK(?:-(SAME|NEXT|NOT|DAG|LABEL|COUNT-\d+))?:[ \t]*(.*)")
_PIECE = re.compile(r"\{\{(.*?)\}\}|\[\[(\w+):(.*?)\]\](?!\])|\[\[(\w+)\]\]")


def filecheck(text: str, checks: str) -> str:
    """Returns the first CHECK line that the text does not satisfy; "" if it satisfies them all."""
    run = _Run(text)
    for line in checks.splitlines():
        match = _DIRECTIVE.search(line)
        if match and not run.step(match[1] or "", match[2].strip()):
            return line.strip()
    return "" if run.end() else "CHECK-NOT at the end"


@dataclass
class _Run:
    """A position in the text (behind the last match), the start of a group of DAGs, pending NOTs, bound variables."""

    text: str
    position: int = 0
    group: int = 0
    in_group: bool = False
    absent: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)

    def step(self, kind: str, pattern: str) -> bool:
        if kind == "NOT":
            self.absent.append(pattern)
            return True
        if kind == "DAG":
            return self._unordered(pattern)
        self.in_group = False
        count = int(kind[6:]) if kind.startswith("COUNT-") else 1
        return all(self._ordered(kind, pattern) for _ in range(count))

    def end(self) -> bool:
        """Whether nothing that must be absent follows the last match."""
        return self._check_absent(len(self.text))

    def _unordered(self, pattern: str) -> bool:
        if not self.in_group:
            self.group, self.in_group = self.position, True
        match = self._search(pattern, self.group, len(self.text))
        if match is None:
            return False
        self.position = max(self.position, match.end())
        return True

    def _ordered(self, kind: str, pattern: str) -> bool:
        begin, end = self.position, len(self.text)
        if kind == "NEXT":
            begin = self._line_end(begin) + 1
        if kind in ("NEXT", "SAME"):
            end = self._line_end(begin)
        match = self._search(pattern, begin, end)
        if match is None or not self._check_absent(match.start()):
            return False
        self.position = match.end()
        return True

    def _line_end(self, position: int) -> int:
        found = self.text.find("\n", position)
        return len(self.text) if found < 0 else found

    def _check_absent(self, end: int) -> bool:
        pending, self.absent = self.absent, []
        return not any(self._search(pattern, self.position, end) for pattern in pending)

    def _search(self, pattern: str, begin: int, end: int) -> re.Match[str] | None:
        match = re.compile(self._regex(pattern), re.MULTILINE).search(self.text, begin, end)
        if match is not None:
            self.variables.update(match.groupdict())
        return match

    def _regex(self, pattern: str) -> str:
        """The pattern as a regular expression; variables that it binds are its named groups."""
        parts, at, bound = list[str](), 0, set[str]()
        for piece in _PIECE.finditer(pattern):
            parts.append(_literal(pattern[at : piece.start()]))
            at = piece.end()
            if piece[1] is not None:
                parts.append(f"(?:{_on_a_line(piece[1])})")
            elif piece[2] is not None:
                parts.append(f"(?P<{piece[2]}>{_on_a_line(piece[3])})")
                bound.add(piece[2])
            elif piece[4] in bound:
                parts.append(f"(?P={piece[4]})")
            else:
                parts.append(re.escape(self.variables.get(piece[4], "\0")))
        return "".join([*parts, _literal(pattern[at:])])


def _on_a_line(regex: str) -> str:
    """The regular expression, in which what is excluded from a set excludes the end of the line, too."""
    return regex.replace("[^", r"[^\n")


def _literal(text: str) -> str:
    return r"[ \t]+".join(re.escape(word) for word in re.split(r"[ \t]+", text))
