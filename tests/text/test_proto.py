"""The proto bridge: validation of what is read, details of the wire format, configs."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.support.hlo_samples import sample_modules
from xjit.hlo import (
    HloError,
    HloModule,
    HloParseError,
    HloVerifyError,
    InvalidArgument,
    Layout,
    Literal,
    Shape,
    Unsupported,
)
from xjit.hlo.annotations.alias_config import Alias
from xjit.hlo.annotations.metadata import HloSharding
from xjit.hlo.attributes import ConstantAttributes
from xjit.ops.verifier import verify_module
from xjit.text import create_from_proto, create_module_config_from_proto, parse_hlo, to_proto
from xjit.text.proto import hlo_pb2 as pb
from xjit.text.proto.shapes import read_literal, write_literal
from xjit.text.proto.sharding import read_sharding, write_sharding

TEXT = """HloModule m, input_output_alias={ {}: (0, {}, must-alias) }, buffer_donor={ (1, {}) }
f { x = f32[2] parameter(0) ROOT n = f32[2] negate(x) }
ENTRY e {
  a = f32[2] parameter(0)
  b = f32[2] parameter(1)
  s = f32[2] add(a, b)
  ROOT c = f32[2] call(s), to_apply=f
}"""


def proto_of(text: str = TEXT) -> Any:
    return pb.HloModuleProto.FromString(to_proto(parse_hlo(text)))


def test_fields() -> None:
    proto = proto_of()
    assert (proto.name, proto.entry_computation_name, proto.entry_computation_id) == ("m", "e", 1)
    entry = proto.computations[1]
    assert [i.id & 0xFFFFFFFF for i in entry.instructions] == [0, 1, 2, 3]
    assert list(entry.instructions[2].operand_ids) == [i.id for i in entry.instructions[:2]]
    assert list(entry.instructions[3].called_computation_ids) == [0]
    assert proto.input_output_alias.entries[0].kind == pb.MUST_ALIAS
    assert proto.buffer_donor.entries[0].parameter_number == 1
    assert len(proto.host_program_shape.parameters) == 2


def break_operand(proto: Any) -> None:
    proto.computations[1].instructions[2].operand_ids[0] = 99


def break_order(proto: Any) -> None:
    instructions = proto.computations[1].instructions
    first = pb.HloInstructionProto()
    first.CopyFrom(instructions[2])
    del instructions[2]
    instructions.insert(0, first)


def duplicate_id(proto: Any) -> None:
    proto.computations[1].instructions[1].id = proto.computations[1].instructions[0].id


def duplicate_name(proto: Any) -> None:
    proto.computations[1].instructions[1].name = "a"


def gap_in_parameters(proto: Any) -> None:
    proto.computations[1].instructions[1].parameter_number = 5


def unknown_opcode(proto: Any) -> None:
    proto.computations[1].instructions[2].opcode = "ad"


def unknown_type(proto: Any) -> None:
    proto.computations[1].instructions[2].shape.element_type = 77


def no_root(proto: Any) -> None:
    proto.computations[1].root_id = 77


def no_entry(proto: Any) -> None:
    proto.entry_computation_id = 77


def no_callee(proto: Any) -> None:
    proto.computations[1].instructions[3].called_computation_ids[0] = 77


def calls_nothing(proto: Any) -> None:
    del proto.computations[1].instructions[3].called_computation_ids[:]


def other_layout(proto: Any) -> None:
    proto.host_program_shape.result.dimensions[0] = 3


def fewer_parameters(proto: Any) -> None:
    del proto.host_program_shape.parameters[0]


def no_program_shape(proto: Any) -> None:
    proto.ClearField("host_program_shape")


def no_computations(proto: Any) -> None:
    proto.ClearField("computations")


def two_parameters_of_a_number(proto: Any) -> None:
    proto.computations[1].instructions[1].parameter_number = 0


def wrong_operand_count(proto: Any) -> None:
    del proto.computations[1].instructions[2].operand_ids[0]


def calls_too_many(proto: Any) -> None:
    proto.computations[1].instructions[2].called_computation_ids.append(0)


def bad_frontend_attribute(proto: Any) -> None:
    proto.computations[1].instructions[2].frontend_attributes.map["a b"] = "1"


def bad_statistic(proto: Any) -> None:
    proto.computations[1].instructions[2].statistics_viz.statistics.add(stat_name="{", stat_val=1)


def bad_mesh_axis(proto: Any) -> None:
    proto.computations[1].instructions[2].sharding.named_sharding.mesh.axes.add(name="'", size=2)


def bad_tile_dimension_kind(proto: Any) -> None:
    proto.computations[1].instructions[2].sharding.last_tile_dims.append(pb.OpSharding.TUPLE)


def bad_layout(proto: Any) -> None:
    proto.computations[1].instructions[2].shape.layout.minor_to_major[0] = 4


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (break_operand, "uses 99, which does not come before it"),
        (break_order, "which does not come before it"),
        (duplicate_id, "two instructions with the id"),
        (duplicate_name, "or name 'a'"),
        (gap_in_parameters, "has no parameter 1"),
        (two_parameters_of_a_number, "two parameters numbered 0"),
        (unknown_opcode, "unknown opcode 'ad'"),
        (unknown_type, "unknown element type 77"),
        (no_root, "its root"),
        (no_entry, "entry computation 77 does not exist"),
        (no_callee, "calls 77"),
        (calls_nothing, "call calls 0 computations"),
        (other_layout, "the program shape has f32[3]{0} where the entry computation has f32[2]{0}"),
        (fewer_parameters, "the program shape has 1 parameters, the entry has 2"),
        (no_program_shape, "has no program shape"),
        (no_computations, "has no computations"),
        (wrong_operand_count, "add with 1 operands"),
        (bad_layout, "is not a permutation"),
        (calls_too_many, "add calls 1 computations"),
        (bad_frontend_attribute, "expected 'key=value' in frontend attributes, found 'a b"),
        (bad_statistic, "'{' is no name of a statistic"),
        (bad_mesh_axis, "is no name of a mesh axis"),
        (bad_tile_dimension_kind, "unknown kind 2 of tile dimension"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_damaged_protos_are_refused(damage: Callable[[Any], None], message: str) -> None:
    proto = proto_of()
    damage(proto)
    with pytest.raises(HloParseError) as caught:
        create_from_proto(proto.SerializeToString())
    assert message in caught.value.message


def test_names_of_modules_become_what_text_can_hold() -> None:
    for name, expected in (("a b", "a_b"), ("", "module"), ("1x", "_1x"), ("jit_f.1-x", "jit_f.1-x"), ("f32", "f32")):
        proto = proto_of()
        proto.name = name
        module = create_from_proto(proto.SerializeToString())
        assert module.name == expected
        assert parse_hlo(str(module)).name == expected


@pytest.mark.parametrize(
    ("text", "damage", "message"),
    [
        ("compare(x, x), direction=LT, type=TOTALORDER", {"comparison_type": "TOTAL ORDER"}, "found 'TOTAL ORDER'"),
        ("compare(x, x), direction=LT", {"comparison_direction": "LX"}, "found 'LX'"),
        ("fusion(x), kind=kLoop, calls=f", {"fusion_kind": "kLo{p"}, "found 'kLo{p'"),
    ],
)
def test_words_that_text_has_not(text: str, damage: dict[str, str], message: str) -> None:
    f = "f { p = f32[2] parameter(0) ROOT c = pred[2] is-finite(p) }"
    proto = proto_of(f"HloModule m {f} ENTRY e {{ x = f32[2] parameter(0) ROOT r = pred[2] {text} }}")
    for key, value in damage.items():
        setattr(next(c for c in proto.computations if c.name == "e").instructions[1], key, value)
    with pytest.raises(HloParseError) as caught:
        create_from_proto(proto.SerializeToString())
    assert message in caught.value.message


def test_a_literal_of_another_type_is_refused() -> None:
    proto = proto_of("HloModule m ENTRY e { ROOT c = f32[2] constant({1,2}) }")
    proto.computations[0].instructions[0].shape.element_type = pb.S16
    proto.host_program_shape.result.element_type = pb.S16
    with pytest.raises(HloParseError, match="with a literal of f32"):
        create_from_proto(proto.SerializeToString())


def test_labels_beyond_the_rank_are_refused() -> None:
    """Labels may leave out dimensions (`b0?f`), as in XLA, so a proto with such numbers is read, but is not valid."""
    text = "convolution(x, w), window={size=3}, dim_labels=b0f_0io->b0f"
    proto = proto_of(
        f"HloModule m ENTRY e {{ x = f32[1,5,2] parameter(0) w = f32[3,2,4] parameter(1) ROOT r = f32[1,3,4] {text} }}"
    )
    proto.computations[0].instructions[2].convolution_dimension_numbers.input_feature_dimension = 7
    with pytest.raises(HloVerifyError):
        verify_module(create_from_proto(proto.SerializeToString()))
    proto.computations[0].instructions[2].convolution_dimension_numbers.input_feature_dimension = 0
    with pytest.raises(HloParseError, match="must be an arrangement"):
        create_from_proto(proto.SerializeToString())


def test_brackets_of_a_backend_config_that_do_not_match_are_quoted() -> None:
    proto = proto_of()
    proto.computations[1].instructions[2].backend_config = b'{"sizes":,]}'
    module = create_from_proto(proto.SerializeToString())
    again = parse_hlo(str(module))
    assert [i.raw_backend_config for i in again.entry_computation.instructions][2] == '{"sizes":,]}'


@pytest.mark.parametrize("name", sorted(sample_modules()))
def test_what_is_read_from_damaged_bytes_can_be_printed_and_parsed(name: str) -> None:
    data, rng = to_proto(parse_hlo(sample_modules()[name])), random.Random(name)
    for _ in range(40):
        damaged = bytearray(data)
        for _ in range(rng.choice((1, 1, 2))):
            damaged[rng.randrange(len(data))] = rng.choice((rng.randrange(256), *b" {,"))
        try:
            module = create_from_proto(bytes(damaged))
        except HloError:
            continue
        parse_hlo(str(module))


def test_bytes_that_are_no_proto() -> None:
    with pytest.raises(HloParseError, match="not a serialized HloModuleProto"):
        create_from_proto(b"HloModule m")


def test_config() -> None:
    data = to_proto(parse_hlo(TEXT))
    config = create_module_config_from_proto(data, {"xla_dump_to": "d"}, {"num_partitions": 2}, replica_count=4, seed=7)
    assert (config.replica_count, config.num_partitions, config.seed) == (4, 2, 7)
    assert config.debug_options == {"xla_dump_to": "d"}
    with pytest.raises(InvalidArgument, match="unknown module option replicas"):
        create_module_config_from_proto(data, execution_options={"replicas": 4})
    assert config.entry_computation_layout is not None
    assert str(config.entry_computation_layout.result_shape) == "f32[2]{0}"
    assert config.input_output_alias == (Alias((), 0, (), "must-alias"),)
    module = create_from_proto(data, config)
    assert module.config is config


def test_schedule_is_the_order_of_the_text() -> None:
    text = TEXT.replace("HloModule m,", "HloModule m, is_scheduled=true,")
    proto = proto_of(text)
    assert list(proto.schedule.sequences[1].instruction_ids) == [i.id for i in proto.computations[1].instructions]
    assert create_from_proto(proto.SerializeToString()).config.header_attributes["is_scheduled"] == "true"


def test_a_schedule_survives_the_proto() -> None:
    text = """
    HloModule m, is_scheduled=true
    double { a = f32[4] parameter(0) ROOT n = f32[4] add(a, a) }
    ENTRY e {
      x = f32[4] parameter(0)
      late = f32[4] negate(x)
      b = f32[4] abs(x)
      k = f32[4] call(b), to_apply=double
      ROOT r = f32[4] add(k, late)
    }"""
    module = parse_hlo(text)
    again = create_from_proto(to_proto(module))
    assert [i.name for i in again.schedule.sequence(again.entry_computation)] == ["x", "late", "b", "k", "r"]
    assert str(again) == str(module)


def test_the_schedule_of_a_proto_decides_not_the_listing() -> None:
    proto = proto_of(TEXT.replace("HloModule m,", "HloModule m, is_scheduled=true,"))
    ids = proto.schedule.sequences[1].instruction_ids
    order = [*ids]
    ids[:] = [order[1], order[0], *order[2:]]  # both are parameters
    module = create_from_proto(proto.SerializeToString())
    names = {i.id: i.name for i in proto.computations[1].instructions}
    assert [i.name for i in module.schedule.sequence(module.entry_computation)] == [names[i] for i in ids]


@pytest.mark.parametrize(
    ("sequences", "message"),
    [
        ({0: [0], 1: [10**6]}, "schedules 1000000"),
        ({1: [0]}, "schedules 0, which is not in 'e'"),
        ({0: [], 7: []}, "schedule for computation 7"),
        ({0: []}, "has no sequence|the sequence of"),
    ],
)
def test_schedules_that_do_not_fit(sequences: dict[int, list[int]], message: str) -> None:
    proto = proto_of(TEXT)
    for computation, ids in sequences.items():
        proto.schedule.sequences[computation].instruction_ids.extend(ids)
    with pytest.raises(HloParseError, match=message):
        create_from_proto(proto.SerializeToString())


def test_elements_are_stored_in_layout_order() -> None:
    shape = Shape.array("f32", (2, 3), minor_to_major=(0, 1))
    literal = Literal(shape, np.arange(6, dtype=np.float32).reshape(2, 3))
    proto = pb.LiteralProto()
    write_literal(literal, proto)
    assert list(proto.f32s) == [0, 3, 1, 4, 2, 5]
    assert read_literal(proto) == literal


@pytest.mark.parametrize("type_text", ["f32", "s4"])
def test_a_constant_that_got_another_layout_is_stored_by_it(type_text: str) -> None:
    module = parse_hlo(f"ENTRY e {{ ROOT c = {type_text}[2,3] constant({{ {{1, 2, 3}}, {{4, 5, 6}} }}) }}")
    constant = module.entry_computation.root_instruction
    constant.shape = constant.shape.with_layout(Layout((0, 1)))
    (written,) = pb.HloModuleProto.FromString(to_proto(module)).computations[0].instructions
    assert list(written.literal.shape.layout.minor_to_major) == [0, 1]
    back = create_from_proto(to_proto(module)).entry_computation.root_instruction
    assert back.shape == constant.shape
    array = back.attributes_as(ConstantAttributes).literal.array
    assert array.astype(np.complex128).tolist() == [[1, 2, 3], [4, 5, 6]]


def test_signalling_nans_survive() -> None:
    array = np.array([0x7F800001, 0xFFC00000], np.uint32).view(np.float32)
    proto = pb.LiteralProto()
    write_literal(Literal.from_array(array), proto)
    assert read_literal(proto) == Literal.from_array(array)


@pytest.mark.parametrize("field", ["s32s", "f32s", "preds", "s4s", "bf16s"])
def test_literals_of_the_wrong_size(field: str) -> None:
    names = {"s32s": "s32", "f32s": "f32", "preds": "pred", "s4s": "s4", "bf16s": "bf16"}
    proto = pb.LiteralProto()
    write_literal(Literal.full(Shape.array(names[field], (3,)), 1), proto)
    proto.shape.dimensions[0] = 10**12
    with pytest.raises(HloParseError, match="in a proto has"):
        read_literal(proto)


@pytest.mark.parametrize(
    "text",
    [
        "replicated", "maximal device=3", "manual", "unknown", "unreduced", "devices=[2,2]0,1,2,3",
        "devices=[4]<=[4]", "devices=[2,2]<=[2,2]T(1,0)", "devices=[2,1,2]<=[4] last_tile_dim_replicate",
        "devices=[2,1,2]<=[4] last_tile_dims={manual}", "replicated shard_as 3", "manual shard_like 5",
        'devices=[2]<=[2] metadata={op_name="a"}', 'replicated metadata={{op_name="a"}, {op_name="b"}}',
        "mesh['a'=2,'b'=4], [{'a'}, {'b':(2)2, ?}]",
        "mesh['a'=4,'b'=2], device_ids=([2,4]T(1,0)), [{'a'}], unreduced={'b'}",
        "mesh['a'=2], device_ids=(1,0), [{'a'}]", "maximal_mesh[device_id=2]", "mesh['a'=2], replicated",
    ],
)  # fmt: skip
def test_shardings(text: str) -> None:
    proto = pb.OpSharding()
    write_sharding(HloSharding(text), proto)
    back = read_sharding(proto)
    assert back.text.replace(", ?", ",?").replace("[4]<=[4] last_tile_dim_replicate", "") == text.replace(", ?", ",?")


def test_axes_in_double_quotes() -> None:
    proto = pb.OpSharding()
    write_sharding(HloSharding('mesh["a"=2,"b"=4], [{"b":(1)2,"a"}]'), proto)
    assert [axis.name for axis in proto.named_sharding.mesh.axes] == ["a", "b"]
    assert read_sharding(proto).text == "mesh['a'=2,'b'=4], [{'b':(1)2,'a'}]"


def test_text_that_is_no_attribute_is_an_error_of_its_instruction() -> None:
    module = parse_hlo("p = f32[2] parameter(0)\nROOT n = f32[2] negate(p)")
    module.entry_computation.parameter_instructions[0].sharding = HloSharding("mesh[nonsense]")
    with pytest.raises(InvalidArgument) as caught:
        to_proto(module)
    assert "expected 'axis'=size in a mesh, found 'nonsense'" in caught.value.message
    assert caught.value.line == 1


def test_types() -> None:
    assert isinstance(create_from_proto(to_proto(parse_hlo(TEXT))), HloModule)


def test_types_without_a_field_for_constants() -> None:
    text = "HloModule m\nENTRY e { p = f6e2m3fn[2] parameter(0) c = f6e2m3fn[2] constant({1, 7.5}) ROOT r = f6e2m3fn[2] add(p, c) }"
    module = parse_hlo(text)
    assert list(module.entry_computation.root_instruction.operand(1).literal.array) == [1, 7.5]
    with pytest.raises(Unsupported, match="no field for constants of type f6e2m3fn"):
        to_proto(module)
    root = module.entry_computation.root_instruction
    constant = root.operand(1)
    root.replace_operand_with(1, root.operand(0))
    module.entry_computation.remove_instruction(constant)
    assert create_from_proto(to_proto(module)).result_shape.element_type.proto == 36
