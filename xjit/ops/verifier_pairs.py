"""Rules about instructions that belong together: starts and their dones, threads, channels.

They look at instructions in pairs, where shape rules look at one and its operands.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xjit.hlo import attributes as at
from xjit.hlo.attributes.opcodes import OPCODES, Trait
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.module import HloModule
from xjit.ops.verifier_error import wrong

_CONSUMERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "all-gather-start": ("all-gather-done",),
        "all-reduce-start": ("all-reduce-done",),
        "async-start": ("async-update", "async-done"),
        "async-update": ("async-update", "async-done"),
        "collective-permute-start": ("collective-permute-done",),
        "copy-start": ("copy-done",),
        "recv": ("recv-done", "tuple"),
        "send": ("send-done", "tuple"),
    }
)
"""What takes the value of a start: exactly one instruction. Transfers may go through the state of a loop."""

_PRODUCERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"recv-done": ("recv", "get-tuple-element"), "send-done": ("send", "get-tuple-element")}
)
"""What a done of a transfer reads. (Other dones: their shape rules.)"""

_TRANSFERS = frozenset({"send", "recv", "send-done", "recv-done"})
_ASYNC = frozenset({"async-start", "async-update", "async-done"})
_MAY_STAND_TOGETHER = frozenset({"parameter", "send", "recv", "tuple", "bitcast"})
"""Of these a computation that runs asynchronously may have several: a group of transfers."""

_CALLERS = frozenset({"fusion", "while", "conditional", "call", "custom-call"})
_APPLIERS = frozenset(name for name, op in OPCODES.items() if op.called == ("to_apply",))
_RENDEZVOUS = ("_xla_host_transfer_rendezvous", "_xla_host_transfer_handler_name")
_ORDER = "control_dep"
_GROUP = "_collectives_group"
_ALL_REDUCES = frozenset({"all-reduce", "all-reduce-start"})


def verify_pairs(module: HloModule, has_unique_channels: bool = False) -> None:
    """Raises HloVerifyError at the first rule that instructions break together.

    `has_unique_channels`: collectives may not share a channel, either.
    """
    transfers: dict[tuple[str, int], HloInstruction] = {}
    channels: dict[int, HloInstruction] = {}
    all_reduce: HloInstruction | None = None
    for computation in module.computations():
        for instruction in computation.instructions:
            opcode = instruction.opcode
            if opcode in _CONSUMERS:
                _check_consumer(instruction)
            if opcode in _CALLERS or opcode in _APPLIERS:
                _check_thread(instruction, computation)
            if instruction.channel_id is not None:
                first = channels.setdefault(instruction.channel_id, instruction)
                _check_channel(instruction, first)
                if has_unique_channels and first is not instruction and not _are_one_exchange(first, instruction):
                    raise wrong(instruction, f"channel {instruction.channel_id} is that of {first.name}")
            if opcode in _ASYNC:
                _check_asynchronous(instruction)
            elif opcode in _TRANSFERS:
                _check_transfer(instruction, transfers)
            elif opcode in _ALL_REDUCES:
                all_reduce = all_reduce or instruction
                _check_all_reduce(instruction, all_reduce)


def _check_consumer(start: HloInstruction) -> None:
    parent = start.parent
    if start.opcode in _TRANSFERS and parent is not None and parent.is_async_computation() and start.is_root():
        return
    users = [user for user in start.users if not _orders_only(user)]
    wanted = _CONSUMERS[start.opcode]
    if len(users) == 1 and users[0].opcode in wanted:
        return
    names = f": {', '.join(user.name for user in users)}" if users else ""
    raise wrong(start, f"{start.name} needs one {' or '.join(wanted)}, found {len(users)}{names}")


def _orders_only(user: HloInstruction) -> bool:
    """Whether a custom call reads values for the sake of order alone."""
    return user.opcode == "custom-call" and user.attributes_as(at.CustomCallAttributes).custom_call_target == _ORDER


def _check_thread(caller: HloInstruction, parent: HloComputation) -> None:
    """What is called, or applied to elements, runs on the thread of its caller."""
    for called in caller.called_computations:
        if called.execution_thread != parent.execution_thread:
            raise wrong(
                caller,
                f"it runs on thread {parent.execution_thread}, but {called.name} is for thread "
                f"{called.execution_thread}",
            )


def _check_asynchronous(instruction: HloInstruction) -> None:
    """The thread is that of the computation, which is one instruction, or a group of transfers or collectives."""
    called = instruction.called_computations[0]
    thread = instruction.attributes_as(at.AsyncAttributes).async_execution_thread
    if thread and thread != called.execution_thread:
        raise wrong(
            instruction,
            f"async_execution_thread={thread}, but {called.name} is for thread {called.execution_thread}",
        )
    if instruction.opcode == "async-start" and _GROUP not in instruction.frontend_attributes:
        root = called.root_instruction
        others = [i for i in called.instructions if i is not root and i.opcode != "parameter"]
        if others and not all(i.opcode in _MAY_STAND_TOGETHER for i in called.instructions):
            raise wrong(instruction, f"{called.name} must be one instruction, but has {others[0].name} and {root.name}")


def _are_one_exchange(first: HloInstruction, instruction: HloInstruction) -> bool:
    """Whether two instructions share a channel by right: the sides and ends of a transfer, a start and its done."""
    if first.opcode in _TRANSFERS:
        return instruction.opcode in _TRANSFERS
    return instruction.op.has(Trait.ASYNC) and first in instruction.operands


def _check_channel(instruction: HloInstruction, first: HloInstruction) -> None:
    """A channel that begins with a transfer is for transfers; collectives may share one."""
    if first.opcode in _TRANSFERS and instruction.opcode not in _TRANSFERS:
        raise wrong(instruction, f"channel {instruction.channel_id} is that of {first.name}, which is {first.opcode}")


def _check_transfer(transfer: HloInstruction, seen: dict[tuple[str, int], HloInstruction]) -> None:
    """A done ends a transfer of its own channel; transfers with the host over one channel are alike."""
    attributes = transfer.attributes_as(at.ChannelAttributes)
    if transfer.opcode in _PRODUCERS:
        _check_end(transfer, attributes)
        return
    if not attributes.is_host_transfer or attributes.channel_id is None:
        return
    first = seen.setdefault((transfer.opcode, attributes.channel_id), transfer)
    same = first.shape.compatible(transfer.shape) and all(
        first.frontend_attributes.get(name) == transfer.frontend_attributes.get(name) for name in _RENDEZVOUS
    )
    if not same:
        raise wrong(transfer, f"{first.name} uses channel {attributes.channel_id} with the host in another way")


def _check_end(done: HloInstruction, attributes: at.ChannelAttributes) -> None:
    start = done.operand(0)
    if start.opcode not in _PRODUCERS[done.opcode]:
        wanted = " or ".join(_PRODUCERS[done.opcode])
        raise wrong(done, f"the operand must be {wanted}, but {start.name} is {start.opcode}")
    if start.opcode == "get-tuple-element":
        return
    begun = start.attributes_as(at.ChannelAttributes)
    if begun.channel_id != attributes.channel_id:
        raise wrong(done, f"channel_id={attributes.channel_id}, but {start.name} uses channel {begun.channel_id}")
    if begun.channel_id is not None and begun.is_host_transfer != attributes.is_host_transfer:
        raise wrong(done, f"is_host_transfer differs from that of {start.name}")


def _check_all_reduce(instruction: HloInstruction, first: HloInstruction) -> None:
    attributes = instruction.attributes_as(at.CollectiveAttributes)
    if attributes.channel_id is not None and attributes.channel_id < 1:
        raise wrong(instruction, f"the channel_id must be positive, got {attributes.channel_id}")
    if attributes.constrain_layout != first.attributes_as(at.CollectiveAttributes).constrain_layout:
        raise wrong(instruction, f"constrain_layout differs from that of {first.name}")
