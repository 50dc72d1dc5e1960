"""Results that are parameters keep the parameters' buffers."""

from __future__ import annotations

from collections.abc import Collection

from xjit.dataclass import dataclass
from xjit.hlo import HloModule
from xjit.hlo import attributes as at
from xjit.hlo.annotations.alias_config import Alias
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
        root, config = module.entry_computation.root_instruction, module.config
        if root.opcode != "tuple":
            return False
        layout = module.entry_computation_layout
        outputs = {alias.output_index for alias in config.input_output_alias}
        inputs = {(alias.parameter_number, alias.parameter_index) for alias in config.input_output_alias}
        found: list[Alias] = []
        for index, operand in enumerate(root.operands):
            if not isinstance(operand.attributes, at.ParameterAttributes) or not operand.shape.is_array:
                continue
            number = operand.attributes.parameter_number
            same = layout.parameter_shapes[number] == layout.result_shape.tuple_shapes[index]
            if same and (index,) not in outputs and (number, ()) not in inputs:
                inputs.add((number, ()))
                found.append(Alias((index,), number, (), "must-alias"))
        module.input_output_alias_config.set_up_aliases(found)
        return bool(found)
