"""Expected errors: comments `expected-error @below {{text}}` say which errors a text has to give, and where."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from xjit.hlo.diagnostics import HloError

__all__ = ["SPLIT", "check_expectations"]

SPLIT = re.compile(r"^// -----[^\n]*(?:\n|\Z)", re.M)
"""The line between parts of a file."""

_EXPECTED = re.compile(r"expected-error(-re)?\s*(?:@([+-]\d+|below|above))?\s*\{\{(.*?)\}\}")
_NEAR = {"below": 1, "above": -1, None: 0}


def check_expectations(text: str, first_line: int, errors: Sequence[HloError]) -> int:
    """Returns 0 if the errors are those that the text expects; prints what is missing, or too much, and returns 1."""
    expected: list[tuple[int, str, bool]] = []
    lines = text.splitlines()
    for number, line in enumerate(lines):
        for match in _EXPECTED.finditer(line):
            where = match.group(2)
            offset = _NEAR[where] if where in _NEAR else int(where)
            target = number + offset
            while where == "below" and target < len(lines) and _EXPECTED.search(lines[target]):
                target += 1
            expected.append((target + first_line, match.group(3), bool(match.group(1))))
    status = 0
    for error in errors:
        found = next((e for e in expected if _fits(e, error)), None)
        if found is None:
            print(f"unexpected error: {error}", file=sys.stderr)
            status = 1
        else:
            expected.remove(found)
    for line, message, _ in expected:
        print(f'line {line}: expected error "{message}" was not produced', file=sys.stderr)
        status = 1
    return status


def _fits(expected: tuple[int, str, bool], error: HloError) -> bool:
    line, message, is_expression = expected
    matches = re.search(message, error.message) if is_expression else message in error.message
    return bool(matches) and error.line == line
