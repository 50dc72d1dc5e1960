"""What `BindingsDriver` gives back when the driver refuses the second of two steps."""

from __future__ import annotations

import ctypes
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from xjit.hlo.diagnostics import ExecutionError
from xjit.runtime.cuda.bindings_driver import BindingsDriver


class _Refusing:
    """The driver's functions, of which one fails. Counts calls."""

    CUdevice_attribute = SimpleNamespace(
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR=0, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR=1
    )
    CUmemPool_attribute = SimpleNamespace(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD=0)
    CUevent_flags = SimpleNamespace(CU_EVENT_DISABLE_TIMING=2)
    cuuint64_t = int

    def __init__(self, refused: str) -> None:
        self.refused = refused
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        def call(*_: Any) -> tuple[int, int]:
            self.calls[name] += 1
            return int(name == self.refused), 1

        return call


def _driver(api: _Refusing) -> BindingsDriver:
    return BindingsDriver(api, ctypes.CDLL(None), 0)


def test_a_graph_that_cannot_be_instantiated() -> None:
    api = _Refusing("cuGraphInstantiate")
    with pytest.raises(ExecutionError, match="cuGraphInstantiate failed"):
        _driver(api).end_capture(0)
    assert api.calls["cuGraphDestroy"] == 1


def test_an_event_that_cannot_be_recorded() -> None:
    api = _Refusing("cuEventRecord")
    with pytest.raises(ExecutionError, match="cuEventRecord failed"):
        _driver(api).record_event(0)
    assert api.calls["cuEventDestroy"] == 1
