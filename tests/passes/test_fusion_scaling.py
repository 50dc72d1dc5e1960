"""Fusion takes time in proportion to the program: Python calls per instruction, which no other process disturbs."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.support.call_counts import calls_of
from xjit.hlo import HloModule
from xjit.passes import PASSES, make_pass
from xjit.text.parser import parse_hlo

SIZES = (500, 2000)
FUSION = ("instruction-fusion", "row-fusion", "dot-epilogue-fusion", "multi-output-fusion{min_bytes=1}")
Lines = list[str]


def chain(size: int) -> Lines:
    lines = ["v0 = f32[8,64] parameter(0)"]
    return lines + [f"v{i} = f32[8,64] {('tanh', 'negate', 'abs')[i % 3]}(v{i - 1})" for i in range(1, size)]


def diamonds(size: int) -> Lines:
    lines = ["v0 = f32[8,64] parameter(0)"]
    for i in range(1, size // 3):
        lines += [
            f"a{i} = f32[8,64] negate(v{i - 1})",
            f"b{i} = f32[8,64] tanh(v{i - 1})",
            f"v{i} = f32[8,64] add(a{i}, b{i})",
        ]
    return lines


def normalizations(size: int) -> Lines:
    lines = ["v0 = f32[8,64] parameter(0)", "z = f32[] constant(0)"]
    for i in range(1, size // 4):
        lines += [
            f"r{i} = f32[8] reduce(v{i - 1}, z), dimensions={{1}}, to_apply=sum",
            f"s{i} = f32[8,64] broadcast(r{i}), dimensions={{0}}",
            f"d{i} = f32[8,64] subtract(v{i - 1}, s{i})",
            f"v{i} = f32[8,64] exponential(d{i})",
        ]
    return lines


def siblings(size: int) -> Lines:
    lines = ["v0 = f32[8,64] parameter(0)"]
    lines += [f"v{i} = f32[8,64] {('tanh', 'negate')[i % 2]}(v0)" for i in range(1, size)]
    return [*lines, _tuple("f32[8,64]", [f"v{i}" for i in range(1, size)])]


def reductions(size: int) -> Lines:
    lines = ["v0 = f32[8,64] parameter(0)", "z = f32[] constant(0)"]
    for i in range(size // 2):
        lines += [
            f"m{i} = f32[8,64] {('tanh', 'negate')[i % 2]}(v0)",
            f"r{i} = f32[8] reduce(m{i}, z), dimensions={{1}}, to_apply=sum",
        ]
    return [*lines, _tuple("f32[8]", [f"r{i}" for i in range(size // 2)])]


def mixed(size: int) -> Lines:
    rng = random.Random(1)
    lines = ["v0 = f32[8,64] parameter(0)", "z = f32[] constant(0)"]
    for i in range(1, size // 2):
        near, far = f"v{rng.randrange(max(0, i - 6), i)}", f"v{rng.randrange(max(0, i - 20), i)}"
        first, second = rng.choice(
            [
                (
                    f"f32[8] reduce({near}, z), dimensions={{1}}, to_apply=sum",
                    f"f32[8,64] broadcast(u{i}), dimensions={{0}}",
                ),
                (f"f32[64,8] transpose({near}), dimensions={{1,0}}", f"f32[8,64] reshape(u{i})"),
                (f"f32[8,64] exponential({near})", f"f32[8,64] multiply(u{i}, {far})"),
                (f"f32[8,64] negate({near})", f"f32[8,64] add(u{i}, {far})"),
            ]
        )
        lines += [f"u{i} = {first}", f"v{i} = {second}"]
    return lines


def _tuple(shape: str, names: list[str]) -> str:
    return f"t = ({', '.join([shape] * len(names))}) tuple({', '.join(names)})"


def module_of(lines: Lines) -> HloModule:
    """The module whose entry is these lines, the last of them its root."""
    reducer = "sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }"
    return parse_hlo("\n".join(["HloModule m", reducer, "ENTRY e {", *lines[:-1], f"ROOT {lines[-1]}", "}"]))


@pytest.mark.parametrize("program", [chain, diamonds, normalizations, siblings, reductions, mixed])
def test_calls_per_instruction_do_not_grow(program: Callable[[int], Lines]) -> None:
    per_pass: dict[str, list[float]] = {}
    for size in SIZES:
        module = module_of(program(size))
        for name in FUSION:
            item = make_pass(PASSES, name)
            count = calls_of(lambda item=item, module=module: item.run(module))
            per_pass.setdefault(name, []).append(count / size)
    for name, (small, large) in per_pass.items():
        assert large < 1.15 * small + 5, f"{name}: {small:.0f} calls per instruction, then {large:.0f}"
