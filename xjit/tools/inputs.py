"""Inputs of a program: values from the command line, seeded random arrays for the rest, and calls that keep them."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.ir.module import HloModule
from xjit.hlo.types.primitive_type import BY_TEXT, PrimitiveType
from xjit.hlo.types.shape import Shape

_SPEC = re.compile(r"^(?P<dims>(?:\d+x)*)(?P<type>[a-z]\w*)=(?P<value>.*)$", re.DOTALL)
MAX_RANDOM_BYTES = 64 << 30


def make_inputs(module: HloModule, given: Sequence[str], seed: int = 0) -> list[Any]:
    """Returns one value per entry parameter: `given` for the first ones, random ones after that.

    `given` items are `2x3xf32=@file.npy` or `2x3xf32=[[1,2,3],[4,5,6]]`; `4xf32=0.5` fills. Errors: InvalidArgument.
    """
    parameters = module.entry_computation.parameter_instructions
    if len(given) > len(parameters):
        raise InvalidArgument(f"{len(given)} inputs given, the entry computation takes {len(parameters)}")
    total = sum(p.shape.byte_size for p in parameters)
    if total > MAX_RANDOM_BYTES:
        raise InvalidArgument(f"the inputs would take {total} bytes, more than {MAX_RANDOM_BYTES}")
    values: list[Any] = [parse_input(text, p.shape, p.name) for text, p in zip(given, parameters, strict=False)]
    for number, parameter in enumerate(parameters[len(given) :], len(given)):
        values.append(random_value(parameter.shape, np.random.default_rng([seed, number])))
    return values


def call_again(executable: Any, inputs: Sequence[Any]) -> Any:
    """Calls an executable whose inputs are needed again: it gets copies of the parameters that it overwrites."""
    donate = executable.required_donations
    if not donate:
        return executable(*inputs)
    return executable(*[_copied(x) if n in donate else x for n, x in enumerate(inputs)], donate=donate)


def _copied(value: Any) -> Any:
    return tuple(map(_copied, value)) if isinstance(value, tuple) else np.array(value)


def parse_input(text: str, shape: Shape, name: str) -> np.ndarray[Any, Any]:
    """Returns the array of one `SHAPExTYPE=VALUE` item; it must fit the parameter."""
    match = _SPEC.match(text)
    if match is None or match["type"] not in BY_TEXT:
        raise InvalidArgument(
            f"input '{text}': expected SHAPExTYPE=VALUE or SHAPExTYPE=@FILE.npy, as in 2x3xf32=@x.npy"
        )
    dims = tuple(int(d) for d in match["dims"].split("x") if d)
    if dims != shape.dimensions or match["type"] != shape.element_type.text:
        expected = "x".join([*map(str, shape.dimensions), shape.element_type.text])
        raise InvalidArgument(f"input for parameter '{name}' is {text.partition('=')[0]}, expected {expected}")
    value = match["value"]
    if value.startswith("@"):
        try:
            array = np.load(value[1:], allow_pickle=False)
        except (OSError, ValueError) as error:
            raise InvalidArgument(f"cannot read input file '{value[1:]}': {error}") from error
    else:
        try:
            array = np.asarray(ast.literal_eval(value))
        except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
            raise InvalidArgument(f"input value '{value[:60]}' is not a number or a nested list") from error
    if array.shape != dims and array.size != 1:
        raise InvalidArgument(f"input for parameter '{name}' holds {list(array.shape)}, expected {list(dims)}")
    return np.broadcast_to(_converted(array, shape, name), dims).copy()


def _converted(array: np.ndarray[Any, Any], shape: Shape, name: str) -> np.ndarray[Any, Any]:
    """The values in the parameter's type: rounded to floating-point types, otherwise exactly the same."""
    kind = shape.element_type
    fits = array.dtype.kind in "biuf" or array.dtype.kind == "V" or (array.dtype.kind == "c" and kind.is_complex)
    if fits:
        with np.errstate(all="ignore"):
            result = array.astype(shape.dtype)
            if kind.is_float or kind.is_complex or np.array_equal(result.astype(array.dtype), array):
                return result
    raise InvalidArgument(
        f"input for parameter '{name}' holds {array.dtype} values that {kind.text} does not represent"
    )


def random_value(shape: Shape, generator: np.random.Generator) -> Any:
    """Returns random values of a shape: floats of variance 1 / fan-in, small integers, coin flips."""
    if shape.is_tuple:
        return tuple(random_value(s, generator) for s in shape.tuple_shapes)
    kind, dims = shape.element_type, shape.dimensions
    if not shape.is_array:
        return None
    if kind is PrimitiveType.PRED:
        return generator.random(dims) < 0.5
    if kind.is_integer:
        high = min(4, 1 << (kind.bit_width - 1))
        return generator.integers(0, high, dims).astype(shape.dtype)
    fan_in = int(np.prod(dims[:-1])) if len(dims) == 2 else 1
    scale = np.float32(max(fan_in, 1) ** -0.5)
    values = generator.standard_normal(dims, dtype=np.float32) * scale
    if kind.is_complex:
        values = values + 1j * generator.standard_normal(dims, dtype=np.float32) * scale
    return np.asarray(values).astype(shape.dtype)
