"""Custom calls of JAX that are partitioned in a way of their own.

`custom_partitioning` and `debug.inspect_array_sharding` are partitioned by Python: their programs hold the number of an
object of this process, or the address of a function in it. Partitioned callbacks get the part of each device.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Final

from xjit.frontends.stablehlo import convert_mlir
from xjit.hlo import HloComputation, HloInstruction, HloModule, Shape
from xjit.hlo.annotations.device_sharding import DeviceSharding, read_sharding
from xjit.hlo.annotations.metadata import HloSharding
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.edit.cloning import HloCloneContext
from xjit.jax_backend.callbacks import PARTITIONED_TARGET
from xjit.passes.sharding.custom_call_partitioners import register_custom_call_partitioner
from xjit.passes.sharding.spmd.builder import SpmdBuilder
from xjit.passes.sharding.spmd.leaves import annotated_leaves, take_apart
from xjit.passes.sharding.spmd.partitioned_hlo import PartitionedHlo, reshard
from xjit.passes.sharding.spmd.run_on_tiles import fit_layouts

_PARTITIONING: Final = "CustomSPMDPartitioning"
_INSPECTION: Final = "InspectSharding"


def register() -> None:
    """Has xjit's partitioner ask JAX about these calls."""
    register_custom_call_partitioner(_PARTITIONING, _partition)
    register_custom_call_partitioner(_INSPECTION, _inspect)
    register_custom_call_partitioner(PARTITIONED_TARGET, _on_each_device)


def _partition(call: HloInstruction, operands: Sequence[PartitionedHlo], b: SpmdBuilder) -> list[PartitionedHlo]:
    """Calls the program for one device that the user's function gives, with operands as it wants them."""
    from jax._src import custom_partitioning
    from jaxlib import xla_client

    wanted = [_told(sharding) for sharding in annotated_leaves(call)]
    if call.shape.is_tuple:
        result = xla_client.HloSharding.tuple_sharding(_xla_shape(call.shape), wanted)
    else:
        (result,) = wanted
    ask: Any = custom_partitioning._custom_partitioning_partition  # pyright: ignore[reportPrivateUsage]
    code, takes, gives = ask(
        [_xla_shape(part.shape) for part in operands],
        [_told(part.sharding) for part in operands],
        _xla_shape(call.shape),
        result,
        call.raw_backend_config.encode(),
    )
    given = [reshard(part, _read(sharding), b).local for part, sharding in zip(operands, takes, strict=True)]
    shardings = [_read(leaf) for leaf in (gives.tuple_elements() if call.shape.is_tuple else [gives])]
    program = convert_mlir(code)
    root = program.entry_computation.root_instruction.shape
    called = b.add(HloInstruction.create_call(root, given, _adopt(program, call, b)))
    return take_apart(called, call.shape, shardings, b)


def _adopt(program: HloModule, call: HloInstruction, b: SpmdBuilder) -> HloComputation:
    """Adds a program's computations, whose collectives get channels of their own; returns its entry.

    They are said to come from where the call does: their own source lines are in a table of their module.
    """
    module = b.spmd.module
    context = HloCloneContext(module, "partition")
    entry = module.deep_clone_computation(program.entry_computation, context)
    for computation in context.computations.values():
        for instruction in computation.instructions:
            instruction.metadata = call.metadata
            if instruction.channel_id is not None:
                instruction.update_attributes(channel_id=b.spmd.channel())
    return entry


def _inspect(call: HloInstruction, operands: Sequence[PartitionedHlo], _: SpmdBuilder) -> list[PartitionedHlo]:
    """Tells a function how the operand is split."""
    config = call.raw_backend_config.encode("utf-8", "surrogateescape")
    size = ctypes.sizeof(ctypes.c_void_p)
    if len(config) != 2 * size:  # a C function, which we need not, and the Python function that it would call
        raise InvalidArgument(f"custom-call to '{_INSPECTION}' without a function", call.span)
    function = ctypes.cast(int.from_bytes(config[size:], "little"), ctypes.py_object).value
    (operand,) = operands
    function(_told(operand.sharding))
    return [operand]


def _on_each_device(call: HloInstruction, operands: Sequence[PartitionedHlo], b: SpmdBuilder) -> list[PartitionedHlo]:
    """Every device calls with what it has: such calls have no results."""
    local = b.add(call.clone_with_new_operands(call.shape, [part.local for part in operands]))
    fit_layouts(local)
    return take_apart(local, call.shape, annotated_leaves(call), b)


def _xla_shape(shape: Shape) -> Any:
    from jaxlib import xla_client

    return xla_client.Shape(str(shape))


def _told(sharding: DeviceSharding) -> Any:
    from jaxlib import xla_client

    return xla_client.HloSharding.from_string(f"{{{sharding.without_origin()}}}")


def _read(sharding: Any) -> DeviceSharding:
    return read_sharding(HloSharding(str(sharding)[1:-1]))
