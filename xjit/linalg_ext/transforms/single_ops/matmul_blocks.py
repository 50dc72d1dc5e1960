"""Matrix products by blocks of threads: the passes `canonicalize-matmul-epilogue` and `linalg-promotion`.

Both look into functions marked `__byteir_matmul_epilogue_fusion__` with one `scf.forall` that is mapped to blocks
(`#gpu.block<x>`), in which one product runs over its summed dimension in an `scf.for`.
"""

from __future__ import annotations

from collections.abc import Iterator

from xjit.affine import AffineMap
from xjit.linalg_ext.ir import (
    ArrayAttr,
    Attribute,
    Builder,
    DenseArrayAttr,
    MemRefType,
    OpaqueAttr,
    Operation,
    StringAttr,
    UnitAttr,
    Value,
)
from xjit.linalg_ext.rewrite.effects import is_pure
from xjit.linalg_ext.structured import PARALLEL, as_structured, structured
from xjit.linalg_ext.structured.creation import create_generic
from xjit.linalg_ext.transforms.building_blocks.index_values import IndexBuilder
from xjit.linalg_ext.transforms.building_blocks.slices import create_view
from xjit.linalg_ext.transforms.building_blocks.tiles import whole_tile
from xjit.linalg_ext.transforms.single_ops.generalize import generic_body

__all__ = ["canonicalize_matmul_epilogues", "promote_matmuls"]

_FUNCTION = "__byteir_matmul_epilogue_fusion__"
_EPILOGUE = "__byteir_epilogue__"
_PRODUCT = "__byteir_mma__"
_TRANSFORM = "__internal_linalg_transform__"
_COPY = StringAttr("__byteir_copy_related_to_workgroup_memory__")
_WORKGROUP = OpaqueAttr("#gpu.address_space<workgroup>")
_BUFFERS = ("__byteir_alloca_matrix_a__", "__byteir_alloca_matrix_b__", "__byteir_alloca_accumulator__")
_COPIES = ("__byteir_load_matrix_a__", "__byteir_load_matrix_b__", "__byteir_store_matrix_c__")
_MATMULS = ("linalg.matmul", "linalg.batch_matmul")


def _block_loops(module: Operation) -> Iterator[Operation]:
    """The loop over blocks of each marked function that has exactly one."""
    for function in [op for op in module.walk() if op.name == "func.func" and _FUNCTION in op.attributes]:
        loops = [op for op in function.walk() if op.name == "scf.forall" and _is_mapped_to_blocks(op)]
        if len(loops) == 1:
            yield loops[0]


def _is_mapped_to_blocks(loop: Operation) -> bool:
    mapping = loop.attributes.get("mapping")
    found = mapping.elements if isinstance(mapping, ArrayAttr) else ()
    return any(str(each).startswith("#gpu.block<") for each in found)


def canonicalize_matmul_epilogues(module: Operation) -> None:
    """The pass `canonicalize-matmul-epilogue`, on tensors.

    The generic marked `__byteir_epilogue__` that reads a block's product is computed into the product instead of into
    another tensor; and what the body of the loop over blocks takes from the empty tensor outside, it takes from the
    shared output that begins with it, as each block has a part of its own. So neither needs a second buffer.
    """
    for loop in _block_loops(module):
        epilogues = [op for op in loop.walk() if op.name == "linalg.generic" and _EPILOGUE in op.attributes]
        if len(epilogues) != 1:
            continue
        _compute_in_place(epilogues[0])
        outputs = loop.body.arguments[len(loop.body.arguments) - len(loop.results) :]
        for shared, init in zip(outputs, loop.operands[len(loop.operands) - len(loop.results) :]):
            if init.defining_op is not None and init.defining_op.name == "tensor.empty":
                init.replace_uses_if(shared, lambda use, body=loop.body: use.owner.block is body)


def _compute_in_place(epilogue: Operation) -> None:
    """An elementwise op whose init nobody reads is computed into its input from a loop or product of that shape."""
    op = structured(epilogue)
    if len(op.inits) != 1 or op.reads_init(0) or not op.is_elementwise:
        return
    out = op.indexing_maps[-1]
    for number, (value, m) in enumerate(zip(op.inputs, op.indexing_maps)):
        if _is_product(value) and m == out and value.type == op.inits[0].type:
            _drop_input(epilogue, number, value)
            return


def _is_product(value: Value) -> bool:
    maker = value.defining_op
    return maker is not None and (maker.name in ("scf.for", *_MATMULS) or _PRODUCT in maker.attributes)


def _drop_input(epilogue: Operation, number: int, product: Value) -> None:
    op = structured(epilogue)
    inputs = [v for i, v in enumerate(op.inputs) if i != number]
    maps = [m for i, m in enumerate(op.indexing_maps) if i != number]
    region = generic_body(op)
    arguments = region.block.arguments
    arguments[number].replace_all_uses_with(arguments[len(op.inputs)])
    region.block.erase_argument(number)
    new = create_generic(Builder.before(epilogue), inputs, [product], maps, op.iterator_types, region)
    new.attributes.update({k: a for k, a in epilogue.attributes.items() if k not in new.attributes})
    epilogue.replace_all_uses_with(new.results)
    epilogue.erase()


def promote_matmuls(module: Operation) -> None:
    """The pass `linalg-promotion`, on memrefs.

    The tiles of a block's product lie in the memory that the block's threads share: those of both factors are copied
    there in each step of the loop over the summed dimension, behind which the sum is copied back, or read by the
    epilogue that would have read the copy. Products whose tiles are no views of known sizes stay as they are.
    """
    for loop in _block_loops(module):
        products = [op for op in loop.walk() if op.name in _MATMULS]
        if len(products) == 1:
            _promote(products[0], loop)


def _promote(product: Operation, blocks: Operation) -> None:
    op = as_structured(product)
    steps = product.parent_op
    if op is None or op.has_tensor_semantics or steps is None or steps.name != "scf.for" or steps.parent_op != blocks:
        return
    views = [v if _is_static_view(v, blocks) else None for v in op.operands]
    for number, view in enumerate(views[:2]):
        if view is not None:
            builder = Builder.before(product)
            tile = _in_shared_memory(builder, view, blocks, number)
            product.set_operand(number, tile)
            _copy(builder, view, tile, number)
    if views[2] is not None and _begins_filled(views[2], product, steps):
        tile = _in_shared_memory(Builder.before(steps), views[2], blocks, 2)
        product.set_operand(2, tile)
        behind = Builder.after(steps)
        behind.create("gpu.barrier")
        _read_instead(_copy(behind, tile, views[2], 2))
    Builder.before(product).create("gpu.barrier")


def _is_static_view(value: Value, blocks: Operation) -> bool:
    maker = value.defining_op
    if maker is None or maker.name != "memref.subview" or not blocks.is_ancestor_of(maker):
        return False
    return isinstance(value.type, MemRefType) and None not in value.type.shape


def _begins_filled(view: Value, product: Operation, steps: Operation) -> bool:
    """Whether a view is filled before the loop, and otherwise used behind it and by the product only."""
    fills = [use.owner for use in view.uses if use.owner.name == "linalg.fill"]
    others = [use.owner for use in view.uses if use.owner not in (*fills, product)]
    return (
        len(fills) == 1
        and fills[0].block is steps.block
        and fills[0].is_before(steps)
        and all(user.block is steps.block and steps.is_before(user) for user in others)
    )


def _in_shared_memory(builder: Builder, view: Value, blocks: Operation, number: int) -> Value:
    """Returns a buffer of a view's shape, seen as a view; what fills the view fills the buffer."""
    assert isinstance(view.type, MemRefType)
    first = blocks.body.first
    assert first is not None
    kind = MemRefType(view.type.shape, view.type.element, None, _WORKGROUP)
    attributes: dict[str, Attribute] = {_BUFFERS[number]: UnitAttr(), "operandSegmentSizes": DenseArrayAttr.i32((0, 0))}
    buffer = Builder.before(first).create("memref.alloc", (), (kind,), attributes).result
    view.replace_uses_if(buffer, lambda use: use.owner.name == "linalg.fill")
    return create_view(builder, buffer, whole_tile(IndexBuilder(builder), buffer))


def _copy(builder: Builder, source: Value, target: Value, number: int) -> Operation:
    marks: dict[str, Attribute] = {_COPIES[number]: UnitAttr(), _TRANSFORM: _COPY}
    segments = {"operandSegmentSizes": DenseArrayAttr.i32((1, 1))}
    return builder.create("linalg.copy", (source, target), (), {**marks, **segments})


def _read_instead(copy: Operation) -> None:
    """The generic that updates in place what a copy has just written reads the copy's source: then there is no copy."""
    source, target = copy.operands
    block = copy.block
    consumer = None if block is None else block.next_of(copy)
    while consumer is not None and is_pure(consumer):
        consumer = None if block is None else block.next_of(consumer)
    if consumer is None or consumer.name != "linalg.generic":
        return
    op = structured(consumer)
    out = op.indexing_maps[-1]
    if len(op.inits) != 1 or op.inits[0] is not target or out != AffineMap.identity(op.num_loops):
        return
    maps = (*op.indexing_maps[:-1], out, out)
    region = generic_body(op)
    region.block.add_argument(region.block.arguments[-1].type)
    iterators = [PARALLEL] * op.num_loops
    new = create_generic(Builder.before(consumer), (*op.inputs, source), op.inits, maps, iterators, region)
    new.attributes.update({k: a for k, a in consumer.attributes.items() if k not in new.attributes})
    new.attributes[_TRANSFORM] = _COPY
    consumer.erase()
    copy.erase()
