"""What decides how a GPU emits a fusion: a reduction or transpose at its root, done in tiles, or a plain loop; and how
it reads its operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import prod

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, Shape
from xjit.hlo.attributes import DimensionsAttributes

WARP_SIZE = 32
TILE = 32
MIN_TRANSPOSED = 16
"""The least size of dimensions that are transposed in tiles."""

_READS_AGAIN = frozenset(
    {"reduce-window", "select-and-scatter", "convolution", "dot", "gather", "broadcast", "scatter"}
)
"""What reads an element of its operand more than once."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """A reduction or transpose that is done in tiles. Sizes are those of neighbours in memory taken together.

    Of a reduction `kind` is "row" or "column" and `order` the reduced groups; of a transpose, "transpose" and the
    permutation of the groups.
    """

    kind: str
    sizes: tuple[int, ...]
    order: tuple[int, ...]


def hero_of(unit: HloInstruction) -> HloInstruction:
    """Returns the first result of an instruction or fusion that is done in tiles, else its first result."""
    heroes = [_behind_bitcasts(r) for r in roots_of(unit)]
    return next((h for h in heroes if tiles_of(h) is not None), heroes[0])


def roots_of(unit: HloInstruction) -> Sequence[HloInstruction]:
    """Returns what gives the results of an instruction or fusion."""
    root = unit.fused_expression_root if unit.opcode == "fusion" else unit
    return root.operands if root.opcode == "tuple" and root.operand_count else (root,)


def _behind_bitcasts(root: HloInstruction) -> HloInstruction:
    while root.opcode == "bitcast" and root.operand(0).opcode != "parameter":
        root = root.operand(0)
    return root


def loop_shape(hero: HloInstruction) -> Shape:
    """Returns the shape that a kernel goes over: of what is done in tiles, that of its operand."""
    return hero.operand(0).shape if tiles_of(hero) is not None else hero.shape


def tiles_of(hero: HloInstruction) -> Tiles | None:
    """Returns how a reduction or transpose is done in tiles; None for a plain loop."""
    if hero.opcode == "transpose":
        return _tiled_transpose(hero)
    if hero.opcode != "reduce" or not hero.operand(0).shape.is_static_array:
        return None
    found = _reduction(hero)
    return found if found is not None and _is_faster_in_tiles(found) else None


def _reduction(reduce: HloInstruction) -> Tiles | None:
    """Returns a reduction of neighbours in memory to neighbours in memory, by groups of kept and reduced dimensions."""
    shape, reduced = reduce.operand(0).shape, reduce.attributes_as(DimensionsAttributes).dimensions
    physical = [d for d in reversed(shape.minor_to_major) if shape.dimensions[d] != 1]
    groups = [(kept, [*members]) for kept, members in groupby(physical, lambda d: d not in reduced)]
    pattern = "".join("K" if kept else "R" for kept, _ in groups)
    kind = {"R": "row", "KR": "row", "RKR": "row", "RK": "column", "KRK": "column"}.get(pattern)
    if kind is None:
        return None
    sizes = tuple(prod(shape.dimensions[d] for d in members) for _, members in groups)
    return Tiles(kind, sizes, tuple(i for i, (kept, _) in enumerate(groups) if not kept))


def _is_faster_in_tiles(reduction: Tiles) -> bool:
    """Whether tiles beat a loop over the results: short rows and small columns do not fill a warp."""
    minor = reduction.sizes[-1]
    if reduction.kind == "row":
        return minor >= WARP_SIZE or WARP_SIZE % minor == 0
    major = reduction.sizes[-2]
    return not any(major < a and minor < b for a, b in ((32, minor + 1), (64, 32), (128, 8), (256, 3)))


def _tiled_transpose(transpose: HloInstruction) -> Tiles | None:
    """Returns a transpose that moves the fastest dimension, of row-major arrays, by groups of dimensions."""
    source, result = transpose.operand(0).shape, transpose.shape
    if not source.is_static_array or not (source.is_row_major and result.is_row_major):
        return None
    order = [d for d in transpose.attributes_as(DimensionsAttributes).dimensions if source.dimensions[d] != 1]
    order = [sorted(order).index(d) for d in order]
    sizes = [s for s in source.dimensions if s != 1]
    groups: list[list[int]] = []
    for d in order:
        if groups and groups[-1][-1] + 1 == d:
            groups[-1].append(d)
        else:
            groups.append([d])
    if len(groups) < 2 or groups[-1][-1] == len(sizes) - 1:
        return None
    lengths = tuple(prod(sizes[d] for d in group) for group in groups)
    ranked = sorted(groups)
    swapped = (lengths[-1], prod(sizes[d] for d in ranked[-1]))
    if min(swapped) < MIN_TRANSPOSED:
        return None
    return Tiles("transpose", lengths, tuple(ranked.index(group) for group in groups))


def shared_memory_bytes(hero: HloInstruction) -> int:
    """Returns the shared memory of the tiles of a hero: a column's are kept twice, with a column of padding."""
    tiles = tiles_of(hero)
    if tiles is None:
        return 0
    results = hero.shape.tuple_shapes if hero.shape.is_tuple else (hero.shape,)
    element = sum(s.element_type.byte_width for s in results)
    per_element = {"row": WARP_SIZE, "column": 2 * TILE * (TILE + 1), "transpose": TILE * (TILE + 1)}
    return per_element[tiles.kind] * element


def parameters_of(fusion: HloInstruction, value: HloInstruction) -> list[HloInstruction]:
    """Returns the parameters that stand for an operand of a fusion."""
    return [p for p, o in zip(fusion.fused_parameters, fusion.operands, strict=True) if o is value]


def reads_once(reader: HloInstruction, producer: HloInstruction) -> bool:
    """Whether nothing between a producer and the results of its reader asks for an element more than once."""
    if reader.opcode != "fusion":
        return reader.opcode not in _READS_AGAIN
    stack, seen = parameters_of(reader, producer), set[HloInstruction]()
    while stack:
        for user in stack.pop().users:
            if user.opcode in _READS_AGAIN:
                return False
            if user not in seen:
                seen.add(user)
                stack.append(user)
    return True
