"""HloComputation: builder, parameters, removal, replacement, deep copies, roles, equality."""

from __future__ import annotations

import pytest

from xjit.hlo import HloComputation, HloInstruction, HloModule, InvalidArgument, Shape
from xjit.hlo.annotations.metadata import HloSharding
from xjit.hlo.diagnostics import FailedPrecondition
from xjit.ops.build import make
from xjit.ops.verifier import verify_module
from xjit.text.parser import parse_hlo

F32, PAIR = Shape.array("f32"), Shape.array("f32", (2,))
TEXT = """HloModule m
fused {
  a = f32[2] parameter(0)
  b = f32[2] parameter(1)
  c = f32[2] parameter(2)
  ROOT s = f32[2] subtract(a, c)
}
ENTRY e {
  x = f32[2] parameter(0)
  y = f32[2] parameter(1)
  n = f32[2] negate(y)
  ROOT f = f32[2] fusion(x, n, y), kind=kLoop, calls=fused
}"""
ALL_READ = TEXT.replace("  ROOT s = f32[2] subtract(a, c)", "  t = f32[2] add(b, c)\n  ROOT s = f32[2] subtract(a, t)")


def parameter(number: int, shape: Shape = PAIR) -> HloInstruction:
    return HloInstruction.create_parameter(number, shape)


def module_of(text: str = TEXT) -> tuple[HloModule, HloComputation]:
    module = parse_hlo(text)
    return module, module.entry_computation


def named(computation: HloComputation, name: str) -> HloInstruction:
    return next(i for i in computation.instructions if i.name == name)


def test_builder() -> None:
    builder = HloComputation.Builder("c")
    with pytest.raises(InvalidArgument, match="no instructions"):
        builder.build()
    x = builder.add_instruction(parameter(0))
    y = builder.add_instruction(make("negate", x))
    assert builder.build().root_instruction is y
    with pytest.raises(FailedPrecondition, match="no root"):
        _ = HloComputation("empty").root_instruction


def test_program_shape() -> None:
    _, entry = module_of()
    assert str(entry.compute_program_shape()) == "(x: f32[2]{0}, y: f32[2]{0}) -> f32[2]{0}"


def test_add_parameter() -> None:
    module, entry = module_of()
    fused = module.get_computation_with_name("fused")
    added = fused.add_parameter(parameter(3, F32))
    assert fused.parameter_instruction(3) is added and fused.num_parameters == 4
    for wrong, message in [(parameter(7), "has number 4, not 7"), (make("negate", added), "not a parameter")]:
        with pytest.raises(InvalidArgument, match=message):
            fused.add_parameter(wrong)
    with pytest.raises(FailedPrecondition, match="add_entry_parameter"):
        entry.add_parameter(parameter(2))
    with pytest.raises(InvalidArgument, match="no parameter 4"):
        fused.parameter_instruction(4)
    with pytest.raises(InvalidArgument, match="two parameters numbered 0"):
        fused.add_instruction(parameter(0))


def test_entry_parameters() -> None:
    module, entry = module_of(ALL_READ)
    entry.add_entry_parameter(parameter(2, F32))
    assert module.entry_computation_layout.parameter_shapes == [PAIR, PAIR, F32]
    column = Shape.array("f64", (2,))
    new = entry.replace_entry_parameter(2, parameter(2, column))
    assert entry.parameter_instructions[2] is new and module.entry_computation_layout.parameter_shapes[2] == column
    verify_module(module)
    fused = module.get_computation_with_name("fused")
    for method in (
        lambda: fused.add_entry_parameter(parameter(3)),
        lambda: fused.replace_entry_parameter(0, parameter(0)),
    ):
        with pytest.raises(FailedPrecondition, match="not the entry"):
            method()


def test_replace_parameter() -> None:
    module, entry = module_of(ALL_READ)
    fused = module.get_computation_with_name("fused")
    old, new = fused.parameter_instruction(0), parameter(0)
    fused.replace_parameter(0, new)
    assert fused.root_instruction.operand(0) is new and old.parent is None
    verify_module(module)
    with pytest.raises(InvalidArgument, match="parameter 1 cannot replace parameter 0"):
        fused.replace_parameter(0, parameter(1))
    with pytest.raises(InvalidArgument, match="already belongs"):
        fused.replace_parameter(0, entry.parameter_instruction(0))
    with pytest.raises(FailedPrecondition, match="replace_entry_parameter"):
        entry.replace_parameter(0, parameter(0))


def test_a_replaced_parameter_hands_over_control_edges_and_annotations() -> None:
    text = """ENTRY e {
      x = f32[2] parameter(0), sharding={replicated}, metadata={op_name="o"}
      ROOT n = f32[2] constant({1, 2}), control-predecessors={x} }"""
    entry = parse_hlo(text).entry_computation
    new = entry.replace_entry_parameter(0, parameter(0, Shape.array("f32", (2,))))
    assert str(new.sharding) == "{replicated}" and new.metadata.op_name == "o"
    assert entry.root_instruction.control_predecessors == [new] and entry.instruction_count == 2


def test_remove_parameter() -> None:
    module, entry = module_of()
    fused = module.get_computation_with_name("fused")
    with pytest.raises(FailedPrecondition, match="parameter 0 of fused is used"):
        fused.remove_parameter(0)
    with pytest.raises(FailedPrecondition, match="is the entry"):
        entry.remove_parameter(0)
    fused.remove_parameter(1)
    assert [p.parameter_number for p in fused.parameter_instructions] == [0, 1]
    assert fused.root_instruction.operand(1).parameter_number == 1


def test_parameters_go_through_remove_parameter_alone() -> None:
    module = parse_hlo("HloModule m\nENTRY e { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT n = f32[] abs(x) }")
    entry = module.entry_computation
    for remove in (entry.remove_instruction, entry.force_remove_instruction):
        with pytest.raises(FailedPrecondition, match="parameter y can only go through remove_parameter"):
            remove(entry.parameter_instruction(1))


def test_remove_unused_parameters() -> None:
    module, entry = module_of()
    fused = module.get_computation_with_name("fused")
    assert fused.remove_unused_parameters_from_fused_computation() == [1]
    assert [o.name for o in entry.root_instruction.operands] == ["x", "y"]
    verify_module(module)
    with pytest.raises(FailedPrecondition, match="not the computation of a fusion"):
        entry.remove_unused_parameters_from_fused_computation()


def test_removal() -> None:
    _, entry = module_of("HloModule m\nENTRY e { x = f32[2] parameter(0)  n = f32[2] negate(x)  d = f32[2] abs(n)\n"
                         "k = f32[2] abs(x)  ROOT r = f32[2] cosine(x) }")  # fmt: skip
    x, n, d, k, root = entry.instructions
    for victim, message in [(x, "remove_parameter"), (n, "still has users, first d"), (root, "is the root")]:
        with pytest.raises(FailedPrecondition, match=message):
            entry.remove_instruction(victim)
    k.add_control_dependency_to(root)
    with pytest.raises(FailedPrecondition, match="control dependencies"):
        entry.remove_instruction(k)
    entry.force_remove_instruction(k)
    assert root.control_predecessors == []
    gone: list[str] = []
    entry.remove_instruction_and_unused_operands(d, cleanup=lambda i: gone.append(i.name))
    assert gone == ["d", "n"] and entry.instructions == (x, root)
    with pytest.raises(InvalidArgument, match="d is not in computation e"):
        entry.remove_instruction(d)


def test_replacement_relays_control_edges_and_copies_annotations() -> None:
    text = """HloModule m
ENTRY e {
  x = f32[2] parameter(0)
  b = f32[2] abs(x)
  n = f32[2] negate(x), control-predecessors={b}, frontend_attributes={k="v"}, metadata={op_name="o"}
  ROOT r = f32[2] cosine(n)
}"""
    module, entry = module_of(text)
    old = named(entry, "n")
    new = entry.replace_with_new_instruction(old, make("sine", old.operand(0)))
    assert entry.root_instruction.operand(0) is new and old.parent is None
    assert new.control_predecessors == [named(entry, "b")]
    assert new.frontend_attributes == {"k": "v"} and new.metadata.op_name == "o"
    verify_module(module)
    wide = entry.add_instruction(
        HloInstruction.create("broadcast", Shape.array("f32", (4,)), [entry.parameter_instruction(0)])
    )
    with pytest.raises(InvalidArgument, match=r"has shape f32\[4\]"):
        entry.replace_instruction(new, wide)
    with pytest.raises(InvalidArgument, match="is not in computation"):
        entry.replace_instruction(new, make("abs", new))


def test_replacement_preserves_sharding() -> None:
    _, entry = module_of()
    old, x = named(entry, "n"), entry.parameter_instruction(0)
    old.sharding = HloSharding("replicated")
    other = entry.add_instruction(make("abs", x))
    other.sharding = HloSharding("maximal device=0")
    assert entry.replace_instruction(old, other, preserve_sharding=True) is False
    assert old.users == (entry.root_instruction,)
    plain = entry.add_instruction(make("abs", x))
    assert entry.replace_instruction(old, plain, preserve_sharding=True) is True
    assert plain.sharding == HloSharding("replicated") and old.parent is None


def test_root() -> None:
    _, entry = module_of()
    wide = entry.add_instruction(
        HloInstruction.create("broadcast", Shape.array("f32", (4,)), [entry.parameter_instruction(0)])
    )
    with pytest.raises(InvalidArgument, match="new root"):
        entry.set_root_instruction(wide)
    entry.set_root_instruction(wide, accept_different_shape=True)
    assert entry.root_instruction is wide and wide.is_root()
    with pytest.raises(InvalidArgument, match="not in computation"):
        entry.set_root_instruction(make("abs", wide))


def test_deep_copy() -> None:
    text = """HloModule m
ENTRY e {
  x = f32[2] parameter(0)
  i = (f32[2], f32[2]) tuple(x, x)
  t = ((f32[2], f32[2]), f32[2]) tuple(i, x)
  ROOT r = f32[2] abs(x)
}"""
    module, entry = module_of(text)
    x, t = entry.parameter_instruction(0), named(entry, "t")
    assert entry.deep_copy_instruction(x).opcode == "copy"
    assert entry.deep_copy_instruction(x, []) is x
    everything = entry.deep_copy_instruction(t)
    assert everything.opcode == "tuple" and everything.shape == t.shape
    assert everything.operand(0).opcode == "tuple" and everything.operand(1).opcode == "copy"
    some = entry.deep_copy_instruction(t, [(0, 1)])
    assert [o.opcode for o in some.operand(0).operands] == ["get-tuple-element", "copy"]
    assert some.operand(0).operand(1).operand(0).latest_non_gte_ancestor_and_index() == (t, (0, 1))
    assert some.operand(1).opcode == "get-tuple-element"
    verify_module(module)
    for index in [(0,), (2,), (0, 0, 0)]:
        with pytest.raises(InvalidArgument, match="has no array at index"):
            entry.deep_copy_instruction(t, [index])
    with pytest.raises(InvalidArgument, match="not in computation"):
        entry.deep_copy_instruction(parameter(0))


def test_roles() -> None:
    text = """HloModule m
cond {
  p = (s32[]) parameter(0)
  g = s32[] get-tuple-element(p), index=0
  k = s32[] constant(3)
  ROOT l = pred[] compare(g, k), direction=LT
}
body { p = (s32[]) parameter(0)  g = s32[] get-tuple-element(p), index=0  ROOT t = (s32[]) tuple(g) }
yes { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }
no { p = f32[2] parameter(0)  ROOT n = f32[2] abs(p) }
sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = pred[] compare(a, b), direction=LT }
fused { a = f32[2] parameter(0)  ROOT n = f32[2] negate(a) }
called { a = f32[2] parameter(0)  ROOT n = f32[2] negate(a) }
given { a = f32[2] parameter(0)  ROOT n = f32[2] negate(a) }
ENTRY e {
  x = f32[2] parameter(0)
  i = (s32[]) parameter(1)
  q = pred[] parameter(2)
  z = f32[] constant(0)
  w = (s32[]) while(i), condition=cond, body=body
  d = f32[2] conditional(q, x, x), true_computation=yes, false_computation=no
  r = f32[] reduce(d, z), dimensions={0}, to_apply=sum
  s = f32[2] sort(x), dimensions={0}, to_apply=less
  f = f32[2] fusion(s), kind=kLoop, calls=fused
  c = f32[2] call(f), to_apply=called
  cc = f32[2] custom-call(c), custom_call_target="t", called_computations={given}
  ROOT o = (f32[], f32[2]) tuple(r, cc)
}"""
    module, entry = module_of(text)
    roles = {
        "cond": "while_condition", "body": "while_body", "yes": "conditional_branch", "no": "conditional_branch",
        "sum": "reducer", "less": "comparator", "fused": "fusion", "called": "call", "given": "custom_call",
    }  # fmt: skip
    for name, role in roles.items():
        computation = module.get_computation_with_name(name)
        for other in {*roles.values(), "async"}:
            assert getattr(computation, f"is_{other}_computation")() == (other == role), (name, other)
        assert computation.is_called_computation()
        assert len(computation.caller_instructions()) == 1 and not computation.is_entry_computation()
    assert entry.is_entry_computation() and not entry.is_called_computation()
    assert module.get_computation_with_name("fused").fusion_instruction.name == "f"
    assert not HloComputation("free").is_entry_computation()


def test_equality_is_structural_and_hash_is_not() -> None:
    a, b = (
        module_of()[1],
        module_of(TEXT.replace("fused", "other").replace(" n = ", " q = ").replace("n, y", "q, y"))[1],
    )
    assert a == b and a.equal(b) and hash(a) != hash(b) and len({a, b}) == 2
    c = module_of(TEXT.replace("negate", "abs"))[1]
    assert a != c and a != "a computation"
    d = module_of(TEXT.replace("n = f32[2] negate", "n = f32[2]{0:T(2)} negate"))[1]
    assert not a.equal(d) and a.equal(d, layout_sensitive=False)


def test_create_fusion_instruction() -> None:
    module, entry = module_of(ALL_READ)
    with pytest.raises(InvalidArgument, match="needs instructions of e"):
        entry.create_fusion_instruction([])
    with pytest.raises(InvalidArgument, match="needs instructions of e"):
        entry.create_fusion_instruction([parameter(0)])
    fusion = entry.create_fusion_instruction([named(entry, "n")], "kInput")
    assert fusion.is_input_fusion() and fusion.fused_expression_root.opcode == "negate"
    verify_module(module)


def test_to_string_is_the_computation() -> None:
    _, entry = module_of()
    assert str(entry).startswith("ENTRY %e (") and str(entry) in entry.parent.to_string()
