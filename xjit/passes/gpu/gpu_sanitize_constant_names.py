"""Names of constants that are valid symbols in PTX."""

from __future__ import annotations

from collections.abc import Collection

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, HloModule
from xjit.hlo.ir.name_uniquer import NameUniquer
from xjit.passes.framework.base import HloModulePass


@dataclass
class GpuSanitizeConstantNames(HloModulePass):
    """Writes `_` for `.` and `-` in the names of constants, which become global symbols; other names stay.

    Names stay unique in the module: it is the constant that gets a number, even if it came first.
    """

    name = "gpu-sanitize-constant-names"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """True if a name changed."""
        names = NameUniquer("_")
        constants: list[HloInstruction] = []
        for computation in module.computations():
            is_selected = not execution_threads or computation.execution_thread in execution_threads
            for instruction in computation.instructions:
                if is_selected and instruction.opcode == "constant":
                    constants.append(instruction)
                else:
                    names.reserve(instruction.name)
        changed = False
        for instruction in constants:
            name = names.get_unique_name(instruction.name.replace(".", "_").replace("-", "_"))
            if name != instruction.name:
                instruction.name = name
                module.instruction_name_uniquer.reserve(name)
                changed = True
        return changed
