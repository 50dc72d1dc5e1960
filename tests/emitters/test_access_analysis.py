"""Access analysis: the offsets that one element of a graph reads, without emitting it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.support.kernels import view_of
from xjit.affine import AffineExpr, Interval, constant, dim
from xjit.emitters.access.access_analysis import AccessAnalysis, Accesses, MapCache, apply_map, map_conditions
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.variables import VariableTable
from xjit.text.parser import parse_hlo


class Case:
    """A module's root with one loop variable per dimension of its result: d0, d1, ..."""

    def __init__(self, text: str) -> None:
        self.view: KernelView = view_of(parse_hlo(text).entry_computation.root_instruction)
        self.table = VariableTable()
        self.index = tuple(dim(self.table.new_variable(n)) for n in self.view.result_shapes[0].dimensions)
        leaves = {leaf: leaf.shape for leaf in self.view.leaves}
        self.analysis = AccessAnalysis(self.table, leaves, MapCache())

    def collect(self) -> Accesses:
        return self.analysis.collect(self.view.roots[0], self.index)


def instruction(result: str, call: str, *parameters: str) -> str:
    lines = "\n".join(f"  p{i} = {shape} parameter({i})" for i, shape in enumerate(parameters))
    return f"ENTRY e {{\n{lines}\n  ROOT r = {result} {call}\n}}\n"


def fusion(result: str, body: str, *parameters: str) -> str:
    lines = "\n".join(f"  p{i} = {shape} parameter({i})" for i, shape in enumerate(parameters))
    names = ", ".join(f"p{i}" for i in range(len(parameters)))
    return f"""sum {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}}
fused {{
{lines}
{body}
}}
ENTRY e {{
{lines}
  ROOT r = {result} fusion({names}), kind=kLoop, calls=fused
}}
"""


OFFSETS: list[tuple[str, Callable[..., list[AffineExpr]]]] = [
    (instruction("f32[3,4]", "negate(p0)", "f32[3,4]"), lambda i, j: [i * 4 + j]),
    (instruction("f32[3,4]", "negate(p0)", "f32[3,4]{0,1}"), lambda i, j: [j * 3 + i]),
    (instruction("f32[4,3]", "transpose(p0), dimensions={1,0}", "f32[3,4]"), lambda i, j: [j * 4 + i]),
    (instruction("f32[3,4]", "broadcast(p0), dimensions={1}", "f32[4]"), lambda i, j: [j]),
    (instruction("f32[3,4]", "reverse(p0), dimensions={1}", "f32[3,4]"), lambda i, j: [i * 4 - j + 3]),
    (instruction("f32[2,2]", "slice(p0), slice={[1:3],[0:4:2]}", "f32[3,4]"), lambda i, j: [i * 4 + j * 2 + 4]),
    (instruction("f32[6,2]", "reshape(p0)", "f32[3,4]"), lambda i, j: [i * 2 + j]),
    (instruction("f32[3,4]", "subtract(p0, p1)", "f32[3,4]", "f32[3,4]{0,1}"), lambda i, j: [i * 4 + j, j * 3 + i]),
    (instruction("f32[]", "negate(p0)", "f32[]"), lambda: [constant(0)]),
    (instruction("f32[3,4]", "negate(p0)", "f32[3,4]{1,0:T(2,2)}"),
     lambda i, j: [i.floordiv(2) * 8 + i.mod(2) * 2 + j.floordiv(2) * 4 + j.mod(2)]),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(OFFSETS)))
def test_offsets(number: int) -> None:
    text, expected = OFFSETS[number]
    case = Case(text)
    wanted = {case.table.simplify(e) for e in expected(*case.index)}
    found = case.collect()
    assert set(found.offsets) == wanted
    assert sum(found.loads.values()) == len(expected(*case.index)) and found.operations == 1


def test_every_element_is_visited_once() -> None:
    """An instruction that two others use at one index counts once, at two indices twice."""
    case = Case(
        fusion(
            "f32[8,8]",
            """  s = f32[8,8] add(p0, p0)
  a = f32[8,8] negate(s)
  b = f32[8,8] multiply(a, s)
  t = f32[8,8] transpose(s), dimensions={1,0}
  ROOT r = f32[8,8] subtract(b, t)""",
            "f32[8,8]",
        )
    )
    found = case.collect()
    i, j = case.index
    assert sorted(map(str, found.offsets)) == sorted(map(str, (i * 8 + j, j * 8 + i)))
    assert (sum(found.loads.values()), found.operations) == (2, 6)


def test_long_diamonds_and_chains() -> None:
    """Neither depth nor the number of paths costs anything."""
    depth = 5000
    steps = "\n".join(
        f"  a{i + 1} = f32[8] add({f'a{i}' if i else 'p0'}, {f'a{i}' if i else 'p0'})" for i in range(depth)
    )
    found = Case(fusion("f32[8]", f"{steps}\n  ROOT r = f32[8] negate(a{depth})", "f32[8]")).collect()
    assert (sum(found.loads.values()), found.operations) == (1, depth + 1)


def test_iotas_and_conditions_are_index_work_too() -> None:
    case = Case(
        fusion(
            "s32[3,9]",
            """  i = s32[3,9] iota(), iota_dimension=1
  z = s32[] constant(0)
  p = s32[3,9] pad(p0, z), padding=0_0x2_3
  ROOT r = s32[3,9] add(i, p)""",
            "s32[3,4]",
        )
    )
    found = case.collect()
    _, j = case.index
    assert j in found.others, "the value of the iota"
    assert found.conditional, "the pad reads its operand only where it is"
    assert not Case(instruction("f32[3]", "negate(p0)", "f32[3]")).collect().conditional


def test_conditions_of_maps() -> None:
    """A pad's operand is needed inside; what a map says everywhere is no condition."""
    case = Case(instruction("f32[9,4]", "pad(p0, p1), padding=2_3x0_0", "f32[4,4]", "f32[]"))
    operand, padding = (maps[0] for maps in case.analysis.maps.of(case.view.roots[0]))
    assert map_conditions(operand, (9, 4), case.index) == [(case.index[0], Interval(2, 5))]
    assert apply_map(case.table, operand, case.index) == (case.index[0] - 2, case.index[1])
    assert not map_conditions(padding, (9, 4), case.index) and apply_map(case.table, padding, case.index) == ()


def test_identities_are_recognised() -> None:
    case = Case(instruction("f32[9,4]", "subtract(p0, p1)", "f32[9,4]", "f32[9,4]"))
    maps = case.analysis.maps.of(case.view.roots[0])
    assert all(m.is_identity and not m.has_conditions for (m,) in maps)
    assert case.analysis.maps.of(case.view.roots[0]) is maps, "computed once"
    turned = Case(instruction("f32[4,4]", "transpose(p0), dimensions={1,0}", "f32[4,4]"))
    assert not turned.analysis.maps.of(turned.view.roots[0])[0][0].is_identity


def reduction(dimensions: str, result: str, layout: str = "{2,1,0}") -> Case:
    return Case(
        fusion(
            f"f32[{result}]",
            f"""  z = f32[] constant(0)
  n = f32[5,6,7]{layout} negate(p0)
  ROOT r = f32[{result}] reduce(n, z), dimensions={{{dimensions}}}, to_apply=sum""",
            f"f32[5,6,7]{layout}",
        )
    )


@pytest.mark.parametrize(
    ("dimensions", "result", "layout", "contiguous"),
    [
        ("2", "5,6", "{2,1,0}", 0),
        ("1", "5,7", "{2,1,0}", None),
        ("0,2", "6", "{2,1,0}", 1),
        ("0,1", "7", "{2,1,0}", None),
        ("0", "6,7", "{0,1,2}", 0),
        ("2", "5,6", "{0,1,2}", None),
    ],
)
def test_reductions_along_rows(dimensions: str, result: str, layout: str, contiguous: int | None) -> None:
    """Which range variable walks through contiguous memory decides how a reduction is emitted."""
    case = reduction(dimensions, result, layout)
    reduce = case.view.roots[0]
    assert case.analysis.contiguous_range(reduce, case.index) == contiguous
    rows = case.collect().row_reductions
    assert rows == ([(reduce, case.index)] if contiguous is not None else [])


@pytest.mark.parametrize("terms", ["first, second", "second, first"])
def test_reductions_come_before_what_they_need(terms: str) -> None:
    """The second sum needs the first, and so does what needs both, in either order of its operands."""
    case = Case(
        fusion(
            "f32[4]",
            f"""  z = f32[] constant(0)
  first = f32[4] reduce(p0, z), dimensions={{1}}, to_apply=sum
  c = f32[4,8] broadcast(first), dimensions={{0}}
  d = f32[4,8] subtract(p0, c)
  second = f32[4] reduce(d, z), dimensions={{1}}, to_apply=sum
  ROOT r = f32[4] add({terms})""",
            "f32[4,8]",
        )
    )
    found = case.collect()
    assert [i.name for i, _ in found.reductions] == [i.name for i, _ in found.row_reductions] == ["second", "first"]


def test_what_is_broadcast_does_not_make_a_row() -> None:
    """Sums of columns of a matrix whose rows are scaled: the scales lie along the reduced dimension."""
    case = Case(
        fusion(
            "f32[24]",
            """  z = f32[] constant(0)
  s = f32[8,24] broadcast(p1), dimensions={0}
  x = f32[8,24] multiply(p0, s)
  ROOT r = f32[24] reduce(x, z), dimensions={0}, to_apply=sum""",
            "f32[8,24]",
            "f32[8]",
        )
    )
    assert case.analysis.contiguous_range(case.view.roots[0], case.index) is None


def test_range_variables_are_the_same_at_every_request() -> None:
    """Otherwise every request would be a new element, and equal accesses would not be equal."""
    case = reduction("2", "5,6")
    operand = case.analysis.maps.of(case.view.roots[0])[0][0]
    first = case.analysis.range_variables(case.view.roots[0], operand.indexing)
    assert case.analysis.range_variables(case.view.roots[0], operand.indexing) == first
    assert [case.table.interval(e) for e in first] == [Interval(0, 6)]
    assert case.collect().offsets == case.collect().offsets
    (offset,) = case.analysis.reduced_accesses(case.view.roots[0], case.index).offsets
    assert offset is case.table.simplify(case.index[0] * 42 + case.index[1] * 7 + first[0])


def test_indices_known_at_run_time_are_accesses_too() -> None:
    """The start of a dynamic slice is read; it stands for a variable within feasible bounds."""
    case = Case(instruction("f32[4]", "dynamic-slice(p0, p1), dynamic_slice_sizes={4}", "f32[20]", "s32[]"))
    found = case.collect()
    assert sum(found.loads.values()) == 2 and constant(0) in found.offsets
    (offset,) = (e for e in found.offsets if not e.is_constant)
    assert case.table.interval(offset) == Interval(0, 19)


def test_one_element_of_many_results() -> None:
    """A root of several results: what each reads, at the same index."""
    case = Case(
        fusion(
            "(f32[4], f32[4])",
            "  n = f32[4] negate(p0)\n  m = f32[4] negate(p1)\n  ROOT r = (f32[4], f32[4]) tuple(n, m)",
            "f32[4]",
            "f32[4]",
        )
    )
    assert [len(case.analysis.collect(root, case.index).offsets) for root in case.view.roots] == [1, 1]
    assert np.prod([s.num_elements for s in case.view.result_shapes]) == 16
