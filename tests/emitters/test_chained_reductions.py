"""Random chains of reductions over rows that one kernel computes, each of which needs some of those before it."""

from __future__ import annotations

import random

import pytest

from tests.support.kernels import check

HEAD = """HloModule m
larger { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] maximum(a, b) }
plus { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
"""


class Chain:
    """Writes the module of a seed: rows of costly elements, and numbers that all of a row share."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        rows, columns = self._random.choice([(0, 38), (3, 38), (0, 100), (5, 17)])
        self._element, self._shared = (
            (f"f32[{rows},{columns}]", f"f32[{rows}]") if rows else (f"f32[{columns}]", "f32[]")
        )
        self._kept, self._reduced = ("0", "1") if rows else ("", "0")
        self._lines = [f"x = {self._element} parameter(0)", "low = f32[] constant(-inf)", "zero = f32[] constant(0)"]
        self._lines.append(f"part = f32[] constant({1 / columns})")
        self._part = self._add(self._shared, "broadcast(part), dimensions={}")
        self._rows = [self._add(self._element, "sine(x)")]
        self._numbers: list[str] = []
        for _ in range(self._random.randint(2, 4)):
            self._numbers.append(self._reduce(self._row()))
        last = self._row()
        self._reduce(last) if self._random.random() < 0.7 else self._add(self._element, f"tanh({last})")

    def text(self) -> str:
        *lines, root = self._lines
        return HEAD + "ENTRY e {\n  " + "\n  ".join([*lines, f"ROOT {root}"]) + "\n}\n"

    def _add(self, shape: str, call: str) -> str:
        name = f"v{len(self._lines)}"
        self._lines.append(f"{name} = {shape} {call}")
        return name

    def _reduce(self, row: str) -> str:
        """The largest element of each row, or the mean."""
        where = f"dimensions={{{self._reduced}}}"
        if self._random.random() < 0.5:
            return self._add(self._shared, f"reduce({row}, low), {where}, to_apply=larger")
        total = self._add(self._shared, f"reduce({row}, zero), {where}, to_apply=plus")
        return self._add(self._shared, f"multiply({total}, {self._part})")

    def _row(self) -> str:
        row = self._random.choice(self._rows)
        if self._numbers:
            row = self._add(self._element, f"subtract({row}, {self._some_numbers()})")
        if self._random.random() < 0.5:
            row = self._add(self._element, f"tanh({row})")
        if self._random.random() < 0.5:
            row = self._add(self._element, f"multiply({row}, {self._random.choice(self._rows)})")
        if self._random.random() < 0.3:
            self._rows.append(row)
        return row

    def _some_numbers(self) -> str:
        first, *others = self._random.sample(self._numbers, self._random.randint(1, len(self._numbers)))
        for other in others:
            first = self._add(self._shared, f"add({first}, {other})")
        return self._add(self._element, f"broadcast({first}), dimensions={{{self._kept}}}")


@pytest.mark.parametrize("seed", range(12))
def test_reductions_that_need_each_other(seed: int) -> None:
    check(Chain(seed).text(), rtol=1e-5, atol=1e-5)
