"""Rules of the verifier about shapes by themselves and the module as a whole: entry layout, aliasing, sharding."""

from __future__ import annotations

import math
import re

from xjit.hlo.annotations.device_sharding import read_sharding
from xjit.hlo.annotations.input_output_alias import check_aliasing
from xjit.hlo.annotations.metadata import HloSharding
from xjit.hlo.diagnostics import HloError, HloVerifyError
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.module import HloModule
from xjit.hlo.types.layout import Layout
from xjit.hlo.types.shape import UNBOUNDED_SIZE, Shape
from xjit.ops.shape_inference.common import ARRAY_TYPES, show

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
        raise HloVerifyError(
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


def check_same_layouts(a: Shape, b: Shape, order_only: bool, what: str) -> None:
    """Raises HloVerifyError that names the first array whose layout differs; absent layouts are row-major."""
    if a is b:
        return
    for (index, x), (_, y) in zip(a.leaves(), b.leaves(), strict=True):
        same = x.minor_to_major == y.minor_to_major
        if same and not order_only and x.layout is not None and y.layout is not None:
            same = x.layout == y.layout
        if not same:
            place = f" at index {{{','.join(map(str, index))}}}" if index else ""
            raise HloVerifyError(f"{what}: layouts differ{place}, {x} and {y}")


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
    """Checks input_output_alias and buffer_donor: indices exist, shapes agree, no buffer is given away twice."""
    check_aliasing(module, module.config.input_output_alias, module.config.buffer_donors)


_DEVICE = re.compile(r"maximal device=(\d+)")
_NEGATIVE = re.compile(r"(?:device=|,|\])-\d")
_TILES = re.compile(r"devices=\[([\d,]+)\](?:<=\[([\d,]+)\]|([\d,]+))")


def verify_sharding(module: HloModule) -> None:
    """Checks that shardings fit their arrays, and name devices of the module, where it says how many there are."""
    partitions = module.config.num_partitions
    for computation in module.computations():
        for instruction in computation.instructions:
            if instruction.sharding is None:
                continue
            _check_tiles(instruction, instruction.sharding)
            if partitions > 1 and (device := _highest_device(instruction.sharding)) >= partitions:
                message = f"{instruction.opcode}: sharding names device {device}, but num_partitions={partitions}"
                raise HloVerifyError(message, instruction.span, f"in computation {computation.name}")


def _check_tiles(instruction: HloInstruction, sharding: HloSharding) -> None:
    """An array is tiled along each of its dimensions, and no device has a negative number."""
    if sharding.elements or not instruction.shape.is_array:
        return
    found = read_sharding(sharding)
    dimensions = len(found.tiles) - len(found.subgroups)
    if found.is_tiled and dimensions != instruction.shape.rank:
        message = (
            f"sharding {sharding} has {dimensions} dimensions, but {instruction.shape} has {instruction.shape.rank}"
        )
        raise HloVerifyError(f"{instruction.opcode}: {message}", instruction.span)
    if _NEGATIVE.search(sharding.text):
        raise HloVerifyError(f"{instruction.opcode}: sharding {sharding} names a negative device", instruction.span)


def _highest_device(sharding: HloSharding) -> int:
    """Returns the highest device number that a sharding names, -1 if it names none."""
    highest = -1
    stack = [sharding]
    while stack:
        item = stack.pop()
        stack.extend(item.elements)
        if match := _DEVICE.search(item.text):
            highest = max(highest, int(match.group(1)))
        elif match := _TILES.search(item.text):
            listed = match.group(3)
            numbers = [int(n) for n in (listed or match.group(2)).split(",") if n]
            highest = max(highest, max(numbers) if listed else math.prod(numbers) - 1)
    return highest
