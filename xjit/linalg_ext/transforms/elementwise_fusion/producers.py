"""Fuses an elementwise generic into a generic that reads its results."""

from __future__ import annotations

from xjit.affine import AffineMap, dim
from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.operation import Operation, OpOperand, OpResult, Value
from xjit.linalg_ext.structured import StructuredOp, shape_of, structured
from xjit.linalg_ext.transforms.elementwise_fusion.draft import Draft, Operand, copy_body, covers_loops
from xjit.linalg_ext.transforms.elementwise_fusion.moving import dependents_before, move_behind

__all__ = ["fuse_producer", "inverse_permutation", "is_yield_only"]


def is_yield_only(op: StructuredOp) -> bool:
    """Whether the body computes nothing: broadcasts, transposes, copies."""
    return len(op.body.operations) == 1


def inverse_permutation(m: AffineMap) -> AffineMap:
    """Returns the inverse of a permutation of dims."""
    inverse = [0] * m.num_dims
    for position, e in enumerate(m.results):
        inverse[e.position] = position
    return AffineMap(m.num_dims, 0, tuple(dim(i) for i in inverse))


def fuse_producer(use: OpOperand, diff_shapes: bool = False) -> Operation | None:
    """Fuses the generic whose result an operand is into the generic that has the operand; returns the new generic.

    Results of the producer that others use become results of the new op, and their users are moved behind it. None if
    the two do not fit: the producer must have parallel loops only and write the result once per element; all operands
    of the consumer that come from it must ask for the same elements in an iteration. Unless `diff_shapes`, results
    with other users must have the shape of the consumer's.
    """
    if not isinstance(use.value, OpResult) or use.value.owner.name != "linalg.generic":
        return None
    producer, consumer = structured(use.value.owner), structured(use.owner)
    if producer.operation.block is not consumer.operation.block or not _are_fusable(producer, consumer, use):
        return None
    loops = _producer_loops(producer, consumer, use)
    if loops is None:
        return None
    results = producer.operation.results
    kept = [i for i, r in enumerate(results) if any(u is not use.owner for u in r.users)]
    if kept and not diff_shapes and not (loops.is_permutation and _same_shapes(producer, consumer, kept)):
        return None
    if loops.is_permutation:  # what is updated in place is written by the fused op, too
        kept = [i for i in range(len(results)) if i in kept or producer.reads_init(i)]
    elif not kept and not consumer.reduction_loops and not _covers(producer, consumer, loops, kept):
        kept = list(range(len(results)))  # the results say how long the loops are
    moved = dependents_before([producer.operation.results[i] for i in kept], consumer.operation)
    if moved is None:
        return None
    fused = _build(producer, consumer, loops, kept)
    if fused is not None:
        move_behind(moved, fused)
        _replace(producer, consumer, kept, fused)
    return fused


def _are_fusable(producer: StructuredOp, consumer: StructuredOp, use: OpOperand) -> bool:
    if not (producer.has_tensor_semantics and consumer.has_tensor_semantics) or producer.reduction_loops:
        return False
    if use.index >= len(consumer.inputs) or is_yield_only(consumer):
        return False
    if any(_is_from(value, producer) for value in consumer.inits):  # updated in place: it must be there
        return False
    written = producer.indexing_maps[len(producer.inputs) + _result_index(use.value)]
    return written.is_permutation


def _result_index(value: Value) -> int:
    assert isinstance(value, OpResult)
    return value.index


def _producer_loops(producer: StructuredOp, consumer: StructuredOp, use: OpOperand) -> AffineMap | None:
    """Returns the producer's loops in those of the consumer, None if operands of the consumer disagree about them."""
    loops: AffineMap | None = None
    for value, read in zip(consumer.inputs, consumer.indexing_maps):
        if not isinstance(value, OpResult) or value.owner is not producer.operation:
            continue
        written = producer.indexing_maps[len(producer.inputs) + value.index]
        if not written.is_permutation:
            return None
        found = inverse_permutation(written).compose(read)
        if loops is not None and found != loops:
            return None
        loops = found
    return loops


def _same_shapes(producer: StructuredOp, consumer: StructuredOp, kept: list[int]) -> bool:
    shape = sorted(consumer.loop_ranges, key=str)
    return all(sorted(shape_of(producer.inits[i]), key=str) == shape for i in kept)


def _operands(
    producer: StructuredOp, consumer: StructuredOp, loops: AffineMap, kept: list[int]
) -> tuple[list[Operand], list[Operand]]:
    """Returns inputs and inits of the fused op: those of the producer, then those of the consumer.

    An init that the producer reads is an input, if its result is not kept.
    """
    count = len(producer.inputs)
    maps = [m.compose(loops) for m in producer.indexing_maps]
    inputs: list[Operand] = list(zip(producer.inputs, maps))
    inputs += [(producer.inits[i], maps[count + i]) for i in _read_inits(producer, kept)]
    pairs = zip(consumer.inputs, consumer.indexing_maps)
    inputs += [(value, m) for value, m in pairs if not _is_from(value, producer)]
    inits = [(producer.inits[i], maps[count + i]) for i in kept]
    inits += zip(consumer.inits, consumer.indexing_maps[len(consumer.inputs) :])
    return inputs, inits


def _read_inits(producer: StructuredOp, kept: list[int]) -> list[int]:
    return [i for i in range(len(producer.inits)) if i not in kept and producer.reads_init(i)]


def _covers(producer: StructuredOp, consumer: StructuredOp, loops: AffineMap, kept: list[int]) -> bool:
    inputs, inits = _operands(producer, consumer, loops, kept)
    return covers_loops([*inputs, *inits], consumer.num_loops)


def _build(producer: StructuredOp, consumer: StructuredOp, loops: AffineMap, kept: list[int]) -> Operation | None:
    """Makes the fused op before the consumer, None if its operands do not say how long its loops are."""
    count = len(producer.inputs)
    read = _read_inits(producer, kept)
    others = [i for i, v in enumerate(consumer.inputs) if not _is_from(v, producer)]
    inputs, inits = _operands(producer, consumer, loops, kept)
    if not covers_loops([*inputs, *inits], consumer.num_loops):
        return None
    fused, block = Draft(consumer.iterator_types, inputs, inits).build(Builder.before(consumer.operation))
    body = Builder(block, location=consumer.operation.location)
    arguments = iter(block.arguments)
    mapping: dict[Value, Value] = {}
    source, target = producer.body.arguments, consumer.body.arguments
    mapping.update((source[i], next(arguments)) for i in (*range(count), *(count + i for i in read)))
    mapping.update((target[i], next(arguments)) for i in others)
    mapping.update((source[count + i], next(arguments)) for i in kept)
    mapping.update(zip(target[len(consumer.inputs) :], arguments))
    yielded = copy_body(body, producer, mapping, loops)
    for i, value in enumerate(consumer.inputs):
        if _is_from(value, producer):
            mapping[target[i]] = yielded[_result_index(value)]
    results = copy_body(body, consumer, mapping, AffineMap.identity(consumer.num_loops))
    body.create("linalg.yield", [*(yielded[i] for i in kept), *results])
    return fused


def _is_from(value: Value, producer: StructuredOp) -> bool:
    return isinstance(value, OpResult) and value.owner is producer.operation


def _replace(producer: StructuredOp, consumer: StructuredOp, kept: list[int], fused: Operation) -> None:
    old = [*(producer.operation.results[i] for i in kept), *consumer.operation.results]
    for result, new in zip(old, fused.results):
        result.replace_uses_if(new, lambda use: use.owner is not consumer.operation)
    consumer.operation.erase()
    producer.operation.erase()
