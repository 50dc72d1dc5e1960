"""What an instruction carries besides its meaning: source metadata and sharding."""

from __future__ import annotations

from xjit.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class OpMetadata:
    """Where an instruction comes from. `extra` keeps further `key=value` pairs of the text as they were written."""

    op_type: str = ""
    op_name: str = ""
    source_file: str = ""
    source_line: int = 0
    source_end_line: int = 0
    source_column: int = 0
    source_end_column: int = 0
    stack_frame_id: int = 0
    scheduling_name: str = ""
    deduplicated_name: str = ""
    extra: tuple[tuple[str, str], ...] = ()


NO_METADATA = OpMetadata()
"""That of instructions that have none: mostly this object, so that comparing it by identity first pays."""


@dataclass(frozen=True, slots=True)
class HloSharding:
    """How a value is split over devices. `text` is the HLO text inside the braces; tuples have `elements`."""

    text: str = ""
    elements: tuple[HloSharding, ...] = ()

    def __str__(self) -> str:
        if self.elements:
            return "{" + ", ".join(map(str, self.elements)) + "}"
        return "{" + self.text + "}"


@dataclass(frozen=True, slots=True)
class FileLocation:
    """A range of a source file; ids count from 1 into the tables of StackFrameIndex."""

    file_name_id: int = 0
    function_name_id: int = 0
    line: int = 0
    end_line: int = 0
    column: int = 0
    end_column: int = 0


@dataclass(frozen=True, slots=True)
class StackFrame:
    """One frame: its location and its parent, as in HLO text (both count from 1; a frame without parent has 1 or 0)."""

    file_location_id: int = 0
    parent_frame_id: int = 0


@dataclass(frozen=True, slots=True)
class StackFrameIndex:
    """The tables behind `stack_frame_id` of the instructions' metadata."""

    file_names: tuple[str, ...] = ()
    function_names: tuple[str, ...] = ()
    file_locations: tuple[FileLocation, ...] = ()
    stack_frames: tuple[StackFrame, ...] = ()
