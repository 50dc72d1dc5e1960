"""HloModule.hash: the same in every process, blind to names, ids and order, and to nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from xjit.hlo.compare.equality import structural_equal
from xjit.text.parser import parse_hlo

TEXT = """HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY e {
  x = f32[2,3] parameter(0)
  zero = f32[] constant(0)
  r = f32[2] reduce(x, zero), dimensions={1}, to_apply=add
  c = f32[2] custom-call(r), custom_call_target="f", backend_config={"a":1,"b":2}
  n = f32[2] negate(r)
  ROOT t = f32[2] subtract(c, n)
}"""


def test_names_ids_and_order_do_not_count() -> None:
    lines = (
        TEXT.replace("add {", "sum {").replace("to_apply=add", "to_apply=sum").replace("zero", "nothing").split("\n")
    )
    lines[3], lines[4] = lines[4], lines[3]  # the constant first
    lines[6], lines[7] = lines[7], lines[6]
    module = parse_hlo(
        "\n".join(lines).replace('{"a":1,"b":2}', '{"b": 2, "a": 1}').replace(" n =", " q =").replace("c, n", "c, q")
    )
    module.new_unique_instruction_id()
    assert module.hash() == parse_hlo(TEXT).hash()
    assert 0 <= module.hash() < 2**64
    assert structural_equal(module, parse_hlo(TEXT))
    clone = module.clone()
    assert clone.hash() == module.hash()


def test_order_of_computations_does_not_count() -> None:
    extra = "more { a = f32[] parameter(0)  ROOT b = f32[] abs(a) }\n"
    first = parse_hlo(TEXT.replace("add {", extra + "add {"))
    second = parse_hlo(TEXT.replace("ENTRY", extra + "ENTRY"))
    assert first.hash() == second.hash() != parse_hlo(TEXT).hash()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ROOT s = f32[] add", "ROOT s = f32[] multiply"),
        ("constant(0)", "constant(1)"),
        ("constant(0)", "constant(-0)"),
        ("subtract(c, n)", "subtract(n, c)"),
        ("f32[2,3] parameter", "f32[2,3]{0,1} parameter"),
        ('"b":2', '"b":3'),
        ('target="f"', 'target="g"'),
        ("negate(r)", "negate(r), sharding={replicated}"),
        ("subtract(c, n)", "subtract(c, n), control-predecessors={zero}"),
        ("ROOT t", "dead = f32[2] abs(n)\n  ROOT t"),
    ],
)
def test_everything_else_counts(old: str, new: str) -> None:
    assert old in TEXT
    assert parse_hlo(TEXT.replace(old, new)).hash() != parse_hlo(TEXT).hash()


def test_sharing_counts() -> None:
    shared = "HloModule m\nENTRY e { x = f32[] parameter(0)  a = f32[] abs(x)  ROOT r = f32[] add(a, a) }"
    twice = shared.replace("a = f32[] abs(x)", "a = f32[] abs(x)\n b = f32[] abs(x)\n").replace("(a, a)", "(a, b)")
    assert parse_hlo(shared).hash() != parse_hlo(twice).hash()


def test_stable_across_processes() -> None:
    code = f"from xjit.text.parser import parse_hlo; print(parse_hlo({TEXT!r}).hash())"
    root = Path(__file__).parents[2]
    found = set()
    for seed in ("1", "2"):
        environment = {"PYTHONHASHSEED": seed, "PATH": ""}
        result = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=True, env=environment
        )
        found.add(int(result.stdout))
    assert found == {parse_hlo(TEXT).hash()}
