"""Where an instruction of a module comes from: for errors that know its name only."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.hlo.annotations.metadata import FileLocation, OpMetadata, StackFrameIndex
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
    candidates = _with_inner(instruction)
    span = next((i.span for i in candidates if i.span is not None), None)
    notes = (source_note(i.metadata, module.stack_frame_index) for i in candidates)
    note = next(filter(None, notes), "")
    return span, (note,) if note else ()


def _with_inner(instruction: HloInstruction) -> list[HloInstruction]:
    """The instruction; of a fusion, also those inside, the last first."""
    if instruction.opcode != "fusion":
        return [instruction]
    return [instruction, *instruction.called_computations[0].make_instruction_post_order()[::-1]]


def source_note(metadata: OpMetadata, frames: StackFrameIndex) -> str:
    """Returns "from model.py:12 (jit(f)/dot)"; what metadata does not have is left out, "" if it has nothing."""
    file, line = metadata.source_file, metadata.source_line
    location = None if file else innermost_frame(metadata.stack_frame_id, frames)
    if location is not None:
        file, line = frames.file_names[location.file_name_id - 1], location.line
    place = f"from {file}:{line}" if file and line else file and f"from {file}"
    name = metadata.op_name and f"({metadata.op_name})"
    return " ".join(filter(None, (place, name)))


def innermost_frame(number: int, frames: StackFrameIndex) -> FileLocation | None:
    """Returns the location of a stack frame, ids count from 1; None if the tables do not have it, or not its file."""
    if not 0 < number <= len(frames.stack_frames):
        return None
    location_id = frames.stack_frames[number - 1].file_location_id
    if not 0 < location_id <= len(frames.file_locations):
        return None
    location = frames.file_locations[location_id - 1]
    return location if 0 < location.file_name_id <= len(frames.file_names) else None


def kernel_sources(module: HloModule, names: Sequence[str]) -> tuple[str, ...]:
    """Returns the note on the source of each named instruction, "" for none; of a fusion, the last that has one."""
    wanted = set(names)
    found = {i.name: i for c in module.computations() for i in c.instructions if i.name in wanted}
    notes: dict[str, str] = {}
    for name, instruction in found.items():
        candidates = (source_note(i.metadata, module.stack_frame_index) for i in _with_inner(instruction))
        notes[name] = next(filter(None, candidates), "")
    return tuple(notes.get(name, "") for name in names)
