"""Locations of MLIR as metadata: names of operations, and the frames of Python that they come from."""

from __future__ import annotations

from typing import Any

from xjit.frontends.stablehlo_reader.declined import Declined
from xjit.hlo.annotations.metadata import NO_METADATA, FileLocation, OpMetadata, StackFrame, StackFrameIndex

_Place = tuple[str, str, int, int, int, int]
"""A file, a function in it, its first and last line and column."""

_Row = tuple[_Place, int]
"""A frame: its place, and the number of its caller's."""


class Places:
    """The metadata of a module's instructions, and the tables behind them."""

    def __init__(self) -> None:
        from jaxlib.mlir import ir

        self._name, self._call, self._line, self._unknown = ir.NameLoc, ir.CallSiteLoc, ir.FileLineColLoc, ir.UnknownLoc
        self._metadata: dict[Any, OpMetadata] = {}
        self._frames: dict[tuple[Any, int], int] = {}  # by location and caller
        self._rows: dict[_Row, int] = {}

    def metadata(self, location: Any) -> OpMetadata:
        """Returns what a location says. Errors: Declined for several in one."""
        found = self._metadata.get(location)
        if found is None:
            found = self._metadata[location] = self._read(location)
        return found

    @property
    def index(self) -> StackFrameIndex:
        """The tables."""
        files: dict[str, int] = {}
        functions: dict[str, int] = {"": 0}
        locations: dict[_Place, int] = {}
        frames: list[StackFrame] = []
        for place, caller in self._rows:
            frames.append(StackFrame(locations.setdefault(place, len(locations) + 1), caller + 1))
        rows = [
            FileLocation(files.setdefault(file, len(files) + 1), functions.setdefault(name, len(functions)), *numbers)
            for file, name, *numbers in locations
        ]
        return StackFrameIndex(tuple(files), tuple(functions)[1:], tuple(rows), tuple(frames))

    def _read(self, location: Any) -> OpMetadata:
        if type(location) is self._unknown:
            return NO_METADATA
        if type(location) is not self._name:
            raise Declined(f"location {location}")
        name = location.name_str.removesuffix(":")  # what may follow is the operation's type
        if ":" in name:
            raise Declined(f"the name {name}")
        frame = self._frame(location.child_loc, 0)
        return OpMetadata(op_name=name, stack_frame_id=frame) if name or frame else NO_METADATA

    def _frame(self, location: Any, caller: int) -> int:
        """The number of a frame, from 1; 0 for an unknown one. `caller` is that of its caller."""
        key = location, caller
        found = self._frames.get(key)
        if found is None:
            found = self._frames[key] = self._new_frame(location, caller)
        return found

    def _new_frame(self, location: Any, caller: int) -> int:
        kind = type(location)
        if kind is self._unknown:
            return caller
        if kind is self._call:
            return self._frame(location.callee, self._frame(location.caller, caller))
        line, function = (location.child_loc, location.name_str) if kind is self._name else (location, "")
        if type(line) is self._call or type(line) is self._unknown:
            return self._frame(line, caller)
        if type(line) is not self._line:
            raise Declined(f"location {location}")
        place = line.filename, function, line.start_line, line.end_line, line.start_col, line.end_col
        return self._rows.setdefault((place, caller), len(self._rows) + 1)
