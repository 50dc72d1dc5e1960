"""IrEmitterUnnested: control flow, tuples, copies, which kernels are shared, and how work is cut into tasks."""

from __future__ import annotations

import re

import numpy as np
import pytest

import xjit
from tests.support.kernels import LAYOUTS, check
from xjit.emitters.entry.thunk_classes import MAX_TASKS

PLAIN = xjit.CompileOptions(fusion=False)


def llvm(text: str, options: xjit.CompileOptions = PLAIN) -> str:
    return xjit.compile(text, options=options).as_text("llvm")


def functions(text: str) -> dict[str, str]:
    """The functions of a module by name."""
    return {name.strip('"'): body for name, body in re.findall(r"(?ms)^define [^@]*@([^(]+)\((.*?)^}", text)}


# -- kernels


def layers(count: int, size: int = 64) -> str:
    steps = "\n".join(
        f"""  w{i} = f32[{size},{size}] parameter({i + 1})
  d{i} = f32[{size},{size}] dot(h{i}, w{i}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  h{i + 1} = f32[{size},{size}] tanh(d{i})"""
        for i in range(count)
    )
    return f"ENTRY e {{\n  h0 = f32[{size},{size}] parameter(0)\n{steps}\n  ROOT r = f32[{size},{size}] negate(h{count})\n}}\n"


def test_equal_layers_share_their_code() -> None:
    """Twelve layers are as many functions as one is, and twelve times the calls."""
    few, many = (xjit.compile(layers(n), options=PLAIN) for n in (1, 12))
    assert len(functions(many.as_text("llvm"))) == len(functions(few.as_text("llvm")))
    assert len(many.kernels) == 12 * 2 + 1 and len({k.name for k in many.kernels}) == 3
    rng = np.random.default_rng(0)
    small = [rng.standard_normal((64, 64)).astype(np.float32) / 8 for _ in range(13)]
    check(layers(12), *small, rtol=1e-4, atol=1e-5, options=PLAIN)


def test_what_differs_is_not_shared() -> None:
    """Another attribute, constant, type, layout or order of operands is another kernel."""
    text = """ENTRY e {
  x = f32[4,4] parameter(0)
  y = f32[4,4] parameter(1)
  a = f32[4,4] subtract(x, y)
  b = f32[4,4] subtract(y, x)
  c = f32[4,4] subtract(x, x)
  d = f32[4,4] add(x, y)
  e = f32[4,4] reverse(x), dimensions={0}
  f = f32[4,4] reverse(x), dimensions={1}
  g = f32[4,4]{0,1} reverse(x), dimensions={1}
  h = bf16[4,4] convert(x)
  ROOT t = (f32[4,4], f32[4,4], f32[4,4], f32[4,4], f32[4,4], f32[4,4], f32[4,4]{0,1}, bf16[4,4])
    tuple(a, b, c, d, e, f, g, h)
}
"""
    options = xjit.CompileOptions(fusion=False, keep_intermediate_layouts=True)
    check(text, options=options)
    kernels = xjit.compile(text, options=options).kernels
    assert len({k.name for k in kernels}) == len(kernels) - 1, "x - y and y - x are one function of two arguments"


def test_work_is_cut_into_tasks() -> None:
    """Large kernels go to the pool, in at most MAX_TASKS tasks; small ones are called."""
    text = "ENTRY e {{\n  x = f32[{n}] parameter(0)\n  ROOT r = f32[{n}] negate(x)\n}}\n"
    assert "xjit_parallel_for" not in llvm(text.format(n=1000))
    large = llvm(text.format(n=50_000_000))
    tasks = [int(n) for n in re.findall(r"call void @xjit_parallel_for\(.*i64 (\d+)\)", large)]
    assert tasks == [MAX_TASKS]
    (task,) = [body for name, body in functions(large).items() if ".task" in name]
    assert task.count("udiv") == 2, "the first and the last unit of a task"


def test_tasks_give_the_same_bits_as_one_call() -> None:
    """A kernel large enough for tasks: all elements are done, once."""
    check("ENTRY e {\n  x = f32[1003,1001] parameter(0)\n  ROOT r = f32[1001,1003] transpose(x), dimensions={1,0}\n}\n")


# -- tuples, copies, constants


def test_tuples_cost_nothing() -> None:
    text = """ENTRY e {
  p = ((f32[3], s32[]), f32[2]) parameter(0)
  a = (f32[3], s32[]) get-tuple-element(p), index=0
  x = f32[3] get-tuple-element(a), index=0
  i = s32[] get-tuple-element(a), index=1
  y = f32[2] get-tuple-element(p), index=1
  n = f32[3] negate(x)
  t = (f32[3], f32[3]) tuple(n, n)
  m = f32[3] get-tuple-element(t), index=1
  ROOT r = ((f32[3], s32[]), f32[2], f32[3], f32[3]) tuple(a, y, m, n)
}
"""
    exe = xjit.compile(text, options=PLAIN)
    assert [k.kind for k in exe.kernels] == ["loop"]
    given = ((np.arange(3, dtype=np.float32), np.int32(7)), np.ones(2, np.float32))
    (x, i), y, m, n = exe(given)
    np.testing.assert_array_equal(x, given[0][0])
    np.testing.assert_array_equal(y, given[1])
    np.testing.assert_array_equal(m, -given[0][0])
    np.testing.assert_array_equal(n, -given[0][0])
    assert i == 7


def test_copies_between_equal_layouts_are_memory_copies() -> None:
    text = "ENTRY e {{\n  x = f32[30,40]{{1,0}} parameter(0)\n  ROOT c = f32[30,40]{layout} copy(x)\n}}\n"
    same, other = (llvm(text.format(layout=layout), LAYOUTS) for layout in ("{1,0}", "{0,1}"))
    assert "memcpy" in same and len(functions(same)) == 1
    assert "memcpy" not in other and len(functions(other)) > 1
    check(text.format(layout="{0,1}"), options=LAYOUTS)


def test_results_that_are_parameters_or_constants() -> None:
    check("""ENTRY e {
  x = f32[3] parameter(0)
  c = f32[2,2] constant({{1, 2}, {3, 4}})
  n = f32[0] constant({})
  ROOT t = (f32[3], f32[2,2], f32[3], f32[0]) tuple(x, c, x, n)
}
""")


# -- control flow

COUNT = """cond {
  s = (s32[], f32[5]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(10)
  ROOT c = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[5]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[5] get-tuple-element(s), index=1
  one = s32[] constant(1)
  k = s32[] add(i, one)
  f = f32[] convert(i)
  b = f32[5] broadcast(f), dimensions={}
  y = f32[5] add(x, b)
  ROOT t = (s32[], f32[5]) tuple(k, y)
}
"""


@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("start", [0, 7, 10, 99])
def test_while(start: int, fuse: bool) -> None:
    """Some trips, and none at all; what goes in stays as it is."""
    text = f"""{COUNT}
ENTRY e {{
  i = s32[] parameter(0)
  x = f32[5] parameter(1)
  t = (s32[], f32[5]) tuple(i, x)
  w = (s32[], f32[5]) while(t), condition=cond, body=body
  n = s32[] get-tuple-element(w), index=0
  y = f32[5] get-tuple-element(w), index=1
  z = f32[5] subtract(y, x)
  ROOT r = (s32[], f32[5], f32[5]) tuple(n, y, z)
}}
"""
    x = np.arange(5, dtype=np.float32)
    check(text, np.int32(start), x, options=xjit.CompileOptions(fusion=fuse))
    np.testing.assert_array_equal(x, np.arange(5))


def test_nested_loops() -> None:
    """A loop over a loop; state is permuted from trip to trip."""
    check("""inner_cond {
  s = (s32[], s32[4], s32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}
inner_body {
  s = (s32[], s32[4], s32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = s32[4] get-tuple-element(s), index=1
  b = s32[4] get-tuple-element(s), index=2
  one = s32[] constant(1)
  k = s32[] add(i, one)
  c = s32[4] add(a, b)
  ROOT t = (s32[], s32[4], s32[4]) tuple(k, b, c)
}
outer_cond {
  s = (s32[], s32[4], s32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(4)
  ROOT c = pred[] compare(i, n), direction=LT
}
outer_body {
  s = (s32[], s32[4], s32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = s32[4] get-tuple-element(s), index=1
  b = s32[4] get-tuple-element(s), index=2
  zero = s32[] constant(0)
  one = s32[] constant(1)
  t = (s32[], s32[4], s32[4]) tuple(zero, b, a)
  w = (s32[], s32[4], s32[4]) while(t), condition=inner_cond, body=inner_body
  x = s32[4] get-tuple-element(w), index=1
  y = s32[4] get-tuple-element(w), index=2
  k = s32[] add(i, one)
  ROOT r = (s32[], s32[4], s32[4]) tuple(k, x, y)
}
ENTRY e {
  a = s32[4] parameter(0)
  b = s32[4] parameter(1)
  zero = s32[] constant(0)
  t = (s32[], s32[4], s32[4]) tuple(zero, a, b)
  ROOT w = (s32[], s32[4], s32[4]) while(t), condition=outer_cond, body=outer_body
}
""")


BRANCHES = """double {
  x = f32[5] parameter(0)
  ROOT r = f32[5] add(x, x)
}
same {
  ROOT x = f32[5] parameter(0)
}
none {
  x = f32[5] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[5] broadcast(z), dimensions={}
}
"""


@pytest.mark.parametrize("index", [-7, 0, 1, 2, 3, 2**31 - 1])
def test_conditional_by_index(index: int) -> None:
    """An index out of range takes the last branch."""
    text = f"""{BRANCHES}
ENTRY e {{
  i = s32[] parameter(0)
  x = f32[5] parameter(1)
  y = f32[5] parameter(2)
  c = f32[5] conditional(i, x, y, x), branch_computations={{double, same, none}}
  ROOT r = f32[5] subtract(c, y)
}}
"""
    rng = np.random.default_rng(0)
    check(text, np.int32(index), *(rng.standard_normal(5).astype(np.float32) for _ in range(2)))


@pytest.mark.parametrize("chosen", [True, False])
def test_conditional_by_truth(chosen: bool) -> None:
    text = f"""{BRANCHES}
ENTRY e {{
  p = pred[] parameter(0)
  x = f32[5] parameter(1)
  c = f32[5] conditional(p, x, x), true_computation=double, false_computation=none
  d = f32[5] conditional(p, x, c), true_computation=same, false_computation=double
  ROOT t = (f32[5], f32[5]) tuple(c, d)
}}
"""
    check(text, np.bool_(chosen), np.arange(5, dtype=np.float32))


def test_a_computation_called_twice() -> None:
    check(f"""{BRANCHES}
ENTRY e {{
  x = f32[5] parameter(0)
  a = f32[5] call(x), to_apply=double
  b = f32[5] call(a), to_apply=double
  c = f32[5] call(x), to_apply=same
  ROOT t = (f32[5], f32[5], f32[5]) tuple(a, b, c)
}}
""")
