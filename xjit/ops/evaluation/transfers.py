"""send and recv between devices: a send leaves its operand for the peer and goes on; recv-done waits for it.

Who sends to whom is in the frontend attribute `_xla_send_recv_source_target_pairs`, `{{0,1},{1,2}}`: partitions of the
same replica if the instruction has a channel, and if there are several partitions; else replicas. Values of a channel
from one device to another come in the order in which they were sent. Who has no source receives zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from xjit.hlo.attributes import ChannelAttributes
from xjit.hlo.attributes.codecs.scalars import parse_int_lists
from xjit.hlo.attributes.codecs.value_text import CodecError
from xjit.hlo.diagnostics import HloVerifyError, Unsupported
from xjit.hlo.ir.instruction import HloInstruction
from xjit.ops.evaluation.numerics import Array, Value, zeros
from xjit.ops.opdef import Evaluator

if TYPE_CHECKING:
    from xjit.ops.evaluation.interpreter import Interpreter

PAIRS = "_xla_send_recv_source_target_pairs"


def _pairs(interpreter: Interpreter, instruction: HloInstruction) -> tuple[tuple[int, int], ...]:
    """The (source, target) devices that this device may belong to. Errors: Unsupported for transfers with the host."""
    attributes = instruction.attributes_as(ChannelAttributes)
    if attributes.is_host_transfer:
        raise Unsupported(f"{instruction.opcode} '{instruction.name}' exchanges data with the host", instruction.span)
    text = instruction.frontend_attributes.get(PAIRS)
    if text is None:
        message = f"{instruction.opcode} '{instruction.name}' without the frontend attribute {PAIRS}"
        raise Unsupported(message, instruction.span)
    device = interpreter.device
    across_partitions = attributes.channel_id is not None and device.num_partitions > 1
    count = device.num_partitions if across_partitions else device.replica_count
    try:
        ids = parse_int_lists(text)
    except CodecError as error:
        raise HloVerifyError(f"{instruction.opcode} '{instruction.name}': {error.message}", instruction.span) from None
    if not all(len(pair) == 2 and all(0 <= i < count for i in pair) for pair in ids):
        message = f"{instruction.opcode} '{instruction.name}': {text} are no pairs of {count} devices"
        raise HloVerifyError(message, instruction.span)
    if across_partitions:
        first = device.replica * device.num_partitions
        return tuple((first + source, first + target) for source, target in ids)
    return tuple((s * device.num_partitions + device.partition, t * device.num_partitions + device.partition)
                 for s, t in ids)  # fmt: skip


def _channel(instruction: HloInstruction) -> int:
    return instruction.attributes_as(ChannelAttributes).channel_id or 0


def _send(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Value]) -> Value:
    device = interpreter.device
    for source, target in _pairs(interpreter, instruction):
        if source == device.number:
            device.rendezvous.send((_channel(instruction), source, target), operands[0])
    return operands[0], np.zeros((), np.uint32), None


def _send_done(_interpreter: Interpreter, _instruction: HloInstruction, _operands: Sequence[Value]) -> Value:
    return None


def _recv(interpreter: Interpreter, instruction: HloInstruction, _operands: Sequence[Value]) -> Value:
    _pairs(interpreter, instruction)  # refuses what recv-done cannot do
    return zeros(instruction.shape.tuple_shapes[0]), np.zeros((), np.uint32), None


def _recv_done(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Value]) -> Value:
    device = interpreter.device
    start = instruction.operand(0)
    asked = start if start.opcode == "recv" and PAIRS in start.frontend_attributes else instruction
    source = next((s for s, target in _pairs(interpreter, asked) if target == device.number), None)
    if source is None:
        return operands[0][0], None
    received: Array = device.rendezvous.receive((_channel(asked), source, device.number), instruction)
    if received.shape != instruction.shape.tuple_shapes[0].dimensions:
        message = f"recv-done '{instruction.name}' gets an array of {list(received.shape)}"
        raise HloVerifyError(message, instruction.span)
    return received, None


EVALUATORS: Mapping[str, Evaluator] = MappingProxyType(
    {"send": _send, "send-done": _send_done, "recv": _recv, "recv-done": _recv_done}
)
