"""Simplifies generics: what is unused goes, what is read twice is read once, splats and fills are scalars."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xjit.linalg_ext.ir.attributes import DenseAttr, FloatAttr, IntegerAttr
from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.operation import Operation, OpResult, Value
from xjit.linalg_ext.ir.types import FloatType, TensorType
from xjit.linalg_ext.structured import StructuredOp, shape_of, structured
from xjit.linalg_ext.structured.creation import empty_like
from xjit.linalg_ext.structured.scalars import cast
from xjit.linalg_ext.transforms.elementwise_fusion.draft import Draft, covers_loops
from xjit.linalg_ext.transforms.elementwise_fusion.moving import is_pure

__all__ = ["erase_unused", "simplify_generic"]


def erase_unused(block_ops: Sequence[Operation]) -> bool:
    """Erases operations without effects whose results nobody uses, from the last one on; says if there were any."""
    changed = False
    for op in reversed(block_ops):
        if op.results and is_pure(op) and not any(r.has_uses for r in op.results):
            op.erase()
            changed = True
    return changed


def simplify_generic(operation: Operation) -> Operation | None:
    """Simplifies a generic on tensors; returns the op that takes its place, None if nothing changed.

    An identity is replaced by its inputs, a transpose of a constant by another one: then the op is still there, without
    uses.
    """
    op = structured(operation)
    if not op.has_tensor_semantics or not operation.block:
        return None
    erase_unused(op.body.operations)
    if _replace_identity(op) or _transpose_constant(op):
        return operation
    changed = _inline_scalars(op)
    changed |= _forget_inits(op)
    kept = _kept_results(op)
    sources = _merged_inputs(op)
    op = structured(operation)
    if len(kept) == len(op.inits) and sources == list(range(len(op.inputs))):
        return operation if changed else None
    return _rebuilt(op, sources, kept)


def _replace_identity(op: StructuredOp) -> bool:
    """An op that yields inputs where they are: its results are those inputs."""
    if op.reduction_loops or len(op.body.operations) != 1:
        return False
    arguments = op.body.arguments
    values: list[Value] = []
    for number, (value, init) in enumerate(zip(op.yielded, op.inits)):
        index = arguments.index(value) if value in arguments else len(op.inputs)  # type: ignore[arg-type]
        written = op.indexing_maps[len(op.inputs) + number]
        if index >= len(op.inputs) or op.indexing_maps[index] != written or not written.is_permutation:
            return False
        if op.inputs[index].type != init.type:
            return False
        values.append(op.inputs[index])
    if not any(r.has_uses for r in op.operation.results):
        return False
    op.operation.replace_all_uses_with(values)
    return True


def _transpose_constant(op: StructuredOp) -> bool:
    """An op that yields the elements of a constant in another order is that constant."""
    if op.reduction_loops or (len(op.inputs), len(op.inits)) != (1, 1) or op.yielded[0] is not op.body.arguments[0]:
        return False
    source, t = op.inputs[0].defining_op, op.inits[0].type
    constant = source.attributes.get("value") if source is not None and source.name == "arith.constant" else None
    read, written = op.indexing_maps
    if not isinstance(constant, DenseAttr) or constant.is_splat or not isinstance(t, TensorType) or None in t.shape:
        return False
    if not (read.is_permutation and written.is_permutation and op.operation.result.has_uses):
        return False
    axis_of = {e.position: axis for axis, e in enumerate(read.results)}
    shape = [n or 0 for n in shape_of(op.inputs[0])]
    order = [axis_of[e.position] for e in written.results]
    places = np.arange(len(constant.values)).reshape(shape).transpose(order)
    turned = DenseAttr(tuple(constant.values[i] for i in places.ravel().tolist()), t)
    op.operation.replace_all_uses_with([Builder.before(op.operation).constant(turned, t)])
    return True


def _inline_scalars(op: StructuredOp) -> bool:
    """Inputs that have the same element everywhere are used in the body as scalars.

    Not if nothing else says how long a loop is: then the input stays anyway.
    """
    changed = False
    operands = list(zip(op.operands, op.indexing_maps))
    for number, argument in enumerate(op.body.arguments[: len(op.inputs)]):
        if not argument.has_uses or not covers_loops([*operands[:number], *operands[number + 1 :]], op.num_loops):
            continue
        scalar = _scalar_of(op, op.inputs[number])
        if scalar is None:
            continue
        argument.replace_all_uses_with(cast(Builder.before(op.operation), scalar, argument.type))
        changed = True
    return changed


def _scalar_of(op: StructuredOp, value: Value) -> Value | None:
    source = value.defining_op
    if source is None:
        return None
    if source.name == "linalg.fill":
        return source.operands[0]
    if not isinstance(value.type, TensorType):
        return value if source.name == "arith.constant" else None
    constant = source.attributes.get("value") if source.name == "arith.constant" else None
    if not isinstance(constant, DenseAttr) or not constant.is_splat:
        return None
    element = constant.type.element
    number = constant.values[0]
    if isinstance(number, complex):
        return None
    attribute = (
        FloatAttr(float(number), element) if isinstance(element, FloatType) else IntegerAttr(int(number), element)
    )
    return Builder.before(op.operation).constant(attribute, element)


def _forget_inits(op: StructuredOp) -> bool:
    """Inits of parallel ops that are written without being read are new empty tensors: nothing depends on them."""
    if op.reduction_loops:
        return False
    changed = False
    for number, init in enumerate(op.inits):
        is_empty = isinstance(init, OpResult) and init.owner.name == "tensor.empty"
        if not is_empty and not op.reads_init(number):
            op.operation.set_operand(len(op.inputs) + number, empty_like(Builder.before(op.operation), init))
            changed = True
    return changed


def _kept_results(op: StructuredOp) -> list[int]:
    """Returns the results that are used, or whose inits the body needs; at least one."""
    kept = [i for i, r in enumerate(op.operation.results) if r.has_uses or op.reads_init(i)]
    return kept or [0]


def _merged_inputs(op: StructuredOp) -> list[int]:
    """Returns the inputs that stay: used ones, each once. The others' arguments are replaced."""
    sources: list[int] = []
    for i, argument in enumerate(op.body.arguments[: len(op.inputs)]):
        same = next(
            (j for j in sources if op.inputs[j] is op.inputs[i] and op.indexing_maps[j] == op.indexing_maps[i]), None
        )
        if same is not None:
            argument.replace_all_uses_with(op.body.arguments[same])
        elif argument.has_uses:
            sources.append(i)
    return sources


def _rebuilt(op: StructuredOp, sources: list[int], kept: list[int]) -> Operation | None:
    """Makes the op again with some of its operands; all inputs stay if else the loops had no length."""
    count = len(op.inputs)
    inits = [(op.inits[i], op.indexing_maps[count + i]) for i in kept]
    inputs = [(op.inputs[i], op.indexing_maps[i]) for i in sources]
    if not covers_loops([*inputs, *inits], op.num_loops):
        return None
    new, block = Draft(op.iterator_types, inputs, inits).build(Builder.before(op.operation))
    arguments = op.body.arguments
    pairs = zip((*(arguments[i] for i in sources), *(arguments[count + i] for i in kept)), block.arguments)
    mapping: dict[Value, Value] = dict(pairs)
    body = Builder(block, location=op.operation.location)
    for inner in op.body.operations[:-1]:
        body.clone(inner, mapping)
    body.create("linalg.yield", [mapping.get(op.yielded[i], op.yielded[i]) for i in kept])
    erase_unused(block.operations)
    for number, i in enumerate(kept):
        op.operation.results[i].replace_all_uses_with(new.results[number])
    op.operation.erase()
    return new
