"""Rules about shardings: they fit their arrays, name devices of the module, and agree around loops and branches."""

from __future__ import annotations

from collections.abc import Iterator

from xjit.hlo.annotations.device_sharding import DeviceSharding, read_sharding
from xjit.hlo.annotations.metadata import HloSharding
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.module import HloModule
from xjit.hlo.types.shape import Shape
from xjit.ops.verifier_error import wrong


def verify_sharding(module: HloModule, checks_device_numbers: bool = True) -> None:
    """Raises HloVerifyError at the first sharding that does not fit its value, its module or its caller.

    `checks_device_numbers`: devices are below the module's number of partitions, where it has several.
    """
    partitions = module.config.num_partitions if checks_device_numbers else 1
    for computation in module.computations():
        for instruction in computation.instructions:
            if instruction.sharding is not None:
                for shape, sharding in _parts(instruction):
                    _check_part(instruction, shape, sharding, partitions)
            if instruction.opcode in ("while", "conditional"):
                _check_agreement(instruction)


def _parts(instruction: HloInstruction) -> Iterator[tuple[Shape, HloSharding]]:
    """Returns (array, its sharding) pairs: the elements of a tuple sharding stand for the leaves in order."""
    sharding = instruction.sharding
    assert sharding is not None
    if not sharding.elements:
        return iter([(instruction.shape, sharding)])
    leaves = [shape for _, shape in instruction.shape.leaves()]
    if instruction.shape.is_token:
        return iter(())  # what an outfeed sends is sharded, not its token
    if not instruction.shape.is_tuple:
        raise wrong(instruction, f"sharding {sharding} is for a tuple, but the result is {instruction.shape}")
    has_empty = any(part.is_tuple and not part.tuple_shapes for _, part in instruction.shape.subshapes())
    if len(leaves) != len(sharding.elements) and not has_empty:  # an empty tuple may have a sharding, too
        count = len(sharding.elements)
        raise wrong(
            instruction, f"sharding {sharding} is for {count} arrays, but {instruction.shape} has {len(leaves)}"
        )
    return iter(zip(leaves, sharding.elements, strict=False))


def _check_part(instruction: HloInstruction, shape: Shape, sharding: HloSharding, partitions: int) -> None:
    """An array is tiled along each of its dimensions, by devices of the module that are named once."""
    found = read_sharding(sharding)
    if found.kind == "malformed":
        raise wrong(instruction, f"sharding {sharding} does not have as many devices as tiles")
    if found.is_tiled and shape.is_array and found.rank != shape.rank:
        raise wrong(instruction, f"sharding {sharding} has {found.rank} dimensions, but {shape} has {shape.rank}")
    if len(set(found.devices)) != len(found.devices):
        raise wrong(instruction, f"sharding {sharding} names a device twice")
    if any(device < 0 for device in found.devices):
        raise wrong(instruction, f"sharding {sharding} names a negative device")
    if partitions > 1 and (device := max(found.devices, default=-1)) >= partitions:
        raise wrong(instruction, f"sharding names device {device}, but num_partitions={partitions}")


def _check_agreement(caller: HloInstruction) -> None:
    """The state of a loop, and the results of branches, are sharded in one way wherever that is said."""
    group = [caller, *(c.root_instruction for c in caller.called_computations)]
    if caller.opcode == "while":
        condition, body = caller.called_computations
        group = [
            caller, body.root_instruction, *condition.parameter_instructions, *body.parameter_instructions,
        ]  # fmt: skip
    given = [(i, i.sharding) for i in group if i.sharding is not None]
    for instruction, sharding in given[1:]:
        first, expected = given[0]
        if _meaning(sharding) != _meaning(expected):
            raise wrong(
                caller,
                f"{first.name} has sharding {expected}, {instruction.name} has {sharding}; they hold the same values",
            )


def _meaning(sharding: HloSharding) -> tuple[DeviceSharding | str, ...]:
    parts = sharding.elements or (sharding,)
    found = [(part, read_sharding(part).without_origin()) for part in parts]
    return tuple(part.text if meaning.kind in ("malformed", "opaque") else meaning for part, meaning in found)
