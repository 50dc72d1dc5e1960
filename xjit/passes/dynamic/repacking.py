"""Rules that bring what counts together: concatenations, sorts, reshapes that merge or make a dynamic dimension."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xjit.hlo import HloComputation, HloInstruction, PrimitiveType, Shape, Unsupported
from xjit.hlo import attributes as at
from xjit.ops import build
from xjit.passes.analysis.dynamic_dimensions import reshape_groups
from xjit.passes.dynamic.padded_values import SIZE, PaddedArray, PaddingWriter

KEY = PrimitiveType.S8


def concatenate(instruction: HloInstruction, operands: Sequence[PaddedArray], b: PaddingWriter) -> list[PaddedArray]:
    """Operands are written one after the other: the next begins where the last one's size ends."""
    along = instruction.attributes_as(at.ConcatenateAttributes).dimension
    others = {d: n for o in operands for d, n in o.sizes.items() if d != along}
    if not any(along in o.sizes for o in operands):
        return [PaddedArray(b.concatenate([o.data for o in operands], along), others)]
    whole = b.full(Shape.array(instruction.shape.element_type, instruction.shape.dimensions), 0)
    zero = b.constant(0, SIZE)
    place = zero
    for operand in operands:
        starts = [place if d == along else zero for d in range(instruction.shape.rank)]
        whole = b.make("dynamic-update-slice", whole, operand.data, *starts)
        place = b.make("add", place, b.size_of(operand, along))
    return [PaddedArray(whole, {**others, along: place})]


def sort_valid_first(
    instruction: HloInstruction, operands: Sequence[PaddedArray], b: PaddingWriter
) -> list[PaddedArray]:
    """Along a dynamic dimension, a first key puts what does not count behind all else."""
    along = instruction.attributes_as(at.SortAttributes).sort_dimension
    dynamic = next((o for o in operands if along in o.sizes), None)
    arrays = [o.data for o in operands]
    called = list(instruction.called_computations)
    if dynamic is not None:
        arrays.insert(0, _is_beyond(dynamic, along, b))
        called = [b.into.embed(_after_key(instruction.to_apply))]
    shapes = [a.shape for a in arrays]
    shape = shapes[0] if len(shapes) == 1 else Shape.tuple_of(shapes)
    local = b.add(HloInstruction.create("sort", shape, arrays, instruction.attributes, called))
    first = 0 if dynamic is None else 1
    results = [b.element(local, n) for n in range(first, len(arrays))] if shape.is_tuple else [local]
    return [PaddedArray(data, o.sizes) for data, o in zip(results, operands, strict=True)]


def _is_beyond(array: PaddedArray, dimension: int, b: PaddingWriter) -> HloInstruction:
    return b.convert(b.make("not", b.valid(array, dimension)), KEY)


def _after_key(comparator: HloComputation) -> HloComputation:
    """The comparator of (key, ...): by the keys, and by itself where these are equal."""
    builder = HloComputation.Builder(f"{comparator.name}_valid_first")
    key = Shape.array(KEY)
    lhs, rhs = (builder.add_instruction(HloInstruction.create_parameter(n, key, f"key{n}")) for n in range(2))
    inner: dict[HloInstruction, HloInstruction] = {}
    for instruction in comparator.make_instruction_post_order():
        if instruction.opcode == "parameter":
            number = instruction.attributes_as(at.ParameterAttributes).parameter_number + 2
            made = HloInstruction.create_parameter(number, instruction.shape, instruction.name)
        else:
            made = instruction.clone_with_new_operands(instruction.shape, [inner[o] for o in instruction.operands])
        inner[instruction] = builder.add_instruction(made)
    for parameter in comparator.parameter_instructions:
        if parameter not in inner:
            number = parameter.attributes_as(at.ParameterAttributes).parameter_number + 2
            builder.add_instruction(HloInstruction.create_parameter(number, parameter.shape, parameter.name))
    less = builder.add_instruction(build.compare("LT", lhs, rhs))
    equal = builder.add_instruction(build.compare("EQ", lhs, rhs))
    root = builder.add_instruction(build.select(equal, inner[comparator.root_instruction], less))
    return builder.build(root)


def reshape(instruction: HloInstruction, operands: Sequence[PaddedArray], b: PaddingWriter) -> list[PaddedArray]:
    """What counts keeps its order. Where the major dimension of a run is the dynamic one it is in front as it lies."""
    (array,), shape = operands, instruction.shape
    sizes: dict[int, HloInstruction] = {}
    moves = False
    for sources, targets in reshape_groups(array.data.shape.dimensions, shape.dimensions):
        dynamic = [d for d in sources if d in array.sizes]
        if not dynamic:
            continue
        wanted = [d for d in targets if shape.is_dynamic_dimension(d)] or list(targets[:1])
        if len(wanted) != 1:
            raise _ambiguous(instruction)
        sizes[wanted[0]] = _size_of_run(array, sources, [shape.dimensions[d] for d in targets if d != wanted[0]], b)
        leading = next((d for d in sources if d in dynamic or array.data.shape.dimensions[d] != 1), None)
        first = next(d for d in targets if d in wanted or shape.dimensions[d] != 1)
        moves |= dynamic != [leading] or wanted != [first]
    if array.sizes and not sizes:
        raise _ambiguous(instruction)
    if not moves:
        return [PaddedArray(b.reshape(array.data, shape.dimensions), sizes)]
    data, _ = _packed(array, b)
    if any(d > 0 for d in sizes):
        given = [sizes[d] if d in sizes else b.constant(n, SIZE) for d, n in enumerate(shape.dimensions)]
        data = _taken(data, _positions(shape.dimensions, given, b), b)
    return [PaddedArray(b.reshape(data, shape.dimensions), sizes)]


def _ambiguous(instruction: HloInstruction) -> Unsupported:
    text = f"dynamic-padder: the sizes of reshape '{instruction.name}' do not follow from those of its operand"
    return Unsupported(text, instruction.span)


def _size_of_run(array: PaddedArray, run: Sequence[int], others: Sequence[int], b: PaddingWriter) -> HloInstruction:
    """How long one dimension is that, with others, has as many elements as a run of dimensions."""
    bounds = array.data.shape.dimensions
    have, want = math.prod(bounds[d] for d in run if d not in array.sizes), math.prod(others)
    size = None
    for d in run:
        if d in array.sizes:
            size = array.sizes[d] if size is None else b.make("multiply", size, array.sizes[d])
    assert size is not None
    common = math.gcd(have, want) or 1
    return b.arithmetic("divide", b.arithmetic("multiply", size, have // common), want // common or 1)


def dynamic_reshape(
    instruction: HloInstruction, operands: Sequence[PaddedArray], b: PaddingWriter
) -> list[PaddedArray]:
    """What counts, one after the other, is dealt out to an array of the sizes that are given."""
    shape = instruction.shape
    data, _ = _packed(operands[0], b)
    given = [b.convert(size.data, SIZE) for size in operands[1:]]
    sizes = {d: given[d] for d in range(shape.rank) if shape.is_dynamic_dimension(d)}
    if any(d > 0 for d in sizes):
        data = _taken(data, _positions(shape.dimensions, given, b), b)
    return [PaddedArray(b.reshape(data, shape.dimensions), sizes)]


def _positions(bounds: Sequence[int], sizes: Sequence[HloInstruction], b: PaddingWriter) -> HloInstruction:
    """Returns s32[bounds]: the place of each element in the row-major order of an array of the true sizes."""
    place = b.iota(SIZE, bounds, 0)
    for d in range(1, len(bounds)):
        scaled = b.make("multiply", place, b.broadcast(sizes[d], bounds))
        place = b.make("add", scaled, b.iota(SIZE, bounds, d))
    return place


def _taken(data: HloInstruction, positions: HloInstruction, b: PaddingWriter) -> HloInstruction:
    """The elements of a vector at some positions."""
    shape = Shape.array(data.shape.element_type, positions.shape.dimensions)
    attributes = at.GatherAttributes(
        offset_dims=(),
        collapsed_slice_dims=(0,),
        start_index_map=(0,),
        index_vector_dim=positions.shape.rank,
        slice_sizes=(1,),
    )
    return b.add(HloInstruction.create("gather", shape, [data, positions], attributes))


def _packed(array: PaddedArray, b: PaddingWriter) -> tuple[HloInstruction, HloInstruction]:
    """Returns the elements as a vector with those that count in front, in their order, and how many count."""
    count = array.data.shape.num_elements
    valid: HloInstruction | None = None
    size = b.constant(1, SIZE)
    for d in range(array.data.shape.rank):
        size = b.make("multiply", size, b.size_of(array, d))
        if d in array.sizes:
            pred = b.valid(array, d)
            valid = pred if valid is None else b.make("and", valid, pred)
    data = b.reshape(array.data, (count,))
    if valid is None or set(array.sizes) == {0}:
        return data, size
    key = b.convert(b.make("not", b.reshape(valid, (count,))), KEY)
    builder = HloComputation.Builder("valid_first")
    shapes = [Shape.array(KEY)] * 2 + [Shape.array(data.shape.element_type)] * 2
    keys = [builder.add_instruction(HloInstruction.create_parameter(n, s, f"p{n}")) for n, s in enumerate(shapes)]
    comparator = b.into.embed(builder.build(builder.add_instruction(build.compare("LT", keys[0], keys[1]))))
    shape = Shape.tuple_of([key.shape, data.shape])
    attributes = at.SortAttributes((0,), is_stable=True)
    packed = b.add(HloInstruction.create("sort", shape, [key, data], attributes, [comparator]))
    return b.element(packed, 1), size
