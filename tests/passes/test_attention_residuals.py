"""Attention in loops that `attention-residuals` must leave alone, as changes of its first case."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.pass_cases import CASES, read_cases
from xjit.text.parser import parse_hlo

CASE = read_cases(CASES / "fusion" / "attention_residuals.hlo")[0]


def wide_positions(text: str) -> str:
    """The second loop slices with another type of integers than the first."""
    before, gradient = text.split("gradient {")
    gradient, main = gradient.split("ENTRY")
    gradient = gradient.replace("z = s32[] constant(0)  u = s32[] subtract(one, i)",
                                "z = s64[] constant(0)  o = s32[] subtract(one, i)  u = s64[] convert(o)")  # fmt: skip
    return f"{before}gradient {{{gradient}ENTRY{main}"


def long_chain(text: str) -> str:
    """What is added to the scores takes more steps than Python's stack has frames for, in a recursion."""
    steps = [f"  c{n} = f32[3,5] negate({f'c{n - 1}' if n else 'bias'})\n" for n in range(570)]
    return text.replace("  bb = f32[2,3,5] broadcast(bias)", f"{''.join(steps)}  bb = f32[2,3,5] broadcast(c569)")


@pytest.mark.parametrize("change", [wide_positions, long_chain])
def test_left_alone(change: Callable[[str], str]) -> None:
    text = change(CASE.before)
    assert text != CASE.before
    for found, expected in ((CASE.before, True), (text, False)):
        (one,) = CASE.passes()
        assert one.run(parse_hlo(found)) is expected
