"""Where the elements of an array lie in the memory of another one, which reshapes, transposes and copies were made of.

Each dimension is a list of pieces (size, stride), the slowest first: `stride` counts elements of the first array's
memory. A dimension is cut into pieces where a reshape cuts it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

from xjit.hlo import HloInstruction, Shape
from xjit.hlo.types.layout import Layout
from xjit.passes.simplify.algebra.dimensions import dimensions_of

Piece = tuple[int, int]
Order = list[list[Piece]]

MOVES = frozenset({"reshape", "transpose", "copy", "bitcast"})
"""What changes where elements are, and not what they are."""

MAX_MOVES = 8
"""How far moves are followed."""


def source_in_memory(moved: HloInstruction) -> HloInstruction | None:
    """Returns the farthest array that was moved to `moved`, if elements lie in the same order in both; else None."""
    chain = [moved]
    while len(chain) <= MAX_MOVES and chain[-1].opcode in MOVES and _is_plain(chain[-1], moved):
        chain.append(chain[-1].operand(0))
    for first in range(len(chain) - 1, 0, -1):
        if _is_plain(chain[first], moved) and _stays(chain[first::-1]):
            return chain[first]
    return None


def is_bitcast(move: HloInstruction) -> bool:
    """Whether a move leaves memory as it is."""
    return _stays([move.operand(0), move])


def layout_after_reshape(before: Shape, dimensions: Sequence[int]) -> Layout | None:
    """Returns the layout in which a reshape of an array to these dimensions is a bitcast; None if there is none."""
    order = _cut((piece for pieces in _start(before) for piece in pieces), dimensions)
    if order is None or any(a[1] != b[0] * b[1] for pieces in order for a, b in pairwise(pieces)):
        return None
    strides: list[int] = []
    for pieces in reversed(order):  # a dimension of size 1 lies in front of the one behind it
        following = strides[-1] * math.prod(n for n, _ in order[len(order) - len(strides)]) if strides else 1
        strides.append(pieces[-1][1] if pieces else following)
    keys = strides[::-1]
    return Layout(tuple(sorted(range(len(keys)), key=lambda d: (keys[d], -d))))


def _is_plain(value: HloInstruction, moved: HloInstruction) -> bool:
    shape = value.shape
    tiled = shape.layout is not None and bool(shape.layout.tiles)
    return shape.is_static_array and shape.num_elements > 0 and not tiled and (
        shape.element_type is moved.shape.element_type and _space(shape) == _space(moved.shape)
    )  # fmt: skip


def _space(shape: Shape) -> int:
    return shape.layout.memory_space if shape.layout is not None else 0


def _stays(chain: Sequence[HloInstruction]) -> bool:
    """Whether the last of a chain of moves, each the operand of the next one, has the memory order of the first."""
    order = _start(chain[0].shape)
    for before, move in pairwise(chain):
        moved = _moved(order, before.shape, move)
        if moved is None:
            return False
        order = moved
    stride = 1
    for size, at in reversed([piece for d in _physical(chain[-1].shape) for piece in order[d]]):
        if size != 1 and at != stride:
            return False
        stride *= size
    return True


def _physical(shape: Shape) -> list[int]:
    """The dimensions from the slowest to the fastest."""
    return list(reversed(shape.minor_to_major))


def _start(shape: Shape) -> Order:
    order: Order = [[] for _ in shape.dimensions]
    stride = 1
    for d in shape.minor_to_major:
        order[d] = [(shape.dimensions[d], stride)]
        stride *= shape.dimensions[d]
    return order


def _moved(order: Order, before: Shape, move: HloInstruction) -> Order | None:
    if move.opcode == "transpose":
        return [order[d] for d in dimensions_of(move)]
    if move.opcode == "reshape":
        return _cut((piece for pieces in order for piece in pieces), move.shape.dimensions)
    if move.opcode == "copy":
        return order
    sizes = [move.shape.dimensions[d] for d in _physical(move.shape)]
    found = _cut((piece for d in _physical(before) for piece in order[d]), sizes)
    if found is None:
        return None
    return [found[_physical(move.shape).index(d)] for d in range(move.shape.rank)]


def _cut(pieces: Iterable[Piece], sizes: Sequence[int]) -> Order | None:
    """Shares pieces out among dimensions of these sizes; None if a piece cannot be cut where it must be."""
    left = [piece for piece in pieces if piece[0] != 1][::-1]
    found: Order = []
    for size in sizes:
        mine: list[Piece] = []
        rest = size
        while rest != 1:
            length, stride = left.pop()
            if length > rest:
                if length % rest:
                    return None
                left.append((length // rest, stride))
                length, stride = rest, stride * (length // rest)
            if rest % length:
                return None
            mine.append((length, stride))
            rest //= length
        found.append(mine)
    return found
