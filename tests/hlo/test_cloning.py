"""Clones of modules, computations and instructions."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from xjit.hlo import HloInstruction, HloModule, InvalidArgument, Shape
from xjit.hlo.annotations.metadata import HloSharding
from xjit.hlo.compare.equality import structural_equal
from xjit.hlo.edit.cloning import HloCloneContext, clone_name
from xjit.hlo.ir.module_config import HloModuleConfig
from xjit.hlo.ir.schedule import HloSchedule
from xjit.ops.build import make
from xjit.ops.verifier import verify_module
from xjit.text.parser import parse_hlo

TEXT = """HloModule m, input_output_alias={ {}: (0, {}, may-alias) }, frontend_attributes={k="v"}
leaf {
  a = f32[2] parameter(0)
  ROOT n = f32[2] negate(a)
}
middle {
  m = f32[2] parameter(0)
  k = f32[2] call(m), to_apply=leaf
  ROOT s = f32[2] add(k, k)
}
ENTRY e {
  x = f32[2] parameter(0)
  first = f32[2] abs(x)
  c = f32[2] call(x), to_apply=middle, control-predecessors={first}, metadata={op_name="call"}
  ROOT r = f32[2] multiply(c, x), sharding={replicated}, backend_config={"k":1}
}"""
X = np.array([1.0, -2.0], np.float32)


def test_clone_module() -> None:
    module = parse_hlo(TEXT)
    module.set_schedule(HloSchedule({c: c.make_instruction_post_order() for c in module.computations()}))
    module.dynamic_parameter_binding  # noqa: B018 - reading it changes nothing
    clone = module.clone()
    assert clone.name == "m-clone" and clone.unique_id != module.unique_id
    assert structural_equal(module, clone, config=True, metadata=True)
    assert [c.name for c in clone.computations()] == [c.name for c in module.computations()]
    for old, new in zip(module.computations(), clone.computations(), strict=True):
        assert old is not new and old.unique_id == new.unique_id
        assert [(i.name, i.unique_id) for i in old.instructions] == [(i.name, i.unique_id) for i in new.instructions]
        assert not set(old.instructions) & set(new.instructions)
        order = [i.name for i in clone.schedule.sequence(new)]
        assert order == [i.name for i in module.schedule.sequence(old)]
    clone.schedule.verify(clone)
    assert clone.new_unique_instruction_id() == module.new_unique_instruction_id()
    assert clone.input_output_alias_config.aliases == module.input_output_alias_config.aliases
    clone.input_output_alias_config.clear()
    assert module.input_output_alias_config.aliases
    verify_module(clone)


def test_clone_module_with_config_and_suffix() -> None:
    config = HloModuleConfig(seed=9)
    clone = parse_hlo(TEXT).clone("copy", config)
    assert clone.name == "m-copy" and clone.config is config and parse_hlo(TEXT).clone("").name == "m"


def test_deep_clone_computation() -> None:
    source, target = parse_hlo(TEXT), HloModule("t")
    context = HloCloneContext(target, "copy")
    middle = source.get_computation_with_name("middle")
    clone = target.deep_clone_computation(middle, context)
    assert [c.name for c in target.computations()] == ["leaf.copy", "middle.copy"]
    assert clone == middle and clone.root_instruction.name == "s.copy"
    leaf = source.get_computation_with_name("leaf")
    assert context.find_computation(leaf) is target.computations()[0] and context.find_computation(clone) is None
    assert context.find_instruction(middle.root_instruction) is clone.root_instruction
    target.add_entry_computation(target.deep_clone_computation(leaf, context).clone())
    assert target.computation_count == 3  # leaf was cloned before
    verify_module(target)
    with pytest.raises(InvalidArgument, match="the clone context is for module t, not m"):
        source.deep_clone_computation(middle, context)


def test_clone_computation() -> None:
    module = parse_hlo(TEXT)
    entry, middle = module.entry_computation, module.get_computation_with_name("middle")
    clone = entry.clone("other")
    assert clone.name == "e.other" and clone == entry and clone.parent is None
    assert [i.name for i in clone.instructions] == ["x.other", "first.other", "c.other", "r.other"]
    assert clone.root_instruction.operand(0).to_apply is middle
    target = HloModule("t")
    context = HloCloneContext(target, "far")
    far = target.add_entry_computation(entry.clone("far", context))
    assert far.root_instruction.operand(0).to_apply is context.find_computation(middle)
    verify_module(target)
    np.testing.assert_array_equal(xjit.evaluate(target, X), xjit.evaluate(TEXT, X))


def test_clone_with_replacements() -> None:
    module = parse_hlo(TEXT)
    middle = module.get_computation_with_name("middle")
    a, call, root = middle.instructions
    extra = HloInstruction.create_parameter(1, a.shape, "extra")
    cosine = make("cosine", a)
    clone = middle.clone_with_replacements({call: cosine, root: make("subtract", cosine, extra)}, [extra])
    assert clone.num_parameters == 2 and [i.opcode for i in clone.instructions if i.operands] == ["cosine", "subtract"]
    assert clone.root_instruction.operand(1) is extra and clone.root_instruction.operand(0).operand(0).name == "m.clone"
    other = HloModule("t")
    other.add_entry_computation(clone)
    verify_module(other)
    np.testing.assert_allclose(xjit.evaluate(other, X, X), np.cos(X) - X, rtol=1e-6)
    verify_module(module)


def test_clone_with_replacements_drops_instructions() -> None:
    module = parse_hlo(TEXT)
    entry = module.entry_computation
    x, first, call, root = entry.instructions
    clone = entry.clone_with_replacements({first: None})
    assert [i.name for i in clone.instructions] == ["x.clone", "c.clone", "r.clone"]
    assert clone.instructions[1].control_predecessors == []
    for replacements, message in [
        ({x: None}, "first needs x, which was dropped"),
        ({root: None}, "e needs r, which was dropped"),
        ({call: first}, "the replacement first of c is in use already"),
    ]:
        with pytest.raises(InvalidArgument, match=message):
            entry.clone_with_replacements(replacements)
    with pytest.raises(InvalidArgument, match=r"numbered \[0, 2\]"):
        entry.clone_with_replacements({}, [HloInstruction.create_parameter(2, x.shape)])
    with pytest.raises(InvalidArgument, match="closes a cycle"):
        entry.clone_with_replacements({first: make("abs", root), call: make("abs", first)})


def test_clone_instruction() -> None:
    module = parse_hlo(TEXT)
    root = module.entry_computation.root_instruction
    clone = root.clone()
    assert clone.parent is None and clone.name == "r.clone" and clone.operands == root.operands
    assert clone.identical(root) and clone.metadata == root.metadata
    x = root.operand(1)
    other = root.clone_with_new_operands(root.shape, [x, x])
    assert other.operands == (x, x) and other.backend_config == root.backend_config and not other.identical(root)
    context = HloCloneContext(module, "s")
    call = root.operand(0)
    assert call.clone("s", context).to_apply is call.to_apply  # of the same module
    assert context.find_instruction(call).name == "c.s"


def test_sharding_is_kept_where_the_shape_permits() -> None:
    instruction = parse_hlo(TEXT).entry_computation.root_instruction
    instruction.sharding = HloSharding("devices=[2]<=[2]")
    operands = instruction.operands
    assert instruction.clone_with_new_operands(Shape.array("f32", (4,)), operands).sharding == instruction.sharding
    assert instruction.clone_with_new_operands(Shape.array("f32", (2, 2)), operands).sharding is None
    assert instruction.clone_with_new_operands(Shape.tuple_of([instruction.shape]), operands).sharding is None
    instruction.sharding = HloSharding("replicated")
    assert instruction.clone_with_new_operands(Shape.array("f32", (2, 2)), operands).sharding is not None


def test_names_of_clones() -> None:
    names = ["x"]
    for _ in range(3):
        names.append(clone_name(names[-1], "clone"))
    assert names == ["x", "x.clone", "x.clone2", "x.clone3"]
    assert clone_name("x.clone", "") == "x.clone" and clone_name("x.clone", "other") == "x.clone.other"
