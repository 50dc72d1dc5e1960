"""Every inline function by the name of its HLO opcode. Operands are f32 or f64, scalar or vector."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from xjit.llvm.math import error_function, exponential, inverse_trigonometric, logarithm, power, rounding, trigonometric
from xjit.llvm.math.shared_bodies import shared_body
from xjit.llvm.math.vec import Vec


def _shared(functions: Mapping[str, Callable[..., Vec]]) -> Mapping[str, Callable[..., Vec]]:
    return MappingProxyType({name: shared_body(name, function) for name, function in functions.items()})


UNARY: Mapping[str, Callable[[Vec], Vec]] = _shared(
    {
        "acos": inverse_trigonometric.acos,
        "acosh": logarithm.acosh,
        "asin": inverse_trigonometric.asin,
        "asinh": logarithm.asinh,
        "atan": inverse_trigonometric.atan,
        "atanh": logarithm.atanh,
        "cbrt": power.cbrt,
        "ceil": rounding.ceil,
        "cosh": exponential.cosh,
        "cosine": trigonometric.cos,
        "erf": error_function.erf,
        "exponential": exponential.exp,
        "exponential-minus-one": exponential.expm1,
        "floor": rounding.floor,
        "log": logarithm.log,
        "log-plus-one": logarithm.log1p,
        "logistic": exponential.logistic,
        "round-nearest-afz": rounding.round_away,
        "round-nearest-even": rounding.round_even,
        "rsqrt": power.rsqrt,
        "sign": rounding.sign,
        "sine": trigonometric.sin,
        "sinh": exponential.sinh,
        "sqrt": power.sqrt,
        "tan": trigonometric.tan,
        "tanh": exponential.tanh,
    }
)

BINARY: Mapping[str, Callable[[Vec, Vec], Vec]] = _shared(
    {
        "atan2": inverse_trigonometric.atan2,
        "maximum": rounding.maximum,
        "minimum": rounding.minimum,
        "power": power.power,
    }
)
