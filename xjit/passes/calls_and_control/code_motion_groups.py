"""What may cross the boundary of a conditional together, and whether it should.

A boundary is an instruction at the edge: one for each branch, alike in all of them, or one outside that reads results
or is an operand. From the branches' roots, the readers and the operands groups grow away from the conditional. What
an instruction shares values with pulls it there, by at most 10: it moves if the pull behind the edge is stronger.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from xjit.hlo import HloInstruction, Trait
from xjit.hlo.compare.identity import identical, identical_ignoring_channel_id
from xjit.passes.analysis.tuple_elements import element_index
from xjit.passes.framework.base import has_control_dependencies

BRANCHES, READERS, OPERANDS = "branches", "readers", "operands"

MEMORY_UNIT = 512
"""The bytes in which the growth of memory is counted."""

_PULL = 10
_CONVERTED = frozenset({"all-reduce", "reshape", "get-tuple-element"})
"""What a conversion is not better kept beside: it is fused with other instructions that make what it reads."""

_MOVES = frozenset({
    "all-reduce", "reduce-scatter", "reduce", "constant", "reshape", "broadcast", "slice", "concatenate", "pad",
    "dynamic-slice", "dynamic-update-slice", "gather", "scatter",
})  # fmt: skip
"""What moves besides elementwise opcodes."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """An instruction per branch, or one outside. `path`: in branches, operand numbers that lead there from the root."""

    side: str
    instructions: tuple[HloInstruction, ...]
    path: tuple[int, ...] = field(default=(), compare=False)

    @property
    def first(self) -> HloInstruction:
        """The one of the first branch, or the only one."""
        return self.instructions[0]

    def next(self) -> list[Boundary]:
        """What is one step farther from the conditional."""
        if self.side == READERS:
            return [Boundary(READERS, (user,)) for user in self.first.users]
        columns = zip(*(i.operands for i in self.instructions), strict=True)
        return [Boundary(self.side, column, (*self.path, n)) for n, column in enumerate(columns)]


@dataclass(frozen=True, slots=True)
class Group:
    """What moves together, nearest to the conditional first; by how much that is better, and how memory grows."""

    boundaries: Sequence[Boundary]
    benefit: int
    memory_per_instruction: float

    @property
    def side(self) -> str:
        """Where it is."""
        return self.boundaries[0].side


def groups_of(conditional: HloInstruction, is_layout_sensitive: bool, memory_allowance: int) -> list[Group]:
    """Returns the groups that should move: all of them out, or all of them in, whichever is better."""
    kept: dict[HloInstruction, int] = {}
    seeds = dict.fromkeys(_seeds(conditional))
    found = [_Grower(conditional, is_layout_sensitive, kept).group(seed) for seed in seeds]
    out, moved_in, decided = 0, 0, ""
    groups = [g for g in found if g is not None and g.memory_per_instruction <= memory_allowance]
    for group in groups:
        if group.side == BRANCHES:
            out += group.benefit
            decided = "out" if out >= moved_in else decided
        else:
            moved_in += group.benefit
            decided = "in" if moved_in > out else decided
    return [g for g in groups if decided and (g.side == BRANCHES) == (decided == "out")]


def _seeds(conditional: HloInstruction) -> Iterable[Boundary]:
    yield Boundary(BRANCHES, tuple(b.root_instruction for b in conditional.branch_computations))
    for user in conditional.users:
        yield Boundary(READERS, (user,))
    for operand in conditional.operands[1:]:
        yield Boundary(OPERANDS, (operand,))


class _Grower:
    """One group of a conditional. `kept` are instructions that stay, with how many of their neighbours would move."""

    def __init__(self, conditional: HloInstruction, is_layout_sensitive: bool, kept: dict[HloInstruction, int]) -> None:
        self.conditional = conditional
        self.is_layout_sensitive = is_layout_sensitive
        self.kept = kept
        self.moving: list[Boundary] = []
        self.edge: list[Boundary] = []
        self.memory = 0

    def group(self, seed: Boundary) -> Group | None:
        """Returns the group that grows from one boundary, if it is better to move it."""
        self._grow(seed)
        if not self.moving:
            return None
        benefit = self._benefit()
        if benefit < 0:
            for boundary in self.edge:
                self.kept.pop(boundary.first, None)
            return None
        return Group(self.moving, benefit, max(self.memory, 0) // len(self.moving))

    def _grow(self, seed: Boundary) -> None:
        pending, seen = deque([seed]), set[Boundary]()
        while pending:
            boundary = pending.popleft()
            if boundary in seen:
                continue
            seen.add(boundary)
            if self._may_move(boundary):
                following = boundary.next()
                self.moving.append(boundary)
                self.memory += sum(_memory(b.first) for b in following) - _memory(boundary.first)
                pending.extend(following)
            elif self._is_repeated_inside(boundary):
                self.moving.append(boundary)
                self.memory -= _memory(boundary.first) - _memory(boundary.first.operand(0))
            else:
                self.kept[boundary.first] = 1
                self.edge.append(boundary)

    def _may_move(self, boundary: Boundary) -> bool:
        if any(map(has_control_dependencies, boundary.instructions)):
            return False
        if boundary.side == BRANCHES and not are_alike(boundary.instructions, self.is_layout_sensitive):
            return False
        return self._have_neighbours_moved(boundary) and self._is_worth_moving(boundary)

    def _have_neighbours_moved(self, boundary: Boundary) -> bool:
        """Whether all that reads an instruction, or all that one outside reads, moves, too."""
        item = boundary.first
        count = _distinct(item.operands) if boundary.side == READERS else item.user_count
        if count <= 1:
            return not (boundary.side == OPERANDS and item is self.conditional.operand(0))
        if item not in self.kept:
            self.kept[item] = 1
            self.edge.append(boundary)
            return False
        if len(boundary.instructions) == 1 or boundary in self.edge:
            self.kept[item] += 1
            if self.kept[item] == count:
                del self.kept[item]
                self.edge = [b for b in self.edge if b != boundary]
                return True
        return False

    def _is_worth_moving(self, boundary: Boundary) -> bool:
        item, opcode = boundary.first, boundary.first.opcode
        if (
            opcode == "parameter"
            or item.sharding is not None
            or (opcode == "tuple" and item.is_root() and boundary.side != BRANCHES)
        ):
            return False
        stays_outside = item.user_count > 1 or item.has_side_effect() or opcode == "get-tuple-element"
        if boundary.side == OPERANDS and stays_outside:
            return False
        if boundary.side == READERS and opcode == "broadcast":
            return False  # more would be returned
        if boundary.side != BRANCHES and (item.op.has(Trait.COLLECTIVE) or opcode.startswith(("send", "recv"))):
            return False
        source = item.operand(0).opcode if item.operand_count else ""
        if opcode == "convert":
            return source in _CONVERTED
        if opcode in ("tuple", "get-tuple-element"):
            return source != "parameter"
        return opcode in _MOVES or item.op.has(Trait.ELEMENTWISE)

    def _is_repeated_inside(self, boundary: Boundary) -> bool:
        """Whether this is a broadcast that the last operand found reads: each branch may make its own."""
        if boundary.side != OPERANDS or boundary.first.opcode != "broadcast" or len(self.moving) < 2:
            return False
        last = self.moving[-1].first
        return last.opcode != "tuple" and last in boundary.first.users

    def _benefit(self) -> int:
        side, items = self.moving[0].side, [b.first for b in self.moving]
        if side != READERS and all(i.opcode == "tuple" for i in items):
            return -1
        if side == READERS and all(i.opcode in ("get-tuple-element", "convert") for i in items):
            return -1  # conversions would come out again
        root = self.conditional.branch_computations[0].root_instruction
        weighed = [i for i in items if i is not root]
        before = sum(map(self._pull_before, weighed))
        after = sum(self._pull_after(i, 0 if side == OPERANDS else None) for i in weighed)
        copies = sum(map(self._copies_saved, items)) if side == READERS else 0
        if not (before or after or copies):
            return -1
        if side == BRANCHES:
            return after - before
        return before - after - 1 + copies if side == READERS else int(after > 0)

    def _pull_before(self, item: HloInstruction) -> int:
        """By what an instruction reads that stays where it is."""
        total = 0
        for operand in item.operands:
            if operand not in self.kept and operand is not self.conditional:
                continue
            source = operand
            if item.opcode == "get-tuple-element":
                root = self.conditional.branch_computations[0].root_instruction
                if operand.opcode == "conditional" and root.opcode == "tuple":
                    source = root.operand(element_index(item))
                total += _pull(source, item.users[0]) if item.users else 0
            else:
                total += _pull(source, item)
        return total

    def _pull_after(self, item: HloInstruction, element: int | None) -> int:
        """By what reads an instruction and stays; of an operand, by branches that do not read the element."""
        users = list(item.users)
        if item.opcode == "constant" or not users or (element is None and len(users) > 1):
            return 0
        user = users[0]
        if element is not None:
            if user.opcode == "conditional":
                return 0 if self._readers_of(item, element) == len(self.conditional.branch_computations) else _PULL
            return self._pull_after(user, user.operands.index(item) if user.opcode == "tuple" else element)
        if user is self.conditional.branch_computations[0].root_instruction:
            index = user.operands.index(item)
            reads = [u for u in self.conditional.users if u.opcode == "get-tuple-element" and element_index(u) == index]
            return next((_pull(item, read.users[0]) for read in reads if read.users), 0)
        return _pull(item, user) if user in self.kept else 0

    def _readers_of(self, operand: HloInstruction, element: int) -> int:
        """How many branches read an element of an operand, or the operand as a whole."""
        count = 0
        for given, branch in zip(self.conditional.operands[1:], self.conditional.branch_computations, strict=True):
            parameter = branch.parameter_instructions[0]
            whole = parameter.is_root() or (not parameter.shape.is_tuple and parameter.user_count > 0)
            reads = (u.opcode == "get-tuple-element" and element_index(u) == element for u in parameter.users)
            count += given is operand and (whole or any(reads))
        return count

    def _copies_saved(self, item: HloInstruction) -> int:
        """A copy that undoes a copy which a branch ends in."""
        if item.opcode != "copy" or item.operand(0).opcode != "get-tuple-element":
            return 0
        read = item.operand(0)
        if read.operand(0) is not self.conditional:
            return 0
        roots = [b.root_instruction for b in self.conditional.branch_computations]
        made = [r.operand(element_index(read)) for r in roots if r.opcode == "tuple"]
        return _PULL * sum(m.opcode == "copy" and m.operand(0).shape == item.shape for m in made)


def _distinct(items: Iterable[HloInstruction]) -> int:
    """How many values there are but for constants; reads of one element of a tuple are one."""
    reads = ((i.operand(0), element_index(i)) if i.opcode == "get-tuple-element" else i for i in items)
    return len({i for i in reads if not isinstance(i, HloInstruction) or i.opcode != "constant"})


def _pull(item: HloInstruction, user: HloInstruction) -> int:
    """How strongly an instruction and one that reads it belong together; less if there are others."""
    if user.opcode == "get-tuple-element" or item.opcode in ("parameter", "constant", "get-tuple-element"):
        return 0
    if user.opcode == "convert" and item.opcode in ("convolution", "dot"):
        return 0
    if item.opcode == "conditional":
        return _PULL
    return _PULL // max(_distinct(item.users), 1) // max(_distinct(user.operands), 1)


def _memory(item: HloInstruction) -> int:
    """What is kept for a reduction or because of one, in units."""
    reduces = item.opcode == "reduce" or any(user.opcode == "reduce" for user in item.users)
    return item.shape.byte_size // MEMORY_UNIT if reduces and not item.shape.is_tuple else 0


def are_alike(instructions: Sequence[HloInstruction], is_layout_sensitive: bool) -> bool:
    """Whether instructions of all branches do the same with operands of the same shapes, over whatever channel."""
    first = instructions[0]
    if not all(i.opcode == first.opcode and i.operand_count == first.operand_count for i in instructions):
        return False

    def same_shape(x: HloInstruction, y: HloInstruction) -> bool:
        return x.shape == y.shape if is_layout_sensitive else x.shape.compatible(y.shape)

    same = identical_ignoring_channel_id if first.opcode == "all-reduce" else identical
    return all(same(first, i, same_shape, layout_sensitive=is_layout_sensitive) for i in instructions[1:])
