"""Copy insertion and buffer assignment: loops, branches and results, proved by replay and run on real memory."""

from __future__ import annotations

import random

import numpy as np
import pytest

import xjit
from tests.support.passes import BufferMachine, assert_same_values, count, describe, leaves, random_arguments
from xjit.hlo import HloModule
from xjit.hlo.diagnostics import FailedPrecondition
from xjit.ops.evaluation import evaluate
from xjit.ops.verifier import verify_module
from xjit.passes import PassDriver, PipelineOptions, cpu_pipeline
from xjit.passes.analysis.in_place import InPlacePair, in_place_pairs
from xjit.passes.schedule_and_memory.buffer_assignment import BufferAssignment, assign_buffers
from xjit.passes.schedule_and_memory.buffer_verifier import verify_buffer_assignment
from xjit.passes.schedule_and_memory.copy_cycles import LONGEST_CYCLE
from xjit.passes.schedule_and_memory.copy_fusion import CopyFusion
from xjit.passes.schedule_and_memory.copy_insertion import CopyInsertion
from xjit.passes.schedule_and_memory.hlo_schedulers import HloMemoryScheduler
from xjit.text.parser import parse_hlo

CONDITION = """
cond {{ p = {state} parameter(0)  i = s32[] get-tuple-element(p), index=0  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT }}"""


def loop(state: str, body: str, entry: str) -> str:
    """Returns a module with a while over `state`, whose element 0 counts; `body` defines t, `entry` uses state `s`."""
    names = "abcdfg"
    size = state.count("[") - 1
    gets = "\n".join(
        f"{names[k]} = {state.strip('()').split(', ')[k + 1]} get-tuple-element(p), index={k + 1}" for k in range(size)
    )
    return f"""HloModule m
{CONDITION.format(state=state)}
body {{ p = {state} parameter(0)  i = s32[] get-tuple-element(p), index=0  one = s32[] constant(1)
  j = s32[] add(i, one)
  {gets}
  {body} }}
ENTRY e {{ {entry} }}"""


def assign(text: str, options: PipelineOptions | None = None) -> tuple[HloModule, BufferAssignment]:
    """Runs copy insertion (or the whole pipeline), assigns buffers, proves them and runs on them."""
    reference = parse_hlo(text)
    module = parse_hlo(text)
    arguments = random_arguments(reference)
    expected = evaluate(reference, *arguments)
    if options is None:
        CopyInsertion().run(module)
        assert not CopyInsertion().run(module)
        if CopyFusion().run(module):
            assert not CopyFusion().run(module) and not CopyInsertion().run(module)
    else:
        PassDriver().run(cpu_pipeline(options), module)
    verify_module(module)
    assert_same_values(evaluate(module, *arguments), expected)
    assignment = assign_buffers(module)
    verify_buffer_assignment(assignment)
    got = BufferMachine(assignment, arguments).run()
    assert_same_values(tuple(got), tuple(leaves(expected)))
    return module, assignment


def test_swap_in_a_loop() -> None:
    state = "(s32[], f32[2], f32[2])"
    text = loop(
        state,
        f"ROOT t = {state} tuple(j, b, a)",
        f"x = f32[2] parameter(0) y = f32[2] parameter(1) z = s32[] constant(0) s = {state} tuple(z, x, y) "
        f"ROOT w = {state} while(s), condition=cond, body=body",
    )
    module = parse_hlo(text)
    CopyInsertion().run(module)
    body = module.get_computation_with_name("body")
    assert body is not None
    assert sum(1 for i in body.instructions if i.opcode == "copy") == 2
    assert count(module, "copy") == 5
    with pytest.raises(FailedPrecondition, match="then copy-fusion"):
        assign_buffers(module)
    module, assignment = assign(text)
    (fusion,) = [i for c in module.computations() for i in c.instructions if i.opcode == "fusion"]
    outside = {assignment.slice(operand) for operand in fusion.operands}
    assert outside == set(assignment.leaf_slices(fusion)) and assignment.arena_size <= 64
    x, y = np.array([1, 2], np.float32), np.array([3, 4], np.float32)
    for got, want in zip(xjit.compile(text)(x, y), (3, y, x), strict=True):
        np.testing.assert_array_equal(got, want)


def test_rotation_needs_as_many_copies_as_a_shift() -> None:
    state = "(s32[], f32[2], f32[2], f32[2])"
    entry = (
        f"x = f32[2] parameter(0) z = s32[] constant(0) s = {state} tuple(z, x, x, x) "
        f"ROOT w = {state} while(s), condition=cond, body=body"
    )
    shift, _ = assign(loop(state, f"n = f32[2] negate(c) ROOT t = {state} tuple(j, b, c, n)", entry))
    rotation, _ = assign(loop(state, f"ROOT t = {state} tuple(j, b, c, a)", entry))
    assert count(shift, "copy") == count(rotation, "copy") == 7


@pytest.mark.parametrize(("length", "fused"), [(LONGEST_CYCLE, True), (LONGEST_CYCLE + 1, False)])
def test_a_long_rotation_is_cut(length: int, fused: bool) -> None:
    arrays = range(length)
    state = f"(s32[], {', '.join(['f32[2]'] * length)})"
    text = f"""HloModule m
b {{ p = {state} parameter(0)  i = s32[] get-tuple-element(p), index=0  o = s32[] constant(1)  j = s32[] add(i, o)
  {" ".join(f"g{k} = f32[2] get-tuple-element(p), index={k + 1}" for k in arrays)}
  ROOT t = {state} tuple(j, {", ".join(f"g{(k + 1) % length}" for k in arrays)}) }}
c {{ p = {state} parameter(0)  i = s32[] get-tuple-element(p), index=0  n = s32[] constant(100)
  ROOT r = pred[] compare(i, n), direction=LT }}
ENTRY e {{ z = s32[] constant(0)  {" ".join(f"x{k} = f32[2] parameter({k})" for k in arrays)}
  t = {state} tuple(z, {", ".join(f"x{k}" for k in arrays)})
  ROOT w = {state} while(t), condition=c, body=b }}"""
    module, _ = assign(text)
    assert any(i.opcode == "fusion" for c in module.computations() for i in c.instructions) is fused
    arguments = [np.full(2, k, np.float32) for k in arrays]
    results = xjit.compile(text)(*arguments)
    assert [int(r[0]) for r in results[1:]] == [(k + 100) % length for k in arrays]


@pytest.mark.parametrize("seed", range(8))
def test_any_exchange_of_elements(seed: int) -> None:
    """Each element becomes any other, itself, or what is computed from one: swaps, rotations, chains, several at once."""
    rng = random.Random(seed)
    names = "abcdfg"
    state = "(s32[], " + ", ".join(["f32[37]"] * 6) + ")"
    ends = [rng.choice(names) if rng.random() < 0.3 else None for _ in names]
    moved = rng.sample([n for n in range(6) if ends[n] is None], k=ends.count(None))
    new = iter(names[n] for n in moved)
    elements = [end or next(new) for end in ends]
    lines = [f"n{n} = f32[37] negate({names[n]})" for n in range(6)]
    elements = [f"n{n}" if rng.random() < 0.15 else e for n, e in enumerate(elements)]
    inputs = " ".join(f"x{n} = f32[37] parameter({n})" for n in range(6))
    entry = (
        f"{inputs} z = s32[] constant(0) s = {state} tuple(z, x0, x1, x2, x3, x4, x5) "
        f"ROOT w = {state} while(s), condition=cond, body=body"
    )
    text = loop(state, "\n".join([*lines, f"ROOT t = {state} tuple(j, {', '.join(elements)})"]), entry)
    assign(text)
    arguments = [np.arange(37, dtype=np.float32) + 100 * n for n in range(6)]
    for got, want in zip(xjit.compile(text)(*arguments), evaluate(parse_hlo(text), *arguments), strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_swap_in_a_loop_in_a_loop_that_swaps() -> None:
    state = "(s32[], f32[37], f32[37])"
    text = f"""
c1 {{ p = {state} parameter(0)  i = s32[] get-tuple-element(p), index=0  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT }}
b1 {{ p = {state} parameter(0)  i = s32[] get-tuple-element(p), index=0  o = s32[] constant(1)  j = s32[] add(i, o)
  a = f32[37] get-tuple-element(p), index=1  b = f32[37] get-tuple-element(p), index=2
  ROOT t = {state} tuple(j, b, a) }}
c2 {{ p = {state} parameter(0)  i = s32[] get-tuple-element(p), index=0  n = s32[] constant(2)
  ROOT c = pred[] compare(i, n), direction=LT }}
b2 {{ p = {state} parameter(0)  i = s32[] get-tuple-element(p), index=0  o = s32[] constant(1)  j = s32[] add(i, o)
  a = f32[37] get-tuple-element(p), index=1  b = f32[37] get-tuple-element(p), index=2  z = s32[] constant(0)
  s = {state} tuple(z, b, a)  w = {state} while(s), condition=c1, body=b1
  u = f32[37] get-tuple-element(w), index=1  v = f32[37] get-tuple-element(w), index=2
  n = f32[37] negate(u)  ROOT t = {state} tuple(j, v, n) }}
ENTRY e {{ x = f32[37] parameter(0)  y = f32[37] parameter(1)  z = s32[] constant(0)  s = {state} tuple(z, x, y)
  ROOT w = {state} while(s), condition=c2, body=b2 }}"""
    assign(text)
    arguments = [np.arange(37, dtype=np.float32) + 100 * n for n in range(2)]
    for got, want in zip(xjit.compile(text)(*arguments), evaluate(parse_hlo(text), *arguments), strict=True):
        np.testing.assert_array_equal(got, want)


def test_in_place_update_is_copy_free() -> None:
    state = "(s32[], f32[8,2])"
    text = loop(
        state,
        "k = f32[1,2] constant({{1,2}}) o = s32[] constant(0) u = f32[8,2] dynamic-update-slice(a, k, i, o) "
        f"ROOT t = {state} tuple(j, u)",
        f"x = f32[] constant(0) q = f32[8,2] broadcast(x), dimensions={{}} z = s32[] constant(0) s = {state} "
        f"tuple(z, q) "
        f"w = {state} while(s), condition=cond, body=body ROOT r = f32[8,2] get-tuple-element(w), index=1",
    )
    module, assignment = assign(text)
    assert [i.shape.rank for c in module.computations() for i in c.instructions if i.opcode == "copy"] == [0]
    update = next(i for c in module.computations() for i in c.instructions if i.opcode == "dynamic-update-slice")
    assert assignment.slice(update) == assignment.slice(update.operand(0))
    assert assignment.slice(update).kind == "result"


def test_read_after_update_is_scheduled_before_it() -> None:
    state = "(s32[], f32[8], f32[8])"
    text = loop(
        state,
        "k = f32[1] constant({1}) u = f32[8] dynamic-update-slice(a, k, i) m = f32[8] add(b, a) "
        f"ROOT t = {state} tuple(j, u, m)",
        f"x = f32[8] parameter(0) y = f32[8] negate(x) y2 = f32[8] abs(x) z = s32[] constant(0) "
        f"s = {state} tuple(z, y, y2) ROOT w = {state} while(s), condition=cond, body=body",
    )
    module, _ = assign(text)
    assert [i.shape.rank for c in module.computations() for i in c.instructions if i.opcode == "copy"] == [0]


def test_unchanged_elements_stay_where_they_are() -> None:
    state = "(s32[], f32[8], f32[8])"
    text = loop(
        state,
        f"m = f32[8] add(a, b) ROOT t = {state} tuple(j, a, m)",
        f"x = f32[8] parameter(0) y = f32[8] parameter(1) z = s32[] constant(0) s = {state} tuple(z, x, y) "
        f"w = {state} while(s), condition=cond, body=body ROOT r = f32[8] get-tuple-element(w), index=2",
    )
    module, assignment = assign(text)
    body = module.get_computation_with_name("body")
    assert body is not None
    element = next(i for i in body.instructions if i.opcode == "get-tuple-element" and i.index == 1)
    assert assignment.slice(element).kind == "parameter"
    assert sum(1 for i in module.entry_computation.instructions if i.opcode == "copy") == 2  # counter and y


def test_initial_value_used_after_the_loop() -> None:
    state = "(s32[], f32[8])"
    text = loop(
        state,
        f"m = f32[8] add(a, a) ROOT t = {state} tuple(j, m)",
        f"x = f32[8] parameter(0) y = f32[8] negate(x) z = s32[] constant(0) s = {state} tuple(z, y) "
        f"w = {state} while(s), condition=cond, body=body v = f32[8] get-tuple-element(w), index=1 "
        "ROOT r = f32[8] subtract(v, y)",
    )
    module, _ = assign(text)
    assert any(i.opcode == "copy" and i.shape.rank == 1 for i in module.entry_computation.instructions)


def test_constant_and_duplicate_as_next_value() -> None:
    state = "(s32[], f32[2], f32[2], f32[2])"
    text = loop(
        state,
        f"k = f32[2] constant({{1,2}}) m = f32[2] add(a, b) ROOT t = {state} tuple(j, k, m, m)",
        f"x = f32[2] parameter(0) z = s32[] constant(0) s = {state} tuple(z, x, x, x) "
        f"ROOT w = {state} while(s), condition=cond, body=body",
    )
    assign(text)


def test_nested_loops() -> None:
    inner_state = "(s32[], f32[4])"
    text = f"""HloModule m
ic {{ p = {inner_state} parameter(0)  i = s32[] get-tuple-element(p), index=0  n = s32[] constant(2)
  ROOT c = pred[] compare(i, n), direction=LT }}
ib {{ p = {inner_state} parameter(0)  i = s32[] get-tuple-element(p), index=0  one = s32[] constant(1)
  j = s32[] add(i, one)  a = f32[4] get-tuple-element(p), index=1  m = f32[4] add(a, a)  ROOT t = {inner_state}
  tuple(j, m) }}
oc {{ p = (s32[], f32[4], f32[4]) parameter(0)  i = s32[] get-tuple-element(p), index=0  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT }}
ob {{ p = (s32[], f32[4], f32[4]) parameter(0)  i = s32[] get-tuple-element(p), index=0  one = s32[] constant(1)
  j = s32[] add(i, one)  a = f32[4] get-tuple-element(p), index=1  b = f32[4] get-tuple-element(p), index=2
  z = s32[] constant(0)  s = {inner_state} tuple(z, a)  w = {inner_state} while(s), condition=ic, body=ib
  v = f32[4] get-tuple-element(w), index=1  k = f32[4] add(a, v)  h = f32[4] multiply(b, k)
  ROOT t = (s32[], f32[4], f32[4]) tuple(j, v, h) }}
ENTRY e {{ x = f32[4] parameter(0)  z = s32[] constant(0)  s = (s32[], f32[4], f32[4]) tuple(z, x, x)
  w = (s32[], f32[4], f32[4]) while(s), condition=oc, body=ob  ROOT r = f32[4] get-tuple-element(w), index=2 }}"""
    assign(text)


CONDITIONAL = """HloModule m
same { ROOT a = (f32[4], f32[4]) parameter(0) }
swap { p = (f32[4], f32[4]) parameter(0)  a = f32[4] get-tuple-element(p), index=0  b = f32[4] get-tuple-element(p),
index=1
  ROOT t = (f32[4], f32[4]) tuple(b, a) }
const { p = (f32[4], f32[4]) parameter(0)  k = f32[4] constant({1,2,3,4})  b = f32[4] get-tuple-element(p), index=1
  n = f32[4] negate(b)  ROOT t = (f32[4], f32[4]) tuple(k, n) }
ENTRY e { i = s32[] parameter(0)  x = f32[4] parameter(1)  y = f32[4] negate(x)  s = (f32[4], f32[4]) tuple(x, y)
  c = (f32[4], f32[4]) conditional(i, s, s, s), branch_computations={same, swap, const}
  a = f32[4] get-tuple-element(c), index=0  m = f32[4] add(a, y)  ROOT r = ((f32[4], f32[4]), f32[4]) tuple(c, m) }"""


@pytest.mark.parametrize("optimize", [None, True])
def test_conditional(optimize: bool | None) -> None:
    assign(CONDITIONAL.replace("same, swap", "same, swap"), None if optimize is None else PipelineOptions())


def test_entry_results_own_their_buffers() -> None:
    module, assignment = assign(
        "HloModule m ENTRY e { x = f32[2] parameter(0) k = f32[2] constant({1,2}) n = f32[2] negate(x) "
        "ROOT t = (f32[2], f32[2], f32[2], f32[2]) tuple(x, n, n, k) }"
    )
    assert count(module, "copy") == 3
    root = module.entry_computation.root_instruction
    assert [(s.kind, s.index) for s in assignment.leaf_slices(root)] == [("result", i) for i in range(4)]


def test_parameter_as_root_and_tuple_parameter() -> None:
    assign("HloModule m ENTRY e { ROOT x = (f32[2], (s32[3], f32[])) parameter(0) }")
    assign("HloModule m ENTRY e { ROOT x = f32[2] parameter(0) }")


def test_elementwise_chain_runs_in_one_result_buffer() -> None:
    _, assignment = assign(
        "HloModule m ENTRY e { x = f32[64] parameter(0) a = f32[64] negate(x) b = f32[64] add(a, x) ROOT c = "
        "f32[64] abs(b) }"
    )
    assert assignment.arena_size == 0


def test_operand_read_in_two_roles_is_not_overwritten() -> None:
    _, assignment = assign(
        "HloModule m ENTRY e { x = f32[4] parameter(0) i = s32[] parameter(1) a = f32[4] negate(x) "
        "h = f32[2] slice(a), slice={[0:2]} b = f32[4] dynamic-update-slice(a, h, i) q = f32[2] add(h, h) "
        "s = f32[4] dynamic-update-slice(b, q, i) ROOT t = (f32[4], f32[4]) tuple(s, a) }"
    )
    assert assignment.total_bytes > 0
    assert "dynamic-update-slice" in assignment.to_text()


def test_tokens_and_empty_arrays() -> None:
    _, assignment = assign(
        "HloModule m ENTRY e { x = f32[0,4] parameter(0) n = f32[0,4] negate(x) t = token[] after-all() "
        "ROOT r = (f32[0,4], token[], f32[0,4]) tuple(n, t, x) }"
    )
    root = assignment.module.entry_computation.root_instruction
    assert [s.kind for s in assignment.leaf_slices(root)] == ["result", "none", "result"]
    assert [s.index for s in assignment.leaf_slices(root)] == [0, 0, 1]


def test_equal_constants_share_a_number() -> None:
    _, assignment = assign(
        "HloModule m ENTRY e { a = f32[2] constant({1,2}) b = f32[2] constant({1,2}) c = f32[2] constant({1,3}) "
        "d = f32[2] add(a, b) ROOT r = f32[2] add(d, c) }"
    )
    assert len(assignment.constants) == 2


def test_what_is_missing_is_said() -> None:
    text = "HloModule m ENTRY e { ROOT x = f32[2] parameter(0) }"
    with pytest.raises(FailedPrecondition, match="no schedule"):
        assign_buffers(parse_hlo(text))
    module = parse_hlo(text)
    HloMemoryScheduler().run(module)
    with pytest.raises(FailedPrecondition, match="run copy-insertion, then"):
        assign_buffers(module)


def random_program(seed: int) -> str:
    """Returns a random module with a loop, a conditional in its body and in-place updates."""
    rng = random.Random(seed)
    size = rng.randint(2, 4)
    names = "abcdfg"[:size]
    state = "(s32[], " + ", ".join(["f32[4]"] * size) + ")"
    values = list(names)
    lines: list[str] = []
    branch_state = "(f32[4], f32[4])"
    for n in range(rng.randint(1, 6)):
        x, y = rng.choice(values), rng.choice(values)
        kind = rng.choice(["add", "negate", "update", "reverse", "conditional", "constant", "slice"])
        new = f"v{n}"
        if kind == "add":
            lines.append(f"{new} = f32[4] add({x}, {y})")
        elif kind == "update":
            lines.append(f"u{n} = f32[1] slice({y}), slice={{[1:2]}} {new} = f32[4] dynamic-update-slice({x}, u{n}, i)")
        elif kind == "reverse":
            lines.append(f"{new} = f32[4] reverse({x}), dimensions={{0}}")
        elif kind == "conditional":
            lines.append(
                f"s{n} = {branch_state} tuple({x}, {y}) c{n} = {branch_state} conditional(i, s{n}, s{n}), "
                f"branch_computations={{same{n}, swap{n}}} {new} = f32[4] get-tuple-element(c{n}), "
                f"index={rng.randint(0, 1)}"
            )
        elif kind == "constant":
            lines.append(f"{new} = f32[4] constant({{1,2,3,{n}}})")
        elif kind == "slice":
            lines.append(
                f"w{n} = f32[2] slice({x}), slice={{[1:3]}} {new} = f32[4] concatenate(w{n}, w{n}), dimensions={{0}}"
            )
        else:
            lines.append(f"{new} = f32[4] negate({x})")
        values.append(new)
    root = f"ROOT t = {state} tuple(j, {', '.join(rng.choice(values) for _ in range(size))})"
    branches = "\n".join(
        f"same{n} {{ ROOT q = {branch_state} parameter(0) }} swap{n} {{ q = {branch_state} parameter(0) "
        f"h = f32[4] get-tuple-element(q), index=0 k = f32[4] get-tuple-element(q), index=1 m = f32[4] add(h, k) "
        f"ROOT t = {branch_state} tuple(k, m) }}"
        for n in range(6)
        if f"same{n}" in "".join(lines)
    )
    inits = ", ".join(rng.choice(["x", "y", "k"]) for _ in range(size))
    entry = (
        f"x = f32[4] parameter(0) y = f32[4] negate(x) k = f32[4] constant({{5,6,7,8}}) z = s32[] constant(0) "
        f"s = {state} tuple(z, {inits}) w = {state} while(s), condition=cond, body=body "
        f"g1 = f32[4] get-tuple-element(w), index={rng.randint(1, size)} o = f32[4] add(g1, y) "
        f"ROOT r = ({state}, f32[4], f32[4]) tuple(w, o, g1)"
    )
    return loop(state, "\n  ".join([*lines, root]), entry).replace("HloModule m\n", f"HloModule m\n{branches}\n")


@pytest.mark.parametrize("seed", range(40))
def test_random_loops(seed: int) -> None:
    text = random_program(seed)
    module, _ = assign(text)
    assign(text, PipelineOptions(fuse=seed % 2 == 0))
    assert describe(module)


def test_an_update_behind_many_views_is_in_place() -> None:
    """fusion(x) = update(bitcast(...bitcast(x))): the views are followed without recursion."""
    views = "\n".join(f"  v{i + 1} = f32[8] bitcast(v{i})" for i in range(3000))
    module = parse_hlo(f"""HloModule views
    update {{
      v0 = f32[8] parameter(0)
      u = f32[2] parameter(1)
      at = s32[] parameter(2)
    {views}
      ROOT r = f32[8] dynamic-update-slice(v3000, u, at)
    }}
    ENTRY main {{
      x = f32[8] parameter(0)
      u = f32[2] parameter(1)
      at = s32[] parameter(2)
      ROOT f = f32[8] fusion(x, u, at), kind=kLoop, calls=update
    }}""")
    assert in_place_pairs(module.entry_computation.root_instruction) == (InPlacePair(0),)


@pytest.mark.parametrize("taken", [True, False])
def test_what_every_branch_hands_on_stays_where_it_is_when_compiled(taken: bool) -> None:
    """Also as a result, where it needs a copy, and around a loop that changes it behind the conditional."""
    text = """
yes { a = (f32[40], f32[40]) parameter(0)  a0 = f32[40] get-tuple-element(a), index=0
  a1 = f32[40] get-tuple-element(a), index=1  n = f32[40] sine(a1)  ROOT ta = (f32[40], f32[40]) tuple(a0, n) }
no { b = (f32[40], f32[40]) parameter(0)  b0 = f32[40] get-tuple-element(b), index=0
  b1 = f32[40] get-tuple-element(b), index=1  ROOT tb = (f32[40], f32[40]) tuple(b0, b1) }
cond { s = (s32[], f32[40], f32[40], pred[]) parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[40], f32[40], pred[]) parameter(0)  i = s32[] get-tuple-element(s), index=0  o = s32[] constant(1)
  j = s32[] add(i, o)  x = f32[40] get-tuple-element(s), index=1  y = f32[40] get-tuple-element(s), index=2
  p = pred[] get-tuple-element(s), index=3  t = (f32[40], f32[40]) tuple(x, y)
  c = (f32[40], f32[40]) conditional(p, t, t), true_computation=yes, false_computation=no
  c0 = f32[40] get-tuple-element(c), index=0  c1 = f32[40] get-tuple-element(c), index=1
  k = f32[1] slice(c1), slice={[0:1]}  d = f32[40] dynamic-update-slice(c0, k, i)
  ROOT r = (s32[], f32[40], f32[40], pred[]) tuple(j, d, c1, p) }
ENTRY e { p = pred[] parameter(0)  x = f32[40] parameter(1)  y = f32[40] parameter(2)  z = s32[] constant(0)
  t = (f32[40], f32[40]) tuple(x, y)
  c = (f32[40], f32[40]) conditional(p, t, t), true_computation=yes, false_computation=no
  c0 = f32[40] get-tuple-element(c), index=0  c1 = f32[40] get-tuple-element(c), index=1
  s = (s32[], f32[40], f32[40], pred[]) tuple(z, c0, c1, p)
  w = (s32[], f32[40], f32[40], pred[]) while(s), condition=cond, body=body
  u = f32[40] get-tuple-element(w), index=1  v = f32[40] get-tuple-element(w), index=2
  ROOT r = (f32[40], f32[40], f32[40]) tuple(u, v, c0) }"""
    assign(text, PipelineOptions())
    x, y = np.arange(40, dtype=np.float32), np.arange(40, dtype=np.float32)[::-1] / 8
    expected = evaluate(parse_hlo(text), np.array(taken), x, y)
    for got, want in zip(xjit.compile(text)(np.array(taken), x, y), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)
