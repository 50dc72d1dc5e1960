"""Serialized compile options of JAX: what they say, read once however their bytes are ordered."""

from __future__ import annotations

import pytest

from xjit.hlo.diagnostics import InvalidArgument
from xjit.jax_backend.compiler_options import UNOPTIMIZED_US, DumpFlags, compile_options_of
from xjit.jax_backend.placement import placement_of

xla_client = pytest.importorskip("jaxlib.xla_client")


def _serialized(replicas: int = 1, partitions: int = 1, **overrides: object) -> bytes:
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = replicas, partitions
    options.env_option_overrides = list(overrides.items())
    return options.SerializeAsString()


def test_what_options_say_is_remembered_not_their_bytes() -> None:
    """An unknown field at the end changes the bytes, as the order of a map's entries does, and nothing else."""
    options = _serialized(xla_backend_optimization_level=1)
    unknown_field = bytes([0xF8, 0xFF, 0x07, 0x01])
    first, second = placement_of(options, 1), placement_of(options + unknown_field, 1)
    assert first is second
    assert first.compile_options.opt_level == 1


def test_devices_are_numbered_replica_after_replica() -> None:
    placement = placement_of(_serialized(2, 3), 6)
    assert (placement.num_replicas, placement.num_partitions) == (2, 3)
    assert placement.devices == (0, 1, 2, 3, 4, 5)
    with pytest.raises(InvalidArgument, match="outside of the 4 devices"):
        placement_of(_serialized(2, 3), 4)


@pytest.mark.parametrize("value", [True, 1.5])
def test_values_of_another_type_are_refused(value: bool | float) -> None:
    """Also True, which equals a level of 1 that was read before."""
    placement_of(_serialized(xla_backend_optimization_level=1), 1)
    with pytest.raises(InvalidArgument, match="xla_backend_optimization_level"):
        placement_of(_serialized(xla_backend_optimization_level=value), 1)


def test_overrides_go_before_flags_of_the_process() -> None:
    flags = DumpFlags("somewhere", "fusion")
    assert compile_options_of((), flags).dump_to == "somewhere"
    assert compile_options_of((("xla_dump_to", "elsewhere"),), flags).dump_to == "elsewhere"
    assert compile_options_of((("xla_dump_to", "-"),), flags).dump_to == ""


def test_short_programs_are_optimized_if_a_level_is_asked_for() -> None:
    assert compile_options_of(()).unoptimized_us == UNOPTIMIZED_US > 0
    assert compile_options_of((("xla_backend_optimization_level", 2),)).unoptimized_us == 0
