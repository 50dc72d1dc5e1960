"""A product of matrices as cublasLt does it, as data: what is multiplied, how it lies in memory, what follows.

Matrices lie columns first, as the library has them. A product of row-major arrays is that of the other order: the
transposed result is the transposed right operand times the transposed left one, and nothing is moved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal as OneOf

from xjit.dataclass import dataclass
from xjit.hlo.types.primitive_type import PrimitiveType

Role = OneOf["a", "b", "c", "bias", "a_scale", "b_scale", "d_scale", "d", "aux", "amax", "workspace"]
Products = OneOf["f32", "tf32", "bf16", "f16", "f64", "s32"]
"""How products are made and summed: f32 operands may be rounded to tf32, bf16 or f16 before; sums are wide."""


@dataclass(frozen=True, slots=True)
class StoredMatrices:
    """Matrices in memory: element (i, j) of matrix n is i + j * `leading` + n * `stride` elements behind the first."""

    kind: PrimitiveType
    rows: int
    columns: int
    leading: int
    stride: int

    def __str__(self) -> str:
        return f"{self.kind.text}[{self.rows},{self.columns}]"


@dataclass(frozen=True, slots=True)
class MatmulSpec:
    """D = d_scale * activation(alpha * a_scale * b_scale * op(A) op(B) + beta * C + bias), `count` times.

    C lies as D does; the bias is a vector along the rows of D. `aux` gets what the activation is applied to, `amax` the
    largest magnitude before `d_scale`. `places` has the number of each role among the operands, then the results.
    `algorithm` is the place of the wanted one in the library's list, -1 for its first choice.
    """

    a: StoredMatrices
    b: StoredMatrices
    d: StoredMatrices
    c_kind: PrimitiveType
    bias_kind: PrimitiveType
    transpose_a: bool
    transpose_b: bool
    count: int
    steps: int
    products: Products
    alpha: complex
    beta: float
    activation: OneOf["", "relu", "gelu"]
    places: tuple[tuple[Role, int], ...]
    workspace_bytes: int = 0
    algorithm: int = -1

    kind = "cublaslt"
    symbol = "cublasLtMatmul"

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.count * self.d.rows * self.d.columns * self.steps

    @property
    def roles(self) -> frozenset[Role]:
        """What the call has."""
        return frozenset(role for role, _ in self.places)

    def at(self, addresses: Sequence[int]) -> Mapping[str, int]:
        """The address of each role, from those of the operands, then the results."""
        return {role: addresses[number] for role, number in self.places}

    def __str__(self) -> str:
        a, b = f"{self.a}{'^T' * self.transpose_a}", f"{self.b}{'^T' * self.transpose_b}"
        parts = [f"{self.d} = {a} {b} in {self.products}"]
        parts += [f"x {self.count}"] * (self.count > 1)
        parts += [f"alpha={self.alpha:g}"] * (self.alpha != 1) + [f"beta={self.beta:g}"] * (self.beta != 0)
        parts += [f"algorithm={self.algorithm}"] * (self.algorithm >= 0)
        follows = [role for role, _ in self.places if role not in ("a", "b", "c", "d", "workspace")]
        return " ".join([*parts, *follows, *([self.activation] if self.activation else [])])
