"""Dots and convolutions: named ops where one has their form, else generics with the maps of their dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine.expr import AffineExpr
from xjit.affine.pool import dim
from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, PrimitiveType
from xjit.hlo import attributes as at
from xjit.linalg_ext.from_hlo.reshaping import reshaped
from xjit.linalg_ext.from_hlo.scope import Index, Raised, Rule, Scope
from xjit.linalg_ext.from_hlo.tensors import padded
from xjit.linalg_ext.from_hlo.types import has_scalar_code, raised_element
from xjit.linalg_ext.ir.attributes import Attribute, DenseArrayAttr, StringAttr
from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.operation import OpResult, Value
from xjit.linalg_ext.ir.types import Type, element_type
from xjit.linalg_ext.structured.scalars import BINARY_FUNCTIONS, cast
from xjit.linalg_ext.structured.view import shape_of

__all__ = ["PRODUCT_RULES"]


def _sums_in(instruction: HloInstruction) -> PrimitiveType | None:
    """Returns the type that products are added in: f32 where the result is narrower; None if `arith` has no code."""
    if not all(has_scalar_code(x.shape) for x in (instruction, *instruction.operands)):
        return None
    kind = instruction.shape.element_type
    if kind.is_float:
        return PrimitiveType.F32 if kind.bit_width < 32 else kind
    same = all(o.shape.element_type is kind for o in instruction.operands)
    signed = kind.is_signed and all(o.shape.element_type.is_signed for o in instruction.operands)
    return kind if kind.is_integer and (same or signed) else None


def _multiply_add(builder: Builder, given: Sequence[Value]) -> list[Value]:
    left, right, total = given
    product = BINARY_FUNCTIONS["mul"](builder, cast(builder, left, total.type), cast(builder, right, total.type))
    return [BINARY_FUNCTIONS["add"](builder, total, product)]


@dataclass(frozen=True, slots=True)
class _Side:
    """An operand of a dot by the roles of its dimensions."""

    value: Value
    batch: tuple[int, ...]
    contracting: tuple[int, ...]

    @property
    def free(self) -> list[int]:
        return [d for d in range(len(shape_of(self.value))) if d not in self.batch and d not in self.contracting]

    def size(self, dimension: int) -> int:
        return shape_of(self.value)[dimension] or 0

    def index(self, batch: Index, free: Index, steps: Index) -> list[AffineExpr]:
        """Returns the element of some loops."""
        roles = {**dict(zip(self.batch, batch)), **dict(zip(self.free, free)), **dict(zip(self.contracting, steps))}
        return [roles[d] for d in range(len(roles))]

    def matrices(self, scope: Scope, steps_last: bool) -> tuple[Value, bool]:
        """Returns the operand with batch dimensions first, and whether rows come before what is summed over.

        Of an operand that has neither order a transpose; `steps_last` is the order that it then gets.
        """
        [free], [steps] = self.free, self.contracting
        for pair, found in (((free, steps), True), ((steps, free), False)):
            if [*self.batch, *pair] == list(range(len(self.batch) + 2)):
                return self.value, found
        order = [*self.batch, *((free, steps) if steps_last else (steps, free))]
        return scope.transposed(self.value, order), steps_last


_LAYOUTS = {(True, False): "", (False, False): "_transpose_a", (True, True): "_transpose_b"}
"""Suffixes of named products by whether the step is the last dimension of the left and of the right operand."""


def _dot(scope: Scope, instruction: HloInstruction) -> Raised | None:
    """A named product where each side has rows or columns and steps, else loops over all dimensions."""
    kind = _sums_in(instruction)
    if kind is None or instruction.operand_count != 2:
        return None
    a = instruction.attributes_as(at.DotAttributes)
    if a.sparsity:
        return None
    left, right = scope.operands(instruction)
    pairs = (a.lhs_batch_dims, a.rhs_batch_dims), (a.lhs_contracting_dims, a.rhs_contracting_dims)
    sides = (_side(scope, left, *(p[0] for p in pairs)), _side(scope, right, *(p[1] for p in pairs)))
    sums = raised_element(kind)
    if all(len(side.free) == 1 and len(side.contracting) == 1 for side in sides):
        result = _matrix_product(scope, sides, sums)
    else:
        result = _general_product(scope, sides, sums)
    result = reshaped(scope.builder, result, instruction.shape.dimensions)
    return scope.converted(result, raised_element(instruction.shape.element_type))


def _side(scope: Scope, value: Value, batch: Sequence[int], contracting: Sequence[int]) -> _Side:
    """Returns an operand without dimensions of size one, but one of those that would leave none of its role."""
    sizes = [n or 0 for n in shape_of(value)]
    free = [d for d in range(len(sizes)) if d not in batch and d not in contracting]

    def needed(dimensions: Sequence[int]) -> list[int]:
        return [d for d in dimensions if sizes[d] != 1] or list(dimensions[:1])

    kept = {d for d in batch if sizes[d] != 1} | {*needed(free), *needed(contracting)}
    number = {d: i for i, d in enumerate(sorted(kept))}
    squeezed = reshaped(scope.builder, value, [sizes[d] for d in number])
    return _Side(
        squeezed, tuple(number[d] for d in batch if d in kept), tuple(number[d] for d in contracting if d in kept)
    )


def _is_softmax(value: Value) -> bool:
    return isinstance(value, OpResult) and value.owner.name == "linalg_ext.softmax"


def _matrix_product(scope: Scope, sides: tuple[_Side, _Side], sums: Type) -> Value:
    """A named product. A softmax stands on the left, where its columns may come tile by tile."""
    left, right = sides
    rank = len(left.batch) + 2
    if _is_softmax(right.value) and not _is_softmax(left.value):
        swapped = _matrix_product(scope, (right, left), sums)
        return scope.transposed(swapped, [*range(rank - 2), rank - 1, rank - 2])
    a, a_last = left.matrices(scope, True)
    b, b_last = right.matrices(scope, False)
    sizes = [*(left.size(d) for d in left.batch), left.size(left.free[0]), right.size(right.free[0])]
    init = scope.zeros(sizes, sums)
    layout = (a_last, b_last)
    if rank > 3 or layout not in _LAYOUTS:
        text = f"{'n' if a_last else 't'}{'t' if b_last else 'n'}"
        return scope.named("linalg_ext.batch_matmul", (a, b), (init,), {"layout": StringAttr(text)})[0]
    name = f"linalg.{'batch_' if rank == 3 else ''}matmul{_LAYOUTS[layout]}"
    return scope.named(name, (a, b), (init,))[0]


def _general_product(scope: Scope, sides: tuple[_Side, _Side], sums: Type) -> Value:
    """Loops over batch dimensions, free ones of the left and of the right operand, and all that is summed over."""
    left, right = sides
    sizes = [left.size(d) for d in (*left.batch, *left.free)] + [right.size(d) for d in right.free]
    loops = [dim(i) for i in range(len(sizes) + len(left.contracting))]
    batch, outer = loops[: len(left.batch)], loops[: len(sizes)]
    rows, columns, steps = (
        outer[len(batch) : len(batch) + len(left.free)],
        outer[len(batch) + len(left.free) :],
        loops[len(sizes) :],
    )
    inputs = [(left.value, left.index(batch, rows, steps)), (right.value, right.index(batch, columns, steps))]
    return scope.generic(inputs, [(scope.zeros(sizes, sums), outer)], len(loops), _multiply_add)[0]


_NAMED_CONVOLUTIONS = {
    ("b0f", "0io", "b0f"): "linalg.conv_1d_nwc_wcf",
    ("bf0", "oi0", "bf0"): "linalg.conv_1d_ncw_fcw",
    ("b01f", "01io", "b01f"): "linalg.conv_2d_nhwc_hwcf",
    ("b01f", "o01i", "b01f"): "linalg.conv_2d_nhwc_fhwc",
    ("bf01", "oi01", "bf01"): "linalg.conv_2d_nchw_fchw",
    ("b012f", "012io", "b012f"): "linalg.conv_3d_ndhwc_dhwcf",
    ("bf012", "oi012", "bf012"): "linalg.conv_3d_ncdhw_fcdhw",
}
"""By the roles of the dimensions of input, kernel and result."""


def _roles(batch: int, feature: int, spatial: Sequence[int], letters: str) -> str:
    found = {batch: letters[0], feature: letters[1], **{d: str(i) for i, d in enumerate(spatial)}}
    return "".join(found[d] for d in range(len(found)))


def _layout(n: at.ConvolutionDimensionNumbers) -> tuple[str, str, str]:
    outer, inner = n.kernel_output_feature_dimension, n.kernel_input_feature_dimension
    return (
        _roles(n.input_batch_dimension, n.input_feature_dimension, n.input_spatial_dimensions, "bf"),
        _roles(outer, inner, n.kernel_spatial_dimensions, "oi"),
        _roles(n.output_batch_dimension, n.output_feature_dimension, n.output_spatial_dimensions, "bf"),
    )


def _convolution(scope: Scope, instruction: HloInstruction) -> Raised | None:
    kind = _sums_in(instruction)
    a = instruction.attributes_as(at.ConvolutionAttributes)
    if kind is None or a.batch_group_count != 1 or a.sparsity_config or 0 in instruction.shape.dimensions:
        return None
    n, window = a.dim_labels, a.window.dimensions
    image, kernel = scope.operands(instruction)
    image = _padded_image(scope, image, n, window)
    sums, groups = raised_element(kind), a.feature_group_count
    if groups == 1 and not any(w.window_reversal for w in window):
        name = _NAMED_CONVOLUTIONS.get(_layout(n))
        if name is not None:
            steps: dict[str, Attribute] = {
                "strides": DenseArrayAttr.i64([w.stride for w in window]),
                "dilations": DenseArrayAttr.i64([w.window_dilation for w in window]),
            }
            init = scope.zeros(instruction.shape.dimensions, sums)
            result: Value = scope.named(name, (image, kernel), (init,), steps)[0]
            return scope.converted(result, raised_element(instruction.shape.element_type))
    result = _general_convolution(scope, instruction, image, kernel, sums)
    return scope.converted(result, raised_element(instruction.shape.element_type))


def _padded_image(
    scope: Scope, image: Value, n: at.ConvolutionDimensionNumbers, window: Sequence[at.WindowDimension]
) -> Value:
    """Returns the image with zeros around and between its elements."""
    sizes = [s or 0 for s in shape_of(image)]
    padding = [at.PaddingDimension() for _ in sizes]
    for axis, w in zip(n.input_spatial_dimensions, window):
        padding[axis] = at.PaddingDimension(w.padding_low, w.padding_high, w.base_dilation - 1)
        sizes[axis] = (sizes[axis] - 1) * w.base_dilation + 1 + w.padding_low + w.padding_high
    return padded(scope, image, padding, scope.number(0, element_type(image.type)), sizes)


def _general_convolution(scope: Scope, instruction: HloInstruction, image: Value, kernel: Value, sums: Type) -> Value:
    """Loops over the result, its features as groups and features of one group, then the window and input features."""
    a = instruction.attributes_as(at.ConvolutionAttributes)
    n, window, groups = a.dim_labels, a.window.dimensions, a.feature_group_count
    sizes, spatial = instruction.shape.dimensions, len(window)
    axis, depth = n.output_feature_dimension, (shape_of(kernel)[n.kernel_input_feature_dimension] or 0)
    split = [*sizes[:axis], groups, sizes[axis] // groups, *sizes[axis + 1 :]]
    loops = [dim(i) for i in range(len(split) + spatial + 1)]
    group, feature, step = loops[axis], loops[axis + 1], loops[-1]
    of_result = {d: loops[d if d < axis else d + 1] for d in range(len(sizes)) if d != axis}
    taps = loops[len(split) : -1]
    at_image: dict[int, AffineExpr] = {
        n.input_batch_dimension: of_result[n.output_batch_dimension],
        n.input_feature_dimension: group * depth + step,
    }
    at_kernel: dict[int, AffineExpr] = {n.kernel_input_feature_dimension: step}
    for i, w in enumerate(window):
        at_image[n.input_spatial_dimensions[i]] = (
            of_result[n.output_spatial_dimensions[i]] * w.stride + taps[i] * w.window_dilation
        )
        at_kernel[n.kernel_spatial_dimensions[i]] = w.size - 1 - taps[i] if w.window_reversal else taps[i]
    o = n.kernel_output_feature_dimension
    of_kernel = [s or 0 for s in shape_of(kernel)]
    kernel = reshaped(scope.builder, kernel, [*of_kernel[:o], groups, sizes[axis] // groups, *of_kernel[o + 1 :]])
    index = [at_kernel[d] for d in range(o)] + [group, feature] + [at_kernel[d] for d in range(o + 1, len(of_kernel))]
    inputs = [(image, [at_image[d] for d in range(len(at_image))]), (kernel, index)]
    init = (scope.zeros(split, sums), loops[: len(split)])
    return reshaped(scope.builder, scope.generic(inputs, [init], len(loops), _multiply_add)[0], sizes)


PRODUCT_RULES: dict[str, Rule] = {"dot": _dot, "convolution": _convolution}
