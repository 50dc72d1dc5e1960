"""Rewriting by rules: tables of (pattern, function) by opcode, applied to a worklist until none matches.

A rule's function gets the match and an `Expansion` to write into. It returns what the matched instruction is replaced
by, an instruction that was there or one that it made; None if the rule does not apply after all, and then what it made
is taken back.
"""

from __future__ import annotations

import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from xjit.hlo import HloComputation, HloInstruction
from xjit.passes.framework.base import PassWarning, has_opcodes
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match, Pattern, kind_of

Rewrite = Callable[[Match, Expansion], HloInstruction | None]

REWRITES_PER_INSTRUCTION = 16
"""More rewrites than that, for each instruction there was, and rules undo each other's work."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rewrite. `name` is prose: for the simplifier its equation."""

    name: str
    pattern: Pattern
    rewrite: Rewrite


@dataclass(frozen=True, slots=True)
class FarSight:
    """Rules of `opcodes` that look further than their patterns: up to `depth` operands, each of one of `through`."""

    opcodes: frozenset[str] = frozenset()
    through: frozenset[str] = frozenset()
    depth: int = 0


class Rules:
    """Rules by the opcode of the instruction that they replace, in the order in which they are tried."""

    def __init__(self, by_opcode: Mapping[str, tuple[Rule, ...]], far: FarSight) -> None:
        self.by_opcode = by_opcode
        patterns = [rule.pattern for rules in by_opcode.values() for rule in rules]
        self.seen_through = frozenset[str]().union(far.through, *[pattern.seen_through() for pattern in patterns])
        reach = max([pattern.reach() for pattern in patterns], default=0)
        self.deep = [_through(by_opcode, level, far) for level in range(1, max(reach, far.depth + 1))]
        """By opcode, those of the operands whose operands patterns look at; then the same for operands of these."""
        self._candidates: dict[tuple[object, ...], tuple[Rule, ...]] = {}

    def candidates(self, opcode: str, kinds: tuple[str, ...], are_one: bool) -> tuple[Rule, ...]:
        """Returns the rules whose patterns ask for nothing but an opcode, and operands of these kinds.

        What patterns ask for besides, they must be asked. `are_one`: whether all operands are one instruction.
        """
        key = (opcode, kinds, are_one)
        found = self._candidates.get(key)
        if found is None:
            rules = self.by_opcode.get(opcode, ())
            found = self._candidates[key] = tuple(r for r in rules if r.pattern.may_match_operands(kinds, are_one))
        return found


_FEW = 3
"""Of an instruction with more operands only its own opcode is looked at."""


def _through(by_opcode: Mapping[str, tuple[Rule, ...]], reach: int, far: FarSight) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for opcode, rules in by_opcode.items():
        seen = far.through if opcode in far.opcodes and reach <= far.depth else frozenset[str]()
        found[opcode] = seen.union(*[rule.pattern.operands_of_reach(reach) for rule in rules])
    return {opcode: operands for opcode, operands in found.items() if operands}


def rule_table(*themes: Iterable[Rule], far: FarSight = FarSight()) -> Rules:
    """Returns the table of all rules of some themes; ValueError for a rule whose pattern names no opcode."""
    table: dict[str, list[Rule]] = {}
    for rule in (rule for theme in themes for rule in theme):
        if not rule.pattern.opcodes:
            raise ValueError(f"rule '{rule.name}' matches any opcode: it belongs to no row of a table")
        for opcode in rule.pattern.opcodes:
            table.setdefault(opcode, []).append(rule)
    return Rules({opcode: tuple(rules) for opcode, rules in table.items()}, far)


def _always(*_: HloInstruction) -> bool:
    return True


def apply_rules(
    computation: HloComputation,
    rules: Rules,
    may_rewrite: Callable[[HloInstruction], bool] = _always,
    accept: Callable[[HloInstruction, HloInstruction], bool] = _always,
    in_async: bool = False,
) -> bool:
    """Rewrites a computation until no rule applies; True if it changed.

    The worklist is every instruction once, operands first, then what was made, what reads it, and what lost a user.
    `may_rewrite` is asked of an instruction before any rule, `accept` of (instruction, replacement) before it is
    replaced. What is started asynchronously must be one instruction: it is left, but for `in_async`. Rules that go
    on for ever are stopped by a budget, with a PassWarning that names the busiest of them.
    """
    if not has_opcodes(computation, rules.by_opcode.keys()) or (computation.is_async_computation() and not in_async):
        return False
    return _Rewriter(computation, rules, may_rewrite, accept, {}, False).run()


def apply_rules_to_all(
    computations: Iterable[HloComputation],
    rules: Rules,
    may_rewrite: Callable[[HloInstruction], bool] = _always,
    accept: Callable[[HloInstruction, HloInstruction], bool] = _always,
    once: bool = False,
) -> bool:
    """Rewrites computations, one after the other, as `apply_rules` does; True if one changed.

    `once`: instructions that rewrites make, and those that read them, are not looked at again. What is started
    asynchronously is left: it must be one instruction.
    """
    alike: _Alike = {}
    changed = False
    for computation in computations:
        if has_opcodes(computation, rules.by_opcode.keys()) and not computation.is_async_computation():
            changed |= _Rewriter(computation, rules, may_rewrite, accept, alike, once).run()
    return changed


_Alike = dict[tuple[object, ...], tuple[tuple[Rule, ...], tuple[object, ...]]]
"""Which rules may apply to what is alike in opcode, attributes, shape and operands, and what the key's ids are of."""


class _Rewriter:
    def __init__(
        self,
        computation: HloComputation,
        rules: Rules,
        may_rewrite: Callable[[HloInstruction], bool],
        accept: Callable[[HloInstruction, HloInstruction], bool],
        alike: _Alike,
        once: bool,
    ) -> None:
        self.computation = computation
        self.rules = rules
        self.may_rewrite = may_rewrite
        self.accept = accept
        self.worklist: deque[HloInstruction] = deque()
        self.waiting: set[HloInstruction] = set()
        self.seen_through: dict[HloInstruction, int] = {}
        self.alike = alike
        self.once = once
        self.applied: Counter[str] = Counter()

    def run(self) -> bool:
        self._push(self.computation.make_instruction_post_order())
        budget = REWRITES_PER_INSTRUCTION * self.computation.instruction_count
        while self.worklist:
            instruction = self.worklist.popleft()
            self.waiting.discard(instruction)
            distance = self.seen_through.pop(instruction, None)
            if instruction.parent is not self.computation:
                continue
            rules = self._candidates(instruction) if instruction.opcode in self.rules.by_opcode else ()
            if rules and self.may_rewrite(instruction) and self._rewrite(instruction, rules):
                budget -= 1
                if budget <= 0:
                    self._warn()
                    break
            elif distance is not None:
                self._push_readers_through(instruction, distance)
        return bool(self.applied)

    def _push(self, instructions: Iterable[HloInstruction]) -> None:
        for instruction in instructions:
            if instruction.opcode in self.rules.by_opcode:
                self._enqueue(instruction)

    def _enqueue(self, instruction: HloInstruction) -> None:
        if instruction not in self.waiting:
            self.waiting.add(instruction)
            self.worklist.append(instruction)

    def _rewrite(self, instruction: HloInstruction, rules: Iterable[Rule]) -> bool:
        for rule in rules:
            match = rule.pattern.match_besides(instruction)
            if match is None:
                continue
            into = Expansion(instruction)
            new = rule.rewrite(match, into)
            if new is None or not self.accept(instruction, new):
                into.discard()
                continue
            readers = instruction.users  # those that `new` has already see nothing else
            staying = into.replace_source(new)
            self.applied[rule.name] += 1
            if self.once:
                return True
            self._push([*into.made, new])
            self._push_readers(readers)
            self._push(staying)
            for operand in staying:
                if operand.user_count == 1:  # its reader may match as the only one now
                    self._push_readers(operand.users)
            return True
        return False

    def _push_readers(self, readers: Iterable[HloInstruction]) -> None:
        """Puts what reads something new on the worklist; when it stays as it is, what looks through it comes next."""
        for reader in readers:
            self._push((reader,))
            self._see_through(reader, 1)

    def _see_through(self, instruction: HloInstruction, distance: int) -> None:
        """Notes that something changed so many operands above; its many readers are looked at once for all changes."""
        if distance <= len(self.rules.deep) and instruction.opcode in self.rules.seen_through:
            self.seen_through[instruction] = min(distance, self.seen_through.get(instruction, distance))
            self._enqueue(instruction)

    def _push_readers_through(self, instruction: HloInstruction, distance: int) -> None:
        through = self.rules.deep[distance - 1]
        self._push(user for user in instruction.users if instruction.opcode in through.get(user.opcode, ()))
        for user in instruction.users:
            self._see_through(user, distance + 1)

    def _candidates(self, instruction: HloInstruction) -> tuple[Rule, ...]:
        """Returns the rules whose patterns an instruction fits by kinds and shapes, found once for all alike."""
        operands = instruction.operands
        opcode, attributes, shape = instruction.opcode, instruction.attributes, instruction.shape
        if len(operands) > _FEW:
            return tuple([r for r in self.rules.by_opcode[opcode] if r.pattern.may_match_shapes(instruction)])
        parts: list[object] = [opcode, id(attributes), id(shape)]
        for o in operands:
            parts += (kind_of(o) if o.opcode == "broadcast" else o.opcode), id(o.shape)
        are_one = len(operands) == 2 and operands[0] is operands[1]
        key = (*parts, are_one)
        found = self.alike.get(key)
        if found is None:
            rules = self.rules.candidates(opcode, tuple(map(kind_of, operands)), are_one)
            fitting = tuple(r for r in rules if r.pattern.may_match_shapes(instruction))
            kept = (attributes, shape, [o.shape for o in operands])  # so that ids stay theirs
            found = self.alike[key] = (fitting, kept)
        return found[0]

    def _warn(self) -> None:
        name, count = self.applied.most_common(1)[0]
        message = f"rewriting of {self.computation.name} does not end: rule '{name}' was applied {count} times"
        warnings.warn(message, PassWarning, stacklevel=4)


def takes_sharding(old: HloInstruction, new: HloInstruction) -> bool:
    """Gives a replacement without sharding that of the old instruction; False if that would be lost.

    What a parameter is given as is not changed by what reads it.
    """
    if old.sharding is None or old.sharding == new.sharding:
        return True
    if new.sharding is not None or new.opcode == "parameter":
        return False
    new.sharding = old.sharding
    return True
