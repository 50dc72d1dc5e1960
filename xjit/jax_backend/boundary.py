"""What JAX asks of a program's parameters and results beside their types: layouts and memories.

They are attributes of the arguments and results of `main`, which a conversion to HLO leaves out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from xjit.hlo import HloInstruction
from xjit.hlo.attributes.codecs.shapes import parse_layout
from xjit.hlo.attributes.elements import DimensionsAttributes, ParameterAttributes
from xjit.hlo.ir.post_order import extend_post_order
from xjit.hlo.types.layout import Layout, Tile
from xjit.hlo.types.shape import Shape

_LAYOUT: Final = "mhlo.layout_mode"
_MEMORY: Final = "mhlo.memory_kind"
AUTO: Final = "auto"
"""The layout that the compiler may choose: parameters are row-major then, results as `free_layout` says."""

_ROW_MAJOR: Final = ("", AUTO, "default")


@dataclass(frozen=True, slots=True)
class Boundary:
    """Per parameter and result: the layout as text, and the kind of memory; "" is the default."""

    parameter_layouts: tuple[str, ...] = ()
    result_layouts: tuple[str, ...] = ()
    parameter_memories: tuple[str, ...] = ()
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
        sides = (arguments, results)
        return Boundary(*(_texts(side, name) for name in (_LAYOUT, _MEMORY) for side in sides))


def _texts(attributes: Any, name: str) -> tuple[str, ...]:
    return tuple(part[name].value if name in part else "" for part in attributes)


def tiles_of(layout: str) -> tuple[Tile, ...]:
    """The tiles of a layout of `Boundary`."""
    return parse_layout(layout).tiles if ":" in layout else ()


def free_layout(result: HloInstruction, parameters: Sequence[Shape]) -> Layout:
    """Returns the layout of a result that may have any (`auto`): the one in which transposes move nothing.

    It is row-major unless transposes, and what has an element for each of its operand's, lead to a parameter, whose
    shapes these are. Operands of elementwise instructions that lead to different orders make it row-major, too.
    """
    order = _free_order(result, [shape.minor_to_major for shape in parameters])
    return Layout.row_major(len(result.shape.dimensions)) if order is None else Layout(order)


_Order = tuple[int, ...] | None
"""Dimensions from minor to major; None: there is none to keep."""


def _free_order(result: HloInstruction, parameters: Sequence[_Order]) -> _Order:
    """The order of a result; `parameters` are those of its computation. Each instruction is looked at once."""
    order: list[HloInstruction] = []
    extend_post_order(order, set(), result, _sources)
    found: dict[HloInstruction, _Order] = {}
    for instruction in order:
        found[instruction] = _order_of(instruction, [found[o] for o in _sources(instruction)], parameters)
    return found[result]


def _sources(instruction: HloInstruction) -> Sequence[HloInstruction]:
    """The operands that an instruction may have its order from."""
    if instruction.opcode == "call":
        return instruction.operands
    if instruction.opcode in ("transpose", "reverse", "pad"):
        return instruction.operands[:1]
    if not instruction.is_elementwise():
        return ()
    return [o for o in instruction.operands if o.opcode not in ("broadcast", "constant")]


def _order_of(instruction: HloInstruction, given: Sequence[_Order], parameters: Sequence[_Order]) -> _Order:
    if instruction.opcode == "parameter":
        return parameters[instruction.attributes_as(ParameterAttributes).parameter_number]
    if instruction.opcode == "call":
        return _free_order(instruction.called_computations[0].root_instruction, given)
    order = given[0] if len(set(given)) == 1 else None
    if order is None or instruction.opcode != "transpose":
        return order
    permutation = instruction.attributes_as(DimensionsAttributes).dimensions
    return tuple(permutation.index(dimension) for dimension in order)


def placed_shape(shape: Shape, layout: str) -> Shape:
    """The shape with a layout of `Boundary`; row-major if that is the default.

    Its tiles are left out: as in XLA's CPU client they are a name (`tiles_of`), and move no element.
    Errors: InvalidArgument for a layout that does not fit.
    """
    if not shape.is_array:
        return shape
    if layout in _ROW_MAJOR:
        return shape.with_layout(None).with_default_layouts()
    found = parse_layout(layout)
    found.validate(len(shape.dimensions))
    return shape.with_layout(Layout(found.minor_to_major))
