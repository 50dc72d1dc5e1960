"""Accesses of memrefs beside loads and stores: atomic updates of elements, and prefetches by indices or by a map."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xjit.linalg_ext.dialects.affine_subscripts import parse_subscripts, subscripts_text
from xjit.linalg_ext.dialects.assembly import op
from xjit.linalg_ext.dialects.definition import CustomAssembly, make_rows
from xjit.linalg_ext.ir.attributes import AffineMapAttr, BoolAttr, IntegerAttr
from xjit.linalg_ext.ir.errors import LinalgVerifyError
from xjit.linalg_ext.ir.operation import Operation, Value
from xjit.linalg_ext.ir.types import IndexType, IntegerType, MemRefType, element_type

if TYPE_CHECKING:
    from xjit.linalg_ext.text.parser import Parser, ParseState, Unresolved
    from xjit.linalg_ext.text.printer import Printer

__all__ = ["MEMREF_ACCESS_ROWS"]


def _check_indices(op: Operation, memref: int) -> None:
    """An index per dimension of the operand number `memref`."""
    kind, found = op.operands[memref].type, len(op.operands) - memref - 1
    if not isinstance(kind, MemRefType) or kind.rank != found:
        raise LinalgVerifyError(f"'{op.name}' op has {found} indices of {kind}", op.location)


def check_atomic(op: Operation) -> None:
    """The value is an element."""
    value, memref = op.operands[:2]
    _check_indices(op, 1)
    if value.type != element_type(memref.type):
        raise LinalgVerifyError(f"'{op.name}' op has a value of {value.type} for {memref.type}", op.location)


def parse_atomic_body(p: Parser, state: ParseState) -> None:
    """Parses `%m[%i] : type {^bb0(%old: f32): ...}`."""
    memref = p.operand()
    indices = p.operand_list("[", "]")
    state.attributes.update(p.optional_dictionary())
    p.expect(":")
    place = p.here()
    type = p.type()
    if not isinstance(type, MemRefType):
        p.fail(f"expected a memref, found {type}", place)
    state.operands = [p.resolve(memref, type), *(p.resolve(i, IndexType()) for i in indices)]
    state.result_types = [type.element]
    state.regions = [p.region()]
    state.attributes.update(p.optional_dictionary())


def print_atomic_body(p: Printer, op: Operation) -> None:
    memref, *indices = op.operands
    p.write(f" {p.value(memref)}[{', '.join(map(p.value, indices))}] : {p.type(memref.type)} ")
    p.region(op.regions[0])
    p.optional_dictionary(op)


def check_atomic_body(op: Operation) -> None:
    """The body makes a new element of the old one."""
    arguments = [a.type for a in op.body.arguments]
    if arguments != [op.result.type] or op.body.last is None or op.body.terminator.name != "memref.atomic_yield":
        raise LinalgVerifyError(f"'{op.name}' op expects a body of {op.result.type} that yields one", op.location)
    _check_indices(op, 0)


_PREFETCH = frozenset({"isWrite", "localityHint", "isDataCache", "map"})


def parse_prefetch(p: Parser, state: ParseState) -> None:
    """Parses `%m[%i], read, locality<3>, data : type`; of affine with a map in the brackets."""
    memref = p.operand()
    unresolved: list[Unresolved] = []
    indices: list[Value] = []
    if state.name.startswith("affine."):
        map, indices = parse_subscripts(p)
        state.attributes["map"] = AffineMapAttr(map)
    else:
        unresolved = p.operand_list("[", "]")
    p.expect(",")
    state.attributes["isWrite"] = BoolAttr(_word(p, "read", "write") == "write")
    p.expect(",")
    p.expect("locality")
    place = p.here()
    hints = p.comma_list("<", ">", p.integer)
    if len(hints) != 1 or not 0 <= hints[0] <= 3:
        p.fail(f"expected a locality between 0 and 3, found {hints}", place)
    state.attributes["localityHint"] = IntegerAttr(hints[0], IntegerType(32))
    p.expect(",")
    state.attributes["isDataCache"] = BoolAttr(_word(p, "data", "instr") == "data")
    state.attributes.update(p.optional_dictionary())
    p.expect(":")
    state.operands = [p.resolve(memref, p.type()), *(p.resolve(i, IndexType()) for i in unresolved), *indices]


def _word(p: Parser, *choices: str) -> str:
    if not p.at(*choices):
        p.fail(f"expected {' or '.join(map(repr, choices))}, found {p.describe()}")
    return p.next().text


def print_prefetch(p: Printer, op: Operation) -> None:
    memref, *indices = op.operands
    map, hint = op.attributes.get("map"), op.attributes["localityHint"]
    write, data = (op.attributes[name] == BoolAttr(True) for name in ("isWrite", "isDataCache"))
    assert isinstance(hint, IntegerAttr)
    if isinstance(map, AffineMapAttr):
        at = subscripts_text(p, map.map, tuple(indices))
    else:
        at = f"[{', '.join(p.value(i) for i in indices)}]"
    p.write(f" {p.value(memref)}{at}, {'write' if write else 'read'}, locality<{hint.value}>")
    p.write(f", {'data' if data else 'instr'}")
    p.optional_dictionary(op, _PREFETCH)
    p.write(f" : {p.type(memref.type)}")


def check_prefetch(op: Operation) -> None:
    """An index per dimension, or a map with a result per dimension and an operand per dim and symbol."""
    map, kind, hint = op.attributes.get("map"), op.operands[0].type, op.attributes["localityHint"]
    if not isinstance(hint, IntegerAttr) or not 0 <= hint.value <= 3:
        raise LinalgVerifyError(f"'{op.name}' op expects a locality between 0 and 3, found {hint}", op.location)
    if not isinstance(map, AffineMapAttr):
        _check_indices(op, 0)
        return
    expected = 1 + map.map.num_dims + map.map.num_symbols
    if not isinstance(kind, MemRefType) or len(map.map.results) != kind.rank or len(op.operands) != expected:
        raise LinalgVerifyError(f"'{op.name}' op has {len(op.operands)} operands, {map} of {kind}", op.location)


_PREFETCH_NEEDS = "bool(isWrite) i64(localityHint) bool(isDataCache)"

MEMREF_ACCESS_ROWS = make_rows(
    op(
        "memref.atomic_rmw",
        "value;memref;indices* index",
        "result =value",
        "atomic(kind) %value , %memref [ %indices ] attrs : _ ( type(value, memref) ) -> type(result)",
        check=check_atomic,
    ),
    op(
        "memref.generic_atomic_rmw",
        "memref;indices* index",
        "result element memref",
        assembly=CustomAssembly(parse_atomic_body, print_atomic_body),
        regions=1,
        check=check_atomic_body,
    ),
    op("memref.atomic_yield", "result", "", "%result attrs : type(result)", traits="pure terminator"),
    *(
        op(
            f"{dialect}.prefetch",
            "memref;indices* index",
            "",
            assembly=CustomAssembly(parse_prefetch, print_prefetch),
            needs=f"{_PREFETCH_NEEDS}{more}",
            check=check_prefetch,
        )
        for dialect, more in (("memref", ""), ("affine", " map(map)"))
    ),
)
