"""HloModule: ownership, entry, orders, names, ids, random numbers."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from xjit.hlo import HloComputation, HloInstruction, HloModule, InvalidArgument, Shape
from xjit.hlo.diagnostics import FailedPrecondition, HloVerifyError
from xjit.hlo.ir.module_config import ComputationLayout, HloModuleConfig, ProgramShape, create_module_config_from_shape
from xjit.hlo.ir.schedule import HloSchedule
from xjit.ops.verifier import verify_module
from xjit.text.parser import parse_hlo

TEXT = """HloModule m
leaf { a = f32[] parameter(0)  ROOT n = f32[] negate(a) }
middle { a = f32[] parameter(0)  ROOT c = f32[] call(a), to_apply=leaf }
unused { a = f32[] parameter(0)  ROOT c = f32[] call(a), to_apply=unused_leaf }
unused_leaf { a = f32[] parameter(0)  ROOT n = f32[] abs(a) }
fused { a = f32[] parameter(0)  ROOT n = f32[] exponential(a) }
ENTRY e {
  x = f32[] parameter(0)
  c = f32[] call(x), to_apply=middle
  ROOT f = f32[] fusion(c), kind=kLoop, calls=fused
}"""
F32 = Shape.array("f32")


def computation(name: str, opcode: str = "negate", shape: Shape = F32) -> HloComputation:
    builder = HloComputation.Builder(name)
    parameter = builder.add_instruction(HloInstruction.create_parameter(0, shape, "x"))
    builder.add_instruction(HloInstruction.create(opcode, shape, [parameter], name="x"))
    return builder.build()


def test_entry_errors() -> None:
    module = HloModule("m")
    assert not module.has_entry_computation()
    with pytest.raises(FailedPrecondition, match="no entry"):
        _ = module.entry_computation
    entry = module.add_entry_computation(computation("e"))
    assert module.entry_computation is entry and module.result_shape == F32
    with pytest.raises(FailedPrecondition, match="already has the entry computation e"):
        module.add_entry_computation(computation("e2"))


def test_names_and_ids_are_unique() -> None:
    module = HloModule("m")
    module.add_entry_computation(computation("c"))
    second = module.add_computation_and_unify_names_and_ids(computation("c"))
    assert second.name == "c.1" and [i.name for i in second.instructions] == ["x.2", "x.3"]
    module.check_unique_names_and_ids_for_computations_and_instructions()
    third = module.new_unique_instruction_id()
    assert module.new_unique_instruction_id() == third + 1
    second.instructions[0].name = "x"
    with pytest.raises(HloVerifyError, match="name x"):
        module.check_unique_names_and_ids_for_computations_and_instructions()
    second.instructions[0].set_and_sanitize_name("1 y")
    assert second.instructions[0].name == "_1_y"
    second.unique_id = module.entry_computation.unique_id
    with pytest.raises(HloVerifyError, match="two computations of module m have the id"):
        module.check_unique_names_and_ids_for_computations_and_instructions()


def test_process_wide_ids_and_config() -> None:
    a, b = HloModule("a"), HloModule("b")
    assert a.unique_id != b.unique_id
    a.set_name("c")
    assert a.name == "c"
    config = HloModuleConfig(replica_count=3)
    a.set_config(config)
    assert a.config is config


def test_add_entry_computation_with_layouts() -> None:
    column = Shape.array("f32", (2, 3), (0, 1))
    config = HloModuleConfig(ComputationLayout([Shape.array("f32", (2, 3))], Shape.array("f32", (2, 3))))
    module = HloModule("m", config)
    module.add_entry_computation_with_layouts(computation("e", shape=column))
    assert module.entry_computation_layout == ComputationLayout([column], column)
    assert module.mutable_entry_computation_layout() is module.config.entry_computation_layout


def test_replace_entry_computation() -> None:
    module = parse_hlo(TEXT)
    module.input_output_alias_config.set_up_alias((), 0)
    old, wide = module.entry_computation, Shape.array("f32", (7,))
    new = module.add_embedded_computation(computation("e2", shape=wide))
    module.replace_entry_computation(new)
    assert module.entry_computation is new and old in module.computations()
    assert module.entry_computation_layout.parameter_shapes == [wide]
    assert module.input_output_alias_config.aliases == ()
    with pytest.raises(InvalidArgument, match="not in module"):
        module.replace_entry_computation(computation("other"))
    with pytest.raises(FailedPrecondition, match="calls it"):
        module.replace_entry_computation(module.get_computation_with_name("middle"))


def test_removal_of_computations() -> None:
    module = parse_hlo(TEXT)
    leaf = module.get_computation_with_name("leaf")
    assert leaf is not None and module.get_computation_with_name("nobody") is None
    for item in (leaf, module.entry_computation):
        with pytest.raises(FailedPrecondition, match="still in use"):
            module.remove_embedded_computation(item)
    with pytest.raises(InvalidArgument, match="not in module"):
        module.remove_embedded_computation(computation("x"))
    module.set_schedule(HloSchedule({c: c.make_instruction_post_order() for c in module.computations()}))
    unused = module.get_computation_with_name("unused")
    module.remove_unused_computations()
    assert [c.name for c in module.computations()] == ["leaf", "middle", "fused", "e"]
    assert not module.schedule.is_scheduled(unused)
    verify_module(module)


def test_replace_computations() -> None:
    module = parse_hlo(TEXT)
    leaf, fused = module.get_computation_with_name("leaf"), module.get_computation_with_name("fused")
    new_leaf = module.add_embedded_computation(computation("new_leaf", "abs"))
    new_fused = module.add_embedded_computation(computation("new_fused", "cosine"))
    module.replace_computations({leaf: new_leaf, fused: new_fused})
    assert module.get_computation_with_name("middle").root_instruction.to_apply is new_leaf
    assert module.entry_computation.root_instruction.fused_instructions_computation is new_fused
    assert leaf.parent is None and fused.parent is None
    verify_module(module)
    wrong = module.add_embedded_computation(computation("wrong", shape=Shape.array("f32", (2,))))
    with pytest.raises(InvalidArgument, match="signatures differ"):
        module.replace_computations({new_leaf: wrong})
    with pytest.raises(InvalidArgument, match="not in module"):
        module.replace_computations({new_leaf: computation("free")})
    with pytest.raises(InvalidArgument, match="to be replaced itself"):
        module.replace_computations({new_leaf: new_fused, new_fused: new_leaf})


def test_replace_the_entry() -> None:
    module = parse_hlo(TEXT)
    old = module.entry_computation
    new = module.add_embedded_computation(computation("e2"))
    module.replace_computations({old: new})
    assert module.entry_computation is new and old.parent is None


def test_counts_and_indices() -> None:
    module = parse_hlo(TEXT)
    assert module.computation_count == 6 and module.instruction_count == 13
    assert module.mutable_computation(1) is module.computations()[1]
    for i in (-1, 6):
        with pytest.raises(InvalidArgument, match="6 computations"):
            module.mutable_computation(i)
    module.computations()[0].execution_thread = "host"
    assert [c.name for c in module.computations(["host"])] == ["leaf"]


def test_orders() -> None:
    module = parse_hlo(TEXT)
    order = module.make_computation_post_order()
    assert order[-1] is module.entry_computation and len(order) == 6
    position = {c: i for i, c in enumerate(order)}
    for item in order:
        assert all(position[c] < position[item] for i in item.instructions for c in i.called_computations)
    assert {id(c) for c in module.make_nonfusion_computations()} == {id(c) for c in order if c.name != "fused"}
    renamed = parse_hlo(TEXT.replace("leaf", "zz").replace("middle", "aa"))
    names = [c.name for c in module.make_computation_sorted()]
    back = {"zz": "leaf", "aa": "middle", "unused_zz": "unused_leaf"}
    assert [back.get(c.name, c.name) for c in renamed.make_computation_sorted()] == names
    assert [c.name for c in module.make_nonfusion_computations_sorted()] == [n for n in names if n != "fused"]


def test_cleanup_frees_what_was_never_taken_in() -> None:
    module = parse_hlo(TEXT)
    entry, leaf = module.entry_computation, module.get_computation_with_name("leaf")
    x = entry.parameter_instruction(0)
    free = HloInstruction.create("call", F32, [x], called_computations=[leaf])
    assert x.is_user_of(free) is False and free in x.users and free in leaf.caller_instructions()
    module.cleanup()
    assert free not in x.users and free not in leaf.caller_instructions() and x.user_count == 1
    verify_module(module)


def test_random_numbers_are_those_of_mt19937_64() -> None:
    module = HloModule("m")
    numbers = [module.random_new64() for _ in range(1000)]
    assert numbers[:3] == [13930160852258120406, 11788048577503494824, 13874630024467741450]  # printed by libstdc++
    assert numbers[999] == 3828873268105487008
    assert HloModule("n").random_new64() == numbers[0]


def test_random_numbers_from_threads() -> None:
    module, found = HloModule("m"), list[int]()
    threads = [
        threading.Thread(target=lambda: found.extend(module.random_new64() for _ in range(200))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reference = HloModule("n")
    assert sorted(found) == sorted(reference.random_new64() for _ in range(800))


FORK = """
import os, signal, threading, time
from xjit.hlo import HloModule
from xjit.hlo.mersenne_twister import MersenneTwister64

inside, next_number = threading.Event(), MersenneTwister64.next

def slowly(generator):
    inside.set()
    time.sleep(0.3)
    return next_number(generator)

MersenneTwister64.next = slowly
module = HloModule("m")
thread = threading.Thread(target=module.random_new64)
thread.start()
inside.wait()
child = os.fork()
if not child:
    signal.alarm(10)
    os._exit(0 if module.random_new64() == next_number(MersenneTwister64(42)) else 1)
thread.join()
print(os.waitpid(child, 0)[1])
"""


def test_random_numbers_in_a_child_forked_while_a_thread_draws_one() -> None:
    result = subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], capture_output=True, text=True, timeout=60)
    assert result.stdout == "0\n", result.stdout + result.stderr


def test_schedule() -> None:
    module = parse_hlo(TEXT)
    assert not module.has_schedule()
    with pytest.raises(FailedPrecondition, match="no schedule"):
        _ = module.schedule
    module.set_schedule(HloSchedule({c: c.make_instruction_post_order() for c in module.computations()}))
    assert module.has_schedule() and "is_scheduled=true" in module.to_string()
    module.clear_schedule()
    assert not module.has_schedule() and "is_scheduled" not in module.to_string()
    with pytest.raises(HloVerifyError, match="no sequence"):
        module.set_schedule(HloSchedule({}))


def test_a_schedule_of_another_module_is_refused() -> None:
    module, other = parse_hlo(TEXT), parse_hlo(TEXT)
    schedule = HloSchedule.from_instruction_order(module)
    schedule.set_sequence(other.entry_computation, other.entry_computation.instructions)
    with pytest.raises(HloVerifyError, match="computation e is not in module m"):
        module.set_schedule(schedule)


def test_config_from_shape() -> None:
    shape = Shape.array("f32", (2, 3))
    program = ProgramShape((shape,), F32, ("x",))
    assert str(program) == "(x: f32[2,3]{1,0}) -> f32[]"
    config = create_module_config_from_shape(program, replica_count=2, seed=7)
    assert config.replica_count == 2 and config.seed == 7
    assert config.entry_computation_layout == ComputationLayout([shape], F32)
    column = ComputationLayout([Shape.array("f32", (2, 3), (0, 1))], F32)
    assert create_module_config_from_shape(program, column).entry_computation_layout == column
    for layout, message in [
        (ComputationLayout([], F32), "1 parameters, the layout 0"),
        (ComputationLayout([F32], F32), "parameter 0 has shape"),
        (ComputationLayout([shape], shape), "the result has shape"),
    ]:
        with pytest.raises(InvalidArgument, match=message):
            create_module_config_from_shape(program, layout)
    with pytest.raises(InvalidArgument, match="unknown module option replicas"):
        create_module_config_from_shape(program, replicas=2)
    with pytest.raises(InvalidArgument, match="at least 1"):
        create_module_config_from_shape(program, num_partitions=0)


def test_text_that_is_scheduled_has_a_schedule() -> None:
    module = parse_hlo(TEXT.replace("HloModule m", "HloModule m, is_scheduled=true"))
    entry, fused = module.entry_computation, module.get_computation_with_name("fused")
    assert [i.name for i in module.schedule.sequence(entry)] == ["x", "c.2", "f"]
    assert fused is not None and not module.schedule.is_scheduled(fused)
    verify_module(module)
    module.clear_schedule()
    assert not parse_hlo(str(module)).has_schedule()


def test_an_updated_schedule_is_also_the_printed_order() -> None:
    module = parse_hlo(TEXT.replace("HloModule m", "HloModule m, is_scheduled=true"))
    entry = module.entry_computation
    call = entry.root_instruction.operand(0)
    extra = entry.add_instruction(HloInstruction.create_negate(F32, call))
    entry.root_instruction.replace_operand_with(0, extra)
    module.schedule.update(module)
    assert [i.name for i in entry.instructions] == ["x", "c.2", "negate", "f"]
    assert str(parse_hlo(str(module))) == str(module)


def test_equality_is_that_of_the_graphs() -> None:
    module, other = parse_hlo(TEXT), parse_hlo(TEXT.replace("exponential", "cosine"))
    assert module == parse_hlo(TEXT.replace("HloModule m", "HloModule n")) and module != other
    assert HloModule("m") != HloModule("m") and module != str(module)
    assert len({module, parse_hlo(TEXT)}) == 2
