"""How many operations one execution of an instruction takes, by opcode, apart from what it calls: XLA's counts, mostly.

An elementwise opcode takes one operation per element, whatever its type; transcendental functions are counted apart.
What is applied to elements (reducers, comparators) is counted as often as `applications` says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from xjit.hlo import HloInstruction, Shape, Trait
from xjit.hlo import attributes as at
from xjit.hlo.diagnostics import HloError
from xjit.ops.lapack_call import bind_lapack_call
from xjit.ops.lapack_targets import LAPACK_TARGETS

_FREE = frozenset({"copy"})
"""Opcodes that are elementwise, but compute nothing."""


def elements_of(shape: Shape) -> int:
    """Returns the number of elements of all arrays of a shape."""
    return sum(leaf.num_elements for _, leaf in shape.leaves() if leaf.is_array)


def own_operations(instruction: HloInstruction) -> tuple[float, float]:
    """Returns (flops, transcendentals) of the instruction itself."""
    rule = _OWN.get(instruction.opcode)
    if rule is not None:
        return rule(instruction), 0
    if instruction.opcode in _RANDOM:
        return 0, elements_of(instruction.shape)
    if not instruction.op.has(Trait.ELEMENTWISE) or instruction.opcode in _FREE:
        return 0, 0
    count = elements_of(instruction.shape)
    return (0, count) if instruction.op.has(Trait.TRANSCENDENTAL) else (count, 0)


def applications(instruction: HloInstruction) -> tuple[float, ...]:
    """Returns how often an instruction applies each of the computations it calls; () where it applies none."""
    rule = _APPLIED.get(instruction.opcode)
    return rule(instruction) if rule is not None else ()


def _dot(dot: HloInstruction) -> float:
    a = dot.attributes_as(at.DotAttributes)
    depth = math.prod(dot.operand(0).shape.dimensions[d] for d in a.lhs_contracting_dims)
    return 2.0 * dot.shape.num_elements * depth


def _ragged_dot(dot: HloInstruction) -> float:
    a = dot.attributes_as(at.RaggedDotAttributes)
    depth = math.prod(dot.operand(0).shape.dimensions[d] for d in a.lhs_contracting_dims)
    return 2.0 * dot.shape.num_elements * depth


def _convolution(convolution: HloInstruction) -> float:
    """Products with padding and with the holes of a dilated input do not count."""
    a = convolution.attributes_as(at.ConvolutionAttributes)
    labels, (image, kernel) = a.dim_labels, (o.shape for o in convolution.operands)
    result = convolution.shape.dimensions
    positions = 1
    for window, i, o in zip(
        a.window.dimensions, labels.input_spatial_dimensions, labels.output_spatial_dimensions, strict=True
    ):
        positions *= _valid_positions(window, image.dimensions[i], result[o])
    batch = result[labels.output_batch_dimension]
    features = result[labels.output_feature_dimension]
    depth = kernel.dimensions[labels.kernel_input_feature_dimension]
    return 2.0 * positions * batch * features * depth


def _valid_positions(window: at.WindowDimension, size: int, outputs: int) -> int:
    """Returns for how many (output, window element) pairs of one dimension there is an element of the input."""
    count = 0
    for k in range(window.size):
        first = k * window.window_dilation - window.padding_low  # in the dilated input, of output 0
        step, holes = window.stride, window.base_dilation
        last = (size - 1) * holes
        period = holes // math.gcd(step, holes)
        start = next((n for n in range(period) if (first + n * step) % holes == 0), None)
        if start is None or size == 0:
            continue
        begin = max(0, -(first // step))
        end = min(outputs - 1, (last - first) // step)
        begin += (start - begin) % period
        count += max(0, (end - begin) // period + 1)
    return count


def _fft(fft: HloInstruction) -> float:
    length = math.prod(fft.attributes_as(at.FftAttributes).fft_length)
    elements = max(fft.shape.num_elements, fft.operand(0).shape.num_elements)
    return 8.0 * elements * math.log2(max(length, 2))


def _fft_in_xla(fft: HloInstruction) -> float:
    factors = math.prod(length.bit_length() - 1 for length in fft.attributes_as(at.FftAttributes).fft_length)
    return 8.0 * fft.operand(0).shape.num_elements * factors


def _sort_in_xla(sort: HloInstruction) -> float:
    elements = sort.operand(0).shape.num_elements
    return float(elements * max(elements - 1, 0).bit_length())


AS_IN_XLA: Mapping[str, Callable[[HloInstruction], float]] = MappingProxyType(
    {"fft": _fft_in_xla, "sort": _sort_in_xla}
)
"""All operations of an instruction and of what it applies, where XLA counts in a coarser way: of transforms the floors
of logarithms, of sorts as many comparisons as one row of all elements takes, one operation each.
"""


def _cholesky(cholesky: HloInstruction) -> float:
    return cholesky.shape.num_elements * cholesky.shape.dimensions[-1] / 3


def _triangular_solve(solve: HloInstruction) -> float:
    return 2.0 * solve.shape.num_elements * solve.operand(0).shape.dimensions[-1]


def _custom_call(call: HloInstruction) -> float:
    row = LAPACK_TARGETS.get(call.attributes_as(at.CustomCallAttributes).custom_call_target)
    if row is None:
        return 0
    try:
        bound = bind_lapack_call(call, row)
    except HloError:
        return 0
    kinds = 4 if call.operand(0).shape.element_type.is_complex else 1
    return float(kinds * math.prod(bound.batch) * row.flops(bound.sizes))


_RANDOM = frozenset({"rng", "rng-bit-generator"})

_OWN: Mapping[str, Callable[[HloInstruction], float]] = MappingProxyType(
    {
        "dot": _dot,
        "scaled-dot": _dot,
        "ragged-dot": _ragged_dot,
        "convolution": _convolution,
        "fft": _fft,
        "cholesky": _cholesky,
        "triangular-solve": _triangular_solve,
        "custom-call": _custom_call,
    }
)


def _window_size(instruction: HloInstruction) -> int:
    return math.prod(d.size for d in instruction.attributes_as(at.WindowAttributes).window.dimensions)


def _first(shape: Shape) -> Shape:
    return shape.tuple_shapes[0] if shape.is_tuple else shape


def _reduce(reduce: HloInstruction) -> tuple[float, ...]:
    return (max(0, reduce.operand(0).shape.num_elements - _first(reduce.shape).num_elements),)


def _reduce_window(reduce: HloInstruction) -> tuple[float, ...]:
    return (_first(reduce.shape).num_elements * max(0, _window_size(reduce) - 1),)


def _select_and_scatter(instruction: HloInstruction) -> tuple[float, ...]:
    sources = instruction.operand(1).shape.num_elements
    return (sources * max(0, _window_size(instruction) - 1), sources)


def _scatter(scatter: HloInstruction) -> tuple[float, ...]:
    return (scatter.operand(scatter.operand_count // 2 + 1).shape.num_elements,)


def _sort(sort: HloInstruction) -> tuple[float, ...]:
    shape = sort.operand(0).shape
    length = shape.dimensions[sort.attributes_as(at.SortAttributes).sort_dimension]
    return (shape.num_elements * math.ceil(math.log2(max(length, 1))),)


def _scan(scan: HloInstruction) -> tuple[float, ...]:
    (dimension,) = scan.attributes_as(at.ScanAttributes).dimensions
    return (scan.operand(0).shape.dimensions[dimension],)


def _per_element(instruction: HloInstruction) -> tuple[float, ...]:
    return (_first(instruction.shape).num_elements,)


_APPLIED: Mapping[str, Callable[[HloInstruction], tuple[float, ...]]] = MappingProxyType(
    {
        "reduce": _reduce,
        "reduce-window": _reduce_window,
        "select-and-scatter": _select_and_scatter,
        "scatter": _scatter,
        "sort": _sort,
        "scan": _scan,
        "map": _per_element,
        "all-reduce": _per_element,
        "all-reduce-start": _per_element,
        "reduce-scatter": _per_element,
        "fusion": lambda fusion: (1,),
        "call": lambda call: (1,),
        "async-start": lambda start: (1,),
    }
)
