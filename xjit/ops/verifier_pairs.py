"""Rules about instructions that belong together: starts and their dones, threads, channels, buffers of a program.

They look at instructions in pairs, where shape rules look at one and its operands.
"""

from __future__ import annotations

from collections import Counter

from xjit.hlo import attributes as at
from xjit.hlo.annotations.alias_config import parse_aliases
from xjit.hlo.diagnostics import HloVerifyError
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.module import HloModule
from xjit.hlo.types.primitive_type import PrimitiveType

_CONSUMERS = {
    "all-gather-start": ("all-gather-done",),
    "all-reduce-start": ("all-reduce-done",),
    "async-start": ("async-update", "async-done"),
    "async-update": ("async-update", "async-done"),
    "collective-permute-start": ("collective-permute-done",),
    "copy-start": ("copy-done",),
}
"""What takes the value of a start: one instruction, which may get it through tuples and loops."""

_RNG_SEED = "GetRngSeed"
_RENDEZVOUS = ("_xla_host_transfer_rendezvous", "_xla_host_transfer_handler_name")


def verify_pairs(module: HloModule) -> None:
    """Raises HloVerifyError at the first rule that instructions break together."""
    transfers: dict[tuple[str, int], HloInstruction] = {}
    for computation in module.computations():
        for instruction in computation.instructions:
            if instruction.opcode in _CONSUMERS:
                _check_consumer(instruction)
            if instruction.opcode == "fusion":
                _check_thread(instruction)
            if instruction.opcode == "custom-call":
                _check_custom_call(instruction)
            elif instruction.opcode in ("send", "recv"):
                _check_host_transfer(instruction, transfers)
    _check_entry_has_no_buffers(module.entry_computation)


def _fail(instruction: HloInstruction, message: str) -> HloVerifyError:
    notes = [f"in computation {instruction.parent.name}"] if instruction.parent is not None else []
    return HloVerifyError(f"{instruction.opcode}: {message}", instruction.span, *notes)


def _check_consumer(start: HloInstruction) -> None:
    consumers = [user for user in start.users if user.opcode in _CONSUMERS[start.opcode]]
    if len(consumers) > 1 or (not start.users and not start.is_root()):
        wanted = " or ".join(_CONSUMERS[start.opcode])
        names = f": {', '.join(user.name for user in consumers)}" if consumers else ""
        raise _fail(start, f"{start.name} needs one {wanted}, found {len(consumers)}{names}")


def _check_thread(fusion: HloInstruction) -> None:
    """A fusion runs on the thread of its caller."""
    thread = fusion.parent.execution_thread if fusion.parent is not None else "main"
    called = fusion.fused_instructions_computation
    if called.execution_thread != thread:
        raise _fail(fusion, f"it runs on thread {thread}, but {called.name} is for thread {called.execution_thread}")


def _check_custom_call(call: HloInstruction) -> None:
    attributes = call.attributes_as(at.CustomCallAttributes)
    if attributes.custom_call_target == _RNG_SEED:
        if call.operand_count:
            raise _fail(call, f"{_RNG_SEED} takes no operands, got {call.operand_count}")
        if call.shape.element_type is not PrimitiveType.U64:
            raise _fail(call, f"{_RNG_SEED} gives a u64[], not {call.shape}")
    buffers = [
        (number, index)
        for number, operand in enumerate(call.operands)
        if operand.shape.holds_buffer
        for index, shape in operand.shape.subshapes()
        if shape.is_buffer
    ]
    if not buffers:
        return
    taken = Counter(
        (a.parameter_number, a.parameter_index) for a in parse_aliases(attributes.output_to_operand_aliasing)
    )
    for number, index in buffers:
        if taken[number, index] != 1:
            place = f"the buffer at {{{','.join(map(str, index))}}} of operand {number}"
            how = "more than one result" if taken[number, index] else "no result"
            raise _fail(call, f"{place} must be one of the results by output_to_operand_aliasing; it is {how}")


def _check_host_transfer(transfer: HloInstruction, seen: dict[tuple[str, int], HloInstruction]) -> None:
    """Transfers with the host over one channel are the same but for their operands."""
    attributes = transfer.attributes_as(at.ChannelAttributes)
    if not attributes.is_host_transfer or attributes.channel_id is None:
        return
    first = seen.setdefault((transfer.opcode, attributes.channel_id), transfer)
    same = first.shape.compatible(transfer.shape) and all(
        first.frontend_attributes.get(name) == transfer.frontend_attributes.get(name) for name in _RENDEZVOUS
    )
    if not same:
        raise _fail(transfer, f"{first.name} uses channel {attributes.channel_id} with the host in another way")


def _check_entry_has_no_buffers(entry: HloComputation) -> None:
    for instruction in (*entry.parameter_instructions, entry.root_instruction):
        if instruction.shape.holds_buffer:
            raise _fail(instruction, f"the entry has a buffer, {instruction.shape}, as a parameter or result")
