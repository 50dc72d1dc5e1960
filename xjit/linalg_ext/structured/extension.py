"""Rows of ByteIR's extension ops: diag, scan, scatter, softmax, topk, batch_matmul, layer_norm, custom; and of MLIR's
own softmax, which carries nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine.expr import AffineExpr
from xjit.affine.pool import dim
from xjit.linalg_ext.ir.attributes import StringAttr
from xjit.linalg_ext.ir.types import IndexType, IntegerType, Shape, element_type
from xjit.linalg_ext.structured.contractions import multiply_add
from xjit.linalg_ext.structured.row import PARALLEL, REDUCTION, Access, Accesses, StructuredRow
from xjit.linalg_ext.structured.view import StructuredOp, attribute_integers, identity_access, shape_of

__all__ = ["EXTENSION_ROWS", "axis_of"]


def _input_shape(op: StructuredOp) -> Shape:
    if not op.inputs:
        raise op.error("expected an input operand, found none")
    return shape_of(op.inputs[0])


def axis_of(op: StructuredOp) -> int:
    """Returns the attribute `dimension`, checked against the rank of the input."""
    axis = attribute_integers(op.operation, "dimension")[0]
    rank = len(_input_shape(op))
    if not 0 <= axis < rank:
        raise op.error(f"dimension exceeds rank: {axis}, for an input of rank {rank}")
    return axis


def _along_axis(op: StructuredOp) -> tuple[str, ...]:
    """All loops are parallel but that along `dimension`."""
    axis = axis_of(op)
    return tuple(REDUCTION if i == axis else PARALLEL for i in range(len(_input_shape(op))))


def _without(rank: int, axes: tuple[int, ...]) -> tuple[AffineExpr, ...]:
    return tuple(dim(i) for i in range(rank) if i not in axes)


def _check_ranks(op: StructuredOp, names: str) -> None:
    """All outputs but the first have a dimension less than the input."""
    rank = len(_input_shape(op))
    if any(len(shape_of(init)) != rank - 1 for init in op.inits[1:]):
        raise op.error(f"expected {names} rank to be equal to input rank - 1")
    if len(shape_of(op.inits[0])) != rank:
        raise op.error("expected input/output to have identical ranks")


def _check_shapes(op: StructuredOp, names: str) -> None:
    """The first output has the shape of the input, the others that of the input without `dimension`."""
    shape, axis = _input_shape(op), axis_of(op)
    kept = [n for i, n in enumerate(shape) if i != axis]
    for init in op.inits[1:]:
        if _incompatible(kept, shape_of(init)):
            raise op.error(f"incompatible input/{names} shapes")
    if _incompatible(shape, shape_of(op.inits[0])):
        raise op.error("incompatible input/output shapes")


def _incompatible(a: Sequence[int | None], b: Sequence[int | None]) -> bool:
    return any(m is not None and n is not None and m != n for m, n in zip(a, b))


_SOFTMAX_OUTPUTS = "max/accumulator/scale"


def _softmax_accesses(op: StructuredOp) -> Accesses:
    rank = len(_input_shape(op))
    _check_ranks(op, _SOFTMAX_OUTPUTS)
    kept = _without(rank, (axis_of(op),))
    return identity_access(rank), identity_access(rank), kept, kept, kept


def _plain_softmax_accesses(op: StructuredOp) -> Accesses:
    return (identity_access(len(_input_shape(op))),) * 2


def _scan_accesses(op: StructuredOp) -> Accesses:
    rank = len(_input_shape(op))
    _check_ranks(op, "accumulator")
    return identity_access(rank), identity_access(rank), _without(rank, (axis_of(op),))


def _topk_accesses(op: StructuredOp) -> Accesses:
    """Results have all k elements of `dimension`, whatever part of the input an iteration sees."""
    rank, axis = len(_input_shape(op)), axis_of(op)
    result: Access = tuple(None if i == axis else dim(i) for i in range(rank))
    return (identity_access(rank),) * len(op.inputs) + (result,) * len(op.inits)


def _scatter_accesses(op: StructuredOp) -> Accesses:
    """Loops are those of the updates: first the batch, then a window of the source, whose other dimensions are data."""
    if not _input_shape(op):
        raise op.error("the rank of indices must at least be one")
    batch = len(_input_shape(op)) - 1
    updates = len(shape_of(op.inputs[1]))
    depth = len(shape_of(op.inits[0])) - (updates - batch)
    indices: Access = (*(dim(i) for i in range(batch)), None)
    source: Access = (*((None,) * max(depth, 0)), *(dim(i) for i in range(batch, updates)))
    return indices, identity_access(updates), source


def _scatter_iterators(op: StructuredOp) -> tuple[str, ...]:
    """Indices may repeat, so the batch is a reduction."""
    batch, updates = len(_input_shape(op)) - 1, len(shape_of(op.inputs[1]))
    return (REDUCTION,) * batch + (PARALLEL,) * (updates - batch)


def _diag_accesses(op: StructuredOp) -> Accesses:
    rank = len(_input_shape(op)) + 1
    return identity_access(rank - 1), identity_access(rank)


def _diag_iterators(op: StructuredOp) -> tuple[str, ...]:
    return (PARALLEL,) * (len(_input_shape(op)) + 1)


def _check_diag(op: StructuredOp) -> None:
    rows, columns = shape_of(op.inits[0])[-2:]
    if rows is not None and columns is not None and rows != columns:
        raise op.error(f"expected square matrices, found {rows} rows and {columns} columns")
    _check_elements(op)


def _layout(op: StructuredOp) -> str:
    layout = op.operation.attributes.get("layout")
    if not isinstance(layout, StringAttr) or layout.value not in ("nn", "nt", "tn", "tt"):
        raise op.error(f"expected batch_matmul layout to be among nn, nt, tn, tt, found {layout}")
    return layout.value


def _batch_matmul_accesses(op: StructuredOp) -> Accesses:
    """Loops: the batch dimensions, m, n, k."""
    loops = len(shape_of(op.inits[0])) + 1
    m, n, k = (dim(loops - 3 + i) for i in range(3))
    batch = tuple(dim(i) for i in range(loops - 3))
    left, right = _layout(op)
    return (
        (*batch, *((m, k) if left == "n" else (k, m))),
        (*batch, *((k, n) if right == "n" else (n, k))),
        (*batch, m, n),
    )


def _check_batch_matmul(op: StructuredOp) -> None:
    batch = len(shape_of(op.inits[0])) - 2
    left, right, out = (shape_of(v) for v in op.operands)
    if _incompatible(left[:batch], right) or _incompatible(left[:batch], out):
        raise op.error("batch size' dimension sizes don't match")
    loops: dict[AffineExpr | None, int] = {}
    for shape, access in zip((left, right, out), op.accesses):
        for size, loop in zip(shape[batch:], access[batch:]):
            if size is not None and loops.setdefault(loop, size) != size:
                raise op.error("batch matmul dimension mismatch")


def _batch_matmul_iterators(op: StructuredOp) -> tuple[str, ...]:
    return (PARALLEL,) * len(shape_of(op.inits[0])) + (REDUCTION,)


def _axes(op: StructuredOp) -> tuple[int, ...]:
    axes, rank = attribute_integers(op.operation, "axis"), len(_input_shape(op))
    if any(not 0 <= axis < rank for axis in axes) or len(set(axes)) != len(axes):
        raise op.error(f"axis {list(axes)} is no list of dimensions of an input of rank {rank}")
    return axes


def _layer_norm_accesses(op: StructuredOp) -> Accesses:
    """Weight and bias have the dimensions `axis`; mean and reciprocal standard deviation the others."""
    rank, axes = len(_input_shape(op)), _axes(op)
    if any(len(shape_of(v)) != len(axes) for v in op.inputs[1:]):
        raise op.error("expected weight/bias rank to be equal to axis size")
    if len(shape_of(op.inits[0])) != rank:
        raise op.error("expected input/output to have identical ranks")
    normalized = tuple(dim(i) for i in axes)
    inputs = (identity_access(rank), normalized, normalized)[: len(op.inputs)]
    outputs = (identity_access(rank), _without(rank, axes), _without(rank, axes))[: len(op.inits)]
    return (*inputs, *outputs)


def _layer_norm_iterators(op: StructuredOp) -> tuple[str, ...]:
    axes = _axes(op)
    return tuple(REDUCTION if i in axes else PARALLEL for i in range(len(_input_shape(op))))


def _check_layer_norm(op: StructuredOp) -> None:
    for what, operands in (("input", op.inputs), ("output", op.inits)):
        if len(operands) not in (1, 3):
            raise op.error(f"expected one or three {what} operands, found {len(operands)}")
    if len({element_type(v.type) for v in op.operands}) > 1:
        raise op.error("expected input/weight/bias/output element types to be identical")
    shape = _input_shape(op)
    if any(_incompatible([shape[axis] for axis in _axes(op)], shape_of(v)) for v in op.inputs[1:]):
        raise op.error("incompatible input/weight/bias shapes")
    if _incompatible(shape, shape_of(op.inits[0])):
        raise op.error("incompatible input/output shapes")


def _check_elements(op: StructuredOp) -> None:
    """All operands have the elements of the input."""
    kind = element_type(op.inputs[0].type)
    for number, value in enumerate(op.operands):
        if element_type(value.type) != kind:
            raise op.error(f"operand #{number} has elements {element_type(value.type)}, the input {kind}")


def _check_combiner(op: StructuredOp, result: str, count: int = 2) -> None:
    """The region takes two elements and yields one."""
    arguments = [str(a.type) for a in op.body.arguments]
    kind = str(element_type(op.inits[0].type))
    if arguments != [kind] * count:
        raise op.error(f"expected a region with {count} arguments of type {kind}, found ({', '.join(arguments)})")
    last = op.body.last
    if last is None or [str(v.type) for v in last.operands] != [result]:
        raise op.error(f"expected the region to yield one {result}")


def _check_softmax(op: StructuredOp) -> None:
    if len({element_type(value.type) for value in op.operands}) > 1:
        raise op.error("expected input/max/accumulator/scale/output element types to be identical")
    _check_shapes(op, _SOFTMAX_OUTPUTS)


def _check_scan(op: StructuredOp) -> None:
    kind = element_type(op.inputs[0].type)
    for name, init in (("accumulator", op.inits[1]), ("output", op.inits[0])):
        if element_type(init.type) != kind:
            raise op.error(f"expected input/{name} element types to be identical")
    _check_shapes(op, "accumulator")
    _check_combiner(op, str(element_type(op.inits[0].type)))


def _check_scatter(op: StructuredOp) -> None:
    indices, updates, source = (shape_of(v) for v in op.operands)
    if element_type(op.inputs[1].type) != element_type(op.inits[0].type):
        raise op.error("expected update/src element types to be identical")
    if not isinstance(element_type(op.inputs[0].type), IntegerType | IndexType):
        raise op.error("expected indices element type to be int or index")
    depth, window = indices[-1], len(updates) - len(indices) + 1
    if window < 0 or _incompatible(indices[:-1], updates):
        raise op.error("expected the first `indicesRank - 1` dimensions of indices/update to be compatible")
    if len(source) < window or _incompatible(updates[len(indices) - 1 :], source[len(source) - window :]):
        raise op.error("expected the last `updateRank - indicesRank +1` dimensions of update/src to be compatible")
    if depth is None:
        raise op.error("the last dimension of indices must be static")
    if depth + window != len(source):
        raise op.error(
            "expected rank of src to be equal to `dim(indices, rank(indices) - 1) + rank(update) - rank(indices) + 1`"
        )
    if len(op.body.arguments) != 2:
        raise op.error("expected body to have two arguments")
    if any(a.type != element_type(op.inits[0].type) for a in op.body.arguments):
        raise op.error("expected body arguments to be the same element type with src/update")
    _check_combiner(op, str(element_type(op.inits[0].type)))


def _check_topk(op: StructuredOp) -> None:
    if len(op.inputs) not in (1, 2):
        raise op.error(f"expected one or two input operands, found {len(op.inputs)}")
    if element_type(op.inputs[0].type) != element_type(op.inits[0].type):
        raise op.error("expected input/output value types to be identical")
    shape, values, places = _input_shape(op), *map(shape_of, op.inits)
    if len(values) != len(shape):
        raise op.error("expected input/output to have the same rank")
    positions = shape_of(op.inputs[-1])
    if len(positions) != len(shape) or _incompatible(shape, positions):
        raise op.error("input indices/values shape must match")
    if len(places) != len(values) or _incompatible(values, places):
        raise op.error("output indices/values shape must match")
    axis = axis_of(op)
    if any(_incompatible([n], [m]) for i, (n, m) in enumerate(zip(shape, values)) if i != axis):
        raise op.error("incompatible input/output shapes")
    if any(not isinstance(element_type(v.type), IntegerType | IndexType) for v in (*op.inputs[1:], op.inits[1])):
        raise op.error("expected indices to have integer elements")
    _check_combiner(op, "i1")


def _never(op: StructuredOp, number: int) -> bool:
    return False


def _always(op: StructuredOp, number: int) -> bool:
    return True


def _reads_max_and_accumulator(op: StructuredOp, number: int) -> bool:
    return number in (1, 2)


def _reads_accumulator(op: StructuredOp, number: int) -> bool:
    return number == 1


def _custom_accesses(op: StructuredOp) -> Accesses:
    """Nothing is known of it: each iteration, of which there is one, takes everything."""
    return tuple((None,) * len(shape_of(value)) for value in op.operands)


def _no_loops(op: StructuredOp) -> tuple[str, ...]:
    return ()


EXTENSION_ROWS: tuple[StructuredRow, ...] = (
    StructuredRow(
        "linalg_ext.softmax",
        1,
        4,
        _softmax_accesses,
        _along_axis,
        pointwise=False,
        check=_check_softmax,
        reads_init=_reads_max_and_accumulator,
    ),
    StructuredRow(
        "linalg.softmax",
        1,
        1,
        _plain_softmax_accesses,
        _along_axis,
        pointwise=False,
        check=_check_elements,
        reads_init=_never,
    ),
    StructuredRow(
        "linalg_ext.scan",
        1,
        2,
        _scan_accesses,
        _along_axis,
        pointwise=False,
        check=_check_scan,
        reads_init=_reads_accumulator,
    ),
    StructuredRow(
        "linalg_ext.topk",
        None,
        2,
        _topk_accesses,
        _along_axis,
        pointwise=False,
        check=_check_topk,
        reads_init=_always,
    ),
    StructuredRow(
        "linalg_ext.scatter",
        2,
        1,
        _scatter_accesses,
        _scatter_iterators,
        pointwise=False,
        check=_check_scatter,
        reads_init=_always,
    ),
    StructuredRow(
        "linalg_ext.diag",
        1,
        1,
        _diag_accesses,
        _diag_iterators,
        pointwise=False,
        check=_check_diag,
        reads_init=_never,
    ),
    StructuredRow(
        "linalg_ext.layer_norm",
        None,
        None,
        _layer_norm_accesses,
        _layer_norm_iterators,
        pointwise=False,
        check=_check_layer_norm,
        reads_init=_never,
    ),
    StructuredRow(
        "linalg_ext.custom",
        None,
        None,
        _custom_accesses,
        _no_loops,
        pointwise=False,
        reads_init=_always,
    ),
    StructuredRow(
        "linalg_ext.batch_matmul",
        2,
        1,
        _batch_matmul_accesses,
        _batch_matmul_iterators,
        multiply_add,
        check=_check_batch_matmul,
    ),
)
"""The extension ops. `pointwise` is false where the definition is the evaluation (`xjit/linalg_ext/evaluation`)."""
