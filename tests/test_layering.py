"""Imports go one way: affine -> hlo -> ops -> text -> indexing -> passes -> linalg_ext -> emitters -> api, hlo -> llvm ->
emitters, runtime -> api, and hlo -> thunks -> passes, emitters, runtime -> api."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ORDER = ("affine", "hlo", "ops", "text", "indexing", "passes", "linalg_ext", "emitters", "api")
API = {
    "api",
    "compiler",
    "tools",
    "frontends",
    "jax_backend",
    "__init__",
    "__main__",
    "dump",
    "flags",
    "compile_options",
    "cpu_executable",
    "program_cache",
    "optimized_module",
    "gpu_compiler",
    "comparison",
    "gpu_report",
    "gpu_tuning",
    "targets",
}


def is_module(name: str) -> bool:
    """Whether a string is the dotted name of a module of the product."""
    if not re.fullmatch(r"xjit(\.\w+)+", name):
        return False
    path = ROOT / name.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").is_file()


FOLDERS = {  # each imports from those before it
    "xjit.emitters.gemm": ("blocking", "packing", "microkernels", "convolution"),
    "xjit.linalg_ext.transforms": (
        "building_blocks",
        "tilable",
        "loops",
        "tiling",
        "single_ops",
        "reductions",
        "fusion",
        "elementwise_fusion",
        "lowering",
    ),
}


def layer_of(parts: tuple[str, ...]) -> str:
    """Returns the layer of a module path below xjit."""
    name = parts[0].removesuffix(".py")
    return "api" if name in API or name == "layout" else name


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Yields (line, dotted name) of every import, also of those inside functions, and of modules whose name is a string."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.lineno, node.module or ""
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and is_module(node.value):
            yield node.lineno, node.value  # for import_module


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
    if source == target or source == "api" or target in ("version", "collector_pause", "dataclass"):
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


@pytest.mark.parametrize(("package", "folders"), FOLDERS.items())
def test_folders_of_a_package_import_one_way(package: str, folders: tuple[str, ...]) -> None:
    checked = 0
    for path, parts in sources():
        source = module_name(parts).removeprefix(f"{package}.").split(".")[0]
        if not module_name(parts).startswith(f"{package}.") or source not in folders:
            continue
        for line, name in imports(path):
            target = name.removeprefix(f"{package}.").split(".")[0]
            if name.startswith(f"{package}.") and target in folders:
                checked += 1
                assert folders.index(target) <= folders.index(source), f"{path}:{line}: {source} must not import {name}"
    assert checked > 20


def module_name(parts: tuple[str, ...]) -> str:
    """Returns the dotted name of a file, of a package for its `__init__`."""
    return ".".join(("xjit", *parts)).removesuffix(".py").removesuffix(".__init__")


def statements_on_import(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yields the statements that run when a module is imported: neither functions nor `if TYPE_CHECKING`."""
    for statement in body:
        if isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test):
            yield from statements_on_import(statement.orelse)
        elif not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield statement
            for field in ("body", "orelse", "finalbody"):
                yield from statements_on_import(getattr(statement, field, []))


def import_graph() -> dict[str, set[str]]:
    """Returns for every module the modules that it imports by itself; packages around them do not count."""
    trees = {module_name(parts): ast.parse(path.read_text(encoding="utf-8")) for path, parts in sources()}
    graph: dict[str, set[str]] = {}
    for module, tree in trees.items():
        found: set[str] = set()
        for statement in statements_on_import(tree.body):
            if isinstance(statement, ast.Import):
                found.update(alias.name for alias in statement.names)
            elif isinstance(statement, ast.ImportFrom) and statement.module:
                inner = {f"{statement.module}.{alias.name}" for alias in statement.names}
                found |= inner & trees.keys() or {statement.module}
        graph[module] = (found & trees.keys()) - {module}
    return graph


def components(graph: dict[str, set[str]]) -> list[list[str]]:
    """Returns the strongly connected components, by Tarjan's algorithm; each behind those it leads to."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    result: list[list[str]] = []

    def visit(node: str) -> None:
        numbers[node] = lowest[node] = len(numbers)
        stack.append(node)
        for target in sorted(graph[node]):
            if target not in numbers:
                visit(target)
            if target in stack:
                lowest[node] = min(lowest[node], lowest[target])
        if lowest[node] == numbers[node]:
            position = stack.index(node)
            result.append(sorted(stack[position:]))
            del stack[position:]

    for node in sorted(graph):
        if node not in numbers:
            visit(node)
    return result


def test_components_finds_cycles() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set[str](), "e": {"a", "e"}}
    assert components(graph) == [["d"], ["b", "c"], ["a"], ["e"]]


def test_no_import_cycles() -> None:
    assert [component for component in components(import_graph()) if len(component) > 1] == []


IMPORT_EACH_FIRST = """
import importlib, sys, types
import numpy, ml_dtypes, google.protobuf
for name in NAMES:
    for loaded in [n for n in sys.modules if n == "xjit" or n.startswith("xjit.")]:
        del sys.modules[loaded]
    for package, folder in (("xjit", ROOT), (layer := ".".join(name.split(".")[:2]), ROOT + layer[4:].replace(".", "/"))):
        if package != name:
            sys.modules[package] = types.ModuleType(package)
            sys.modules[package].__path__ = [folder]
    try:
        importlib.import_module(name)
    except Exception as error:
        print(f"{name}: {error!r}")
"""


def test_any_module_may_be_imported_first() -> None:
    """A sample of the lower layers is imported with nothing loaded, without the layer's `__init__`, too."""
    names = [module_name(parts) for _, parts in sources() if parts[0] in ("affine", "hlo", "llvm", "ops", "text")]
    code = IMPORT_EACH_FIRST.replace("ROOT", repr(str(ROOT / "xjit"))).replace("NAMES", repr(sorted(names)[::6]))
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (result.stdout, result.returncode) == ("", 0), result.stderr


def test_bare_names_are_not_loaded() -> None:
    code = "import sys, xjit, xjit.emitters, xjit.runtime; print({'emitters', 'runtime'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert result.stdout.strip() == "set()"


def test_import_needs_no_extra() -> None:
    """A bare `import xjit` loads neither jax nor any other optional package, nor what few programs need."""
    packages = {"jax", "jaxlib", "numba", "cuda", "matplotlib", "mpi4py", "scipy", "google.protobuf"}
    modules = {"xjit.gpu_compiler", "xjit.runtime.cuda", "xjit.runtime.gpu_sim", "xjit.linalg_ext", "xjit.jax_backend"}
    code = f"import sys, xjit; print(sorted({packages | modules!r} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert result.stdout.strip() == "[]"


def test_every_folder_is_a_package() -> None:
    """What is not found by `packages = find:` is missing in wheels."""
    folders = {path.parent for path, _ in sources()}
    assert [str(f) for f in sorted(folders) if not (f / "__init__.py").exists()] == []
