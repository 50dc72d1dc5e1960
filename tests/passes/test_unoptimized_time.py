"""Which modules are so short that their code is not optimized."""

from __future__ import annotations

import pytest

import xjit
from xjit.compile_options import CompileOptions
from xjit.compiler import optimized_for_cpu
from xjit.hlo import HloInstruction, HloModule
from xjit.passes.analysis.unoptimized_time import UNKNOWN_TRIPS, takes_less

ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }"


def optimized(text: str) -> HloModule:
    return optimized_for_cpu(xjit.parse_hlo(f"HloModule m\n{text}"), CompileOptions())


def estimate(text: str, lanes: int = 1) -> float:
    """The limit, in nanoseconds, that a module is just below, to a tenth."""
    module, limit = optimized(text), 0.1
    while not takes_less(module, limit, lanes):
        limit *= 1.1
    return limit


def chain(opcode: str, count: int, shape: str = "f32[]") -> str:
    steps = [f"x{i + 1} = {shape} {opcode}(x{i})" for i in range(count)]
    return f"ENTRY e {{ x0 = {shape} parameter(0)\n" + "\n".join(steps) + "\n}"


def loop(trips: str) -> str:
    return f"""
    cond {{ p = (s32[], s32[], f32[8]) parameter(0)  i = s32[] get-tuple-element(p), index=0
      k = s32[] get-tuple-element(p), index=1  c = s32[] constant(7)
      n = s32[] {trips}  ROOT r = pred[] compare(i, n), direction=LT }}
    body {{ p = (s32[], s32[], f32[8]) parameter(0)  i = s32[] get-tuple-element(p), index=0
      k = s32[] get-tuple-element(p), index=1  one = s32[] constant(1)  j = s32[] add(i, one)
      v = f32[8] get-tuple-element(p), index=2  w = f32[8] sine(v)  ROOT t = (s32[], s32[], f32[8]) tuple(j, k, w) }}
    ENTRY e {{ z = s32[] constant(0)  m = s32[] parameter(0)  x = f32[8] parameter(1)
      t = (s32[], s32[], f32[8]) tuple(z, m, x)
      ROOT w = (s32[], s32[], f32[8]) while(t), condition=cond, body=body }}"""


def test_transcendental_functions_of_one_number_count_one_by_one() -> None:
    one, many = estimate(chain("sine", 1)), estimate(chain("sine", 300))
    assert 200 * one < many < 400 * one
    assert estimate(chain("sine", 300), lanes=8) == many  # one number fills no vector
    assert many > 20 * estimate(chain("negate", 299))
    assert not takes_less(optimized(chain("sine", 300)), 1000)


def test_vectors_take_as_long_as_one_number() -> None:
    text = chain("sine", 10, "f32[8]")
    assert estimate(text, lanes=8) == estimate(chain("sine", 10), lanes=8)
    assert estimate(text) == pytest.approx(8 * estimate(text, lanes=8), rel=0.2)


def test_what_is_applied_counts_as_often_as_it_is() -> None:
    reduced = """ENTRY e {{ x = f32[{0}] parameter(0)  z = f32[] constant(0)
      ROOT r = f32[] reduce(x, z), dimensions={{0}}, to_apply=add }}"""
    few, many = (estimate(ADD + reduced.format(n)) for n in (100, 1000))
    assert many == pytest.approx(10 * few, rel=0.25)
    assert estimate(ADD + reduced.format(1000), lanes=8) < many / 6


def test_a_sort_compares_one_by_one() -> None:
    text = """less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] compare(a, b), direction=LT }
    ENTRY e { x = f32[64] parameter(0)  ROOT s = f32[64] sort(x), dimensions={0}, to_apply=less }"""
    assert estimate(text, lanes=8) > estimate(text) * 0.7


def test_a_loop_takes_as_long_as_its_rounds() -> None:
    few, many = estimate(loop("constant(100)")), estimate(loop("constant(1000)"))
    assert many == pytest.approx(10 * few, rel=0.25)


def test_a_loop_of_unknown_length_is_taken_for_a_long_one() -> None:
    unknown, known = estimate(loop("add(k, c)")), estimate(loop(f"constant({UNKNOWN_TRIPS})"))
    assert unknown == pytest.approx(known, rel=0.5)


def test_operands_count_as_a_whole() -> None:
    text = "ENTRY e {{ x = f32[{0}] parameter(0)  ROOT s = f32[8] slice(x), slice={{[0:8]}} }}"
    assert takes_less(optimized(text.format(16)), 100) and not takes_less(optimized(text.format(100_000)), 100)


def test_nothing_takes_less_than_no_time() -> None:
    assert not takes_less(optimized("ENTRY e { x = f32[8] parameter(0)  ROOT n = f32[8] negate(x) }"), 0)
    nothing = optimized("ENTRY e { ROOT t = () tuple() }")
    assert takes_less(nothing, 1) and not takes_less(nothing, 0)


def test_the_count_ends_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"HloModule m\n{chain('sine', 400)}"
    module = optimized_for_cpu(xjit.parse_hlo(text), CompileOptions(fusion=False))
    asked: list[HloInstruction] = []

    def count(instruction: HloInstruction) -> tuple[float, float]:
        asked.append(instruction)
        return 0, 1

    monkeypatch.setattr("xjit.passes.analysis.unoptimized_time.own_operations", count)
    assert not takes_less(module, 200) and 5 < len(asked) < 20
    assert takes_less(module, 20_000) and len(asked) > 400
