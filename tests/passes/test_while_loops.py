"""Trip counts of while loops, their annotation, and unrolling."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from tests.support.passes import check_pass, count
from xjit.ops.evaluation import evaluate
from xjit.ops.verifier import verify_module
from xjit.passes import PassDriver, cpu_pipeline
from xjit.passes.analysis.loop_evaluation import trip_count
from xjit.passes.analysis.while_loop_analysis import CountedLoop, counted_loop
from xjit.passes.loops.while_loop_simplifier import WhileLoopSimplifier
from xjit.passes.loops.while_loop_trip_count_annotator import WhileLoopTripCountAnnotator, known_trip_count
from xjit.passes.loops.while_loop_unroller import WhileLoopUnroller
from xjit.text.parser import parse_hlo


def loop(
    kind: str = "s32",
    init: str = "constant(0)",
    step: str = "add(i, k)",
    k: str = "1",
    test: str = "compare(i, n), direction=LT",
    n: str = "5",
    work: str = "add(v, v)",
    others: str = "",
) -> str:
    """A loop over (i, v), which does `work` on an array of four numbers."""
    return f"""HloModule m
    {others}
    cond {{ p = ({kind}[], f32[4]) parameter(0)  i = {kind}[] get-tuple-element(p), index=0  n = {kind}[] constant({n})
      ROOT c = pred[] {test} }}
    body {{ p = ({kind}[], f32[4]) parameter(0)  i = {kind}[] get-tuple-element(p), index=0
      k = {kind}[] constant({k})  j = {kind}[] {step}  v = f32[4] get-tuple-element(p), index=1
      w = f32[4] {work}  ROOT t = ({kind}[], f32[4]) tuple(j, w) }}
    ENTRY e {{ x = f32[4] parameter(0)  y = {kind}[] parameter(1)  z = {kind}[] {init}
      t = ({kind}[], f32[4]) tuple(z, x)  ROOT l = ({kind}[], f32[4]) while(t), condition=cond, body=body }}"""


def analyse(text: str) -> CountedLoop | None:
    """Returns what is known of the loop at the root of the entry computation."""
    return counted_loop(parse_hlo(text).entry_computation.root_instruction)


def counted_by_hand(kind: str, init: int, step: int, direction: str, bound: int) -> int | None:
    """Runs the loop with Python's integers; None if the variable leaves its type first, or the loop does not end."""
    bits = int(kind[1:]) - (kind[0] == "s")
    value, trips = init, 0
    holds = {"LT": int.__lt__, "LE": int.__le__, "GT": int.__gt__, "GE": int.__ge__, "EQ": int.__eq__, "NE": int.__ne__}
    while holds[direction](value, bound):
        value, trips = value + step, trips + 1
        if not (-(1 << bits) if kind[0] == "s" else 0) <= value < 1 << bits or step == 0:
            return None
    return trips


@pytest.mark.parametrize("direction", ["LT", "LE", "GT", "GE", "EQ", "NE"])
@pytest.mark.parametrize("kind", ["s8", "u8"])
def test_trip_counts_are_those_of_running_the_loop(kind: str, direction: str) -> None:
    known = 0
    lowest = -128 if kind == "s8" else 0
    for init in (lowest, 0, 3, 7, lowest + 255):
        for bound in (lowest, 0, 3, 6, 7, lowest + 255):
            for step in (-3, -1, 0, 1, 2):
                change = {"step": "subtract(i, k)", "k": str(-step)} if step < 0 else {"k": str(step)}
                found = analyse(
                    loop(
                        kind, f"constant({init})", test=f"compare(i, n), direction={direction}", n=str(bound), **change
                    )
                )
                expected = counted_by_hand(kind, init, step, direction, bound)
                assert (found and found.trip_count) == expected, (init, step, bound)
                if found is not None:
                    known += 1
                    assert found == CountedLoop(0, init, step, found.trip_count)
    assert known > 20


def test_the_constant_may_stand_on_either_side() -> None:
    assert analyse(loop(step="add(k, i)", test="compare(n, i), direction=GE")) == CountedLoop(0, 0, 1, 6)


def test_constants_may_come_through_the_state() -> None:
    text = """HloModule m
    cond { p = (s32[], s32[], s32[]) parameter(0)  i = s32[] get-tuple-element(p), index=1
      n = s32[] get-tuple-element(p), index=0  ROOT c = pred[] compare(i, n), direction=LT }
    body { p = (s32[], s32[], s32[]) parameter(0)  i = s32[] get-tuple-element(p), index=1
      n = s32[] get-tuple-element(p), index=0  k = s32[] get-tuple-element(p), index=2
      j = s32[] add(i, k)  ROOT t = (s32[], s32[], s32[]) tuple(n, j, k) }
    ENTRY e { n = s32[] constant(20)  z = s32[] constant(2)  k = s32[] constant(4)
      t = (s32[], s32[], s32[]) tuple(n, z, k)
      ROOT l = (s32[], s32[], s32[]) while(t), condition=cond, body=body }"""
    assert analyse(text) == CountedLoop(1, 2, 4, 5)
    assert analyse(text.replace("tuple(n, j, k)", "tuple(k, j, n)")) is None  # neither stays as it is


def test_a_state_may_be_a_single_number() -> None:
    text = """HloModule m
    cond { i = s32[] parameter(0)  n = s32[] constant(9)  ROOT c = pred[] compare(i, n), direction=NE }
    body { i = s32[] parameter(0)  k = s32[] constant(3)  ROOT j = s32[] add(i, k) }
    ENTRY e { z = s32[] constant(0)  ROOT l = s32[] while(z), condition=cond, body=body }"""
    assert analyse(text) == CountedLoop(0, 0, 3, 3)
    check_pass(
        WhileLoopUnroller(),
        text,
        """HloModule m
        ENTRY e { z = s32[] constant(0)  k = s32[] constant(3)  a = s32[] add(z, k)  l = s32[] constant(3)
          b = s32[] add(a, l)  m = s32[] constant(3)  ROOT c = s32[] add(b, m) }""",
    )


NOT_COUNTED = {
    "init": loop(init="copy(y)"),
    "step": loop(init="constant(1)", step="add(i, i)"),
    "other update": loop(init="constant(1)", step="multiply(i, k)", k="2"),
    "condition": loop(test="constant(false)"),
    "not an integer": loop(kind="f32"),
    "step on the wrong side": loop(
        init="constant(1)", step="subtract(k, i)", test="compare(i, n), direction=NE", n="0"
    ),
}


EVALUATED = {"step": 3, "other update": 3, "condition": 0, "not an integer": 5, "step on the wrong side": 1}
"""The trips of those of them that are evaluated."""


@pytest.mark.parametrize("name", NOT_COUNTED)
def test_loops_without_a_counter_are_evaluated_or_unknown(name: str) -> None:
    module = parse_hlo(NOT_COUNTED[name])
    assert analyse(NOT_COUNTED[name]) is None
    assert trip_count(module.entry_computation.root_instruction) == EVALUATED.get(name)
    check_pass(WhileLoopUnroller(), NOT_COUNTED[name])


def test_no_more_trips_are_evaluated_than_asked_for() -> None:
    three = parse_hlo(NOT_COUNTED["step"]).entry_computation.root_instruction
    assert (trip_count(three, 2), trip_count(three, 3)) == (None, 3)


def annotation(text: str) -> str:
    """Returns the backend config that the annotator leaves, and checks that a second run changes nothing."""
    module = parse_hlo(text)
    before = module.entry_computation.root_instruction.backend_config
    changed = WhileLoopTripCountAnnotator().run(module)
    after = module.entry_computation.root_instruction.backend_config
    assert changed == (before != after)
    assert not WhileLoopTripCountAnnotator().run(module)
    return after


def configured(text: str, config: str) -> str:
    """Gives the loop a backend config."""
    return text.replace("body=body", f"body=body, backend_config={config}")


def test_annotation() -> None:
    text = loop(init="constant(1)", k="2", n="10")
    assert annotation(text) == '{"known_trip_count":{"n":"5"}}'
    assert (
        annotation(configured(text, '{"a":1,"known_trip_count":{"n":"7"}}')) == '{"a":1,"known_trip_count":{"n":"5"}}'
    )
    stale = configured(loop(init="copy(y)"), '{"known_trip_count":{"n":"7"}}')
    assert annotation(stale) == ""


@pytest.mark.parametrize(
    ("config", "count"),
    [
        ('{"known_trip_count":{"n":"7"}}', 7),
        ('{"known_trip_count":{"n":"-7"}}', None),
        ('{"known_trip_count":7}', None),
        ('{"known_trip_count":{"n":"x"}}', None),
        ('{"a":1}', None),
        ("opaque", None),
        ("", None),
    ],
)
def test_what_is_written_down(config: str, count: int | None) -> None:
    root = parse_hlo(loop()).entry_computation.root_instruction
    root.raw_backend_config = config
    assert known_trip_count(root) == count


def test_a_config_that_is_no_json_is_left_alone() -> None:
    module = parse_hlo(loop())
    module.entry_computation.root_instruction.raw_backend_config = "opaque"
    assert not WhileLoopTripCountAnnotator().run(module)


def unrolled(text: str, **options: int) -> bool:
    """Whether the unroller takes the loops away; the values must stay what they were."""
    module = parse_hlo(text)
    rng = np.random.default_rng(0)
    arguments = [rng.standard_normal(4, np.float32), np.int32(0)]
    expected = evaluate(module, *arguments)
    changed = WhileLoopUnroller(**options).run(module)
    assert changed == (not count(module, "while"))
    for got, wanted in zip(evaluate(module, *arguments), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)
    return changed


def test_a_loop_of_elementwise_work_is_unrolled_completely() -> None:
    check_pass(
        WhileLoopUnroller(),
        loop(n="2"),
        """HloModule m
        ENTRY e { x = f32[4] parameter(0)  y = s32[] parameter(1)  z = s32[] constant(0)  t = (s32[], f32[4]) tuple(z, x)
          i = s32[] get-tuple-element(t), index=0  k = s32[] constant(1)  j = s32[] add(i, k)
          v = f32[4] get-tuple-element(t), index=1  w = f32[4] add(v, v)  u = (s32[], f32[4]) tuple(j, w)
          i2 = s32[] get-tuple-element(u), index=0  k2 = s32[] constant(1)  j2 = s32[] add(i2, k2)
          v2 = f32[4] get-tuple-element(u), index=1  w2 = f32[4] add(v2, v2)
          ROOT r = (s32[], f32[4]) tuple(j2, w2) }""",
    )


def test_the_budget_counts_work_in_all_trips() -> None:
    assert unrolled(loop(n="10"), max_unrolled_instructions=20)
    assert not unrolled(loop(n="11"), max_unrolled_instructions=20)
    assert not unrolled(loop(n="11"), max_growth=50)


HEAVY = {"work": "dot(v, m), lhs_contracting_dims={0}, rhs_contracting_dims={0}"}


def heavy(n: str) -> str:
    """A loop around a dot."""
    text = loop(n=n, **HEAVY)
    return text.replace("w = f32[4]", "m = f32[4,4] broadcast(v), dimensions={1}  w = f32[4]")


@pytest.mark.parametrize(("trips", "gone"), [("0", True), ("1", True), ("2", False)])
def test_loops_around_heavy_work_are_unrolled_only_if_nothing_is_repeated(trips: str, gone: bool) -> None:
    assert unrolled(heavy(trips)) == gone
    assert unrolled(heavy(trips), max_unrolled_instructions=0, max_growth=0) == gone


def test_side_effects_keep_a_loop() -> None:
    text = loop(n="1").replace("w = f32[4] add", "q = token[] after-all()  o = token[] outfeed(v, q)  w = f32[4] add")
    module = parse_hlo(text)
    assert not WhileLoopUnroller().run(module)


def test_control_edges_keep_a_loop() -> None:
    text = loop(n="1").replace("body=body", "body=body, control-predecessors={y}")
    assert not WhileLoopUnroller().run(parse_hlo(text))


def nest(depth: int) -> str:
    """Loops of one trip inside of each other; the start of each is the counter of the one around it."""
    state = "(s32[], s32[])"
    parts = [
        f"""cond {{ p = {state} parameter(0)  i = s32[] get-tuple-element(p), index=0
      n = s32[] constant(1)  ROOT c = pred[] compare(i, n), direction=LT }}"""
    ]
    for level in range(depth):
        inner = f"r = {state} while(t), condition=cond, body=b{level - 1}" if level else f"r = {state} tuple(i, v)"
        parts.append(f"""b{level} {{ p = {state} parameter(0)  i = s32[] get-tuple-element(p), index=0
          v = s32[] get-tuple-element(p), index=1  t = {state} tuple(i, v)  {inner}
          w = s32[] get-tuple-element(r), index=1  k = s32[] constant(1)  j = s32[] add(i, k)
          u = s32[] add(w, k)  ROOT o = {state} tuple(j, u) }}""")
    parts.append(f"""ENTRY e {{ z = s32[] constant(0)  x = s32[] parameter(0)  t = {state} tuple(z, x)
      ROOT l = {state} while(t), condition=cond, body=b{depth - 1} }}""")
    return "HloModule m\n" + "\n".join(parts)


@pytest.mark.parametrize("depth", [1, 8, 9, 40, 65])
def test_nested_loops_reach_the_fixed_point_of_the_pipeline(depth: int) -> None:
    module = parse_hlo(nest(depth))
    PassDriver(check_changed_bit=True).run(cpu_pipeline(), module)
    assert count(module, "while") == (0 if depth <= 64 else depth)
    assert xjit.compile(nest(depth))(np.int32(5))[1] == 5 + depth


def test_the_trips_of_a_counted_loop_become_one_kernel() -> None:
    text = loop(n="20", work="multiply(v, v)")
    exe = xjit.compile(text)
    x = np.array([0.5, 1.0, -1.0, 1.00001], np.float32)
    for got, wanted in zip(exe(x, np.int32(0)), evaluate(parse_hlo(text), x, np.int32(0)), strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert len(exe.kernels) == 1


def test_trip_counts_are_in_the_optimized_module() -> None:
    assert '"known_trip_count":{"n":"1000"}' in xjit.compile(loop(n="1000")).as_text("optimized-hlo")


_ORIGINS = """HloModule m
cond {
  p = (s32[], (f32[2], f32[2])) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(9)
  ROOT c = pred[] compare(i, n), direction=LT
}
body {
  p = (s32[], (f32[2], f32[2])) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  q = (f32[2], f32[2]) get-tuple-element(p), index=1
  a = f32[2] get-tuple-element(q), index=0
  k = f32[2] get-tuple-element(q), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  b = f32[2] add(a, a)
  l = f32[2] add(k, k)
  u = (f32[2], f32[2]) tuple(l, b)
  ROOT t = (s32[], (f32[2], f32[2])) tuple(j, u)
}
ENTRY e {
  x = f32[2] parameter(0)
  z = s32[] constant(0)
  u = (f32[2], f32[2]) tuple(x, x)
  t = (s32[], (f32[2], f32[2])) tuple(z, u), origin={({"z"}, ({"x"}, {"y"}))}
  w = (s32[], (f32[2], f32[2])) while(t), condition=cond, body=body, origin={({"w" {0}}, ({"w" {1,0}}, {"w" {1,1}}))}
  v = (f32[2], f32[2]) get-tuple-element(w), index=1
  ROOT r = f32[2] get-tuple-element(v), index=0
}"""


def test_original_values_of_elements_that_stay() -> None:
    module = parse_hlo(_ORIGINS)
    assert WhileLoopSimplifier().run(module)
    loop = next(i for i in module.entry_computation.instructions if i.opcode == "while")
    assert loop.origin == '{({"w" {0}}, {"w" {1,0}})}'
    assert loop.while_init.origin == '{({"z"}, {"x"})}'


def test_a_loop_goes_with_its_last_reader_wherever_it_is_listed() -> None:
    module = parse_hlo("""HloModule m
    cond { p = (s32[], f32[4]) parameter(0)  i = s32[] get-tuple-element(p), index=0  n = s32[] constant(5)
      ROOT c = pred[] compare(i, n), direction=LT }
    body { p = (s32[], f32[4]) parameter(0)  i = s32[] get-tuple-element(p), index=0
      k = s32[] constant(1)  j = s32[] add(i, k)  v = f32[4] get-tuple-element(p), index=1
      w = f32[4] add(v, v)  ROOT t = (s32[], f32[4]) tuple(j, w) }
    ENTRY e { x = f32[4] parameter(0)  z = s32[] constant(0)  s = (s32[], f32[4]) tuple(z, x)
      first = (s32[], f32[4]) while(s), condition=cond, body=body  v = f32[4] get-tuple-element(first), index=1
      t = (s32[], f32[4]) tuple(z, v)  second = (s32[], f32[4]) while(t), condition=cond, body=body
      ROOT i = s32[] get-tuple-element(second), index=0 }""")
    entry = module.entry_computation
    entry.reorder_instructions(entry.instructions[::-1])
    assert WhileLoopSimplifier(shared_computations=True).run(module)
    verify_module(module)
    assert count(module, "while") == 1
    assert evaluate(module, np.ones(4, np.float32)) == 5
