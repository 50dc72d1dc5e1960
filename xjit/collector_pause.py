"""Pauses of Python's collector of cycles, while large graphs are built."""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import os
import threading

LARGE_GRAPH = 75_000
"""Objects that a pause leaves behind: some 10,000 instructions. A process that had parsed 40,000 took 1.3 s to exit."""


class CollectorPause(contextlib.ContextDecorator):
    """Keeps the collector of cycles from running: parsing and compiling make a million objects and hardly any garbage.

    Without this, the collector takes up to a quarter of the time. Pauses in several threads nest. Where a pause made a
    large graph, the collections at the end of the process are spared, too (`_freeze_at_exit`).
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._was_enabled = False
        os.register_at_fork(after_in_child=self._after_fork)

    def _after_fork(self) -> None:
        """In the child of a fork no other thread is left that would end its pause."""
        self._lock = threading.Lock()
        if self._depth and self._was_enabled:
            gc.enable()
        self._depth = 0

    def __enter__(self) -> None:
        with self._lock:
            if self._depth == 0:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._depth += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._depth = max(self._depth - 1, 0)  # a fork inside a pause has ended it
            if self._depth == 0:
                if gc.get_count()[0] > LARGE_GRAPH:  # made since the pause began, and not freed
                    _freeze_at_exit()
                if self._was_enabled:
                    gc.enable()


@functools.cache
def _freeze_at_exit() -> None:
    """Spares the end of the process the collections that walk over large graphs: seconds, which free nothing."""
    atexit.register(gc.freeze)


def take_all_for_old() -> None:
    """Spares the next collection the walk over what was made since the last one, where hardly any of that is garbage.

    Where somebody has frozen objects nothing is done: they would not be frozen any more.
    """
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()  # to the oldest generation


collector_pause = CollectorPause()
"""The one of this process."""
