"""Rules about the order of transfers between devices, for modules with a schedule.

Devices run one program in step. A send waits for its receive, so between the two no other collective may stand, and
nothing may wait in a circle: pairs of devices with a cycle, or two that share a source or a target, never finish.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field

from xjit.dataclass import dataclass
from xjit.hlo import attributes as at
from xjit.hlo.attributes.opcodes import OPCODES, Trait
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.module import HloModule
from xjit.ops.verifier_error import wrong

_PAIRS, _PIPELINE = "_xla_send_recv_source_target_pairs", "_xla_send_recv_pipeline"
_PAIR = re.compile(r"\{\s*(\d+)\s*,\s*(\d+)\s*\}")
_OPPOSITE = {"send": "recv", "recv": "send"}
_COLLECTIVES = frozenset(name for name, op in OPCODES.items() if op.has(Trait.COLLECTIVE) and not op.has(Trait.ASYNC))
Pairs = tuple[tuple[int, int], ...]


def verify_no_deadlocks(module: HloModule) -> None:
    """Raises HloVerifyError at the first transfer or collective that would wait forever in the module's schedule."""
    if module.has_schedule() and any(_is_between_devices(i) for c in module.computations() for i in c.instructions):
        _walk(module.entry_computation)


@dataclass
class _Waiting:
    """Transfers that have begun and whose other side has not."""

    transfers: dict[str, list[HloInstruction]] = field(default_factory=lambda: {"send": [], "recv": []})
    expected: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether no transfer is under way."""
        return not self.expected and not any(self.transfers.values())

    def begin(self, transfer: HloInstruction) -> None:
        """Adds a send or recv, or ends what it matches."""
        pairs = _pairs(transfer)
        _check_pairs(transfer, pairs)
        opcode = transfer.opcode
        other = self.transfers[_OPPOSITE[opcode]]
        if self.expected == opcode:
            match = next((t for t in other if _pairs(t) == pairs), None)
            if match is None:
                self.transfers[opcode].append(transfer)
                return
            other.remove(match)
            if not other:
                self.expected = ""
            return
        for waiting in self.transfers[opcode]:
            joined = (*_pairs(waiting), *pairs)
            if _has_cycle(joined) or _shares_an_end(joined):
                message = f"{transfer.name} begins while {waiting.name} still waits for its {_OPPOSITE[opcode]}"
                raise wrong(transfer, message)
        self.transfers[opcode].append(transfer)
        self.expected = _OPPOSITE[opcode]

    def meet(self, collective: HloInstruction) -> None:
        """A collective that all devices join may only run when no transfer is under way."""
        if self.expected:
            first = next(t for side in self.transfers.values() for t in side)
            raise wrong(
                collective, f"{collective.name} would wait forever: {first.name} still waits for its other side"
            )

    def finish(self) -> None:
        """Checks that every transfer has its other side."""
        sends, receives = self.transfers["send"], self.transfers["recv"]
        for transfer, others in [*((s, receives) for s in sends), *((r, sends) for r in receives)]:
            if self.expected and not any(_pairs(o) == _pairs(transfer) for o in others):
                raise wrong(
                    transfer, f"{transfer.name} has no {_OPPOSITE[transfer.opcode]} of the same pairs of devices"
                )


@dataclass
class _Frame:
    """A computation that is being walked. A group of transfers has `waiting` of its own, others that of the caller."""

    computation: HloComputation
    waiting: _Waiting
    caller: _Waiting
    balanced: bool = field(init=False)
    steps: Iterator[HloInstruction | HloComputation] = field(init=False)

    def __post_init__(self) -> None:
        self.balanced = self.waiting.is_empty
        self.steps = _steps(self.computation)


def _walk(entry: HloComputation) -> None:
    """Follows transfers and collectives through calls, in order; what leaves nothing under way is walked once."""
    nothing, waiting = _Waiting(), _Waiting()
    stack = [_Frame(entry, waiting, nothing)]
    balanced: set[HloComputation] = set()
    while stack:
        frame = stack[-1]
        step = next(frame.steps, None)
        if step is None:
            stack.pop()
            if frame.waiting is not frame.caller and frame.caller.expected:
                frame.waiting.finish()
            if frame.balanced and frame.waiting.is_empty:
                balanced.add(frame.computation)
        elif isinstance(step, HloComputation):
            if step not in balanced or not frame.waiting.is_empty:
                stack.append(_Frame(step, _Waiting() if _is_group(step) else frame.waiting, frame.waiting))
        elif step.opcode in _OPPOSITE:
            frame.waiting.begin(step)
        else:
            frame.waiting.meet(step)
    waiting.finish()


def _steps(computation: HloComputation) -> Iterator[HloInstruction | HloComputation]:
    """Yields transfers between devices, collectives, and what other instructions call."""
    for instruction in computation.instructions:
        if _is_between_devices(instruction) or instruction.opcode in _COLLECTIVES:
            yield instruction
        else:
            yield from instruction.called_computations


def _is_group(computation: HloComputation) -> bool:
    """Whether this is a group of transfers that run at once."""
    return computation.is_async_computation() and computation.instruction_count > computation.num_parameters + 1


def _is_between_devices(transfer: HloInstruction) -> bool:
    given = transfer.frontend_attributes
    if transfer.opcode not in _OPPOSITE or _PAIRS not in given or _PIPELINE in given:
        return False
    return not transfer.attributes_as(at.ChannelAttributes).is_host_transfer


def _pairs(transfer: HloInstruction) -> Pairs:
    found = _PAIR.findall(transfer.frontend_attributes[_PAIRS])
    return tuple((int(source), int(target)) for source, target in found)


def _check_pairs(transfer: HloInstruction, pairs: Pairs) -> None:
    text = transfer.frontend_attributes[_PAIRS]
    if _has_cycle(pairs):
        raise wrong(transfer, f"{_PAIRS}={text} is a cycle, in which every device waits for another")
    if _shares_an_end(pairs):
        raise wrong(transfer, f"{_PAIRS}={text} names a source or a target twice")


def _shares_an_end(pairs: Pairs) -> bool:
    sources, targets = {source for source, _ in pairs}, {target for _, target in pairs}
    return len(sources) < len(pairs) or len(targets) < len(pairs)


def _has_cycle(pairs: Pairs) -> bool:
    """Whether following the pairs from some device leads back to it (each device has one target)."""
    target = dict(pairs)
    done: set[int] = set()
    for start in target:
        path: set[int] = set()
        device: int | None = start
        while device is not None and device not in done:
            if device in path:
                return True
            path.add(device)
            device = target.get(device)
        done |= path
    return False
