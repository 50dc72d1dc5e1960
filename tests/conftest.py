"""Runs what tests compile between canaries (`tests.support.guarded_call`), unless a test is marked `unguarded`.

`padded`: results have bytes that nobody writes.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.guarded_call import CTYPES, NATIVE
from xjit.runtime import executable


@pytest.fixture(scope="session", autouse=True)
def _calls_between_canaries() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executable, "make_fast_call", NATIVE)
        patch.setattr(executable, "CtypesCall", CTYPES)
        yield


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Turns the canaries on or off for the executables that this test makes."""
    NATIVE.is_enabled = CTYPES.is_enabled = item.get_closest_marker("unguarded") is None
    NATIVE.has_padding = CTYPES.has_padding = item.get_closest_marker("padded") is not None
