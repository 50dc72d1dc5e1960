"""Loops with many elements, aliases of many arrays, deep nests of calls are compiled in time in proportion.

Time is calls of functions, or opcodes of Python's machine for what loops without calls.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

import xjit
from tests.support.call_counts import calls_of, opcodes_of
from xjit.hlo import HloModule
from xjit.ops.verifier import verify_module
from xjit.passes import PassDriver, cpu_pipeline
from xjit.passes.schedule_and_memory.buffer_assignment import assign_buffers
from xjit.text.parser import parse_hlo

SIZES = (40, 160)


def wide_loop(size: int) -> str:
    """A loop over a counter and arrays, each of which becomes the sum of itself and the next."""
    arrays = ", ".join(["f32[8]"] * size)
    state = f"(s32[], {arrays})"
    reads = "\n".join(f"g{i} = f32[8] get-tuple-element(p), index={i + 1}" for i in range(size))
    sums = "\n".join(f"h{i} = f32[8] add(g{i}, g{(i + 1) % size})" for i in range(size))
    results = "\n".join(f"o{i} = f32[8] get-tuple-element(w), index={i + 1}" for i in range(size))
    return f"""HloModule m
    b {{ p = {state} parameter(0)
      i = s32[] get-tuple-element(p), index=0
      one = s32[] constant(1)
      j = s32[] add(i, one)
      {reads}
      {sums}
      ROOT t = {state} tuple(j, {", ".join(f"h{i}" for i in range(size))}) }}
    c {{ p = {state} parameter(0)
      i = s32[] get-tuple-element(p), index=0
      k = s32[] constant(50)
      ROOT r = pred[] compare(i, k), direction=LT }}
    ENTRY e {{
      {chr(10).join(f"x{i} = f32[8] parameter({i})" for i in range(size))}
      z = s32[] constant(0)
      t = {state} tuple(z, {", ".join(f"x{i}" for i in range(size))})
      w = {state} while(t), condition=c, body=b
      {results}
      ROOT r = ({arrays}) tuple({", ".join(f"o{i}" for i in range(size))}) }}"""


def training_step(size: int) -> str:
    """Every parameter is updated, and donated."""
    aliases = ", ".join(f"{{{i}}}: ({i}, {{}}, may-alias)" for i in range(size))
    lines = [f"p{i} = f32[32] parameter({i})  g{i} = f32[32] sine(p{i})" for i in range(size)]
    lines += [f"n{i} = f32[32] subtract(p{i}, g{(i + 1) % size})" for i in range(size)]
    result = f"ROOT r = ({', '.join(['f32[32]'] * size)}) tuple({', '.join(f'n{i}' for i in range(size))})"
    return "\n".join([f"HloModule m, input_output_alias={{ {aliases} }}", "ENTRY e {", *lines, result, "}"])


def nested_calls(size: int) -> str:
    """Functions that do something and call the next one."""
    functions = ["f0 { p = f32[4] parameter(0)  ROOT r = f32[4] sine(p) }"]
    functions += [
        f"f{i} {{ p = f32[4] parameter(0)  c = f32[4] call(p), to_apply=f{i - 1}  ROOT r = f32[4] sine(c) }}"
        for i in range(1, size)
    ]
    entry = f"ENTRY e {{ p = f32[4] parameter(0)  ROOT r = f32[4] call(p), to_apply=f{size - 1} }}"
    return "\n".join(["HloModule m", *functions, entry])


def loop_of_constants(size: int) -> str:
    """A loop whose state carries numbers that never change."""
    state = f"(s32[], f32[8], {', '.join(['f32[]'] * size)})"
    reads = [f"g{i} = f32[] get-tuple-element(p), index={i + 2}" for i in range(size)]
    reads += [f"b{i} = f32[8] broadcast(g{i}), dimensions={{}}" for i in range(size)]
    reads += [f"v{i + 1} = f32[8] add(v{i}, b{i})" for i in range(size)]
    constants = "\n".join(f"c{i} = f32[] constant({i}.5)" for i in range(size))
    return f"""HloModule m
    b {{ p = {state} parameter(0)
      i = s32[] get-tuple-element(p), index=0
      v0 = f32[8] get-tuple-element(p), index=1
      one = s32[] constant(1)
      j = s32[] add(i, one)
      {chr(10).join(reads)}
      ROOT t = {state} tuple(j, v{size}, {", ".join(f"g{i}" for i in range(size))}) }}
    c {{ p = {state} parameter(0)
      i = s32[] get-tuple-element(p), index=0
      k = s32[] constant(50)
      ROOT r = pred[] compare(i, k), direction=LT }}
    ENTRY e {{
      x = f32[8] parameter(0)
      z = s32[] constant(0)
      {constants}
      t = {state} tuple(z, x, {", ".join(f"c{i}" for i in range(size))})
      w = {state} while(t), condition=c, body=b
      ROOT r = f32[8] get-tuple-element(w), index=1 }}"""


def donors(size: int) -> str:
    """Parameters that may give their buffers to any result."""
    given = ", ".join(f"({i}, {{}})" for i in range(size))
    lines = [f"p{i} = f32[32] parameter({i})  n{i} = f32[32] sine(p{i})" for i in range(size)]
    result = f"ROOT r = ({', '.join(['f32[32]'] * size)}) tuple({', '.join(f'n{i}' for i in range(size))})"
    return "\n".join([f"HloModule m, buffer_donor={{ {given} }}", "ENTRY e {", *lines, result, "}"])


def repacked(size: int) -> str:
    """A tuple of elements of tuples, all of whose elements are read."""
    lines = [f"p{i} = f32[4] parameter({i})  t{i} = (f32[4]) tuple(p{i})" for i in range(size)]
    lines += [f"g{i} = f32[4] get-tuple-element(t{i}), index=0" for i in range(size)]
    kinds = f"({', '.join(['f32[4]'] * size)})"
    lines += [f"h = {kinds} tuple({', '.join(f'g{i}' for i in range(size))})"]
    lines += [f"e{i} = f32[4] get-tuple-element(h), index={i}  n{i} = f32[4] sine(e{i})" for i in range(size)]
    lines += [f"ROOT r = {kinds} tuple({', '.join(f'n{i}' for i in range(size))})"]
    return "\n".join(["HloModule m", "ENTRY e {", *lines, "}"])


def shared(size: int) -> str:
    """A value that is read by many instructions that are that value."""
    lines = [f"a{i} = s32[4] add(x, b)  n{i} = s32[4] negate(a{i})" for i in range(size)]
    result = f"ROOT r = ({', '.join(['s32[4]'] * size)}) tuple({', '.join(f'n{i}' for i in range(size))})"
    start = "x = s32[4] parameter(0)  c = s32[] constant(0)  b = s32[4] broadcast(c), dimensions={}"
    return "\n".join(["HloModule m", "ENTRY e {", start, *lines, result, "}"])


def chained_fusions(size: int) -> str:
    """Fusions of two results each, of which the last one's is not read, nor what it is computed of."""
    fused = "a = f32[4] parameter(0)  b = f32[4] parameter(1)  x = f32[4] negate(a)  y = f32[4] abs(b)"
    bodies = [f"f{i} {{ {fused}  ROOT r = (f32[4], f32[4]) tuple(x, y) }}" for i in range(size)]
    lines = [
        f"w{i} = (f32[4], f32[4]) fusion(a{i}, b{i}), kind=kLoop, calls=f{i}  "
        f"a{i + 1} = f32[4] get-tuple-element(w{i}), index=0  b{i + 1} = f32[4] get-tuple-element(w{i}), index=1"
        for i in range(size)
    ]
    start = "ENTRY e { a0 = f32[4] parameter(0)  b0 = f32[4] parameter(1)"
    return "\n".join(["HloModule m", *bodies, start, *lines, f"ROOT r = f32[4] negate(a{size}) }}"])


def shift_register(size: int) -> str:
    """A loop whose elements become the next one each; its condition reads the first."""
    state = f"({', '.join(['s32[]'] * size)})"
    reads = [f"g{i} = s32[] get-tuple-element(p), index={i}" for i in range(size)]
    shifted = ", ".join(f"g{(i + 1) % size}" for i in range(size))
    return "\n".join([
        "HloModule m",
        f"b {{ p = {state} parameter(0)", *reads, f"ROOT t = {state} tuple({shifted}) }}",
        f"c {{ p = {state} parameter(0)  g = s32[] get-tuple-element(p), index=0  k = s32[] constant(5)",
        "ROOT r = pred[] compare(g, k), direction=LT }",
        f"ENTRY e {{ z = s32[] constant(0)  t = {state} tuple({', '.join(['z'] * size)})",
        f"ROOT w = {state} while(t), condition=c, body=b }}",
    ])  # fmt: skip


def _prepare(module: HloModule) -> None:
    PassDriver().run(cpu_pipeline(), module)
    assignment = assign_buffers(module)
    root = assignment.module.entry_computation.root_instruction
    for result in assignment.leaf_slices(root):
        assignment.may_be_one(result, result)


@pytest.mark.parametrize("program", [wide_loop, training_step, nested_calls])
def test_calls_per_element_do_not_grow(program: Callable[[int], str]) -> None:
    counts: list[float] = []
    for size in SIZES:
        module = parse_hlo(program(size))
        counts.append(calls_of(lambda module=module: _prepare(module)) / size)
    small, large = counts
    assert large < 1.25 * small, f"{small:.0f} calls per element, then {large:.0f}"


_STEPS: dict[str, tuple[Callable[[int], str], Callable[[HloModule], object]]] = {
    "verifying aliases": (training_step, verify_module),
    "matching donors": (donors, lambda m: (xjit.run_passes(m, ["hlo-memory-scheduler"]), assign_buffers(m))),
    "sinking constants": (loop_of_constants, lambda m: xjit.run_passes(m, ["while-loop-constant-sinking"])),
    "rewriting operands of a tuple": (repacked, lambda m: xjit.run_passes(m, ["tuple-simplifier"])),
    "rewriting readers of one value": (shared, lambda m: xjit.run_passes(m, ["algebraic-simplifier"])),
    "removing results of fusions": (chained_fusions, lambda m: xjit.run_passes(m, ["hlo-dce"])),
    "counting trips": (shift_register, lambda m: xjit.run_passes(m, ["while-loop-trip-count-annotator"])),
    "declaring aliases": (donors, lambda m: xjit.run_passes(m, ["optimize-input-output-buffer-alias"])),
}


@pytest.mark.parametrize("step", _STEPS)
def test_opcodes_per_array_do_not_grow(step: str) -> None:
    program, run = _STEPS[step]
    counts: list[float] = []
    for size in SIZES:
        module = parse_hlo(program(size))
        counts.append(opcodes_of(lambda module=module: run(module)) / size)
    small, large = counts
    assert large < 1.25 * small, f"{small:.0f} opcodes per array, then {large:.0f}"
