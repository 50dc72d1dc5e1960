"""What fusing an instruction costs, and what it saves in memory traffic.

How operands are read - at the same index, how often, across memory - the indexing maps say
(`xjit.indexing.operand_reads`). What is listed here by opcode is what they do not say: what arithmetic costs, and what
the emitters can evaluate on demand.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from xjit.hlo import HloInstruction, Trait
from xjit.hlo.attributes import ConcatenateAttributes, DimensionsAttributes, GatherAttributes, ScatterAttributes
from xjit.hlo.ir.classification import changes_element_type
from xjit.hlo.types.physical import physical_byte_size
from xjit.indexing.element_reads import is_tiled
from xjit.indexing.operand_reads import reads_of

ON_DEMAND = frozenset({"iota", "pad", "dynamic-slice", "gather"})
"""Opcodes that the emitters evaluate at any index, besides those whose traits say that they compute or move single
elements. This is a list because it says what the emitters can do, not what the opcodes mean.
"""

LOOP_ROOTS = frozenset({"reduce", "concatenate", "dynamic-update-slice", *(ON_DEMAND - {"iota"})})
"""Opcodes that planners make loops around, with producers inside; likewise a list, besides the elementwise and moving
ones.
"""

UPDATE_ROOTS = frozenset({"scatter"})
"""Opcodes that change elements of their first operand, one update after the other: roots as well, but each element of
their other operands is computed once, whatever their maps say of an element of the result.
"""

BUFFER_READERS = frozenset({"dynamic-update-slice", *UPDATE_ROOTS})
"""Opcodes with an operand that cannot be computed in the fusion: see `may_read_fused`. Its maps say that it is read
like any other; that it had better be a buffer, only the opcode says.
"""

MIN_CUT_ELEMENTS, MIN_CUT_ROW, MAX_BOXES = 1 << 14, 32, 16
"""Of a fusion whose loops are cut where the pieces of concatenates meet: its elements, those of a row of memory, and
the boxes that it is cut into. For fewer elements, loops are not worth their compilation."""

MAX_DIVISIONS = 6
"""How many instructions that divide indices may lie between a fusion's root and what it reads: with transposes between
them, every one makes index expressions some times larger."""

MAX_SCALAR_COST, EXPENSIVE_COST = 16, 8
"""Operations for each element of what an update root takes in, and as how many of them an expensive one counts."""

MIN_TURNED_BYTES = 1 << 16
"""What is smaller than a transposed operand of so many bytes is read across its rows from the nearest cache."""

FEW_READ = 8
"""As many times as much has a concatenate of which the part that is read is a few."""
_PARTS = frozenset({"dynamic-slice", "gather", "slice"})

MANY_ROWS, MIN_COLUMN_READS = 16, 1 << 14
"""For so many rows, and elements that are read, a column is copied first."""

_SINGLE_ELEMENTS = Trait.ELEMENTWISE | Trait.INDEX_ONLY


def is_expensive(instruction: HloInstruction) -> bool:
    """Whether computing an element twice costs more than storing and loading it."""
    return instruction.op.has(Trait.EXPENSIVE) or instruction.opcode == "gather"


def is_large_elementwise(instruction: HloInstruction, least_bytes: int) -> bool:
    """Whether an array of so many bytes is computed element by element, at the places of its operands' elements."""
    return (
        instruction.op.has(Trait.ELEMENTWISE)
        and physical_byte_size(instruction.shape) >= least_bytes
        and not changes_minor_dimension(instruction)
    )


def chooses_elements(instruction: HloInstruction) -> bool:
    """Whether an element costs no arithmetic: it is read somewhere else, or known from its index."""
    return instruction.op.has(Trait.INDEX_ONLY) or not instruction.operand_count or instruction.opcode == "pad"


def is_better_made_again(instruction: HloInstruction) -> bool:
    """Whether values are better made again than read from memory, wherever they are used: less is read for them."""
    if not instruction.operand_count:
        return True
    return (
        instruction.op.has(Trait.INDEX_ONLY)
        and instruction.operand(0).shape.num_elements < instruction.shape.num_elements
    )


def is_array_program(instruction: HloInstruction) -> bool:
    """Whether operands and result are static arrays and no control edge or side effect is involved."""
    if instruction.control_predecessors or instruction.control_successors:
        return False
    for operand in instruction.operands:  # a loop takes half the time of `all`, and is asked of nearly everything
        if not operand.shape.is_static_array:
            return False
    return instruction.shape.is_static_array


def may_be_producer(instruction: HloInstruction) -> bool:
    """Whether the instruction may be evaluated inside a fusion."""
    if instruction.opcode == "constant":
        return instruction.shape.is_scalar
    if changes_element_type(instruction):
        return False
    on_demand = instruction.opcode in ON_DEMAND or is_index_vector(instruction)
    if not (_is_of_single_elements(instruction) or on_demand):
        return False
    return is_array_program(instruction)


def is_index_vector(instruction: HloInstruction) -> bool:
    """Whether this joins the parts of the indices of gathers and nothing else: which of its operands an element is
    from is known wherever it is read."""
    if instruction.opcode != "concatenate" or not instruction.user_count:
        return False
    axis = instruction.attributes_as(ConcatenateAttributes).dimension
    return all(
        user.opcode == "gather"
        and user.operand(1) is instruction
        and user.operand(0) is not instruction
        and user.attributes_as(GatherAttributes).index_vector_dim == axis
        for user in instruction.users
    )


def edges_of_pieces(concatenate: HloInstruction) -> tuple[int, frozenset[int]]:
    """Returns the axis of a concatenate, and where along it its pieces meet."""
    axis = concatenate.attributes_as(ConcatenateAttributes).dimension
    ends = itertools.accumulate(operand.shape.dimensions[axis] for operand in concatenate.operands)
    return axis, frozenset(ends) - {0, concatenate.shape.dimensions[axis]}


def is_joined_by_readers(instruction: HloInstruction) -> bool:
    """Whether this is a concatenate that loops over what reads it can take in."""
    if instruction.opcode != "concatenate" or not is_array_program(instruction):
        return False
    return is_read_in_part(instruction) or _is_made_in_boxes(instruction)


def _is_made_in_boxes(instruction: HloInstruction) -> bool:
    """Whether this joins few large pieces for elementwise users, whose loops can be cut where the pieces meet.

    Rows of memory that are short had better be written as a whole.
    """
    axis, shape = instruction.attributes_as(ConcatenateAttributes).dimension, instruction.shape
    if shape.num_elements < MIN_CUT_ELEMENTS or is_tiled(shape):
        return False
    if shape.minor_to_major[0] == axis and shape.dimensions[axis] < MIN_CUT_ROW:
        return False
    return all(
        user.op.has(Trait.ELEMENTWISE) and user.shape.dimensions == shape.dimensions for user in instruction.users
    )


def is_read_in_part(concatenate: HloInstruction) -> bool:
    """Whether all that is read of a concatenate is a small part of it: loops over that ask for each element's piece."""
    parts = [u.shape.num_elements for u in concatenate.users if u.opcode in _PARTS and u.operand(0) is concatenate]
    return len(parts) == concatenate.user_count and FEW_READ * sum(parts) <= concatenate.shape.num_elements


def has_pieces_inside(instruction: HloInstruction) -> bool:
    """Whether a fusion joins pieces within its loop: alone, that is cut in boxes."""
    if instruction.opcode != "fusion":
        return False
    body = instruction.fused_instructions_computation
    return any(i.opcode == "concatenate" and not is_index_vector(i) for i in body.instructions if not i.is_root())


def may_be_root(instruction: HloInstruction) -> bool:
    """Whether the instruction may take producers in. Bitcasts may not: they are free where they are."""
    if instruction.opcode == "reduce" and instruction.shape.is_tuple:
        operands_fit = all(o.shape.is_array and o.shape.is_static for o in instruction.operands)
        return operands_fit and not (instruction.control_predecessors or instruction.control_successors)
    if not (_is_of_single_elements(instruction) or instruction.opcode in LOOP_ROOTS):
        return False
    return not instruction.op.has(Trait.PLUMBING) and is_array_program(instruction)


def may_be_update_root(instruction: HloInstruction) -> bool:
    """Whether the instruction changes an array, which is no loop over a result, and may take in producers."""
    return instruction.opcode in UPDATE_ROOTS and instruction.shape.is_array and is_array_program(instruction)


def _is_of_single_elements(instruction: HloInstruction) -> bool:
    return instruction.op.has(_SINGLE_ELEMENTS)


def may_read_fused(user: HloInstruction, position: int) -> bool:
    """Whether a member may have its operand at `position` computed in the fusion."""
    if user.opcode in BUFFER_READERS:
        return position != 0  # the target must stay a buffer, or nothing could be updated in place
    return True


def better_made_in_lanes(update: HloInstruction) -> set[HloInstruction]:
    """Returns the operands of an update root whose elements cost so much that a loop of their own makes them, in lanes.

    An update root goes through its indices one by one, and through its updates, too, where each is a single element.
    """
    if update.opcode not in UPDATE_ROOTS:
        return set()
    count = update.operand_count // 2
    in_order = list(update.operands[count : count + 1])
    if not update.attributes_as(ScatterAttributes).update_window_dims:
        in_order += update.operands[count + 1 :]
    return {o for o in in_order if may_be_producer(o) and _costs_more_than(o, MAX_SCALAR_COST)}


def _costs_more_than(instruction: HloInstruction, most: int) -> bool:
    """Whether an element, made of all that may be computed with it, takes more than `most` operations."""
    seen, stack, total = {instruction}, [instruction], 0
    while stack and total <= most:
        i = stack.pop()
        if not i.shape.is_scalar and not chooses_elements(i):
            total += EXPENSIVE_COST if is_expensive(i) else 1
        for o in i.operands:
            if o not in seen and may_be_producer(o) and not is_small_source(o, i):
                seen.add(o)
                stack.append(o)
    return total > most


def changes_minor_dimension(instruction: HloInstruction) -> bool:
    """Whether the instruction reads an operand of its rank across memory, as a transpose of what is minor does."""
    if not instruction.operand_count or not instruction.shape.rank:
        return False
    operand = instruction.operand(0).shape
    if operand.rank != instruction.shape.rank:
        return False
    if instruction.op.has(Trait.ELEMENTWISE) and operand.layout == instruction.shape.layout:
        return False  # needs no maps
    return reads_of(instruction)[0].walks_across(instruction.shape.minor_to_major[0], operand.minor_to_major[0])


def is_large_turned(instruction: HloInstruction) -> bool:
    """Whether this reads an array across memory that does not fit the nearest cache beside others."""
    return physical_byte_size(instruction.shape) >= MIN_TURNED_BYTES and changes_minor_dimension(instruction)


def is_read_across_rows(root: HloInstruction, instruction: HloInstruction, others: Iterable[HloInstruction]) -> bool:
    """Whether rows that a reduction walks along, reading others of its operands, lie across the rows of memory that a
    large producer reads: each element would be a cache line of its own. Turned before, by tiles, it is read once."""
    if root.opcode != "reduce" or not is_large_turned(instruction):
        return False
    rows = root.operand(0).shape
    if rows.minor_to_major[:1] != instruction.shape.minor_to_major[:1]:
        return False
    if rows.minor_to_major[0] not in root.attributes_as(DimensionsAttributes).dimensions:
        return False
    count = instruction.shape.num_elements
    return count == rows.num_elements and any(
        o.shape.is_array and o.shape.num_elements == count and not changes_minor_dimension(o)
        for o in others
        if o is not instruction
    )


def is_column_read_again(root: HloInstruction, instruction: HloInstruction, evaluations: float) -> bool:
    """Whether a reduction would read a column of an array, whose elements lie apart, for each of many rows."""
    if root.opcode != "reduce" or instruction.opcode != "slice" or evaluations < MIN_COLUMN_READS:
        return False
    minor = instruction.operand(0).shape.minor_to_major[:1]
    is_column = any(instruction.shape.dimensions[d] == 1 < instruction.operand(0).shape.dimensions[d] for d in minor)
    return is_column and evaluations >= MANY_ROWS * instruction.shape.num_elements


def may_be_duplicated(instruction: HloInstruction) -> bool:
    """Whether evaluations in several fusions may beat storing the value, which is `worth_duplicating` to say."""
    if is_expensive(instruction) or changes_minor_dimension(instruction):
        return False
    return instruction.op.has(Trait.ELEMENTWISE) or chooses_elements(instruction)


class LargeSources:
    """The arrays that elements of an instruction are computed from, one by one, through others like it.

    Those that cost little beside it are left out. Kept by instruction, as long as the graph stays as it is.
    """

    _MOST = 32
    """Instructions that are looked at; what takes more has no sources that are known."""

    def __init__(self) -> None:
        self._known: dict[HloInstruction, tuple[frozenset[HloInstruction], int]] = {}

    def of(self, instruction: HloInstruction) -> frozenset[HloInstruction]:
        """Returns the sources; none if they are not known."""
        return self._look(instruction)[0]

    def num_transcendental(self, instruction: HloInstruction) -> int:
        """Returns how many transcendental functions make an element of its sources' elements, its own included."""
        return self._look(instruction)[1]

    def _look(self, instruction: HloInstruction) -> tuple[frozenset[HloInstruction], int]:
        known = self._known.get(instruction)
        if known is None:
            known = self._known[instruction] = self._find(instruction)
        return known

    def _find(self, instruction: HloInstruction) -> tuple[frozenset[HloInstruction], int]:
        found: set[HloInstruction] = set()
        seen, stack = {instruction}, [instruction]
        while stack:
            i = stack.pop()
            if not (i.operand_count and (i.op.has(Trait.ELEMENTWISE) or i.opcode == "bitcast") and may_be_producer(i)):
                found.add(i)
                continue
            for operand in i.operands:
                if operand not in seen and not is_small_source(operand, i):
                    seen.add(operand)
                    stack.append(operand)
            if len(seen) > self._MOST:
                return frozenset(), 0
        return frozenset(found), sum(i.op.has(Trait.TRANSCENDENTAL) for i in seen - found)


def worth_duplicating(instruction: HloInstruction, copies: int, materialized: bool) -> bool:
    """Whether `copies` evaluations in several fusions beat storing the value once and loading it `copies` times.

    Only for what `may_be_duplicated` and reads memory anyway: if an operand could be fused into a stored value, storing
    is better.
    """
    if chooses_elements(instruction):
        return True
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
