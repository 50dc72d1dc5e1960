"""The tensor dialect, and the bufferization and shape operations that tensors come with."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING

from xjit.linalg_ext.dialects.assembly import op
from xjit.linalg_ext.dialects.attribute_kinds import DYNAMIC
from xjit.linalg_ext.dialects.definition import CustomAssembly, OpDefinition, make_rows
from xjit.linalg_ext.ir.attributes import DenseArrayAttr, IntegerAttr, UnitAttr
from xjit.linalg_ext.ir.errors import LinalgVerifyError
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.ir.types import MemRefType, TensorType

if TYPE_CHECKING:
    from xjit.linalg_ext.text.parser import Parser, ParseState
    from xjit.linalg_ext.text.printer import Printer

__all__ = [
    "SLICE",
    "TENSOR_ROWS",
    "cast_row",
    "check_dynamic_sizes",
    "check_indices",
    "dim_row",
    "reshape_rows",
    "slice_row",
]

SLICE = "offsets* index;sizes* index;strides* index"
SLICE_LISTS = "~ indices(offsets, static_offsets) indices(sizes, static_sizes) indices(strides, static_strides)"
OUTPUT_SHAPE = "{ output_shape indices(output_shape, static_output_shape) }?static_output_shape"


def check_dynamic_sizes(op: Operation) -> None:
    """As many sizes as the result has that are known at run time only."""
    t = op.result.type
    expected = t.shape.count(None) if isinstance(t, TensorType | MemRefType) else 0
    sizes = op.attributes.get("operandSegmentSizes")
    found = sizes.ints[0] if isinstance(sizes, DenseArrayAttr) else len(op.operands)
    if found != expected:
        raise LinalgVerifyError(f"'{op.name}' op has {found} sizes, but type {t}", op.location)


def check_slice(op: Operation) -> None:
    """One offset, size and stride per dimension of what is sliced, and values where they say so."""
    whole = op.operands[0 if op.name.endswith(("extract_slice", "subview")) else 1].type
    rank = whole.rank if isinstance(whole, TensorType | MemRefType) else 0
    segments = op.attributes.get("operandSegmentSizes")
    values = segments.ints[-3:] if isinstance(segments, DenseArrayAttr) else ()
    for name, number in zip(("static_offsets", "static_sizes", "static_strides"), values):
        static = op.attributes.get(name)
        found = static.ints if isinstance(static, DenseArrayAttr) else ()
        if len(found) != rank:
            raise LinalgVerifyError(f"'{op.name}' op expected {rank} {name}, found {len(found)}", op.location)
        if name == "static_sizes" and any(size < 0 for size in found if size != DYNAMIC):
            raise LinalgVerifyError(f"'{op.name}' op expected sizes of 0 or more, found {list(found)}", op.location)
        if found.count(DYNAMIC) != number:
            raise LinalgVerifyError(f"'{op.name}' op has {number} values for {name} {list(found)}", op.location)


def check_extract_slice(op: Operation) -> None:
    """The result has the sizes of the slice, where they are known, but for some of size one."""
    check_slice(op)
    static, kind = op.attributes["static_sizes"], op.result.type
    assert isinstance(static, DenseArrayAttr) and isinstance(kind, TensorType)
    sizes = [None if size == DYNAMIC else size for size in static.ints]
    left = list(kind.shape)
    for size in sizes:
        if left and left[0] == size:
            left.pop(0)
        elif size != 1:
            left = [None]
            break
    if left:
        full = TensorType(tuple(sizes), kind.element)
        raise LinalgVerifyError(
            f"'{op.name}' op expected type to be '{full}' or a rank-reduced version. (size mismatch) ", op.location
        )


def check_indices(op: Operation) -> None:
    """One index per dimension."""
    first = 0 if op.name.endswith(("load", "extract")) else 1
    kind, found = op.operands[first].type, len(op.operands) - first - 1
    rank = kind.rank if isinstance(kind, TensorType | MemRefType) else found
    if found != rank:
        word = {"tensor.extract": "extract_element", "tensor.insert": "insert"}.get(op.name, op.name.split(".")[1])
        counted = f", expected {rank} but got {found}" if op.dialect == "memref" else ""
        raise LinalgVerifyError(f"'{op.name}' op incorrect number of indices for {word}{counted}", op.location)


def check_elements(op: Operation) -> None:
    """A tensor of known sizes with an element each."""
    t = op.result.type
    sizes = [size for size in t.shape if size is not None] if isinstance(t, TensorType) else []
    if not isinstance(t, TensorType) or len(sizes) != t.rank or prod(sizes) != len(op.operands):
        raise LinalgVerifyError(f"'{op.name}' op has {len(op.operands)} elements, but type {t}", op.location)


def check_pad(op: Operation) -> None:
    """One amount of padding per dimension on either side, of a source and a result of the same rank."""
    source, result = op.operands[0].type, op.result.type
    if not isinstance(source, TensorType) or not isinstance(result, TensorType) or source.rank != result.rank:
        raise LinalgVerifyError(f"'{op.name}' op makes {result} of {source}", op.location)
    for name in ("static_low", "static_high"):
        static = op.attributes[name]
        found = len(static.ints) if isinstance(static, DenseArrayAttr) else 0
        if found != source.rank:
            raise LinalgVerifyError(f"'{op.name}' op expected {source.rank} {name}, found {found}", op.location)


def complete_output_shape(op: Operation) -> None:
    """An older spelling leaves the sizes of an expanded shape out; static ones are those of the result."""
    t = op.result.type
    if not isinstance(t, TensorType | MemRefType):
        return
    if "static_output_shape" not in op.attributes and None not in t.shape:
        op.attributes["static_output_shape"] = DenseArrayAttr.i64([s for s in t.shape if s is not None])


def check_reshape(op: Operation) -> None:
    """One group of neighbours per dimension of the shorter shape; together they are all dimensions of the longer."""
    source, result = op.operands[0].type, op.result.type
    if not isinstance(source, TensorType | MemRefType) or not isinstance(result, TensorType | MemRefType):
        raise LinalgVerifyError(f"'{op.name}' op expects ranked types", op.location)
    long, short = (result, source) if op.name.endswith("expand_shape") else (source, result)
    groups = reassociation(op)
    fits = len(groups) == short.rank and [d for group in groups for d in group] == list(range(long.rank))
    if not fits and not (short.rank == 0 and not groups):
        raise LinalgVerifyError(f"'{op.name}' op: {groups} does not match {long} and {short}", op.location)
    for group, size in zip(groups, short.shape):
        product = 1
        for d in group:
            extent = long.shape[d]
            product = None if extent is None or product is None else product * extent
        if product is not None and size is not None and product != size:
            raise LinalgVerifyError(f"'{op.name}' op: dimensions {group} of {long} do not make {size}", op.location)


def reassociation(op: Operation) -> list[list[int]]:
    """Returns the groups of dimensions of an expand_shape or collapse_shape."""
    attribute = op.attributes.get("reassociation")
    groups: list[list[int]] = []
    for group in getattr(attribute, "elements", ()):
        groups.append([e.value for e in getattr(group, "elements", ()) if isinstance(e, IntegerAttr)])
    return groups


def slice_row(name: str, word: str, check: Callable[[Operation], None] = check_slice) -> OpDefinition:
    """The row of what takes a slice."""
    return op(
        name,
        f"source;{SLICE}",
        "result",
        f"%source {SLICE_LISTS} attrs : type(source) to type(result)",
        traits="pure",
        result_names=(word,),
        check=check,
    )


def reshape_rows(dialect: str, names: tuple[str, str]) -> list[OpDefinition]:
    """The rows of expand_shape and collapse_shape."""
    return [
        op(
            f"{dialect}.expand_shape",
            "src;output_shape* index",
            "result",
            f"%src reassociation(reassociation) {OUTPUT_SHAPE} attrs : type(src) into type(result)",
            traits="pure",
            result_names=names[:1],
            normalize=complete_output_shape,
            check=check_reshape,
        ),
        op(
            f"{dialect}.collapse_shape",
            "src",
            "result",
            "%src reassociation(reassociation) attrs : type(src) into type(result)",
            traits="pure",
            result_names=names[1:],
            check=check_reshape,
        ),
    ]


def cast_row(name: str, word: str = "") -> OpDefinition:
    """The row of a change of type."""
    return op(
        name,
        "source",
        "dest",
        "%source attrs : type(source) to type(dest)",
        traits="pure",
        result_names=(word,) * bool(word),
    )


def dim_row(name: str) -> OpDefinition:
    """The row of the size of a dimension."""
    return op(
        name,
        "source;index index",
        "result index",
        "attrs %source , %index : type(source)",
        traits="pure",
        result_names=("dim",),
    )


def check_concat(op: Operation) -> None:
    """Tensors that have their sizes in common, but along the dimension in which they stand side by side."""
    axis, result = op.attributes["dim"], op.result.type
    rank = result.rank if isinstance(result, TensorType) else 0
    if not isinstance(axis, IntegerAttr) or not 0 <= axis.value < rank or not op.operands:
        raise LinalgVerifyError(f"'{op.name}' op concatenation dim must be less than the tensor rank", op.location)
    for t in [v.type for v in op.operands]:
        if not isinstance(t, TensorType) or not isinstance(result, TensorType) or t.rank != rank:
            raise LinalgVerifyError(f"'{op.name}' op rank of concatenated inputs must match result rank", op.location)
        pairs = [pair for d, pair in enumerate(zip(t.shape, result.shape)) if d != axis.value]
        if t.element != result.element or any(None not in pair and pair[0] != pair[1] for pair in pairs):
            raise LinalgVerifyError(f"'{op.name}' op has an input {t} for a result {result}", op.location)


def parse_to_tensor(p: Parser, state: ParseState) -> None:
    """Parses `%m restrict writable : memref to tensor`; the older spelling leaves the type of the result out."""
    source = p.operand()
    for word in ("restrict", "writable"):
        if p.accept(word):
            state.attributes[word] = UnitAttr()
    state.attributes.update(p.optional_dictionary())
    p.expect(":")
    type = p.type()
    state.operands = [p.resolve(source, type)]
    if p.accept("to"):
        state.result_types = [p.type()]
    elif isinstance(type, MemRefType):
        state.result_types = [TensorType(type.shape, type.element)]
    else:
        p.fail("expected 'to' and the type of the tensor")


def print_to_tensor(p: Printer, op: Operation) -> None:
    words = ("restrict", "writable")
    p.write(f" {p.value(op.operands[0])}{''.join(f' {word}' for word in words if word in op.attributes)}")
    p.optional_dictionary(op, frozenset(words))
    source = op.operands[0].type
    p.write(f" : {p.type(source)}")
    if not isinstance(source, MemRefType) or op.result.type != TensorType(source.shape, source.element):
        p.write(f" to {p.type(op.result.type)}")


TENSOR_ROWS = make_rows(
    op(
        "tensor.empty",
        "sizes* index",
        "result",
        "( %sizes ) attrs : type(result)",
        traits="pure",
        check=check_dynamic_sizes,
    ),
    dim_row("tensor.dim"),
    op("tensor.rank", "tensor", "result index", "%tensor attrs : type(tensor)", traits="pure", result_names=("rank",)),
    op(
        "tensor.extract",
        "tensor;indices* index",
        "result element tensor",
        "%tensor [ %indices ] attrs : type(tensor)",
        traits="pure",
        result_names=("extracted",),
        check=check_indices,
    ),
    op(
        "tensor.insert",
        "scalar element result;dest =result;indices* index",
        "result",
        "%scalar into %dest [ %indices ] attrs : type(result)",
        traits="pure",
        result_names=("inserted",),
        check=check_indices,
    ),
    slice_row("tensor.extract_slice", "extracted_slice", check_extract_slice),
    op(
        "tensor.insert_slice",
        f"source;dest;{SLICE}",
        "result =dest",
        f"%source into %dest {SLICE_LISTS} attrs : type(source) into type(dest)",
        traits="pure",
        result_names=("inserted_slice",),
        check=check_slice,
    ),
    op(
        "tensor.parallel_insert_slice",
        f"source;dest;{SLICE}",
        "",
        f"%source into %dest {SLICE_LISTS} attrs : type(source) into type(dest)",
        check=check_slice,
    ),
    *reshape_rows("tensor", ("expanded", "collapsed")),
    cast_row("tensor.cast", "cast"),
    cast_row("tensor.bitcast"),
    op(
        "tensor.pad",
        "source;low* index;high* index",
        "result",
        "%source { nofold(nofold) }?nofold low ~ indices(low, static_low) high ~ indices(high, static_high)"
        " region attrs : type(source) to type(result)",
        traits="recursive",
        result_names=("padded",),
        check=check_pad,
    ),
    op("tensor.yield", "value", "", "%value attrs : type(value)", traits="pure terminator"),
    op(
        "tensor.splat",
        "input element aggregate;dynamicSizes* index",
        "aggregate",
        "%input { [ %dynamicSizes ] }?dynamicSizes attrs : type(aggregate)",
        traits="pure",
        result_names=("splat",),
    ),
    op(
        "tensor.from_elements",
        "elements* element result",
        "result",
        "%elements attrs : type(result)",
        traits="pure",
        result_names=("from_elements",),
        check=check_elements,
    ),
    op(
        "tensor.generate",
        "sizes* index",
        "result",
        "%sizes region attrs : type(result)",
        traits="recursive",
        result_names=("generated",),
        check=check_dynamic_sizes,
    ),
    op(
        "tensor.reshape",
        "source;shape",
        "result",
        "%source ( %shape ) attrs : functional",
        traits="pure",
        result_names=("reshape",),
    ),
    op(
        "tensor.concat",
        "inputs*",
        "result",
        "dim ( i64(dim) ) %inputs attrs : functional",
        traits="pure",
        result_names=("concat",),
        check=check_concat,
    ),
    op(
        "tensor.gather",
        "source;indices",
        "result",
        "%source [ %indices ] gather_dims ( dense_integers(gather_dims) ) { unique(unique) }?unique attrs : functional",
        traits="pure",
        result_names=("gather",),
    ),
    op(
        "tensor.scatter",
        "source;dest;indices",
        "result",
        "%source into %dest [ %indices ] scatter_dims ( dense_integers(scatter_dims) ) { unique(unique) }?unique"
        " attrs : functional",
        traits="pure",
        result_names=("scatter",),
    ),
    op(
        "bufferization.alloc_tensor",
        "dynamic_sizes* index;copy?",
        "result",
        "( %dynamic_sizes ) { copy ( %copy ) }?copy attrs : type(result)",
        traits="pure",
    ),
    op("bufferization.dealloc_tensor", "tensor", "", "%tensor attrs : type(tensor)"),
    op("bufferization.clone", "input", "output", "%input attrs : type(input) to type(output)"),
    op(
        "bufferization.materialize_in_destination",
        "source;dest",
        "result?",
        "%source in { restrict(restrict) }?restrict { writable(writable) }?writable %dest attrs : functional",
    ),
    op("bufferization.to_tensor", "memref", "result", assembly=CustomAssembly(parse_to_tensor, print_to_tensor)),
    op("bufferization.to_memref", "tensor", "memref", "%tensor attrs : type(memref)"),
    op("bufferization.to_buffer", "tensor", "buffer", "%tensor attrs : type(tensor) to type(buffer)"),
    op("shape.shape_of", "arg", "result", "%arg attrs : type(arg) -> type(result)", traits="pure"),
    op("shape.to_extent_tensor", "input", "result", "%input attrs : type(input) -> type(result)", traits="pure"),
)
