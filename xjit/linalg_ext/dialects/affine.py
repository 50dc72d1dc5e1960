"""The affine dialect: index arithmetic by maps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xjit.affine import AffineMap
from xjit.linalg_ext.dialects.assembly import op
from xjit.linalg_ext.dialects.definition import DYNAMIC, CustomAssembly, make_rows
from xjit.linalg_ext.ir.attributes import AffineMapAttr, DenseArrayAttr
from xjit.linalg_ext.ir.errors import LinalgVerifyError
from xjit.linalg_ext.ir.operation import Operation, Value
from xjit.linalg_ext.ir.types import IndexType

if TYPE_CHECKING:
    from xjit.linalg_ext.text.parser import Parser, ParseState
    from xjit.linalg_ext.text.printer import Printer

__all__ = ["AFFINE_ROWS", "is_symbol", "map_of"]

INDEX = IndexType()


def map_of(op: Operation) -> AffineMap:
    """Returns the map of `affine.apply`, `affine.min`, `affine.max`."""
    attribute = op.attributes.get("map")
    if not isinstance(attribute, AffineMapAttr):
        raise LinalgVerifyError(f"'{op.name}' op needs a map, found {attribute}", op.location)
    return attribute.map


def is_symbol(value: Value) -> bool:
    """Whether maps take a value as a symbol: it is the same in all loops of its function, or computed from such."""
    op, block = value.defining_op, value.parent_block
    around = None if block is None else block.parent_op
    if around is not None and around.name == "func.func":
        return True
    if op is None:
        return False
    computed = op.name in ("affine.apply", "tensor.dim", "memref.dim") and all(is_symbol(v) for v in op.operands)
    return computed or op.name == "arith.constant"


def parse_mapped(p: Parser, state: ParseState) -> None:
    """Parses `#map(%d0)[%s0]`."""
    place = p.here()
    attribute = p.attribute()
    if not isinstance(attribute, AffineMapAttr):
        p.fail("expected an affine map", place)
    dims = p.operand_list()
    symbols = p.operand_list("[", "]") if p.at("[") else []
    if len(dims) != attribute.map.num_dims or len(symbols) != attribute.map.num_symbols:
        p.fail(f"expected {attribute.map.num_dims} dims and {attribute.map.num_symbols} symbols", place)
    state.operands = [p.resolve(u, INDEX) for u in (*dims, *symbols)]
    state.attributes.update(p.optional_dictionary())
    state.attributes["map"] = attribute
    state.result_types = [INDEX]


def print_mapped(p: Printer, op: Operation) -> None:
    map = map_of(op)
    dims, symbols = op.operands[: map.num_dims], op.operands[map.num_dims :]
    p.write(f" {p.attribute(op.attributes['map'])}({', '.join(p.value(v) for v in dims)})")
    if symbols:
        p.write(f"[{', '.join(p.value(v) for v in symbols)}]")
    p.optional_dictionary(op, frozenset({"map"}))


def check_mapped(op: Operation) -> None:
    map = map_of(op)
    if len(op.operands) != map.num_dims + map.num_symbols:
        raise LinalgVerifyError(f"'{op.name}' op has {len(op.operands)} operands, but map {map}", op.location)
    if not map.results or (op.name == "affine.apply" and len(map.results) != 1):
        raise LinalgVerifyError(f"'{op.name}' op has a map with {len(map.results)} results", op.location)


def _check_basis(op: Operation, count: int, what: str) -> None:
    """The first number of a basis may be left out: nothing is divided by it."""
    basis = op.attributes["static_basis"]
    size = len(basis.ints) if isinstance(basis, DenseArrayAttr) else -1
    if count - size not in (0, 1) or count == 0:
        raise LinalgVerifyError(f"'{op.name}' op has {count} {what} for a basis of {size} numbers", op.location)


def check_delinearize(op: Operation) -> None:
    """A result per number of the basis, of type index."""
    _check_basis(op, len(op.results), "results")
    if any(t != INDEX for t in op.result_types):
        raise LinalgVerifyError(f"'{op.name}' op gives indices, found {op.result_types[0]}", op.location)


def check_linearize(op: Operation) -> None:
    """An index per number of the basis."""
    basis = op.attributes["static_basis"]
    dynamic = basis.ints.count(DYNAMIC) if isinstance(basis, DenseArrayAttr) else 0
    _check_basis(op, len(op.operands) - dynamic, "indices")


AFFINE_ROWS = make_rows(
    *(
        op(
            name,
            "operands* index",
            "result index",
            assembly=CustomAssembly(parse_mapped, print_mapped),
            needs="map(map)",
            traits="pure",
            check=check_mapped,
        )
        for name in ("affine.apply", "affine.min", "affine.max")
    ),
    op(
        "affine.delinearize_index",
        "linear_index index;dynamic_basis* index",
        "multi_index*",
        "%linear_index into basis(dynamic_basis, static_basis) attrs : type(multi_index)",
        traits="pure",
        check=check_delinearize,
    ),
    op(
        "affine.linearize_index",
        "multi_index* index;dynamic_basis* index",
        "linear_index",
        "{ disjoint(disjoint) }?disjoint _ [ %multi_index ] by basis(dynamic_basis, static_basis) attrs"
        " : type(linear_index)",
        traits="pure",
        check=check_linearize,
    ),
    op("affine.yield", "operands*", "", "attrs { %operands : type(operands) }?operands", traits="pure terminator"),
)
