"""latency-hiding-scheduler: where the two ends of what is asynchronous come."""

from __future__ import annotations

import random

import pytest

from xjit.hlo import HloModule
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.ir.schedule import verify_sequence
from xjit.ops.verifier import verify_module
from xjit.passes.schedule_and_memory.latency_hiding_scheduler import LatencyHidingScheduler
from xjit.text import parse_hlo

HEAD = """HloModule m, is_scheduled=true, replica_count=2
add { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT sum = f32[] add(p, q) }
"""
TWO = (
    HEAD
    + """ENTRY e {
  x = f32[1000,1000] parameter(0)
  y = f32[1000,1000] parameter(1)
  n = f32[1000,1000] negate(y)
  d = f32[1000,1000] dot(n, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  g = f32[1000,1000] dot(d, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  k = f32[1000,1000] all-reduce-start(x), replica_groups={}, to_apply=add
  l = f32[1000,1000] all-reduce-done(k)
  m = f32[1000,1000] abs(l)
  k2 = f32[1000,1000] all-reduce-start(m), replica_groups={}, to_apply=add
  l2 = f32[1000,1000] all-reduce-done(k2)
  ROOT t = (f32[1000,1000], f32[1000,1000]) tuple(g, l2)
}"""
)


def order_of(module: HloModule) -> list[str]:
    return [i.name for i in module.schedule.sequence(module.entry_computation)]


def scheduled(text: str, **options: float) -> list[str]:
    module = parse_hlo(text)
    LatencyHidingScheduler(**options).run(module)  # type: ignore[arg-type]
    verify_module(module)
    return order_of(module)


def test_products_run_while_devices_exchange() -> None:
    """The first sum is through (0.4 ms) before the second product is begun, and so lets the second sum begin."""
    assert scheduled(TWO, flop_rate=4e12) == ["x", "k", "y", "n", "d", "l", "m", "k2", "g", "l2", "t"]


def test_what_is_slower_is_waited_for_last() -> None:
    assert scheduled(TWO, exchange_rate=1e6) == ["x", "k", "y", "n", "d", "g", "l", "m", "k2", "l2", "t"]


def test_no_more_than_allowed_are_under_way() -> None:
    text = HEAD + (
        "ENTRY e { x = f32[8] parameter(0)  y = f32[8] parameter(1)"
        " k = f32[8] all-reduce-start(x), replica_groups={}, to_apply=add  l = f32[8] all-reduce-done(k)"
        " k2 = f32[8] all-reduce-start(y), replica_groups={}, to_apply=add  l2 = f32[8] all-reduce-done(k2)"
        " ROOT t = (f32[8], f32[8]) tuple(l, l2) }"
    )
    assert scheduled(text, max_in_flight=1) == ["x", "k", "y", "l", "k2", "l2", "t"]
    assert scheduled(text, max_in_flight=2) == ["x", "k", "y", "k2", "l", "l2", "t"]


def test_a_second_run_changes_nothing_and_needs_a_schedule() -> None:
    module = parse_hlo(TWO)
    assert LatencyHidingScheduler().run(module)
    assert not LatencyHidingScheduler().run(module)
    with pytest.raises(InvalidArgument, match="module m has no schedule"):
        LatencyHidingScheduler().run(parse_hlo(TWO.replace("is_scheduled=true, ", "")))


def test_without_starts_the_order_stays() -> None:
    text = "HloModule m, is_scheduled=true ENTRY e { x = f32[2] parameter(0)  a = f32[2] abs(x)  ROOT n = f32[2] negate(x) }"
    assert scheduled(text) == ["x", "a", "n"]


@pytest.mark.parametrize("seed", range(20))
def test_every_order_respects_what_instructions_need(seed: int) -> None:
    """Random graphs of starts, ends and sums, with control edges, under any limit: also one that has to be passed."""
    random_ = random.Random(seed)
    lines, values, open_starts = ["  x = f32[64] parameter(0)"], ["x"], list[str]()
    for n in range(40):
        if open_starts and random_.random() < 0.4:
            start = open_starts.pop(random_.randrange(len(open_starts)))
            lines.append(f"  v{n} = f32[64] all-reduce-done({start})")
            values.append(f"v{n}")
        elif random_.random() < 0.5:
            lines.append(
                f"  v{n} = f32[64] all-reduce-start({random_.choice(values)}), replica_groups={{}}, to_apply=add"
            )
            open_starts.append(f"v{n}")
        else:
            edge = f", control-predecessors={{{random_.choice([*values, *open_starts])}}}" if n else ""
            lines.append(f"  v{n} = f32[64] add({random_.choice(values)}, {random_.choice(values)}){edge}")
            values.append(f"v{n}")
    for n, start in enumerate(open_starts):
        lines.append(f"  w{n} = f32[64] all-reduce-done({start})")
    lines.append(f"  ROOT r = f32[64] negate({values[-1]})")
    module = parse_hlo(HEAD + "ENTRY e {\n" + "\n".join(lines) + "\n}")
    LatencyHidingScheduler(max_in_flight=random_.randrange(1, 4), exchange_rate=10.0 ** random_.randrange(5, 12)).run(
        module
    )
    verify_sequence(module.entry_computation, module.schedule.sequence(module.entry_computation))
