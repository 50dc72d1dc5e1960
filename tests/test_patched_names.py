"""What tests replace with `monkeypatch.setattr` is there: a test that is seldom run does not outlive what it patches."""

from __future__ import annotations

import ast
import importlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent
MISSING = object()


def imported_names(tree: ast.AST) -> dict[str, tuple[str, str | None]]:
    """Returns, for each name that imports bind anywhere in a file, the module and what is taken from it, if anything."""
    names: dict[str, tuple[str, str | None]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {a.asname or a.name.partition(".")[0]: (a.name if a.asname else a.name.partition(".")[0], None)
                      for a in node.names}  # fmt: skip
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {a.asname or a.name: (node.module, a.name) for a in node.names}
    return names


def get(module: str, *path: str) -> Any:
    """Returns what a dotted path in a module is, whose names may be submodules; MISSING if it is not there."""
    found: Any = importlib.import_module(module)
    for name in path:
        place = f"{getattr(found, '__name__', '')}.{name}"
        if not hasattr(found, name) and hasattr(found, "__path__") and importlib.util.find_spec(place):
            importlib.import_module(place)
        found = getattr(found, name, MISSING)
        if found is MISSING:
            return MISSING
    return found


def patched(tree: ast.AST) -> Iterator[tuple[ast.Call, list[str]]]:
    """Calls of `setattr` of a patch with a literal name, and the dotted path that they replace."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="setattr"), args=[ast.Constant(value=str(path)), *_]):
                yield node, path.split(".")
            case ast.Call(func=ast.Attribute(attr="setattr"), args=[owner, ast.Constant(value=str(name)), *_]):
                path = ast.unparse(owner).split(".")
                if all(part.isidentifier() for part in path):
                    yield node, [*path, name]


def missing_names(source: str) -> list[str]:
    """Returns the paths that a test file patches in what it imports, and that are not there."""
    tree = ast.parse(source)
    names, found = imported_names(tree), []
    for call, path in patched(tree):
        if isinstance(call.args[0], ast.Constant):
            module, rest = path[0], path[1:]
        elif path[0] in names:
            module, taken = names[path[0]]
            rest = [*([taken] if taken else []), *path[1:]]
        else:
            continue  # an object of the test's own
        if module.partition(".")[0] != "tests" and get(module, *rest) is MISSING:
            found.append(f"line {call.lineno}: {'.'.join(path)}")
    return found


@pytest.mark.parametrize("folder", sorted({str(p.parent.relative_to(TESTS)) for p in TESTS.rglob("test_*.py")}))
def test_patched_names_are_there(folder: str) -> None:
    files = sorted((TESTS / folder).glob("test_*.py"))
    missing = {path.name: names for path in files if (names := missing_names(path.read_text()))}
    assert not missing


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("monkeypatch.setattr(pipelines, 'AttentionFusion', None)", False),
        ("monkeypatch.setattr(pipelines, 'NoSuchPass', None)", True),
        ("patch.setattr(Fusion, 'run_impl', None)", False),
        ("patch.setattr(Fusion, 'no_such_method', None)", True),
        ("monkeypatch.setattr('xjit.passes.pipelines.AttentionFusion', None)", False),
        ("monkeypatch.setattr('xjit.passes.pipelines.NoSuchPass', None)", True),
        ("monkeypatch.setattr('xjit.no_such_module.AttentionFusion', None)", True),
        ("monkeypatch.setattr(own_object, 'anything', None)", False),
    ],
)
def test_missing_names_are_found(line: str, missing: bool) -> None:
    imports = "from xjit.passes import pipelines\nfrom xjit.passes.pipelines import AttentionFusion as Fusion\n"
    assert bool(missing_names(imports + line)) == missing
