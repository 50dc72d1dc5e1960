"""unroll of `affine.for`: loops whose bounds are maps, here of no operands."""

from __future__ import annotations

from xjit.affine import AffineMap
from xjit.linalg_ext.ir import AffineMapAttr, Builder, IntegerAttr, LinalgError, Operation
from xjit.linalg_ext.transforms.loops.repeat_body import check_factor, repeat_body

__all__ = ["unroll_affine"]


def unroll_affine(loop: Operation, factor: int) -> None:
    """Makes `factor` iterations one; those that are left over run in a loop behind.

    LinalgError, with the operation's place, for bounds that are no numbers, and factors that are not in reason.
    """
    check_factor(loop, factor)
    lower, upper = (_bound(loop, name) for name in ("lowerBoundMap", "upperBoundMap"))
    step = loop.attributes["step"]
    assert isinstance(step, IntegerAttr)
    trips = max(-(-(upper - lower) // step.value), 0)
    if factor == 1:
        return
    middle = lower + trips // factor * factor * step.value
    if trips % factor:
        _split_at(loop, middle)
    repeat_body(loop, factor, step.value)
    loop.attributes["step"] = IntegerAttr(step.value * factor, step.type)


def _bound(loop: Operation, name: str) -> int:
    attribute = loop.attributes.get(name)
    results = attribute.map.results if isinstance(attribute, AffineMapAttr) else ()
    if len(results) != 1 or not results[0].is_constant:
        raise LinalgError(f"'{loop.name}' op is unrolled only with bounds that are numbers", loop.location)
    return results[0].value


def _split_at(loop: Operation, middle: int) -> None:
    """Ends a loop, and goes on from there in a copy of it."""
    rest = Builder.after(loop).insert(loop.clone())
    at = AffineMapAttr(AffineMap.constants((middle,)))
    rest.attributes["lowerBoundMap"] = loop.attributes["upperBoundMap"] = at
    loop.replace_all_uses_with(rest.results)
    for number, result in enumerate(loop.results):
        rest.set_operand(number, result)
