"""The memref dialect: buffers, views of them, and their elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xjit.linalg_ext.dialects.assembly import op
from xjit.linalg_ext.dialects.definition import CustomAssembly, make_rows
from xjit.linalg_ext.dialects.scf import ensure_terminator
from xjit.linalg_ext.dialects.tensor import (
    SLICE,
    cast_row,
    check_dynamic_sizes,
    check_indices,
    dim_row,
    reshape_rows,
    slice_row,
)
from xjit.linalg_ext.ir.attributes import (
    AffineMapAttr,
    DenseAttr,
    OpaqueAttr,
    StringAttr,
    TypeAttr,
    UnitAttr,
)
from xjit.linalg_ext.ir.errors import LinalgVerifyError
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.ir.types import MemRefType, TensorType

if TYPE_CHECKING:
    from xjit.linalg_ext.text.parser import Parser, ParseState
    from xjit.linalg_ext.text.printer import Printer

__all__ = ["MEMREF_ROWS"]

_GLOBAL = frozenset({"sym_visibility", "constant", "sym_name", "type", "initial_value"})


def parse_global(p: Parser, state: ParseState) -> None:
    """Parses `"private" constant @name : memref<2xf32> = dense<..>`; the elements have the memref's type."""
    if p.token.kind == "string":
        state.attributes["sym_visibility"] = StringAttr(p.string())
    if p.accept("constant"):
        state.attributes["constant"] = UnitAttr()
    state.attributes["sym_name"] = StringAttr(p.symbol_name())
    p.expect(":")
    place = p.here()
    type = p.type()
    if not isinstance(type, MemRefType):
        p.fail(f"expected a memref, found {type}", place)
    state.attributes["type"] = TypeAttr(type)
    if p.accept("="):
        elements = TensorType(type.shape, type.element)
        state.attributes["initial_value"] = UnitAttr() if p.accept("uninitialized") else p.attribute(elements)
    state.attributes.update(p.optional_dictionary())


def print_global(p: Printer, op: Operation) -> None:
    visibility, name = op.attributes.get("sym_visibility"), op.attributes.get("sym_name")
    type, value = op.attributes.get("type"), op.attributes.get("initial_value")
    p.write(f" {p.attribute(visibility)}" if visibility is not None else "")
    p.write(" constant" if "constant" in op.attributes else "")
    p.write(f" @{name.value if isinstance(name, StringAttr) else '?'} : {type}")
    if isinstance(value, UnitAttr):
        p.write(" = uninitialized")
    elif value is not None:
        p.write(f" = {p.attribute(value).rsplit(' : ', 1)[0]}")
    p.optional_dictionary(op, _GLOBAL)


def check_global(op: Operation) -> None:
    """The elements are written out, or are not there yet."""
    visibility, value = op.attributes.get("sym_visibility"), op.attributes.get("initial_value")
    if not isinstance(visibility, StringAttr | None) or not isinstance(value, UnitAttr | DenseAttr | OpaqueAttr | None):
        raise LinalgVerifyError(f"'{op.name}' op is {visibility}, and begins with {value}", op.location)


def parse_transpose(p: Parser, state: ParseState) -> None:
    """Parses `%m (i, j) -> (j, i) : type to type`."""
    source = p.operand()
    state.attributes["permutation"] = AffineMapAttr(p.affine_map())
    state.attributes.update(p.optional_dictionary())
    p.expect(":")
    state.operands = [p.resolve(source, p.type())]
    p.expect("to")
    state.result_types = [p.type()]


def print_transpose(p: Printer, op: Operation) -> None:
    map = op.attributes["permutation"]
    p.write(f" {p.value(op.operands[0])} {map.map if isinstance(map, AffineMapAttr) else map}")
    p.optional_dictionary(op, frozenset({"permutation"}))
    p.write(f" : {p.type(op.operands[0].type)} to {p.type(op.result.type)}")


def check_transpose(op: Operation) -> None:
    """A permutation of the dimensions."""
    map, source = op.attributes.get("permutation"), op.operands[0].type
    permuted = map.map.num_dims if isinstance(map, AffineMapAttr) and map.map.is_permutation else -1
    if not isinstance(source, MemRefType) or permuted != source.rank:
        raise LinalgVerifyError(f"'{op.name}' op: {map} is no permutation of the dimensions of {source}", op.location)


def parse_scope(p: Parser, state: ParseState) -> None:
    """Parses `-> (types) {region}`."""
    state.result_types = p.arrow_types()
    state.regions = [p.region()]
    if not state.result_types:
        ensure_terminator(state.regions[0], "memref.alloca_scope.return")
    state.attributes.update(p.optional_dictionary())


def print_scope(p: Printer, op: Operation) -> None:
    p.write(f"  -> ({', '.join(map(p.type, op.result_types))}) " if op.results else "  ")
    p.region(op.regions[0], terminator=bool(op.results))
    p.optional_dictionary(op)


def parse_metadata(p: Parser, state: ParseState) -> None:
    """Parses `%m : type -> types`."""
    source = p.operand()
    state.attributes.update(p.optional_dictionary())
    p.expect(":")
    state.operands = [p.resolve(source, p.type())]
    p.expect("->")
    state.result_types = p.type_list()


def print_metadata(p: Printer, op: Operation) -> None:
    p.write(f" {p.value(op.operands[0])}")
    p.optional_dictionary(op)
    p.write(f" : {p.type(op.operands[0].type)} -> {', '.join(map(p.type, op.result_types))}")


def check_metadata(op: Operation) -> None:
    """A size and a stride per dimension."""
    source = op.operands[0].type
    if not isinstance(source, MemRefType) or len(op.results) != 2 + 2 * source.rank:
        raise LinalgVerifyError(f"'{op.name}' op has {len(op.results)} results for {source}", op.location)


MEMREF_ROWS = make_rows(
    *(
        op(
            f"memref.{name}",
            "dynamicSizes* index;symbolOperands* index",
            "memref",
            "( %dynamicSizes ) { [ %symbolOperands ] }?symbolOperands attrs : type(memref)",
            traits="allocates",
            result_names=(name,),
            check=check_dynamic_sizes,
        )
        for name in ("alloc", "alloca")
    ),
    op("memref.dealloc", "memref", "", "%memref attrs : type(memref)"),
    op(
        "memref.load",
        "memref;indices* index",
        "result element memref",
        "%memref [ %indices ] attrs : type(memref)",
        check=check_indices,
    ),
    op(
        "memref.store",
        "value element memref;memref;indices* index",
        "",
        "%value , %memref [ %indices ] attrs : type(memref)",
        check=check_indices,
    ),
    op("memref.copy", "source;target", "", "%source , %target attrs : type(source) to type(target)"),
    op(
        "memref.global",
        assembly=CustomAssembly(parse_global, print_global),
        traits="symbol",
        needs="string(sym_name) type(type)",
        check=check_global,
    ),
    op("memref.get_global", "", "result", "symbol(name) attrs : type(result)", traits="pure"),
    slice_row("memref.subview", "subview"),
    dim_row("memref.dim"),
    op("memref.rank", "memref", "result index", "%memref attrs : type(memref)", traits="pure"),
    *reshape_rows("memref", ("expand_shape", "collapse_shape")),
    cast_row("memref.cast", "cast"),
    cast_row("memref.memory_space_cast", "memspacecast"),
    op(
        "memref.reinterpret_cast",
        f"source;{SLICE}",
        "result",
        "%source to offset: indices(offsets, static_offsets) , sizes: indices(sizes, static_sizes) , strides:"
        " indices(strides, static_strides) attrs : type(source) to type(result)",
        traits="pure",
        result_names=("reinterpret_cast",),
    ),
    op(
        "memref.reshape",
        "source;shape",
        "result",
        "%source ( %shape ) attrs : functional",
        traits="pure",
        result_names=("reshape",),
    ),
    op(
        "memref.view",
        "source;byte_shift index;sizes* index",
        "result",
        "%source [ %byte_shift ] ~ [ %sizes ] attrs : type(source) to type(result)",
        traits="pure",
        result_names=("view",),
    ),
    op(
        "memref.transpose",
        "source",
        "result",
        assembly=CustomAssembly(parse_transpose, print_transpose),
        needs="map(permutation)",
        traits="pure",
        result_names=("transpose",),
        check=check_transpose,
    ),
    op(
        "memref.extract_strided_metadata",
        "source",
        "base_buffer;offset index;sizes* index;strides* index",
        assembly=CustomAssembly(parse_metadata, print_metadata),
        traits="pure",
        result_names=("base_buffer", "offset", "sizes", "strides"),
        check=check_metadata,
    ),
    op(
        "memref.extract_aligned_pointer_as_index",
        "source",
        "aligned_pointer",
        "%source attrs : type(source) -> type(aligned_pointer)",
        traits="pure",
        result_names=("intptr",),
    ),
    op(
        "memref.realloc",
        "source;dynamicResultSize? index",
        "result",
        "%source { ( %dynamicResultSize ) }?dynamicResultSize attrs : type(source) to type(result)",
    ),
    op(
        "memref.alloca_scope",
        "",
        "results*",
        assembly=CustomAssembly(parse_scope, print_scope),
        traits="recursive",
        regions=1,
    ),
    op(
        "memref.alloca_scope.return",
        "results*",
        "",
        "attrs { %results : type(results) }?results",
        traits="pure terminator",
    ),
    op("memref.assume_alignment", "memref", "", "%memref , i64(alignment) attrs : type(memref)"),
)
