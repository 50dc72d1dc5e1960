"""Structural rules of a module: parents, users, roots, parameters, names, callers, control edges, no cycles.

Everything here is linear in the number of edges: users are compared by counting edges, not by searching lists.
"""

from __future__ import annotations

from typing import NoReturn

from xjit.hlo import attributes as at
from xjit.hlo.diagnostics import HloError, HloVerifyError
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.module import HloModule


def _fail(message: str, instruction: HloInstruction | None, where: HloComputation | None) -> NoReturn:
    span = instruction.span if instruction is not None else None
    notes = [f"in computation {where.name}"] if where is not None else []
    raise HloVerifyError(message, span, *notes)


def verify_structure(module: HloModule) -> None:
    """Raises HloVerifyError unless the graph is well-formed, so that orders exist and shape rules can be applied."""
    if not module.has_entry_computation():
        raise HloVerifyError(f"module {module.name} has no entry computation")
    computations = module.computations()
    members = set(computations)
    if module.entry_computation not in members:
        raise HloVerifyError(f"the entry computation {module.entry_computation.name} is not in module {module.name}")
    _check_names(module, computations)
    for computation in computations:
        if computation.parent is not module:
            _fail(f"computation {computation.name} does not know its module {module.name}", None, None)
        _check_parameters(computation)
        _check_root(computation)
        _check_edges(computation)
        _check_acyclic(computation)
    _check_calls(computations, members)
    _check_call_graph(module, computations)
    _check_async_computations(computations)
    if module.has_schedule():
        module.schedule.verify(module)


def _check_async_computations(computations: list[HloComputation]) -> None:
    """What runs asynchronously belongs to one start."""
    starts: dict[HloComputation, HloInstruction] = {}
    for computation in computations:
        for instruction in computation.instructions:
            if instruction.opcode == "async-start":
                called = instruction.called_computations[0]
                other = starts.setdefault(called, instruction)
                if other is not instruction:
                    _fail(f"computation {called.name} is started by {other.name}, too", instruction, computation)


def _check_names(module: HloModule, computations: list[HloComputation]) -> None:
    names: dict[str, HloInstruction] = {}
    ids: dict[int, str] = {}
    seen: set[str] = set()
    for computation in computations:
        if computation.name in seen:
            _fail(f"two computations of module {module.name} are named {computation.name}", None, None)
        seen.add(computation.name)
        for instruction in computation.instructions:
            if names.setdefault(instruction.name, instruction) is not instruction:
                _fail(f"two instructions are named {instruction.name}", instruction, computation)
            if instruction.unique_id < 0:
                _fail(f"instruction {instruction.name} has no unique id", instruction, computation)
            other = ids.setdefault(instruction.unique_id, instruction.name)
            if other != instruction.name:
                message = f"instructions {other} and {instruction.name} share the id {instruction.unique_id}"
                _fail(message, instruction, computation)


def _check_parameters(computation: HloComputation) -> None:
    numbers: dict[int, HloInstruction] = {}
    for instruction in computation.instructions:
        if instruction.opcode != "parameter":
            continue
        number = instruction.attributes_as(at.ParameterAttributes).parameter_number
        if number in numbers:
            _fail(f"two parameters have the number {number}", instruction, computation)
        numbers[number] = instruction
    for i in range(len(numbers)):
        if i not in numbers:
            _fail(f"parameter {i} is missing among {len(numbers)} parameters", None, computation)
    if [numbers[i] for i in range(len(numbers))] != list(computation.parameter_instructions):
        _fail("the list of parameters disagrees with the instructions", None, computation)


def _check_root(computation: HloComputation) -> None:
    try:
        root = computation.root_instruction
    except HloError as error:
        _fail(error.message, None, computation)
    if root.parent is not computation:
        _fail(f"the root {root.name} is not in the computation", root, computation)


def _check_edges(computation: HloComputation) -> None:
    """Operands and users name each other, within the computation; so do control predecessors and successors."""
    edges = user_entries = 0
    for instruction in computation.instructions:
        if instruction.parent is not computation:
            _fail(f"instruction {instruction.name} does not know its computation", instruction, computation)
        operands = instruction.operands
        for operand in operands:
            if operand.parent is not computation:
                owner = f"computation {operand.parent.name}" if operand.parent is not None else "no computation"
                _fail(f"operand {operand.name} of {instruction.name} belongs to {owner}", instruction, computation)
            if not instruction.is_user_of(operand):
                _fail(f"{instruction.name} is not a user of its operand {operand.name}", instruction, computation)
        edges += len(set(operands)) if len(operands) > 1 else len(operands)
        user_entries += instruction.user_count
        if instruction.control_predecessors or instruction.control_successors:
            _check_control_edges(instruction, computation)
    if edges != user_entries:
        _find_stale_user(computation)


def _check_control_edges(instruction: HloInstruction, computation: HloComputation) -> None:
    for other in (*instruction.control_predecessors, *instruction.control_successors):
        if other.parent is not computation:
            _fail(f"the control edge {instruction.name} - {other.name} leaves the computation", other, computation)
    for predecessor in instruction.control_predecessors:
        if instruction not in predecessor.control_successors:
            _fail(f"{predecessor.name} lacks its control successor {instruction.name}", instruction, computation)
    for successor in instruction.control_successors:
        if instruction not in successor.control_predecessors:
            _fail(f"{successor.name} lacks its control predecessor {instruction.name}", instruction, computation)


def _find_stale_user(computation: HloComputation) -> NoReturn:
    for instruction in computation.instructions:
        for user in instruction.users:
            if instruction not in set(user.operands):
                _fail(f"{user.name} is a user of {instruction.name}, but does not read it", user, computation)
            if user.parent is not computation:
                message = f"user {user.name} of {instruction.name} is not in the computation"
                _fail(message, instruction, computation)
    raise AssertionError(f"edges of computation {computation.name} do not add up")


def _check_acyclic(computation: HloComputation) -> None:
    """Insertion order is mostly a topological order already; only if not, an order is searched."""
    seen: set[HloInstruction] = set()
    for instruction in computation.instructions:
        for operand in (*instruction.operands, *instruction.control_predecessors):
            if operand not in seen:
                try:
                    computation.make_instruction_post_order()
                except HloError as error:
                    _fail(error.message, instruction, computation)
                return
        seen.add(instruction)


def _check_calls(computations: list[HloComputation], members: set[HloComputation]) -> None:
    """Callers and called computations name each other; a fused computation has one caller."""
    callers = {c: set(c.caller_instructions()) for c in computations}
    edges = 0
    for computation in computations:
        for instruction in computation.instructions:
            for called in dict.fromkeys(instruction.called_computations):
                if called not in members:
                    message = f"{instruction.name} calls {called.name}, which is not in the module"
                    _fail(message, instruction, computation)
                if instruction not in callers[called]:
                    message = f"computation {called.name} does not know its caller {instruction.name}"
                    _fail(message, instruction, computation)
                edges += 1
                if instruction.opcode == "fusion":
                    _check_fused(called, instruction, len(callers[called]))
    if edges != sum(map(len, callers.values())):
        _find_stale_caller(callers)


def _check_fused(fused: HloComputation, fusion: HloInstruction, callers: int) -> None:
    """A fused computation has one caller, nothing in it reads its result, and all else in it is read, as in XLA's."""
    if callers != 1:
        message = f"fused computation {fused.name} must have one caller, but has {callers}"
        _fail(message, fusion, fusion.parent)
    root = fused.root_instruction
    if root.user_count:
        _fail(f"the root {root.name} of the fused computation {fused.name} has users", fusion, fusion.parent)
    for instruction in fused.instructions:
        if not instruction.user_count and instruction is not root:
            _fail(f"{instruction.name} of the fused computation {fused.name} has no users", fusion, fusion.parent)


def _find_stale_caller(callers: dict[HloComputation, set[HloInstruction]]) -> NoReturn:
    for computation, instructions in callers.items():
        for instruction in instructions:
            parent = instruction.parent
            if parent not in callers or not any(c is computation for c in instruction.called_computations):
                _fail(f"computation {computation.name} has the stale caller {instruction.name}", instruction, None)
    raise AssertionError("callers of computations do not add up")


def _check_call_graph(module: HloModule, computations: list[HloComputation]) -> None:
    """HLO has no recursion: walks the call graph depth first with an explicit stack."""
    entry = module.entry_computation
    if entry.caller_instructions():
        caller = entry.caller_instructions()[0]
        _fail(f"the entry computation {entry.name} is called by {caller.name}", caller, caller.parent)
    active: set[HloComputation] = set()
    done: set[HloComputation] = set()
    for start in computations:
        stack: list[tuple[HloComputation, bool]] = [(start, False)]
        while stack:
            computation, leaving = stack.pop()
            if leaving:
                active.discard(computation)
                done.add(computation)
                continue
            if computation in done:
                continue
            active.add(computation)
            stack.append((computation, True))
            for instruction in computation.instructions:
                for called in instruction.called_computations:
                    if called in active:
                        message = f"{instruction.name} calls {called.name} recursively"
                        _fail(message, instruction, computation)
                    if called not in done:
                        stack.append((called, False))
