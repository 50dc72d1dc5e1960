"""The pass `linalg-fuse-elementwise-ext`: applies the rewrites of this folder until none does anything."""

from __future__ import annotations

from xjit.linalg_ext.ir.operation import Block, Operation, OpResult
from xjit.linalg_ext.structured import as_structured, structured
from xjit.linalg_ext.structured.creation import origin_of_sizes
from xjit.linalg_ext.transforms.elementwise_fusion.cleanup import erase_unused, simplify_generic
from xjit.linalg_ext.transforms.elementwise_fusion.expansion import expand_consumer, expand_producer
from xjit.linalg_ext.transforms.elementwise_fusion.producers import fuse_producer
from xjit.linalg_ext.transforms.elementwise_fusion.reshape_folding import fold_reshape
from xjit.linalg_ext.transforms.elementwise_fusion.siblings import fuse_siblings
from xjit.linalg_ext.transforms.single_ops.generalize import generalize

__all__ = ["fuse_elementwise", "remove_aliases", "simplify_dims"]


def fuse_elementwise(module: Operation, shared_input: bool = False, diff_shapes: bool = False) -> bool:
    """Fuses elementwise generics on tensors with what reads them, `linalg.map` included; says if anything changed.

    Intermediates that others read become results. Reshapes between two ops are moved out of the way. `shared_input`:
    also ops that read the same tensor become one. `diff_shapes`: results of one op may differ in shape.
    """
    changed = False
    for block in _blocks(module):
        changed |= _convert_maps(block)
        sweeps = 10 + 4 * len(
            block.operations
        )  # each does away with an op, moves a reshape or simplifies: a bound far away
        while _sweep(block, diff_shapes) or (shared_input and _sweep_siblings(block)):
            changed, sweeps = True, sweeps - 1
            assert sweeps, "elementwise fusion does not settle"
    changed |= remove_aliases(module)
    simplify_dims(module)
    return changed


def _blocks(module: Operation) -> list[Block]:
    """Returns the blocks of functions, loops and branches, not the bodies of structured ops."""
    parents = [op for op in module.walk() if as_structured(op) is None]
    return [block for op in parents for region in op.regions for block in region.blocks]


def _convert_maps(block: Block) -> bool:
    maps = [op for op in block.operations if op.name == "linalg.map" and structured(op).has_tensor_semantics]
    for op in maps:
        generalize(op)
    return bool(maps)


def _sweep(block: Block, diff_shapes: bool) -> bool:
    """Visits each operation once, in order; a generic until nothing more can be fused into it."""
    changed = False
    for op in block.operations:
        if op.block is not block:
            continue
        if op.name in ("tensor.collapse_shape", "tensor.expand_shape"):
            changed |= fold_reshape(op) or (op.name == "tensor.expand_shape" and expand_producer(op) is not None)
        elif op.name == "linalg.generic":
            changed |= _visit(op, diff_shapes)
    return erase_unused(block.operations) or changed


def _visit(op: Operation, diff_shapes: bool) -> bool:
    """Simplifies a generic, and fuses into it what it reads, as long as that is possible."""
    changed = False
    while True:
        simplified = simplify_generic(op)
        changed |= simplified is not None
        op = simplified or op
        fused = _fuse_one(op, diff_shapes) if any(r.has_uses for r in op.results) else None
        if fused is None:
            return changed
        op, changed = fused, True


def _fuse_one(op: Operation, diff_shapes: bool) -> Operation | None:
    for use in op.op_operands[: len(structured(op).inputs)]:
        if not isinstance(use.value, OpResult):
            continue
        fused = fuse_producer(use, diff_shapes) or expand_consumer(op, use.index)
        if fused is not None:
            return fused
    return None


def _sweep_siblings(block: Block) -> bool:
    """Fuses ops that read the same value, for all arguments and results that several generics read."""
    changed = False
    for op in block.operations:
        if op.block is not block or op.name != "linalg.generic":
            continue
        for value in dict.fromkeys(structured(op).inputs):
            if op.block is block and fuse_siblings(value) is not None:
                changed = True
    return changed


def remove_aliases(module: Operation) -> bool:
    """Replaces each `linalg_ext.alias` by what it is another name of."""
    aliases = [op for op in module.walk() if op.name == "linalg_ext.alias"]
    for op in aliases:
        op.result.replace_all_uses_with(op.operands[0])
        op.erase()
    return bool(aliases)


def simplify_dims(module: Operation) -> bool:
    """Sizes of results of structured ops are asked of what these were written into; says if any was."""
    changed = False
    for op in module.walk():
        if op.name == "tensor.dim":
            origin = origin_of_sizes(op.operands[0])
            if origin is not op.operands[0]:
                op.set_operand(0, origin)
                changed = True
    return changed
