"""Long rows of HLO through structured operations: raised, cut into parts, and lowered to HLO again."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xjit.hlo import HloModule
from xjit.linalg_ext.from_hlo import from_hlo
from xjit.linalg_ext.ir import LinalgError, Operation
from xjit.linalg_ext.passes import run_passes
from xjit.linalg_ext.to_hlo import to_hlo
from xjit.linalg_ext.transforms.reductions.split_softmax import split_softmax
from xjit.linalg_ext.transforms.reductions.split_squares import split_squares
from xjit.passes import PassDriver
from xjit.passes.simplify.algebraic_simplifier import AlgebraicSimplifier
from xjit.passes.simplify.hlo_cse import HloCSE
from xjit.passes.simplify.hlo_dce import HloDCE

__all__ = ["structured_rows", "tiled_rows"]

_FUNCTION = "main"
_CLEANUP = ("canonicalize", "cse", "trivial-dce")


def tiled_rows(rows: HloModule, parts: int) -> HloModule | None:
    """Returns a module of long rows with each of them in `parts`; None if there is nothing that can be cut, or not all
    of it can be lowered again."""
    structured = structured_rows(rows, parts)
    if structured is None:
        return None
    try:
        lowered = to_hlo(structured, _FUNCTION)
    except LinalgError:  # something beside the rows has no structured form, and would be an opaque call
        return None
    PassDriver().run([AlgebraicSimplifier(), HloCSE(), HloDCE()], lowered)
    return lowered


def structured_rows(rows: HloModule, parts: int) -> Operation | None:
    """Returns the structured form of what `tiled_rows` gives, None if there is nothing that can be cut."""
    raised = from_hlo(rows, _FUNCTION, fuse_elementwise=False)
    return run_passes(raised, _CLEANUP, verify_each=False) if _split(raised, parts) else None


def _split(module: Operation, parts: int) -> bool:
    """Cuts the rows of everything that can be cut into so many parts, and returns whether there was anything."""
    changed = False
    for op in list(module.walk()):
        split = _SPLITS.get(op.name)
        if split is not None:
            try:
                split(op, parts)
            except LinalgError:
                continue
            changed = True
    return changed


_SPLITS: Mapping[str, Callable[[Operation, int], object]] = {
    "linalg_ext.softmax": split_softmax,
    "linalg.reduce": split_squares,
}
