"""Products with a diagonal matrix become elementwise products: row i of the other matrix times element i."""

from __future__ import annotations

from xjit.affine import AffineExpr, AffineMap, dim
from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.operation import Block, Operation, Region, Value
from xjit.linalg_ext.ir.types import element_type
from xjit.linalg_ext.structured import PARALLEL, StructuredOp, as_structured
from xjit.linalg_ext.structured.creation import create_generic
from xjit.linalg_ext.structured.row import Access
from xjit.linalg_ext.structured.scalars import BINARY_FUNCTIONS, cast

__all__ = ["rewrite_diag_products"]

_PRODUCTS = ("linalg.matmul", "linalg.batch_matmul", "linalg_ext.batch_matmul")


def rewrite_diag_products(module: Operation) -> bool:
    """Replaces each product on tensors with a `linalg_ext.diag` on one side; says if there were any."""
    changed = False
    for operation in list(module.walk()):
        op = as_structured(operation) if operation.name in _PRODUCTS else None
        if op is None or not op.has_tensor_semantics:
            continue
        for side in (0, 1):
            diag = op.inputs[side].defining_op
            if diag is not None and diag.name == "linalg_ext.diag":
                _rewrite(op, side, diag.operands[0])
                if not diag.result.has_uses:
                    diag.erase()
                changed = True
                break
    return changed


def _rewrite(op: StructuredOp, side: int, diagonal: Value) -> None:
    """out += diagonal * other, over the loops of the output: the loop k of the product is that of the diagonal."""
    loops = op.num_loops - 1
    reduction = loops  # the last loop
    row = loops - 2 if side == 0 else loops - 1
    batch = tuple(dim(i) for i in range(loops - 2))
    other = AffineMap(loops, 0, _at_row(op.accesses[1 - side], reduction, row))
    maps = [AffineMap(loops, 0, (*batch, dim(row))), other, AffineMap.identity(loops)]
    if side == 1:
        maps[0], maps[1] = maps[1], maps[0]
    inputs = [diagonal, op.inputs[1]] if side == 0 else [op.inputs[0], diagonal]
    block = Block([element_type(v.type) for v in (*inputs, op.inits[0])])
    body = Builder(block, location=op.operation.location)
    left, right, total = block.arguments
    product = BINARY_FUNCTIONS["mul"](body, cast(body, left, total.type), cast(body, right, total.type))
    body.create("linalg.yield", (BINARY_FUNCTIONS["add"](body, total, product),))
    builder = Builder.before(op.operation)
    new = create_generic(builder, inputs, op.inits, maps, (PARALLEL,) * loops, Region([block]))
    op.operation.replace_all_uses_with(new.results)
    op.operation.erase()


def _at_row(access: Access, reduction: int, row: int) -> tuple[AffineExpr, ...]:
    return tuple(dim(row) if e is None or e is dim(reduction) else e for e in access)
