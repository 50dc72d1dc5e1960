"""Index arithmetic stays out of innermost loops: no integer division in their blocks, before any LLVM optimisation."""

from __future__ import annotations

import re

import numpy as np
import pytest

import xjit
from tests.support.kernels import LAYOUTS, random_inputs
from xjit.text.parser import parse_hlo

DIVISION = re.compile(r"= (udiv|urem|sdiv|srem) ")
Graph = dict[str, list[str]]


def functions(ir: str) -> list[str]:
    """Returns the bodies of all function definitions."""
    return re.findall(r"^define [^\n]*\{\n(.*?)^\}", ir, re.M | re.S)


def blocks(body: str) -> dict[str, list[str]]:
    """Returns label -> instructions."""
    found: dict[str, list[str]] = {}
    label = "entry"
    for line in body.splitlines():
        head = re.match(r'^("?[\w.$-]+"?):', line)
        if head:
            label = head[1]
        elif line.strip():
            found.setdefault(label, []).append(line.strip())
    return found


def edges(code: dict[str, list[str]]) -> Graph:
    """Returns label -> labels it may branch to."""
    return {name: re.findall(r'label %("?[\w.$-]+"?)', lines[-1]) for name, lines in code.items()}


def reachable(graph: Graph, start: str) -> set[str]:
    seen: set[str] = set()
    stack = list(graph.get(start, ()))
    while stack:
        node = stack.pop()
        if node in graph and node not in seen:
            seen.add(node)
            stack.extend(graph[node])
    return seen


def loops(graph: Graph) -> list[set[str]]:
    """Returns the strongly connected components that are cycles."""
    reach = {n: reachable(graph, n) for n in graph}
    left = {n for n in graph if n in reach[n]}
    found: list[set[str]] = []
    while left:
        node = next(iter(left))
        component = {n for n in left if n in reach[node] and node in reach[n]}
        found.append(component)
        left -= component
    return found


def innermost(graph: Graph) -> list[set[str]]:
    """Returns the loops that contain no loop."""
    found: list[set[str]] = []
    work = loops(graph)
    while work:
        loop = work.pop()
        entries = {t for n, targets in graph.items() if n not in loop for t in targets if t in loop} or {min(loop)}
        inside = {n: [t for t in graph[n] if t in loop and t not in entries] for n in loop - entries}
        nested = loops(inside)
        if nested:
            work += nested
        else:
            found.append(loop)
    return found


def divisions(text: str, **options: object) -> tuple[list[str], int]:
    """Returns the divisions in innermost loops, and how many such loops there are."""
    ir = xjit.compile(text, options=LAYOUTS).as_text("llvm")
    bad: list[str] = []
    count = 0
    for body in functions(ir):
        code = blocks(body)
        for loop in innermost(edges(code)):
            count += 1
            bad += [line for name in loop for line in code[name] if DIVISION.search(line)]
    return bad, count


MODULES = {
    "reshape, transpose, broadcast": """
      x = f32[24,64] parameter(0)
      v = f32[96] parameter(1)
      r = f32[16,96] reshape(x)
      t = f32[96,16] transpose(r), dimensions={1,0}
      b = f32[96,16] broadcast(v), dimensions={0}
      ROOT a = f32[96,16] add(t, b)""",
    "uneven reshape": """
      x = f32[15,14] parameter(0)
      r = f32[21,10] reshape(x)
      t = f32[10,21] transpose(r), dimensions={1,0}
      ROOT n = f32[10,21] negate(t)""",
    "strided slice": """
      x = f32[40,50] parameter(0)
      s = f32[13,16] slice(x), slice={[1:40:3], [2:50:3]}
      ROOT n = f32[13,16] negate(s)""",
    "pad": """
      x = f32[10,20] parameter(0)
      c = f32[] constant(1)
      p = f32[15,29] pad(x, c), padding=2_3x4_5
      ROOT n = f32[15,29] negate(p)""",
    "interior pad": """
      x = f32[10,20] parameter(0)
      c = f32[] constant(1)
      p = f32[24,47] pad(x, c), padding=2_3_1x4_4_1
      ROOT n = f32[24,47] negate(p)""",
    "copy to tiles": """
      x = f32[32,256] parameter(0)
      ROOT c = f32[32,256]{1,0:T(8,128)} copy(x)""",
    "copy to tiles that do not divide": """
      x = f32[13,200] parameter(0)
      ROOT c = f32[13,200]{1,0:T(8,128)} copy(x)""",
    "copy from repeated tiles": """
      x = f32[16,256]{1,0:T(8,128)(2,1)} parameter(0)
      ROOT c = f32[16,256] copy(x)""",
    "tiled operand and result": """
      x = f32[16,256]{1,0:T(8,128)} parameter(0)
      y = f32[16,256] parameter(1)
      ROOT a = f32[16,256]{1,0:T(8,128)} add(x, y)""",
    "concatenate": """
      x = f32[5,20] parameter(0)
      y = f32[7,20] parameter(1)
      c = f32[12,20] concatenate(x, y), dimensions={0}
      ROOT n = f32[12,20] negate(c)""",
}


@pytest.mark.padded
@pytest.mark.parametrize("name", MODULES)
def test_no_division(name: str) -> None:
    text = f"HloModule m\nENTRY e {{{MODULES[name]}\n}}"
    bad, count = divisions(text)
    assert count and not bad
    module = parse_hlo(text)
    inputs = random_inputs(module)
    np.testing.assert_array_equal(xjit.compile(module, options=LAYOUTS)(*inputs), xjit.evaluate(module, *inputs))


def test_the_check_sees_divisions() -> None:
    body = "entry:\n br label %a\na:\n br label %b\nb:\n %x = udiv i64 %y, 3\n br i1 %c, label %b, label %d\nd:\n br i1 %e, label %a, label %f\nf:\n ret void"
    code = blocks(body)
    assert innermost(edges(code)) == [{"b"}]
    assert [line for line in code["b"] if DIVISION.search(line)]
