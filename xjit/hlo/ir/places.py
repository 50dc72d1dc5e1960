"""Where an instruction of a module comes from: for errors that know its name only."""

from __future__ import annotations

from xjit.hlo.annotations.metadata import OpMetadata, StackFrameIndex
from xjit.hlo.diagnostics import Span
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.module import HloModule


def find_place(module: HloModule, name: str) -> tuple[Span | None, tuple[str, ...]]:
    """Returns the span of an instruction in the text it was parsed from, and a note on the source its metadata names.

    A fusion that no text has is where the first of its instructions is that a text has. What is not known is left out.
    """
    found = (i for c in module.computations() for i in c.instructions if i.name == name)
    instruction = next(found, None)
    if instruction is None:
        return None, ()
    candidates = [instruction, *_inside(instruction)]
    span = next((i.span for i in candidates if i.span is not None), None)
    notes = (source_note(i.metadata, module.stack_frame_index) for i in candidates)
    note = next(filter(None, notes), "")
    return span, (note,) if note else ()


def _inside(instruction: HloInstruction) -> list[HloInstruction]:
    """The instructions of a fusion, the last first."""
    if instruction.opcode != "fusion":
        return []
    return instruction.called_computations[0].make_instruction_post_order()[::-1]


def source_note(metadata: OpMetadata, frames: StackFrameIndex) -> str:
    """Returns "from model.py:12 (jit(f)/dot)"; what metadata does not have is left out, "" if it has nothing."""
    file, line = metadata.source_file, metadata.source_line
    if not file:
        file, line = _innermost_frame(metadata.stack_frame_id, frames)
    place = f"from {file}:{line}" if file and line else file and f"from {file}"
    name = metadata.op_name and f"({metadata.op_name})"
    return " ".join(filter(None, (place, name)))


def _innermost_frame(number: int, frames: StackFrameIndex) -> tuple[str, int]:
    """File and line of a stack frame; ids count from 1."""
    if not 0 < number <= len(frames.stack_frames):
        return "", 0
    location_id = frames.stack_frames[number - 1].file_location_id
    if not 0 < location_id <= len(frames.file_locations):
        return "", 0
    location = frames.file_locations[location_id - 1]
    known = 0 < location.file_name_id <= len(frames.file_names)
    return (frames.file_names[location.file_name_id - 1], location.line) if known else ("", 0)
