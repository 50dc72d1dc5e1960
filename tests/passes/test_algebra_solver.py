"""Exact rules on all values of 32 and 64 bits, by z3 where it is installed: `-m slow`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.support.algebra_instances import INSTANCES
from tests.support.algebra_proof import instances
from xjit.hlo import HloModule
from xjit.hlo.types.primitive_type import BY_TEXT
from xjit.passes.framework.rewriting import Rule, apply_rules, rule_table
from xjit.passes.simplify.algebra.rule import AlgebraRule, Exactness
from xjit.passes.simplify.algebra.table import ALGEBRA
from xjit.text.parser import parse_hlo

pytest.importorskip("z3")
from tests.support.algebra_solver import Unknown, counterexample

TYPES = ("s32", "u32", "s64", "pred")
MODULES = 40  # instances of a text and a type, which differ in their constants
RULES = [
    r for r in ALGEBRA if r.exactness is Exactness.EXACT and any("ENTRY" not in t for t in INSTANCES.get(r.id, ()))
]


def _applied(rule: AlgebraRule) -> Iterator[tuple[HloModule, HloModule]]:
    table = rule_table([Rule(rule.id, rule.pattern, rule.rewrite)])
    for text, kind in itertools.product(INSTANCES[rule.id], TYPES):
        for before, _ in itertools.islice(instances(rule, text, BY_TEXT[kind]), MODULES):
            after = before.clone("")
            if apply_rules(after.entry_computation, table):
                yield before, after


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_no_values_refute_a_rule(rule: AlgebraRule) -> None:
    told = 0
    for before, after in _applied(rule):
        try:
            found = counterexample(before, after)
        except Unknown:
            continue
        told += 1
        assert not found, f"{rule.id}: {found}\n{before}\n{after}"
    if not told:
        pytest.skip("it has no instance of integers, or none that the solver can tell")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("subtract(x, y)", "subtract(y, x)"),
        ("divide(x, y)", "divide(x, x)"),
        ("shift-right-arithmetic(x, y)", "shift-right-logical(x, y)"),
        ("remainder(x, y)", "subtract(x, y)"),
    ],
)
def test_the_solver_refutes(before: str, after: str) -> None:
    modules = [
        parse_hlo(f"HloModule m ENTRY e {{ x = s32[1] parameter(0) y = s32[1] parameter(1) ROOT r = s32[1] {text} }}")
        for text in (before, after)
    ]
    assert "x0" in counterexample(*modules)
    assert counterexample(modules[0], modules[0]) == ""
