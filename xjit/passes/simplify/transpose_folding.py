"""Transposes in front of dots and convolutions become other dimension numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from xjit.hlo import HloInstruction
from xjit.hlo.attributes import ConvolutionAttributes, DimensionsAttributes, DotAttributes
from xjit.hlo.diagnostics import InvalidArgument
from xjit.ops import build
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion

CanFold = Callable[[HloInstruction, int], bool]


def _always(_instruction: HloInstruction, _number: int) -> bool:
    return True


_DOT_OPERANDS = ("matrices", "factors", "all", "none")
_CONVOLUTION_OPERANDS = ("all", "none")


@dataclass
class TransposeFolding(OpExpander):
    """Reads what a transpose reads, with dimension numbers that say so.

    Of a dot, `dot_operands=matrices` are those with one free and one contracting dimension whose batch dimensions stay
    in place, where the other operand is no vector; of `factors` that is a matrix or a vector, and what is transposed
    may be converted then. `all` are those whose free dimensions keep their order. The callbacks are asked of these
    which ones a backend takes, as (instruction, number of the operand). A transpose that others read stays for them.
    """

    name = "transpose-folding"
    opcodes = frozenset({"dot", "convolution"})
    dot_operands: str = "matrices"
    convolution_operands: str = "all"
    can_fold_dot_operand: CanFold = _always
    can_fold_convolution_operand: CanFold = _always

    def __post_init__(self) -> None:
        for option, value, known in (
            ("dot_operands", self.dot_operands, _DOT_OPERANDS),
            ("convolution_operands", self.convolution_operands, _CONVOLUTION_OPERANDS),
        ):
            if value not in known:
                raise InvalidArgument(f"option '{option}' is one of {', '.join(known)}, found '{value}'")

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the same instruction of what the transposes read; None if none is folded."""
        if instruction.opcode == "dot":
            return self._fold_into_dot(instruction, into)
        if self.convolution_operands == "none":
            return None
        allowed = [n for n in (0, 1) if self.can_fold_convolution_operand(instruction, n)]
        folded = [n for n in allowed if instruction.operand(n).opcode == "transpose" and _order(instruction.operand(n))]
        return _fold_into_convolution(instruction, into, folded) if folded else None

    def _fold_into_dot(self, dot: HloInstruction, into: Expansion) -> HloInstruction | None:
        attributes = dot.attributes_as(DotAttributes)
        folded = [n for n in (0, 1) if not attributes.sparsity and self._may_fold(dot, n)]
        if not folded:
            return None
        for side in ("lhs", "rhs"):
            number = ("lhs", "rhs").index(side)
            order = _order(dot.operand(number)) if number in folded else None
            if order is not None:
                names = (f"{side}_batch_dims", f"{side}_contracting_dims")
                changes = {n: tuple(order[d] for d in getattr(attributes, n)) for n in names}
                attributes = replace(attributes, **changes)
        return _read_through(dot, into, folded, attributes)

    def _may_fold(self, dot: HloInstruction, number: int) -> bool:
        operand, order = dot.operand(number), _order(dot.operand(number))
        if order is None or self.dot_operands == "none" or not self.can_fold_dot_operand(dot, number):
            return False
        if _is_converted_transpose(operand) and (self.dot_operands != "factors" or operand.user_count > 1):
            return False
        if self.dot_operands == "all":
            free = [order[d] for d in _free_dimensions(dot, number)]
            return free == sorted(free)
        return is_row_column_transpose_dot_operand(dot, number, by_vector=self.dot_operands == "factors")


def is_row_column_transpose_dot_operand(dot: HloInstruction, number: int, *, by_vector: bool = False) -> bool:
    """Whether an operand of a product is the transpose of a matrix, or of several of which each stays in its place.

    The other operand is no vector. `by_vector`: it is a matrix or a vector, or several.
    """
    order, attributes = _order(dot.operand(number)), dot.attributes_as(DotAttributes)
    batch = attributes.rhs_batch_dims if number else attributes.lhs_batch_dims
    if order is None or len(order) != len(batch) + 2:
        return False
    by_matrix = dot.operand(1 - number).shape.rank > 1
    is_plain = dot.shape.rank in (len(batch) + 1, len(batch) + 2) if by_vector else by_matrix
    return is_plain and len(_free_dimensions(dot, number)) == 1 and all(order[d] == d for d in batch)


def _free_dimensions(dot: HloInstruction, number: int) -> list[int]:
    attributes = dot.attributes_as(DotAttributes)
    batch = attributes.rhs_batch_dims if number else attributes.lhs_batch_dims
    contracting = attributes.rhs_contracting_dims if number else attributes.lhs_contracting_dims
    return [d for d in range(dot.operand(number).shape.rank) if d not in (*batch, *contracting)]


def _order(operand: HloInstruction) -> tuple[int, ...] | None:
    """Returns the permutation of a transpose, or of one that is converted; None for another operand, and for one that
    moves nothing.
    """
    if _is_converted_transpose(operand):
        operand = operand.operand(0)
    if operand.opcode != "transpose" or not operand.shape.is_static_array:
        return None
    order = operand.attributes_as(DimensionsAttributes).dimensions
    return order if list(order) != sorted(order) else None


def _is_converted_transpose(operand: HloInstruction) -> bool:
    return operand.opcode == "convert" and operand.operand(0).opcode == "transpose"


def _fold_into_convolution(convolution: HloInstruction, into: Expansion, folded: Sequence[int]) -> HloInstruction:
    attributes = convolution.attributes_as(ConvolutionAttributes)
    numbers = attributes.dim_labels
    for number in folded:
        order = _order(convolution.operand(number))
        assert order is not None
        if number == 0:
            numbers = replace(
                numbers,
                input_batch_dimension=order[numbers.input_batch_dimension],
                input_feature_dimension=order[numbers.input_feature_dimension],
                input_spatial_dimensions=tuple(order[d] for d in numbers.input_spatial_dimensions),
            )
        else:
            numbers = replace(
                numbers,
                kernel_input_feature_dimension=order[numbers.kernel_input_feature_dimension],
                kernel_output_feature_dimension=order[numbers.kernel_output_feature_dimension],
                kernel_spatial_dimensions=tuple(order[d] for d in numbers.kernel_spatial_dimensions),
            )
    return _read_through(convolution, into, folded, replace(attributes, dim_labels=numbers))


def _read_through(
    source: HloInstruction, into: Expansion, folded: Sequence[int], attributes: DotAttributes | ConvolutionAttributes
) -> HloInstruction:
    operands = [_untransposed(o, into) if n in folded else o for n, o in enumerate(source.operands)]
    new = into.like_source(source.opcode, operands, attributes)
    new.raw_backend_config = source.raw_backend_config
    return new


def _untransposed(operand: HloInstruction, into: Expansion) -> HloInstruction:
    """What a transpose reads, converted as it was."""
    if not _is_converted_transpose(operand):
        return operand.operand(0)
    return into.add(build.convert(operand.operand(0).operand(0), operand.shape.element_type))
