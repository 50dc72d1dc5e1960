"""What JAX asks of a program's parameters and results beside their types: layouts and memories.

They are attributes of the arguments and results of `main`, which a conversion to HLO leaves out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from xjit.hlo.attributes.codecs.shapes import parse_layout
from xjit.hlo.diagnostics import InvalidArgument, Unsupported
from xjit.hlo.types.layout import Layout
from xjit.hlo.types.shape import Shape

_LAYOUT: Final = "mhlo.layout_mode"
_MEMORY: Final = "mhlo.memory_kind"
_FREE: Final = ("", "auto", "default")
"""Layouts that the compiler may choose; this one takes row-major."""


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


def placed_shape(shape: Shape, layout: str) -> Shape:
    """The shape with a layout of `Boundary`; row-major if it may be any.

    Errors: Unsupported for tiles, InvalidArgument for a layout that does not fit.
    """
    if not shape.is_array:
        return shape
    if layout in _FREE:
        return shape.with_layout(None).with_default_layouts()
    found = parse_layout(layout)
    if found.tiles:
        raise Unsupported(f"a parameter or result with the tiled layout {layout}")
    if sorted(found.minor_to_major) != list(range(len(shape.dimensions))):
        raise InvalidArgument(f"layout {layout} of an array of rank {len(shape.dimensions)}")
    return shape.with_layout(Layout(found.minor_to_major))
