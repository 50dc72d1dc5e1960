"""Output-to-input indexing of single opcodes: which operand elements one output element reads.

A rule returns, per operand, the tuple of its indexing maps. Dimensions of a map are the output's dimensions; range
variables run over what is summed or searched; run-time variables are indices read from other operands. Opcodes that
call computations or handle tuples are the business of `hlo_indexing`; what says nothing useful is UNKNOWN here.
Source: the examples of docs/indexing.md; XLA's semantics of each opcode.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xjit.affine import UNKNOWN
from xjit.hlo import attributes as at
from xjit.hlo.attributes.opcodes import OPCODES, Trait
from xjit.hlo.ir.instruction import HloInstruction
from xjit.ops.custom_call_targets import IDENTITY_TARGETS
from xjit.ops.indexing import collective, contraction, dynamic, movement, reductions
from xjit.ops.indexing.maps import Maps, OutputRule, Rule, array_shape, identity_map, make_map, whole_map

__all__ = ["OUTPUT_TO_INPUT", "Maps", "array_shape", "make_map", "operand_maps"]


def unknown(instruction: HloInstruction) -> list[Maps]:
    """Nothing is known of any operand."""
    return [(UNKNOWN,)] * instruction.operand_count


def _rng_bit_generator(instruction: HloInstruction, output: int) -> list[Maps]:
    return [(whole_map(array_shape(instruction.shape, output).dimensions, instruction.operand(0).shape),)]


def _dynamic_reshape(instruction: HloInstruction) -> list[Maps]:
    dims = instruction.shape.dimensions
    sizes: list[Maps] = [(whole_map(dims, o.shape),) for o in instruction.operands[1:]]
    return [(UNKNOWN,), *sizes]


def _first_operand(instruction: HloInstruction) -> list[Maps]:
    rest: list[Maps] = [() for _ in instruction.operands[1:]]
    return (
        [(identity_map(instruction.shape.dimensions),), *rest] if instruction.shape.is_array else unknown(instruction)
    )


def _custom_call(instruction: HloInstruction) -> list[Maps]:
    """Annotations hand their operand on; what a library does is unknown, and a shape that changes needs devices."""
    annotates = (
        instruction.attributes_as(at.CustomCallAttributes).custom_call_target in IDENTITY_TARGETS
        and instruction.operand_count == 1
    )
    if annotates and instruction.shape.is_array and instruction.operand(0).shape.same_dimensions(instruction.shape):
        return [(identity_map(instruction.shape.dimensions),)]
    return unknown(instruction)


_RULES: Mapping[str, Rule] = MappingProxyType(
    {
        **movement.RULES,
        **reductions.RULES,
        **contraction.RULES,
        **dynamic.RULES,
        "custom-call": _custom_call,
        "dynamic-reshape": _dynamic_reshape,
        "add-dependency": _first_operand,
        "opt-barrier": _first_operand,
        "domain": _first_operand,
    }
)
_OUTPUT_RULES: Mapping[str, OutputRule] = MappingProxyType(
    {**reductions.OUTPUT_RULES, **collective.OUTPUT_RULES, "rng-bit-generator": _rng_bit_generator}
)


def _for_any_output(rule: Rule) -> OutputRule:
    def of_output(instruction: HloInstruction, _output: int = 0) -> list[Maps]:
        return rule(instruction)

    return of_output


def _rule_of(name: str) -> OutputRule:
    if name in _OUTPUT_RULES:
        return _OUTPUT_RULES[name]
    default = movement.elementwise if OPCODES[name].has(Trait.ELEMENTWISE) else unknown
    return _for_any_output(_RULES.get(name, default))


OUTPUT_TO_INPUT: Mapping[str, OutputRule] = MappingProxyType({name: _rule_of(name) for name in OPCODES})


def operand_maps(instruction: HloInstruction, output: int = 0) -> list[Maps]:
    """Returns, per operand, the maps from an index of output `output` to the operand elements it reads.

    An empty tuple means that no element of that operand is read; UNKNOWN that nothing is known.
    """
    return OUTPUT_TO_INPUT[instruction.opcode](instruction, output)
