"""What JAX asks of a program's parameters and results beside their types: layouts and memories.

They are attributes of the arguments and results of `main`, which a conversion to HLO leaves out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction
from xjit.hlo.attributes.codecs.shapes import parse_layout
from xjit.hlo.attributes.elements import DimensionsAttributes, ParameterAttributes
from xjit.hlo.diagnostics import InvalidArgument, Unsupported
from xjit.hlo.types.layout import Layout
from xjit.hlo.types.shape import Shape

_LAYOUT: Final = "mhlo.layout_mode"
_MEMORY: Final = "mhlo.memory_kind"
AUTO: Final = "auto"
"""The layout that the compiler may choose: parameters are row-major then, results as `free_layout` says."""

_ROW_MAJOR: Final = ("", AUTO, "default")


@dataclass(frozen=True, slots=True)
class Boundary:
    """Per parameter and result: the layout as text, and for results the kind of memory; "" is the default."""

    parameter_layouts: tuple[str, ...] = ()
    result_layouts: tuple[str, ...] = ()
    result_memories: tuple[str, ...] = ()


def boundary_of(code: bytes) -> Boundary:
    """Reads a portable artifact. Most ask for nothing, which their strings tell."""
    if _LAYOUT.encode() not in code and _MEMORY.encode() not in code:
        return Boundary()
    from jax.interpreters import mlir
    from jaxlib.mlir.dialects import stablehlo

    context: Any = mlir.make_ir_context()
    with context:
        module = stablehlo.deserialize_portable_artifact(context, code)
        main: Any = next(op for op in module.body.operations if str(op.attributes["sym_name"]) == '"main"')
        arguments, results = main.arg_attrs, main.result_attrs
        return Boundary(_texts(arguments, _LAYOUT), _texts(results, _LAYOUT), _texts(results, _MEMORY))


def _texts(attributes: Any, name: str) -> tuple[str, ...]:
    return tuple(part[name].value if name in part else "" for part in attributes)


def free_layout(result: HloInstruction, parameters: Sequence[Shape]) -> Layout:
    """Returns the layout of a result that may have any (`auto`): the one in which transposes move nothing.

    It is row-major unless elementwise instructions and transposes lead to a parameter, whose shapes these are.
    """
    permutations: list[tuple[int, ...]] = []
    calls: list[HloInstruction] = []
    at = result
    while True:
        if at.opcode == "transpose":
            permutations.append(at.attributes_as(DimensionsAttributes).dimensions)
            at = at.operand(0)
        elif at.opcode == "call":
            calls.append(at)
            at = at.called_computations[0].root_instruction
        elif at.opcode == "parameter":
            number = at.attributes_as(ParameterAttributes).parameter_number
            if not calls:
                break
            at = calls.pop().operand(number)
        elif at.is_elementwise() and at.operands:
            at = next((o for o in at.operands if o.opcode not in ("broadcast", "constant")), at.operand(0))
        else:
            return Layout.row_major(len(result.shape.dimensions))
    order = parameters[number].minor_to_major
    for permutation in reversed(permutations):
        order = tuple(permutation.index(dimension) for dimension in order)
    return Layout(order)


def placed_shape(shape: Shape, layout: str) -> Shape:
    """The shape with a layout of `Boundary`; row-major if that is the default.

    Errors: Unsupported for tiles, InvalidArgument for a layout that does not fit.
    """
    if not shape.is_array:
        return shape
    if layout in _ROW_MAJOR:
        return shape.with_layout(None).with_default_layouts()
    found = parse_layout(layout)
    if found.tiles:
        raise Unsupported(f"a parameter or result with the tiled layout {layout}")
    if sorted(found.minor_to_major) != list(range(len(shape.dimensions))):
        raise InvalidArgument(f"layout {layout} of an array of rank {len(shape.dimensions)}")
    return shape.with_layout(Layout(found.minor_to_major))
