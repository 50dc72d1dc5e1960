"""Operations of scripts on structured ops, loops aside: the syntax of `transform.structured`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from xjit.linalg_ext.dialects.assembly import op
from xjit.linalg_ext.dialects.attribute_kinds import DYNAMIC, integer_array
from xjit.linalg_ext.dialects.definition import HANDLE, SEGMENTS, CustomAssembly, OpDefinition
from xjit.linalg_ext.dialects.handle_syntax import handle_types, handles_row, print_handle_types
from xjit.linalg_ext.dialects.transform_packing import PACKING_SCRIPT_ROWS
from xjit.linalg_ext.ir.attributes import ArrayAttr, Attribute, BoolAttr, DenseArrayAttr, IntegerAttr
from xjit.linalg_ext.ir.errors import LinalgVerifyError
from xjit.linalg_ext.ir.operation import Operation, Value
from xjit.linalg_ext.ir.types import FunctionType

if TYPE_CHECKING:
    from xjit.linalg_ext.text.parser import Parser, ParseState
    from xjit.linalg_ext.text.printer import Printer

__all__ = ["STRUCTURED_SCRIPT_ROWS"]


def _mixed_list(p: Parser, attributes: dict[str, Attribute], name: str) -> list[Value]:
    """Parses `[4, %size]` into an attribute and values; brackets inside mark scalable sizes, which are refused."""
    values: list[Value] = []
    static: list[int] = []

    def one() -> None:
        if p.token.kind == "value":
            values.append(p.resolve(p.operand(), None))
            static.append(DYNAMIC)
            if p.accept(":"):
                p.type()
        elif p.at("["):
            p.fail("scalable tile sizes are not supported: vectors have fixed lengths")
        else:
            static.append(p.integer())

    p.comma_list("[", "]", one)
    attributes[name] = DenseArrayAttr.i64(static)
    return values


def _check_sizes(name: str) -> Callable[[Operation], None]:
    """The rule that all operands but the first stand where the list says `DYNAMIC`."""

    def check(op: Operation) -> None:
        static = op.attributes[name]
        expected = static.ints.count(DYNAMIC) if isinstance(static, DenseArrayAttr) else 0
        if len(op.operands) != 1 + expected:
            raise LinalgVerifyError(
                f"'{op.name}' op has {len(op.operands) - 1} values for {name} {static}", op.location
            )

    return check


def _mixed_text(p: Printer, attribute: Attribute | None, values: list[Value]) -> str:
    ints = attribute.ints if isinstance(attribute, DenseArrayAttr) else ()
    return f"[{', '.join(p.value(values.pop(0)) if v == DYNAMIC else str(v) for v in ints)}]"


def _integers(attribute: Attribute) -> Attribute:
    """Returns `array<i64: ...>` for `[1, 0]` in a dictionary."""
    if isinstance(attribute, ArrayAttr) and all(isinstance(e, IntegerAttr) for e in attribute.elements):
        return DenseArrayAttr.i64([e.value for e in attribute.elements if isinstance(e, IntegerAttr)])
    return attribute


def _count_loops(attribute: Attribute, none: tuple[int, ...] = (0,)) -> int:
    """Returns how many of the sizes make a loop; those in `none` do not."""
    attribute = _integers(attribute)
    return sum(1 for v in attribute.ints if v not in none) if isinstance(attribute, DenseArrayAttr) else 0


def parse_tile(p: Parser, state: ParseState) -> None:
    """Parses `%0 [4, %s] {interchange = [1, 0]} : types`: a handle of the tiled op, and one per loop."""
    target = p.resolve(p.operand(), None)
    p.accept("tile_sizes")
    sizes = _mixed_list(p, state.attributes, "static_sizes")
    if p.accept("interchange"):
        p.expect("=")
        state.attributes["interchange"] = DenseArrayAttr.i64(p.comma_list("[", "]", p.integer))
    for name, value in p.optional_dictionary().items():
        state.attributes[name] = _integers(value)
    state.operands = [target, *sizes]
    state.result_types = handle_types(p, state, state.operands, 1 + _count_loops(state.attributes["static_sizes"]))


def print_tile(p: Printer, op: Operation) -> None:
    target, *sizes = op.operands
    word = "tile_sizes " if op.name.endswith("tile_using_for") else ""
    p.write(f" {p.value(target)} {word}{_mixed_text(p, op.attributes.get('static_sizes'), sizes)}")
    interchange = op.attributes.get("interchange")
    if isinstance(interchange, DenseArrayAttr) and interchange.values:
        p.write(f" {{interchange = [{', '.join(map(str, interchange.ints))}]}}")
    p.optional_dictionary(op, frozenset({"interchange", "static_sizes", SEGMENTS}))
    print_handle_types(p, op)


def _counted(name: str, operands: str, sizes: str, none: tuple[int, ...] = (0,)) -> OpDefinition:
    """The row of an op that takes handles and a dictionary, with a loop per number in `sizes` not in `none`."""

    def _results(attributes: Mapping[str, Attribute]) -> int:
        """A parallel loop is one for all sizes."""
        loops = _count_loops(attributes[sizes], none)
        forall = attributes.get("use_forall", BoolAttr(False)) != BoolAttr(False)
        return 1 + (min(loops, 1) if forall else loops)

    def parse(p: Parser, state: ParseState) -> None:
        names = [p.operand()]
        while p.accept(","):
            names.append(p.operand())
        state.operands = p.resolve_all(names, None)
        if p.accept(sizes) or p.at("["):
            state.attributes[sizes] = integer_array(p.comma_list("[", "]", p.integer))
        if p.accept("interchange"):
            p.accept("=")
            state.attributes["tile_interchange"] = integer_array(p.comma_list("[", "]", p.integer))
        state.attributes.update(p.optional_dictionary())
        if sizes not in state.attributes:
            p.fail(f"expected '{sizes}' attribute", state.span)
        count = _results(state.attributes)
        state.result_types = handle_types(p, state, state.operands, count)

    def show(p: Printer, op: Operation) -> None:
        p.write(f" {', '.join(map(p.value, op.operands))}")
        p.optional_dictionary(op)
        print_handle_types(p, op)

    def check(op: Operation) -> None:
        expected = _results(op.attributes)
        if len(op.results) != expected:
            raise LinalgVerifyError(f"'{op.name}' op has {len(op.results)} results, expected {expected}", op.location)

    return op(
        f"transform.structured.{name}",
        operands,
        "transformed;loops*",
        assembly=CustomAssembly(parse, show),
        result_names=("transformed", "loops"),
        needs=f"dense_integers({sizes})",
        check=check,
    )


def parse_loops(p: Parser, state: ParseState) -> None:
    """Parses `%0 [0, -1]`: a handle per listed loop."""
    state.operands = [p.resolve(p.operand(), None)]
    ids = p.comma_list("[", "]", p.integer) if p.at("[") else []
    state.attributes["loop_ids"] = DenseArrayAttr.i64(ids)
    state.attributes.update(p.optional_dictionary())
    state.result_types = handle_types(p, state, state.operands, len(ids))


def print_loops(p: Printer, op: Operation) -> None:
    ids = op.attributes["loop_ids"]
    assert isinstance(ids, DenseArrayAttr)
    p.write(f" {p.value(op.operands[0])} [{', '.join(map(str, ids.ints))}]")
    p.optional_dictionary(op, frozenset({"loop_ids"}))
    print_handle_types(p, op)


def check_loops(op: Operation) -> None:
    ids = op.attributes["loop_ids"]
    if isinstance(ids, DenseArrayAttr) and len(ids.ints) != len(op.results):
        raise LinalgVerifyError(f"'{op.name}' op has {len(op.results)} results for loops {list(ids.ints)}", op.location)


def parse_split(p: Parser, state: ParseState) -> None:
    """Parses `%0 after 42 {dimension = 0}`, or `after %1`: one handle of all parts, or two."""
    state.operands = [p.resolve(p.operand(), None)]
    p.expect("after")
    if p.token.kind == "value":
        state.operands.append(p.resolve(p.operand(), None))
        state.attributes["static_chunk_sizes"] = DenseArrayAttr.i64((DYNAMIC,))
    else:
        state.attributes["static_chunk_sizes"] = DenseArrayAttr.i64((p.integer(),))
    state.attributes.update(p.optional_dictionary())
    handles = max(state.num_results, 1)
    if p.accept(":"):
        types = p.type_list()
        if p.accept("->"):
            types = p.type_tuple()
            handles = len(types)
        state.result_types = [types[0]] * handles
    else:
        state.result_types = [HANDLE] * handles


def print_split(p: Printer, op: Operation) -> None:
    target, *point = op.operands
    static = op.attributes["static_chunk_sizes"]
    assert isinstance(static, DenseArrayAttr)
    p.write(f" {p.value(target)} after {p.value(point[0]) if point else static.ints[0]}")
    p.optional_dictionary(op, frozenset({"static_chunk_sizes"}))
    p.write(f" : {', '.join(p.type(v.type) for v in op.operands)}")


def _parse_sizes(count: int) -> Callable[[Parser, ParseState], None]:
    """A parser of `%0 {dimension = 0, target_size = 16} : (type) -> type`: handles, or parameters, of one type."""

    def parse(p: Parser, state: ParseState) -> None:
        state.operands = [p.resolve(p.operand(), None)]
        state.attributes.update(p.optional_dictionary())
        types = handle_types(p, state, state.operands, count)
        state.result_types = types * count if len(types) == 1 else types

    return parse


def print_sizes(p: Printer, op: Operation) -> None:
    p.write(f" {p.value(op.operands[0])}")
    p.optional_dictionary(op)
    p.write(f" : {p.type(FunctionType((op.operands[0].type,), op.result_types[:1]))}")


_TILED = ("tiled_linalg_op", "loops")
_REDUCTION_DIMS = "{ reduction_dims = dense_integers(reduction_dims) }?reduction_dims"
_PARTS = ("fill_op", "split_linalg_op", "combining_linalg_op")

_STRUCTURED_HANDLES = (
    handles_row(
        "structured.fuse_into_containing_op",
        "producer_op;containing_op",
        "fused_op;new_containing_op?",
        "%producer_op into %containing_op",
        ("fused_op", "new_containing_op"),
    ),
    handles_row("structured.tile_loop_hint", "target", "", "%target"),
    handles_row(
        "structured.collapse_dims",
        "target",
        "transformed",
        "%target { reassociation(reassociation) }?reassociation",
        ("transformed",),
        needs="reassociation(reassociation)",
    ),
    handles_row("structured.fold_unit_extent_dims", "target", "transformed", "%target", ("transformed",)),
    handles_row("structured.generalize", "target", "transformed", "%target"),
    handles_row("structured.specialize", "target", "transformed", "%target"),
    handles_row(
        "structured.interchange",
        "target",
        "transformed",
        "%target { iterator_interchange = dense_integers(iterator_interchange) }?iterator_interchange",
    ),
    handles_row(
        "structured.pad",
        "target",
        "results*",
        "%target { pad_to_multiple_of dense_integers(pad_to_multiple_of) }?pad_to_multiple_of",
    ),
    *(
        handles_row(f"structured.{name}", "target", "transformed", "%target", ("transformed",))
        for name in ("insert_slice_to_copy", "insert_slice_to_copy_ext")
    ),
    handles_row("structured.decompose_interface", "target", "transformed", "%target"),
    handles_row("structured.decompose", "target", "transformed", "%target"),
    handles_row("structured.flatten_elementwise", "target", "transformed", "%target"),
    handles_row("structured.promote", "target", "transformed", "%target"),
    handles_row("structured.scalarize", "target", "transformed", "%target"),
    handles_row(
        "structured.transpose_matmul",
        "target",
        "transformed",
        "%target { < side(inputToTranspose) > }?inputToTranspose",
    ),
    handles_row("structured.transpose_conv2d", "target", "transformed", "%target"),
    handles_row(
        "structured.convert_conv2d_to_img2col",
        "target",
        "img2col_tensor;transformed",
        "%target",
        ("img2col_tensor", "transformed"),
    ),
    handles_row(
        "structured.split_reduction",
        "target",
        "init_or_alloc_op;fill_op;split_linalg_op;combining_linalg_op",
        "%target",
    ),
    handles_row("structured.rewrite_in_destination_passing_style", "target", "transformed", "%target"),
    handles_row("structured.detensorize", "target", "results*", "%target"),
    handles_row("structured.convert_to_loops", "target", "result", "%target"),
    handles_row("structured.inline", "target", "", "%target"),
    handles_row("structured.outline", "target", "functions;calls", "%target", ("functions", "calls")),
    handles_row(
        "structured.shared_output_to_distributed_style",
        "loop;init;merge",
        "new_loop;new_init",
        "%loop , %init , %merge",
        ("new_loop", "new_init"),
    ),
    *(
        handles_row(
            f"structured.{name}",
            "target",
            "fill_op;split;combining;loop",
            f"%target {_REDUCTION_DIMS} {{ by num_threads = dense_integers(num_threads) }}?num_threads"
            " { , tile_sizes = dense_integers(tile_sizes) }?tile_sizes { , mapping = attr(mapping) }?mapping",
            (*_PARTS, "forall_op"),
        )
        for name in ("tile_reduction_using_forall", "tile_reduction_using_foreach_thread")
    ),
    *(
        handles_row(
            f"structured.{name}",
            "target",
            "fill_op;split;combining;loop",
            f"%target {_REDUCTION_DIMS} {{ by tile_sizes = dense_integers(tile_sizes) }}?tile_sizes",
            (*_PARTS, "for_op"),
        )
        for name in ("tile_reduction_using_for", "tile_reduction_using_scf")
    ),
    *(
        handles_row(
            f"structured.{name}",
            "target;threads*;sizes*",
            ";".join(results),
            "%target { num_threads indices(threads, num_threads) }?num_threads"
            " { tile_sizes indices(sizes, tile_sizes) }?tile_sizes { ( mapping = attr(mapping) ) }?mapping",
            results,
        )
        for name, results in (
            ("tile_using_forall", ("tiled_op", "forall_op")),
            ("tile_to_forall_op", ("forall_op", "tiled_op")),
            ("tile_to_foreach_thread_op", ("forall_op", "tiled_op")),
        )
    ),
)

STRUCTURED_SCRIPT_ROWS = (
    *(
        op(
            f"transform.structured.{name}",
            "target;sizes*",
            "tiled_op;loops*",
            assembly=CustomAssembly(parse_tile, print_tile),
            result_names=_TILED,
            needs="sizes(static_sizes)",
            check=_check_sizes("static_sizes"),
        )
        for name in ("tile_ext", "tile_using_for", "tile", "tile_to_scf_for")
    ),
    _counted("fuse", "target", "tile_sizes"),
    _counted("fuse_ext", "target;stop?", "tile_sizes"),
    _counted("fuse_operands", "target", "tile_nums", (0, 1)),
    op(
        "transform.structured.lower_to_loops",
        "target",
        "loops*",
        assembly=CustomAssembly(parse_loops, print_loops),
        result_names=("loops",),
        needs="sizes(loop_ids)",
        check=check_loops,
    ),
    *(
        op(
            f"transform.structured.{name}",
            "target",
            ";".join(results),
            assembly=CustomAssembly(_parse_sizes(len(results)), print_sizes),
            result_names=results,
            needs="i64(dimension) i64(target_size)",
        )
        for name, results in (
            ("multitile_sizes", ("low_size", "high_size", "split_point")),
            ("continuous_tile_sizes", ("tile_sizes", "chunk_sizes")),
        )
    ),
    op(
        "transform.structured.split",
        "target;point?",
        "parts*",
        assembly=CustomAssembly(parse_split, print_split),
        needs="point(static_chunk_sizes)",
        check=_check_sizes("static_chunk_sizes"),
    ),
    *_STRUCTURED_HANDLES,
    *PACKING_SCRIPT_ROWS,
)
