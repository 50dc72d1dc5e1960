"""Rules of the verifier about shapes by themselves and the module as a whole: entry layout, aliasing, origins."""

from __future__ import annotations

import re

from xjit.hlo.annotations.input_output_alias import check_aliasing
from xjit.hlo.diagnostics import ArrayTooLarge, HloError, HloVerifyError
from xjit.hlo.ir.module import HloModule
from xjit.hlo.types.layout import Layout
from xjit.hlo.types.shape import UNBOUNDED_SIZE, Shape
from xjit.hlo.types.shape_index import ShapeIndex
from xjit.ops.shape_inference.common import ARRAY_TYPES, show
from xjit.ops.verifier_layouts import check_same_layouts

MAX_ARRAY_BYTES = 2**48


def check_shape(shape: Shape) -> None:
    """Checks sizes, dynamic marks and layouts of a shape and everything in it."""
    if not shape.tuple_shapes:
        _check_one_shape(shape)
        return
    for _, part in shape.subshapes():
        _check_one_shape(part)


def _check_one_shape(shape: Shape) -> None:
    dims, layout = shape.dimensions, shape.layout
    if shape.element_type not in ARRAY_TYPES:
        if dims or layout is not None:
            raise HloVerifyError(f"shape {show(shape)} is not an array, but has dimensions or a layout")
        return
    if UNBOUNDED_SIZE in dims:
        raise HloVerifyError(f"shape {show(shape)} has a size without a bound: expected sizes, or bounds as in [<=8]")
    if dims and min(dims) < 0:
        raise HloVerifyError(f"shape {show(shape)} has a negative dimension")
    if shape.dynamic_dimensions and len(shape.dynamic_dimensions) != len(dims):
        raise HloVerifyError(f"shape of rank {len(dims)} has {len(shape.dynamic_dimensions)} dynamic dimension marks")
    if shape.num_elements * shape.element_type.byte_width > MAX_ARRAY_BYTES:
        raise ArrayTooLarge(
            f"shape {show(shape)} has {_magnitude(shape.num_elements)} elements, "
            "more than this implementation addresses",
            None,
            f"the limit is {MAX_ARRAY_BYTES} bytes per array",
        )
    if layout is not None and layout is not Layout.row_major(len(dims)):
        layout.validate(len(dims))


def _magnitude(count: int) -> str:
    digits = str(count)
    return digits if len(digits) <= 15 else f"about 10^{len(digits) - 1}"


def verify_entry_layout(module: HloModule, layout_sensitive: bool) -> None:
    """Checks that the layout which callers see has the entry's shapes."""
    layout = module.config.entry_computation_layout
    if layout is None:
        return
    entry = module.entry_computation
    parameters = entry.parameter_instructions
    note = f"in module {module.name}"
    if len(layout.parameter_shapes) != len(parameters):
        raise HloVerifyError(
            f"entry_computation_layout has {len(layout.parameter_shapes)} parameters, "
            f"but computation {entry.name} has {len(parameters)}",
            None,
            note,
        )
    pairs = [(p, s, f"parameter {i}") for i, (p, s) in enumerate(zip(parameters, layout.parameter_shapes, strict=True))]
    for instruction, shape, what in [*pairs, (entry.root_instruction, layout.result_shape, "the result")]:
        try:
            check_shape(shape)
        except HloError as error:
            raise HloVerifyError(f"entry_computation_layout: {error.message}", None, note) from None
        if not shape.compatible(instruction.shape):
            raise HloVerifyError(
                f"entry_computation_layout: {what} has shape {show(shape)}, "
                f"but {instruction.name} has {show(instruction.shape)}",
                instruction.span,
                note,
            )
        if layout_sensitive:
            what = f"entry_computation_layout: {what} and {instruction.name}"
            check_same_layouts(shape, instruction.shape, True, what)


def verify_aliasing(module: HloModule) -> None:
    """Checks input_output_alias and buffer_donor: indices exist, shapes agree, no buffer is given away twice.

    What must share its memory has the same layout and memory space for callers, too.
    """
    config = module.config
    check_aliasing(module, config.input_output_alias, config.buffer_donors)
    layout = config.entry_computation_layout
    if layout is None:
        return
    for alias in config.input_output_alias:
        source = layout.parameter_shapes[alias.parameter_number].subshape(alias.parameter_index)
        target = layout.result_shape.subshape(alias.output_index)
        if alias.kind == "must-alias" and source != target:
            raise HloVerifyError(
                f"input_output_alias {alias}: for callers the parameter is {source}, the result {target}"
            )


_ORIGIN = re.compile(r'"(?:[^"\\]|\\.)*"|[(){}]|,')


def verify_origins(module: HloModule) -> None:
    """Checks that an original value has the tuple structure of the instruction's shape."""
    for computation in module.computations():
        for instruction in computation.instructions:
            if instruction.origin and "[synthetic_call]" not in instruction.origin:
                expected = [index for index, _ in instruction.shape.leaves()]
                if _origin_leaves(instruction.origin) != expected:
                    message = f"origin={instruction.origin} does not have the leaves of {show(instruction.shape)}"
                    raise HloVerifyError(f"{instruction.opcode}: {message}", instruction.span)


def _origin_leaves(text: str) -> list[ShapeIndex]:
    """Returns the places of `{({"a"}, ({"b" {1}}, {}))}`: (0,), (1, 0), (1, 1). Tuples are round, leaves braced."""
    found: list[ShapeIndex] = []
    path: list[int] = []
    braces = 0
    for token in _ORIGIN.findall(text.strip()[1:-1]):
        if token == "{":
            if not braces:
                found.append(tuple(path))
            braces += 1
        elif token == "}":
            braces -= 1
        elif not braces and token == "(":
            path.append(0)
        elif not braces and token == ")":
            path.pop()
        elif not braces and token == "," and path:
            path[-1] += 1
    return found
