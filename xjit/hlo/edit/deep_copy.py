"""Deep copies of values: a tree of get-tuple-element, copy and tuple that copies chosen leaves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.types.shape import ShapeIndex

if TYPE_CHECKING:
    from xjit.hlo.ir.computation import HloComputation
    from xjit.hlo.ir.instruction import HloInstruction

CopyLeaf = Callable[["HloInstruction", ShapeIndex, "HloComputation"], "HloInstruction"]


def deep_copy_instruction(
    computation: HloComputation,
    instruction: HloInstruction,
    indices_to_copy: Collection[Sequence[int]] | None = None,
) -> HloInstruction:
    """Adds a value equal to `instruction` whose leaves at `indices_to_copy` (default: all arrays) are copies.

    Returns the copy of an array, the tuple of a tuple, or `instruction` itself if it is a leaf that is not copied.
    Errors: InvalidArgument if the instruction is of another computation or an index is not that of an array.
    """
    leaves = dict(instruction.shape.leaves())
    chosen = None if indices_to_copy is None else {tuple(index) for index in indices_to_copy}
    for index in chosen or ():
        if index not in leaves or not leaves[index].is_array:
            raise InvalidArgument(f"{instruction.name}, {instruction.shape}, has no array at index {list(index)}")

    def copy_leaf(leaf: HloInstruction, index: ShapeIndex, target: HloComputation) -> HloInstruction:
        wanted = leaf.shape.is_array if chosen is None else index in chosen
        if not wanted:
            return leaf
        copy = leaf.create("copy", leaf.shape, [leaf])
        copy.metadata = leaf.metadata
        return target.add_instruction(copy)

    return deep_copy_instruction_with_custom_copier(computation, instruction, copy_leaf)


def deep_copy_instruction_with_custom_copier(
    computation: HloComputation, instruction: HloInstruction, copy_leaf: CopyLeaf
) -> HloInstruction:
    """As `deep_copy_instruction`, with `copy_leaf(leaf, index, computation)` in the place of the copies."""
    if instruction.parent is not computation:
        raise InvalidArgument(f"{instruction.name} is not in computation {computation.name}")
    shapes = dict(instruction.shape.subshapes())  # pre-order: a tuple comes before its elements
    values: dict[ShapeIndex, HloInstruction] = {(): instruction}
    for index, shape in shapes.items():
        for i in range(len(shape.tuple_shapes)):
            element = instruction.create_get_tuple_element(values[index], i)
            values[(*index, i)] = computation.add_instruction(element)
    results: dict[ShapeIndex, HloInstruction] = {}
    for index, shape in shapes.items():
        if not shape.is_tuple:
            results[index] = copy_leaf(values[index], index, computation)
    for index, shape in reversed(shapes.items()):
        if shape.is_tuple:
            elements = [results[(*index, i)] for i in range(len(shape.tuple_shapes))]
            results[index] = computation.add_instruction(instruction.create_tuple(elements))
    return results[()]
