"""Output-to-input rules of opcodes that combine elements: reductions, windows, sorts, scans, normalisations.

Range variables run over what is combined. Where only some dimensions mix, the others keep their place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from xjit.affine import UNKNOWN, AffineExpr, IndexingMap, Interval, constant, dim, symbol
from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape
from xjit.ops.indexing.maps import (
    Constraints,
    Maps,
    OutputRule,
    Rule,
    array_shape,
    identity_map,
    make_map,
    scalar_map,
    whole_map,
)


def _reduce(instruction: HloInstruction) -> list[Maps]:
    out = array_shape(instruction.shape)
    reduced = instruction.attributes_as(at.DimensionsAttributes).dimensions
    inputs = instruction.operand_count // 2
    source = instruction.operand(0).shape
    kept = iter(range(out.rank))
    order = {d: i for i, d in enumerate(sorted(reduced))}
    results = [symbol(order[d]) if d in order else dim(next(kept)) for d in range(source.rank)]
    body = make_map(out.dimensions, results, ranges=[source.dimensions[d] for d in sorted(reduced)])
    return [(body,)] * inputs + [(scalar_map(out.dimensions),)] * inputs


def window_expression(window: at.WindowDimension, out: AffineExpr, tap: AffineExpr) -> AffineExpr:
    """Returns the position in the base-dilated, padded source that window element `tap` of output `out` sees."""
    tap = constant(window.size - 1) - tap if window.window_reversal else tap
    return out * window.stride + tap * window.window_dilation - window.padding_low


def window_access(
    window: at.WindowDimension, size: int, out: AffineExpr, tap: AffineExpr
) -> tuple[AffineExpr, Constraints]:
    """Returns the source index of a window element, and the constraints under which it is not padding."""
    position = window_expression(window, out, tap)
    if window.base_dilation == 1:
        return position, [(position, Interval(0, size - 1))]
    reach = Interval(0, (size - 1) * window.base_dilation)
    return position.floordiv(window.base_dilation), [
        (position, reach),
        (position.mod(window.base_dilation), Interval(0, 0)),
    ]


def _reduce_window(instruction: HloInstruction) -> list[Maps]:
    out = array_shape(instruction.shape)
    window = instruction.attributes_as(at.WindowAttributes).window.dimensions
    inputs = instruction.operand_count // 2
    source = instruction.operand(0).shape
    results: list[AffineExpr] = []
    constraints: Constraints = []
    ranges = [w.size for w in window if w.size != 1]
    taps = iter(range(len(ranges)))
    for i, w in enumerate(window):
        tap = symbol(next(taps)) if w.size != 1 else constant(0)
        index, conditions = window_access(w, source.dimensions[i], dim(i), tap)
        results.append(index)
        constraints += conditions
    body = make_map(out.dimensions, results, ranges, constraints=constraints).simplify()
    return [(body,)] * inputs + [(scalar_map(out.dimensions),)] * inputs


def _select_and_scatter(instruction: HloInstruction) -> list[Maps]:
    """An element sums the source elements of the windows over it, each chosen by all elements of its window."""
    window = instruction.attributes_as(at.WindowAttributes).window.dimensions
    operand, source = instruction.operand(0).shape, instruction.operand(1).shape
    sizes = instruction.shape.dimensions
    wide = [i for i, w in enumerate(window) if w.size != 1]
    own = {i: symbol(n) for n, i in enumerate(wide)}  # where in its window the element lies
    other = {i: symbol(len(wide) + n) for n, i in enumerate(wide)}
    ranges = [window[i].size for i in wide]
    chosen: list[AffineExpr] = []
    compared: list[AffineExpr] = []
    constraints: Constraints = []
    bounds: Constraints = []
    for i, w in enumerate(window):
        start = dim(i) - own.get(i, constant(0)) * w.window_dilation + w.padding_low
        place = start.floordiv(w.stride)
        chosen.append(place)
        constraints.append((place, Interval(0, source.dimensions[i] - 1)))
        if w.stride > 1:
            constraints.append((start.mod(w.stride), Interval(0, 0)))
        compared.append(dim(i) + (other.get(i, constant(0)) - own.get(i, constant(0))) * w.window_dilation)
        bounds.append((compared[-1], Interval(0, operand.dimensions[i] - 1)))
    return [
        (make_map(sizes, compared, ranges + ranges, constraints=constraints + bounds).simplify(),),
        (make_map(sizes, chosen, ranges, constraints=constraints).simplify(),),
        (scalar_map(sizes),),
    ]


def along(dimensions: Callable[[HloInstruction], Sequence[int]]) -> Rule:
    """Rule of an op that mixes elements only along some dimensions, while the others keep their place (sort, fft)."""

    def rule(instruction: HloInstruction) -> list[Maps]:
        out = array_shape(instruction.shape)
        mixed = [d % max(out.rank, 1) for d in dimensions(instruction)]
        return [(along_map(out, operand.shape, mixed),) for operand in instruction.operands]

    return rule


def along_map(out: Shape, operand: Shape, mixed: Sequence[int]) -> IndexingMap:
    """Returns the map that reads everything along the `mixed` dimensions."""
    if operand.rank != out.rank:
        return UNKNOWN
    ranges = [operand.dimensions[d] for d in mixed]
    results = [symbol(mixed.index(d)) if d in mixed else dim(d) for d in range(out.rank)]
    return make_map(out.dimensions, results, ranges)


def _scan(instruction: HloInstruction, output: int) -> list[Maps]:
    """Element i of a stacked output depends on the slices up to i of every input; a final carry on all of them."""
    attrs = instruction.attributes_as(at.ScanAttributes)
    axis, carries = attrs.dimensions[0], attrs.num_carries
    inputs = instruction.operand_count - carries
    out = array_shape(instruction.shape, output)
    stacked = output < instruction.shape.leaf_count - carries
    keeps = _keeps_places(instruction)
    maps: list[Maps] = []
    for number, operand in enumerate(instruction.operands):
        shape = operand.shape
        if number < inputs:
            maps.append((_scanned_map(out, shape, axis, stacked, keeps, attrs.is_reverse),))
        elif keeps:
            kept = [d for d in range(out.rank) if not stacked or d != axis]
            maps.append((make_map(out.dimensions, [dim(d) for d in kept]),))
        else:
            maps.append((whole_map(out.dimensions, shape),))
    return maps


def _keeps_places(instruction: HloInstruction) -> bool:
    """Whether the body works element by element on slices of one shape."""
    body = instruction.to_apply
    if not body.num_parameters:
        return False
    shape = body.parameter_instruction(0).shape
    return all(
        i.opcode == "tuple"
        or (i.shape.dimensions == shape.dimensions and (i.opcode == "parameter" or i.is_elementwise()))
        for i in body.instructions
    )


def _scanned_map(out: Shape, source: Shape, axis: int, stacked: bool, keeps: bool, is_reverse: bool) -> IndexingMap:
    results: list[AffineExpr] = []
    ranges: list[int] = []
    places = iter([d for d in range(out.rank) if not stacked or d != axis])
    constraints: Constraints = []
    for d, size in enumerate(source.dimensions):
        if d != axis and keeps:
            results.append(dim(next(places)))
            continue
        results.append(symbol(len(ranges)))
        ranges.append(size)
        if d == axis and stacked:
            behind = results[-1] - dim(axis) if is_reverse else dim(axis) - results[-1]
            constraints.append((behind, Interval(0, size - 1)))
    return make_map(out.dimensions, results, ranges, constraints=constraints)


def _batch_norm_inference(instruction: HloInstruction) -> list[Maps]:
    feature = instruction.attributes_as(at.BatchNormAttributes).feature_index
    dims = instruction.shape.dimensions
    vector = (make_map(dims, [dim(feature)]),)
    return [(identity_map(dims),), vector, vector, vector, vector]


def _batch_norm(instruction: HloInstruction, output: int) -> list[Maps]:
    """Training and gradient: every result sees all elements of its feature."""
    feature = instruction.attributes_as(at.BatchNormAttributes).feature_index
    sizes = instruction.operand(0).shape.dimensions
    out = array_shape(instruction.shape, output).dimensions
    at_feature = dim(feature) if output == 0 else dim(0)
    others = [d for d in range(len(sizes)) if d != feature]
    results = [at_feature if d == feature else symbol(others.index(d)) for d in range(len(sizes))]
    everything = make_map(out, results, [sizes[d] for d in others])
    vector = make_map(out, [at_feature])
    if instruction.opcode == "batch-norm-training":
        return [(everything,), (vector,) if output == 0 else (), (vector,) if output == 0 else ()]
    scale = (vector,) if output == 0 else ()
    return [(everything,), scale, (vector,), (vector,), (everything,)]


def _last(instruction: HloInstruction) -> list[int]:
    return [array_shape(instruction.shape).rank - 1]


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "reduce": _reduce,
        "reduce-window": _reduce_window,
        "select-and-scatter": _select_and_scatter,
        "sort": along(lambda i: i.attributes_as(at.SortAttributes).dimensions),
        "topk": along(_last),
        "batch-norm-inference": _batch_norm_inference,
    }
)
OUTPUT_RULES: Mapping[str, OutputRule] = MappingProxyType(
    {"scan": _scan, "batch-norm-training": _batch_norm, "batch-norm-grad": _batch_norm}
)
