"""Operations of scripts that tile, fuse, collapse, lower and outline structured ops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from xjit.linalg_ext.dialects.attribute_kinds import DYNAMIC
from xjit.linalg_ext.ir.attributes import ArrayAttr, BoolAttr, DenseArrayAttr, IntegerAttr, StringAttr
from xjit.linalg_ext.ir.builder import constant_value
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation, Value
from xjit.linalg_ext.ir.types import IndexType
from xjit.linalg_ext.rewrite.driver import apply_rules, erase_dead
from xjit.linalg_ext.rewrite.rules import CANONICALIZE
from xjit.linalg_ext.transform_scripts.state import Handles, Payload, Script, TransformRow, payload_of
from xjit.linalg_ext.transforms.fusion.emit import Keep
from xjit.linalg_ext.transforms.fusion.fuse import fuse, fuse_ext
from xjit.linalg_ext.transforms.fusion.fuse_in_forall import fuse_in_forall
from xjit.linalg_ext.transforms.fusion.fuse_into_containing_op import fuse_into_containing_op
from xjit.linalg_ext.transforms.fusion.fuse_operands import fuse_operands
from xjit.linalg_ext.transforms.loops.loop_hint import tile_loop_hint
from xjit.linalg_ext.transforms.loops.outline import inline, outline
from xjit.linalg_ext.transforms.lowering.to_loops import lower_to_loops
from xjit.linalg_ext.transforms.reductions.distributed_style import shared_output_to_distributed_style
from xjit.linalg_ext.transforms.reductions.tile_reduction import (
    ReductionTiling,
    tile_reduction_using_for,
    tile_reduction_using_forall,
)
from xjit.linalg_ext.transforms.single_ops.collapse_dims import collapse_dims
from xjit.linalg_ext.transforms.single_ops.fold_unit_dims import fold_unit_extent_dims
from xjit.linalg_ext.transforms.single_ops.generalize import generalize
from xjit.linalg_ext.transforms.single_ops.interchange import interchange
from xjit.linalg_ext.transforms.single_ops.specialize import specialize
from xjit.linalg_ext.transforms.tiling.forall import tile_to_forall
from xjit.linalg_ext.transforms.tiling.tile import tile

__all__ = ["STRUCTURED_TRANSFORM_ROWS"]

_Result = TypeVar("_Result")


def integers(op: Operation, name: str) -> tuple[int, ...]:
    """Returns the numbers of an attribute, none if there is no attribute."""
    attribute = op.attributes.get(name)
    if isinstance(attribute, DenseArrayAttr):
        return attribute.ints
    if isinstance(attribute, ArrayAttr):
        return tuple(e.value for e in attribute.elements if isinstance(e, IntegerAttr))
    return ()


def flag(op: Operation, name: str) -> bool:
    """Returns whether a boolean or unit attribute is set."""
    attribute = op.attributes.get(name)
    return attribute.value if isinstance(attribute, BoolAttr) else attribute is not None


def transposed(rows: Iterable[Sequence[Operation]], count: int) -> list[list[Operation]]:
    """Returns one list per position, of rows that have `count` operations each."""
    found: list[list[Operation]] = [[] for _ in range(count)]
    for row in rows:
        for group, op in zip(found, row):
            group.append(op)
    return found


def located(op: Operation, apply: Callable[[], Sequence[_Result]], expected: int | None = None) -> Sequence[_Result]:
    """Runs a transformation; its errors are at the place of the script's operation, with a note of the target's."""
    try:
        found = apply()
    except LinalgError as error:
        note = f"target: {error.span.file}:{error.span.line}:{error.span.column}" if error.span else ""
        raise LinalgError(error.message, op.location, *error.notes, *([note] if note else [])) from error
    if expected is not None and len(found) != expected:
        raise LinalgError(f"'{op.name}' op has {expected} results, but there are {len(found)}", op.location)
    return found


def tile_sizes(script: Script, op: Operation, target: int, name: str, first: int) -> list[int | Value]:
    """Returns the sizes of `name` for payload operation number `target`: those that are operands come from parameters,
    one for all payload, or from handles of what computes them, one per payload.
    """
    values: list[int | Value] = []
    for index in range(first, len(op.operands)):
        found = script.lookup(op, index)
        if len(found) == 1 and isinstance(found[0], IntegerAttr):
            values.append(found[0].value)
            continue
        producers = payload_of(op, found)
        if target >= len(producers):
            raise LinalgError("expected as many dynamic size-producing operations as target ops", op.location)
        values.append(point_of(op, producers[target]))
    dynamic = iter(values)
    return [next(dynamic) if n == DYNAMIC else n for n in integers(op, name)]


def point_of(op: Operation, found: Payload) -> int | Value:
    """Returns a size that a parameter is, or that an operation of the program gives."""
    if isinstance(found, IntegerAttr):
        return found.value
    [producer] = payload_of(op, [found])
    if producer.result_types != (IndexType(),):
        raise LinalgError("expected sizes to be produced by ops with a single index-type result", op.location)
    known = constant_value(producer.result)
    return producer.result if known is None else known


def tile_op(script: Script, op: Operation) -> Handles:
    """Tiles each target; the tiled op, and one handle per loop."""

    def one(target: Operation, number: int) -> Sequence[Operation]:
        result = tile(target, tile_sizes(script, op, number, "static_sizes", 1), integers(op, "interchange"))
        return (result.tiled_op, *result.loops)

    return each_target(script, op, one)


def each_target(script: Script, op: Operation, one: Callable[[Operation, int], Sequence[Operation]]) -> Handles:
    """Transforms the targets one by one, and returns what each gave, by result."""
    rows: list[Sequence[Operation]] = []
    for number, target in enumerate(script.payload(op)):
        rows.append(located(op, lambda t=target, n=number: one(t, n), len(op.results)))
    return transposed(rows, len(op.results))


def fuse_op(script: Script, op: Operation) -> Handles:
    """Tiles and fuses each target; the functions around them are simplified if the script asks for that."""
    sizes, interchange = integers(op, "tile_sizes"), integers(op, "tile_interchange")

    def one(target: Operation, number: int) -> Sequence[Operation]:
        function = next((each for each in target.ancestors() if each.name == "func.func"), script.root)
        if flag(op, "use_forall"):
            tiled = fuse_in_forall(target, sizes, interchange)
            made = (tiled.tiled_op, *tiled.loops)
        else:
            result = fuse(target, sizes, interchange)
            made = (result.tiled_ops[0], *result.loops)
        if flag(op, "apply_cleanup"):
            apply_rules(function, CANONICALIZE)
        return made

    return each_target(script, op, one)


def fuse_ext_op(script: Script, op: Operation) -> Handles:
    stop = [each for index in range(1, len(op.operands)) for each in script.payload(op, index)]
    if stop and len(script.payload(op)) > 1:
        message = "only support one target payload operation when using stop operands"
        raise LinalgError(f"{message}, found {len(script.payload(op))}", op.location)

    def one(target: Operation, number: int) -> Sequence[Operation]:
        sizes, interchange = integers(op, "tile_sizes"), integers(op, "tile_interchange")
        keep = Keep.ALL if flag(op, "keep_intermediates") else Keep.UNALIGNED
        result = fuse_ext(target, sizes, interchange, stop, keep)
        return (result.tiled_ops[0], *result.loops)

    return each_target(script, op, one)


def fuse_operands_op(script: Script, op: Operation) -> Handles:
    def one(target: Operation, number: int) -> Sequence[Operation]:
        result = fuse_operands(
            target,
            integers(op, "tile_nums"),
            integers(op, "tile_interchange"),
            integers(op, "use_distributed"),
            flag(op, "expect_whole_graph_fusion"),
        )
        return (result.tiled_ops[0], *result.loops)

    return each_target(script, op, one)


def fuse_into_containing(script: Script, op: Operation) -> Handles:
    """Fuses producers into one loop, those that use others first."""
    loops = script.payload(op, 1)
    if len(loops) != 1:
        raise LinalgError(f"'{op.name}' op expects one loop, found {len(loops)}", op.location)
    fused: list[Operation] = []
    for producer in reversed(script.payload(op)):
        fused += located(op, lambda p=producer: fuse_into_containing_op(p, loops[0]))
    return [fused, loops][: len(op.results)]


def tile_using_forall(script: Script, op: Operation) -> Handles:
    """The tiled ops and the loops."""

    def one(target: Operation, number: int) -> Sequence[Operation]:
        sizes = tile_sizes(script, op, number, "tile_sizes", 1)
        result = tile_to_forall(target, sizes, integers(op, "num_threads"), op.attributes.get("mapping"))
        return (result.tiled_op, *result.loops)

    return each_target(script, op, one)


def tile_to_forall_op(script: Script, op: Operation) -> Handles:
    """By its older names, `tile_using_forall` returns the loops first."""
    return tile_using_forall(script, op)[::-1]


def _parts(result: ReductionTiling) -> Sequence[Operation]:
    return (result.init, result.split, result.merge, result.loop)


def _reduction_sizes(op: Operation, name: str) -> tuple[int, ...]:
    """Returns the entry per loop that tells which is split; `reduction_dims`, if it is there, has to tell the same."""
    sizes, dims = integers(op, name), integers(op, "reduction_dims")
    if dims and sorted(dims) != [loop for loop, n in enumerate(sizes) if n != 0]:
        raise LinalgError(f"'{op.name}' op has reduction_dims {list(dims)}, but {name} {list(sizes)}", op.location)
    return sizes


def tile_reduction_for(script: Script, op: Operation) -> Handles:
    sizes = _reduction_sizes(op, "tile_sizes")
    return each_target(script, op, lambda t, n: _parts(tile_reduction_using_for(t, sizes)))


def tile_reduction_forall(script: Script, op: Operation) -> Handles:
    threads, sizes = _reduction_sizes(op, "num_threads"), integers(op, "tile_sizes")

    def one(target: Operation, number: int) -> Sequence[Operation]:
        return _parts(tile_reduction_using_forall(target, threads, sizes, op.attributes.get("mapping")))

    return each_target(script, op, one)


def distributed_style(script: Script, op: Operation) -> Handles:
    loops, inits, merges = (script.payload(op, i) for i in range(3))
    if not len(loops) == len(inits) == len(merges):
        raise LinalgError("the size of loop, init, merge should be the same", op.location)
    rows = [
        located(op, lambda parts=parts: shared_output_to_distributed_style(*parts))
        for parts in zip(loops, inits, merges)
    ]
    return transposed(rows, 2)


def loop_hint(script: Script, op: Operation) -> Handles:
    for target in script.payload(op):
        if not located(op, lambda t=target: tile_loop_hint(t)):
            raise LinalgError("no loops at target op", op.location)
    return []


def collapse(script: Script, op: Operation) -> Handles:
    attribute = op.attributes.get("reassociation")
    groups = [
        [e.value for e in group.elements if isinstance(e, IntegerAttr)]
        for group in (attribute.elements if isinstance(attribute, ArrayAttr) else ())
        if isinstance(group, ArrayAttr)
    ]
    return each_target(script, op, lambda t, n: (collapse_dims(t, groups),))


def fold_unit_dims(script: Script, op: Operation) -> Handles:
    return each_target(script, op, lambda t, n: (fold_unit_extent_dims(t),))


def generalize_op(script: Script, op: Operation) -> Handles:
    return each_target(script, op, lambda t, n: (generalize(t),))


def specialize_op(script: Script, op: Operation) -> Handles:
    return each_target(script, op, lambda t, n: (specialize(t),))


def to_loops(script: Script, op: Operation) -> Handles:
    """The loops that `loop_ids` lists; negative numbers count from the inside."""
    ids = integers(op, "loop_ids")

    def one(target: Operation, number: int) -> Sequence[Operation]:
        loops = lower_to_loops(target)
        for i in ids:
            if not -len(loops) <= i < len(loops):
                raise LinalgError(f"invalid loop Id {i}: there are {len(loops)} loops", op.location)
        return [loops[i] for i in ids]

    return each_target(script, op, one)


def all_loops(script: Script, op: Operation) -> Handles:
    """One handle of all loops."""
    return [[loop for target in script.payload(op) for loop in located(op, lambda t=target: lower_to_loops(t))]]


def interchange_op(script: Script, op: Operation) -> Handles:
    order = integers(op, "iterator_interchange")
    return each_target(script, op, lambda t, n: (interchange(t, order),))


def outline_op(script: Script, op: Operation) -> Handles:
    name = op.attributes.get("func_name")
    if not isinstance(name, StringAttr):
        raise LinalgError(f"'{op.name}' op expects a string as 'func_name', found {name}", op.location)
    functions, calls = outline(script.payload(op), name.value, flag(op, "libcall"))
    return [functions, calls]


def inline_op(script: Script, op: Operation) -> Handles:
    for call in script.payload(op):
        located(op, lambda c=call: inline(c) or ())
    erase_dead(script.root)
    return []


_PREFIX = "transform.structured."

STRUCTURED_TRANSFORM_ROWS: tuple[TransformRow, ...] = (
    *(
        TransformRow(_PREFIX + name, tile_op, (0,))
        for name in ("tile_ext", "tile_using_for", "tile", "tile_to_scf_for")
    ),
    TransformRow(_PREFIX + "fuse", fuse_op, (0,)),
    TransformRow(_PREFIX + "fuse_ext", fuse_ext_op, (0,)),
    TransformRow(_PREFIX + "fuse_operands", fuse_operands_op),
    TransformRow(_PREFIX + "fuse_into_containing_op", fuse_into_containing, (0,)),
    TransformRow(_PREFIX + "tile_using_forall", tile_using_forall, (0,)),
    *(
        TransformRow(_PREFIX + name, tile_to_forall_op, (0,))
        for name in ("tile_to_forall_op", "tile_to_foreach_thread_op")
    ),
    *(
        TransformRow(_PREFIX + name, tile_reduction_for, (0,))
        for name in ("tile_reduction_using_for", "tile_reduction_using_scf")
    ),
    *(
        TransformRow(_PREFIX + name, tile_reduction_forall, (0,))
        for name in ("tile_reduction_using_forall", "tile_reduction_using_foreach_thread")
    ),
    TransformRow(_PREFIX + "shared_output_to_distributed_style", distributed_style, (0, 1, 2)),
    TransformRow(_PREFIX + "tile_loop_hint", loop_hint),
    TransformRow(_PREFIX + "collapse_dims", collapse, (0,)),
    TransformRow(_PREFIX + "fold_unit_extent_dims", fold_unit_dims, (0,)),
    TransformRow(_PREFIX + "generalize", generalize_op, (0,)),
    TransformRow(_PREFIX + "specialize", specialize_op, (0,)),
    TransformRow(_PREFIX + "lower_to_loops", to_loops, (0,)),
    TransformRow(_PREFIX + "convert_to_loops", all_loops, (0,)),
    TransformRow(_PREFIX + "interchange", interchange_op, (0,)),
    TransformRow(_PREFIX + "outline", outline_op, (0,)),
    TransformRow(_PREFIX + "inline", inline_op, (0,)),
)
