"""Instances of rules on instructions that are not elementwise, near misses among them, by the rules' ids."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.algebra_modules import moves, reducer
from tests.support.algebra_movement import MOVEMENT
from tests.support.algebra_placement import PLACEMENT
from tests.support.algebra_reductions import REDUCTIONS

_COLLECTIVES: dict[str, tuple[str, ...]] = {
    "N40": moves(*(
        f"c = T[] constant(1) b = T[2,4] broadcast(c), dimensions={{}} ROOT r = T[{shape}] {opcode}(b), "
        "dimensions={0}, replica_groups={{0,1}}" for opcode, shape in (("all-gather", "4,4"), ("all-to-all", "2,4"))
    )),
    "N41": tuple(
        f"{reducer(opcode)}ENTRY e {{ c = T[] constant(3) b = T[4] broadcast(c), dimensions={{}} "
        "ROOT r = T[2] reduce-scatter(b), to_apply=f, replica_groups={{0,1}}, dimensions={0} }"
        for opcode in ("add", "maximum")
    ) + tuple(
        f"{reducer(opcode)}ENTRY e {{ c = T[] constant(3) b = T[2] broadcast(c), dimensions={{}} "
        f"ROOT r = T[2] all-reduce(b), to_apply=f, replica_groups={groups} }}"
        for opcode in ("add", "multiply", "maximum", "subtract") for groups in ("{{0,1,2}}", "{{0,1},{2}}", "{}")
    ),
}  # fmt: skip

_LESS = "f { a = T[] parameter(0) b = T[] parameter(1) ROOT c = pred[] compare(a, b), direction="

_PAIR = ("f { a = T[] parameter(0) b = T[] parameter(1) c = s32[] parameter(2) d = s32[] parameter(3) "
         "ROOT r = pred[] compare(a, b), direction=LT } ")  # fmt: skip

_BRANCH = "{} {{ a = T[2] parameter(0) ROOT b = T[2] {} }} "

_CHOICE = ("ENTRY e { p = pred[] parameter(0) x = T[2] parameter(1) y = T[2] parameter(2) ROOT r = T[2] "
           "conditional(p, x, %s), true_computation=f, false_computation=g }")  # fmt: skip

_CONTROL: dict[str, tuple[str, ...]] = {
    "R165": (
        f"{_LESS}LT }} ENTRY e {{ x = T[3,0] parameter(0) ROOT s = T[3,0] sort(x), dimensions={{0}}, to_apply=f }}",
        f"{_LESS}LT }} ENTRY e {{ x = T[1,3] parameter(0) ROOT s = T[1,3] sort(x), dimensions={{0}}, to_apply=f }}",
        f"{_LESS}LT }} ENTRY e {{ x = T[2,3] parameter(0) ROOT s = T[2,3] sort(x), dimensions={{0}}, to_apply=f }}",
        f"{_PAIR} ENTRY e {{ x = T[1] parameter(0) y = s32[1] parameter(1) "
        "ROOT s = (T[1], s32[1]) sort(x, y), dimensions={0}, to_apply=f }",
    ),
    "R165b": tuple(
        f"{_LESS}{direction} }} ENTRY e {{ x = T[9] parameter(0) s = T[9] sort(x), dimensions={{0}}, to_apply=f "
        "ROOT t = T[9] sort(s), dimensions={0}, to_apply=f }" for direction in ("LT", "GT", "LE", "LT, type=TOTALORDER")
    ),
    "R166": moves("x = T[2] parameter(0) y = T[3] parameter(1) t = (T[2], T[3]) tuple(x, y) "
                   "ROOT r = T[3] get-tuple-element(t), index=1"),
    "R167": moves("x = T[2] parameter(0) t = token[] after-all() ROOT r = T[2] add-dependency(x, t)"),
    "R168": tuple(
        _BRANCH.format("f", "copy(a)") + _BRANCH.format("g", other) + _CHOICE % operand
        for other in ("copy(a)", "reverse(a), dimensions={0}") for operand in "xy"
    ),
}  # fmt: skip

STRUCTURES: Mapping[str, tuple[str, ...]] = {**MOVEMENT, **PLACEMENT, **REDUCTIONS, **_COLLECTIVES, **_CONTROL}
