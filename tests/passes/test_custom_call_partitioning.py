"""Custom calls that say how they are split: Shardy's rules, registered partitioners, and calls of one device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import xjit
from xjit.hlo import HloInstruction, HloVerifyError
from xjit.passes.sharding.custom_call_partitioners import register_custom_call_partitioner
from xjit.passes.sharding.sharding_propagation import ShardingPropagation
from xjit.passes.sharding.spmd.builder import SpmdBuilder
from xjit.passes.sharding.spmd.partitioned_hlo import PartitionedHlo
from xjit.passes.sharding.spmd_partitioner import SpmdPartitioner
from xjit.text.parser import parse_hlo


def rule_module(rule: str) -> str:
    return f"""HloModule m, num_partitions=4
ENTRY e {{
  p = f32[8,4] parameter(0), sharding={{devices=[2,2]<=[4]}}
  ROOT c = (f32[8], f32[4,8]) custom-call(p), custom_call_target="mine", frontend_attributes={{
    xla.sdy.sharding_rule="#sdy.op_sharding_rule<{rule} {{i=8, j=4}}, custom>"}}
}}"""


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("([i, j])->([i], [j, i])", ["devices=[2,2]<=[4] last_tile_dim_replicate", "devices=[2,2]<=[2,2]T(1,0)"]),
        ("([ij, k])->([i], [k, j])", ["replicated", "devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate"]),
        ("([i])->([i], [j, i])", []),
    ],
)
def test_a_rule_passes_shardings(rule: str, expected: list[str]) -> None:
    module = parse_hlo(rule_module(rule))
    ShardingPropagation().run(module)
    found = module.entry_computation.root_instruction.sharding
    assert [element.text for element in (found.elements if found else ())] == expected


def test_outputs_that_stay() -> None:
    module = parse_hlo("""HloModule m, num_partitions=2
ENTRY e {
  p = f32[8,8] parameter(0), sharding={devices=[2,1]<=[2]}
  a = f32[8,8] negate(p)
  b = f32[8,8] abs(p)
  ROOT t = (f32[8,8], f32[8,8]) tuple(a, b), sharding={{replicated}, {replicated}}
}""")
    ShardingPropagation(allow_spmd_sharding_propagation_to_output=True, fixed_outputs=(1,)).run(module)
    assert str(module.entry_computation.root_instruction.sharding) == "{{devices=[2,1]<=[2]}, {replicated}}"


def test_parameters_that_stay() -> None:
    module = parse_hlo("""HloModule m, num_partitions=2
ENTRY e {
  p = f32[8,8] parameter(0), sharding={devices=[2,1]<=[2]}
  q = f32[8,8] parameter(1)
  r = f32[8,8] parameter(2)
  a = f32[8,8] add(p, q)
  ROOT b = f32[8,8] add(a, r)
}""")
    ShardingPropagation(allow_spmd_sharding_propagation_to_parameters=True, fixed_parameters=(0, 2)).run(module)
    found = [str(p.sharding) for p in module.entry_computation.parameter_instructions]
    assert found == ["{devices=[2,1]<=[2]}", "{devices=[2,1]<=[2]}", "None"]


SUMMANDS = "sharding={devices=[1,2]<=[2] last_tile_dims={unreduced}}"


@pytest.mark.parametrize(
    ("body", "opcodes", "total"),
    [
        (
            f"a = f32[8] negate(p), {SUMMANDS}\n  ROOT r = f32[8] abs(a), sharding={{replicated}}",
            "all-reduce negate abs",
            9,
        ),
        (f"a = f32[8] negate(p)\n  ROOT r = f32[8] add(a, a), {SUMMANDS}", "negate add", 18),
        (
            f"k = f32[8] constant({{2,2,2,2,2,2,2,2}})\n  a = f32[8] multiply(p, k)\n  ROOT r = bf16[8] convert(a), {SUMMANDS}",
            "",
            -18,
        ),
        (f"a = f32[8] abs(p)\n  ROOT r = f32[8] negate(a), {SUMMANDS}", "all-reduce abs negate select", -9),
    ],
)
def test_summands_are_added_where_operations_are_not_linear(body: str, opcodes: str, total: float) -> None:
    module = parse_hlo(
        f"HloModule m, num_partitions=2\nENTRY e {{\n  p = f32[8] parameter(0), {SUMMANDS}\n  {body}\n}}"
    )
    SpmdPartitioner().run(module)
    xjit.run_passes(module, ["dce"])
    found = [i.opcode for i in module.entry_computation.make_instruction_post_order()]
    assert [opcode for opcode in found if opcode in ("all-reduce", "negate", "abs", "add", "select")] == opcodes.split()
    results = xjit.evaluate(module, inputs_per_device=[[np.full(8, v, np.float32)] for v in (-11, 2)])
    assert ((results[0] if "replicated" in body else sum(results)) == total).all()


def call_module(more: str = "", operand: str = "f32[8]") -> str:
    return f"""HloModule m, num_partitions=2
ENTRY e {{
  p = {operand} parameter(0), sharding={{devices=[2]<=[2]}}
  ROOT c = f32[8] custom-call(p), custom_call_target="mine", custom_call_has_side_effect=true{more}
}}"""


@pytest.mark.parametrize("has_effect", [True, False])
def test_a_call_is_made_by_the_device_of_its_sharding(has_effect: bool) -> None:
    text = call_module(", sharding={maximal device=1}")
    module = parse_hlo(text if has_effect else text.replace(", custom_call_has_side_effect=true", ""))
    SpmdPartitioner().run(module)
    entry = module.entry_computation
    choice = next(i for i in entry.instructions if i.opcode == "conditional")
    test = choice.operand(0)
    assert [o.opcode for o in test.operands] == ["partition-id", "constant"]
    assert "constant(1)" in str(test.operand(1))
    assert [any(i.opcode == "custom-call" for i in c.instructions) for c in choice.called_computations] == [True, False]
    assert entry.root_instruction.opcode == "all-reduce"


def test_a_call_on_a_device_that_is_not_there() -> None:
    with pytest.raises(HloVerifyError, match="device 7 of 2"):
        SpmdPartitioner().run(parse_hlo(call_module(", sharding={maximal device=7}")))


def test_a_registered_partitioner_is_asked() -> None:
    asked: list[str] = []

    def pass_on(call: HloInstruction, operands: Sequence[PartitionedHlo], _: SpmdBuilder) -> list[PartitionedHlo]:
        asked.append(str(operands[0].sharding))
        return [operands[0]]

    register_custom_call_partitioner("test_partitioning.pass_on", pass_on)
    module = parse_hlo(call_module().replace("mine", "test_partitioning.pass_on"))
    SpmdPartitioner().run(module)
    assert asked == ["devices=[2]<=[2]"]
    assert all(i.opcode != "custom-call" for i in module.entry_computation.instructions)


def test_tokens_go_through_the_branch() -> None:
    text = call_module().replace("c = f32[8] custom-call(p)", "c = (f32[8], token[]) custom-call(p, t)")
    module = parse_hlo(text.replace("  ROOT c", "  t = token[] after-all()\n  ROOT c"))
    SpmdPartitioner().run(module)
    choice = next(i for i in module.entry_computation.instructions if i.opcode == "conditional")
    assert [str(shape) for shape in choice.operand(1).shape.tuple_shapes] == ["f32[8]{0}", "token[]"]
    assert [i.opcode for i in module.entry_computation.root_instruction.operands] == ["all-reduce", "get-tuple-element"]


def test_layouts_of_operands_are_those_of_tiles() -> None:
    call = ', custom_call_target="LayoutConstraint", operand_layout_constraints={f32[4,8]{0,1}}'
    module = parse_hlo(f"""HloModule m, num_partitions=2
ENTRY e {{
  p = f32[4,8] parameter(0), sharding={{devices=[2,1]<=[2]}}
  ROOT c = f32[4,8] custom-call(p){call}, sharding={{devices=[2,1]<=[2]}}
}}""")
    SpmdPartitioner().run(module)
    (made,) = [i for i in module.entry_computation.instructions if i.opcode == "custom-call"]
    assert "operand_layout_constraints={f32[2,8]{0,1}}" in str(made)
