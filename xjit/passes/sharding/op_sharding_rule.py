"""Shardy's rule of an operation that says itself which dimensions are split alike, as a row of the table of factors.

The text is `#sdy.op_sharding_rule<([i, j], [j, k])->([i, k]) {i=8, j=4, k=2}, custom>`: the factors of each dimension
of operands and results. Dimensions of several factors (`[ij]`), and of none, say nothing here.
"""

from __future__ import annotations

import re
from typing import Final

from xjit.hlo import HloInstruction
from xjit.hlo.annotations.sharding_algebra import NO_FACTOR
from xjit.passes.sharding.factor_rows import Dims, Factors

ATTRIBUTE: Final = "xla.sdy.sharding_rule"
"""The frontend attribute that holds the rule."""

_RULE: Final = re.compile(r"op_sharding_rule<\((?P<operands>[^)]*)\)\s*->\s*\((?P<results>[^)]*)\)")
_ARRAY: Final = re.compile(r"\[([^\]]*)\]")
_FACTOR: Final = re.compile(r"[a-z](?:_\d+)?")


def rule_factors(instruction: HloInstruction) -> Factors | None:
    """Returns the row that an instruction's own rule says; None without one, or for one of another number of arrays."""
    rule = _RULE.search(instruction.frontend_attributes.get(ATTRIBUTE, ""))
    if rule is None:
        return None
    names: dict[str, int] = {}
    operands, results = (
        [_dims(text, names) for text in _ARRAY.findall(rule[side])] for side in ("operands", "results")
    )
    leaves = [shape for _, shape in instruction.shape.leaves()]
    if [len(d) for d in operands] != [o.shape.rank for o in instruction.operands]:
        return None
    if [len(d) for d in results] != [shape.rank for shape in leaves]:
        return None
    return Factors(operands, results, siblings=True)


def _dims(text: str, names: dict[str, int]) -> Dims:
    """The factors of an array's dimensions, which get their numbers in the order of their first use."""
    dims: list[int] = []
    for dimension in filter(None, text.replace(" ", "").split(",")):
        alone = _FACTOR.fullmatch(dimension)
        dims.append(names.setdefault(dimension, len(names)) if alone else NO_FACTOR)
    return tuple(dims)
