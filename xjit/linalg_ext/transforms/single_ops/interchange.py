"""interchange: the loops of a generic in another order."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import AffineMap, dim, substitute_all
from xjit.linalg_ext.ir.attributes import AffineMapAttr, ArrayAttr, IntegerAttr
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.ir.types import IntegerType
from xjit.linalg_ext.structured import as_structured

__all__ = ["interchange"]


def interchange(op: Operation, order: Sequence[int]) -> Operation:
    """Makes loop `order[i]` of a generic loop i, in place; returns the operation. Without an order nothing changes.

    LinalgError for other operations, and for what is no permutation of the loops.
    """
    view = as_structured(op)
    if view is None or op.name != "linalg.generic":
        raise LinalgError(f"'{op.name}' op is no linalg.generic: generalize it first", op.location)
    loops = len(view.iterator_types)
    if not order:
        return op
    if sorted(order) != list(range(loops)):
        raise LinalgError(f"expected an interchange of {loops} loops, found {list(order)}", op.location)
    new_place = {old: new for new, old in enumerate(order)}
    variables = [dim(new_place[old]) for old in range(loops)]
    maps = [AffineMap(loops, 0, substitute_all(m.results, variables)) for m in view.indexing_maps]
    iterators = op.attributes["iterator_types"]
    assert isinstance(iterators, ArrayAttr)
    op.attributes["indexing_maps"] = ArrayAttr(tuple(map(AffineMapAttr, maps)))
    op.attributes["iterator_types"] = ArrayAttr(tuple(iterators.elements[old] for old in order))
    for inner in op.body.operations:
        asked = inner.attributes.get("dim")
        if inner.name == "linalg.index" and isinstance(asked, IntegerAttr):
            inner.attributes["dim"] = IntegerAttr(new_place[asked.value], IntegerType(64))
    return op
