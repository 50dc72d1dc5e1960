"""Structural equality: are two modules the same graph, whatever the names, ids and order of independent instructions?

Roots and parameters are paired, then operands of paired instructions, and so on (iteratively, each pair once). What no
root reaches is paired by its order among the instructions without users.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import field, fields
from typing import TYPE_CHECKING, Any

from xjit.dataclass import dataclass
from xjit.hlo.compare.structural_key import content_key

if TYPE_CHECKING:
    from xjit.hlo.ir.computation import HloComputation
    from xjit.hlo.ir.instruction import HloInstruction
    from xjit.hlo.ir.module import HloModule


@dataclass(frozen=True, slots=True)
class EqualityOptions:
    """What counts: layouts of shapes, annotations (sharding, backend config, ...), source metadata, module config."""

    layouts: bool = True
    annotations: bool = True
    metadata: bool = False
    config: bool = False


def structural_equal(a: HloModule, b: HloModule, **options: bool) -> bool:
    """Whether two modules are equal; keyword arguments as in EqualityOptions."""
    return first_difference(a, b, **options) is None


def first_difference(a: HloModule, b: HloModule, **options: bool) -> str | None:
    """Returns the first difference of two modules as a sentence, or None; keywords as in EqualityOptions."""
    settings = EqualityOptions(**options)
    if settings.config and (message := _config_difference(a, b)):
        return message
    return _Comparison(settings).run(a.entry_computation, b.entry_computation)


def computations_equal(a: HloComputation, b: HloComputation, **options: bool) -> bool:
    """Whether two computations, with everything they call, are equal; keywords as in EqualityOptions."""
    return _Comparison(EqualityOptions(**options)).run(a, b) is None


def _config_difference(a: HloModule, b: HloModule) -> str | None:
    facts: list[tuple[str, Callable[[HloModule], Any]]] = [
        ("entry_computation_layout", lambda m: m.entry_computation_layout),
        ("replica_count", lambda m: m.config.replica_count),
        ("num_partitions", lambda m: m.config.num_partitions),
        ("alias_passthrough_params", lambda m: m.config.alias_passthrough_params),
        ("input_output_alias", lambda m: m.config.input_output_alias),
        ("buffer_donor", lambda m: m.config.buffer_donors),
        ("header attributes", lambda m: m.config.header_attributes),
        ("frontend_attributes", lambda m: m.frontend_attributes),
        ("stack frames", lambda m: m.stack_frame_index),
    ]
    for name, read in facts:
        if read(a) != read(b):
            return f"module {a.name}: {name} differ: {_short(read(a))} and {_short(read(b))}"
    return None


@dataclass(slots=True)
class _Comparison:
    options: EqualityOptions
    seen: set[tuple[HloComputation, HloComputation]] = field(default_factory=set)
    pending: list[tuple[HloComputation, HloComputation]] = field(default_factory=list)

    def run(self, a: HloComputation, b: HloComputation) -> str | None:
        self.pending.append((a, b))
        while self.pending:
            pair = self.pending.pop()
            if pair in self.seen:
                continue
            self.seen.add(pair)
            message = self._computations(*pair)
            if message is not None:
                return message
        return None

    def _computations(self, a: HloComputation, b: HloComputation) -> str | None:
        where = f"computations {a.name} and {b.name}"
        if a.num_parameters != b.num_parameters:
            return f"{where}: {a.num_parameters} and {b.num_parameters} parameters"
        if a.instruction_count != b.instruction_count:
            return f"{where}: {a.instruction_count} and {b.instruction_count} instructions{_surplus(a, b)}"
        if self.options.annotations and a.execution_thread != b.execution_thread:
            return f"{where}: execution threads {a.execution_thread} and {b.execution_thread}"
        forward: dict[HloInstruction, HloInstruction] = {}
        backward: dict[HloInstruction, HloInstruction] = {}
        worklist = [*zip(_sinks(a), _sinks(b)), *zip(a.parameter_instructions, b.parameter_instructions)]
        worklist.append((a.root_instruction, b.root_instruction))
        while worklist:
            x, y = worklist.pop()
            if forward.get(x) is y:
                continue
            if x in forward or y in backward:
                return f"{where}: {x.name} and {y.name} stand at the same place, but one of them is shared elsewhere"
            forward[x], backward[y] = y, x
            if message := self._instructions(x, y):
                return f"{where}: {message}"
            worklist.extend(zip(x.operands, y.operands))
        for x, y in forward.items():
            if {forward.get(p) for p in x.control_predecessors} != set(y.control_predecessors):
                return f"{where}: {x.name} and {y.name} have different control predecessors"
        return None

    def _instructions(self, a: HloInstruction, b: HloInstruction) -> str | None:
        if self._key(a) != self._key(b):
            return f"{a.name} and {b.name}: {self._difference(a, b)}"
        if a.operand_count != b.operand_count:
            return f"{a.name} and {b.name}: {a.opcode} with {a.operand_count} and {b.operand_count} operands"
        callees = (a.called_computations, b.called_computations)
        if len(callees[0]) != len(callees[1]):
            return f"{a.name} and {b.name}: {len(callees[0])} and {len(callees[1])} called computations"
        self.pending.extend(zip(*callees))
        return None

    def _key(self, instruction: HloInstruction) -> Hashable:
        key = content_key(instruction, self.options.layouts, self.options.annotations)
        return (key, *(getattr(instruction, name) for name in _METADATA)) if self.options.metadata else key

    def _difference(self, a: HloInstruction, b: HloInstruction) -> str:
        """Says in which part of their keys two instructions differ."""
        (opcode, shape, attributes, _), other = (content_key(i, self.options.layouts) for i in (a, b))
        if opcode != other[0]:
            return f"{a.opcode} and {b.opcode}"
        if shape != other[1]:
            return f"{a.opcode} of shapes {shape} and {other[1]}"
        if attributes != other[2]:
            return f"{a.opcode} with {_attribute_difference(a, b)}"
        names = (*_ANNOTATIONS, *(_METADATA if self.options.metadata else ()))
        values = ((name, getattr(a, name), getattr(b, name)) for name in names)
        return "; ".join(f"{name} {_short(x)} and {_short(y)}" for name, x, y in values if x != y)


_ANNOTATIONS = ("sharding", "backend_config", "frontend_attributes")
_METADATA = ("metadata", "origin", "statistics")


def _sinks(computation: HloComputation) -> list[HloInstruction]:
    """The instructions that nothing reads, parameters and the root aside."""
    root = computation.root_instruction
    return [i for i in computation.instructions if not i.users and i is not root and i.opcode != "parameter"]


def _surplus(a: HloComputation, b: HloComputation) -> str:
    counts: dict[str, int] = {}
    for instruction in a.instructions:
        counts[instruction.opcode] = counts.get(instruction.opcode, 0) + 1
    for instruction in b.instructions:
        counts[instruction.opcode] = counts.get(instruction.opcode, 0) - 1
    more = ", ".join(f"{n:+d} {opcode}" for opcode, n in sorted(counts.items()) if n)
    return f" (the first has {more})" if more else ""


def _attribute_difference(a: HloInstruction, b: HloInstruction) -> str:
    x, y = a.attributes, b.attributes
    if type(x) is not type(y):
        return f"{type(x).__name__} and {type(y).__name__}"
    for f in fields(x):  # type: ignore[arg-type]
        left, right = getattr(x, f.name), getattr(y, f.name)
        if left != right:
            return f"{f.name} {_short(left)} and {_short(right)}"
    return "different attributes"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 120 else text[:120] + "..."
