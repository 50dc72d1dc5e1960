"""tile_loop_hint: marks the loops around a tiled operation that may run in any order."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import AffineExprKind
from xjit.linalg_ext.ir import AffineMapAttr, BlockArgument, Operation, UnitAttr, Value
from xjit.linalg_ext.structured import PARALLEL, REDUCTION, StructuredOp, as_structured
from xjit.linalg_ext.transforms.building_blocks.slices import slice_lists

__all__ = ["PARALLEL_LOOP", "loop_kinds", "tile_loop_hint"]

PARALLEL_LOOP = "__byteir_parallel__"
"""The attribute of parallel loops; loops of reductions, and those of which nothing is known, have none."""

_SLICES = ("tensor.extract_slice", "memref.subview")


def tile_loop_hint(op: Operation) -> tuple[Operation, ...]:
    """Marks those of the `scf.for` around `op` along which all structured operations beside it are parallel.

    Returns the loops of the nest, outermost first.
    """
    loops = _loops_around(op)
    if not loops or op.block is None:
        return loops
    kinds: dict[Operation, str] = {}
    for each in op.block.operations:
        for loop, kind in loop_kinds(each).items():
            if kind == REDUCTION or loop not in kinds:
                kinds[loop] = kind
    for loop in loops:
        if kinds.get(loop) == PARALLEL and _is_disjoint(loop, loop.body.arguments[0], loop.body.arguments[1:]):
            loop.attributes[PARALLEL_LOOP] = UnitAttr()
    return loops


def _loops_around(op: Operation) -> tuple[Operation, ...]:
    """The nearest `scf.for` around, as long as one is directly in the other."""
    loops: list[Operation] = []
    parent = op.parent_op
    while parent is not None and parent.name == "scf.for":
        loops.insert(0, parent)
        parent = parent.parent_op
    return tuple(loops)


def loop_kinds(op: Operation) -> dict[Operation, str]:
    """Returns per `scf.for` around a structured op on slices whether it runs along a parallel loop or a reduction.

    An op that writes into tensors of its own does not depend on other iterations.
    """
    view = as_structured(op)
    kinds: dict[Operation, str] = {}
    if view is None:
        return kinds
    local = all(_is_new(init) for init in view.inits)
    for number, value in enumerate(view.operands):
        slice_op = value.defining_op
        if slice_op is None or slice_op.name not in _SLICES:
            continue
        offsets = slice_lists(slice_op, 1)[0]
        if len(offsets) != len(view.accesses[number]):  # dimensions of size one are dropped
            continue
        for axis, offset in enumerate(offsets):
            for loop, dimension in _along(view, number, axis, offset):
                kind = PARALLEL if local else view.iterator_types[dimension]
                if kinds.get(loop) != REDUCTION:
                    kinds[loop] = kind
    return kinds


def _is_disjoint(loop: Operation, variable: Value, carried: Sequence[Value]) -> bool:
    """Whether iterations read and write what is carried in places that the loop variable moves."""
    for value in carried:
        for use in value.uses:
            user = use.owner
            if user.name == "scf.for" and use.index >= 3:
                if not _is_disjoint(user, variable, [user.body.arguments[use.index - 2]]):
                    return False
            elif user.name in _SLICES or user.name == "tensor.insert_slice":
                offsets = slice_lists(user, 2 if user.name == "tensor.insert_slice" else 1)[0]
                if all(_loop_variable(offset) is not variable for offset in offsets):
                    return False
            elif user.name != "scf.yield":
                return False
    return True


def _is_new(value: Value) -> bool:
    return value.defining_op is not None and value.defining_op.name == "tensor.empty"


def _along(view: StructuredOp, number: int, axis: int, offset: object) -> list[tuple[Operation, int]]:
    """The loop whose variable moves a slice along a dimension, with the loop of the op that reads along it."""
    variable = _loop_variable(offset)
    index = view.accesses[number][axis]
    if variable is None or index is None:
        return []
    loop = variable.block.parent_op
    if loop is None or loop.name != "scf.for":
        return []
    dims = [t.position for t, _ in index.terms if t.kind is AffineExprKind.DIM]
    return [(loop, dims[0])] if dims else []


def _loop_variable(offset: object) -> BlockArgument | None:
    """The loop variable that an offset is, or that an `affine.apply` of it alone makes it of."""
    if not isinstance(offset, Value):
        return None
    op = offset.defining_op
    if op is not None and op.name == "affine.apply":
        attribute = op.attributes["map"]
        assert isinstance(attribute, AffineMapAttr)
        if len(op.operands) == 1:
            return _loop_variable(op.operands[0])
    return offset if isinstance(offset, BlockArgument) and offset.index == 0 else None
