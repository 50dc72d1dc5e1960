"""Which elements of a loop's state have equal values in every trip?

The coarsest partition is found by refinement: elements that start as the same value are assumed to be equal until the
body computes them, under that assumption, by different expressions.
"""

from __future__ import annotations

from collections.abc import Hashable

from xjit.hlo import HloComputation, HloInstruction
from xjit.hlo.compare.structural_key import StructuralKeys, content_key
from xjit.passes.analysis.side_effects import SideEffects
from xjit.passes.analysis.tuple_elements import element_index
from xjit.passes.analysis.while_loop_analysis import initial_value
from xjit.passes.framework import analyses


def equal_elements(loop: HloInstruction) -> list[int]:
    """Returns for each element the first one that it is always equal to: mostly itself."""
    starts = [initial_value(loop, i) for i in range(len(loop.shape.tuple_shapes))]
    if any(start is None for start in starts):
        return list(range(len(starts)))
    keys: list[Hashable] = [
        (content_key(start) if start.opcode == "constant" else id(start), str(start.shape)) for start in starts if start
    ]
    classes = _first_of_each(keys)
    while len(set(classes)) < len(classes):
        values = _value_numbers(loop.while_body, classes)
        root = loop.while_body.root_instruction
        refined = _first_of_each([(classes[i], values[o]) for i, o in enumerate(root.operands)])
        if refined == classes:
            break
        classes = refined
    return classes


def _first_of_each(keys: list[Hashable]) -> list[int]:
    """Returns for each key the position of the first equal one."""
    first: dict[Hashable, int] = {}
    return [first.setdefault(key, i) for i, key in enumerate(keys)]


def _value_numbers(body: HloComputation, classes: list[int]) -> dict[HloInstruction, int]:
    """Numbers the values of a body: equal expressions of elements of equal classes have equal numbers."""
    module = body.parent
    assert module is not None
    effects = analyses.get(SideEffects, module)
    keys = StructuralKeys()
    found: dict[HloInstruction, int] = {}
    state = body.parameter_instructions[0]
    for instruction in body.make_instruction_post_order():
        key: Hashable
        if instruction.opcode == "get-tuple-element" and instruction.operand(0) is state:
            key = ("element", classes[element_index(instruction)])
        elif effects.of_instruction(instruction):
            key = ("effect", instruction)
        else:
            operands = tuple(found[o] for o in instruction.operands)
            key = keys.instruction_key(instruction, operands)
        found[instruction] = keys.number(key)
    return found
