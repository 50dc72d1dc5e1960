"""Names and ids are unique in a module: the check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xjit.hlo.diagnostics import HloVerifyError

if TYPE_CHECKING:
    from xjit.hlo.ir.module import HloModule


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
