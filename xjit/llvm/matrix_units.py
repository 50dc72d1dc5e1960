"""Matrix instructions of NVIDIA GPUs, as data: which types, which LLVM intrinsic, which lane holds which elements.

`mma.sync` multiplies an m x k block by a k x n block. The 32 lanes of a warp hold both, and the m x n sums, in
registers. PTX's tables of fragments all follow one rule (the chapter on warp-level matrix instructions), which
`lhs_place`, `rhs_place` and `sum_place` state as affine expressions.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xjit.affine import AffineExpr, dim
from xjit.dataclass import dataclass
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.gpu_models import GpuModel

P = PrimitiveType
Place = tuple[AffineExpr, AffineExpr]
_LANE, _ELEMENT = dim(0), dim(1)
_LANES_OF_ROW = 4


@dataclass(frozen=True, slots=True)
class MatrixUnit:
    """One matrix instruction. `lhs` and `rhs` are the types that it multiplies, `sums` that of the sums.

    A lane holds `lhs_registers` and `rhs_registers` of `register_bits` each. Places are expressions of the lane d0 and
    of the number d1 of one of its elements, registers one after the other.
    """

    name: str  # "m16n8k16.bf16.bf16"
    lhs: PrimitiveType
    rhs: PrimitiveType
    sums: PrimitiveType
    lhs_registers: int
    rhs_registers: int
    intrinsic: str  # without "llvm."
    compute_capability: int
    ptx_version: str  # the lowest one that has it

    @property
    def register_bits(self) -> int:
        """Bits of a register: doubles take a register of 64."""
        return max(32, self.lhs.bit_width)

    @property
    def per_register(self) -> int:
        """Elements of a register, along k."""
        return self.register_bits // self.lhs.bit_width

    @property
    def m(self) -> int:
        """Rows of the sums."""
        return 8 * min(2, self.lhs_registers)

    @property
    def n(self) -> int:
        """Columns of the sums."""
        return 8

    @property
    def k(self) -> int:
        """Products of a sum."""
        return _LANES_OF_ROW * self.per_register * self.rhs_registers

    @property
    def lhs_place(self) -> Place:
        """The row and the step of an element of the left block."""
        register, within = _ELEMENT.floordiv(self.per_register), _ELEMENT.mod(self.per_register)
        row = _LANE.floordiv(_LANES_OF_ROW) + register.mod(2) * 8
        return row, self._step(register.floordiv(2), within)

    @property
    def rhs_place(self) -> Place:
        """The column and the step of an element of the right block."""
        register, within = _ELEMENT.floordiv(self.per_register), _ELEMENT.mod(self.per_register)
        return _LANE.floordiv(_LANES_OF_ROW), self._step(register, within)

    def _step(self, half: AffineExpr, within: AffineExpr) -> AffineExpr:
        return (_LANE.mod(_LANES_OF_ROW) + half * _LANES_OF_ROW) * self.per_register + within

    @property
    def num_sums(self) -> int:
        """Sums of one lane."""
        return self.m * self.n // 32

    @property
    def sum_place(self) -> Place:
        """The row and the column of a sum."""
        return _LANE.floordiv(_LANES_OF_ROW) + _ELEMENT.floordiv(2) * 8, _LANE.mod(_LANES_OF_ROW) * 2 + _ELEMENT.mod(2)


def _unit(
    shape: str, types: str, kinds: tuple[P, P, P], registers: tuple[int, int], capability: int, ptx: str
) -> MatrixUnit:
    name = ".".join([shape, *(kind.text for kind in kinds[:2])])
    return MatrixUnit(name, *kinds, *registers, f"nvvm.mma.{shape}.row.col.{types}", capability, ptx)


_BYTES = {P.S8: "s8", P.U8: "u8"}
_F8 = {P.F8E4M3FN: "e4m3", P.F8E5M2: "e5m2"}


def _of_bytes(shape: str, registers: tuple[int, int], capability: int, ptx: str) -> list[MatrixUnit]:
    return [
        _unit(shape, a if a == b else f"{a}.{b}", (lhs, rhs, P.S32), registers, capability, ptx)
        for lhs, a in _BYTES.items()
        for rhs, b in _BYTES.items()
    ]


_UNITS = (
    _unit("m16n8k16", "bf16", (P.BF16, P.BF16, P.F32), (4, 2), 80, "7.0"),
    _unit("m16n8k16", "f32.f32", (P.F16, P.F16, P.F32), (4, 2), 80, "7.0"),
    _unit("m16n8k8", "f32.f32", (P.F16, P.F16, P.F32), (2, 1), 75, "6.5"),
    _unit("m16n8k8", "tf32", (P.F32, P.F32, P.F32), (4, 2), 80, "7.0"),
    *_of_bytes("m16n8k32", (4, 2), 80, "7.0"),
    *_of_bytes("m8n8k16", (1, 1), 75, "6.5"),
    *(
        _unit("m16n8k32", f"f32.{a}.{b}.f32", (lhs, rhs, P.F32), (4, 2), 89, "8.4")
        for lhs, a in _F8.items()
        for rhs, b in _F8.items()
    ),
    _unit("m8n8k4", "f64", (P.F64, P.F64, P.F64), (1, 1), 80, "7.0"),
)
MATRIX_UNITS: Mapping[str, MatrixUnit] = MappingProxyType({unit.name: unit for unit in _UNITS})
"""By name; of those for the same types, the larger ones come first."""


def matrix_unit(model: GpuModel, lhs: PrimitiveType, rhs: PrimitiveType) -> MatrixUnit | None:
    """Returns the largest unit of an architecture for elements of two types; None if it has none.

    The unit for f32 rounds them to tf32.
    """
    fitting = (u for u in _UNITS if (u.lhs, u.rhs) == (lhs, rhs) and u.compute_capability <= model.compute_capability)
    return next(fitting, None)
