"""select-and-scatter as a search for the places, and a scatter."""

from __future__ import annotations

from dataclasses import dataclass

from xjit.hlo import HloComputation, HloInstruction, PrimitiveType, Shape
from xjit.hlo import attributes as at
from xjit.ops import build
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion

_INDEX = PrimitiveType.S32


@dataclass
class SelectAndScatterExpander(OpExpander):
    """Finds the index of the element that each window selects, by a reduce-window of values and indices."""

    name = "select-and-scatter-expander"
    opcodes = frozenset({"select-and-scatter"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the scatter; None for sizes that are not static, scalars, and arrays of 2^31 elements and more."""
        operand, source, init = instruction.operands
        shape, rank = operand.shape, operand.shape.rank
        if not shape.is_static_array or not source.shape.is_static_array or not rank or shape.num_elements >> 31:
            return None
        index_shape = shape.with_element_type(_INDEX)
        iotas = [into.make("iota", attributes=at.IotaAttributes(d), shape=index_shape) for d in range(rank)]
        nowhere = into.full(Shape.array(_INDEX), -1)
        reducer = into.embed(_choice(instruction.called_computations[0], shape.element_type, rank))
        window = at.WindowAttributes(instruction.attributes_as(at.WindowAttributes).window)
        inits = [into.full(Shape.array(shape.element_type), 0), *[nowhere] * rank]
        chosen = into.make("reduce-window", operand, *iotas, *inits, attributes=window, called=[reducer])
        sizes = source.shape.dimensions
        parts = [into.add(build.reshape(into.element(chosen, 1 + d), (*sizes, 1))) for d in range(rank)]
        indices = parts[0] if rank == 1 else into.add(build.concatenate(parts, rank))
        start = into.add(build.broadcast_scalar(init, shape))
        dims = tuple(range(rank))
        attributes = at.ScatterAttributes(
            update_window_dims=(), inserted_window_dims=dims, scatter_dims_to_operand_dims=dims, index_vector_dim=rank
        )
        combiner = instruction.called_computations[1]
        return into.make("scatter", start, indices, source, attributes=attributes, called=[combiner])


def _choice(select: HloComputation, kind: PrimitiveType, rank: int) -> HloComputation:
    """(value, index.., value, index..) -> the one that `select` prefers; an index of -1 is none."""
    builder = HloComputation.Builder("select_index")
    add, shapes = builder.add_instruction, [Shape.array(kind), *[Shape.array(_INDEX)] * rank]
    parameters = [
        add(HloInstruction.create_parameter(n, shape, f"{side}{n % (rank + 1)}"))
        for n, (side, shape) in enumerate([(side, shape) for side in ("left", "right") for shape in shapes])
    ]
    left, right = parameters[: rank + 1], parameters[rank + 1 :]
    none = add(build.make_constant(-1, _INDEX))
    preferred = add(build.make("call", left[0], right[0], called=[select], shape=Shape.array(PrimitiveType.PRED)))
    takes = add(build.binary("and", preferred, add(build.compare("NE", left[1], none))))
    takes = add(build.binary("or", takes, add(build.compare("EQ", right[1], none))))
    chosen = [add(build.select(takes, a, b)) for a, b in zip(left, right, strict=True)]
    add(HloInstruction.create_tuple(chosen))
    return builder.build()
