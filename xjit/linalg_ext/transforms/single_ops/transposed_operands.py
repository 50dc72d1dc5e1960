"""Products whose operands are transposed first: matmuls and convolutions, by the named ops that read them so."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.linalg_ext.ir import Builder, DenseArrayAttr, LinalgError, Operation, TensorType, Value
from xjit.linalg_ext.transforms.building_blocks.index_values import IndexBuilder
from xjit.linalg_ext.transforms.building_blocks.slices import create_empty

__all__ = ["transpose_conv2d", "transpose_matmul"]

_MATMULS = ("linalg.matmul", "linalg.batch_matmul")
_CONVOLUTIONS = {
    "linalg.conv_2d_nhwc_fhwc": "linalg.conv_2d_nhwc_hwcf",
    "linalg.conv_2d_nhwc_fhwc_q": "linalg.conv_2d_nhwc_hwcf_q",
}


def transpose_matmul(op: Operation, operand: int = 0) -> Operation:
    """Replaces a matmul, or a batch of them, by the one that reads `operand` (0 or 1) transposed; returns that.

    LinalgError, with the operation's place, for other operations, on memrefs, and with maps of their own.
    """
    if op.name not in _MATMULS or not op.results or "indexing_maps" in op.attributes:
        raise LinalgError(f"'{op.name}' op is no matmul or batch_matmul on tensors: cannot transpose", op.location)
    rank = _rank(op.operands[operand])
    order = [*range(rank - 2), rank - 1, rank - 2]
    return _with_transposed(op, f"{op.name}_transpose_{'ab'[operand]}", operand, order)


def transpose_conv2d(op: Operation) -> Operation:
    """Replaces a convolution with features first in its window by the one with features last; returns that."""
    if op.name not in _CONVOLUTIONS or not op.results:
        wanted = " or ".join(name.removeprefix("linalg.") for name in _CONVOLUTIONS)
        raise LinalgError(f"'{op.name}' op is no {wanted} on tensors", op.location)
    return _with_transposed(op, _CONVOLUTIONS[op.name], 1, [1, 2, 3, 0])


def _rank(value: Value) -> int:
    assert isinstance(value.type, TensorType)
    return value.type.rank


def _with_transposed(op: Operation, name: str, number: int, order: Sequence[int]) -> Operation:
    source = op.operands[number]
    assert isinstance(source.type, TensorType)
    index = IndexBuilder(Builder.before(op))
    empty = create_empty(index.builder, [index.dim_of(source, d) for d in order], source.type)
    attributes = {"permutation": DenseArrayAttr.i64(order)}
    transposed = index.builder.create("linalg.transpose", (source, empty), (empty.type,), attributes).result
    operands = [transposed if n == number else value for n, value in enumerate(op.operands)]
    made = index.builder.create(name, operands, op.result_types, op.attributes, location=op.location)
    op.replace_all_uses_with(made.results)
    op.erase()
    return made
