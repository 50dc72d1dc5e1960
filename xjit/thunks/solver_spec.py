"""Calls of a LAPACK-like routine of a GPU library, as data: the routine, sizes and flags of a matrix, and how many."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from types import MappingProxyType

from xjit.dataclass import dataclass
from xjit.hlo.types.primitive_type import PrimitiveType

_ALL, _REAL, _COMPLEX = "sdcz", "sd", "cz"

SOLVER_FUNCTIONS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "potrf": ("cusolverDn{}potrf", _ALL),
        "getrf": ("cusolverDn{}getrf", _ALL),
        "geqrf": ("cusolverDn{}geqrf", _ALL),
        "orgqr": ("cusolverDn{}orgqr", _REAL),
        "ungqr": ("cusolverDn{}ungqr", _COMPLEX),
        "ormqr": ("cusolverDn{}ormqr", _REAL),
        "unmqr": ("cusolverDn{}unmqr", _COMPLEX),
        "syevd": ("cusolverDn{}syevd", _REAL),
        "heevd": ("cusolverDn{}heevd", _COMPLEX),
        "sytrd": ("cusolverDn{}sytrd", _REAL),
        "hetrd": ("cusolverDn{}hetrd", _COMPLEX),
        "gesdd": ("cusolverDn{}gesvdj", _ALL),
        "gesvd": ("cusolverDn{}gesvdj", _ALL),
        "trsm": ("cublas{}trsm_v2", _ALL),
    }
)
"""By LAPACK's name of a routine: that of NVIDIA's, with a place for the letter of a type, and those letters."""


def solver_function(routine: str, letter: str) -> str:
    """The name of NVIDIA's function for a routine of LAPACK."""
    return SOLVER_FUNCTIONS[routine][0].format(letter.upper())


@dataclass(frozen=True, slots=True)
class SolverArray:
    """An array of a routine: its number among the operands, then the results; the rest is of one matrix."""

    name: str
    number: int
    element_type: PrimitiveType
    dimensions: tuple[int, ...]

    @property
    def byte_size(self) -> int:
        """The bytes of one batch element."""
        return prod(self.dimensions) * self.element_type.byte_width


@dataclass(frozen=True, slots=True)
class SolverSpec:
    """`count` calls of a routine of LAPACK, on matrices one after the other.

    `sizes` and `flags` are those that the target's row in `xjit.ops.lapack_targets` names. What both operands and
    results have is worked on where the result lies. `element_type` is that of the matrices, `letter` LAPACK's for it.
    """

    target: str
    routine: str
    letter: str
    element_type: PrimitiveType
    count: int
    sizes: tuple[tuple[str, int], ...]
    flags: tuple[tuple[str, str], ...]
    operands: tuple[SolverArray, ...]
    results: tuple[SolverArray, ...]
    flops: int

    kind = "lapack"
    workspace_bytes = 0  # of what the program knows: the library says how much it needs when it is called

    @property
    def symbol(self) -> str:
        """The function of the library."""
        return solver_function(self.routine, self.letter)

    def __str__(self) -> str:
        values = [f"{name}={value}" for name, value in (*self.sizes, *self.flags)]
        return " ".join([self.routine, *values, *([f"x {self.count}"] if self.count > 1 else [])])
