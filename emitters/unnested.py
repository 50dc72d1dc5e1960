"""IrEmitterUnnested: the unnested computations of a module - entry, loops, branches, calls - as thunks.

Kernels are emitted on the way, once per distinct view. Where a value lies is decided by buffer assignment; tuples are
plumbing and cost nothing. Who runs the thunks is another matter: `xjit.emitters.entry.native_entry` makes functions of
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from xjit.dataclass import dataclass
from xjit.emitters.entry.kernel_calls import is_kernel, kernel_call, unnested_computations
from xjit.emitters.entry.thunk_classes import kernel_thunk, runtime_call_thunk
from xjit.emitters.kernels.kernel import Kernel
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.schedule.verify_view import verify_for_view
from xjit.hlo.attributes.opcodes import Trait
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.passes.loops.while_loop_trip_count_annotator import known_trip_count
from xjit.passes.schedule_and_memory.buffer_assignment import BufferAssignment
from xjit.thunks import (
    CallThunk,
    ConditionalThunk,
    CopyThunk,
    InlineThunk,
    RuntimeCall,
    ShapedSlice,
    Thunk,
    ThunkProgram,
    ThunkSequence,
    WhileThunk,
)


@dataclass(frozen=True, slots=True)
class UnnestedModule:
    """The thunks of a module, its kernels, and what each InlineThunk computes, by the name of its instruction."""

    program: ThunkProgram
    kernels: tuple[Kernel, ...]
    inline_views: Mapping[str, KernelView]


@dataclass(slots=True)
class IrEmitterUnnested:
    """Emits the kernels of a scheduled, buffer-assigned module, and says as thunks in which order they run.

    `emit_kernels` emits those of a view; `on_kernels` is called when some are complete. Unless `inline` is False, what
    is only a number or two is code in the line of a loop's body, not a kernel. With `verify` each schedule is checked
    against its view. `runtime_call` says what of a GPU's program is no kernel, but left to the runtime.
    """

    emit_kernels: Callable[[KernelView], list[Kernel]]
    assignment: BufferAssignment
    on_kernels: Callable[[], None] | None = None
    inline: bool = True
    verify: bool = False
    runtime_call: Callable[[KernelView], RuntimeCall | None] | None = None
    _kernels: dict[Any, list[Kernel]] = field(default_factory=dict)
    _inline_views: dict[str, KernelView] = field(default_factory=dict)
    _num_calls: int = 0

    def emit(self) -> UnnestedModule:
        """Returns the thunks of the module. Errors: Unsupported names the instruction that has no emitter."""
        module = self.assignment.module
        entry = module.entry_computation
        sequences: dict[str, ThunkSequence] = {}
        for computation in unnested_computations(self.assignment):
            sequences[computation.name] = self._emit_computation(computation, self.inline and computation is not entry)
        kernels = tuple({k.function.name: k for group in self._kernels.values() for k in group}.values())
        return UnnestedModule(ThunkProgram(module.name, entry.name, sequences), kernels, self._inline_views)

    def _emit_computation(self, computation: HloComputation, inline: bool) -> ThunkSequence:
        thunks: list[Thunk] = []
        for instruction in self.assignment.sequence(computation):
            if is_kernel(self.assignment, instruction):
                thunks += self._emit_kernels(instruction, inline and instruction.opcode != "copy")
            elif not instruction.op.has(Trait.PLUMBING):
                thunks += _RULES[instruction.opcode](self, instruction)
        return ThunkSequence(computation.name, tuple(thunks))

    def _emit_kernels(self, instruction: HloInstruction, inline: bool) -> list[Thunk]:
        """Returns the calls of an instruction's kernels, which are emitted unless an equal view has been before."""
        call = kernel_call(self.assignment, instruction, inline)
        if call is None:
            return []
        view, operands, results = call.view, call.operands, call.results
        if call.is_inline:
            self._inline_views[instruction.name] = view
            return [InlineThunk(instruction=instruction.name, operands=operands, results=results)]
        runtime_call = self.runtime_call(view) if self.runtime_call is not None else None
        if runtime_call is not None:
            self._num_calls += 1
            return [runtime_call_thunk(runtime_call, view, self._num_calls - 1, operands, results)]
        key = view.key()
        kernels = self._kernels.get(key)
        if kernels is None:
            kernels = self._kernels[key] = self.emit_kernels(view)
            for schedule in (k.schedule for k in kernels if self.verify and k.schedule is not None):
                verify_for_view(schedule, view)
            if self.on_kernels is not None:
                self.on_kernels()
        first = self._num_calls
        self._num_calls += len(kernels)
        return [kernel_thunk(kernel, view, first + n, operands, results) for n, kernel in enumerate(kernels)]

    # -- rules of opcodes that are no kernels

    def _while(self, instruction: HloInstruction) -> list[Thunk]:
        condition, body = instruction.while_condition, instruction.while_body
        return [
            WhileThunk(
                instruction=instruction.name,
                condition=condition.name,
                predicate=self.assignment.slice(condition.root_instruction),
                body=body.name,
                trip_count=known_trip_count(instruction),
            )
        ]

    def _conditional(self, instruction: HloInstruction) -> list[Thunk]:
        branches = tuple(branch.name for branch in instruction.branch_computations)
        operand = instruction.operand(0)
        selector = ShapedSlice(operand.shape, self.assignment.slice(operand))
        return [ConditionalThunk(instruction=instruction.name, selector=selector, branches=branches)]

    def _call(self, instruction: HloInstruction) -> list[Thunk]:
        return [CallThunk(instruction=instruction.name, callee=instruction.to_apply.name)]

    def _copy(self, instruction: HloInstruction) -> list[Thunk]:
        """A copy between equal layouts copies bytes; tuples copy leaf by leaf."""
        thunks: list[Thunk] = []
        for index, shape in instruction.shape.leaves():
            if not shape.is_array:
                continue
            source = self.assignment.slice(instruction.operand(0), index)
            destination = self.assignment.slice(instruction, index)
            if source == destination:
                continue
            may_be_one = self.assignment.may_be_one(source, destination)
            copy = CopyThunk(
                instruction=instruction.name, source=source, destination=destination, may_be_one=may_be_one
            )
            thunks.append(copy)
        return thunks


_RULES: Mapping[str, Callable[[IrEmitterUnnested, HloInstruction], Sequence[Thunk]]] = {
    "while": IrEmitterUnnested._while,
    "conditional": IrEmitterUnnested._conditional,
    "call": IrEmitterUnnested._call,
    "copy": IrEmitterUnnested._copy,
}
