"""Numbers that a loop keeps in registers from round to round, where its code stands in one function.

A number in memory costs a store and a load per round, and the load waits for the store. Which numbers need not go
through memory is decided by the slices that the loop's thunks read and write; memory holds what others read there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from xjit.emitters.entry.slice_pointers import SlicePointers
from xjit.emitters.planners.inline import is_number
from xjit.hlo.ir.post_order import extend_post_order
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.hlo.types.shape import Shape
from xjit.llvm.builder import IRBuilder
from xjit.llvm.conversions import ComplexValue, RegisterValue, is_narrow_float, load_convert, store_convert
from xjit.llvm.element_types import storage_type
from xjit.llvm.function import Block, Phi
from xjit.llvm.types import I64
from xjit.llvm.values import Value, const_int
from xjit.thunks import (
    BufferSlice,
    ConditionalThunk,
    CopyThunk,
    InlineThunk,
    KernelThunk,
    Thunk,
    ThunkSequence,
    WhileThunk,
    called_sequences,
)


@dataclass(frozen=True, slots=True)
class LoopNumber:
    """A number of a loop. One that is `carried` enters each round; otherwise the round writes it before it reads it.

    One `in_memory` is stored whenever it is written, as something else may read it there; others after the loop.
    """

    element_type: PrimitiveType
    carried: bool
    written: bool
    in_memory: bool


def loop_numbers(loop: WhileThunk, sequences: Mapping[str, ThunkSequence]) -> dict[BufferSlice, LoopNumber]:
    """Returns the numbers that need not be read from memory in a loop whose condition and body are code in place."""
    condition, body = sequences[loop.condition].thunks, sequences[loop.body].thunks
    types = _types((*condition, *body), sequences)
    accesses = [*_accesses(condition, sequences, types), _Access(loop.predicate, PrimitiveType.PRED)]
    in_condition = len(accesses)
    accesses += _accesses(body, sequences, types)
    by_place: dict[BufferSlice, list[tuple[int, _Access]]] = {}
    for number, access in enumerate(accesses):
        by_place.setdefault(access.slice, []).append((number, access))
    numbers: dict[BufferSlice, LoopNumber] = {}
    for place, own in by_place.items():
        found = {a.element_type for _, a in own if a.writes or a.element_type is not None}
        element_type = next(iter(found)) if len(found) == 1 else None
        if element_type is None or place.kind == "constant":
            continue
        if any(place.overlaps(other) for other in by_place if other != place):
            continue
        writes = [n for n, a in own if a.writes]
        carried = not own[0][1].writes
        read_elsewhere = any(a.element_type is None for _, a in own)
        in_memory = read_elsewhere or (not carried and writes[0] >= in_condition)
        numbers[place] = LoopNumber(element_type, carried, bool(writes), in_memory)
    return numbers


def _types(thunks: Sequence[Thunk], sequences: Mapping[str, ThunkSequence]) -> dict[BufferSlice, PrimitiveType]:
    """Returns the types of the places that hold numbers of one type only, whoever reads or writes them.

    A place may hold one thing after another. A copy moves what its source holds then: both have one type, or none.
    """
    found: dict[BufferSlice, set[PrimitiveType | None]] = {}
    copies: dict[BufferSlice, list[BufferSlice]] = {}
    for thunk in _all_thunks(thunks, sequences):
        match thunk:
            case InlineThunk() | KernelThunk():
                for place in (*thunk.operands, *thunk.results):
                    found.setdefault(place.slice, set()).add(_number_type(place.shape))
            case CopyThunk():
                copies.setdefault(thunk.source, []).append(thunk.destination)
                copies.setdefault(thunk.destination, []).append(thunk.source)
            case _:
                pass
    types: dict[BufferSlice, PrimitiveType] = {}
    seen: set[BufferSlice] = set()
    for place in {**found, **copies}:
        group: list[BufferSlice] = []
        if place not in seen:
            extend_post_order(group, seen, place, lambda p: copies.get(p, ()))
        kinds = {kind for member in group for kind in found.get(member, ())}
        kind = kinds.pop() if len(kinds) == 1 else None
        if kind is not None:
            types.update(dict.fromkeys(group, kind))
    return types


def _all_thunks(thunks: Sequence[Thunk], sequences: Mapping[str, ThunkSequence]) -> Iterator[Thunk]:
    """Yields thunks, and those of the sequences that they run."""
    for thunk in thunks:
        yield thunk
        for name in called_sequences(thunk):
            yield from _all_thunks(sequences[name].thunks, sequences)


@dataclass(frozen=True, slots=True)
class _Access:
    """A read or write of a slice: of one number by code in line, or (without `element_type`) by something else."""

    slice: BufferSlice
    element_type: PrimitiveType | None = None
    writes: bool = False


def _accesses(
    thunks: Sequence[Thunk],
    sequences: Mapping[str, ThunkSequence],
    types: Mapping[BufferSlice, PrimitiveType] = MappingProxyType({}),
) -> Iterator[_Access]:
    """Yields what thunks and the sequences that they run do, in order. Copies between `types` are code in line."""
    for thunk in thunks:
        match thunk:
            case InlineThunk():
                yield from (_Access(o.slice, _number_type(o.shape)) for o in thunk.operands)
                yield from (_Access(r.slice, _number_type(r.shape), writes=True) for r in thunk.results)
            case KernelThunk():
                yield from (_Access(o.slice) for o in thunk.operands)
                yield from (_Access(r.slice, writes=True) for r in thunk.results)
            case CopyThunk():
                moved = _copied_type(thunk, types)
                yield _Access(thunk.source, moved)
                yield _Access(thunk.destination, moved, writes=True)
            case ConditionalThunk():
                yield _Access(thunk.selector.slice)
            case WhileThunk():
                yield _Access(thunk.predicate, writes=True)
            case _:
                pass
        for name in called_sequences(thunk):
            yield from (_Access(a.slice, writes=a.writes) for a in _accesses(sequences[name].thunks, sequences))


def _copied_type(thunk: CopyThunk, types: Mapping[BufferSlice, PrimitiveType]) -> PrimitiveType | None:
    """Returns the type of a number that a thunk copies from a place to another one of that type; else None."""
    source, destination = types.get(thunk.source), types.get(thunk.destination)
    return source if source is destination and not thunk.may_be_one else None


def _number_type(shape: Shape) -> PrimitiveType | None:
    """The type of a number that a register holds bit by bit; None for arrays and for what is rounded on its way."""
    return None if not is_number(shape) or is_narrow_float(shape.element_type) else shape.element_type


class LoopRegisters:
    """The values of a loop's numbers where code is being emitted; memory is at `pointers`."""

    def __init__(
        self,
        builder: IRBuilder,
        numbers: Mapping[BufferSlice, LoopNumber],
        pointers: SlicePointers,
    ) -> None:
        """Loads, in front of the loop, what enters its first round."""
        self.builder = builder
        self._numbers = numbers
        self._pointers = pointers
        self._values = {
            place: load_number(builder, number.element_type, pointers[place])
            for place, number in numbers.items()
            if number.carried
        }
        self._phis: dict[BufferSlice, Sequence[Phi]] = {}

    def start_round(self, before: Block) -> None:
        """Makes phis, in the block where rounds start, of what changes from round to round; `before` leads there."""
        for place, value in self._values.items():
            if self._numbers[place].written:
                phis = [self.builder.phi(part.type, [(part, before)], "number") for part in _parts(value)]
                self._phis[place] = phis
                self._values[place] = _whole(phis)

    def end_round(self) -> None:
        """Hands the values on to the next round, from the current block."""
        for place, phis in self._phis.items():
            for phi, part in zip(phis, _parts(self._values[place]), strict=True):
                phi.add_incoming(part, self.builder.block)

    def values(self) -> dict[BufferSlice, RegisterValue]:
        """The values at this place of the code."""
        return dict(self._values)

    def after_loop(self, values: Mapping[BufferSlice, RegisterValue]) -> None:
        """Stores what memory does not hold yet: `values` are those of the last condition."""
        for place, number in self._numbers.items():
            if number.written and not number.in_memory:
                store_number(self.builder, number.element_type, values[place], self._pointers[place])

    def get(self, place: BufferSlice) -> RegisterValue | None:
        """The value of what is to be read, if it is one of the numbers."""
        return self._values.get(place)

    def set(self, place: BufferSlice, value: RegisterValue) -> bool:
        """Takes the value of what is to be written; False if it is to be stored (too)."""
        number = self._numbers.get(place)
        if number is None:
            return False
        self._values[place] = value
        return not number.in_memory

    def copy(self, source: BufferSlice, destination: BufferSlice) -> bool:
        """Copies a number; False if neither side is one of the numbers: bytes are to be copied."""
        number = self._numbers.get(destination) or self._numbers.get(source)
        if number is None:
            return False
        value = self._values.get(source)
        if value is None:
            value = load_number(self.builder, number.element_type, self._pointers[source])
        if not self.set(destination, value):
            store_number(self.builder, number.element_type, value, self._pointers[destination])
        return True


def load_number(builder: IRBuilder, element_type: PrimitiveType, pointer: Value) -> RegisterValue:
    """Emits the read of one number that no register rounds."""
    kind = storage_type(element_type.component if element_type.is_complex else element_type)
    size = kind.bits // 8
    if element_type.is_complex:
        imaginary = builder.gep(kind, pointer, const_int(I64, 1))
        return ComplexValue(builder.load(kind, pointer, align=size), builder.load(kind, imaginary, align=size))
    return load_convert(builder, element_type, builder.load(kind, pointer, align=size))


def store_number(builder: IRBuilder, element_type: PrimitiveType, value: RegisterValue, pointer: Value) -> None:
    """Emits the write of one number."""
    if isinstance(value, ComplexValue):
        size = value.real.type.bits // 8
        builder.store(value.real, pointer, align=size)
        builder.store(value.imag, builder.gep(value.imag.type, pointer, const_int(I64, 1)), align=size)
    else:
        stored = store_convert(builder, element_type, value)
        builder.store(stored, pointer, align=stored.type.bits // 8)


def _parts(value: RegisterValue) -> tuple[Value, ...]:
    return (value.real, value.imag) if isinstance(value, ComplexValue) else (value,)


def _whole(parts: Sequence[Value]) -> RegisterValue:
    return parts[0] if len(parts) == 1 else ComplexValue(*parts)
