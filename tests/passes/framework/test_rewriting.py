"""The rewriting driver: worklist, budget, what is taken back, what new instructions inherit."""

from __future__ import annotations

import warnings

import pytest

from xjit.hlo import HloInstruction, HloModule
from xjit.ops.verifier import verify_module
from xjit.passes.expand.batch_norm_expander import BatchNormExpander
from xjit.passes.framework import match as m
from xjit.passes.framework.base import PassWarning
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.framework.rewriting import Rule, apply_rules, rule_table
from xjit.passes.simplify.algebraic_simplifier import AlgebraicSimplifier
from xjit.text.parser import parse_hlo


def rewrites(text: str, *rules: Rule) -> tuple[bool, HloModule]:
    module = parse_hlo(text)
    changed = apply_rules(module.entry_computation, rule_table(rules))
    verify_module(module)
    return changed, module


def _operand(match: Match, _into: Expansion) -> HloInstruction:
    return match["x"]


TWICE = Rule("negate(negate(x)) = x", m.op("negate", m.op("negate", m.any("x"))), _operand)
SHARED = Rule("abs(negate(x)) = abs(x) for a negate that only it reads",
              m.op("abs", m.op("negate", m.any("x")).one_use()),
              lambda match, into: into.make("abs", match["x"]))  # fmt: skip


def test_chains_vanish_in_one_run() -> None:
    changed, module = rewrites(
        "ENTRY e { x = f32[2] parameter(0) a = f32[2] negate(x) b = f32[2] negate(a) c = f32[2] negate(b) "
        "d = f32[2] negate(c) ROOT r = f32[2] abs(d) }",
        TWICE,
    )
    assert changed and [i.opcode for i in module.entry_computation.instructions] == ["parameter", "abs"]
    assert not apply_rules(module.entry_computation, rule_table([TWICE]))


def test_losing_a_user_wakes_up_the_other_one() -> None:
    changed, module = rewrites(
        "ENTRY e { x = f32[2] parameter(0) n = f32[2] negate(x) a = f32[2] abs(n) m = f32[2] negate(n) "
        "ROOT t = (f32[2], f32[2]) tuple(a, m) }",
        TWICE,
        SHARED,
    )
    assert changed and not any(i.opcode == "negate" for i in module.entry_computation.instructions)


def test_what_goes_with_an_operand_wakes_up_other_readers() -> None:
    """The convert that keeps n from its other reader is no operand of what is replaced, but of its operand."""
    changed, module = rewrites(
        "ENTRY e { x = f32[2] parameter(0) n = f32[2] negate(x) a = f32[2] abs(n) c = f16[2] convert(n) "
        "m = f16[2] negate(c) k = f16[2] negate(m) s = pred[2] is-finite(k) ROOT t = (f32[2], pred[2]) tuple(a, s) }",
        Rule("is-finite = true", m.op("is-finite"), lambda match, into: into.full(match.root.shape, 1)),
        SHARED,
    )
    assert changed and not any(i.opcode == "negate" for i in module.entry_computation.instructions)


def test_losing_a_user_wakes_up_readers_of_the_reader() -> None:
    changed, module = rewrites(
        "ENTRY e { x = f32[2] parameter(0) s = f32[2] sine(x) n = f32[2] negate(s) a = f32[2] abs(n) "
        "f = pred[2] is-finite(s) ROOT t = (f32[2], pred[2]) tuple(a, f) }",
        Rule("is-finite = true", m.op("is-finite"), lambda match, into: into.full(match.root.shape, 1)),
        Rule("abs(negate(sine(x))) = cosine(x) for a sine that only it reads",
             m.op("abs", m.op("negate", m.op("sine", m.any("x")).one_use())),
             lambda match, into: into.make("cosine", match["x"])),
    )  # fmt: skip
    assert changed and "cosine" in module.entry_computation.opcodes


def test_rules_that_undo_each_other_are_stopped_and_named() -> None:
    there = Rule("sine = cosine", m.op("sine", m.any("x")), lambda match, into: into.make("cosine", match["x"]))
    back = Rule("cosine = sine", m.op("cosine", m.any("x")), lambda match, into: into.make("sine", match["x"]))
    with pytest.warns(PassWarning, match="rewriting of e does not end: rule 'sine = cosine' was applied 1[56] times"):
        assert rewrites("ENTRY e { x = f32[2] parameter(0) ROOT r = f32[2] sine(x) }", there, back)[0]


def test_what_a_rule_made_before_it_gave_up_is_taken_back() -> None:
    def give_up(match: Match, into: Expansion) -> None:
        into.sum(into.make("negate", match.root), (0,))

    changed, module = rewrites(
        "HloModule m\nENTRY e { x = f32[2] parameter(0) ROOT r = f32[2] sine(x) }", Rule("never", m.op("sine"), give_up)
    )
    assert not changed and module.instruction_count == 2 and module.computation_count == 1


def test_a_rule_of_any_opcode_is_refused() -> None:
    with pytest.raises(ValueError, match="rule 'all' matches any opcode"):
        rule_table([Rule("all", m.any("x"), _operand)])


ANNOTATED = 'metadata={op_name="jit(f)/norm" source_file="f.py" source_line=3}, frontend_attributes={k="v"}'


def test_all_of_an_expansion_inherits_annotations() -> None:
    text = f"""HloModule m
ENTRY e {{
  x = f32[4,3] parameter(0)  s = f32[3] parameter(1)  o = f32[3] parameter(2)
  ROOT n = (f32[4,3], f32[3], f32[3]) batch-norm-training(x, s, o), epsilon=0.1, feature_index=1, {ANNOTATED}
}}"""
    module = parse_hlo(text)
    old = module.entry_computation.root_instruction
    metadata, place = old.metadata, old.place
    assert BatchNormExpander().run(module) and place is not None
    made = [i for i in module.entry_computation.instructions if i.opcode != "parameter"]
    assert len(made) > 10
    assert all(i.metadata == metadata and i.place is place and i.frontend_attributes == {"k": "v"} for i in made)


def test_a_simplified_instruction_keeps_its_annotations() -> None:
    module = parse_hlo(f"""HloModule m
ENTRY e {{
  x = f32[6] parameter(0)
  a = f32[2,3] reshape(x)
  ROOT r = f32[3,2] reshape(a), sharding={{replicated}}, {ANNOTATED}
}}""")
    place = module.entry_computation.root_instruction.place
    with warnings.catch_warnings():
        assert AlgebraicSimplifier().run(module)
    root = module.entry_computation.root_instruction
    assert root.operand(0).opcode == "parameter" and root.place is place and root.metadata.source_line == 3
    assert root.frontend_attributes == {"k": "v"} and str(root.sharding) == "{replicated}"


def test_control_edges_of_an_expanded_instruction() -> None:
    module = parse_hlo("""HloModule m
ENTRY e {
  x = f32[4,3] parameter(0)  s = f32[3] parameter(1)  o = f32[3] parameter(2)
  before = f32[3] negate(s)
  n = f32[4,3] batch-norm-inference(x, s, o, s, o), epsilon=0.1, feature_index=1, control-predecessors={before}
  after = f32[3] abs(s), control-predecessors={n}
  ROOT t = (f32[4,3], f32[3], f32[3]) tuple(n, before, after)
}""")
    assert BatchNormExpander().run(module)
    verify_module(module)
    root, before, after = module.entry_computation.root_instruction.operands
    assert before in root.control_predecessors and root in after.control_predecessors


def test_conditions_of_shapes_are_asked_once_for_instructions_alike() -> None:
    lines = [f"n{i} = f32[{2 + i % 2}] negate(p{i % 2})" for i in range(8)]
    parameters = "p0 = f32[2] parameter(0) p1 = f32[3] parameter(1)"
    names = ", ".join(f"n{i}" for i in range(8))
    shapes = ", ".join(f"f32[{2 + i % 2}]" for i in range(8))
    module = parse_hlo(f"ENTRY e {{ {parameters} {' '.join(lines)} ROOT t = ({shapes}) tuple({names}) }}")
    asked: list[int] = []

    @m.of_shapes
    def is_short(i: HloInstruction) -> bool:
        asked.append(i.shape.dimensions[0])
        return i.shape.dimensions[0] == 2

    rule = Rule("negate(x) = x of two", m.op("negate", m.any("x")).where(is_short), lambda match, _into: match["x"])
    assert apply_rules(module.entry_computation, rule_table([rule]))
    assert sorted(asked) == [2, 3]
    assert [o.name for o in module.entry_computation.root_instruction.operands] == [
        "p0", "n1", "p0", "n3", "p0", "n5", "p0", "n7",
    ]  # fmt: skip
