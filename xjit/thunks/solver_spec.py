"""Calls of a LAPACK-like routine of a GPU library, as data: the routine, sizes and flags of a matrix, and how many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

SOLVER_FUNCTIONS: Mapping[str, str] = MappingProxyType(
    {
        "potrf": "cusolverDn{}potrf",
        "getrf": "cusolverDn{}getrf",
        "geqrf": "cusolverDn{}geqrf",
        "orgqr": "cusolverDn{}orgqr",
        "ungqr": "cusolverDn{}ungqr",
        "ormqr": "cusolverDn{}ormqr",
        "unmqr": "cusolverDn{}unmqr",
        "syevd": "cusolverDn{}syevd",
        "heevd": "cusolverDn{}heevd",
        "sytrd": "cusolverDn{}sytrd",
        "hetrd": "cusolverDn{}hetrd",
        "gesdd": "cusolverDn{}gesvdj",
        "gesvd": "cusolverDn{}gesvdj",
        "trsm": "cublas{}trsm_v2",
    }
)
"""By LAPACK's name of a routine: that of NVIDIA's function, with a place for the letter of the type."""


@dataclass(frozen=True, slots=True)
class SolverSpec:
    """`count` calls of a routine of LAPACK, on matrices one after the other.

    `sizes` and `flags` are those that the target's row in `xjit.ops.lapack_targets` names. `places` has the number of
    each array among the operands, then the results; what both have is worked on where the result lies.
    """

    target: str
    routine: str
    letter: str
    count: int
    sizes: tuple[tuple[str, int], ...]
    flags: tuple[tuple[str, str], ...]
    operands: tuple[tuple[str, int], ...]
    results: tuple[tuple[str, int], ...]
    flops: int

    kind = "lapack"
    workspace_bytes = 0  # of what the program knows: the library says how much it needs when it is called

    @property
    def symbol(self) -> str:
        """The function of the library."""
        return SOLVER_FUNCTIONS[self.routine].format(self.letter.upper())

    def __str__(self) -> str:
        values = [f"{name}={value}" for name, value in (*self.sizes, *self.flags)]
        return " ".join([self.routine, *values, *([f"x {self.count}"] if self.count > 1 else [])])
