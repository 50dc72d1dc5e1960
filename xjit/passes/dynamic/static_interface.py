"""Modules with dynamic shapes as static ones that take sizes and give sizes: what a compiler for static shapes runs.

A dynamic parameter `f32[<=4,3]` becomes `f32[4,3]`, and each of its dynamic dimensions one more parameter `s32[]`
behind all others, in the order of the arrays and dimensions. A result with dynamic arrays becomes
`(result, size, size, ...)`, in the same order. What counts stands in front of every array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xjit.hlo import HloInstruction, HloModule, Shape, Unsupported
from xjit.hlo import attributes as at
from xjit.hlo.annotations.alias_config import Alias
from xjit.hlo.attributes.opcodes import Trait
from xjit.hlo.ir.module import ComputationLayout
from xjit.hlo.types.shape_index import ShapeIndex
from xjit.passes.dynamic.dynamic_padder import TO_DYNAMIC, TO_STATIC, DynamicPadder
from xjit.passes.dynamic.padded_values import SIZE, PaddingWriter, static
from xjit.passes.expand.batch_norm_expander import BatchNormExpander
from xjit.passes.framework.expansion import Expansion
from xjit.passes.simplify.hlo_dce import HloDCE

Place = tuple[ShapeIndex, int]
Sizes = Mapping[Place, HloInstruction]
"""The size of each dynamic dimension of a value: (leaf, dimension) -> s32[]."""

_SIZE_SHAPE = Shape.array(SIZE)


def is_dynamic(module: HloModule) -> bool:
    """Whether an array of the module has a dynamic dimension."""
    return not all(i.shape.is_static for c in module.computations() for i in c.instructions)


def dynamic_dimensions(shape: Shape) -> list[Place]:
    """Returns the dynamic dimensions of a shape in the order of their sizes, as (leaf, dimension)."""
    leaves = [(index, leaf) for index, leaf in shape.leaves() if leaf.is_array]
    return [(index, d) for index, leaf in leaves for d in range(leaf.rank) if leaf.is_dynamic_dimension(d)]


def dynamic_leaves(shapes: Sequence[Shape]) -> tuple[tuple[int, int], ...]:
    """Returns the same of several shapes, as (number of the array among all their arrays, dimension)."""
    arrays = [leaf for shape in shapes for _, leaf in shape.leaves() if leaf.is_array]
    return tuple((n, d) for n, leaf in enumerate(arrays) for d in range(leaf.rank) if leaf.is_dynamic_dimension(d))


def with_static_interface(module: HloModule) -> HloModule:
    """Returns a module of static shapes that computes the same; the module itself if it has no others.

    Errors: Unsupported for what cannot be computed with the bounds and sizes.
    """
    if not is_dynamic(module):
        return module
    made = module.clone("")
    made.clear_schedule()
    BatchNormExpander().run(made)  # what is summed up is masked by operations that the padder knows
    DynamicPadder().run(made)
    _EntryRewriting(made).run()
    return made


class _EntryRewriting:
    """Takes dynamic shapes out of an entry in which they are only brought in and out."""

    def __init__(self, module: HloModule) -> None:
        self.module = module
        self.entry = module.entry_computation
        self.sizes: dict[HloInstruction, Sizes] = {}

    def run(self) -> None:
        """Rewrites parameters, what they are passed through, and the result, in place."""
        root = self.entry.root_instruction
        parameters = self.entry.parameter_instructions
        result_is_dynamic = not root.shape.is_static
        for parameter in parameters:
            self._add_sizes(parameter)
        for instruction in self.entry.make_instruction_post_order():
            if instruction.opcode != "parameter" and (
                _is_call(instruction, TO_STATIC) or not instruction.shape.is_static
            ):
                self._visit(instruction)
        if result_is_dynamic:
            self._return_sizes()
        HloDCE().run(self.module)
        self._describe_interface(result_is_dynamic)

    def _add_sizes(self, parameter: HloInstruction) -> None:
        found: dict[Place, HloInstruction] = {}
        for index, d in dynamic_dimensions(parameter.shape):
            number = self.entry.num_parameters
            name = ".".join([parameter.name, *map(str, index), f"size{d}"])
            size = HloInstruction.create_parameter(number, _SIZE_SHAPE, name)
            found[index, d] = self.entry.add_instruction(size)
        if found:
            self.sizes[parameter] = found
            parameter.shape = static(parameter.shape)

    def _visit(self, instruction: HloInstruction) -> None:
        if _is_call(instruction, TO_STATIC):
            self._replace_to_static(instruction)
        elif _is_call(instruction, TO_DYNAMIC):
            self._replace_to_dynamic(instruction)
        else:
            known = self._sizes_of(instruction)
            self.sizes[instruction] = {place: known[place] for place in dynamic_dimensions(instruction.shape)}
            instruction.shape = static(instruction.shape)

    def _sizes_of(self, instruction: HloInstruction) -> Sizes:
        """The sizes that an instruction passes on."""
        opcode = instruction.opcode
        if opcode == "tuple":
            operands = enumerate(instruction.operands)
            return {((n, *i), d): s for n, o in operands for (i, d), s in self.sizes.get(o, {}).items()}
        if opcode == "get-tuple-element":
            element = instruction.attributes_as(at.GetTupleElementAttributes).index
            return {(i[1:], d): s for (i, d), s in self.sizes[instruction.operand(0)].items() if i[0] == element}
        if opcode == "copy" or instruction.op.has(Trait.FORWARDS):
            return self.sizes[instruction.operand(0)]
        raise Unsupported(f"{opcode} '{instruction.name}' of a dynamic array cannot be compiled", instruction.span)

    def _replace_to_static(self, call: HloInstruction) -> None:
        """(array, size, ...): one size for each dimension."""
        array, b = call.operand(0), PaddingWriter(Expansion(call))
        known = self.sizes.get(array, {})
        dimensions = enumerate(array.shape.dimensions)
        sizes = [known.get(((), d)) or b.constant(bound, SIZE) for d, bound in dimensions]
        call.replace_all_uses_with_different_shape(b.tuple_of(array, *sizes))

    def _replace_to_dynamic(self, call: HloInstruction) -> None:
        """The array itself, by a copy: it may have other sizes elsewhere."""
        array, *sizes = call.operands
        whole = HloInstruction.create("copy", static(call.shape), [array])
        self.sizes[whole] = {(index, d): sizes[d] for index, d in dynamic_dimensions(call.shape)}
        call.replace_all_uses_with_different_shape(self.entry.add_instruction(whole))

    def _return_sizes(self) -> None:
        root = self.entry.root_instruction
        known = self.sizes[root]
        sizes = [known[place] for place in sorted(known)]
        result = HloInstruction.create_tuple([root, *sizes])
        self.entry.set_root_instruction(self.entry.add_instruction(result), accept_different_shape=True)

    def _describe_interface(self, result_is_dynamic: bool) -> None:
        """The result's arrays lie one level deeper; layouts for callers are those of the entry."""
        config = self.module.config
        if result_is_dynamic:
            config.input_output_alias = tuple(
                Alias((0, *a.output_index), a.parameter_number, a.parameter_index, a.kind)
                for a in config.input_output_alias
            )
        if config.entry_computation_layout is not None:
            shapes = [p.shape for p in self.entry.parameter_instructions]
            config.entry_computation_layout = ComputationLayout(shapes, self.entry.root_instruction.shape)


def _is_call(instruction: HloInstruction, target: str) -> bool:
    return (
        instruction.opcode == "custom-call"
        and instruction.attributes_as(at.CustomCallAttributes).custom_call_target == target
    )
