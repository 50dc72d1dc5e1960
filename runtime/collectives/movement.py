"""Moves the data of a collective: all members have come, and wait until their results are complete."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from xjit.dataclass import dataclass
from xjit.hlo.diagnostics import ExecutionError
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.thunks.collective_spec import CollectiveSpec, MovedArray

Bytes = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]


@dataclass(frozen=True, slots=True)
class Places:
    """Where the operands and the results of one device lie: addresses."""

    operands: tuple[int, ...]
    results: tuple[int, ...]


AllPlaces = Mapping[int, Places]
"""By device."""


def move(spec: CollectiveSpec, members: Sequence[int], places: AllPlaces) -> None:
    """Writes the results of all members. Errors: ExecutionError for offsets that are out of range."""
    _MOVES[spec.opcode](spec, members, places)


def clear_results(spec: CollectiveSpec, places: Places) -> None:
    """Fills the results, shaped as the operands, with zeros."""
    for array, result in zip(spec.operands, places.results, strict=True):
        ctypes.memset(result, 0, array.num_bytes)


def _copy(target: int, source: int, num_bytes: int) -> None:
    ctypes.memmove(target, source, num_bytes)


def _bytes(address: int, *dimensions: int) -> Bytes:
    """The memory at an address as an array of bytes."""
    size = int(np.prod(dimensions, dtype=np.int64))
    return np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(address)), np.uint8).reshape(dimensions)


def _all_gather(spec: CollectiveSpec, members: Sequence[int], places: AllPlaces) -> None:
    """Result rows are the members' operand rows side by side."""
    count = len(members)
    for number, array in enumerate(spec.operands):
        if not array.num_bytes:
            continue
        first = _bytes(places[members[0]].results[number], array.rows, count, array.row_bytes)
        for position, member in enumerate(members):
            first[:, position] = _bytes(places[member].operands[number], array.rows, array.row_bytes)
        for member in members[1:]:
            _copy(places[member].results[number], places[members[0]].results[number], count * array.num_bytes)


def _all_to_all(spec: CollectiveSpec, members: Sequence[int], places: AllPlaces) -> None:
    """Part k of a member's result is what member k has for it."""
    for position, member in enumerate(members):
        for k, source in enumerate(members):
            if not spec.is_split:
                size = spec.operands[position].num_bytes
                _copy(places[member].results[k], places[source].operands[position], size)
                continue
            (array,) = spec.operands
            if not array.num_bytes:
                continue
            cut = (array.rows, len(members), array.row_bytes // len(members))
            result, operand = _bytes(places[member].results[0], *cut), _bytes(places[source].operands[0], *cut)
            result[:, k] = operand[:, position]


def _broadcast(spec: CollectiveSpec, members: Sequence[int], places: AllPlaces) -> None:
    source = places[members[0]].operands
    for member in members:
        for number, array in enumerate(spec.operands):
            _copy(places[member].results[number], source[number], array.num_bytes)


def _permute(spec: CollectiveSpec, members: Sequence[int], places: AllPlaces) -> None:
    sources = {target: source for source, target in reversed(spec.pairs)}  # of several the first counts
    for member in members:
        source = sources.get(member)
        if source is None:
            clear_results(spec, places[member])
            continue
        for number, array in enumerate(spec.operands):
            _copy(places[member].results[number], places[source].operands[number], array.num_bytes)


def _ragged_all_to_all(spec: CollectiveSpec, members: Sequence[int], places: AllPlaces) -> None:
    """Rows of the operands go where offsets say; a result is the second operand elsewhere."""
    kind = PrimitiveType.from_text(spec.index_type).dtype
    source, output, offsets = spec.operands[:3]
    numbers = offsets.num_bytes // kind.itemsize
    each = numbers // len(members)
    for member in members:
        _copy(places[member].results[0], places[member].operands[1], output.num_bytes)
    for sender in members:
        given = places[sender].operands
        begins, sizes, targets = (_numbers(given[i], numbers, kind) for i in (2, 3, 4))
        for i, (begin, size, target) in enumerate(zip(begins, sizes, targets, strict=True)):
            _check_rows(spec, sender, begin, size, source)
            _check_rows(spec, sender, target, size, output)
            result = places[members[i // each]].results[0]
            _copy(result + target * output.row_bytes, given[0] + begin * source.row_bytes, size * source.row_bytes)


def _numbers(address: int, count: int, kind: np.dtype[Any]) -> list[int]:
    return [int(n) for n in _bytes(address, count * kind.itemsize).view(kind)]


def _check_rows(spec: CollectiveSpec, device: int, begin: int, size: int, array: MovedArray) -> None:
    if not (size >= 0 <= begin and begin + size <= array.rows):
        what = f"{spec.opcode} '{spec.instruction}': device {device} asks for rows {begin} to {begin + size}"
        raise ExecutionError(f"{what} of {array.rows}")


_MOVES: Mapping[str, Callable[[CollectiveSpec, Sequence[int], AllPlaces], None]] = MappingProxyType(
    {
        "all-gather": _all_gather,
        "all-to-all": _all_to_all,
        "collective-broadcast": _broadcast,
        "collective-permute": _permute,
        "ragged-all-to-all": _ragged_all_to_all,
    }
)
