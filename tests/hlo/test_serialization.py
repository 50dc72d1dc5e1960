"""Protos through the graph classes and the public functions."""

from __future__ import annotations

import pytest

import xjit
from xjit.hlo import HloComputation, HloModule, HloParseError, Unsupported
from xjit.hlo.annotations.metadata import HloSharding
from xjit.hlo.compare.equality import structural_equal
from xjit.hlo.diagnostics import FailedPrecondition
from xjit.hlo.io import serialization
from xjit.hlo.ir.module_config import HloModuleConfig
from xjit.text.parser import parse_hlo
from xjit.text.proto import hlo_pb2 as pb

TEXT = """HloModule m, input_output_alias={ {}: (0, {}, may-alias) }
f { a = f32[2] parameter(0)  ROOT n = f32[2] negate(a) }
ENTRY e { x = f32[2] parameter(0)  ROOT c = f32[2] call(x), to_apply=f }"""


def test_round_trip() -> None:
    module = parse_hlo(TEXT)
    replicated = HloSharding("replicated")
    module.spmd_output_sharding = replicated
    module.spmd_parameters_shardings = [HloSharding("devices=[2]<=[2]")]
    module.add_cross_program_prefetch(0, ())
    data = module.to_proto()
    assert data == xjit.to_hlo_proto(module)
    for again in (HloModule.create_from_proto(data), xjit.from_hlo_proto(data)):
        assert structural_equal(module, again, config=True)
        assert again.spmd_output_sharding == replicated
        assert again.spmd_parameters_shardings == module.spmd_parameters_shardings
        assert again.cross_program_prefetches == module.cross_program_prefetches
        assert again.input_output_alias_config.aliases == module.input_output_alias_config.aliases
    config = HloModule.create_module_config_from_proto(data, seed=5)
    assert config.seed == 5 and config.entry_computation_layout == module.entry_computation_layout
    own = HloModuleConfig(replica_count=2)
    assert HloModule.create_from_proto(data, own).config is own


def test_computation() -> None:
    module = parse_hlo(TEXT)
    proto = pb.HloComputationProto.FromString(module.entry_computation.to_proto())
    whole = pb.HloModuleProto.FromString(module.to_proto())
    assert proto == whole.computations[1] and proto.name == "e"
    with pytest.raises(FailedPrecondition, match="is in no module"):
        HloComputation("free").to_proto()


def test_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HloParseError, match="not a serialized HloModuleProto"):
        xjit.from_hlo_proto(b"\xff\xff")
    bound = parse_hlo("HloModule m\nENTRY e { x = f32[4] parameter(0)  ROOT n = s32[] parameter(1) }")
    bound.dynamic_parameter_binding.bind((1, ()), (0, (), 0))
    with pytest.raises(Unsupported, match="no dynamic_parameter_binding"):
        bound.to_proto()
    monkeypatch.setattr(serialization, "_functions", {})
    with pytest.raises(FailedPrecondition, match=r"import it first"):
        bound.to_proto()
