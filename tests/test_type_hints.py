"""`typing.get_type_hints` reads the annotations of the public API."""

from __future__ import annotations

import inspect
import subprocess
import sys
import typing
from collections.abc import Iterator
from typing import Any

import pytest

import xjit
from xjit.gpu_compiler import GpuExecutable

CLASSES = {name: kind for name in xjit.__all__ if inspect.isclass(kind := getattr(xjit, name))}
FUNCTIONS = {name: function for name in xjit.__all__ if inspect.isfunction(function := getattr(xjit, name))}


def methods(kind: type) -> Iterator[Any]:
    """The functions behind a class's public attributes."""
    for name in dir(kind):
        found = inspect.getattr_static(kind, name)
        found = found.fget if isinstance(found, property) else getattr(found, "__func__", getattr(found, "func", found))
        if inspect.isfunction(found) and (not name.startswith("_") or name in ("__init__", "__call__")):
            yield found


@pytest.mark.parametrize("name", CLASSES)
def test_of_classes(name: str) -> None:
    typing.get_type_hints(CLASSES[name])
    for method in methods(CLASSES[name]):
        assert set(typing.get_type_hints(method)) == set(method.__annotations__), method


def test_of_functions() -> None:
    for function in FUNCTIONS.values():
        assert set(typing.get_type_hints(function)) == set(function.__annotations__), function
    assert typing.get_type_hints(xjit.compile)["return"] == xjit.Executable | GpuExecutable
    assert typing.get_type_hints(xjit.structural_equal)["a"] == xjit.HloModule


def test_annotations_import_nothing_before_they_are_asked_for() -> None:
    code = "import sys, xjit; assert 'xjit.gpu_compiler' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
