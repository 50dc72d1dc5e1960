"""How deep a tile through registers is: as deep as what it is of allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xjit.llvm import Value
from xjit.llvm.structured_builder import StructuredBuilder


def by_depth(
    builder: StructuredBuilder,
    size: Value,
    depths: Sequence[int],
    tiles: Callable[[int], Sequence[Value]],
    nothing: Sequence[Value],
) -> Sequence[Value]:
    """Emits `tiles` of the first of falling depths that `size` is not below, found at run time; `nothing` below all."""
    if not depths:
        return nothing
    fits = builder.icmp_signed(">=", size, builder.i64(depths[0]))
    return builder.if_else(fits, lambda: tiles(depths[0]), lambda: by_depth(builder, size, depths[1:], tiles, nothing))
