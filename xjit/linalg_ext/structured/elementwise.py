"""Rows of `generic`, and of the named ops that compute, move or reduce elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xjit.affine import AffineMap
from xjit.affine.pool import dim
from xjit.linalg_ext.ir.attributes import AffineMapAttr, ArrayAttr, EnumAttr, StringAttr
from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.operation import Value
from xjit.linalg_ext.structured.row import PARALLEL, REDUCTION, Accesses, BodyBuilder, StructuredRow
from xjit.linalg_ext.structured.scalars import BINARY_FUNCTIONS, UNARY_FUNCTIONS, cast
from xjit.linalg_ext.structured.view import StructuredOp, attribute_integers, identity_access, shape_of

__all__ = ["ELEMENTWISE_ROWS", "MAPS", "cast_is_signed", "given_accesses", "given_maps"]

MAPS = "indexing_maps"
"""The attribute of ops that are written with their maps; some may be written with it, or without."""


def given_maps(op: StructuredOp) -> list[AffineMap]:
    """Returns the maps that an op is written with."""
    maps = op.operation.attributes.get(MAPS)
    if not isinstance(maps, ArrayAttr):
        raise op.error(f"expects an array of affine maps as attribute '{MAPS}'")
    found: list[AffineMap] = []
    for attribute in maps.elements:
        if not isinstance(attribute, AffineMapAttr) or attribute.map.num_symbols:
            raise op.error(f"expects affine maps without symbols as '{MAPS}', found {attribute}")
        found.append(attribute.map)
    return found


def given_accesses(op: StructuredOp) -> Accesses:
    """Returns the accesses of the maps that an op is written with, each over all of its loops."""
    maps = given_maps(op)
    if len(maps) == len(op.operands):
        for number, each in enumerate(maps):
            if each.num_dims != op.num_loops:
                raise op.error(
                    f"expected indexing_map #{number} to have {op.num_loops} dim(s) to match the number of loops"
                )
    return tuple(each.results for each in maps)


def _generic_iterators(op: StructuredOp) -> tuple[str, ...]:
    kinds = op.operation.attributes.get("iterator_types")
    if not isinstance(kinds, ArrayAttr):
        raise op.error("expects an array as attribute 'iterator_types'")
    result: list[str] = []
    for kind in kinds.elements:
        if not isinstance(kind, StringAttr | EnumAttr):
            raise op.error(f"expects names as 'iterator_types', found {kind}")
        result.append(kind.value)
    return tuple(result)


def _rank(op: StructuredOp) -> int:
    return len(shape_of(op.inits[0]))


def _all_parallel(op: StructuredOp) -> tuple[str, ...]:
    return (PARALLEL,) * _rank(op)


def _identities(op: StructuredOp) -> Accesses:
    """Each operand is read at the index of the loops; scalars are the same everywhere."""
    return tuple(identity_access(len(shape_of(v))) for v in op.operands)


def _check_elementwise(op: StructuredOp) -> None:
    for number, value in enumerate(op.operands):
        if len(shape_of(value)) not in (0, _rank(op)):
            raise op.error(f"operand #{number} has another rank than the output")


def _fill(builder: Builder, op: StructuredOp, elements: Sequence[Value]) -> list[Value]:
    return [cast(builder, elements[0], elements[1].type)]


def _unary(function: str | None) -> BodyBuilder:
    def build(builder: Builder, op: StructuredOp, elements: Sequence[Value]) -> list[Value]:
        name = function or _function_of(op, "exp")
        if name not in UNARY_FUNCTIONS:
            raise op.error(f"has no function '{name}'")
        source, target = elements
        return [UNARY_FUNCTIONS[name](builder, cast(builder, source, target.type, cast_is_signed(op)))]

    return build


def _binary(function: str | None) -> BodyBuilder:
    def build(builder: Builder, op: StructuredOp, elements: Sequence[Value]) -> list[Value]:
        name = function or _function_of(op, "add")
        if name not in BINARY_FUNCTIONS:
            raise op.error(f"has no function '{name}'")
        left, right, target = elements
        signed = cast_is_signed(op)
        return [
            BINARY_FUNCTIONS[name](
                builder, cast(builder, left, target.type, signed), cast(builder, right, target.type, signed)
            )
        ]

    return build


def _elementwise(builder: Builder, op: StructuredOp, elements: Sequence[Value]) -> list[Value]:
    """The function that `kind` names, of as many inputs as it takes."""
    kind = op.operation.attributes.get("kind")
    name = kind.value if isinstance(kind, EnumAttr) else ""
    known = {**dict.fromkeys(UNARY_FUNCTIONS, 1), **dict.fromkeys(BINARY_FUNCTIONS, 2), "select": 3}
    if known.get(name) != len(op.inputs):
        raise op.error(f"has no function '{name}' of {len(op.inputs)} inputs as 'kind'")
    return (_unary(name), _binary(name), _select)[len(op.inputs) - 1](builder, op, elements)


def _elementwise_accesses(op: StructuredOp) -> Accesses:
    return given_accesses(op) if MAPS in op.operation.attributes else _identities(op)


def _check_elementwise_kind(op: StructuredOp) -> None:
    if MAPS not in op.operation.attributes:
        _check_elementwise(op)


def _select(builder: Builder, op: StructuredOp, elements: Sequence[Value]) -> list[Value]:
    return [builder.create("arith.select", elements[:3], (elements[3].type,)).result]


def _function_of(op: StructuredOp, default: str) -> str:
    function = op.operation.attributes.get("fun")
    return function.value if isinstance(function, EnumAttr | StringAttr) else default


def cast_is_signed(op: StructuredOp) -> bool:
    """Whether a named op converts integers as signed numbers: unless it has `cast = #linalg.type_fn<cast_unsigned>`, or
    says so by its name.
    """
    kind = op.operation.attributes.get("cast")
    unsigned = isinstance(kind, EnumAttr) and kind.value == "cast_unsigned"
    return not unsigned and op.operation.name != "linalg.matmul_unsigned"


def _reduce_accesses(op: StructuredOp) -> Accesses:
    rank = len(shape_of(op.inputs[0]))
    reduced = attribute_integers(op.operation, "dimensions")
    if any(not 0 <= d < rank for d in reduced):
        raise op.error(f"dimensions for reduction should be in the range [0, {rank - 1}].")
    kept = tuple(dim(i) for i in range(rank) if i not in reduced)
    return (identity_access(rank),) * len(op.inputs) + (kept,) * len(op.inits)


def _reduce_iterators(op: StructuredOp) -> tuple[str, ...]:
    if not op.inputs:
        raise op.error("expected an input operand, found none")
    reduced = attribute_integers(op.operation, "dimensions")
    return tuple(REDUCTION if i in reduced else PARALLEL for i in range(len(shape_of(op.inputs[0]))))


def _transpose_accesses(op: StructuredOp) -> Accesses:
    """Dimension i of the result is dimension `permutation[i]` of the input; loops are those of the result."""
    permutation = attribute_integers(op.operation, "permutation")
    if sorted(permutation) != list(range(_rank(op))):
        raise op.error(f"permutation is not valid: expected one of {_rank(op)} dimensions, found {list(permutation)}")
    return tuple(dim(permutation.index(i)) for i in range(_rank(op))), identity_access(_rank(op))


def _broadcast_accesses(op: StructuredOp) -> Accesses:
    """`dimensions` are those of the result that the input has not."""
    added = attribute_integers(op.operation, "dimensions")
    return tuple(dim(i) for i in range(_rank(op)) if i not in added), identity_access(_rank(op))


def _parallel_row(
    name: str,
    num_inputs: int | None,
    body: BodyBuilder | None,
    accesses: Callable[[StructuredOp], Accesses] = _identities,
    check: Callable[[StructuredOp], None] = _check_elementwise,
) -> StructuredRow:
    return StructuredRow(f"linalg.{name}", num_inputs, 1, accesses, _all_parallel, body, check=check)


def _differ(a: int | None, b: int | None) -> bool:
    """Whether two sizes are known, and not the same."""
    return a is not None and b is not None and a != b


def _check_transpose(op: StructuredOp) -> None:
    source, target = shape_of(op.inputs[0]), shape_of(op.inits[0])
    for i, axis in enumerate(attribute_integers(op.operation, "permutation")):
        if _differ(target[i], source[axis]):
            raise op.error(
                f"dim(result, {i}) = {target[i]} doesn't match dim(input, permutation[{i}]) = {source[axis]}"
            )


def _check_broadcast(op: StructuredOp) -> None:
    target = shape_of(op.inits[0])
    added = attribute_integers(op.operation, "dimensions")
    kept = [axis for axis in range(len(target)) if axis not in added]
    for i, (size, axis) in enumerate(zip(shape_of(op.inputs[0]), kept)):
        if _differ(size, target[axis]):
            raise op.error(f"input dim {i} should match init dim {axis}. input: {size}, init: {target[axis]}")


def _check_fill(op: StructuredOp) -> None:
    if shape_of(op.inputs[0]):
        raise op.error("expected op with scalar input")
    _check_elementwise(op)


_NAMED_BINARY = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "div": "div",
    "div_unsigned": "div_unsigned",
    "max": "max_signed",
    "min": "min_signed",
    "powf": "powf",
}


def _check_reduce(op: StructuredOp) -> None:
    if len(op.inputs) != len(op.inits):
        raise op.error(f"expected as many outputs as inputs ({len(op.inputs)}), found {len(op.inits)}")
    reduced = attribute_integers(op.operation, "dimensions")
    kept = [n for i, n in enumerate(shape_of(op.inputs[0])) if i not in reduced]
    for init in op.inits:
        if len(kept) == len(shape_of(init)) and any(map(_differ, kept, shape_of(init))):
            found, expected = (", ".join("?" if n is None else str(n) for n in each) for each in (shape_of(init), kept))
            raise op.error(f"init dimensions [{found}] doesn't match input dimensions after reduction [{expected}]")


ELEMENTWISE_ROWS: tuple[StructuredRow, ...] = (
    StructuredRow("linalg.generic", None, None, given_accesses, _generic_iterators),
    StructuredRow("linalg.reduce", None, None, _reduce_accesses, _reduce_iterators, check=_check_reduce),
    _parallel_row("map", None, None),
    _parallel_row("fill", 1, _fill, check=_check_fill),
    _parallel_row("copy", 1, _fill),
    _parallel_row("transpose", 1, _fill, _transpose_accesses, _check_transpose),
    _parallel_row("broadcast", 1, _fill, _broadcast_accesses, _check_broadcast),
    _parallel_row("elementwise", None, _elementwise, _elementwise_accesses, _check_elementwise_kind),
    _parallel_row("elemwise_unary", 1, _unary(None)),
    _parallel_row("elemwise_binary", 2, _binary(None)),
    _parallel_row("select", 3, _select),
    *(_parallel_row(name, 1, _unary(name)) for name in UNARY_FUNCTIONS),
    *(_parallel_row(name, 2, _binary(function)) for name, function in _NAMED_BINARY.items()),
)
"""`generic`, and MLIR's named ops with one element per iteration."""
