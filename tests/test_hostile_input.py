"""Wrong and hostile input: a clear HloError with a place, soon, and never a crash, a hang or a huge allocation.

Cases that could take the process down run in one of their own, with little memory and a deadline.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import xjit
from xjit.hlo.diagnostics import InvalidArgument

ROOT = Path(__file__).parent.parent
F32 = np.float32
SECONDS = 60

PRELUDE = f"""
import resource, sys, time, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, {str(ROOT)!r})
import numpy as np, xjit
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
ENTRY = "HloModule m\\nENTRY e {{\\n"
def attempt(text, *arguments):
    start = time.process_time()
    try:
        result = xjit.compile(text)(*arguments)
        print("ok", np.asarray(result).reshape(-1)[:1])
    except xjit.HloError as error:
        print("HloError", time.process_time() - start, error.line, str(error).replace(chr(10), " | "))
"""


def run_alone(script: str) -> list[str]:
    """Runs a script that calls `attempt`; returns what it printed, in words."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + script], capture_output=True, text=True, timeout=SECONDS, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.split()


def fails(script: str, *words: str, seconds: float = 5.0, located: bool = True) -> None:
    """Asserts that the script's attempt ends in an HloError with these words, and a line number, soon."""
    output = run_alone(script)
    assert output[0] == "HloError", output
    assert float(output[1]) < seconds
    assert output[2].isdigit() or not located, "no line"
    for word in words:
        assert word in " ".join(output)


def entry(body: str) -> str:
    """Returns a module of one computation."""
    return f"HloModule m\nENTRY e {{\n{body}\n}}\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("HloModule m\n", "expected a computation"),
        ("\n", "expected a computation"),
        ("HloModule m\nENTRY e {\n}\n", "no instructions"),
        (entry("p = f32[] parameter(0)\nROOT r = f32[] frobnicate(p)"), "unknown opcode 'frobnicate'"),
        (entry("p = f32[2] parameter(0)\nROOT r = f32[3] negate(p)"), "f32[3]"),
        (entry("p = f32[2] parameter(0)\nROOT r = s32[2] negate(p)"), "s32[2]"),
        (entry("p = f32[2] parameter(0)\nROOT r = f32[2] add(p)"), "add"),
        (entry("p = f32[2] parameter(0)\nROOT r = f32[2] add(p, q)"), "q"),
        (entry("p = f32[4] parameter(0)\nROOT r = f32[2] slice(p), slice={[-1:1]}"), "[-1:1]"),
        (entry("p = f32[4,4] parameter(0)\nROOT r = f32[4,4] transpose(p), dimensions={0,0}"), "permutation"),
        (entry("p = f32[4,4]{0,0} parameter(0)\nROOT r = f32[4,4] negate(p)"), "permutation"),
        (entry("p = f32[] parameter(1000000000000)\nROOT r = f32[] negate(p)"), "parameter 0"),
        (entry("p = f32[99999999999999999999999999] parameter(0)\nROOT r = f32[] constant(0)"), "64 bits"),
        (entry("p = f32[1000000,1000000,1000000,1000000] parameter(0)\nROOT r = f32[] constant(0)"), "10^24"),
        (entry("ROOT r = f32[1099511627776] constant({1, 2})"), "1099511627776"),
        (entry("ROOT p = " + "(" * 10_000 + "f32[]" + ")" * 10_000 + " parameter(0)"), "nested"),
    ],
)
def test_wrong_text_is_an_error_with_a_place(text: str, words: str) -> None:
    start = time.process_time()
    with pytest.raises(xjit.HloError) as caught:
        xjit.compile(text)
    assert words in str(caught.value)
    assert caught.value.line is not None
    assert time.process_time() - start < 2


def test_every_truncation_of_a_module_is_an_error() -> None:
    text = (
        "HloModule m\nadd { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
        "ENTRY e {\n  p = f32[3,4]{1,0} parameter(0)\n  z = f32[] constant(-1.5)\n"
        "  ROOT r = f32[3] reduce(p, z), dimensions={1}, to_apply=add\n}"
    )
    xjit.parse_hlo(text)
    for length in range(len(text)):
        if text[:length].rstrip().endswith("add(a, b) }"):
            continue  # a module of that one computation
        with pytest.raises(xjit.HloError):
            xjit.compile(text[:length] + "\n")


@pytest.mark.parametrize("call", ["f -> f", "f -> g, g -> f"])
def test_recursion_of_computations(call: str) -> None:
    bodies = "".join(
        f"{name} {{ p = f32[] parameter(0)\n ROOT c = f32[] call(p), to_apply={callee} }}\n"
        for name, callee in (pair.split(" -> ") for pair in call.split(", "))
    )
    text = f"HloModule m\n{bodies}ENTRY e {{ p = f32[] parameter(0)\n ROOT c = f32[] call(p), to_apply=f }}\n"
    with pytest.raises(xjit.HloError, match="recursively"):
        xjit.compile(text)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "expected 2 parameters"),
        ((np.zeros((2, 3), F32),), "expected 2 parameters"),
        ((np.zeros((2, 3), F32),) * 3, "got 3"),
        ((np.zeros((3, 2), F32), np.int32(1)), "f32[2,3]"),
        ((np.zeros((2, 3), np.float64), np.int32(1)), "f32[2,3]"),
        ((np.zeros((2, 3), F32), np.float32(1)), "s32[]"),
        ((np.zeros((2, 3), F32), "one"), "s32[]"),
        ((np.zeros((2, 3), F32), None), "s32[]"),
        ((np.zeros((2, 3), F32), 2**40), "s32[]"),
        ((np.zeros((2, 3), F32), 1.5), "s32[]"),
        (((np.zeros((2, 3), F32),), np.int32(1)), "f32[2,3]"),
        ((object(), np.int32(1)), "f32[2,3]"),
    ],
)
def test_wrong_arguments_of_a_call(arguments: tuple[object, ...], words: str) -> None:
    executable = xjit.compile(
        entry("p = f32[2,3] parameter(0)\ni = s32[] parameter(1)\nROOT t = (f32[2,3], s32[]) tuple(p, i)")
    )
    with pytest.raises(InvalidArgument) as caught:
        executable(*arguments)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        "p = f32[] parameter(0)\nROOT r = f32[1048576,1048576] broadcast(p), dimensions={}",
        "p = f32[] parameter(0)\ni = s32[1099511627776] iota(), iota_dimension=0\n"
        "ROOT t = (f32[], s32[1099511627776]) tuple(p, i)",
        "p = f32[] parameter(0)\nROOT r = f32[1000000000001] pad(b, p), padding=0_1000000000000\n".replace(
            "ROOT", "b = f32[1] reshape(p)\nROOT"
        ),
    ],
)
def test_results_larger_than_the_memory(body: str) -> None:
    fails(f"attempt({entry(body)!r}, np.float32(1))", "bytes", "this machine", located=False)


def test_huge_values_that_need_not_exist() -> None:
    body = "i = s32[1099511627776] iota(), iota_dimension=0\nROOT s = s32[1] slice(i), slice={[5:6]}"
    assert run_alone(f"attempt({entry(body)!r})") == ["ok", "[5]"]


@pytest.mark.parametrize("opcode", ["call", "while"])
def test_call_sites_that_double_at_every_level(opcode: str) -> None:
    run = "call({}), to_apply=f{}" if opcode == "call" else "while({}), condition=c, body=f{}"
    functions = "c { p = s32[] parameter(0)\n z = s32[] constant(5)\n ROOT r = pred[] compare(p, z), direction=LT }\n"
    functions += "f0 { p = s32[] parameter(0)\n ROOT r = s32[] negate(p) }\n"
    for i in range(1, 60):
        first, second = run.format("p", i - 1), run.format("a", i - 1)
        functions += f"f{i} {{ p = s32[] parameter(0)\n a = s32[] {first}\n ROOT b = s32[] {second} }}\n"
    text = f"HloModule m\n{functions}ENTRY e {{ p = s32[] parameter(0)\n ROOT r = s32[] {run.format('p', 59)} }}\n"
    fails(f"attempt({text!r}, np.int32(1))", "instructions", "limit")


def test_loops_nested_600_deep() -> None:
    functions = "b0 { p = s32[] parameter(0)\n o = s32[] constant(1)\n ROOT r = s32[] add(p, o) }\n"
    functions += "c { p = s32[] parameter(0)\n z = s32[] constant(5)\n ROOT r = pred[] compare(p, z), direction=LT }\n"
    for i in range(1, 600):
        functions += f"b{i} {{ p = s32[] parameter(0)\n ROOT r = s32[] while(p), condition=c, body=b{i - 1} }}\n"
    text = f"HloModule m\n{functions}ENTRY e {{ p = s32[] parameter(0)\n ROOT r = s32[] while(p), condition=c, body=b599 }}"
    assert run_alone(f"attempt({text!r}, np.int32(1))") == ["ok", "[5]"]


def test_chain_of_3000_elementwise_instructions() -> None:
    assert run_alone(_chain(3000)) == ["ok", "[-1.]"]


@pytest.mark.slow
def test_chain_of_100000_elementwise_instructions() -> None:
    assert run_alone(_chain(100_000)) == ["ok", "[-1.]"]


def _chain(length: int) -> str:
    return f"""
lines = ["a0 = f32[8] parameter(0)", "b = f32[8] parameter(1)"]
lines += [f"a{{i + 1}} = f32[8] {{('maximum', 'minimum')[i % 2]}}(a{{i}}, b)" for i in range({length})]
text = ENTRY + "\\n".join(lines) + "\\nROOT r = f32[8] negate(a{length})\\n}}"
attempt(text, np.zeros(8, np.float32), np.ones(8, np.float32))
"""


def test_shared_operands_do_not_multiply() -> None:
    """Every value is used twice by the next: 2^400 paths."""
    lines = ["a0 = f32[9,9] parameter(0)"]
    for i in range(400):
        lines.append(f"t{i} = f32[9,9] transpose(a{i}), dimensions={{1,0}}")
        lines.append(f"a{i + 1} = f32[9,9] maximum(a{i}, t{i})")
    text = entry("\n".join(lines) + "\nROOT r = f32[9,9] negate(a400)")
    assert run_alone(f"attempt({text!r}, np.ones((9, 9), np.float32))") == ["ok", "[-1.]"]


def test_forty_dimensions() -> None:
    dims = ",".join(["2"] * 6 + ["1"] * 34)
    back = ",".join(["1"] * 34 + ["2"] * 6)
    text = entry(
        f"p = f32[{dims}] parameter(0)\nr = f32[{dims}] reverse(p), dimensions={{0,1,2,3,4,5}}\n"
        f"ROOT t = f32[{back}] transpose(r), dimensions={{{','.join(map(str, reversed(range(40))))}}}"
    )
    x = np.arange(64, dtype=F32).reshape((2,) * 6 + (1,) * 34)
    expected = np.flip(x, range(6)).transpose(*reversed(range(40)))
    np.testing.assert_array_equal(xjit.compile(text)(x), expected)


def test_concatenation_of_500_operands() -> None:
    text = entry(f"p = f32[3] parameter(0)\nROOT r = f32[1500] concatenate({', '.join(['p'] * 500)}), dimensions={{0}}")
    x = np.array([1, 2, 3], F32)
    np.testing.assert_array_equal(xjit.compile(text)(x), np.tile(x, 500))


def test_tuple_of_3000_elements() -> None:
    text = entry(f"p = f32[] parameter(0)\nROOT t = ({', '.join(['f32[]'] * 3000)}) tuple({', '.join(['p'] * 3000)})")
    assert sum(float(x) for x in xjit.compile(text)(F32(1))) == 3000
