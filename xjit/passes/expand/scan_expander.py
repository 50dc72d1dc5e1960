"""scan as a while loop over slices."""

from __future__ import annotations

from dataclasses import dataclass

from xjit.hlo import HloComputation, HloInstruction, PrimitiveType, Shape
from xjit.hlo.attributes import CompareAttributes, DynamicSliceAttributes, ScanAttributes
from xjit.ops import build
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion

INDEX = PrimitiveType.S64


@dataclass
class ScanExpander(OpExpander):
    """The loop's state is (step, inputs.., outputs.., carries..); each step cuts its slices and calls the body."""

    name = "scan-expander"
    opcodes = frozenset({"scan"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the stacked outputs and last carries: a tuple, or the only one where the body gives no tuple."""
        scan = instruction.attributes_as(ScanAttributes)
        is_tuple = instruction.shape.is_tuple
        shapes = instruction.shape.tuple_shapes if is_tuple else (instruction.shape,)
        split = instruction.operand_count - scan.num_carries
        outputs = [into.full(s, 0) for s in shapes[: len(shapes) - scan.num_carries]]
        inputs, carries = instruction.operands[:split], instruction.operands[split:]
        sizes = [o.shape.dimensions[scan.dimensions[0]] for o in (*inputs, *outputs)]
        if not sizes or not sizes[0]:
            return into.tuple_of(*outputs, *carries) if is_tuple else [*outputs, *carries][0]
        start = into.full(Shape.array(INDEX), 0)
        state = into.tuple_of(start, *inputs, *outputs, *carries)
        condition = into.embed(_condition(state.shape, sizes[0]))
        body = into.embed(_body(instruction, scan, state.shape, len(inputs), len(outputs), sizes[0]))
        loop = HloInstruction.create("while", state.shape, [state], called_computations=[condition, body])
        into.add(loop)
        first = 1 + len(inputs)
        results = [into.element(loop, first + i) for i in range(len(outputs) + len(carries))]
        return into.tuple_of(*results) if is_tuple else results[0]


def _condition(state: Shape, size: int) -> HloComputation:
    builder = HloComputation.Builder("scan_condition")
    parameter = builder.add_instruction(HloInstruction.create_parameter(0, state, "state"))
    step = builder.add_instruction(HloInstruction.create_get_tuple_element(parameter, 0))
    limit = builder.add_instruction(build.make_constant(size, INDEX))
    builder.add_instruction(build.make("compare", step, limit, attributes=CompareAttributes("LT")))
    return builder.build()


def _body(
    instruction: HloInstruction, scan: ScanAttributes, state: Shape, num_inputs: int, num_outputs: int, size: int
) -> HloComputation:
    builder = HloComputation.Builder("scan_body")
    add, axis = builder.add_instruction, scan.dimensions[0]
    parameter = add(HloInstruction.create_parameter(0, state, "state"))
    values = [add(HloInstruction.create_get_tuple_element(parameter, i)) for i in range(len(state.tuple_shapes))]
    step, inputs = values[0], values[1 : 1 + num_inputs]
    outputs, carries = values[1 + num_inputs :][:num_outputs], values[1 + num_inputs + num_outputs :]
    place = step
    if scan.is_reverse:
        place = add(build.make("subtract", add(build.make_constant(size - 1, INDEX)), step))
    zero = add(build.make_constant(0, INDEX))

    def starts(rank: int) -> list[HloInstruction]:
        return [place if d == axis else zero for d in range(rank)]

    slices: list[HloInstruction] = []
    for x in inputs:
        dims = [1 if d == axis else n for d, n in enumerate(x.shape.dimensions)]
        attributes = DynamicSliceAttributes(tuple(dims))
        cut = add(build.make("dynamic-slice", x, *starts(x.shape.rank), attributes=attributes))
        slices.append(add(build.reshape(cut, [n for d, n in enumerate(dims) if d != axis])))
    callee = instruction.to_apply
    call = add(build.make("call", *slices, *carries, called=[callee], shape=callee.root_instruction.shape))
    results = [call]  # a body of one result may give it without a tuple
    if call.shape.is_tuple:
        results = [add(HloInstruction.create_get_tuple_element(call, i)) for i in range(num_outputs + len(carries))]
    stacked: list[HloInstruction] = []
    for x, item in zip(outputs, results[:num_outputs], strict=True):
        dims = [1 if d == axis else n for d, n in enumerate(x.shape.dimensions)]
        update = add(build.reshape(item, dims))
        stacked.append(add(build.make("dynamic-update-slice", x, update, *starts(x.shape.rank))))
    following = add(build.make("add", step, add(build.make_constant(1, INDEX))))
    add(HloInstruction.create_tuple([following, *inputs, *stacked, *results[num_outputs:]]))
    return builder.build()
