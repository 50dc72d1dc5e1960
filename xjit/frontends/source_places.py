"""Places in Python for the instructions of modules that were no text: errors show the line that made an instruction."""

from __future__ import annotations

import linecache

from xjit.hlo.diagnostics import Span
from xjit.hlo.ir.module import HloModule
from xjit.hlo.ir.places import innermost_frame


class PythonPlaces:
    """The places of a module's stack frames: a `SpanSource` whose indices are numbers of frames."""

    __slots__ = ("_frames",)

    def __init__(self, module: HloModule) -> None:
        self._frames = module.stack_frame_index

    def span(self, index: int) -> Span:
        """Returns the place of the innermost location of a frame; ids count from 1."""
        location = innermost_frame(index, self._frames)
        assert location is not None, f"no stack frame {index}"
        name = self._frames.file_names[location.file_name_id - 1]
        ends_here = location.end_line == location.line and location.end_column > location.column
        length = location.end_column - location.column if ends_here else 1
        line_text = linecache.getline(name, location.line).rstrip("\n")
        return Span(location.line, location.column + 1, length, line_text, name)


def place_in_python(module: HloModule) -> HloModule:
    """Gives instructions that have no place the one of their stack frame; returns the module."""
    places = PythonPlaces(module)
    for computation in module.computations():
        for instruction in computation.instructions:
            frame = instruction.metadata.stack_frame_id
            if instruction.place is None and innermost_frame(frame, module.stack_frame_index) is not None:
                instruction.place = (places, frame)
    return module
