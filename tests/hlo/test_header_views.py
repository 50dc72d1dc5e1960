"""Aliasing, donors, dynamic parameters, entry shardings and prefetches: views on the text of the module's header."""

from __future__ import annotations

import pytest

from xjit.hlo import InvalidArgument
from xjit.hlo.annotations.alias_config import Alias
from xjit.hlo.annotations.dynamic_parameter_binding import DynamicDimension, DynamicSizeParameter
from xjit.hlo.annotations.header_views import CrossProgramPrefetch
from xjit.hlo.annotations.metadata import HloSharding
from xjit.hlo.diagnostics import FailedPrecondition, HloVerifyError
from xjit.ops.verifier import verify_module
from xjit.text.parser import parse_hlo

TEXT = """HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  p = (f32[4], s32[]) parameter(1)
  n = s32[] parameter(2)
  ROOT t = (f32[4], s32[]) tuple(x, n)
}"""


def test_alias() -> None:
    module = parse_hlo(TEXT)
    config = module.input_output_alias_config
    assert str(config) == "{}" and config.aliases == ()
    config.set_up_alias((0,), 1, (0,))
    config.set_up_alias((1,), 2, kind="must")
    assert str(config) == "{ {0}: (1, {0}, may-alias), {1}: (2, {}, must-alias) }"
    assert f"input_output_alias={config}" in module.to_string()
    again = parse_hlo(module.to_string()).input_output_alias_config
    assert again.aliases == config.aliases
    assert again.get_aliased_output(1, (0,)) == (0,) and again.get_aliased_output(0) is None
    assert again.get_aliased_parameter((1,)) == Alias((1,), 2, (), "must-alias")
    assert again.get_aliased_parameter(()) is None
    assert (
        again.parameter_must_alias(2) and not again.parameter_must_alias(1, (0,)) and not again.parameter_must_alias(0)
    )
    assert again.output_has_alias((0,)) and again.parameter_has_alias(2) and not again.parameter_has_alias(0)
    seen: list[tuple[object, Alias]] = []
    again.for_each_alias(lambda output, alias: seen.append((output, alias)))
    assert [output for output, _ in seen] == [(0,), (1,)]
    again.verify()
    verify_module(module)
    config.clear()
    assert "input_output_alias" not in module.to_string()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((0,), 1, (0,)), "aliased twice"),
        (((1,), 1, (0,)), "the parameter has shape f32"),
        (((1,), 3, ()), "only 3 parameters"),
        (((1,), -1, ()), "only 3 parameters"),
        (((2,), 2, ()), "no element at index"),
        (((1,), 2, (), "could"), "kind 'could-alias' is none of"),
    ],
)
def test_alias_errors(arguments: tuple, message: str) -> None:
    module = parse_hlo(TEXT)
    config = module.input_output_alias_config
    config.set_up_alias((0,), 0)
    with pytest.raises(InvalidArgument, match=message):
        config.set_up_alias(*arguments)
    assert len(config.aliases) == 1


def test_a_parameter_is_aliased_once() -> None:
    module = parse_hlo("HloModule m\nENTRY e { x = f32[] parameter(0)  ROOT t = (f32[], f32[]) tuple(x, x) }")
    module.input_output_alias_config.set_up_alias((0,), 0)
    with pytest.raises(InvalidArgument, match="the output or the parameter is aliased twice"):
        module.input_output_alias_config.set_up_alias((1,), 0)


def test_alias_verify() -> None:
    module = parse_hlo(TEXT)
    module.config.input_output_alias = (Alias((0,), 2),)
    with pytest.raises(HloVerifyError, match="the parameter has shape"):
        module.input_output_alias_config.verify()


def test_buffer_donors() -> None:
    module = parse_hlo(TEXT)
    donors = module.buffer_donor_config
    donors.add_buffer_donor(1, (0,))
    donors.add_buffer_donor(2)
    assert str(donors) == "{ (1, {0}), (2, {}) }" and donors.parameter_is_buffer_donor(2)
    assert parse_hlo(module.to_string()).buffer_donor_config.donors == donors.donors
    donors.verify()
    with pytest.raises(InvalidArgument, match="donated or aliased already"):
        donors.add_buffer_donor(2)
    with pytest.raises(InvalidArgument, match="donated or aliased already"):
        module.input_output_alias_config.set_up_alias((1,), 2)
    donors.remove_buffer_donor(2)
    assert not donors.parameter_is_buffer_donor(2)
    with pytest.raises(InvalidArgument, match="is not donated"):
        donors.remove_buffer_donor(2)
    donors.clear()
    assert "buffer_donor" not in module.to_string()


def test_dynamic_parameter_binding() -> None:
    module = parse_hlo(TEXT)
    binding = module.dynamic_parameter_binding
    binding.bind((2, ()), (0, (), 0))
    binding.bind(dynamic_parameter=DynamicSizeParameter(1, (1,)), dynamic_dimension=DynamicDimension(1, (0,), 0))
    for current in (
        binding,
        parse_hlo(module.to_string()).dynamic_parameter_binding,
        module.clone().dynamic_parameter_binding,
    ):
        assert current.get_binding((0, (), 0)) == DynamicSizeParameter(2)
        assert current.get_binding(DynamicDimension(1, (0,), 0)) == DynamicSizeParameter(1, (1,))
        assert current.get_binding((1, (0,), 1)) is None
        current.verify()
    seen: list[object] = []
    binding.for_each_binding(lambda size, dimension: seen.append((size.parameter_number, dimension.parameter_number)))
    assert seen == [(2, 0), (1, 1)]
    binding.clear()
    assert binding.bindings == {} and str(binding) == "{}"


@pytest.mark.parametrize(
    ("size", "dimension", "message"),
    [
        ((2, ()), (0, (), 0), "already bound"),
        ((0, ()), (1, (0,), 0), "the size must be s32"),
        ((2, ()), (0, (), 1), "has no dimension 1"),
        ((2, ()), (5, (), 0), "only 3 parameters"),
        ((1, (2,)), (1, (0,), 0), "no element at index"),
    ],
)
def test_dynamic_parameter_errors(size: tuple, dimension: tuple, message: str) -> None:
    module = parse_hlo(TEXT)
    module.dynamic_parameter_binding.bind((2, ()), (0, (), 0))
    with pytest.raises(InvalidArgument, match=message):
        module.dynamic_parameter_binding.bind(size, dimension)


def test_malformed_binding_is_refused() -> None:
    module = parse_hlo(TEXT)
    module.config.header_attributes["dynamic_parameter_binding"] = "{ (0, {}, 0): 1 }"
    with pytest.raises(InvalidArgument, match="cannot read"):
        module.dynamic_parameter_binding.get_binding((0, (), 0))
    module.config.header_attributes["dynamic_parameter_binding"] = "{ (0, {}, 0): (0, {}) }"
    with pytest.raises(HloVerifyError, match="must be s32"):
        module.dynamic_parameter_binding.verify()


def test_spmd_shardings() -> None:
    module = parse_hlo(TEXT)
    assert not module.has_spmd_output_sharding() and not module.has_spmd_parameters_shardings()
    for read in (lambda: module.spmd_output_sharding, lambda: module.spmd_parameters_shardings):
        with pytest.raises(FailedPrecondition, match="has no spmd_"):
            read()
    replicated, split = HloSharding("replicated"), HloSharding("devices=[2]<=[2]")
    tupled = HloSharding(elements=(split, replicated))
    module.spmd_output_sharding = tupled
    module.spmd_parameters_shardings = [split, tupled, replicated]
    again = parse_hlo(module.to_string())
    assert again.has_spmd_output_sharding() and again.spmd_output_sharding == tupled
    assert again.has_spmd_parameters_shardings() and again.spmd_parameters_shardings == [split, tupled, replicated]
    with pytest.raises(InvalidArgument, match="1 shardings for the 3 parameters"):
        module.spmd_parameters_shardings = [split]


def test_cross_program_prefetches() -> None:
    module = parse_hlo(TEXT)
    assert module.cross_program_prefetches == ()
    module.add_cross_program_prefetch(1, (0,))
    module.add_cross_program_prefetch(0, ())
    assert module.cross_program_prefetches == (CrossProgramPrefetch(1, (0,)), CrossProgramPrefetch(0))
    assert parse_hlo(module.to_string()).cross_program_prefetches == module.cross_program_prefetches
    with pytest.raises(InvalidArgument, match="only 3 parameters"):
        module.add_cross_program_prefetch(3, ())
    with pytest.raises(InvalidArgument, match="no element"):
        module.add_cross_program_prefetch(1, (2,))
