"""Which instruction of a kernel is its hero, and what is prologue and epilogue."""

from __future__ import annotations

import pytest

from tests.support.kernels import view_of
from xjit.emitters.kernels.view import KernelView
from xjit.text.parser import parse_hlo


def view(body: str, root: str = "f32[8,8]") -> KernelView:
    text = f"""
HloModule m
f {{
  x = f32[8,8] parameter(0)
  y = f32[8,8] parameter(1)
  {body}
}}
ENTRY e {{
  x = f32[8,8] parameter(0)
  y = f32[8,8] parameter(1)
  ROOT q = {root} fusion(x, y), kind=kLoop, calls=f
}}
"""
    if "to_apply" in body:
        text = text.replace("\nf {", "\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
                            "  ROOT c = f32[] add(a, b)\n}\nf {")  # fmt: skip
    return view_of(parse_hlo(text).entry_computation.root_instruction)


DOT = "d = f32[8,8] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"


@pytest.mark.parametrize(
    ("body", "root", "hero", "prologue", "epilogue"),
    [
        (f"ROOT {DOT}", "f32[8,8]", "d", [], []),
        ("ROOT r = f32[8,8] add(x, y)", "f32[8,8]", "r", [], []),
        (f"{DOT}\n n = f32[8,8] negate(d)\n ROOT r = f32[8,8] add(n, y)", "f32[8,8]", "d", [], ["n", "r"]),
        (f"{DOT}\n ROOT r = f32[64] bitcast(d)", "f32[64]", "d", [], ["r"]),
        (
            f"{DOT.replace('(x,', '(a,')}\n ROOT r = f32[8,8] add(y, d)".replace("d = ", "a = f32[8,8] negate(x)\n d = ", 1),
            "f32[8,8]", "d", ["a"], ["r"],
        ),
        ("t = f32[8,8] transpose(x), dimensions={1,0}\n ROOT r = f32[8,8] add(t, y)", "f32[8,8]", "t", [], ["r"]),
        (
            f"t = f32[8,8] transpose(x), dimensions={{1,0}}\n {DOT}\n ROOT r = f32[8,8] add(t, d)",
            "f32[8,8]", "d", [], ["t", "r"],
        ),
        (f"{DOT}\n ROOT t = f32[8,8] transpose(d), dimensions={{1,0}}", "f32[8,8]", "t", ["d"], []),
        (
            f"{DOT}\n n = f32[8,8] negate(y)\n ROOT r = (f32[8,8], f32[8,8]) tuple(n, d)",
            "(f32[8,8], f32[8,8])", "d", [], ["n"],
        ),
        (
            "z = f32[] constant(0)\n s = f32[8] reduce(x, z), dimensions={1}, to_apply=add\n"
            " ROOT r = f32[8] negate(s)",
            "f32[8]", "s", ["z"], ["r"],
        ),
        (
            "z = f32[] constant(0)\n s = f32[8] reduce(x, z), dimensions={1}, to_apply=add\n"
            " w = f32[8,8] broadcast(s), dimensions={0}\n ROOT r = f32[8,8] subtract(x, w)",
            "f32[8,8]", "r", ["z", "s", "w"], [],
        ),
    ],
    ids=[
        "alone", "elementwise", "epilogue", "bitcast", "prologue", "transpose", "dot beats transpose",
        "not through a transpose", "most demanding root", "reduction", "not through a broadcast",
    ],
)  # fmt: skip
def test_hero(body: str, root: str, hero: str, prologue: list[str], epilogue: list[str]) -> None:
    found = view(body, root)
    assert found.hero.name == hero
    assert [i.name for i in found.prologue] == prologue
    assert [i.name for i in found.epilogue] == epilogue


def test_of_equals_the_one_that_reads_most() -> None:
    small = "a = f32[1,8] slice(x), slice={[0:1], [0:8]}\n b = f32[1,8] slice(y), slice={[0:1], [0:8]}"
    other = "o = f32[8,8] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}"
    assert view(f"{small}\n {other}\n {DOT}\n ROOT r = f32[8,8] add(o, d)").hero.name == "d"


def test_a_leaf_is_no_hero() -> None:
    assert view("n = f32[8,8] negate(y)\n ROOT r = (f32[8,8], f32[8,8]) tuple(x, n)",
                "(f32[8,8], f32[8,8])").hero.name in ("x", "n")  # fmt: skip
