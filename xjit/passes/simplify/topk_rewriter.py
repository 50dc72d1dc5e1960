"""Sorts of which only the first elements are read, and the library call for that, either way."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from xjit.hlo import HloComputation, HloInstruction, HloModule, PrimitiveType, Shape
from xjit.hlo import attributes as at
from xjit.ops import build
from xjit.passes.analysis.tuple_elements import element_index
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.expand.writing import Writer
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations
from xjit.passes.framework.expansion import Expansion
from xjit.passes.simplify.descending_order import descending_order

TARGET = "TopK"


def _always(_sort: HloInstruction, _k: int) -> bool:
    return True


@dataclass
class TopkRewriter(HloModulePass):
    """Writes a descending sort whose results are all cut to the first k elements as a custom call to TopK.

    Sorted are f32 or bf16 values, alone or with an s32 iota along the sorted dimension. TopK orders zeros by their sign
    and equal values by their position: a sort by a plain GT, which says nothing of either, may give other positions.
    """

    name = "topk-rewriter"
    opcodes = frozenset({"sort"})
    is_profitable: Callable[[HloInstruction, int], bool] = _always

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Rewrites every such sort; True if there was one."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            for instruction in computation.make_instruction_post_order():
                if instruction.opcode != "sort" or instruction.parent is not computation:
                    continue
                cuts = _cuts(instruction)
                if cuts and self.is_profitable(instruction, cuts[0][1].shape.dimensions[_sorted(instruction)]):
                    _rewrite(instruction, cuts)
                    changed = True
        return changed


@dataclass
class TopkDecomposer(OpExpander):
    """Writes topk and custom calls to TopK as a stable sort of the values and their positions, both cut to k."""

    name = "topk-decomposer"
    opcodes = frozenset({"topk", "custom-call"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the tuple of values and positions; None for another custom call."""
        largest = True
        if instruction.opcode == "topk":
            largest = instruction.attributes_as(at.TopKAttributes).largest
        elif instruction.attributes_as(at.CustomCallAttributes).custom_call_target != TARGET:
            return None
        shape, writer = instruction.operand(0).shape, Writer(into)
        if not shape.is_static_array or not instruction.shape.is_tuple:
            return None
        last = shape.rank - 1
        positions = writer.iota(PrimitiveType.S32, shape.dimensions, last)
        comparator = into.embed(_comparator("GT" if largest else "LT", [shape.element_type, PrimitiveType.S32], True))
        attributes = at.SortAttributes((last,), is_stable=True)
        whole = writer.make("sort", instruction.operand(0), positions, attributes=attributes, called=[comparator])
        limits = instruction.shape.tuple_shapes[0].dimensions
        return into.tuple_of(*(writer.slice(writer.element(whole, n), [0] * shape.rank, limits) for n in (0, 1)))


def _sorted(sort: HloInstruction) -> int:
    return sort.attributes_as(at.SortAttributes).sort_dimension


def _cuts(sort: HloInstruction) -> list[tuple[int, HloInstruction]]:
    """Returns what reads a sort, each (number of the result, slice); none if the sort is no top k."""
    values, dimension = sort.operand(0).shape, _sorted(sort)
    kind = descending_order(sort.to_apply) if sort.operand_count <= 2 else ""
    if not kind or not values.is_static_array or values.element_type not in (PrimitiveType.F32, PrimitiveType.BF16):
        return []
    if sort.operand_count == 2 and not _counts(sort.operand(1), dimension):
        return []
    if dimension not in (0, values.rank - 1):
        return []
    if sort.is_root() or has_control_dependencies(sort) or sort.sharding is not None:
        return []
    cuts: list[tuple[int, HloInstruction]] = []
    for user in sort.users:
        if sort.operand_count == 1:
            cuts.append((0, user))
        elif user.opcode != "get-tuple-element" or user.is_root() or has_control_dependencies(user):
            return []
        else:
            cuts += [(element_index(user), reader) for reader in user.users]
    lengths = {_length(cut, dimension) for _, cut in cuts}
    return cuts if len(lengths) == 1 and None not in lengths else []


def _counts(operand: HloInstruction, dimension: int) -> bool:
    """Whether an operand is 0, 1, 2, ... along a dimension, as s32."""
    if operand.shape.element_type is not PrimitiveType.S32:
        return False
    if operand.opcode == "broadcast":
        placed = operand.attributes_as(at.DimensionsAttributes).dimensions
        inner = operand.operand(0)
        return inner.opcode == "iota" and placed[inner.attributes_as(at.IotaAttributes).iota_dimension] == dimension
    return operand.opcode == "iota" and operand.attributes_as(at.IotaAttributes).iota_dimension == dimension


def _length(cut: HloInstruction, dimension: int) -> int | None:
    """Returns how many of the first elements along a dimension are cut out, with all of the others; else None."""
    if cut.opcode != "slice":
        return None
    sizes = cut.operand(0).shape.dimensions
    for d, one in enumerate(cut.attributes_as(at.SliceAttributes).slice):
        if one.start or one.stride != 1 or (d != dimension and one.limit != sizes[d]):
            return None
    return cut.shape.dimensions[dimension]


def _rewrite(sort: HloInstruction, cuts: Sequence[tuple[int, HloInstruction]]) -> None:
    """Makes everything that cuts the results read a call to TopK along the last of at most two dimensions, as others
    are one.
    """
    into, values, dimension = Expansion(sort), sort.operand(0), _sorted(sort)
    writer, comparator = Writer(into), sort.to_apply
    kind, rank, length = values.shape.element_type, values.shape.rank, values.shape.dimensions[dimension]
    k = cuts[0][1].shape.dimensions[dimension]
    is_first = rank > 1 and dimension == 0
    operand = values
    if rank > 2:
        batch = values.shape.num_elements // max(length, 1)
        operand = writer.reshape(operand, [length, batch] if is_first else [batch, length])
    if is_first:
        operand = writer.transpose(operand, [1, 0])
    total = descending_order(comparator) == "total"
    dimensions = [*operand.shape.dimensions[:-1], k]
    results = Shape.tuple_of([Shape.array(kind, dimensions), Shape.array("s32", dimensions)])
    called = into.embed(_comparator("GT", [kind], total))
    call = writer.make(
        "custom-call", operand, attributes=at.CustomCallAttributes(TARGET), called=[called], shape=results
    )
    read: dict[int, HloInstruction] = {}
    for number, cut in cuts:
        if number not in read:
            element = writer.element(call, number)
            read[number] = writer.reshape(
                writer.transpose(element, [1, 0]) if is_first else element, cut.shape.dimensions
            )
        Expansion(cut).replace_source(read[number])
    if not comparator.caller_instructions() and comparator.parent is not None:
        comparator.parent.remove_embedded_computation(comparator)


def _comparator(direction: str, kinds: Sequence[PrimitiveType], total: bool) -> HloComputation:
    """Returns a comparator of the first operand's elements: of floats in total order, if that is asked for."""
    builder = HloComputation.Builder({"GT": "greater", "LT": "less"}[direction])
    shapes = [Shape.array(kind) for kind in kinds for _ in (0, 1)]
    a, b, *_ = [builder.add_instruction(HloInstruction.create_parameter(n, s, f"p{n}")) for n, s in enumerate(shapes)]
    comparison = "TOTALORDER" if total and kinds[0].is_float else ""
    return builder.build(builder.add_instruction(build.compare(direction, a, b, comparison)))
