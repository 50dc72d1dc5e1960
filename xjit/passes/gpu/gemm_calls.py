"""Calls to cuBLAS: which dots they can do, and how a call and its configuration are written."""

from __future__ import annotations

import cmath
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xjit.hlo import HloInstruction, PrimitiveType, Shape
from xjit.hlo.attributes import ConstantAttributes, CustomCallAttributes, DotAttributes
from xjit.ops.library_calls.gemm import dimensions_to_json, precision_to_json
from xjit.ops.library_calls.targets import GEMM_WRAPPER, call_target, with_changes

_TYPES = frozenset(
    {
        PrimitiveType.F16,
        PrimitiveType.BF16,
        PrimitiveType.F32,
        PrimitiveType.F64,
        PrimitiveType.C64,
        PrimitiveType.C128,
    }
)


def may_be_gemm(dot: HloInstruction) -> bool:
    """Whether cuBLAS has a matrix product for a dot: its types, and its dimensions as they lie in memory.

    Batch, free and contracting dimensions must each be one block of neighbours, in order, in both operands, and batch,
    rows and columns in the result; the minor-most dimension is none of the batch. Sparse dots and empty operands are
    not for the library.
    """
    attributes = dot.attributes_as(DotAttributes)
    if attributes.sparsity or len(dot.operands) != 2 or not dot.shape.is_static_array:
        return False
    lhs, rhs = (o.shape for o in dot.operands)
    if not (lhs.is_static_array and rhs.is_static_array and lhs.num_elements and rhs.num_elements):
        return False
    if not _has_types(lhs, rhs, dot.shape) or not _has_algorithm(attributes.algorithm, dot):
        return False
    batch = len(attributes.lhs_batch_dims)
    columns = rhs.rank - batch - len(attributes.rhs_contracting_dims)
    return (
        _is_matrix(lhs, attributes.lhs_batch_dims, attributes.lhs_contracting_dims)
        and _is_matrix(rhs, attributes.rhs_batch_dims, attributes.rhs_contracting_dims)
        and _is_matrix(dot.shape, range(batch), range(dot.shape.rank - columns, dot.shape.rank))
    )


_ALGORITHMS = frozenset({"dot_f32_f32_f32", "dot_tf32_tf32_f32", "dot_bf16_bf16_f32", "dot_f16_f16_f32"})
"""Those of f32 that the library has as types of computation."""


def _has_algorithm(algorithm: str, dot: HloInstruction) -> bool:
    kinds = {dot.shape.element_type, *(o.shape.element_type for o in dot.operands)}
    return not algorithm or (algorithm in _ALGORITHMS and kinds == {PrimitiveType.F32})


def _has_types(lhs: Shape, rhs: Shape, result: Shape) -> bool:
    if lhs.element_type is not rhs.element_type:
        return False
    if lhs.element_type is PrimitiveType.S8:
        return result.element_type is PrimitiveType.S32
    if lhs.element_type not in _TYPES:
        return False
    narrow = lhs.element_type.bit_width == 16
    return result.element_type is lhs.element_type or (narrow and result.element_type is PrimitiveType.F32)


def _is_matrix(shape: Shape, batch: Sequence[int], columns: Sequence[int]) -> bool:
    """Whether `batch`, `columns` and all other dimensions are such blocks, and the last two are not empty."""
    free = [d for d in range(shape.rank) if d not in (*batch, *columns)]
    if not columns or not free:
        return False
    place = {d: i for i, d in enumerate(reversed(shape.minor_to_major))}
    blocks = [[place[d] for d in group] for group in (batch, columns, free)]
    if any(block != list(range(block[0], block[0] + len(block))) for block in blocks if block):
        return False
    return shape.minor_to_major[0] not in batch


def gemm_config(dot: HloInstruction) -> dict[str, Any]:
    """The configuration of the call that is one dot. The precision is written where it is not the default."""
    attributes = dot.attributes_as(DotAttributes)
    config: dict[str, Any] = {
        "alpha_real": 1,
        "alpha_imag": 0,
        "beta": 0,
        "dot_dimension_numbers": dimensions_to_json(attributes),
        "epilogue": "DEFAULT",
    }
    if precision := precision_to_json(attributes):
        config["precision_config"] = precision
    return config


def wrapped(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration as XLA writes it: nothing is left out, in an object of one key."""
    precision = {"operand_precision": ["DEFAULT", "DEFAULT"]}
    return {GEMM_WRAPPER: {"precision_config": precision, **config}}


def make_call(
    target: str, shape: Shape, operands: Sequence[HloInstruction], config: Mapping[str, Any], aliasing: str = ""
) -> HloInstruction:
    """Returns a free call."""
    attributes = CustomCallAttributes(target, output_to_operand_aliasing=aliasing)
    call = HloInstruction.create("custom-call", shape, operands, attributes, name=target.strip("_").replace("$", "-"))
    call.backend_config = config
    return call


def replaced_call(
    call: HloInstruction, operands: Sequence[HloInstruction], aliasing: str, **changes: Any
) -> HloInstruction:
    """Returns a free call like another, with other operands and with other values in its configuration."""
    return make_call(call_target(call), call.shape, operands, with_changes(call, changes), aliasing)


def constant_factor(constant: HloInstruction) -> complex | None:
    """A scalar constant as a number; None if it is not finite."""
    value = complex(constant.attributes_as(ConstantAttributes).literal.array[()])
    return value if cmath.isfinite(value) else None


def product_of_factors(kind: PrimitiveType, first: complex, second: complex) -> complex | None:
    """The product of two factors of what has some element type, to take their place.

    None if it overflows or vanishes where the factors, one after the other, would not; or if it is zero: what libraries
    scale by that they do not read, NaNs neither.
    """
    wide = kind in (PrimitiveType.F64, PrimitiveType.C128)
    limits, product = np.finfo(np.float64 if wide else np.float32), first * second
    parts = [abs(part) for part in (product.real, product.imag) if part]
    fits = all(float(limits.tiny) <= part <= float(limits.max) for part in parts)
    return product if parts and fits else None


def json_number(value: float) -> float:
    """A number as JSON text shows it: integers without a point."""
    return int(value) if value == int(value) else value
