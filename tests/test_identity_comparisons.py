"""`==` of computations and modules compares graphs, and so does `in` a list of them; the sources must say `is`.

What an expression is, its last name tells: `caller.to_apply`, `self.parent`, `computation`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.test_layering import sources

ONE = frozenset({
    "computation", "callee", "body", "entry", "module", "optimized", "parent", "to_apply", "while_body",
    "while_condition", "entry_computation", "fused_instructions_computation",
})  # fmt: skip
SEVERAL = frozenset({"called_computations", "branch_computations"})
"""Attributes that are a tuple of computations."""

RETURN_SEVERAL = frozenset({
    "callees", "computations", "make_computation_post_order", "make_computation_sorted",
    "make_nonfusion_computations", "make_nonfusion_computations_sorted",
})  # fmt: skip
"""Methods that return a tuple or list of computations."""


def last_name(node: ast.expr) -> str:
    """Returns the name that says what an expression is: of a call, that of the function; of an element, the list's."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Call):
        return last_name(node.func)
    return ""


def is_one(node: ast.expr) -> bool:
    """Whether an expression is a computation or a module."""
    if isinstance(node, ast.Subscript):
        return is_several(node.value) and not isinstance(node.slice, ast.Slice)
    return not isinstance(node, ast.Call) and last_name(node) in ONE


def is_several(node: ast.expr) -> bool:
    """Whether an expression is a list or tuple of computations, in which `in` compares by `==`."""
    if isinstance(node, (ast.List, ast.Tuple)):
        return any(map(is_one, node.elts))
    return last_name(node) in (RETURN_SEVERAL if isinstance(node, ast.Call) else SEVERAL)


def faults(tree: ast.AST) -> Iterator[int]:
    """Yields the lines with comparisons of computations or modules that are not by identity."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for operator, left, right in zip(node.ops, sides, sides[1:], strict=False):
                by_value = isinstance(operator, (ast.Eq, ast.NotEq)) and is_one(left) and is_one(right)
                if by_value or (isinstance(operator, (ast.In, ast.NotIn)) and is_several(right)):
                    yield node.lineno
        elif isinstance(node, ast.Attribute) and node.attr in ("index", "count", "remove") and is_several(node.value):
            yield node.lineno


@pytest.mark.parametrize("text", [
    "caller.to_apply == computation", "a.parent != b.parent", "if callee in caller.called_computations: pass",
    "x not in (self.parent, other.parent)", "module.computations().index(x)", "a.called_computations[0] == body",
])  # fmt: skip
def test_faults_are_found(text: str) -> None:
    assert list(faults(ast.parse(text))) == [1]


@pytest.mark.parametrize("text", [
    "a.parent is b.parent", "a.parent == 3", "name == computation.name", "x in set(module.computations())",
    "a.called_computations == b.called_computations[:2]", "numbers.index(3)",
])  # fmt: skip
def test_what_is_no_fault(text: str) -> None:
    assert not list(faults(ast.parse(text)))


def test_computations_and_modules_are_compared_by_identity() -> None:
    found = [
        f"{path}:{line}" for path, parts in sources() for line in faults(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found, found
