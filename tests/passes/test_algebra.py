"""Every rule of the simplifier is proven on values; planted wrong rules are found."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import fields

import pytest

from tests.support.algebra_instances import INSTANCES as EXPRESSIONS
from tests.support.algebra_proof import instances, prove
from tests.support.algebra_structures import STRUCTURES
from tests.support.pass_cases import all_cases
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.types.primitive_type import BY_TEXT
from xjit.ops.verifier import verify_module
from xjit.passes.simplify.algebra.dot_order import DOT_ORDER
from xjit.passes.simplify.algebra.dots import DOTS
from xjit.passes.simplify.algebra.layouts import LAYOUTS
from xjit.passes.simplify.algebra.rule import AlgebraRule
from xjit.passes.simplify.algebra.table import ALGEBRA
from xjit.passes.simplify.algebraic_simplifier import AlgebraicSimplifier

INSTANCES = {**EXPRESSIONS, **STRUCTURES}
RULES = {rule.id: rule for rule in ALGEBRA}


def test_every_rule_has_an_id_an_equation_and_instances() -> None:
    assert len(RULES) == len(ALGEBRA) == len({rule.equation for rule in ALGEBRA})
    assert all("=" in rule.equation for rule in ALGEBRA)
    assert RULES.keys() == INSTANCES.keys()


def test_every_rule_has_a_pair_and_a_refusal() -> None:
    cases = [c for c in all_cases() if c.path.parent.name == "algebra"]
    assert {c.name.split()[0] for c in cases if c.after is not None} == RULES.keys()
    assert {c.name.split()[0] for c in cases if c.after is None} == RULES.keys()


def test_every_option_is_one_that_rules_ask_for() -> None:
    words = [word for rule in ALGEBRA for word in rule.option.replace("|", " ").split()]
    asked = {word.removeprefix("!") for word in words} | {rule.value[1] for rule in ALGEBRA if rule.value is not None}
    of_the_pass = {"xla_compatible_fp", "enable_fast_math", "enable_floats_are_real", "run_to_fixed_point"}
    refused = {"enable_onednn_support"}
    assert {field.name for field in fields(AlgebraicSimplifier)} == asked | of_the_pass | refused
    with pytest.raises(InvalidArgument, match="there is no oneDNN here"):
        AlgebraicSimplifier(enable_onednn_support=True)


@pytest.mark.parametrize("rule", ALGEBRA, ids=lambda rule: rule.id)
def test_rule(rule: AlgebraRule) -> None:
    prove(rule, INSTANCES[rule.id], quick=True)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ALGEBRA, ids=lambda rule: rule.id)
def test_rule_on_all_constants(rule: AlgebraRule) -> None:
    prove(rule, INSTANCES[rule.id])


ALL = AlgebraicSimplifier(
    xla_compatible_fp=True,
    enable_fast_math=True,
    enable_conditional_simplification=True,
    enable_remove_no_op_reduce_precision=True,
    use_associative_reordering=True,
    raise_slice_and_reduce_through_dot=True,
    enable_fold_transpose_into_scatter=True,
    use_convert_constant_folding=True,
    unconditionally_simplify_reduce_of_transpose_or_reshape=True,
    executing_on_cpu=True,
)
PARAMETERS_LAST = AlgebraicSimplifier(enable_move_dot_param_to_rhs=True)
SENSITIVE = AlgebraicSimplifier(is_layout_sensitive=True)


@pytest.mark.parametrize(
    ("options", "rules"),
    [(AlgebraicSimplifier(), ALGEBRA), (ALL, ALGEBRA), (SENSITIVE, LAYOUTS), (PARAMETERS_LAST, (*DOTS, *DOT_ORDER))],
    ids=["default", "all", "layouts", "parameters last"],
)
def test_all_rules_together_come_to_rest(options: AlgebraicSimplifier, rules: Sequence[AlgebraRule]) -> None:
    """Whatever one rule makes, the others accept: no two of them undo each other (that would be a PassWarning)."""
    for rule in rules:
        for text in INSTANCES[rule.id]:
            for kind in ("s32", "f32") if "ENTRY" in text else ("u8", "f32", "pred"):
                for module, _ in itertools.islice(instances(rule, text, BY_TEXT[kind]), 3):
                    options.run(module)
                    verify_module(module)
                    assert not options.run(module), f"the second run changed {module}"
