"""`alpha * dot(a, b) + beta * c`, a bias and an activation: what the calls to cuBLAS mean."""

from __future__ import annotations

from typing import Any

from xjit.hlo.attributes import DotAttributes
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.ops import build
from xjit.ops.library_calls.body import Body
from xjit.ops.library_calls.targets import library_config

EPILOGUES = frozenset({"DEFAULT", "RELU", "GELU", "BIAS", "BIAS_RELU", "BIAS_GELU"})
GELU_SCALE, GELU_CUBE = 0.7978845608028654, 0.044715
"""gelu(x) = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""

_DIMENSIONS = {
    "lhs_contracting_dimensions": "lhs_contracting_dims",
    "rhs_contracting_dimensions": "rhs_contracting_dims",
    "lhs_batch_dimensions": "lhs_batch_dims",
    "rhs_batch_dimensions": "rhs_batch_dims",
}


def dimensions_to_json(attributes: DotAttributes) -> dict[str, list[str]]:
    """The dimension numbers of a dot as a configuration holds them: lists of numbers as text."""
    return {key: [str(d) for d in getattr(attributes, name)] for key, name in _DIMENSIONS.items()}


def dot_attributes(config: dict[str, Any]) -> DotAttributes:
    """The attributes of the dot in a configuration."""
    numbers = config.get("dot_dimension_numbers", {})
    dims: dict[str, Any] = {name: tuple(int(d) for d in numbers.get(key, ())) for key, name in _DIMENSIONS.items()}
    precision = config.get("precision_config", {}).get("operand_precision", ())
    return DotAttributes(**dims, operand_precision=tuple(p.lower() for p in precision))


def plain_gemm(call: HloInstruction) -> HloComputation:
    """The computation that a call means; sums of f16 and bf16 are in f32 until the end.

    Errors: Unsupported for an epilogue that is not in EPILOGUES.
    """
    config, body = library_config(call), Body(call)
    epilogue, beta = config.get("epilogue", "DEFAULT"), config.get("beta", 0)
    if epilogue not in EPILOGUES:
        raise Unsupported(f"gemm with the epilogue '{epilogue}': expected one of {sorted(EPILOGUES)}", call.span)
    lhs, rhs, *others = body.parameters
    result = call.shape.tuple_shapes[0] if call.shape.is_tuple else call.shape
    kind = result.element_type
    wide = PrimitiveType.F32 if kind.is_float and kind.bit_width < 32 else kind
    value = body.add(build.make_dot(lhs, rhs, dot_attributes(config), wide))
    alpha = complex(config.get("alpha_real", 1), config.get("alpha_imag", 0))
    value = body.scaled(value, alpha if kind.is_complex else alpha.real)
    if beta:
        value = body.op("add", value, body.scaled(body.convert(others.pop(0), wide), beta))
    if epilogue.startswith("BIAS"):
        bias = body.convert(others.pop(0), wide)
        minor = tuple(range(value.shape.rank - bias.shape.rank, value.shape.rank))
        value = body.op("add", value, body.add(build.broadcast(bias, value.shape, minor)))
    if epilogue.endswith("RELU"):
        value = body.op("maximum", value, body.full(value.shape, 0))
    elif epilogue.endswith("GELU"):
        value = _gelu(body, value)
    return body.build(body.convert(value, kind), call.shape)


def _gelu(body: Body, x: HloInstruction) -> HloInstruction:
    cube = body.op("multiply", x, body.op("multiply", x, x))
    inner = body.scaled(body.op("add", x, body.scaled(cube, GELU_CUBE)), GELU_SCALE)
    return body.op("multiply", body.scaled(x, 0.5), body.op("add", body.op("tanh", inner), body.full(x.shape, 1)))
