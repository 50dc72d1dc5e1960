"""Hostile texts: a module or a clear error in linear time; no crash, no RecursionError, no absurd allocation."""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Callable

import pytest

from tests.support.hlo_samples import sample_modules
from xjit.hlo import HloError, HloParseError
from xjit.text import create_from_proto, parse_hlo, to_proto

N = 10_000
HEAD = "HloModule m\nENTRY e {\n p = f32[4] parameter(0)\n"
NEG = " x = f32[4] negate(p), "

HOSTILE = {
    "nested tuples": HEAD + " x = " + "(" * N + "f32[]" + ")" * N + " parameter(1)\n}",
    "open tuples": HEAD + " x = " + "(" * N,
    "nested braces": HEAD + NEG + "metadata=" + "{" * N + "}" * N + "\n}",
    "open braces": HEAD + NEG + "backend_config=" + "{" * N,
    "nested brackets": HEAD + NEG + "sharding={devices=" + "[" * N + "]" * N + "}\n}",
    "nested constant": HEAD + " x = f32[4] constant(" + "{" * N + "1" + "}" * N + ")\n}",
    "nested tuple constant": HEAD + " x = (f32[4]) constant(" + "(" * N + "1" + ")" * N + ")\n}",
    "nested instructions": HEAD + " x = negate(" + "negate(" * N,
    "huge constant": HEAD + " x = f32[999999999999,999999999999] constant({1})\n}",
    "huge number": HEAD + " x = s32[] constant(" + "9" * N + ")\n}",
    "huge dimension": HEAD + " x = f32[" + "9" * N + "] parameter(1)\n}",
    "open comment": HEAD + "/* " * N,
    "open string": HEAD + NEG + 'backend_config="' + "\\" * (2 * N + 1),
    "half strings": HEAD + NEG + "frontend_attributes={" + 'a="' * N,
    "half groups": HEAD + NEG + "a" + "={" * N,
    "groups in strings": HEAD + NEG + "a" + '={x"' * (N + 1),
    "binary": "HloModule m\n" + bytes(range(256)).decode("latin1") * 40,
    "only openers": "({[" * N,
    "repeated attribute": HEAD + " x = f32[4] transpose(p)" + ", dimensions={0}" * N + "}",
    "window keys": HEAD + " x = f32[4] reduce-window(p, p), to_apply=e, window={" + "size=1 " * N + "}\n}",
    "frontend keys": HEAD + NEG + "frontend_attributes={" + "a," * N + "}\n}",
    "layout suffixes": HEAD + " x = f32[4]{0:" + "T(8)" * N + "} negate(p)\n}",
    "layout parentheses": HEAD + " x = f32[4]{0:" + "(" * N + "} negate(p)\n}",
    "undefined among many": HEAD + "".join(f" y{i} = f32[4] negate(p)\n" for i in range(N)) + " z = f32[4] abs(q) }",
}

ACCEPTED = {
    "long chain": HEAD + "".join(f" x{i + 1} = f32[4] negate({f'x{i}' if i else 'p'})\n" for i in range(3 * N)) + "}",
    "many dimensions": HEAD + " x = f32[" + "1," * N + "1] negate(p)\n}",
    "big shape": HEAD + " x = f32[999999999999,999999999999] broadcast(p), dimensions={0}\n}",
    "empty big array": HEAD + " x = f32[0,999999999999] constant({})\n}",
    "many parameters": HEAD + "".join(f" q{i} = f32[] parameter({N + 1 - i})\n" for i in range(1, N + 1)) + "}",
    "many operands": HEAD + " x = (" + "f32[4]," * N + "f32[4]) tuple(" + "p," * N + "p)\n}",
    "comments": HEAD + "/* */" * N + "}" + " // end" * N + "\n" * N,
    "slashes": HEAD + "}" + "/" * N,
    "nans": HEAD + f" x = f32[{N}] constant({{{','.join(['nan(0x1)'] * N)}}})\n}}",
    "many devices": HEAD + NEG + f"sharding={{devices=[{N}]{'0, ' * N}0}}\n}}",
    "many computations": "".join(f"c{i} {{ p = f32[] parameter(0) }}\n" for i in range(N // 2)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_a_clear_error(name: str) -> None:
    start = time.process_time()
    with pytest.raises(HloParseError) as caught:
        parse_hlo(HOSTILE[name])
    assert time.process_time() - start < 3
    assert caught.value.line is not None
    assert len(caught.value.message) < 500
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize("name", ACCEPTED)
def test_large_text_is_parsed_and_printed(name: str) -> None:
    start = time.process_time()
    module = parse_hlo(ACCEPTED[name])
    assert parse_hlo(str(module)).instruction_count == module.instruction_count
    assert time.process_time() - start < 10


def chain(length: int) -> str:
    return HEAD + "".join(f" x{i + 1} = f32[4] negate({f'x{i}' if i else 'p'})\n" for i in range(length)) + "}"


def spaces_in_a_sharding(length: int) -> str:
    spaces = " " * length
    return HEAD + f" x = f32[4] negate(p), sharding={{devices=[2{spaces}]{spaces}0{spaces},{spaces}1{spaces}}} }}"


@pytest.mark.parametrize("text", [chain, spaces_in_a_sharding])
def test_time_is_linear_in_the_length(text: Callable[[int], str]) -> None:
    def seconds(length: int) -> float:
        best = float("inf")
        for _ in range(3):
            start = time.process_time()
            parse_hlo(text(length))
            best = min(best, time.process_time() - start)
        return best

    assert seconds(16000) < 8 * seconds(4000) + 0.2


def test_huge_constants_are_refused_before_anything_is_allocated() -> None:
    tracemalloc.start()
    with pytest.raises(HloParseError, match="too short"):
        parse_hlo(HOSTILE["huge constant"])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000_000


def mutate(text: str, rng: random.Random) -> str:
    i, j = rng.randrange(len(text)), rng.randrange(len(text))
    return rng.choice(
        [
            text[:i],
            text[:i] + rng.choice("{}()[],=%\"<>:;*/\\ \n0a-'") + text[i + rng.randrange(2) :],
            text[:i] + text[j:],
            text[:i] + rng.randbytes(8).decode("latin1") + text[i:],
            text[:i] + text[min(len(text), i + rng.randrange(30)) :],
        ]
    )


def test_mutated_texts_never_crash() -> None:
    rng = random.Random(7)
    sources = list(sample_modules().values())
    parsed = 0
    for _ in range(600):
        text = mutate(rng.choice(sources), rng)
        try:
            module = parse_hlo(text)
        except HloParseError as error:
            assert error.line is not None
            str(error)
        else:
            parsed += 1
            str(module)
    assert parsed > 5


def test_mutated_protos_never_crash() -> None:
    rng = random.Random(7)
    sources = [to_proto(parse_hlo(text)) for text in sample_modules().values()]
    parsed = 0
    for _ in range(400):
        data = bytearray(rng.choice(sources))
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            module = create_from_proto(bytes(data[: rng.choice([len(data), rng.randrange(len(data))])]))
        except HloError as error:
            str(error)
        else:
            parsed += 1
            str(module)
    assert parsed > 5
