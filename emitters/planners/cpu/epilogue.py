"""Where a dot or convolution with an epilogue keeps its sums."""

from __future__ import annotations

from xjit.emitters.gemm.blocking.method import GemmTypes
from xjit.emitters.kernels.view import KernelView


def place_of_sums(view: KernelView, types: GemmTypes) -> int | None:
    """Returns a result whose elements are as wide as sums and in the same places, and whose buffer is no operand's.

    None: sums are kept in scratch memory. Without an epilogue that is the GEMM's own matter, and the answer is 0.
    """
    if view.roots == (view.hero,):
        return 0
    taken = {result for _, result in (*view.shared, *view.may_share)}
    for number, shape in enumerate(view.result_shapes):
        same_type = shape.element_type is view.hero.shape.element_type and types.out is types.compute
        if same_type and number not in taken:
            return number
    return None


def epilogue_fact(has_epilogue: bool, sums: int | None) -> str:
    """Says the same in words."""
    if not has_epilogue:
        return "none"
    place = "scratch memory" if sums is None else f"out{sums}"
    return f"on strips of rows in the cache, sums in {place}"
