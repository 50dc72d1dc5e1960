"""The runtime's native code for other systems and builds: it must at least be valid IR with the same functions."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from xjit.runtime.machine_code.ir_check import defined_symbols, external_symbols
from xjit.runtime.machine_code.jit import parse_and_verify
from xjit.runtime.native import loader
from xjit.runtime.native.loader import native_modules
from xjit.runtime.native.object_layout import fast_call_obstacle


def _texts(machine: str, system: str) -> tuple[str, ...]:
    return tuple(module.to_text() for module in native_modules(True, machine, system))


def _exported(texts: Iterable[str]) -> set[str]:
    return set[str]().union(*map(defined_symbols, texts))


@pytest.mark.parametrize(("machine", "system"), [("x86_64", "linux"), ("aarch64", "linux"), ("arm64", "darwin")])
def test_every_variant_is_valid(machine: str, system: str) -> None:
    texts = _texts(machine, system)
    for text in texts:
        assert "$" not in text
        parse_and_verify(text).close()
    assert _exported(texts) == _exported(_texts("x86_64", "linux"))


def test_what_is_rarely_run_is_not_optimized() -> None:
    """And is there: a function of another name would be."""
    functions = {name: function for module in native_modules(True) for name, function in module.functions.items()}
    assert functions.keys() >= loader.RARELY_RUN
    assert {name for name, function in functions.items() if function.is_cold} == loader.RARELY_RUN
    assert "optnone" not in functions["xjit_fast_call"].to_text() and "optnone" in functions["xjit_fail"].to_text()


def test_without_futex_nothing_of_threads_is_needed() -> None:
    names = [name for text in _texts("arm64", "darwin") for name in external_symbols(text)]
    assert not [name for name in names if "pthread_c" in name or name in ("syscall", "sched_getcpu")]


def test_fast_calls_are_possible_here() -> None:
    assert fast_call_obstacle() == ""
