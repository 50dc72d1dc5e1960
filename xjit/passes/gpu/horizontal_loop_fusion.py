"""Small kernels that do not need each other become one, whose elements lie one after the other."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction, HloModule, Shape
from xjit.hlo.attributes import FusionAttributes
from xjit.hlo.edit.replacing import inherit_annotations
from xjit.ops import build
from xjit.passes.analysis.call_graph import CallGraph
from xjit.passes.analysis.tuple_elements import element_index
from xjit.passes.framework import analyses
from xjit.passes.framework.base import HloModulePass, has_control_dependencies

BYTES_PER_ARGUMENT = 8
MAX_ARGUMENT_BYTES = 4000
"""What a kernel may get in parameters."""


@dataclass
class GpuHorizontalLoopFusion(HloModulePass):
    """Fuses elementwise instructions and loop fusions that only one instruction reads.

    Each writes `max_elements` elements at most, of one type, row-major, by `max_instructions` instructions at most.
    Those of one type, with as many results and instructions, are fused, `max_members` at a time: results are
    concatenated as vectors, and each is sliced out again.
    """

    name = "horizontal-loop-fusion"
    max_elements: int = 128 * 2048
    max_instructions: int = 30
    max_members: int = 32

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Fuses the operands of every instruction and of every new fusion, users first; True if anything was fused."""
        changed = False
        for computation in analyses.get(CallGraph, module).sequential:
            if execution_threads and computation.execution_thread not in execution_threads:
                continue
            worklist = computation.make_instruction_post_order()
            while worklist:
                consumer = worklist.pop()
                if consumer.parent is computation:
                    fused = [_fuse(computation, group) for group in self._groups(self._candidates(consumer))]
                    worklist += fused  # what a group read alone, nothing but its fusion reads now
                    changed |= bool(fused)
        return changed

    def _candidates(self, consumer: HloInstruction) -> list[HloInstruction]:
        """Returns the loops that only one instruction (and the root) reads, without those that share parameters."""
        loops = dict.fromkeys(
            o.operand(0) if o.opcode == "get-tuple-element" else o for o in consumer.unique_operands()
        )
        found = [i for i in loops if self._may_be_fused(i) and _is_read_only_by(i, consumer)]
        readers: dict[HloInstruction, int] = {}
        for operand in (o for i in found for o in i.unique_operands() if o.opcode == "parameter"):
            readers[operand] = readers.get(operand, 0) + 1
        return [i for i in found if all(readers.get(o, 1) == 1 for o in i.operands)]

    def _may_be_fused(self, loop: HloInstruction) -> bool:
        if not loop.operand_count or has_control_dependencies(loop) or loop.has_side_effect():
            return False
        body = [loop]
        if loop.opcode == "fusion":
            if not loop.is_loop_fusion():
                return False
            body = [i for i in loop.fused_instructions_computation.instructions if i.opcode != "tuple"]
        elif not loop.is_elementwise() or loop.opcode in ("map", "copy"):
            return False
        results = _results(loop.shape)
        return (
            len(body) <= self.max_instructions
            and len({s.element_type for s in results}) == 1
            and all(s.is_static_array and 0 < s.num_elements <= self.max_elements for s in results)
            and all(i.shape.is_row_major for i in (*body, *loop.operands))
        )

    def _groups(self, candidates: Sequence[HloInstruction]) -> list[list[HloInstruction]]:
        """Returns those of one kind together, as many as a kernel can take."""
        groups: list[list[HloInstruction]] = []
        last: object = None
        arguments = 0
        for loop in sorted(candidates, key=_kind):
            added = loop.operand_count + len(_results(loop.shape))
            full = groups and (
                len(groups[-1]) == self.max_members or (arguments + added) * BYTES_PER_ARGUMENT >= MAX_ARGUMENT_BYTES
            )
            if _kind(loop) != last or full:
                groups.append([])
                arguments, last = 0, _kind(loop)
            groups[-1].append(loop)
            arguments += added
        return [group for group in groups if len(group) > 1]


def _kind(loop: HloInstruction) -> tuple[str, int, int]:
    results = _results(loop.shape)
    size = loop.fused_instructions_computation.instruction_count if loop.opcode == "fusion" else 1
    return results[0].element_type.text, len(results), size


def _results(shape: Shape) -> Sequence[Shape]:
    return shape.tuple_shapes if shape.is_tuple else (shape,)


def _is_read_only_by(loop: HloInstruction, consumer: HloInstruction) -> bool:
    """Whether nothing but one instruction, or besides it the root, reads a loop or its elements."""
    if loop.is_root():
        return False
    if loop.shape.is_tuple:
        elements = loop.users
        return all(e.opcode == "get-tuple-element" and _is_read_only_by(e, consumer) for e in elements)
    return all(u is consumer or u.is_root() for u in loop.users) and not has_control_dependencies(loop)


def _fuse(computation: HloComputation, group: Sequence[HloInstruction]) -> HloInstruction:
    """Replaces loops by the slices of one fusion, and returns it."""
    module = computation.parent
    assert module is not None
    body = HloComputation("horizontally_fused_computation")
    operands = list(dict.fromkeys(o for loop in group for o in loop.operands))
    parameters = {
        o: body.add_instruction(HloInstruction.create_parameter(n, o.shape, f"param_{n}"))
        for n, o in enumerate(operands)
    }
    results = [_clone(body, loop, [parameters[o] for o in loop.operands]) for loop in group]
    pieces = [_concatenated_and_cut(body, [r[slot] for r in results]) for slot in range(len(results[0]))]
    root = body.add_instruction(HloInstruction.create_tuple([p for slot in pieces for p in slot]))
    for instruction in body.instructions:
        inherit_annotations(instruction, group[0])
    body.set_root_instruction(root)
    module.add_embedded_computation(body, computation)
    attributes = FusionAttributes("kInput")
    fusion = HloInstruction.create("fusion", root.shape, operands, attributes, [body], "horizontal_fusion")
    inherit_annotations(fusion, group[0])
    computation.add_instruction(fusion)
    for number, loop in enumerate(group):
        for read in loop.users if loop.shape.is_tuple else (loop,):
            slot = element_index(read) if loop.shape.is_tuple else 0
            element = HloInstruction.create_get_tuple_element(fusion, slot * len(group) + number)
            flat = computation.add_instruction(element)
            shaped = computation.add_instruction(HloInstruction.create("reshape", read.shape, [flat]))
            read.replace_all_uses_with(shaped)
            shaped.copy_annotations_from(read)
    for loop in group:
        for element in loop.users:
            computation.remove_instruction(element)
        bodies = loop.called_computations
        computation.remove_instruction(loop)
        for unused in bodies:
            if not unused.caller_instructions():
                module.remove_embedded_computation(unused)
    return fusion


def _clone(body: HloComputation, loop: HloInstruction, operands: Sequence[HloInstruction]) -> Sequence[HloInstruction]:
    """Clones what a loop computes; returns its results."""
    if loop.opcode != "fusion":
        return [body.add_instruction(loop.clone_with_new_operands(loop.shape, operands))]
    inner = loop.fused_instructions_computation
    copies = inner.clone_instructions(body, dict(zip(inner.parameter_instructions, operands, strict=True)))
    root = copies[inner.root_instruction]
    if not loop.shape.is_tuple:
        return [root]
    elements = root.operands
    body.remove_instruction(root)
    return elements


def _concatenated_and_cut(body: HloComputation, values: Iterable[HloInstruction]) -> list[HloInstruction]:
    """Puts arrays one after the other as vectors; returns the slices that they are."""
    vectors = [body.add_instruction(build.reshape(v, [math.prod(v.shape.dimensions)])) for v in values]
    whole = body.add_instruction(build.concatenate(vectors, 0))
    pieces: list[HloInstruction] = []
    begin = 0
    for vector in vectors:
        end = begin + vector.shape.dimensions[0]
        pieces.append(body.add_instruction(build.slice_(whole, [begin], [end])))
        begin = end
    return pieces
