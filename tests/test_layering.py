"""Imports go one way: affine -> hlo -> ops -> text -> indexing -> passes -> linalg_ext -> emitters -> api, hlo -> llvm ->
emitters, runtime -> api, and hlo -> thunks -> passes, emitters, runtime -> api."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ORDER = ("affine", "hlo", "ops", "text", "indexing", "passes", "linalg_ext", "emitters", "api")
API = {"api", "compiler", "tools", "frontends", "__init__", "__main__", "dump", "flags", "version"}


def layer_of(parts: tuple[str, ...]) -> str:
    """Returns the layer of a module path below xjit."""
    name = parts[0].removesuffix(".py")
    return "api" if name in API or name == "layout" else name


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Yields (line, dotted name) of every import, also of those inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.lineno, node.module or ""


def sources() -> list[tuple[Path, tuple[str, ...]]]:
    """Returns (file, path below xjit) of all product files; symbolic links are followed once."""
    found: list[tuple[Path, tuple[str, ...]]] = []
    for base, prefix in ((ROOT / "xjit", ()), (ROOT / "emitters", ("emitters",)), (ROOT / "runtime", ("runtime",))):
        for path in sorted(base.rglob("*.py")):
            below = path.relative_to(base).parts
            if prefix or below[0] not in ("emitters", "runtime"):
                found.append((path, (*prefix, *below)))
    return found


def allowed(source: str, target: str) -> bool:
    """Whether a module of layer `source` may import from layer `target`."""
    if source == target or source == "api":
        return True
    if source in ("llvm", "thunks", "runtime"):
        return target in ("affine", "hlo") or (source == "runtime" and target in ("llvm", "thunks"))
    if target == "runtime":
        return False
    if target == "llvm":
        return source == "emitters"
    if target == "thunks":
        return source in ("passes", "emitters")
    return ORDER.index(target) <= ORDER.index(source)


def test_there_is_something_to_check() -> None:
    assert len(sources()) > 50


@pytest.mark.parametrize("path,parts", sources(), ids=lambda value: "/".join(value) if isinstance(value, tuple) else "")
def test_imports_go_one_way(path: Path, parts: tuple[str, ...]) -> None:
    source = layer_of(parts)
    for line, name in imports(path):
        assert name.split(".")[0] not in ("emitters", "runtime"), f"{path}:{line}: bare import of {name}"
        if not name.startswith("xjit."):
            continue
        target = layer_of(tuple(name.split(".")[1:]))
        assert allowed(source, target), f"{path}:{line}: {source} must not import {name}"


def test_bare_names_are_not_loaded() -> None:
    code = "import sys, xjit, xjit.emitters, xjit.runtime; print({'emitters', 'runtime'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert result.stdout.strip() == "set()"


def test_import_needs_no_extra() -> None:
    """A bare `import xjit` loads neither jax nor any other optional package."""
    code = "import sys, xjit; print(sorted({'jax', 'jaxlib', 'numba', 'matplotlib', 'mpi4py'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert result.stdout.strip() == "[]"


def test_every_folder_is_a_package() -> None:
    """What is not found by `packages = find:` is missing in wheels."""
    folders = {path.parent for path, _ in sources()}
    assert [str(f) for f in sorted(folders) if not (f / "__init__.py").exists()] == []
