"""What the verifier checks besides the rules that hold for every module, and what it lets pass."""

from __future__ import annotations

from collections.abc import Callable

from xjit.dataclass import dataclass
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape


@dataclass
class VerifierOptions:
    """Options by XLA's names.

    `layout_sensitive`: layouts must agree, too, where nothing can change them (after layout assignment); which
    instructions can is what `instruction_can_change_layout` says, by default all but those that work element by
    element or move whole rows. With `shape_size`, in bytes, a bitcast has results as large as its operand then.
    `allow_mixed_precision`: operands and result of an instruction may be floats of different widths.
    `verify_broadcast_dimensions_order`: dimensions of broadcasts are sorted. `verify_unique_channel_ids`: no two
    instructions share a channel, but for both sides of a transfer. `verify_no_host_memory_space`: no array lies in the
    memory of the host. The others switch off rules that are on otherwise.
    """

    layout_sensitive: bool = False
    allow_mixed_precision: bool = True
    instruction_can_change_layout: Callable[[HloInstruction], bool] | None = None
    shape_size: Callable[[Shape], int] | None = None
    verify_broadcast_dimensions_order: bool = False
    verify_sharding_device_numbers: bool = True
    verify_no_collective_deadlocks: bool = True
    verify_no_host_memory_space: bool = False
    verify_unique_channel_ids: bool = False
