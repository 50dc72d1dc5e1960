"""Which elements of its operands an instruction or fusion needs for one element of its result, one map for each way.

This is `compute_output_to_input_indexing` for those who can only use plain maps, and ask for many instructions: what
sums, pads or reads at positions that are data is UNKNOWN at once, and each composition is done once.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from xjit.affine import UNKNOWN, IndexingMap, compose_indexing_maps, dim, physical_map
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape
from xjit.indexing.operand_reads import OperandRead, reads_of
from xjit.ops.indexing.maps import identity_map

Ways: TypeAlias = "dict[IndexingMap, None]"
"""Maps without symbols and constraints from one array to another; UNKNOWN among them if there are others."""

MAX_WAYS: Final = 32
"""More of them are UNKNOWN together."""


class ElementReads:
    """Answers from maps that are shared between the questions about a module."""

    def __init__(self) -> None:
        self._identities: dict[tuple[int, ...], IndexingMap] = {}
        self._composed: dict[tuple[IndexingMap, int], IndexingMap] = {}
        self._second: dict[int, OperandRead] = {}  # those whose `id` is in `_composed`, kept alive
        self._places: dict[tuple[IndexingMap, tuple[int, ...], tuple[int, ...]], IndexingMap] = {}

    def identity(self, shape: Shape) -> IndexingMap:
        """Returns the map of every index of an array to itself."""
        found = self._identities.get(shape.dimensions)
        if found is None:
            found = self._identities[shape.dimensions] = identity_map(shape.dimensions)
        return found

    def of(self, user: HloInstruction, start: HloInstruction | None = None) -> list[Ways]:
        """Returns, per operand, the maps from an index of the result, an array, to what is read; none if nothing is.

        With a `start`, an instruction inside the fusion or an operand, from an index of that.
        """
        is_fusion = user.opcode == "fusion"
        root = start or (user.fused_expression_root if is_fusion else user)
        body = user.fused_instructions_computation.make_instruction_post_order() if is_fusion else [user]
        ways: dict[HloInstruction, Ways] = {root: {self.identity(root.shape): None}}
        for instruction in reversed(body):
            known = ways.get(instruction)
            if known is None:
                continue
            for operand, read in zip(instruction.operands, reads_of(instruction), strict=True):
                self._add(ways.setdefault(operand, {}), known, read)
        if not is_fusion:
            return [ways.get(operand, {}) for operand in user.operands]
        parameters = user.fused_instructions_computation.parameter_instructions
        return [ways.get(parameter, {}) for parameter in parameters]

    def through(self, ways: Ways, instruction: HloInstruction) -> Ways:
        """Returns the maps to the first operand of an instruction that is read in those ways."""
        found: Ways = {}
        self._add(found, ways, reads_of(instruction)[0])
        return found

    def _add(self, into: Ways, known: Ways, read: OperandRead) -> None:
        if read.is_identity:
            into.update(known)
        else:
            for m in known:
                into.setdefault(self._compose(m, read))
        if len(into) > MAX_WAYS:
            into.clear()
            into[UNKNOWN] = None

    def _compose(self, first: IndexingMap, read: OperandRead) -> IndexingMap:
        key = (first, id(read))
        found = self._composed.get(key)
        if found is None:
            self._second[id(read)] = read
            second = read.always
            found = UNKNOWN if second is None else compose_indexing_maps(first, second).simplify()
            if found.num_symbols or found.constraints or found.is_known_empty:
                found = UNKNOWN
            self._composed[key] = found
        return found

    def places(self, read: IndexingMap, shape: Shape) -> IndexingMap:
        """Composes a map into an untiled array with the array's layout: to places in memory, in elements."""
        key = (read, shape.dimensions, shape.minor_to_major)
        found = self._places.get(key)
        if found is None:
            layout = physical_map(shape.dimensions, shape.minor_to_major, ())
            found = self._places[key] = compose_indexing_maps(read, layout).simplify()
        return found

    def is_along(self, way: IndexingMap, shape: Shape, result: Shape) -> bool:
        """Whether neighbours in the result's memory read neighbours, or one element, of an array of that shape."""
        if way.is_unknown or is_tiled(shape):
            return False
        minor = next((d for d in result.minor_to_major if result.dimensions[d] != 1), None)
        if minor is None:
            return True
        place = self.places(way, shape)
        if place.is_unknown or place.constraints:
            return False
        bit = 1 << minor
        touching = [(term, factor) for term, factor in place.results[0].terms if term.dim_mask & bit]
        return not touching or touching == [(dim(minor), 1)]


def is_tiled(shape: Shape) -> bool:
    """Whether an array's layout has tiles."""
    return shape.layout is not None and bool(shape.layout.tiles)
