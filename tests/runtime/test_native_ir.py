"""The runtime's native code for other systems and builds: it must at least be valid IR with the same functions."""

from __future__ import annotations

import re

import pytest

from xjit.runtime.ir_check import external_symbols
from xjit.runtime.jit import parse_and_verify
from xjit.runtime.native.buffer_pool_ir import buffer_pool_ir
from xjit.runtime.native.call_ir import call_ir
from xjit.runtime.native.fast_call_ir import FAST_CALL_IR
from xjit.runtime.native.object_layout import fast_call_obstacle
from xjit.runtime.native.thread_pool_ir import thread_pool_ir


def _text(machine: str, system: str) -> str:
    return call_ir(machine) + buffer_pool_ir(system) + thread_pool_ir(machine, system) + FAST_CALL_IR


def _exported(text: str) -> set[str]:
    return set(re.findall(r"^define (?!internal)[^@]*@(\w+)", text, re.MULTILINE))


@pytest.mark.parametrize(("machine", "system"), [("x86_64", "linux"), ("aarch64", "linux"), ("arm64", "darwin")])
def test_every_variant_is_valid(machine: str, system: str) -> None:
    text = _text(machine, system)
    assert "$" not in text
    parse_and_verify(text).close()
    assert _exported(text) == _exported(_text("x86_64", "linux"))


def test_without_futex_nothing_of_threads_is_needed() -> None:
    names = external_symbols(_text("arm64", "darwin"))
    assert not [name for name in names if "pthread" in name or name in ("syscall", "sched_getcpu")]


def test_fast_calls_are_possible_here() -> None:
    assert fast_call_obstacle() == ""
