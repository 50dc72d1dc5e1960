"""What the verifier refuses: tables of modules, asynchronous computations, composites."""

from __future__ import annotations

import pytest

from tests.ops.refused_modules import PRELUDE, REFUSED
from tests.ops.rejection import rejects
from xjit.hlo import HloParseError
from xjit.ops.verifier import verify_module
from xjit.text.parser import parse_hlo

PIN = 'b = b(f32[4]) custom-call(x), custom_call_target="Pin", output_to_operand_aliasing={{}:(0, {})} '


def test_an_async_computation_has_one_start():
    text = """
f { x = f32[4] parameter(0) ROOT n = f32[4] negate(x) }
ENTRY e {
  p = f32[4] parameter(0)
  a = ((f32[4]), f32[4], s32[]) async-start(p), calls=f
  b = ((f32[4]), f32[4], s32[]) async-start(p), calls=f
  c = f32[4] async-done(a)
  d = f32[4] async-done(b)
  ROOT t = (f32[4], f32[4]) tuple(c, d)
}
"""
    error = rejects(parse_hlo(text), "computation f is started by a, too")
    assert error.line == 6
    mixed = """
ENTRY e {
  p = f32[4] parameter(0)
  a = ((f32[4]), f32[4], s32[]) custom-call-start(p), custom_call_target="f"
  ROOT c = f32[4] negate-done(a)
}
"""
    with pytest.raises(HloParseError, match="the operand of this negate runs a custom-call"):
        parse_hlo(mixed)


@pytest.mark.parametrize(
    "attributes,message",
    [
        ('composite.name="foo.bar"', "needs a composite.version that is a number from 0 on"),
        ('composite.version="1"', "needs the frontend attribute composite.name"),
        ('composite.name="foo.bar",composite.version="-1"', "a number from 0 on, found '-1'"),
    ],
)
def test_composites_say_what_they_are(attributes: str, message: str):
    text = """
add_n { x = f32[] parameter(0) ROOT z = f32[] add(x, x) }
ENTRY e {
  c = f32[] constant(42)
  ROOT r = f32[] call(c), is_composite=true, to_apply=add_n, frontend_attributes={ATTRIBUTES}
}
"""
    verify_module(parse_hlo(text.replace("ATTRIBUTES", 'composite.name="foo.bar",composite.version="1"')))
    assert rejects(parse_hlo(text.replace("ATTRIBUTES", attributes)), message).line == 5


BROKEN_PAIRS = {
    "a start with two dones": (
        "s = (f32[4], f32[4], u32[]) copy-start(x) u = f32[4] copy-done(s) v = f32[4] copy-done(s) ROOT r = f32[4] add(u, v)",
        "copy-start: s needs one copy-done, found 2: u, v",
    ),
    "a start that nobody waits for": (
        "s = f32[4] all-reduce-start(x), to_apply=f ROOT r = f32[4] negate(x)",
        "all-reduce-start: s needs one all-reduce-done, found 0",
    ),
    "another thread": ("ROOT r = f32[4] fusion(x), kind=kLoop, calls=other", "it runs on thread main, but other is for thread t"),
    "operands of the seed": (
        'ROOT r = u64[] custom-call(x), custom_call_target="GetRngSeed"', "GetRngSeed takes no operands, got 1",
    ),
    "type of the seed": ('ROOT r = u32[] custom-call(), custom_call_target="GetRngSeed"', "gives a u64[], not u32[]"),
    "types of a distribution": (
        "a = f32[] constant(0) b = f16[] constant(1) ROOT r = f32[3] rng(a, b), distribution=rng_normal",
        "operand 1 f16[] and result f32[3] have different element types",
    ),
    "one channel with the host, two ways": (
        "t = token[] after-all() first = (f32[4], u32[], token[]) send(x, t), channel_id=1, is_host_transfer=true "
        "b = token[] send-done(first), channel_id=1, is_host_transfer=true "
        'c = (f32[4], u32[], token[]) send(x, b), channel_id=1, is_host_transfer=true, frontend_attributes={'
        '_xla_host_transfer_rendezvous="r"} ROOT d = token[] send-done(c), channel_id=1, is_host_transfer=true',
        "send: first uses channel 1 with the host in another way",
    ),
    "a buffer that is lost": (
        PIN + 'ROOT r = f32[4] custom-call(b), custom_call_target="f"', "operand 0 must be one of the results",
    ),
    "a buffer twice": (
        PIN + 'r = (b(f32[4]), b(f32[4])) custom-call(b), custom_call_target="f", '
        "output_to_operand_aliasing={{0}: (0, {}), {1}: (0, {})} ROOT n = f32[4] negate(x)",
        "it is more than one result",
    ),
    "a buffer as a result": (PIN.replace("b =", "ROOT b ="), "the entry has a buffer, b(f32[4]"),
    "more tiles than dimensions": ("ROOT r = f32[4] negate(x), sharding={devices=[1,2]0,1}", "has 2 dimensions, but f32[4]"),
    "a negative device": ("ROOT r = f32[4] negate(x), sharding={maximal device=-1}", "names a negative device"),
    "no such operand to share with": (
        "s = ((f32[4]), f32[4], s32[]) async-start(x), calls=g, output_to_operand_aliasing={{0, 0}: (5, {})} "
        "ROOT d = f32[4] async-done(s)", "there are only 1 operands",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("what", "header", "body", "message"), REFUSED, ids=[row[0] for row in REFUSED])
def test_refuses(what: str, header: str, body: str, message: str):
    error = rejects(parse_hlo(PRELUDE.replace(" HEADER", header) + body + "\n}"), message)
    assert error.span is None or error.line > 1, what


@pytest.mark.parametrize("name", BROKEN_PAIRS)
def test_what_does_not_belong_together(name: str):
    body, message = BROKEN_PAIRS[name]
    text = f"""
f {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }}
g {{ x = f32[4] parameter(0) ROOT n = f32[4] negate(x) }}
other {{ y = f32[4] parameter(0) ROOT o = f32[4] negate(y) }}, execution_thread="t"
ENTRY e {{
  x = f32[4] parameter(0)
  {body}
}}"""
    error = rejects(parse_hlo(text), message)
    assert error.line == 7
