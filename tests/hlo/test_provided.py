"""What a layer above gives: nothing before, then what was given last."""

from __future__ import annotations

import pytest

from xjit.hlo.diagnostics import FailedPrecondition
from xjit.hlo.provided import Provided


def test_what_nothing_provides_says_so() -> None:
    length: Provided[[str], int] = Provided("lengths")
    with pytest.raises(FailedPrecondition, match="nothing provides lengths yet: `import xjit` does"):
        length("abc")


def test_calls_go_to_what_is_provided() -> None:
    length: Provided[[str], int] = Provided("lengths")
    length.provide(len)
    assert length("abc") == 3
    length.provide(lambda text: -len(text))
    assert length("abc") == -3
