"""Rules of tensors and buffers: sizes, slices, casts and reshapes that say nothing new."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.linalg_ext.dialects.attribute_kinds import DYNAMIC
from xjit.linalg_ext.dialects.definition import SEGMENTS
from xjit.linalg_ext.dialects.registry import has_trait, operand_group
from xjit.linalg_ext.dialects.tensor import reassociation
from xjit.linalg_ext.ir.attributes import DenseArrayAttr, DenseAttr, FloatAttr, IntegerAttr, Scalar
from xjit.linalg_ext.ir.builder import Builder, constant_value
from xjit.linalg_ext.ir.operation import Operation, OpResult, Value
from xjit.linalg_ext.ir.types import FloatType, IndexType, IntegerType, MemRefType, Shape, TensorType
from xjit.linalg_ext.rewrite.rule import Rule, replace, replace_with_constant, replace_with_index

__all__ = ["TENSOR_RULES", "mixed_list"]

_LISTS = ("offsets", "sizes", "strides")


def mixed_list(op: Operation, name: str) -> list[Value | int]:
    """Returns `[%a, 0]` of the operand group `name` and the attribute `static_name`."""
    static = op.attributes[f"static_{name}"]
    assert isinstance(static, DenseArrayAttr)
    values = iter(operand_group(op, name))
    return [next(values) if v == DYNAMIC else v for v in static.ints]


def _shape(value: Value) -> Shape:
    return value.type.shape if isinstance(value.type, TensorType | MemRefType) else ()


def fold_dim(op: Operation) -> bool:
    """The size of a dimension that is static, or that the operation that makes the tensor was told."""
    source, axis = op.operands[0], constant_value(op.operands[1])
    shape = _shape(source)
    if axis is None or not 0 <= axis < len(shape):
        return False
    size = shape[axis]
    if size is not None:
        return replace_with_index(op, size)
    known = _size_of(source, axis)
    if known is None:
        return False
    if isinstance(known, int):
        return replace_with_index(op, known)
    if isinstance(known, tuple):
        op.set_operands([known[0], Builder.before(op).constant_index(known[1])])
        return True
    return replace(op, [known])


def _size_of(source: Value, axis: int) -> Value | int | tuple[Value, int] | None:
    """Returns a size as a value, a number, or the dimension of another value; None if it is not known."""
    maker = source.defining_op
    if maker is None or not isinstance(source, OpResult):
        return None
    if maker.name in ("tensor.empty", "memref.alloc", "memref.alloca", "tensor.generate"):
        sizes = operand_group(maker, "dynamicSizes" if maker.dialect == "memref" else "sizes")
        return sizes[_shape(source)[:axis].count(None)]
    if maker.name in ("tensor.extract_slice", "memref.subview"):
        kept = _kept_axes(mixed_list(maker, "sizes"), _shape(source))
        return None if kept is None else mixed_list(maker, "sizes")[kept[axis]]
    if maker.name in ("tensor.insert_slice", "tensor.insert"):
        return maker.operands[1], axis
    if maker.name in ("tensor.cast", "memref.cast"):
        return maker.operands[0], axis
    if maker.name in ("tensor.expand_shape", "memref.expand_shape") and "static_output_shape" in maker.attributes:
        return mixed_list(maker, "output_shape")[axis]
    if has_trait(maker, "structured"):
        inits = maker.operands[len(maker.operands) - len(maker.results) :]
        return (inits[source.index], axis) if inits[source.index].type == source.type else None
    return None


def _kept_axes(sizes: Sequence[Value | int], shape: Shape) -> list[int] | None:
    """Returns which dimensions of a slice are left in a shape that drops some of size 1; None if it is ambiguous."""
    if len(sizes) == len(shape):
        return list(range(len(shape)))
    kept = [i for i, size in enumerate(sizes) if size != 1]
    return kept if len(kept) == len(shape) else None


def same_list(a: Sequence[Value | int], b: Sequence[Value | int]) -> bool:
    return len(a) == len(b) and all(x is y or (isinstance(x, int) and x == y) for x, y in zip(a, b))


def _same_slice(a: Operation, b: Operation) -> bool:
    return all(same_list(mixed_list(a, name), mixed_list(b, name)) for name in _LISTS)


def _is_whole(op: Operation, shape: Shape) -> bool:
    """Whether a slice is all of a static shape."""
    return (
        mixed_list(op, "offsets") == [0] * len(shape)
        and mixed_list(op, "strides") == [1] * len(shape)
        and None not in shape
        and mixed_list(op, "sizes") == list(shape)
    )


def fold_extract_slice(op: Operation) -> bool:
    """All of a tensor is the tensor; what was inserted is taken out again."""
    source = op.operands[0]
    if op.result.type == source.type and _is_whole(op, _shape(source)):
        return replace(op, [source])
    inner = source.defining_op
    if inner is not None and inner.name == "tensor.insert_slice" and inner.operands[0].type == op.result.type:
        return _same_slice(op, inner) and replace(op, [inner.operands[0]])
    return False


def fold_insert_slice(op: Operation) -> bool:
    """A tensor that covers all, and a slice that goes back to where it is from."""
    source, dest = op.operands[:2]
    if source.type == dest.type and _is_whole(op, _shape(dest)):
        return replace(op, [source])
    inner = source.defining_op
    if inner is not None and inner.name == "tensor.extract_slice" and inner.operands[0] is dest:
        return _same_slice(op, inner) and replace(op, [dest])
    return False


def constant_lists(op: Operation) -> bool:
    """Values of a slice that are constants become numbers; the result's type learns the sizes."""
    changed = False
    operands = list(op.operands[: len(op.operands) - sum(len(operand_group(op, n)) for n in _LISTS)])
    counts = [1] * len(operands)
    attributes: dict[str, DenseArrayAttr] = {}
    for name in _LISTS:
        values: list[Value] = []
        static: list[int] = []
        for item in mixed_list(op, name):
            number = item if isinstance(item, int) else constant_value(item)
            if number is None or (name == "sizes" and number < 0):
                assert not isinstance(item, int)
                values.append(item)
                static.append(DYNAMIC)
            else:
                changed |= not isinstance(item, int)
                static.append(number)
        attributes[f"static_{name}"] = DenseArrayAttr.i64(static)
        operands += values
        counts.append(len(values))
    if not changed:
        return False
    attributes[SEGMENTS] = DenseArrayAttr.i32(counts)
    if op.name != "tensor.extract_slice":
        op.set_operands(operands)
        op.attributes.update(attributes)
        return True
    t = op.result.type
    assert isinstance(t, TensorType)
    kept = _kept_axes(mixed_list(op, "sizes"), t.shape)
    sizes = attributes["static_sizes"].ints
    shape = t.shape if kept is None else [_refined(sizes[axis], size) for axis, size in zip(kept, t.shape)]
    new = Builder.before(op).create(op.name, operands, (t.with_shape(tuple(shape)),), {**op.attributes, **attributes})
    return replace(op, [cast_to(Builder.before(op), new.result, t)])


def _refined(size: int, old: int | None) -> int | None:
    return old if size == DYNAMIC else size


def cast_to(builder: Builder, value: Value, t: TensorType) -> Value:
    """Returns the value with another type of the same shape, as far as both are known."""
    return value if value.type == t else builder.create("tensor.cast", (value,), (t,)).result


def constant_empty(op: Operation) -> bool:
    """Sizes of an empty tensor that are constants become part of its type."""
    t = op.result.type
    if not isinstance(t, TensorType):
        return False
    values = iter(op.operands)
    shape: list[int | None] = []
    kept: list[Value] = []
    for size in t.shape:
        if size is None:
            value = next(values)
            size = constant_value(value)
            if size is None or size < 0:
                kept.append(value)
                size = None
        shape.append(size)
    if len(kept) == len(op.operands):
        return False
    builder = Builder.before(op)
    new = builder.create(op.name, kept, (t.with_shape(tuple(shape)),), op.attributes)
    return replace(op, [cast_to(builder, new.result, t)])


def fold_cast(op: Operation) -> bool:
    """A cast to the same type, and a cast of a cast that knows no less."""
    source, t = op.operands[0], op.result.type
    if source.type == t:
        return replace(op, [source])
    inner = source.defining_op
    if inner is None or inner.name != op.name:
        return False
    first = inner.operands[0]
    if _knows_more(first.type, source.type) or _knows_more(t, source.type):
        op.set_operand(0, first)
        return True
    return False


def _knows_more(a: object, b: object) -> bool:
    """Whether type a has all sizes that type b has."""
    if not isinstance(a, TensorType) or not isinstance(b, TensorType) or a.rank != b.rank or a.element != b.element:
        return False
    return all(y is None or x == y for x, y in zip(a.shape, b.shape))


def _hides(value: Value) -> Value | None:
    """Returns the tensor behind a cast that forgets sizes."""
    op = value.defining_op
    if op is None or op.name != "tensor.cast":
        return None
    source = op.operands[0]
    return source if _knows_more(source.type, value.type) else None


_SAME_OPERANDS = ("tensor.dim", "tensor.extract", "tensor.extract_slice", "tensor.insert_slice")


def look_through_cast(op: Operation) -> bool:
    """A slice or size of a tensor is that of the tensor before a cast."""
    changed = False
    for i, value in enumerate(op.operands[:2] if op.name == "tensor.insert_slice" else op.operands[:1]):
        source = _hides(value)
        if source is None or (op.name == "tensor.insert_slice" and i == 0 and not _fits_slice(op, source)):
            continue
        if op.name == "tensor.insert_slice" and i == 1:
            old = op.result.type
            assert isinstance(old, TensorType)
            new = Builder.before(op).create(
                op.name, (op.operands[0], source, *op.operands[2:]), (source.type,), op.attributes
            )
            return replace(op, [cast_to(Builder.before(op), new.result, old)])
        op.set_operand(i, source)
        changed = True
    return changed


def _fits_slice(op: Operation, source: Value) -> bool:
    sizes = mixed_list(op, "sizes")
    shape = _shape(source)
    return len(sizes) == len(shape) and all(size is None or s == size for s, size in zip(sizes, shape))


def structured_through_cast(op: Operation) -> bool:
    """A structured op takes tensors from before casts; its results are cast instead."""
    if not op.results or not has_trait(op, "structured"):
        return False
    sources = [_hides(value) for value in op.operands]
    if all(source is None for source in sources):
        return False
    operands = [value if source is None else source for value, source in zip(op.operands, sources)]
    inits = operands[len(operands) - len(op.results) :]
    builder = Builder.before(op)
    new = Operation(op.name, operands, [v.type for v in inits], op.attributes, (), op.location)
    for region in op.regions:
        new.add_region(region.clone({}))
    builder.insert(new)
    casts: list[Value] = []
    for value, result in zip(new.results, op.results):
        assert isinstance(result.type, TensorType)
        casts.append(cast_to(builder, value, result.type))
    return replace(op, casts)


def inverse_reshape(op: Operation) -> bool:
    """Expanding what was collapsed the same way, and the other way round."""
    source = op.operands[0]
    inner = source.defining_op
    other = op.name.replace("expand", "#").replace("collapse", "expand").replace("#", "collapse")
    if inner is None or inner.name != other or inner.operands[0].type != op.result.type:
        return False
    return reassociation(inner) == reassociation(op) and _at_most_one_unknown(op) and replace(op, [inner.operands[0]])


def _at_most_one_unknown(op: Operation) -> bool:
    """Whether each group of dimensions has at most one unknown size: then the shape is the old one."""
    expanding = op.name.endswith("expand_shape")
    shape = _shape(op.result) if expanding else _shape(op.operands[0])
    return not expanding or all(sum(shape[d] is None for d in group) <= 1 for group in reassociation(op))


def trivial_reshape(op: Operation) -> bool:
    """A reshape to the same type."""
    return op.result.type == op.operands[0].type and replace(op, [op.operands[0]])


def trivial_pad(op: Operation) -> bool:
    """Nothing is added."""
    if "nofold" in op.attributes or op.result.type != op.operands[0].type:
        return False
    none = all(v == 0 for name in ("low", "high") for v in mixed_list(op, name))
    return none and replace(op, [op.operands[0]])


_SLICES = ("tensor.extract_slice", "tensor.insert_slice", "tensor.parallel_insert_slice")
_RESHAPES = ("tensor.expand_shape", "tensor.collapse_shape", "memref.expand_shape", "memref.collapse_shape")


def extracted_element(op: Operation) -> bool:
    """An element of a constant, or of a tensor that is made of elements, is that element."""
    maker = op.operands[0].defining_op
    if maker is None or maker.name not in ("tensor.from_elements", "arith.constant"):
        return False
    elements = maker.attributes.get("value")
    if isinstance(elements, DenseAttr) and elements.is_splat:
        return _replace_with_element(op, elements.values[0])
    place = 0
    for size, index in zip(_shape(op.operands[0]), map(constant_value, op.operands[1:])):
        if size is None or index is None or not 0 <= index < size:
            return False
        place = place * size + index
    if isinstance(elements, DenseAttr):
        return _replace_with_element(op, elements.values[place])
    return maker.name == "tensor.from_elements" and replace(op, [maker.operands[place]])


def _replace_with_element(op: Operation, number: Scalar) -> bool:
    kind = op.result.type
    if isinstance(kind, FloatType) and isinstance(number, int | float):
        return replace_with_constant(op, FloatAttr(float(number), kind), kind)
    if isinstance(kind, IntegerType | IndexType) and isinstance(number, int):
        return replace_with_constant(op, IntegerAttr(int(number), kind), kind)
    return False


def fold_rank(op: Operation) -> bool:
    """The number of dimensions, where the type tells it."""
    t = op.operands[0].type
    return isinstance(t, TensorType | MemRefType) and replace_with_index(op, t.rank)


def constant_pad(op: Operation) -> bool:
    """Amounts of padding that are constants become numbers, and the sizes of the result that they tell."""
    t, source = op.result.type, op.operands[0].type
    assert isinstance(t, TensorType) and isinstance(source, TensorType)
    lists = [mixed_list(op, name) for name in ("low", "high")]
    numbers = [[constant_value(i) if isinstance(i, Value) else i for i in listed] for listed in lists]
    if all(i is n for listed, found in zip(lists, numbers) for i, n in zip(listed, found) if n is not None):
        return False
    kept = [[i for i, n in zip(*each) if n is None and isinstance(i, Value)] for each in zip(lists, numbers)]
    shape = [
        old if size is None or low is None or high is None else size + low + high
        for old, size, low, high in zip(t.shape, source.shape, *numbers)
    ]
    attributes = {
        **op.attributes,
        **{f"static_{n}": DenseArrayAttr.i64(_or_dynamic(v)) for n, v in zip(("low", "high"), numbers)},
        SEGMENTS: DenseArrayAttr.i32((1, *map(len, kept))),
    }
    operands = (op.operands[0], *kept[0], *kept[1])
    body = op.regions[0].clone({})
    new = Builder.before(op).create(op.name, operands, (t.with_shape(tuple(shape)),), attributes, [body], op.location)
    return replace(op, [cast_to(Builder.before(op), new.result, t)])


def _or_dynamic(numbers: Sequence[int | None]) -> list[int]:
    return [DYNAMIC if n is None else n for n in numbers]


def pad_of_fill(op: Operation) -> bool:
    """What is padded with what it is filled with is filled."""
    fill, t = op.operands[0].defining_op, op.result.type
    if fill is None or fill.name != "linalg.fill" or not isinstance(t, TensorType) or None in t.shape:
        return False
    if "nofold" in op.attributes or op.body.terminator.operands[0] is not fill.operands[0]:
        return False
    builder = Builder.before(op)
    empty = builder.create("tensor.empty", (), (t,)).result
    return replace(op, builder.create("linalg.fill", (fill.operands[0], empty), (t,), fill.attributes).results)


TENSOR_RULES: tuple[Rule, ...] = (
    Rule(("tensor.dim", "memref.dim"), fold_dim),
    Rule(_SLICES, constant_lists),
    Rule(("tensor.extract_slice",), fold_extract_slice),
    Rule(("tensor.insert_slice",), fold_insert_slice),
    Rule(("tensor.empty",), constant_empty),
    Rule(("tensor.extract",), extracted_element),
    Rule(("tensor.cast",), fold_cast),
    Rule(_SAME_OPERANDS, look_through_cast),
    Rule(("",), structured_through_cast),
    Rule(_RESHAPES, inverse_reshape),
    Rule(_RESHAPES, trivial_reshape),
    Rule(("tensor.pad",), trivial_pad),
    Rule(("tensor.pad",), constant_pad),
    Rule(("tensor.pad",), pad_of_fill),
    Rule(("tensor.rank", "memref.rank"), fold_rank),
)
