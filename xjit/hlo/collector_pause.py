"""Pauses of Python's collector of cycles, while large graphs are built."""

from __future__ import annotations

import contextlib
import gc
import os
import threading


class CollectorPause(contextlib.ContextDecorator):
    """Keeps the collector of cycles from running: parsing and compiling make a million objects and hardly any garbage.

    Without this, the collector takes up to a quarter of the time. Pauses in several threads nest.
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
            if self._depth == 0 and self._was_enabled:
                gc.enable()


collector_pause = CollectorPause()
"""The one of this process."""
