"""`apply_patterns`: the sets of patterns that scripts name, and what each does here."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.rewrite.cse import eliminate_common_subexpressions
from xjit.linalg_ext.rewrite.driver import apply_rules
from xjit.linalg_ext.rewrite.rules import CANONICALIZE
from xjit.linalg_ext.structured import as_structured
from xjit.linalg_ext.transform_scripts.state import Handles, Script, TransformRow
from xjit.linalg_ext.transforms.elementwise_fusion.cleanup import simplify_generic
from xjit.linalg_ext.transforms.single_ops.destination_passing import rewrite_in_destination_passing_style
from xjit.linalg_ext.transforms.single_ops.fold_unit_dims import fold_unit_extent_dims
from xjit.linalg_ext.transforms.single_ops.small_rewrites import alloc_to_alloca, decompose_concat

__all__ = ["PATTERN_ROWS"]


def _without_unused_inputs(op: Operation) -> object:
    view = as_structured(op)
    arguments = [] if view is None else op.body.arguments[: len(view.inputs)]
    return simplify_generic(op) if any(not a.has_uses for a in arguments) else None


_PREFIX = "transform.apply_patterns."

_REWRITES: dict[str, tuple[str, Callable[[Operation], object]]] = {
    "linalg.fold_unit_extent_dims_via_reshapes": (
        "linalg.generic",
        lambda op: fold_unit_extent_dims(op, fold_loops=True),
    ),
    "linalg.erase_unnecessary_inputs": ("linalg.generic", _without_unused_inputs),
    "linalg.decompose_pad": ("tensor.pad", rewrite_in_destination_passing_style),
    "tensor.decompose_concat": ("tensor.concat", decompose_concat),
    "memref.alloc_to_alloca": ("memref.alloc", alloc_to_alloca),
}
"""What a set rewrites: operations of a name, by a function. All other sets are parts of canonicalization here."""


def apply_patterns(script: Script, op: Operation) -> Handles:
    """Rewrites what is in the payload by the sets, and canonicalizes it."""
    named = {each.name.removeprefix(_PREFIX) for each in op.body.operations} if op.regions[0].blocks else set[str]()
    for target in script.payload(op):
        for name in sorted(named & set(_REWRITES)):
            wanted, rewrite = _REWRITES[name]
            for each in [inner for inner in target.walk() if inner.name == wanted]:
                with suppress(LinalgError):  # the pattern does not match
                    rewrite(each)
        apply_rules(target, CANONICALIZE)
        if "apply_cse" in op.attributes:
            eliminate_common_subexpressions(target)
            apply_rules(target, CANONICALIZE)
    return []


PATTERN_ROWS: tuple[TransformRow, ...] = (TransformRow("transform.apply_patterns", apply_patterns),)
