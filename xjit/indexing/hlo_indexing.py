"""Indexing of any HLO instruction: sets of simplified maps, fusions and calls composed.

`compute_output_to_input_indexing` answers which elements of each operand one element of an output reads;
`compute_input_to_output_indexing` which elements of each output read one element of an operand. A set may say more than
is read (run-time positions, budgets), never less; an empty set means that nothing is read, UNKNOWN that anything may
be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xjit.affine import IndexingMap
from xjit.dataclass import dataclass
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.indexing.composition import Composer
from xjit.indexing.input_to_output import result_maps
from xjit.indexing.map_sets import MapSet, add, finished
from xjit.indexing.structure import leaf_count
from xjit.ops.indexing.collective import HAS_REPLICA_MAPS, replica_maps
from xjit.ops.indexing.maps import Maps


@dataclass(frozen=True, slots=True)
class HloInstructionIndexing:
    """Per operand (`what` is "operand") or per output leaf ("output") the ordered set of simplified maps.

    `replica_maps`, of collectives only: per operand the joint maps of xjit/ops/indexing/collective.py, which take the
    reader's replica as a last dim and say which replica the element comes from. Prints as

        operand id = 0
        (d0, d1) -> (d1, d0)
        domain:
        d0 in [0, 9]
        d1 in [0, 19]
        operand id = 1
        ...
    """

    indexing_maps: tuple[Maps, ...]
    what: str = "operand"
    replica_maps: tuple[Maps, ...] = ()

    def __len__(self) -> int:
        return len(self.indexing_maps)

    def __getitem__(self, number: int) -> Maps:
        return self.indexing_maps[number]

    def __iter__(self) -> Iterator[Maps]:
        return iter(self.indexing_maps)

    @property
    def is_unknown(self) -> bool:
        """Whether some set is UNKNOWN."""
        return any(m.is_unknown for maps in self.indexing_maps for m in maps)

    def __str__(self) -> str:
        lines: list[str] = []
        for number, maps in enumerate(self.indexing_maps):
            lines.append(f"{self.what} id = {number}")
            lines += [str(m) for m in maps]
        return "\n".join(lines)


def compute_output_to_input_indexing(
    instruction: HloInstruction, output_id: int = 0, composer: Composer | None = None
) -> HloInstructionIndexing:
    """Returns, per operand, the maps from an index of output leaf `output_id` to the elements it reads.

    Of a tuple operand, those to its leaves one after the other. InvalidArgument if there is no such output.
    `composer` shares work between queries of one module.
    """
    _check(instruction, output_id, leaf_count(instruction.shape), "output")
    composer = composer or Composer()
    leaves: dict[tuple[int, int], MapSet] = {}
    for read in composer.reads(instruction, output_id):
        _add_all(leaves.setdefault((read.operand, read.leaf), {}), finished(read.maps))
    sets: list[MapSet] = [{} for _ in instruction.operands]
    for (operand, _), maps in sorted(leaves.items(), key=lambda item: item[0]):
        sets[operand].update(maps)
    joint: tuple[Maps, ...] = ()
    if instruction.opcode in HAS_REPLICA_MAPS:
        joint = tuple(replica_maps(instruction, output_id))
    return HloInstructionIndexing(tuple([tuple(s) for s in sets]), "operand", joint)


def compute_input_to_output_indexing(
    instruction: HloInstruction, input_id: int = 0, composer: Composer | None = None
) -> HloInstructionIndexing:
    """Returns, per output leaf, the maps from an index of operand `input_id` to the elements that read it.

    InvalidArgument if there is no such operand. For a tuple operand, of its array leaves together.
    """
    _check(instruction, input_id, instruction.operand_count, "operand")
    return HloInstructionIndexing(tuple(result_maps(instruction, input_id, composer)), "output")


def _add_all(into: MapSet, maps: Iterable[IndexingMap]) -> None:
    for m in maps:
        add(into, m.simplify(), keep_empty=True)


def _instructions(computation: HloComputation) -> frozenset[HloInstruction]:
    return frozenset(computation.instructions)


def _check(instruction: HloInstruction, number: int, count: int, what: str) -> None:
    if not 0 <= number < count:
        raise InvalidArgument(f"{instruction.name} has {count} {what}s, there is no {what} {number}", instruction.span)


def compute_hero_indexing(
    root: HloInstruction, hero: HloInstruction, output_id: int = 0, composer: Composer | None = None
) -> Maps:
    """Returns the maps from an index of `root` to the elements of `hero` it is computed from.

    Both lie in one computation; InvalidArgument otherwise, or if the root does not depend on the hero.
    """
    composer = composer or Composer()
    _check_together(hero, root)
    sets = composer.walk(root, output_id, stop=frozenset([hero]))
    return _reached(sets, hero, root)


def compute_epilogue_indexing(hero: HloInstruction, root: HloInstruction, composer: Composer | None = None) -> Maps:
    """Returns the maps from an index of `hero` to the elements of `root` that it ends up in (the epilogue).

    Both lie in one computation; InvalidArgument otherwise, or if the root does not depend on the hero.
    """
    composer = composer or Composer()
    _check_together(hero, root)
    assert hero.parent is not None
    sets = composer.walk_forward(hero, 0, _instructions(hero.parent))
    return _reached(sets, root, hero)


def _check_together(hero: HloInstruction, root: HloInstruction) -> None:
    if hero.parent is None or hero.parent is not root.parent:
        raise InvalidArgument(f"{hero.name} and {root.name} are not in one computation")


def _reached(sets: dict[tuple[HloInstruction, int], MapSet], goal: HloInstruction, start: HloInstruction) -> Maps:
    found: MapSet = {}
    for (instruction, _), maps in sets.items():
        if instruction is goal:
            _add_all(found, finished(maps))
    if not any(instruction is goal for instruction, _ in sets):
        raise InvalidArgument(f"there is no path between {start.name} and {goal.name}")
    return tuple(found)
