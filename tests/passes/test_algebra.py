"""Every rule of the simplifier is proven on values; planted wrong rules are found."""

from __future__ import annotations

import pytest

from tests.support.algebra_instances import INSTANCES as EXPRESSIONS
from tests.support.algebra_proof import prove
from tests.support.algebra_structures import STRUCTURES
from xjit.passes.simplify.algebra.rule import AlgebraRule
from xjit.passes.simplify.algebra.table import ALGEBRA

INSTANCES = {**EXPRESSIONS, **STRUCTURES}
RULES = {rule.id: rule for rule in ALGEBRA}


def test_every_rule_has_an_id_an_equation_and_instances() -> None:
    assert len(RULES) == len(ALGEBRA) == len({rule.equation for rule in ALGEBRA})
    assert all("=" in rule.equation for rule in ALGEBRA)
    assert RULES.keys() == INSTANCES.keys()


@pytest.mark.parametrize("rule", ALGEBRA, ids=lambda rule: rule.id)
def test_rule(rule: AlgebraRule) -> None:
    prove(rule, INSTANCES[rule.id])
