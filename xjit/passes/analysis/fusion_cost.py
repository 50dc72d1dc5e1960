"""What fusing an instruction costs, and what it saves in memory traffic.

How operands are read - at the same index, how often, across memory - the indexing maps say
(`xjit.indexing.operand_reads`). What is listed here by opcode is what they do not say: what arithmetic costs, and what
the emitters can evaluate on demand.
"""

from __future__ import annotations

from xjit.hlo import HloInstruction, Trait
from xjit.hlo.types.physical import physical_byte_size
from xjit.indexing.operand_reads import reads_of

MOVEMENT = frozenset({"broadcast", "reshape", "bitcast", "transpose", "reverse", "slice", "iota", "constant", "pad"})
"""Opcodes that only choose which element to read."""

MADE_FROM_NOTHING = frozenset({"broadcast", "iota", "constant"})
"""Opcodes whose values are better made again than read from memory, wherever they are used."""

PRODUCERS = MOVEMENT | {"dynamic-slice", "gather"}
"""Opcodes, besides the elementwise ones, that may be evaluated inside the fusion of a user."""

ROOTS = PRODUCERS | {"reduce", "concatenate", "dynamic-update-slice"}
"""Opcodes, besides the elementwise ones, that may be the root of a fusion."""

BUFFER_READERS = frozenset({"dynamic-update-slice"})
"""Opcodes with an operand that cannot be computed in the fusion: see `may_read_fused`."""


MAX_DIVISIONS = 6
"""How many instructions that divide indices may lie between a fusion's root and what it reads: with transposes between
them, every one makes index expressions some times larger."""


def is_expensive(instruction: HloInstruction) -> bool:
    """Whether computing an element twice costs more than storing and loading it."""
    return instruction.op.has(Trait.EXPENSIVE) or instruction.opcode == "gather"


def is_array_program(instruction: HloInstruction) -> bool:
    """Whether operands and result are static arrays and no control edge or side effect is involved."""
    if instruction.control_predecessors or instruction.control_successors:
        return False
    return instruction.shape.is_static_array and all(o.shape.is_static_array for o in instruction.operands)


def may_be_producer(instruction: HloInstruction) -> bool:
    """Whether the instruction may be evaluated inside a fusion."""
    if instruction.opcode == "constant":
        return instruction.shape.is_scalar
    if not (instruction.op.has(Trait.ELEMENTWISE) or instruction.opcode in PRODUCERS):
        return False
    return is_array_program(instruction)


def may_be_root(instruction: HloInstruction) -> bool:
    """Whether the instruction may take producers in. Bitcasts may not: they are free where they are."""
    if instruction.opcode == "reduce" and instruction.shape.is_tuple:
        operands_fit = all(o.shape.is_array and o.shape.is_static for o in instruction.operands)
        return operands_fit and not (instruction.control_predecessors or instruction.control_successors)
    if not (instruction.op.has(Trait.ELEMENTWISE) or instruction.opcode in ROOTS):
        return False
    return instruction.opcode not in ("constant", "bitcast", "iota") and is_array_program(instruction)


def may_read_fused(user: HloInstruction, position: int) -> bool:
    """Whether a member may have its operand at `position` computed in the fusion."""
    if user.opcode in BUFFER_READERS:
        return position != 0  # the target must stay a buffer, or nothing could be updated in place
    return True


def changes_minor_dimension(instruction: HloInstruction) -> bool:
    """Whether the instruction reads an operand of its rank across memory, as a transpose of what is minor does."""
    if not instruction.operand_count or not instruction.shape.rank:
        return False
    operand = instruction.operand(0).shape
    if operand.rank != instruction.shape.rank:
        return False
    return reads_of(instruction)[0].walks_across(instruction.shape.minor_to_major[0], operand.minor_to_major[0])


def worth_duplicating(instruction: HloInstruction, copies: int, materialized: bool) -> bool:
    """Whether `copies` evaluations in several fusions beat storing the value once and loading it `copies` times.

    Only for instructions that read memory anyway: if an operand could be fused into a stored value, storing is better.
    """
    if is_expensive(instruction) or changes_minor_dimension(instruction):
        return False
    if instruction.opcode in MOVEMENT:
        return True
    if not instruction.op.has(Trait.ELEMENTWISE):
        return False
    large = [o for o in instruction.unique_operands() if not is_small_source(o, instruction)]
    if len(large) > 1 and any(may_be_producer(o) or o.opcode == "fusion" for o in large):
        return False
    read = sum(physical_byte_size(o.shape) for o in large)
    written = physical_byte_size(instruction.shape)
    stored_once = copies * written + (0 if materialized else read + written)
    return copies * read <= stored_once


def is_small_source(operand: HloInstruction, user: HloInstruction) -> bool:
    """Whether reading the operand costs little next to the user's result: scalars, broadcasts, iotas."""
    if operand.opcode in ("iota", "constant"):
        return operand.opcode == "iota" or operand.shape.is_scalar
    if operand.opcode == "broadcast":
        operand = operand.operand(0)
    return 8 * operand.shape.num_elements <= user.shape.num_elements or operand.shape.is_scalar
