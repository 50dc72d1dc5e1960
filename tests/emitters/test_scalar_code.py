"""Numbers computed in line inside of loops, against the evaluator."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

import xjit
from tests.support.kernels import check
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.planners.inline import MAX_OPERATIONS, is_scalar_code
from xjit.text.parser import parse_hlo


def loop(state: str, body: str, start: str, parameters: str = "", trips: int = 400) -> str:
    """A loop whose state is (counter, *state); `body` defines the next state as n1, n2, ... from s1, s2, ..."""
    types = state.split(";")
    tuple_type = f"(s32[], {', '.join(types)})"
    elements = "\n".join(f"s{i} = {t} get-tuple-element(p), index={i}" for i, t in enumerate(types, 1))
    results = ", ".join(f"n{i}" for i in range(1, len(types) + 1))
    return f"""HloModule m
    most {{ l = f32[] parameter(0)  r = f32[] parameter(1)  ROOT s = f32[] maximum(l, r) }}
    cond {{ p = {tuple_type} parameter(0)  i = s32[] get-tuple-element(p), index=0  n = s32[] constant({trips})
      ROOT c = pred[] compare(i, n), direction=LT }}
    body {{ p = {tuple_type} parameter(0)  i = s32[] get-tuple-element(p), index=0
      {elements}
      one = s32[] constant(1)  j = s32[] add(i, one)
      {body}
      ROOT t = {tuple_type} tuple(j, {results}) }}
    ENTRY e {{ {parameters}  z = s32[] constant(0)
      t = {tuple_type} tuple(z, {start})  ROOT w = {tuple_type} while(t), condition=cond, body=body }}"""


BODIES = {
    "recurrence": ("f32[]", "r = f32[] constant(0.5) m = f32[] multiply(s1, r) n1 = f32[] sine(m)", "x"),
    "two that change places": ("f32[];f32[]", "n1 = f32[] copy(s2) n2 = f32[] copy(s1)", "x, y"),
    "fibonacci": ("f32[];f32[]", "n1 = f32[] add(s1, s2) n2 = f32[] copy(s1)", "x, y"),
    "element of an array": (
        "f32[];f32[7]",
        "d = f32[1] dynamic-slice(s2, i), dynamic_slice_sizes={1} q = f32[] reshape(d) n1 = f32[] add(s1, q) "
        "n2 = f32[7] copy(s2)",
        "x, a",
    ),
    "update in place": (
        "f32[];f32[7]",
        "q = f32[1] reshape(s1) k = s32[] constant(3) h = s32[] remainder(i, k) "
        "n2 = f32[7] dynamic-update-slice(s2, q, h) r = f32[] constant(0.75) n1 = f32[] multiply(s1, r)",
        "x, a",
    ),
    "reads what it updates": (
        "f32[];f32[7]",
        "k = s32[] constant(6) h = s32[] remainder(i, k) d = f32[1] dynamic-slice(s2, h), dynamic_slice_sizes={1} "
        "m = f32[1] negate(d) l = s32[] add(h, one) n2 = f32[7] dynamic-update-slice(s2, m, l) n1 = f32[] copy(s1)",
        "x, a",
    ),
    "number that a kernel reads": (
        "f32[];f32[7]",
        "r = f32[] constant(0.75) n1 = f32[] multiply(s1, r) w = f32[7] broadcast(n1), dimensions={} "
        "v = f32[7] broadcast(s1), dimensions={} u = f32[7] multiply(s2, w) n2 = f32[7] subtract(v, u)",
        "x, a",
    ),
    "number that a kernel writes": (
        "f32[];f32[7]",
        "o = f32[] constant(0) q = f32[] reduce(s2, o), dimensions={0}, to_apply=most k = f32[] constant(0.01) "
        "m = f32[] multiply(q, k) n1 = f32[] add(m, s1) w = f32[7] broadcast(m), dimensions={} "
        "n2 = f32[7] subtract(s2, w)",
        "x, a",
    ),
    "three in turn": (
        "f32[];f32[];f32[]",
        "n1 = f32[] copy(s2) n2 = f32[] copy(s3) r = f32[] constant(0.5) m = f32[] multiply(s1, r) "
        "n3 = f32[] cosine(m)",
        "x, y, x",
    ),
    "narrow and complex": (
        "bf16[];c64[];pred[]",
        "r = bf16[] constant(0.75) n1 = bf16[] multiply(s1, r) n2 = c64[] multiply(s2, s2) n3 = pred[] not(s3)",
        "b, c, f",
    ),
}
PARAMETERS = """x = f32[] parameter(0) y = f32[] parameter(1) a = f32[7] parameter(2)
  b = bf16[] convert(x) c = c64[] complex(x, y) f = pred[] compare(x, y), direction=LT"""


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("trips", [0, 1, 401])
def test_loops_of_numbers(name: str, trips: int) -> None:
    state, body, start = BODIES[name]
    text = loop(state, body, start, PARAMETERS, trips)
    x, y = np.float32(0.3), np.float32(0.4)
    check(text, np.asarray(x), np.asarray(y), np.arange(7, dtype=np.float32), rtol=1e-6)


def test_no_kernel_is_called() -> None:
    state, body, start = BODIES["recurrence"]
    exe = xjit.compile(loop(state, body, start, PARAMETERS))
    assert not exe.kernels
    state, body, start = BODIES["update in place"]
    assert not xjit.compile(loop(state, body, start, PARAMETERS)).kernels


def test_numbers_stay_in_registers() -> None:
    text = xjit.compile(loop("f32[]", "n1 = f32[] multiply(s1, s1)", "x", PARAMETERS)).as_text("llvm")
    _, rounds, _ = re.split(r"^while_(?:test|end)\.\d+:$", text, flags=re.MULTILINE)
    assert " phi float " in rounds
    assert " = load " not in rounds
    assert " store " not in rounds


def test_a_loop_in_a_loop_reads_and_changes_numbers_of_the_outer_one() -> None:
    text = """HloModule m
    inner_cond { p = (s32[], s32[], f32[]) parameter(0)  i = s32[] get-tuple-element(p), index=0
      n = s32[] get-tuple-element(p), index=1  ROOT c = pred[] compare(i, n), direction=LT }
    inner_body { p = (s32[], s32[], f32[]) parameter(0)  i = s32[] get-tuple-element(p), index=0
      n = s32[] get-tuple-element(p), index=1  x = f32[] get-tuple-element(p), index=2  k = s32[] constant(1)
      j = s32[] add(i, k)  f = f32[] convert(n)  h = f32[] constant(0.5)  y = f32[] multiply(x, h)
      z = f32[] add(y, f)  ROOT t = (s32[], s32[], f32[]) tuple(j, n, z) }
    cond { p = (s32[], f32[]) parameter(0)  i = s32[] get-tuple-element(p), index=0  n = s32[] constant(9)
      ROOT c = pred[] compare(i, n), direction=LT }
    body { p = (s32[], f32[]) parameter(0)  i = s32[] get-tuple-element(p), index=0
      x = f32[] get-tuple-element(p), index=1  z = s32[] constant(0)  s = f32[] sine(x)
      t = (s32[], s32[], f32[]) tuple(z, i, s)
      w = (s32[], s32[], f32[]) while(t), condition=inner_cond, body=inner_body
      y = f32[] get-tuple-element(w), index=2  q = f32[] subtract(y, x)  k = s32[] constant(1)  j = s32[] add(i, k)
      ROOT r = (s32[], f32[]) tuple(j, q) }
    ENTRY e { x = f32[] parameter(0)  z = s32[] constant(0)  t = (s32[], f32[]) tuple(z, x)
      ROOT w = (s32[], f32[]) while(t), condition=cond, body=body }"""
    check(text, np.asarray(0.7, np.float32), rtol=1e-5)


def test_a_profile_counts_every_instruction() -> None:
    state, body, start = BODIES["recurrence"]
    exe = xjit.compile(loop(state, body, start, PARAMETERS), options=xjit.CompileOptions(profile=True))
    assert {k.instruction for k in exe.kernels} >= {"c", "j"}


def test_a_condition_that_runs_a_loop_is_called() -> None:
    text = """HloModule m
    inner_cond { p = (s32[], s32[]) parameter(0)  i = s32[] get-tuple-element(p), index=0
      n = s32[] get-tuple-element(p), index=1  ROOT c = pred[] compare(i, n), direction=LT }
    inner_body { p = (s32[], s32[]) parameter(0)  i = s32[] get-tuple-element(p), index=0
      n = s32[] get-tuple-element(p), index=1  k = s32[] constant(7)  j = s32[] add(i, k)
      ROOT t = (s32[], s32[]) tuple(j, n) }
    cond { i = s32[] parameter(0)  z = s32[] constant(0)  t = (s32[], s32[]) tuple(z, i)
      w = (s32[], s32[]) while(t), condition=inner_cond, body=inner_body  s = s32[] get-tuple-element(w), index=0
      ROOT c = pred[] compare(s, i), direction=NE }
    body { i = s32[] parameter(0)  one = s32[] constant(1)  ROOT j = s32[] add(i, one) }
    ENTRY e { x = s32[] parameter(0)  ROOT w = s32[] while(x), condition=cond, body=body }"""
    for start, end in ((1, 7), (7, 7), (15, 21)):
        assert check(text, np.asarray(start, np.int32))[0] == end


def view(text: str) -> KernelView:
    """Returns the view of the entry computation's root."""
    return KernelView.of(parse_hlo(text).entry_computation.root_instruction)


def test_what_is_not_code_in_line() -> None:
    assert is_scalar_code(view("ENTRY e { x = f32[1,1] parameter(0)  ROOT n = f32[1,1] negate(x) }"))
    assert not is_scalar_code(view("ENTRY e { x = f32[2] parameter(0)  ROOT n = f32[2] negate(x) }"))
    total = """f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
    ENTRY e { x = f32[2] parameter(0)  z = f32[] constant(0)
      ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=f }"""
    assert not is_scalar_code(view(total))
    copied = """ENTRY e { x = f32[7] parameter(0)  u = f32[1] parameter(1)  i = s32[] parameter(2)
      ROOT d = f32[7] dynamic-update-slice(x, u, i) }"""
    assert not is_scalar_code(view(copied))  # the rest of the array would have to be copied


@pytest.mark.parametrize("length", [MAX_OPERATIONS, MAX_OPERATIONS + 1])
def test_long_code_stays_a_kernel(length: int) -> None:
    names = [f"x{i}" for i in range(length + 1)]
    lines = [f"{b} = f32[] sine({a})" for a, b in itertools.pairwise(names)]
    fused = "\n".join(("f { x0 = f32[] parameter(0)", *lines[:-1], f"ROOT {lines[-1]} }}"))
    entry = "ENTRY e { x = f32[] parameter(0)  ROOT y = f32[] fusion(x), kind=kLoop, calls=f }"
    assert is_scalar_code(view(f"{fused}\n{entry}")) == (length <= MAX_OPERATIONS)


@pytest.mark.parametrize("kind", ["s8", "f8e5m2", "s4"])
@pytest.mark.parametrize("opcode", ["copy", "negate"])
def test_places_that_hold_numbers_of_several_types_stay_in_memory(kind: str, opcode: str) -> None:
    """The byte of the loop's predicate is a number of another type afterwards, which is copied from there."""
    text = loop(
        f"{kind}[1];{kind}[1];s32[5]",
        f"""m = {kind}[1] {opcode}(s1)  g = {kind}[5] gather(s2, s3), offset_dims={{}}, collapsed_slice_dims={{0}}, start_index_map={{0}},
          index_vector_dim=1, slice_sizes={{1}}
        n1 = {kind}[1] scatter(m, s3, g), update_window_dims={{}}, inserted_window_dims={{0}},
          scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=larger
        n2 = {kind}[1] copy(s1)  n3 = s32[5] copy(s3)""",
        "x, y, a",
        f"x = {kind}[1] parameter(0) y = {kind}[1] parameter(1) a = s32[5] parameter(2)",
        trips=3,
    )
    larger = f"larger {{ l = {kind}[] parameter(0)  r = {kind}[] parameter(1)  ROOT s = {kind}[] maximum(l, r) }}"
    text = text.replace("    cond {", f"    {larger}\n    cond {{", 1)
    dtype = parse_hlo(text).entry_computation.parameter_instructions[0].shape.dtype
    check(text, np.array([5]).astype(dtype), np.array([6]).astype(dtype), np.zeros(5, np.int32))
