"""What a custom call to LAPACK is: the description of a routine, and instructions that were checked against one.

A row of `xjit.ops.lapack_targets` says what the arrays are, which attributes the call has, and in which order LAPACK
takes its arguments. Matrices are column-major, batch dimensions come first; results that have an operand's name are
worked on in place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from xjit.dataclass import dataclass
from xjit.hlo import attributes as at
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.hlo.types.shape import Shape
from xjit.ops.ffi_attributes import Scalar, ffi_attributes

Sizes = Mapping[str, int]
Flags = Mapping[str, str]
Workspace = tuple[str, Callable[[Sizes, Flags], int]]
Workspaces = Mapping[str, Workspace]
Conditions = tuple[tuple[str, Callable[[Sizes, Flags], bool]], ...]

KINDS: Mapping[str, PrimitiveType] = MappingProxyType(
    {"s": PrimitiveType.F32, "d": PrimitiveType.F64, "c": PrimitiveType.C64, "z": PrimitiveType.C128}
)
"""LAPACK's letters of the element types."""

MAX_INT = (1 << 31) - 1
"""LAPACK's integers have 32 bits."""


def element_type(kind: str, letter: str) -> PrimitiveType:
    """The element type T (that of the letter), R (its real type), C (its complex type) or I (s32)."""
    if kind == "I":
        return PrimitiveType.S32
    if kind == "C":
        letter = {"s": "c", "d": "z"}.get(letter, letter)
    return KINDS[letter].component if kind == "R" else KINDS[letter]


@dataclass(frozen=True, slots=True)
class LapackArray:
    """One array of a call: `kind` is one of `element_type`, `dims` those of one batch element."""

    name: str
    kind: str
    dims: tuple[str, ...]

    def element_type(self, letter: str) -> PrimitiveType:
        """The element type for a letter of LAPACK."""
        return element_type(self.kind, letter)


@dataclass(frozen=True, slots=True)
class LapackFlag:
    """A one-letter argument: the attribute that gives it, and the letters of that attribute's values."""

    name: str
    attribute: str
    letters: Mapping[Scalar, str]


@dataclass(frozen=True, slots=True)
class LapackRoutine:
    """One target.

    `arguments` are in LAPACK's order: names of arrays, flags, numbers, sizes, workspaces and `info`; `work` and
    `lwork`, whose length is asked from the routine; `ld:m` is max(1, m), `length:iwork` that of a workspace, `next:dl`
    the second element of an array; `null` is a null pointer, `one` the number. `numbers` are integer attributes.
    `workspaces` are given by their type and number of elements. `copied` are operands that the routine writes to,
    although they are not results.
    """

    routine: str
    letter: str
    operands: tuple[LapackArray, ...]
    results: tuple[LapackArray, ...]
    arguments: tuple[str, ...]
    flops: Callable[[Sizes], float]
    flags: tuple[LapackFlag, ...]
    numbers: tuple[str, ...]
    workspaces: Workspaces
    copied: tuple[str, ...]
    conditions: Conditions

    @property
    def target(self) -> str:
        """The name of the custom call."""
        return f"lapack_{self.letter}{self.routine}_ffi"


@dataclass(frozen=True, slots=True)
class LapackCall:
    """A checked call: its row, batch dimensions, the sizes that the row names, and the letters of the flags."""

    row: LapackRoutine
    batch: tuple[int, ...]
    sizes: Sizes
    flags: Flags

    def dimensions(self, array: LapackArray) -> tuple[int, ...]:
        """The dimensions of one batch element of an array."""
        return tuple(_size(token, self.sizes) for token in array.dims)


def bind_lapack_call(instruction: HloInstruction, row: LapackRoutine) -> LapackCall:
    """Checks a custom call against the row of its target.

    Errors: InvalidArgument if arrays or attributes are not what the routine takes; it would read beyond its arrays.
    """
    shapes = [o.shape for o in instruction.operands]
    result = instruction.shape
    results = list(result.tuple_shapes) if result.is_tuple else [result]
    if len(shapes) != len(row.operands) or len(results) != len(row.results):
        counts = f"{len(shapes)} operands and {len(results)} results"
        raise _error(instruction, f"has {counts}, expected {len(row.operands)} and {len(row.results)}")
    flags, numbers = _attributes(instruction, row)
    sizes: dict[str, int] = dict(numbers)
    rank = len(row.operands[0].dims)
    batch = shapes[0].dimensions[: max(shapes[0].rank - rank, 0)] if shapes[0].is_array else ()
    for role, arrays, found in (("operand", row.operands, shapes), ("result", row.results, results)):
        for array, shape in zip(arrays, found, strict=True):
            if not _fits(array, row.letter, shape, batch, sizes):
                raise _error(instruction, f"{role} {array.name} is {shape}, expected {_expected(array, row, batch)}")
    for text, holds in row.conditions:
        if not holds(sizes, flags):
            values = ", ".join(f"{k}={v}" for k, v in {**sizes, **flags}.items())
            raise _error(instruction, f"must have {text}, found {values}")
    if any(size > MAX_INT for size in sizes.values()):
        raise _error(instruction, "has matrices beyond LAPACK's 32-bit integers")
    return LapackCall(row, batch, sizes, flags)


def _attributes(instruction: HloInstruction, row: LapackRoutine) -> tuple[dict[str, str], dict[str, int]]:
    given = ffi_attributes(instruction)
    wanted = sorted({flag.attribute for flag in row.flags} | set(row.numbers))
    if sorted(given) != wanted:
        raise _error(instruction, f"has the attributes {sorted(given)}, expected {wanted}")
    flags: dict[str, str] = {}
    for flag in row.flags:
        value = given[flag.attribute]
        if value not in flag.letters:
            raise _error(instruction, f"has {flag.attribute} = {value}, expected one of {list(flag.letters)}")
        flags[flag.name] = flag.letters[value]
    numbers: dict[str, int] = {}
    for name in row.numbers:
        value = given[name]
        if not isinstance(value, int):
            raise _error(instruction, f"has {name} = {value!r}, expected an integer")
        numbers[name] = int(value)
    return flags, numbers


def _fits(array: LapackArray, letter: str, shape: Shape, batch: tuple[int, ...], sizes: dict[str, int]) -> bool:
    """Whether a shape is that of the array; gives sizes that have no value yet theirs."""
    if not shape.is_array or shape.element_type is not array.element_type(letter) or not shape.is_static:
        return False
    if shape.rank != len(batch) + len(array.dims) or shape.dimensions[: len(batch)] != batch:
        return False
    for token, size in zip(array.dims, shape.dimensions[len(batch) :], strict=True):
        if token.isalpha() and token not in sizes:
            sizes[token] = size
        elif _size(token, sizes) != size:
            return False
    return True


def _size(token: str, sizes: Sizes) -> int:
    """The value of `n`, `n-1`, or `m^n`, the smaller of two."""
    if "^" in token:
        return min(sizes[part] for part in token.split("^"))
    name, _, less = token.partition("-")
    return sizes[name] - int(less or 0)


def _expected(array: LapackArray, row: LapackRoutine, batch: Sequence[int]) -> str:
    dims = [*map(str, batch), *(d if "^" not in d else f"min({d.replace('^', ',')})" for d in array.dims)]
    return f"{array.element_type(row.letter).text}[{','.join(dims)}]"


def _error(instruction: HloInstruction, what: str) -> InvalidArgument:
    return InvalidArgument(
        f"custom-call to '{instruction.attributes_as(at.CustomCallAttributes).custom_call_target}' {what}",
        instruction.span,
    )
