"""What the runtime must know of a collective: who meets, and how the bytes of the operands become those of results.

Generated code hands it over as text; groups are lists of devices, so nothing is left of channels and modes of ids.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class MovedArray:
    """An operand as `rows` of `row_bytes` each: the dimensions before the collective's, and from it on."""

    rows: int
    row_bytes: int

    @property
    def num_bytes(self) -> int:
        """Bytes of the array."""
        return self.rows * self.row_bytes


@dataclass(frozen=True, slots=True)
class CollectiveSpec:
    """One collective of a program.

    Args:
        opcode: that of HLO; the runtime moves bytes only, so there is none that reduces.
        instruction: its name, for errors.
        channel: keeps collectives apart that are alike otherwise.
        groups: the devices that meet, each group in its order.
        operands: the operands, in order.
        pairs: of a collective-permute: (source, target) devices.
        is_split: of an all-to-all: the operand is cut along its dimension; else there is an operand per member.
        index_type: of a ragged-all-to-all: the type of its offsets and sizes, in HLO's spelling.
    """

    opcode: str
    instruction: str
    channel: int
    groups: Groups
    operands: tuple[MovedArray, ...]
    pairs: Groups = ()
    is_split: bool = False
    index_type: str = ""

    @property
    def devices(self) -> str:
        """Who meets, in words: `devices={{0,1},{2,3}}`."""
        groups = ",".join(f"{{{','.join(map(str, group))}}}" for group in self.groups)
        return f"devices={{{groups}}}"

    def to_text(self) -> str:
        """The spec as JSON, which `collective_spec_from_text` reads."""
        return json.dumps(asdict(self))


def collective_spec_from_text(text: str) -> CollectiveSpec:
    """Reads a spec."""
    fields = json.loads(text)
    for name in ("groups", "pairs"):
        fields[name] = tuple(tuple(row) for row in fields[name])
    fields["operands"] = tuple(MovedArray(**array) for array in fields["operands"])
    return CollectiveSpec(**fields)
