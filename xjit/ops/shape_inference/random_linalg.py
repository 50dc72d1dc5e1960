"""Shape rules of random numbers, FFT, linear algebra and batch normalization."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.hlo.types.shape import Shape
from xjit.ops.opdef import ShapeRule
from xjit.ops.shape_inference.common import (
    array_operand,
    check_dimension,
    declared_array,
    fail,
    make_shape,
    same_type,
    scalar_operand,
    show,
    with_dimension,
)

_REAL_TO_COMPLEX = {PrimitiveType.F32: PrimitiveType.C64, PrimitiveType.F64: PrimitiveType.C128}


def infer_rng(instruction: HloInstruction) -> Shape:
    """The declared shape; the operands are the two scalars of the distribution, of the same type."""
    distribution = instruction.attributes_as(at.RngAttributes).distribution
    result = declared_array(instruction)
    if instruction.operand_count != 2:
        fail(instruction, f"takes the 2 scalars of the distribution, got {instruction.operand_count} operands")
    for i in range(2):
        scalar = scalar_operand(instruction, i, f"operand {i}")
        if scalar.element_type is not result.element_type:
            fail(instruction, f"operand {i} {show(scalar)} and result {show(result)} have different element types")
    if distribution not in ("rng_uniform", "rng_normal"):
        fail(instruction, f"distribution={distribution} is neither rng_uniform nor rng_normal")
    if result.element_type.is_complex or (distribution == "rng_normal" and not result.element_type.is_float):
        fail(instruction, f"distribution={distribution} cannot give elements of type {result.element_type.text}")
    return result


_RNG_ALGORITHMS = ("rng_default", "rng_three_fry", "rng_philox")


def infer_rng_bit_generator(instruction: HloInstruction) -> Shape:
    """(state, bits) or only the bits, as declared; the state keeps its shape."""
    algorithm = instruction.attributes_as(at.RngBitGeneratorAttributes).algorithm
    if algorithm not in _RNG_ALGORITHMS:
        fail(instruction, f"algorithm={algorithm} is none of {', '.join(_RNG_ALGORITHMS)}")
    state, result = array_operand(instruction, 0), instruction.shape
    bits = result
    if result.is_tuple:
        if len(result.tuple_shapes) != 2 or not result.tuple_shapes[0].compatible(state):
            fail(instruction, f"the result must be (state {show(state)}, bits), but has shape {show(result)}")
        bits = result.tuple_shapes[1]
    if not bits.is_array or not (bits.element_type.is_integer or bits.element_type.is_float):
        fail(instruction, f"the bits must be an integer or floating-point array, but have shape {show(bits)}")
    return result


def infer_rng_get_and_update_state(instruction: HloInstruction) -> Shape:
    """u64[2]."""
    del instruction
    return make_shape(PrimitiveType.U64, (2,))


def infer_fft(instruction: HloInstruction) -> Shape:
    """FFT, IFFT: complex, same shape. RFFT: real n to complex n/2+1. IRFFT: complex n/2+1 to real n."""
    a = instruction.attributes_as(at.FftAttributes)
    operand, rank = array_operand(instruction, 0), len(a.fft_length)
    if a.fft_type not in ("FFT", "IFFT", "RFFT", "IRFFT"):
        fail(instruction, f"fft_type={a.fft_type} is none of FFT, IFFT, RFFT, IRFFT")
    if not 1 <= rank <= 3 or operand.rank < rank:
        fail(instruction, f"transforms 1 to 3 minor dimensions, got fft_length of {rank} for {show(operand)}")
    real = a.fft_type == "RFFT"
    if (operand.element_type not in _REAL_TO_COMPLEX) if real else (not operand.element_type.is_complex):
        expected = "f32 or f64" if real else "complex"
        fail(instruction, f"{a.fft_type} needs {expected} elements, but the operand has shape {show(operand)}")
    last = a.fft_length[-1]
    expected_dims = list(a.fft_length)
    if a.fft_type == "IRFFT":
        expected_dims[-1] = last // 2 + 1 if last or operand.dimensions[-1] else 0
    is_empty_complex = a.fft_type in ("FFT", "IFFT") and not operand.num_elements  # XLA does not look at those
    if list(operand.dimensions[-rank:]) != expected_dims and not is_empty_complex:
        fail(instruction, f"{a.fft_type} needs minor dimensions {expected_dims}, but the operand is {show(operand)}")
    if real:
        result = operand.with_element_type(_REAL_TO_COMPLEX[operand.element_type])
        return with_dimension(result, operand.rank - 1, last // 2 + 1) if last else result
    if a.fft_type == "IRFFT":
        return with_dimension(operand.with_element_type(operand.element_type.component), operand.rank - 1, last)
    return operand


def _square_matrices(instruction: HloInstruction, shape: Shape) -> None:
    if not (shape.element_type.is_float or shape.element_type.is_complex):
        fail(instruction, f"the matrices must be floating-point or complex, but have shape {show(shape)}")
    if shape.rank < 2 or shape.dimensions[-1] != shape.dimensions[-2]:
        fail(instruction, f"the matrices must be square, but have shape {show(shape)}")


def infer_cholesky(instruction: HloInstruction) -> Shape:
    """The operand's shape, a batch of square matrices."""
    operand = array_operand(instruction, 0)
    _square_matrices(instruction, operand)
    return operand


def infer_triangular_solve(instruction: HloInstruction) -> Shape:
    """The shape of b; a is a batch of square matrices that fit to its rows (left side) or columns."""
    options = instruction.attributes_as(at.TriangularSolveAttributes)
    a, b = array_operand(instruction, 0), array_operand(instruction, 1)
    _square_matrices(instruction, a)
    if a.element_type is not b.element_type:
        fail(instruction, f"operands {show(a)} and {show(b)} have different element types")
    if a.rank != b.rank or a.dimensions[:-2] != b.dimensions[:-2]:
        fail(instruction, f"operands {show(a)} and {show(b)} have different batch dimensions")
    if a.dimensions[-1] != b.dimensions[-2 if options.left_side else -1]:
        side = "rows" if options.left_side else "columns"
        fail(instruction, f"the {side} of b {show(b)} do not fit to a {show(a)}")
    if options.transpose_a not in ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"):
        fail(instruction, f"transpose_a={options.transpose_a} is none of NO_TRANSPOSE, TRANSPOSE, ADJOINT")
    return b


def _batch_norm_features(instruction: HloInstruction, vectors: tuple[int, ...]) -> Shape:
    """Checks the operand and its per-feature vectors; returns the shape of such a vector."""
    operand = array_operand(instruction, 0)
    feature = instruction.attributes_as(at.BatchNormAttributes).feature_index
    check_dimension(instruction, feature, operand.rank, "feature_index")
    if not operand.element_type.is_float:
        fail(instruction, f"the operand must be floating-point, but has shape {show(operand)}")
    count = operand.dimensions[feature]
    for i in vectors:
        vector = array_operand(instruction, i)
        if vector.dimensions != (count,) or not same_type(vector.element_type, operand.element_type):
            fail(
                instruction,
                f"operand {i} must be {operand.element_type.text}[{count}], but has shape {show(vector)}",
            )
    return make_shape(operand.element_type, (count,))


def infer_batch_norm_training(instruction: HloInstruction) -> Shape:
    """(normalized, mean, variance)."""
    vector = _batch_norm_features(instruction, (1, 2))
    return Shape.tuple_of([instruction.operand(0).shape, vector, vector])


def infer_batch_norm_inference(instruction: HloInstruction) -> Shape:
    """The operand's shape."""
    _batch_norm_features(instruction, (1, 2, 3, 4))
    return instruction.operand(0).shape


def infer_batch_norm_grad(instruction: HloInstruction) -> Shape:
    """(gradient of operand, of scale, of offset); the last operand is the gradient of the output."""
    vector = _batch_norm_features(instruction, (1, 2, 3))
    operand, gradient = array_operand(instruction, 0), array_operand(instruction, 4)
    if gradient.dimensions != operand.dimensions or not same_type(gradient.element_type, operand.element_type):
        fail(instruction, f"the output gradient {show(gradient)} must have the operand's shape {show(operand)}")
    return Shape.tuple_of([operand, vector, vector])


RULES: Mapping[str, ShapeRule] = MappingProxyType(
    {
        "rng": infer_rng,
        "rng-bit-generator": infer_rng_bit_generator,
        "rng-get-and-update-state": infer_rng_get_and_update_state,
        "fft": infer_fft,
        "cholesky": infer_cholesky,
        "triangular-solve": infer_triangular_solve,
        "batch-norm-training": infer_batch_norm_training,
        "batch-norm-inference": infer_batch_norm_inference,
        "batch-norm-grad": infer_batch_norm_grad,
    }
)
