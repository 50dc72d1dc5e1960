"""Input-to-output indexing: which elements of each output read one element of an operand.

One rule serves every opcode: the pairs of its output-to-input maps, seen from the operand (`invert_relation`). A
broadcast's dropped dims come back as range variables, a slice's stride as a floordiv and a mod constraint.
"""

from __future__ import annotations

from xjit.hlo.ir.instruction import HloInstruction
from xjit.indexing.composition import Composer
from xjit.indexing.map_sets import MapSet, add, finished
from xjit.indexing.structure import leaf_count, leaf_shape
from xjit.ops.indexing.maps import Maps, invert_relation

__all__ = ["result_maps"]


def result_maps(instruction: HloInstruction, operand: int, composer: Composer | None = None) -> list[Maps]:
    """Returns, per output leaf, the maps from an index of operand `operand` to the elements that read it."""
    composer = composer or Composer()
    if instruction.opcode == "fusion":
        return _through_fusion(instruction, operand, composer)
    shape = instruction.operand(operand).shape
    found: list[Maps] = []
    for output in range(leaf_count(instruction.shape)):
        leaves: dict[int, MapSet] = {}
        for read in composer.reads(instruction, output):
            if read.operand == operand:
                sizes = leaf_shape(shape, read.leaf).dimensions
                maps = leaves.setdefault(read.leaf, {})
                for m in finished(read.maps):
                    add(maps, invert_relation(m, sizes).simplify(), keep_empty=True)
        found.append(_joined(leaves))
    return found


def _joined(leaves: dict[int, MapSet]) -> Maps:
    """The maps of all leaves of an operand, one leaf after the other."""
    return tuple(dict.fromkeys(m for _, maps in sorted(leaves.items()) for m in maps))


def _through_fusion(fusion: HloInstruction, operand: int, composer: Composer) -> list[Maps]:
    computation = fusion.fused_instructions_computation
    parameter = computation.parameter_instruction(operand)
    found: list[dict[int, MapSet]] = [{} for _ in range(leaf_count(fusion.shape))]
    for leaf in range(leaf_count(parameter.shape)):
        reached = composer.walk_forward(parameter, leaf, frozenset(computation.instructions))
        for output, leaves in enumerate(found):
            maps = leaves[leaf] = {}
            for m in finished(reached.get((computation.root_instruction, output), {})):
                add(maps, m.simplify(), keep_empty=True)
    return [_joined(leaves) for leaves in found]
