"""Rules that the verifier checks, or leaves, by option: one module that breaks each, and what lets it pass."""

from __future__ import annotations

from typing import Any

import pytest

from xjit.hlo import HloVerifyError
from xjit.ops.verifier import verify_module
from xjit.ops.verifier_options import VerifierOptions
from xjit.passes import PASSES, make_pass
from xjit.text.parser import parse_hlo

CHANNELS = """HloModule m, replica_count=2
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY e { x = f32[4] parameter(0)
  a = f32[4] all-reduce(x), channel_id=1, replica_groups={{0,1}}, to_apply=add
  ROOT b = f32[4] all-reduce(a), channel_id=1, replica_groups={{0,1}}, to_apply=add }"""
BROADCAST = "HloModule m ENTRY e { x = f32[2,3] parameter(0) ROOT b = f32[3,2] broadcast(x), dimensions={1,0} }"
HOST = "HloModule m ENTRY e { x = f32[4]{0:S(5)} parameter(0) ROOT c = f32[4] copy(x) }"
DEVICES = """HloModule m, num_partitions=2
ENTRY e { ROOT x = f32[4] parameter(0), sharding={maximal device=2} }"""
REDUCED = """HloModule m
ENTRY e { x = f32[2,3]{1,0} parameter(0) ROOT t = f32[2,3]{0,1} negate(x) }"""
TRANSPOSED = """HloModule m
ENTRY e { x = f32[2,3]{1,0} parameter(0) ROOT t = f32[3,2]{0,1} transpose(x), dimensions={1,0} }"""
BITCAST = "HloModule m ENTRY e { x = f32[2,3] parameter(0) ROOT b = f32[6] bitcast(x) }"

BROKEN: list[tuple[str, dict[str, Any], str]] = [
    (CHANNELS, {"verify_unique_channel_ids": True}, "channel 1 is that of a"),
    (BROADCAST, {"verify_broadcast_dimensions_order": True}, r"dimensions=\{1,0\} must be sorted"),
    (HOST, {"verify_no_host_memory_space": True}, "lies in the memory of the host"),
    (DEVICES, {}, "names device 2"),
    (REDUCED, {"layout_sensitive": True}, "the layout must not change"),
    (
        TRANSPOSED,
        {"layout_sensitive": True, "instruction_can_change_layout": lambda i: i.opcode != "transpose"},
        "transpose: the layout must not change",
    ),
    (BITCAST, {"layout_sensitive": True, "shape_size": lambda s: 8 * s.rank}, "the operand takes 16 bytes, the result"),
]
PASSING: list[tuple[str, dict[str, Any]]] = [
    (CHANNELS, {}),
    (BROADCAST, {}),
    (HOST, {}),
    (DEVICES, {"verify_sharding_device_numbers": False}),
    (REDUCED, {}),
    (REDUCED, {"layout_sensitive": True, "instruction_can_change_layout": lambda _: True}),
    (TRANSPOSED, {"layout_sensitive": True}),
    (BITCAST, {"layout_sensitive": True, "shape_size": lambda s: s.byte_size}),
    (BITCAST, {"shape_size": lambda s: 8 * s.rank}),
]


@pytest.mark.parametrize(("text", "options", "message"), BROKEN)
def test_broken_rules(text: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(HloVerifyError, match=message):
        verify_module(parse_hlo(text), VerifierOptions(**options))


@pytest.mark.parametrize(("text", "options"), PASSING)
def test_what_passes(text: str, options: dict[str, Any]) -> None:
    verify_module(parse_hlo(text), VerifierOptions(**options))


def test_deadlocks_are_looked_for_unless_they_are_not() -> None:
    text = """HloModule m, is_scheduled=true, replica_count=2
ENTRY e { x = f32[2] parameter(0)  t = token[] after-all()
  s = (f32[2], u32[], token[]) send(x, t), channel_id=1, frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,0}}}
  d = token[] send-done(s), channel_id=1
  r = (f32[2], u32[], token[]) recv(t), channel_id=1, frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,0}}}
  e = (f32[2], token[]) recv-done(r), channel_id=1
  ROOT g = f32[2] get-tuple-element(e), index=0 }"""
    with pytest.raises(HloVerifyError):
        verify_module(parse_hlo(text))
    verify_module(parse_hlo(text), VerifierOptions(verify_no_collective_deadlocks=False))


def test_options_of_the_pass_are_those_of_the_verifier() -> None:
    item = make_pass(PASSES, "hlo-verifier{layout_sensitive=true}")
    with pytest.raises(HloVerifyError, match="the layout must not change"):
        item.run(parse_hlo(REDUCED))
    assert not make_pass(PASSES, "hlo-verifier").run(parse_hlo(REDUCED))
