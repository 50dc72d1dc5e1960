"""Named contractions, convolutions and poolings: loops and accesses as text, from which the rows are made."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine.expr import AffineExpr, AffineExprKind
from xjit.affine.pool import dim
from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.operation import Value
from xjit.linalg_ext.structured.elementwise import MAPS, cast_is_signed, given_accesses, given_maps
from xjit.linalg_ext.structured.row import PARALLEL, REDUCTION, Access, Accesses, BodyBuilder, StructuredRow
from xjit.linalg_ext.structured.scalars import BINARY_FUNCTIONS, cast
from xjit.linalg_ext.structured.view import StructuredOp, attribute_integers

__all__ = ["CONTRACTION_ROWS", "multiply_add"]

# The name, the loops in order, the operands. `oh+kh` is an index of an image: oh times the stride of this axis plus kh
# times its dilation.
_CONTRACTIONS = """
matmul                       | m n k                   | m k, k n -> m n
matmul_unsigned              | m n k                   | m k, k n -> m n
matmul_transpose_a           | m n k                   | k m, k n -> m n
matmul_transpose_b           | m n k                   | m k, n k -> m n
batch_matmul                 | b m n k                 | b m k, b k n -> b m n
batch_matmul_transpose_a     | b m n k                 | b k m, b k n -> b m n
batch_matmul_transpose_b     | b m n k                 | b m k, b n k -> b m n
batch_reduce_matmul          | b m n k                 | b m k, b k n -> m n
mmt4d                        | m n k m0 n0 k0          | m k m0 k0, n k n0 k0 -> m n m0 n0
batch_mmt4d                  | b m n k m0 n0 k0        | b m k m0 k0, b n k n0 k0 -> b m n m0 n0
matvec                       | m n                     | m n, n -> m
vecmat                       | n m                     | m, m n -> n
batch_matvec                 | b m k                   | b m k, b k -> b m
batch_vecmat                 | b n k                   | b k, b k n -> b n
dot                          | m                       | m, m ->
conv_1d                      | ow kw                   | ow+kw, kw -> ow
conv_2d                      | oh ow kh kw             | oh+kh ow+kw, kh kw -> oh ow
conv_3d                      | od oh ow kd kh kw       | od+kd oh+kh ow+kw, kd kh kw -> od oh ow
conv_1d_nwc_wcf              | n ow f kw c             | n ow+kw c, kw c f -> n ow f
conv_1d_ncw_fcw              | n f ow c kw             | n c ow+kw, f c kw -> n f ow
conv_2d_nhwc_hwcf            | n oh ow f kh kw c       | n oh+kh ow+kw c, kh kw c f -> n oh ow f
conv_2d_nhwc_fhwc            | n oh ow f kh kw c       | n oh+kh ow+kw c, f kh kw c -> n oh ow f
conv_2d_nchw_fchw            | n f oh ow c kh kw       | n c oh+kh ow+kw, f c kh kw -> n f oh ow
conv_2d_ngchw_fgchw          | n g f oh ow c kh kw     | n g c oh+kh ow+kw, f g c kh kw -> n g f oh ow
conv_2d_ngchw_gfchw          | n g f oh ow c kh kw     | n g c oh+kh ow+kw, g f c kh kw -> n g f oh ow
conv_2d_nhwgc_gfhwc          | n oh ow g f kh kw c     | n oh+kh ow+kw g c, g f kh kw c -> n oh ow g f
conv_3d_ndhwc_dhwcf          | n od oh ow f kd kh kw c | n od+kd oh+kh ow+kw c, kd kh kw c f -> n od oh ow f
conv_3d_ncdhw_fcdhw          | n od oh ow f kd kh kw c | n c od+kd oh+kh ow+kw, f c kd kh kw -> n f od oh ow
depthwise_conv_1d_nwc_wc     | n ow c kw               | n ow+kw c, kw c -> n ow c
depthwise_conv_1d_ncw_cw     | n ow c kw               | n c ow+kw, c kw -> n c ow
depthwise_conv_1d_nwc_wcm    | n ow c m kw             | n ow+kw c, kw c m -> n ow c m
depthwise_conv_2d_nhwc_hwc   | n oh ow c kh kw         | n oh+kh ow+kw c, kh kw c -> n oh ow c
depthwise_conv_2d_nchw_chw   | n oh ow c kh kw         | n c oh+kh ow+kw, c kh kw -> n c oh ow
depthwise_conv_2d_nhwc_hwcm  | n oh ow c m kh kw       | n oh+kh ow+kw c, kh kw c m -> n oh ow c m
depthwise_conv_3d_ndhwc_dhwc | n od oh ow kd kh kw c   | n od+kd oh+kh ow+kw c, kd kh kw c -> n od oh ow c
depthwise_conv_3d_ncdhw_cdhw | n od oh ow kd kh kw c   | n c od+kd oh+kh ow+kw, c kd kh kw -> n c od oh ow
depthwise_conv_3d_ndhwc_dhwcm | n od oh ow m kd kh kw c | n od+kd oh+kh ow+kw c, kd kh kw c m -> n od oh ow c m
"""

# Quantized ones: two scalars are the zeros of the operands.
_SHIFTED = """
quantized_matmul             | m n k                   | m k, k n,, -> m n
quantized_batch_matmul       | b m n k                 | b m k, b k n,, -> b m n
conv_2d_nhwc_hwcf_q          | n oh ow f kh kw c       | n oh+kh ow+kw c, kh kw c f,, -> n oh ow f
conv_2d_nhwc_fhwc_q          | n oh ow f kh kw c       | n oh+kh ow+kw c, f kh kw c,, -> n oh ow f
conv_2d_nchw_fchw_q          | n f oh ow c kh kw       | n c oh+kh ow+kw, f c kh kw,, -> n f oh ow
conv_2d_ngchw_gfchw_q        | n g f oh ow c kh kw     | n g c oh+kh ow+kw, g f c kh kw,, -> n g f oh ow
conv_2d_nhwgc_gfhwc_q        | n oh ow g f kh kw c     | n oh+kh ow+kw g c, g f kh kw c,, -> n oh ow g f
conv_3d_ndhwc_dhwcf_q        | n od oh ow f kd kh kw c | n od+kd oh+kh ow+kw c, kd kh kw c f,, -> n od oh ow f
depthwise_conv_2d_nhwc_hwc_q | n oh ow c kh kw         | n oh+kh ow+kw c, kh kw c,, -> n oh ow c
depthwise_conv_2d_nhwc_hwcm_q | n oh ow c m kh kw      | n oh+kh ow+kw c, kh kw c m,, -> n oh ow c m
"""

_POOLINGS = """
pooling_nwc                  | n ow c kw               | n ow+kw c, kw -> n ow c
pooling_ncw                  | n c ow kw               | n c ow+kw, kw -> n c ow
pooling_nhwc                 | n oh ow c kh kw         | n oh+kh ow+kw c, kh kw -> n oh ow c
pooling_nchw                 | n c oh ow kh kw         | n c oh+kh ow+kw, kh kw -> n c oh ow
pooling_ndhwc                | n od oh ow c kd kh kw   | n od+kd oh+kh ow+kw c, kd kh kw -> n od oh ow c
"""

_POOLING_FUNCTIONS = {
    "sum": "add",
    "max": "max_signed",
    "max_unsigned": "max_unsigned",
    "min": "min_signed",
    "min_unsigned": "min_unsigned",
}


def multiply_add(builder: Builder, op: StructuredOp, elements: Sequence[Value]) -> list[Value]:
    """total + left * right, in the type of the total."""
    total, signed = elements[-1], cast_is_signed(op)
    left, right = (cast(builder, value, total.type, signed) for value in elements[:2])
    return [BINARY_FUNCTIONS["add"](builder, total, BINARY_FUNCTIONS["mul"](builder, left, right))]


def _shifted_multiply_add(builder: Builder, op: StructuredOp, elements: Sequence[Value]) -> list[Value]:
    """total + (left - zero of left) * (right - zero of right)."""
    total = elements[-1]
    factors = [
        BINARY_FUNCTIONS["sub"](builder, cast(builder, value, total.type), cast(builder, zero, total.type))
        for value, zero in zip(elements[:2], elements[2:-1])
    ]
    return [BINARY_FUNCTIONS["add"](builder, total, BINARY_FUNCTIONS["mul"](builder, *factors))]


def _contract_iterators(op: StructuredOp) -> tuple[str, ...]:
    """`linalg.contract` has the loops of its maps; those that its result has not are reductions."""
    *_, result = maps = given_maps(op)
    for each in maps:
        dims = {e.position for e in each.results if e.kind is AffineExprKind.DIM}
        if each.num_dims != result.num_dims or len(dims) != len(each.results):
            raise op.error("expects projected permutations of the same loops as 'indexing_maps'")
    kept = {e.position for e in result.results}
    return tuple(PARALLEL if loop in kept else REDUCTION for loop in range(result.num_dims))


def _pooling(function: str) -> BodyBuilder:
    def build(builder: Builder, op: StructuredOp, elements: Sequence[Value]) -> list[Value]:
        image, _, total = elements
        return [BINARY_FUNCTIONS[function](builder, total, cast(builder, image, total.type))]

    return build


class _Line:
    """The loops and operands of one line of the tables."""

    def __init__(self, text: str) -> None:
        name, loops, operands = (part.strip() for part in text.split("|"))
        inputs, result = operands.split("->")
        self.name = name
        self._loops = {loop: i for i, loop in enumerate(loops.split())}
        self._operands = [*(operand.split() for operand in inputs.split(",")), result.split()]
        self._iterators = tuple(PARALLEL if loop in self._operands[-1] else REDUCTION for loop in self._loops)
        self._num_inputs = len(self._operands) - 1

    def iterators(self, op: StructuredOp) -> tuple[str, ...]:
        return self._iterators

    def accesses(self, op: StructuredOp) -> Accesses:
        if MAPS in op.operation.attributes:
            return given_accesses(op)
        axes = sum("+" in token for token in self._operands[0])
        strides = attribute_integers(op.operation, "strides", (1,) * axes)
        dilations = attribute_integers(op.operation, "dilations", (1,) * axes)
        if not len(strides) == len(dilations) == axes:
            raise op.error(f"expected {axes} strides and dilations, found {len(strides)} and {len(dilations)}")
        return tuple(self._access(operand, strides, dilations) for operand in self._operands)

    def _access(self, operand: list[str], strides: tuple[int, ...], dilations: tuple[int, ...]) -> Access:
        result: list[AffineExpr] = []
        axis = 0
        for token in operand:
            first, *others = (dim(self._loops[name]) for name in token.split("+"))
            if others:
                first = first * strides[axis] + others[0] * dilations[axis]
                axis += 1
            result.append(first)
        return tuple(result)

    def row(self, suffix: str, body: BodyBuilder) -> StructuredRow:
        return StructuredRow(f"linalg.{self.name}{suffix}", self._num_inputs, 1, self.accesses, self.iterators, body)


def _lines(table: str) -> list[_Line]:
    return [_Line(text) for text in table.strip().splitlines()]


CONTRACTION_ROWS: tuple[StructuredRow, ...] = (
    *(line.row("", multiply_add) for line in _lines(_CONTRACTIONS)),
    *(line.row("", _shifted_multiply_add) for line in _lines(_SHIFTED)),
    StructuredRow("linalg.contract", 2, 1, given_accesses, _contract_iterators, multiply_add),
    *(
        line.row(f"_{name}", _pooling(function))
        for line in _lines(_POOLINGS)
        for name, function in _POOLING_FUNCTIONS.items()
    ),
)
"""MLIR's named contractions, convolutions and poolings (one init)."""
