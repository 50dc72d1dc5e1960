"""Random schedules that mean something: every variable in scope, every tile filled, every kind of statement."""

from __future__ import annotations

import random

from xjit.affine import AffineExpr, Interval, constant, dim
from xjit.emitters.schedule.schedule import Cost, Schedule
from xjit.emitters.schedule.statements import (
    Combination,
    Combine,
    Init,
    Lanes,
    Let,
    Loop,
    Memory,
    Part,
    Reduce,
    Reduction,
    Rescale,
    Role,
    Stage,
    Statement,
    Store,
    Tile,
)

MAX_DEPTH = 4
NAMES = ("r", "x.1", "max_of-all", "y")


class RandomSchedules:
    """Makes schedules from a seed: the same seed gives the same schedules."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._bounds: list[Interval] = []

    def schedule(self) -> Schedule:
        """The next schedule."""
        pick, self._bounds = self._random, []
        lets = [Let(self._variable(), pick.choice(NAMES), (constant(0),)) for _ in range(pick.randrange(3))]
        scope = [let.variable for let in lets]
        parts = tuple(self._part(scope) for _ in range(pick.randint(1, 3)))
        cost = Cost(*(pick.randrange(1000) for _ in range(3)))
        suffix = pick.choice(("", ".0", ".base"))
        return Schedule("r", pick.choice(("loop", "copy")), tuple(self._bounds), parts, tuple(lets), suffix, cost)

    def _variable(self) -> int:
        lower = self._random.choice((0, 0, 0, 3, -2))
        self._bounds.append(Interval(lower, lower + self._random.randrange(1, 40)))
        return len(self._bounds) - 1

    def _part(self, scope: list[int]) -> Part:
        gpu = self._random.random() < 0.3
        if not self._random.randrange(3):
            return Part(self._body(scope, 0, ()))
        task = self._variable()
        inner, tiles = self._accumulation([*scope, task])
        role = Role.BLOCK if gpu else Role.TASK
        body = (*inner, *self._body([*scope, task], 1, (role,)))
        return Part((Loop(task, role, body),), tiles)

    def _body(self, scope: list[int], depth: int, roles: tuple[Role, ...]) -> tuple[Statement, ...]:
        found: list[Statement] = []
        if self._random.random() < 0.2:
            found.append(Let(self._variable(), self._random.choice(NAMES), self._index(scope)))
            scope = [*scope, len(self._bounds) - 1]
        found += [self._statement(scope, depth, roles) for _ in range(self._random.randint(1, 3))]
        return tuple(found)

    def _statement(self, scope: list[int], depth: int, roles: tuple[Role, ...]) -> Statement:
        pick = self._random
        if depth < MAX_DEPTH and pick.random() < 0.5:
            return self._loop(scope, depth, roles)
        if pick.random() < 0.4:
            reduction = self._reduction(scope, lanes=Role.VECTOR not in roles)
            return Reduce(reduction, where_needed=pick.random() < 0.2, fetches_next=pick.random() < 0.2)
        return Store(pick.randrange(3), self._index(scope), pick.choice(NAMES), self._index(scope), pick.randrange(2))

    def _loop(self, scope: list[int], depth: int, roles: tuple[Role, ...]) -> Loop:
        pick, variable = self._random, self._variable()
        choices = [Role.SERIAL, Role.UNROLL]
        if Role.VECTOR not in roles:
            choices.append(Role.VECTOR)
        if Role.BLOCK in roles and not {Role.THREAD, Role.VECTOR} & {*roles}:
            choices.append(Role.THREAD)
        role = pick.choice(choices)
        lanes = pick.choice((2, 8, 16)) if role is Role.VECTOR else 0
        return Loop(variable, role, self._body([*scope, variable], depth + 1, (*roles, role)), lanes)

    def _accumulation(self, scope: list[int]) -> tuple[tuple[Statement, ...], tuple[Tile, ...]]:
        """A loop over tiles that carries two accumulators, the second of which follows the first."""
        outer, along = self._variable(), self._variable()
        inner = [*scope, outer]
        tiles = (Tile("x.1", (along,), Memory.SHARED), Tile("r", (), Memory.REGISTER), Tile("y", (), Memory.REGISTER))
        statements: tuple[Statement, ...] = (
            Loop(along, Role.VECTOR, (Stage("x.1", self._index([*inner, along])),), 4),
            Combine(self._reduction(inner, "r")),
            Rescale("y", "r", "correct"),
            Combine(self._reduction(inner, "y")),
        )
        inits: tuple[Statement, ...] = (Init("r", self._index(scope)), Init("y", self._index(scope)))
        return (*inits, Loop(outer, Role.SERIAL, statements, carries=("r", "y"))), tiles

    def _reduction(self, scope: list[int], name: str | None = None, depth: int = 0, lanes: bool = True) -> Reduction:
        pick = self._random
        combination = pick.choice(list(Combination)) if lanes else Combination.SERIAL
        loops = tuple(self._variable() for _ in range(pick.randrange(3)))
        own, inner = None, [*scope, *loops]
        if combination is not Combination.SERIAL:
            first = self._variable() if combination is Combination.SELECT else None
            own = Lanes(self._variable(), pick.choice((4, 8)), pick.randint(1, 4), first)
            inner.append(own.variable)
        steps = tuple(self._index(inner) for _ in range(pick.randint(1, 3)))
        keeps = tuple(pick.sample(NAMES, pick.randrange(3)))
        within = (self._reduction(inner, None, depth + 1, lanes),) if depth < 2 and pick.random() < 0.3 else ()
        index = self._index(scope)
        return Reduction(name or pick.choice(NAMES), index, loops, steps, combination, own, keeps, within)

    def _index(self, scope: list[int]) -> tuple[AffineExpr, ...]:
        return tuple(self._expression(scope) for _ in range(self._random.randrange(4)))

    def _expression(self, scope: list[int]) -> AffineExpr:
        pick = self._random
        found = constant(pick.randint(-5, 50))
        for _ in range(pick.randrange(3) if scope else 0):
            term = dim(pick.choice(scope))
            kind = pick.randrange(3)
            term = (
                term.floordiv(pick.randint(2, 9)) if kind == 0 else term.mod(pick.randint(2, 9)) if kind == 1 else term
            )
            found = found + term * pick.choice((1, 4, -1, 100))
        return found
