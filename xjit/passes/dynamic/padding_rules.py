"""How instructions work on padded arrays: what lies beyond the sizes must not get into what counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xjit.hlo import HloComputation, HloInstruction, Unsupported
from xjit.hlo import attributes as at
from xjit.hlo.annotations.sharding_algebra import NO_FACTOR
from xjit.hlo.attributes.opcodes import OPCODES, Trait
from xjit.ops.reducers import independent_identities, integer_limits, reduction_identity, type_identities
from xjit.passes.dynamic.padded_values import SIZE, PaddedArray, PaddingWriter, static
from xjit.passes.dynamic.padding_options import is_same_size
from xjit.passes.dynamic.repacking import concatenate, dynamic_reshape, reshape, sort_valid_first
from xjit.passes.sharding.spmd.local_rows import LocalRow, local_row

Arrays = Sequence[PaddedArray]
PaddingRule = Callable[[HloInstruction, Arrays, PaddingWriter], list[PaddedArray]]
"""(instruction, its operands as padded arrays, writer) -> the arrays of the result."""


def pad_instruction(instruction: HloInstruction, operands: Arrays, b: PaddingWriter) -> list[PaddedArray]:
    """Returns the result of an instruction on padded arrays.

    Unsupported where that is not known: a dynamic dimension is neither kept, nor does a rule say what to mask.
    """
    handler = b.options.custom_call if instruction.opcode == "custom-call" else None
    known = handler(instruction, operands, b) if handler is not None else None
    return known if known is not None else PADDING_RULES.get(instruction.opcode, run_padded)(instruction, operands, b)


def run_padded(
    instruction: HloInstruction,
    operands: Arrays,
    b: PaddingWriter,
    sizes: Mapping[int, HloInstruction] | None = None,
) -> list[PaddedArray]:
    """The same instruction on the padded arrays, for dimensions that it only passes on.

    Contracted dimensions are masked. `sizes` are those of dimensions of the result that a rule has worked out.
    """
    row = local_row(instruction) or _empty_row(instruction)
    known: dict[int, HloInstruction] = {}
    masked: list[PaddedArray] = []
    for array, dims in zip(operands, row.operands, strict=True):
        contracted = [d for d in array.sizes if dims[d] in row.contracted]
        masked.append(b.mask(array, contracted, _identity(instruction, operands, b)) if contracted else array)
        for d, size in masked[-1].sizes.items():
            if dims[d] == NO_FACTOR:
                raise Unsupported(
                    f"dynamic-padder: {instruction.opcode} '{instruction.name}' along a dynamic dimension",
                    instruction.span,
                )
            if known.setdefault(dims[d], size) is not size:
                b.options.compare_sizes(instruction, known[dims[d]], size, b)
    local = b.add(instruction.clone_with_new_operands(static(instruction.shape), [a.data for a in masked]))
    found: list[PaddedArray] = []
    leaves = [s for _, s in instruction.shape.leaves()]
    for n, (shape, dims) in enumerate(zip(leaves, row.results, strict=True)):
        given = {d: known[f] for d, f in enumerate(dims) if f in known} | dict(sizes or {})
        if any(shape.is_dynamic_dimension(d) and d not in given for d in range(shape.rank)):
            raise Unsupported(
                f"dynamic-padder: the size of {instruction.opcode} '{instruction.name}'", instruction.span
            )
        data = b.element(local, n) if instruction.shape.is_tuple else local
        found.append(PaddedArray(data, given))
    return found


def _empty_row(instruction: HloInstruction) -> LocalRow:
    operands = tuple((NO_FACTOR,) * o.shape.rank if o.shape.is_array else () for o in instruction.operands)
    return LocalRow(operands, tuple((NO_FACTOR,) * s.rank if s.is_array else () for _, s in instruction.shape.leaves()))


def _identity(instruction: HloInstruction, operands: Arrays, b: PaddingWriter) -> HloInstruction | float:
    """What a reduction or a sum of products may read any number of times."""
    if instruction.opcode not in ("reduce", "reduce-window"):
        return 0
    start = operands[len(operands) // 2].data
    found = reduction_identity(instruction.to_apply)
    if found is None or _is_number(start, found[1]):
        return start
    return b.constant(found[1], start.shape.element_type)


def _is_number(value: HloInstruction, number: object) -> bool:
    return value.opcode == "constant" and bool(value.attributes_as(at.ConstantAttributes).literal.array == number)


# -- sizes


def _set_size(instruction: HloInstruction, operands: Arrays, b: PaddingWriter) -> list[PaddedArray]:
    dimension = instruction.attributes_as(at.DimensionAttributes).dimension
    array = operands[0].without(dimension)
    if not instruction.shape.is_dynamic_dimension(dimension):
        return [array]
    return [PaddedArray(array.data, {**array.sizes, dimension: b.convert(operands[1].data, SIZE)})]


def _get_size(instruction: HloInstruction, operands: Arrays, b: PaddingWriter) -> list[PaddedArray]:
    return [PaddedArray(b.size_of(operands[0], instruction.attributes_as(at.DimensionAttributes).dimension))]


# -- elementwise arithmetic on two arrays


def _of_two(instruction: HloInstruction, operands: Arrays, b: PaddingWriter) -> list[PaddedArray]:
    """Along a dimension of different sizes an operand of size 1 is repeated; of others what both have counts."""
    x, y = operands
    for d in sorted(x.sizes.keys() & y.sizes.keys()):
        if is_same_size(x.sizes[d], y.sizes[d]):
            y = PaddedArray(y.data, {**y.sizes, d: x.sizes[d]})
            continue
        b.options.compare_sizes(instruction, x.sizes[d], y.sizes[d], b)
        repeats = [_is_less_and_one(*pair, b) for pair in ((x.sizes[d], y.sizes[d]), (y.sizes[d], x.sizes[d]))]
        most, least = (b.make(opcode, x.sizes[d], y.sizes[d]) for opcode in ("maximum", "minimum"))
        size = b.make("select", b.make("or", *repeats), most, least)
        x, y = (
            PaddedArray(_first_where(pred, array.data, d, b), {**array.sizes, d: size})
            for pred, array in zip(repeats, (x, y), strict=True)
        )
    return run_padded(instruction, [x, y], b)


def _is_less_and_one(size: HloInstruction, other: HloInstruction, b: PaddingWriter) -> HloInstruction:
    return b.make("and", b.compare("EQ", size, b.constant(1, SIZE)), b.compare("LT", size, other))


def _first_where(pred: HloInstruction, data: HloInstruction, dimension: int, b: PaddingWriter) -> HloInstruction:
    """The first element along a dimension everywhere, if a scalar is true, and the data as it is if not."""
    bounds = data.shape.dimensions
    one = b.slice(data, [0] * len(bounds), [1 if d == dimension else n for d, n in enumerate(bounds)])
    others = [d for d in range(len(bounds)) if d != dimension]
    repeated = b.broadcast(b.reshape(one, [bounds[d] for d in others]), bounds, others)
    return b.make("select", b.broadcast(pred, bounds), repeated, data)


# -- reductions


def _reduce(instruction: HloInstruction, operands: Arrays, b: PaddingWriter) -> list[PaddedArray]:
    """Each array with the start of its own."""
    count = len(operands) // 2
    reduced = instruction.attributes_as(at.DimensionsAttributes).dimensions
    single = _identity(instruction, operands, b) if count == 1 else None
    starts = [single if single is not None else start.data for start in operands[count:]]
    arrays = [b.mask(array, reduced, start) for array, start in zip(operands, starts)]
    return run_padded(instruction, [*arrays, *operands[count:]], b)


def _reduce_window(instruction: HloInstruction, operands: Arrays, b: PaddingWriter) -> list[PaddedArray]:
    window = instruction.attributes_as(at.WindowAttributes).window.dimensions
    mixed = [d for d, w in enumerate(window) if w != at.WindowDimension()]
    sizes = {d: _window_size(operands[0].sizes[d], window[d], b) for d in mixed if d in operands[0].sizes}
    count = len(operands) // 2
    nothing = independent_identities(instruction.to_apply) if count > 1 else None
    masked: list[PaddedArray] = []
    for n, array in enumerate(operands[:count]):
        value = operands[count + n].data if count > 1 else _identity(instruction, operands, b)
        if nothing is not None:
            value = b.constant(nothing[n], array.data.shape.element_type)
        masked.append(b.mask(array, mixed, value))
    return run_padded(instruction, [*masked, *operands[count:]], b, sizes)


def _select_and_scatter(instruction: HloInstruction, operands: Arrays, b: PaddingWriter) -> list[PaddedArray]:
    """What does not count is never selected, and what would be added for it is nothing."""
    array, source, start = operands
    window = instruction.attributes_as(at.WindowAttributes).window.dimensions
    mixed = [d for d, w in enumerate(window) if w != at.WindowDimension()]
    select, scatter = instruction.called_computations
    least, nothing = _never_selected(select), reduction_identity(scatter)
    if least is None or nothing is None:
        raise Unsupported(f"dynamic-padder: the computations of '{instruction.name}'", instruction.span)
    kind = array.data.shape.element_type
    sizes = {d: array.sizes[d] for d in mixed if d in array.sizes}
    masked = [b.mask(array, mixed, b.constant(least, kind)), b.mask(source, mixed, b.constant(nothing[1], kind))]
    return run_padded(instruction, [*masked, start], b, sizes)


def _never_selected(select: HloComputation) -> object | None:
    """Returns the value that loses against every other, and, coming later, against itself; None if unknown."""
    root, parameters = select.root_instruction, select.parameter_instructions
    if root.opcode != "compare" or root.operands != parameters:
        return None
    opcode = {"GE": "maximum", "LE": "minimum"}.get(root.attributes_as(at.CompareAttributes).direction)
    kind = parameters[0].shape.element_type
    return type_identities(kind).get(opcode) if opcode is not None else None


def _window_size(size: HloInstruction, window: at.WindowDimension, b: PaddingWriter) -> HloInstruction:
    """How many windows fit: none, or (padded - dilated window) / stride + 1."""
    spread = b.arithmetic("multiply", b.arithmetic("subtract", size, 1), window.base_dilation)
    empty = b.compare("EQ", size, b.constant(0, SIZE))
    wide = b.make("select", empty, b.constant(0, SIZE), b.arithmetic("add", spread, 1))
    room = window.padding_low + window.padding_high - ((window.size - 1) * window.window_dilation + 1)
    steps = b.arithmetic("divide", b.arithmetic("add", b.arithmetic("add", wide, room), window.stride), window.stride)
    return b.make("maximum", steps, b.constant(0, SIZE))


def _convolution(instruction: HloInstruction, operands: Arrays, b: PaddingWriter) -> list[PaddedArray]:
    """Space and features of the input count as zero beyond the sizes."""
    a = instruction.attributes_as(at.ConvolutionAttributes)
    labels, data = a.dim_labels, operands[0]
    sizes: dict[int, HloInstruction] = {}
    spatial = zip(labels.input_spatial_dimensions, labels.output_spatial_dimensions, a.window.dimensions, strict=True)
    for source, target, window in spatial:
        if source in data.sizes:
            if window.padding_high < 0 or window.window_reversal:
                raise Unsupported("dynamic-padder: this window over a dynamic dimension", instruction.span)
            sizes[target] = _window_size(data.sizes[source], window, b)
    masked = b.mask(data, [*labels.input_spatial_dimensions, labels.input_feature_dimension], 0)
    kernel = b.mask(operands[1], [labels.kernel_input_feature_dimension, *labels.kernel_spatial_dimensions], 0)
    return run_padded(instruction, [masked, kernel], b, sizes)


# -- movement


def _pad(instruction: HloInstruction, operands: Arrays, b: PaddingWriter) -> list[PaddedArray]:
    """What was beyond the size is padding, too."""
    array, sizes = operands[0], dict[int, HloInstruction]()
    for d, p in enumerate(instruction.attributes_as(at.PadAttributes).padding):
        if d in array.sizes and p != at.PaddingDimension():
            size = b.arithmetic("add", array.sizes[d], p.edge_padding_low + p.edge_padding_high)
            if p.interior_padding:
                gaps = b.make("maximum", b.arithmetic("subtract", array.sizes[d], 1), b.constant(0, SIZE))
                size = b.make("add", size, b.arithmetic("multiply", gaps, p.interior_padding))
            sizes[d] = b.make("maximum", size, b.constant(0, SIZE))
    return run_padded(instruction, [b.mask(array, list(sizes), operands[1].data), operands[1]], b, sizes)


def _reverse(instruction: HloInstruction, operands: Arrays, b: PaddingWriter) -> list[PaddedArray]:
    """Reversed, what counts comes last: it is moved to the front."""
    array, sizes = operands[0], operands[0].sizes
    moved = [d for d in instruction.attributes_as(at.DimensionsAttributes).dimensions if d in sizes]
    for d in moved:
        array = array.without(d)
    (result,) = run_padded(instruction, [array], b, {d: sizes[d] for d in moved})
    data = result.data
    for d in moved:
        bound = data.shape.dimensions[d]
        start = b.make("subtract", b.constant(bound, SIZE), sizes[d])
        data = b.window_at(b.pad_end(data, d, bound), d, start, bound)
    return [PaddedArray(data, result.sizes)]


def _update(instruction: HloInstruction, operands: Arrays, b: PaddingWriter) -> list[PaddedArray]:
    """Behind an update that is shorter than its bound the array stays, which is made longer for its bound to fit in."""
    array, update, *starts = operands
    whole = array.data.shape.dimensions
    parts = [d for d in update.sizes if d not in array.sizes or update.data.shape.dimensions[d] < whole[d]]
    if not parts or len(starts) != len(whole):
        return _clamped(instruction, operands, b)
    kept, data, sizes = update, array.data, update.data.shape.dimensions
    for d in parts:
        last = b.make("subtract", b.size_of(array, d), update.sizes[d])
        start = b.make("minimum", starts[d].data, b.convert(last, starts[d].data.shape.element_type))
        starts[d] = PaddedArray(b.make("maximum", start, b.like(start, 0)))
        data = b.pad_end(data, d, sizes[d])
    under = b.dynamic_slice(data, [s.data for s in starts], sizes)
    for d in parts:
        kept = kept.without(d, b.make("select", b.valid(kept, d), kept.data, under))
    longer = b.make("dynamic-update-slice", data, kept.data, *[s.data for s in starts])
    return [PaddedArray(b.slice(longer, [0] * len(whole), whole), array.sizes)]


def _clamped(instruction: HloInstruction, operands: Arrays, b: PaddingWriter) -> list[PaddedArray]:
    """Starts of dynamic slices and updates are clamped to the size, which is less than the bound."""
    first = 1 if instruction.opcode == "dynamic-slice" else 2
    if len(operands) != first + operands[0].data.shape.rank and any(a.sizes for a in operands):
        return run_padded(instruction, operands, b)
    array, starts = operands[0], [a.data for a in operands[first:]]
    window = instruction.shape if first == 1 else instruction.operand(1).shape
    sizes: dict[int, HloInstruction] = {}
    for d, size in operands[0].sizes.items():
        if window.dimensions[d] == array.data.shape.dimensions[d]:
            continue
        last = b.convert(b.arithmetic("subtract", size, window.dimensions[d]), starts[d].shape.element_type)
        zero = b.like(starts[d], 0)
        starts[d] = b.make("maximum", b.make("minimum", starts[d], last), zero)
        array = array.without(d)
        if first == 2:
            sizes[d] = size
    return run_padded(instruction, [array, *operands[1:first], *map(PaddedArray, starts)], b, sizes)


def _gather(instruction: HloInstruction, operands: Arrays, b: PaddingWriter) -> list[PaddedArray]:
    """Starts of slices of a dynamic dimension are clamped to the size, as gather clamps them to the bound."""
    a = instruction.attributes_as(at.GatherAttributes)
    array, indices = operands
    bounds = array.data.shape.dimensions
    parts = [d for d in array.sizes if a.slice_sizes[d] < bounds[d]]
    if parts:
        limits = [b.arithmetic("subtract", b.size_of(array, d), a.slice_sizes[d]) for d in a.start_index_map]
        kind, shape = indices.data.shape.element_type, indices.data.shape.dimensions
        vector = b.convert(b.concatenate([b.reshape(limit, (1,)) for limit in limits], 0), kind)
        if a.index_vector_dim == len(shape):
            limit = b.broadcast(b.reshape(vector, ()), shape)
        else:
            limit = b.broadcast(vector, shape, (a.index_vector_dim,))
        indices = PaddedArray(b.make("minimum", indices.data, limit), indices.sizes)
    for d in parts:
        array = array.without(d)
    return run_padded(instruction, [array, indices], b)


def _scatter(instruction: HloInstruction, operands: Arrays, b: PaddingWriter) -> list[PaddedArray]:
    """Indices that do not count lie outside of every array: their updates are skipped."""
    count = len(operands) // 2
    a = instruction.attributes_as(at.ScatterAttributes)
    indices, updates = operands[count], list(operands[count + 1 :])
    kept = [d for d in range(indices.data.shape.rank) if d not in a.scatter_indices_batching_dims]
    highest = integer_limits(indices.data.shape.element_type)[1]
    masked = b.mask(indices, [d for d in kept if d != a.index_vector_dim], highest)
    rank = updates[0].data.shape.rank
    outer = [d for d in range(rank) if d not in a.update_window_dims]
    batches = [d for d in range(indices.data.shape.rank) if d != a.index_vector_dim]
    for d, source in zip(outer, batches, strict=True):
        if source not in a.scatter_indices_batching_dims:
            updates = [u.without(d) for u in updates]
    sizes = dict(operands[0].sizes)
    arrays = [PaddedArray(x.data) for x in operands[:count]]
    if any(d in a.update_window_dims for u in updates for d in u.sizes):
        raise Unsupported("dynamic-padder: updates of a dynamic window", instruction.span)
    return run_padded(instruction, [*arrays, masked, *updates], b, sizes)


def _slice(instruction: HloInstruction, operands: Arrays, b: PaddingWriter) -> list[PaddedArray]:
    """A part of a dynamic dimension is what it is said to be; if it is dynamic, what is left of the size."""
    array, bounds, sizes = operands[0], operands[0].data.shape.dimensions, dict[int, HloInstruction]()
    for d, s in enumerate(instruction.attributes_as(at.SliceAttributes).slice):
        if d in array.sizes and (s.start, s.limit, s.stride) != (0, bounds[d], 1):
            if instruction.shape.is_dynamic_dimension(d):
                end = b.make("minimum", array.sizes[d], b.constant(s.limit, SIZE))
                steps = b.arithmetic("divide", b.arithmetic("add", end, s.stride - 1 - s.start), s.stride)
                sizes[d] = b.make("maximum", steps, b.constant(0, SIZE))
            array = array.without(d)
    return run_padded(instruction, [array], b, sizes)


PADDING_RULES: Mapping[str, PaddingRule] = {
    **{name: _of_two for name, opcode in OPCODES.items() if opcode.has(Trait.ELEMENTWISE) and opcode.arity == 2},
    "concatenate": concatenate,
    "convolution": _convolution,
    "dynamic-reshape": dynamic_reshape,
    "dynamic-slice": _clamped,
    "dynamic-update-slice": _update,
    "gather": _gather,
    "get-dimension-size": _get_size,
    "pad": _pad,
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "reshape": reshape,
    "reverse": _reverse,
    "scatter": _scatter,
    "select-and-scatter": _select_and_scatter,
    "set-dimension-size": _set_size,
    "slice": _slice,
    "sort": sort_valid_first,
}
