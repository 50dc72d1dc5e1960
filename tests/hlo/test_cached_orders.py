"""Computations and modules remember their post orders and calls: after any change they are what a fresh look would find."""

from __future__ import annotations

import random

import pytest

from xjit import parse_hlo
from xjit.hlo.attributes import ParameterAttributes
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.passes.analysis.call_graph import CallGraph
from xjit.passes.framework import analyses

TEXT = """
HloModule m
f { a = f32[4] parameter(0) ROOT n = f32[4] negate(a) }
g { a = f32[4] parameter(0) ROOT e = f32[4] exponential(a) }
ENTRY main {
  p = f32[4] parameter(0)
  q = f32[4] parameter(1)
  c = f32[4] call(p), to_apply=f
  d = f32[4] call(q), to_apply=g
  s = f32[4] add(c, d)
  t = (f32[4], f32[4]) tuple(s, c)
  ROOT m = f32[4] multiply(s, q)
}
"""


def assert_fresh(computation: HloComputation) -> None:
    order, callees = computation.make_instruction_post_order(), computation.callees()
    computation.edges_changed()
    assert order == computation.make_instruction_post_order()
    assert callees == tuple(c for i in computation.instructions for c in i.called_computations)
    module = computation.parent
    assert module is not None
    orders = module.make_computation_post_order(), module.make_nonfusion_computations()
    graph = analyses.get(CallGraph, module)
    computation.calls_changed()
    assert callees == computation.callees()
    for kept, fresh in zip(orders, (module.make_computation_post_order(), module.make_nonfusion_computations())):
        assert len(kept) == len(fresh) and all(a is b for a, b in zip(kept, fresh))  # `==` compares structure
    assert graph is not analyses.get(CallGraph, module)
    assert graph == CallGraph.of(module)


def change(computation: HloComputation, random_: random.Random) -> None:
    """One random change that keeps the graph acyclic: later instructions of the post order read earlier ones."""
    order = computation.make_instruction_post_order()
    early, late = sorted(random_.sample(range(len(order)), 2))
    before, after = order[early], order[late]
    kind = random_.choice(
        ("add", "replace", "call", "order", "append", "control", "uncontrol", "remove", "uses", "fuse")
    )
    if kind == "add" and before.shape.is_array:
        computation.add_instruction(HloInstruction.create("negate", before.shape, [before]))
    elif kind == "replace" and after.operand_count and before.shape.is_array:
        after.replace_operand_with_different_shape(random_.randrange(after.operand_count), before)
    elif kind == "call" and after.called_computations:
        module = computation.parent
        assert module is not None
        others = [c for c in module.computations() if c is not computation]
        after.set_called_computation(0, random_.choice(others))
    elif kind == "order":
        computation.reorder_instructions(random_.sample(order, len(order)))
    elif kind == "append" and after.opcode == "tuple":
        after.append_operand(before)
    elif kind == "control":
        before.add_control_dependency_to(after)
    elif kind == "uncontrol":
        after.drop_all_control_deps()
    elif kind == "remove" and after.is_dead() and after.opcode != "parameter":
        computation.force_remove_instruction(after)
    elif kind == "uses" and before.shape == after.shape:
        after.replace_all_uses_with(before)
    elif kind == "fuse" and after.opcode == "negate":
        computation.create_fusion_instruction([after])


@pytest.mark.parametrize("seed", range(20))
def test_after_random_changes(seed: int) -> None:
    computation = parse_hlo(TEXT).entry_computation
    random_ = random.Random(seed)
    for _ in range(60):
        change(computation, random_)
        assert_fresh(computation)


def test_after_parameters_change() -> None:
    module = parse_hlo(TEXT)
    computation = module.computations()[0]
    computation.make_instruction_post_order()
    added = computation.add_parameter(HloInstruction.create_parameter(1, computation.root_instruction.shape))
    assert_fresh(computation)
    assert added.attributes_as(ParameterAttributes).parameter_number == 1
    computation.remove_parameter(1)
    assert_fresh(computation)


def test_after_computations_come_and_go() -> None:
    module = parse_hlo(TEXT)
    entry = module.entry_computation
    added = module.add_embedded_computation(module.computations()[0].clone())
    assert_fresh(entry)
    next(i for i in entry.instructions if i.opcode == "call").set_called_computation(0, added)
    assert_fresh(entry)
    module.remove_unused_computations()
    assert module.computation_count == 3
    assert_fresh(entry)


def test_the_order_that_is_returned_is_the_callers() -> None:
    computation = parse_hlo(TEXT).entry_computation
    computation.make_instruction_post_order().clear()
    assert len(computation.make_instruction_post_order()) == computation.instruction_count
