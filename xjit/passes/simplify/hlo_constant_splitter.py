"""A constant for each of its readers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xjit.hlo import HloInstruction, HloModule
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations

_EXPRESSIONS = frozenset({"broadcast", "iota"})


@dataclass
class HloConstantSplitter(HloModulePass):
    """Clones constants that several instructions read, so that each has its own, with a sharding of its own.

    With `split_expressions`, iotas and broadcasts of constants, too.
    """

    name = "hlo-constant-splitter"
    split_expressions: bool = False

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Clones, readers first; True if a constant had several."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            for instruction in reversed(computation.make_instruction_post_order()):
                if self._is_constant(instruction):
                    changed |= _split(instruction)
        return changed

    def _is_constant(self, value: HloInstruction) -> bool:
        if has_control_dependencies(value):
            return False
        if value.opcode == "constant":
            return True
        is_expression = self.split_expressions and value.opcode in _EXPRESSIONS
        return is_expression and all(self._is_constant(o) for o in value.operands)


def _split(value: HloInstruction) -> bool:
    """Gives all readers of a value but the first clones of it; a root stays one as well."""
    computation, users = value.parent, value.users if value.is_root() else value.users[1:]
    assert computation is not None
    for user in users:
        value.replace_use_with(user, computation.add_instruction(value.clone()))
    return bool(users)
