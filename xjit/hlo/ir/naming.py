"""Names of instructions: sanitized, and unique in a module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xjit.hlo.diagnostics import FailedPrecondition, HloVerifyError
from xjit.hlo.ir.name_uniquer import NameUniquer

if TYPE_CHECKING:
    from xjit.hlo.ir.instruction import HloInstruction
    from xjit.hlo.ir.module import HloModule


def set_and_sanitize_name(instruction: HloInstruction, name: str) -> None:
    """Renames an instruction to the nearest name that HLO text accepts; it is not made unique."""
    instruction.name = NameUniquer.sanitize(name)


def uniquify_name(instruction: HloInstruction, uniquer: NameUniquer | None = None) -> None:
    """Gives an instruction a name that nothing else in its module, or nothing of another name uniquer, has had.

    FailedPrecondition without either.
    """
    if uniquer is None:
        if instruction.module is None:
            raise FailedPrecondition(f"{instruction.name} is in no module: its name has nothing to be unique in")
        uniquer = instruction.module.instruction_name_uniquer
    instruction.name = uniquer.get_unique_name(instruction.name)


def check_unique_names_and_ids(module: HloModule) -> None:
    """Raises HloVerifyError if two instructions or two computations of a module share a name or an id."""
    computations: dict[str | int, str] = {}
    instructions: dict[str | int, str] = {}
    for computation in module.computations():
        for key in (computation.name, computation.unique_id):
            if key in computations:
                raise HloVerifyError(f"two computations of module {module.name} have the {_kind(key)}")
            computations[key] = computation.name
        for instruction in computation.instructions:
            for key in (instruction.name, instruction.unique_id):
                if key in instructions:
                    where = f"in {instructions[key]} and in {computation.name}"
                    raise HloVerifyError(f"two instructions of module {module.name} have the {_kind(key)}: {where}")
                instructions[key] = computation.name


def _kind(key: str | int) -> str:
    return f"name {key}" if isinstance(key, str) else f"id {key}"
