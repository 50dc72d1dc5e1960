"""`alpha * dot(a, b) + beta * c`, a bias and an activation: what the calls to cuBLAS mean."""

from __future__ import annotations

from typing import Any

from xjit.hlo.attributes import DotAttributes
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.hlo.types.shape import Shape
from xjit.ops import build
from xjit.ops.library_calls.body import Body
from xjit.ops.library_calls.targets import GEMM_F8, call_target, library_config

EPILOGUES = frozenset({"DEFAULT", "RELU", "GELU", "GELU_AUX", "BIAS", "BIAS_RELU", "BIAS_GELU", "BIAS_GELU_AUX"})
GELU_SCALE, GELU_CUBE = 0.7978845608028654, 0.044715
"""gelu(x) = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""

F8_TYPES = frozenset({PrimitiveType.F8E4M3FN, PrimitiveType.F8E5M2})

_DIMENSIONS = {
    "lhs_contracting_dimensions": "lhs_contracting_dims",
    "rhs_contracting_dimensions": "rhs_contracting_dims",
    "lhs_batch_dimensions": "lhs_batch_dims",
    "rhs_batch_dimensions": "rhs_batch_dims",
}
_ALGORITHM_PREFIX = "ALG_"


def dimensions_to_json(attributes: DotAttributes) -> dict[str, list[str]]:
    """The dimension numbers of a dot as a configuration holds them: lists of numbers as text."""
    return {key: [str(d) for d in getattr(attributes, name)] for key, name in _DIMENSIONS.items()}


def precision_to_json(attributes: DotAttributes) -> dict[str, Any]:
    """The precision of a dot as a configuration holds it; empty if it is the default."""
    config: dict[str, Any] = {}
    if attributes.algorithm or any(p != "default" for p in attributes.operand_precision):
        config["operand_precision"] = [p.upper() for p in attributes.operand_precision or ("default", "default")]
    if attributes.algorithm:
        config["algorithm"] = _ALGORITHM_PREFIX + attributes.algorithm.upper()
    return config


def dot_attributes(config: dict[str, Any]) -> DotAttributes:
    """The attributes of the dot in a configuration."""
    numbers = config.get("dot_dimension_numbers", {})
    dims: dict[str, Any] = {name: tuple(int(d) for d in numbers.get(key, ())) for key, name in _DIMENSIONS.items()}
    given = config.get("precision_config", {})
    precision = tuple(p.lower() for p in given.get("operand_precision", ()))
    algorithm = given.get("algorithm", "").removeprefix(_ALGORITHM_PREFIX).lower()
    return DotAttributes(**dims, operand_precision=precision, algorithm="" if algorithm == "unset" else algorithm)


def product_shape(call: HloInstruction) -> Shape:
    """The shape of the product that a call returns, first or alone."""
    return call.shape.tuple_shapes[0] if call.shape.is_tuple else call.shape


def operand_roles(call: HloInstruction) -> tuple[str, ...]:
    """What each operand of a call is: "a", "b", "c", "bias", or a scale. Errors: Unsupported for another number."""
    config = library_config(call)
    epilogue = config.get("epilogue", "DEFAULT")
    if epilogue not in EPILOGUES:
        raise Unsupported(f"gemm with the epilogue '{epilogue}': expected one of {sorted(EPILOGUES)}", call.span)
    is_f8 = call_target(call) == GEMM_F8
    roles = ["a", "b", *(["c"] if config.get("beta", 0) else []), *(["a_scale", "b_scale"] if is_f8 else [])]
    roles += ["bias"] if epilogue.startswith("BIAS") else []
    roles += ["d_scale"] if is_f8 and product_shape(call).element_type in F8_TYPES else []
    if call.operand_count != len(roles):
        what = f"gemm '{call.name}' has {call.operand_count} operands"
        raise Unsupported(f"{what}: expected {len(roles)} ({', '.join(roles)})", call.span)
    return tuple(roles)


def result_roles(call: HloInstruction) -> tuple[str, ...]:
    """What each result is: "d", "aux" (what the activation was applied to), "amax", "workspace".

    Errors: Unsupported for another number.
    """
    config = library_config(call)
    roles = ["d", *(["aux"] if config.get("epilogue", "DEFAULT").endswith("_AUX") else [])]
    roles += ["amax"] if config.get("damax_output") else []
    count = len(call.shape.tuple_shapes) if call.shape.is_tuple else 1
    if count not in (len(roles), len(roles) + 1):
        raise Unsupported(f"gemm '{call.name}' has {count} results: expected {', '.join(roles)}, workspace", call.span)
    return (*roles, "workspace")[:count]


def plain_gemm(call: HloInstruction) -> HloComputation:
    """The computation that a call means; sums of 8 and 16 bits are in f32 until the end.

    Errors: Unsupported for an epilogue that is not in EPILOGUES, or operands and results that do not fit it.
    """
    config, body = library_config(call), Body(call)
    operands = dict(zip(operand_roles(call), body.parameters, strict=True))
    kind = product_shape(call).element_type
    wide = PrimitiveType.F32 if kind.is_float and kind.bit_width < 32 else kind
    value = body.add(build.make_dot(operands["a"], operands["b"], dot_attributes(config), wide))
    if not value.shape.same_dimensions(product_shape(call)):
        what = f"gemm '{call.name}' gives {product_shape(call)}, its dimension numbers {value.shape}"
        raise Unsupported(what, call.span)
    alpha = complex(config.get("alpha_real", 1), config.get("alpha_imag", 0))
    value = body.scaled(value, alpha if kind.is_complex else alpha.real)
    for scale in ("a_scale", "b_scale"):
        value = _times(body, value, operands.get(scale))
    if "c" in operands:
        value = body.op("add", value, body.scaled(body.convert(operands["c"], wide), config["beta"]))
    if "bias" in operands:
        bias = body.convert(operands["bias"], wide)
        minor = tuple(range(value.shape.rank - bias.shape.rank, value.shape.rank))
        value = body.op("add", value, body.add(build.broadcast(bias, value.shape, minor)))
    found = {"aux": value}
    epilogue = config.get("epilogue", "DEFAULT").removesuffix("_AUX")
    if epilogue.endswith("RELU"):
        value = body.op("maximum", value, body.full(value.shape, 0))
    elif epilogue.endswith("GELU"):
        value = _gelu(body, value)
    roles = result_roles(call)
    if "amax" in roles:
        found["amax"] = _largest(body, value)
    found["d"] = _times(body, value, operands.get("d_scale"))
    if not call.shape.is_tuple:
        return body.build(body.convert(found["d"], kind), call.shape)
    results = [
        body.convert(found[role], shape.element_type) if role in found else body.full(shape, 0)
        for role, shape in zip(roles, call.shape.tuple_shapes, strict=True)
    ]
    return body.build(body.add(HloInstruction.create_tuple(results)), call.shape)


def _times(body: Body, value: HloInstruction, scale: HloInstruction | None) -> HloInstruction:
    if scale is None:
        return value
    factor = body.convert(scale, value.shape.element_type)
    return body.op("multiply", value, body.add(build.broadcast(factor, value.shape, ())))


def _largest(body: Body, value: HloInstruction) -> HloInstruction:
    """The largest magnitude of all elements, a scalar."""
    magnitudes = body.op("abs", value)
    scalar = Shape.array(value.shape.element_type)
    larger = build.make_binary_computation("maximum", scalar.element_type)
    return body.add(build.make_reduce(magnitudes, body.full(scalar, 0), range(value.shape.rank), larger))


def _gelu(body: Body, x: HloInstruction) -> HloInstruction:
    cube = body.op("multiply", x, body.op("multiply", x, x))
    inner = body.scaled(body.op("add", x, body.scaled(cube, GELU_CUBE)), GELU_SCALE)
    return body.op("multiply", body.scaled(x, 0.5), body.op("add", body.op("tanh", inner), body.full(x.shape, 1)))
