"""Modules under random shardings through the SPMD partitioner: the devices together must compute what one would."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.support.passes import leaves, random_value
from xjit.hlo import HloInstruction, HloModule, Shape
from xjit.hlo.annotations.device_sharding import REPLICATED, DeviceSharding, tiled
from xjit.hlo.annotations.metadata import HloSharding
from xjit.ops.evaluation import evaluate, evaluate_devices
from xjit.ops.verifier import verify_module
from xjit.passes.sharding.sharding_slots import leaf_shapes
from xjit.passes.sharding.spmd.leaves import annotated_leaves
from xjit.passes.sharding.spmd.placement import place
from xjit.passes.sharding.spmd_partitioner import SpmdPartitioner
from xjit.text.parser import parse_hlo


def random_sharding(rank: int, devices: int, rng: random.Random) -> DeviceSharding:
    """Returns replicas of the whole or tiles along random dimensions, on devices in random order."""
    tiles, rest = [1] * rank, devices
    while rank and rest > 1 and rng.random() < 0.8:
        factor = rng.choice([n for n in range(2, rest + 1) if rest % n == 0])
        tiles[rng.randrange(rank)] *= factor
        rest //= factor
    order = list(range(devices))
    if rng.random() < 0.3:
        rng.shuffle(order)
    return tiled(np.array(order).reshape(*tiles, rest), ("replicated",))


def annotate(module: HloModule, rng: random.Random, share: float = 0.8) -> None:
    """Gives random instructions of the computations that run in sequence random shardings."""
    devices = module.config.num_partitions
    for computation in module.computations():
        embedded = any(c.opcode not in ("while", "call", "conditional") for c in computation.caller_instructions())
        for instruction in () if embedded else computation.instructions:
            chosen = rng.random() < share or instruction is module.entry_computation.root_instruction
            if instruction.sharding is None and chosen:
                shardings = [
                    HloSharding(str(random_sharding(s.rank, devices, rng) if s.is_array else REPLICATED))
                    for s in leaf_shapes(instruction.shape)
                ]
                is_tuple = instruction.shape.is_tuple
                instruction.sharding = HloSharding(elements=tuple(shardings)) if is_tuple else shardings[0]


def check(text: str, devices: int, seed: int) -> HloModule:
    """Partitions a module under random shardings, and compares values; returns the result.

    Entry shapes stay, or become tiles, by the seed's choice.
    """
    rng = random.Random(f"{seed} {devices}")
    module = parse_hlo(text)
    module.config.num_partitions = devices
    annotate(module, rng)
    return check_annotated(module, seed, allow_change=rng.random() < 0.5)


def check_annotated(module: HloModule, seed: int, allow_change: bool) -> HloModule:
    """As `check`, of a module with annotations."""
    devices, before = module.config.num_partitions, str(module)
    whole = parse_hlo(before)
    whole.config.num_partitions = 1
    numbers = np.random.default_rng(seed)
    entry = module.entry_computation
    inputs = [random_value(p.shape, numbers) for p in entry.parameter_instructions]
    expected = evaluate(whole, *inputs)
    parameters = [_shardings(p, allow_change) for p in entry.parameter_instructions]
    shapes = [p.shape for p in entry.parameter_instructions]
    root, root_shape = _shardings(entry.root_instruction, allow_change), entry.root_instruction.shape
    assert SpmdPartitioner(allow_module_signature_change=allow_change).run(module)
    try:
        verify_module(module)
        assert parse_hlo(str(module)) == module
        given = [[_cut(x, s, d, devices, p, 77) for x, s, d in zip(inputs, shapes, parameters)] for p in range(devices)]
        for p, result in enumerate(evaluate_devices(module, given)):
            for a, e in zip(leaves(result), leaves(_cut(expected, root_shape, root, devices, p)), strict=True):
                _compare(a, e, p)
    except Exception as error:
        error.add_note(f"{before}\nbecame\n{module}")
        raise
    assert not SpmdPartitioner().run(module)
    return module


def partition(body: str, devices: int = 4, allow_change: bool = True) -> HloModule:
    """Partitions an annotated module after its values have been compared."""
    return check_annotated(parse_hlo(f"HloModule m, num_partitions={devices} {body}"), 1, allow_change)


def exchanges(module: HloModule) -> list[str]:
    """The collectives of a module, in order."""
    found = [i.opcode for c in module.computations() for i in c.make_instruction_post_order()]
    return [name for name in found if name.startswith(("all-", "collective-", "reduce-scatter"))]


def _compare(found: Any, expected: Any, device: int) -> None:
    """Compares what a device has of an array with what it should have; beyond the array it may have anything."""
    inside = found[tuple(slice(0, n) for n in expected.shape)]
    assert inside.shape == expected.shape and found.dtype == expected.dtype
    kind = np.complex128 if expected.dtype.kind == "c" else np.float64
    same = np.allclose(inside.astype(kind), expected.astype(kind), 1e-5, 1e-5, equal_nan=True)
    assert same, f"device {device}: {inside} instead of {expected}"


def _shardings(instruction: HloInstruction, allow_change: bool) -> list[DeviceSharding]:
    found = annotated_leaves(instruction)
    return found if allow_change else [REPLICATED] * len(found)


def _cut(
    value: Any, shape: Shape, shardings: list[DeviceSharding], devices: int, device: int, beyond: int | None = None
) -> Any:
    """Returns a device's part of a value; with `beyond`, tiles that reach beyond an array have that number there."""
    return _cut_next(value, shape, iter(shardings), devices, device, beyond)


def _cut_next(
    value: Any, shape: Shape, shardings: Iterator[DeviceSharding], devices: int, device: int, beyond: int | None
) -> Any:
    if shape.is_tuple and shape.tuple_shapes:
        parts = zip(value, shape.tuple_shapes, strict=True)
        return tuple(_cut_next(v, s, shardings, devices, device, beyond) for v, s in parts)
    sharding = next(shardings)
    if not shape.is_array:
        return value
    placement = place(value.shape, sharding, devices)
    starts = placement.starts[device]
    inside = value[tuple(slice(int(s), int(s) + n) for s, n in zip(starts, placement.local))]
    if beyond is None:
        return inside
    found = np.full(placement.local, beyond, value.dtype)
    found[tuple(slice(0, n) for n in inside.shape)] = inside
    return found
