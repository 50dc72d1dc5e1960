"""Scatters of many updates into few elements become partial results that threads compute side by side.

The split depends on shapes alone, so the result does not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, HloModule, PrimitiveType, Shape
from xjit.hlo.attributes import ScatterAttributes
from xjit.ops.build import broadcast_scalar, concatenate, make, make_constant, make_reduce, pad, reshape
from xjit.ops.reducers import reduction_identity
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations
from xjit.passes.framework.expansion import Expansion

PARTS = (8, 4, 2)
"""Into how many parts updates are cut: the first number that is worth its partial results."""
MIN_UPDATES = 1 << 15  # elements of them: below this a fork costs more than it gives
UPDATES_PER_PARTIAL = 4  # elements of updates for each of the partial results, which are filled and combined


@dataclass
class ScatterParallelizer(HloModulePass):
    """Cuts the updates of a scatter in parts, each of which is combined into an array of its own, the first into the
    operand. That is for combiners with an identity, where partial results are small beside the updates."""

    name = "scatter-parallelizer"
    opcodes = frozenset({"scatter"})

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Rewrites every non-fusion computation; True if something changed."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            for instruction in computation.make_instruction_post_order():
                if instruction.opcode == "scatter" and _is_candidate(instruction):
                    changed |= _split(instruction)
        return changed


def _is_candidate(scatter: HloInstruction) -> bool:
    if scatter.operand_count != 3 or has_control_dependencies(scatter) or scatter.sharding is not None:
        return False
    operand, indices, updates = (o.shape for o in scatter.operands)
    if not (operand.is_static and indices.is_static and updates.is_static):
        return False
    if updates.num_elements < MIN_UPDATES or _num_parts(operand, updates) is None:
        return False
    a = scatter.attributes_as(ScatterAttributes)
    scattered = updates.rank - len(a.update_window_dims)
    in_order = a.update_window_dims == tuple(range(scattered, updates.rank)) and a.index_vector_dim == scattered
    return in_order and not a.input_batching_dims and scattered > 0


def _num_parts(operand: Shape, updates: Shape) -> int | None:
    limit = updates.num_elements // UPDATES_PER_PARTIAL
    return next((p for p in PARTS if p * operand.num_elements <= limit), None)


def _split(scatter: HloInstruction) -> bool:
    """Replaces scatter(x, i, u) by a reduction of scatter([x, identities], [i], [u]) over a batching dimension."""
    operand, indices, updates = scatter.operands
    found, num_parts = reduction_identity(scatter.to_apply), _num_parts(operand.shape, updates.shape)
    if found is None or num_parts is None or (found[0] == "multiply" and operand.shape.element_type.is_complex):
        return False  # complex infinities are not what they were when they are multiplied by 1
    _, identity = found
    a = scatter.attributes_as(ScatterAttributes)
    kind, into = operand.shape.element_type, Expansion(scatter)
    neutral = into.add(make_constant(identity, kind))
    scattered = a.index_vector_dim
    parts = [
        _in_parts(into, indices, scattered, num_parts, _nowhere(indices.shape.element_type)),
        _in_parts(into, updates, scattered, num_parts, identity),  # there may be no index that is outside
    ]
    dims = operand.shape.dimensions
    others = into.add(broadcast_scalar(neutral, Shape.array(kind, (num_parts - 1, *dims))))
    bases = into.add(concatenate([into.add(reshape(operand, (1, *dims))), others], 0))
    attributes = replace(
        a,
        update_window_dims=tuple(d - scattered + 2 for d in a.update_window_dims),
        inserted_window_dims=tuple(d + 1 for d in a.inserted_window_dims),
        scatter_dims_to_operand_dims=tuple(d + 1 for d in a.scatter_dims_to_operand_dims),
        input_batching_dims=(0,),
        scatter_indices_batching_dims=(0,),
        index_vector_dim=2,
        indices_are_sorted=False,
        unique_indices=False,
    )
    partial = into.add(make("scatter", bases, *parts, attributes=attributes, called=[scatter.to_apply]))
    combiner = into.embed(scatter.to_apply.clone())
    into.replace_source(into.add(make_reduce(partial, neutral, [0], combiner)))
    return True


def _nowhere(kind: PrimitiveType) -> int:
    """An index that is outside of the operand, unless that has as many elements as there are unsigned numbers."""
    return -1 if kind.is_signed else (1 << kind.bit_width) - 1


def _in_parts(into: Expansion, array: HloInstruction, scattered: int, parts: int, filler: object) -> HloInstruction:
    """The array with its first `scattered` dimensions as [parts, elements of each], filled up."""
    dims, rest = array.shape.dimensions[:scattered], array.shape.dimensions[scattered:]
    count = math.prod(dims)
    missing = -count % parts
    if missing:
        array = into.add(reshape(array, (count, *rest)))
        value = into.add(make_constant(filler, array.shape.element_type))
        array = into.add(pad(array, value, [(0, missing, 0), *((0, 0, 0) for _ in rest)]))
    return into.add(reshape(array, (parts, (count + missing) // parts, *rest)))
