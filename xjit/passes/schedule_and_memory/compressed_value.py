"""A value that waits for its later readers in a layout that takes fewer bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, Shape
from xjit.passes.schedule_and_memory.clone_reading import CloneReading, Insertions, replace_later_reads
from xjit.passes.schedule_and_memory.memory_profile import MemoryProfile, ShapeSize

CompactShape = Callable[[Shape], Shape]
"""The array with the layout in which it takes least memory."""


def untiled(shape: Shape) -> Shape:
    """Returns the shape without the tiles of its layout, which round dimensions up."""
    layout = shape.layout
    return shape if layout is None or not layout.tiles else shape.with_layout(replace(layout, tiles=()))


@dataclass(frozen=True)
class CompressedValue:
    """A value that is copied to a compact layout behind its last reader before `place`, and back in front of the next.

    `readers` are those behind the place, in order.
    """

    profile: MemoryProfile
    value: HloInstruction
    compact: Shape
    saved: int
    place: int
    readers: list[HloInstruction]

    @staticmethod
    def of(
        profile: MemoryProfile, value: HloInstruction, place: int, compact_shape: CompactShape, byte_size: ShapeSize
    ) -> CompressedValue | None:
        """Returns how an array waits; None if nothing behind the place reads it, or it is compact as it is.

        What runs at the place must not read it.
        """
        if not value.shape.is_array or value.shape.layout is None:
            return None
        compact = compact_shape(value.shape)
        saved = byte_size(value.shape) - byte_size(compact)
        later = profile.readers_behind(value, place) if saved > 0 else []
        return CompressedValue(profile, value, compact, saved, place, later) if later else None

    def needed(self) -> int:
        """Returns the most that one of the copies takes."""
        return max(self._during())

    def apply(self) -> None:
        """Inserts both copies."""
        profile = self.profile
        (buffer,) = profile.buffers(self.value)
        start, target = self._ends()
        there, back = self._during()
        profile.totals[start:target] -= self.saved
        packed = self._copy(self.value, self.compact, "compressed")
        unpacked = self._copy(packed, self.value.shape, "uncompressed")
        clones = CloneReading(profile)
        clones.add(self.value, unpacked)
        new: Insertions = {start: [packed], target: [unpacked]}
        replace_later_reads(profile, clones, [buffer], self.readers, new, {packed: there, unpacked: back})

    def _ends(self) -> tuple[int, int]:
        """Returns the positions in front of which the copies run."""
        (buffer,) = self.profile.buffers(self.value)
        return self.profile.last_before(buffer, self.place) + 1, self.profile.position(self.readers[0])

    def _during(self) -> tuple[int, int]:
        """Returns the bytes live while each of the copies runs."""
        start, target = self._ends()
        size = sum(b.byte_size for b in self.profile.buffers(self.value)) - self.saved
        return self.profile.entering(start) + size, self.profile.entering(target) + size

    def _copy(self, source: HloInstruction, shape: Shape, what: str) -> HloInstruction:
        computation = self.value.parent
        assert computation is not None
        copy = HloInstruction.create("copy", shape, [source])
        copy.metadata = self.value.metadata
        return computation.add_instruction(copy, f"{self.value.name}.remat_{what}")
