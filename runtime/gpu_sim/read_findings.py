"""From the table of findings that native code fills to `Finding`s: names of objects, coordinates of threads."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.runtime.gpu_sim.findings import Access, Finding, FindingKind, Place
from xjit.runtime.gpu_sim.host_kernel import HostKernel
from xjit.runtime.gpu_sim.records import FINDING
from xjit.thunks.gpu_kernel import Extent, LaunchDimensions

_RACES = (FindingKind.RACE, FindingKind.RACE_OF_BLOCKS)


def read_findings(
    records: bytes, host: HostKernel, sizes: Sequence[int], launch: LaunchDimensions, reverse: bool
) -> tuple[Finding, ...]:
    """Returns the findings. `sizes` are the bytes of the objects, by number; `reverse` is the order of the blocks."""
    starts = range(0, len(records), FINDING.size)
    fields = (FINDING.unpack(records[start : start + FINDING.size]) for start in starts)
    return tuple(_finding(f, host, sizes, launch, reverse) for f in fields)


def _finding(
    fields: dict[str, int], host: HostKernel, sizes: Sequence[int], launch: LaunchDimensions, reverse: bool
) -> Finding:
    kind = FindingKind(fields["kind"])

    def place(thread: int, ordinal: int) -> Place:
        block = launch.num_blocks - 1 - ordinal if reverse else ordinal
        return Place(_coordinates(thread, launch.threads), _coordinates(block, launch.blocks))

    other = place(fields["other_thread"], fields["other_ordinal"]) if kind in _RACES else None
    return Finding(
        kind=kind,
        code=host.sites[fields["site"]],
        where=place(fields["thread"], fields["ordinal"]),
        target=_object_name(fields["object"], host, sizes),
        offset=fields["offset"],
        size=fields["bytes"],
        other=other,
        other_access=_access_name(Access(fields["other_access"])) if other else "",
    )


def _object_name(number: int, host: HostKernel, sizes: Sequence[int]) -> str:
    if number < 0:
        return "no buffer"
    size = f"({sizes[number]} bytes)"
    if number < len(host.parameters):
        return f"argument {number} {size}"
    variable = host.variables[number - len(host.parameters)]
    return f"{'shared' if variable.is_shared else 'global'} variable {variable.name} {size}"


def _access_name(access: Access) -> str:
    if Access.ATOMIC in access:
        return "an atomic operation"
    return "a write" if Access.WRITE in access else "a read"


def _coordinates(linear: int, extents: Extent) -> Extent:
    x, y, _ = extents
    return (linear % x, linear // x % y, linear // (x * y))
