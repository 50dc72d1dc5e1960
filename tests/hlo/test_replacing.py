"""`replace`: uses, control edges and annotations of one instruction go over to another."""

from __future__ import annotations

import time

import pytest

from xjit.collector_pause import collector_pause
from xjit.hlo import HloComputation, HloInstruction, Shape
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.edit.replacing import replace
from xjit.ops.verifier import verify_module
from xjit.text.parser import parse_hlo

TEXT = """HloModule m
ENTRY e {
  x = f32[2] parameter(0)
  y = f32[2] parameter(1)
  before = f32[2] abs(x)
  old = f32[2] negate(y), control-predecessors={before}, sharding={replicated}, metadata={op_name="o"}
  user = f32[2] sine(old)
  after = f32[2] cosine(y), control-predecessors={old}
  ROOT t = (f32[2], f32[2], f32[2]) tuple(before, user, after)
}"""


def instructions() -> dict[str, HloInstruction]:
    return {i.name: i for i in parse_hlo(TEXT).entry_computation.instructions}


def test_a_new_instruction_takes_the_place() -> None:
    i = instructions()
    computation = i["old"].parent
    assert computation is not None and computation.parent is not None
    new = computation.add_instruction(HloInstruction.create("abs", i["y"].shape, [i["y"]]))
    replace(i["old"], new)
    assert i["old"].parent is None and i["user"].operand(0) is new
    assert new.control_predecessors == [i["before"]] and new.control_successors == [i["after"]]
    assert str(new.sharding) == "{replicated}" and new.metadata.op_name == "o" and new.place is not None
    verify_module(computation.parent)


def test_what_others_read_is_not_made_to_wait() -> None:
    i = instructions()
    computation = i["old"].parent
    assert computation is not None and computation.parent is not None
    replace(i["old"], i["x"])  # `before` reads x: an edge from before to x would be a cycle
    assert i["x"].control_predecessors == [] and i["x"].sharding is None and not i["x"].metadata.op_name
    assert i["before"] in i["user"].control_predecessors and i["before"] in i["after"].control_predecessors
    assert computation.instruction_count == 6
    verify_module(computation.parent)


def test_only_one_computation() -> None:
    i, j = instructions(), instructions()
    with pytest.raises(InvalidArgument, match="x is not in computation e"):
        replace(i["old"], j["x"])


def _wide(count: int) -> tuple[HloInstruction, list[HloInstruction]]:
    builder = HloComputation.Builder("e")
    shape = Shape.array("f32", (2,))
    x = builder.add_instruction(HloInstruction.create_parameter(0, shape))
    parts = [builder.add_instruction(HloInstruction.create("negate", shape, [x])) for _ in range(count)]
    wide = builder.add_instruction(HloInstruction.create_tuple([*parts, *parts[:3]]))
    builder.build()
    return wide, parts


def test_operands_of_a_wide_tuple_stay_consistent() -> None:
    wide, parts = _wide(40)
    x = parts[0].operand(0)
    parts[0].replace_all_uses_with(parts[1])
    assert not parts[0].users and [n for n, o in enumerate(wide.operands) if o is parts[1]] == [0, 1, 40, 41]
    wide.replace_operand_with(41, x)
    parts[1].replace_use_with(wide, x)
    assert not parts[1].users and [n for n, o in enumerate(wide.operands) if o is x] == [0, 1, 40, 41]
    wide.append_operand(parts[1])
    parts[1].replace_all_uses_with(parts[2])
    assert wide.operands[-1] is parts[2] and wide.operand_count == 44
    wide.remove_operands_at([0, 43])
    parts[5].replace_all_uses_with(x)
    assert [n for n, o in enumerate(wide.operands) if o is x] == [0, 4, 39, 40] and wide in x.users


@pytest.mark.parametrize("by_one", [False, True], ids=["by others", "by one that it reads already"])
def test_replacing_operands_of_a_wide_tuple_takes_linear_time(by_one: bool) -> None:
    @collector_pause
    def seconds(count: int) -> float:
        _, parts = _wide(count)
        x = parts[0].operand(0)
        others = [HloInstruction.create("abs", x.shape, [x]) for _ in range(1000)]
        if by_one:
            others = [parts[0]] * 1000
            for part in parts[1003:]:
                part.replace_all_uses_with(parts[0])
        start = time.process_time()
        for part, other in zip(parts[3:], others, strict=False):
            part.replace_all_uses_with(other)
        return time.process_time() - start

    small = min(seconds(1100) for _ in range(3))
    assert min(seconds(22000) for _ in range(3)) < 8 * small  # the same number of replacements; a scan takes 20 times


ABSORBED = """HloModule m
ENTRY e {
  x = f32[2] parameter(0)
  before = f32[2] abs(x)
  inner = f32[2] negate(x), control-predecessors={before}
  old = f32[2] sine(inner)
  user = f32[2] cosine(old)
  ROOT t = (f32[2], f32[2]) tuple(before, user)
}"""


@pytest.mark.parametrize("is_new", [True, False])
def test_what_an_unused_operand_waited_for_is_waited_for(is_new: bool) -> None:
    module = parse_hlo(ABSORBED)
    i = {i.name: i for i in module.entry_computation.instructions}
    new = i["x"]
    if is_new:
        new = module.entry_computation.add_instruction(HloInstruction.create("tanh", new.shape, [new]))
    replace(i["old"], new)
    assert i["inner"].parent is None
    waiting = new if is_new else i["user"]
    assert waiting.control_predecessors == [i["before"]] and i["before"].control_successors == [waiting]
    verify_module(module)


@pytest.mark.parametrize(("opcode", "name"), [("negate", "y"), ("abs", "abs")])
def test_a_new_instruction_of_the_same_opcode_has_the_name(opcode: str, name: str) -> None:
    computation = parse_hlo("ENTRY e { x = f32[] parameter(0)  ROOT y = f32[] negate(x) }").entry_computation
    x, y = computation.parameter_instructions[0], computation.root_instruction
    new = computation.add_instruction(HloInstruction.create(opcode, y.shape, [x]))
    replace(y, new)
    assert computation.root_instruction.name == name


def test_what_others_read_keeps_its_name() -> None:
    text = "ENTRY e { x = f32[] parameter(0)  y = f32[] negate(x)  z = f32[] negate(x)  ROOT t = (f32[], f32[]) tuple(y, z) }"
    computation = parse_hlo(text).entry_computation
    y, z = computation.root_instruction.operands
    replace(z, y)
    assert [o.name for o in computation.root_instruction.operands] == ["y", "y"]
