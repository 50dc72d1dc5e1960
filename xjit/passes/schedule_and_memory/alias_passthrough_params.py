"""Results that are parameters keep the parameters' buffers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xjit.hlo import HloModule
from xjit.hlo import attributes as at
from xjit.passes.framework.base import HloModulePass


@dataclass
class AliasPassthroughParams(HloModulePass):
    """Declares `must-alias` for each element of the root tuple that is an entry parameter itself.

    A parameter that is returned twice is aliased at its first element. What has an alias already, or another shape or
    layout than the entry's, is left.
    """

    name = "alias-passthrough-params"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """True if an alias was added."""
        del execution_threads  # the entry belongs to the main one
        root, config = module.entry_computation.root_instruction, module.input_output_alias_config
        if root.opcode != "tuple":
            return False
        layout, changed = module.entry_computation_layout, False
        for index, operand in enumerate(root.operands):
            if not isinstance(operand.attributes, at.ParameterAttributes) or not operand.shape.is_array:
                continue
            number = operand.attributes.parameter_number
            same = layout.parameter_shapes[number] == layout.result_shape.tuple_shapes[index]
            if same and not config.output_has_alias((index,)) and not config.parameter_has_alias(number):
                config.set_up_alias((index,), number, (), "must")
                changed = True
        return changed
