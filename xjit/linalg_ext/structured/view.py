"""StructuredOp: an operation seen as a structured op: inputs, inits, accesses, loops, body."""

from __future__ import annotations

from functools import cached_property
from math import prod

from xjit.affine import AffineMap
from xjit.affine.expr import AffineExpr, AffineExprKind
from xjit.affine.interval import Interval
from xjit.affine.pool import dim
from xjit.affine.walks import interval_of
from xjit.linalg_ext.ir.attributes import ArrayAttr, Attribute, DenseArrayAttr, DenseAttr, IntegerAttr
from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.errors import LinalgVerifyError
from xjit.linalg_ext.ir.operation import Block, Operation, Region, Value
from xjit.linalg_ext.ir.types import MemRefType, Shape, TensorType, element_type
from xjit.linalg_ext.structured.row import PARALLEL, Access, Accesses, StructuredRow

__all__ = ["StructuredOp", "attribute_integers", "integers_of"]


def integers_of(attribute: Attribute) -> tuple[int, ...] | None:
    """Returns the integers of `[1, 2]`, `array<i64: 1, 2>`, `dense<[1, 2]>` or `1`, None for other attributes."""
    if isinstance(attribute, IntegerAttr):
        return (attribute.value,)
    if isinstance(attribute, DenseArrayAttr):
        return attribute.ints
    if isinstance(attribute, DenseAttr):
        values = tuple(int(v) for v in attribute.values if isinstance(v, int))
        sizes = [size for size in attribute.type.shape if size is not None]
        return values * (prod(sizes) if attribute.is_splat else 1)
    if isinstance(attribute, ArrayAttr):
        elements = [e.value for e in attribute.elements if isinstance(e, IntegerAttr)]
        return tuple(elements) if len(elements) == len(attribute.elements) else None
    return None


def attribute_integers(op: Operation, name: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
    """Returns the integers of an attribute; HloVerifyError if it is missing without a default, or has none."""
    attribute = op.attributes.get(name)
    if attribute is None and default is not None:
        return default
    values = None if attribute is None else integers_of(attribute)
    if values is None:
        raise LinalgVerifyError(f"'{op.name}' expects integers as attribute '{name}', found {attribute}", op.location)
    return values


class StructuredOp:
    """`operation` seen through its row. A view of the moment: make a new one when the operation has changed."""

    def __init__(self, operation: Operation, row: StructuredRow) -> None:
        self.operation = operation
        self.row = row
        operands = operation.operands
        count = self._count_inputs(len(operands))
        self.inputs: tuple[Value, ...] = operands[:count]
        self.inits: tuple[Value, ...] = operands[count:]

    def _count_inputs(self, num_operands: int) -> int:
        segments = self.operation.attributes.get("operandSegmentSizes")
        if segments is not None:
            sizes = integers_of(segments) or ()
            if len(sizes) != 2 or sum(sizes) != num_operands:
                raise self.error(f"operandSegmentSizes {segments} do not fit {num_operands} operands")
            return sizes[0]
        if self.row.num_inits is not None:
            return num_operands - self.row.num_inits
        if self.row.num_inputs is not None:
            return self.row.num_inputs
        return num_operands // 2  # `linalg.reduce`: as many outputs as inputs

    def error(self, message: str) -> LinalgVerifyError:
        """Returns an error at the place of the operation."""
        return LinalgVerifyError(f"'{self.operation.name}' op {message}", self.operation.location)

    @property
    def has_all_operands(self) -> bool:
        """Whether there are as many inputs and inits as the row says."""
        return self.row.num_inputs in (None, len(self.inputs)) and self.row.num_inits in (None, len(self.inits))

    @property
    def operands(self) -> tuple[Value, ...]:
        return (*self.inputs, *self.inits)

    @property
    def has_tensor_semantics(self) -> bool:
        """Whether no operand is a memref: then each init has a result."""
        return not any(isinstance(value.type, MemRefType) for value in self.operands)

    @cached_property
    def accesses(self) -> Accesses:
        return self.row.accesses(self)

    @cached_property
    def iterator_types(self) -> tuple[str, ...]:
        return self.row.iterators(self)

    @property
    def num_loops(self) -> int:
        return len(self.iterator_types)

    @property
    def parallel_loops(self) -> tuple[int, ...]:
        return tuple(i for i, kind in enumerate(self.iterator_types) if kind == PARALLEL)

    @property
    def reduction_loops(self) -> tuple[int, ...]:
        return tuple(i for i, kind in enumerate(self.iterator_types) if kind != PARALLEL)

    @property
    def is_elementwise(self) -> bool:
        """Whether it is pointwise with parallel loops only."""
        return self.row.pointwise and not self.reduction_loops

    @cached_property
    def indexing_maps(self) -> tuple[AffineMap, ...]:
        """One map per operand, from loops to indices; an error for an op that touches whole dimensions at once."""
        return tuple(AffineMap(self.num_loops, 0, self._whole(access)) for access in self.accesses)

    def _whole(self, access: Access) -> tuple[AffineExpr, ...]:
        if any(e is None for e in access):
            raise self.error("has no indexing maps: an iteration takes whole dimensions of an operand")
        return tuple(e for e in access if e is not None)

    @cached_property
    def loop_sources(self) -> tuple[tuple[int, int], ...]:
        """Per loop an operand and one of its dimensions whose size is that of the loop; static ones are preferred."""
        found: dict[int, tuple[int, int]] = {}
        for number, (operand, access) in enumerate(zip(self.operands, self.accesses)):
            shape = shape_of(operand)
            for axis, e in enumerate(access):
                if e is None or e.kind is not AffineExprKind.DIM:
                    continue
                old = found.get(e.position)
                if old is None or (shape_of(self.operands[old[0]])[old[1]] is None and shape[axis] is not None):
                    found[e.position] = (number, axis)
        missing = [loop for loop in range(self.num_loops) if loop not in found]
        if missing:
            raise self.error(f"no operand says how long loop d{missing[0]} is")
        return tuple(found[loop] for loop in range(self.num_loops))

    @cached_property
    def loop_ranges(self) -> Shape:
        """The number of iterations of each loop; None if it is known at run time only."""
        return tuple(shape_of(self.operands[number])[axis] for number, axis in self.loop_sources)

    @cached_property
    def body(self) -> Block:
        """The scalar body: the op's own region, or that of its row, made for the purpose."""
        if self.operation.regions and self.operation.regions[0].blocks:
            return self.operation.body
        if self.row.body is None:
            raise self.error("has no body")
        return build_body(self)

    @property
    def yielded(self) -> tuple[Value, ...]:
        """What the body gives: the new elements of the inits."""
        return self.body.terminator.operands

    @property
    def has_index_semantics(self) -> bool:
        """Whether the body asks for loop variables."""
        return any(op.name == "linalg.index" for op in self.body.operations)

    def reads_init(self, number: int) -> bool:
        """Whether results depend on what init `number` holds."""
        return self.row.reads_init(self, number)


def shape_of(value: Value) -> Shape:
    """Returns the shape of a tensor or memref; () for scalars."""
    return value.type.shape if isinstance(value.type, TensorType | MemRefType) else ()


def identity_access(rank: int) -> Access:
    return tuple(dim(i) for i in range(rank))


def build_body(op: StructuredOp) -> Block:
    """Returns the body of a named op as a block in a region of its own, closed by `linalg.yield`."""
    assert op.row.body is not None
    block = Block([element_type(value.type) for value in op.operands])
    Region([block])
    builder = Builder(block, location=op.operation.location)
    results = op.row.body(builder, op, block.arguments)
    builder.create("linalg.yield", results)
    return block


def bounds_of(access_expr: AffineExpr, ranges: Shape) -> Interval | None:
    """Returns the values of an index over static loops; None if it uses a loop of unknown length."""
    if any(ranges[d] is None for d in access_expr.dims):
        return None
    return interval_of(access_expr, [Interval.of_size(1 if n is None else n) for n in ranges])
