"""The parts that the loops of multiplications and convolutions call: kernels, copies, panels. One set per combination
of types.
"""

from __future__ import annotations

from collections.abc import Sequence

from xjit.dataclass import dataclass
from xjit.emitters.gemm.blocking.method import GemmTypes
from xjit.emitters.gemm.blocking.register_tile import RegisterTile, register_tile
from xjit.emitters.gemm.blocking.storage import size_of
from xjit.emitters.gemm.blocking.units import TILE_LANES, is_biased
from xjit.emitters.gemm.microkernels.kernels import all_kernels_table
from xjit.emitters.gemm.packing.lane_packing import LaneCopy, emit_lane_copy
from xjit.emitters.gemm.packing.strided_copies import emit_copy
from xjit.llvm import Function, LLVMType, Module, Value
from xjit.llvm.structured_builder import StructuredBuilder


@dataclass(frozen=True, slots=True)
class GemmSupport:
    """What the loops call. All of it may be shared by several multiplications and convolutions of a module."""

    module: Module
    prefix: str  # of the names of functions that belong to this set
    types: GemmTypes
    tile: RegisterTile
    transposes: bool  # copies are fast that change the direction
    linked: bool  # to its kernels (`kernels`)
    whole: bool = False  # panels and lanes that are copied, without anything left over

    @property
    def pack_lhs(self) -> Function:
        """The copy of left operands to what kernels read; like the others, emitted when it is first asked for."""
        return self._packing(self.types.lhs, self.types.lanes.lhs, self.types.planes[0], is_lhs=True)

    @property
    def pack_rhs(self) -> Function:
        """The same for right operands."""
        return self._packing(self.types.rhs, self.types.lanes.rhs, self.types.planes[1], is_lhs=False)

    @property
    def unpack(self) -> Function:
        """The copy of sums to results."""
        return self._copy(self.compute, self.types.out)

    @property
    def compute(self) -> LLVMType:
        """The type that sums are kept in."""
        return self.types.compute

    @property
    def vector_bytes(self) -> int:
        """Bytes of one vector of `compute`."""
        return self.tile.width * size_of(self.compute)

    @property
    def group(self) -> int:
        """Elements of k in a lane."""
        return self.types.lanes.group

    @property
    def is_biased(self) -> bool:
        """Whether panels end with a row of corrections, as the packed left operand is 128 too large."""
        return is_biased(self.types.unit, self.types.lhs)

    @property
    def zero_byte(self) -> int:
        """What the bytes of a zero of the packed left operand are."""
        return 128 if self.is_biased else 0

    def kernel_table(self, builder: StructuredBuilder, record_end: Value) -> Value:
        """The table of kernels, which lies behind the record if they are linked."""
        return record_end if self.linked else all_kernels_table(builder.module, self.types)

    def lanes(self, builder: StructuredBuilder, length: Value) -> Value:
        """Lanes that `length` elements of k fill."""
        if self.group == 1:
            return length
        return builder.udiv(builder.add(length, builder.i64(self.group - 1)), builder.i64(self.group))

    def panel_rows(self, builder: StructuredBuilder, size: Value) -> Value:
        """Rows of a panel of `size` lanes of k."""
        if self.types.unit.is_tiles:
            return builder.and_(builder.add(size, builder.i64(TILE_LANES - 1)), builder.i64(-TILE_LANES))
        return builder.add(size, builder.i64(1)) if self.is_biased else size

    def panel_step(self, builder: StructuredBuilder, size: Value) -> Value:
        """Bytes of a panel of `size` lanes of k, all planes, per vector of columns."""
        vector_bytes = builder.i64(self.types.planes[1] * self.vector_bytes)
        return builder.mul(self.panel_rows(builder, size), vector_bytes)

    def _packing(self, storage: LLVMType, packed: LLVMType, planes: int, *, is_lhs: bool) -> Function:
        if self.group == 1:
            return self._copy(storage, packed)
        copy = LaneCopy(storage, packed, self.group, is_lhs, self.transposes, planes, self.whole)
        return emit_lane_copy(self.module, copy)

    def _copy(self, source: LLVMType, destination: LLVMType) -> Function:
        types = source, destination, self.compute
        return copy_function(self.module, *types, transposes=self.transposes, whole=self.whole)


def support_for(
    module: Module, types: GemmTypes, *, transposes: bool, linked: bool, whole: bool = False
) -> GemmSupport:
    """The parts for a combination of types."""
    prefix = f"xjit_tiles_{types.name}{'_transposes' if transposes else ''}{'_whole' if whole else ''}"
    return GemmSupport(module, prefix, types, register_tile(module.target, types), transposes, linked, whole)


def call_copy(builder: StructuredBuilder, copy: Function, args: Sequence[Value], plane_bytes: Value) -> None:
    """Calls a copy; `args` are those of `COPY_PARAMS`, `plane_bytes` is for one that makes planes."""
    builder.call(copy, (*args, plane_bytes) if len(copy.params) > len(args) else args)


def copy_function(
    module: Module,
    source: LLVMType,
    destination: LLVMType,
    compute: LLVMType,
    *,
    transposes: bool,
    whole: bool = False,
) -> Function:
    """The strided copy between two element types, emitted once per module."""
    types = source, destination, compute
    suffix = f"{'_transposes' if transposes else ''}{'_whole' if whole else ''}"
    name = f"xjit_copy_{'_'.join(type.mangled for type in types)}{suffix}"
    return module.functions.get(name) or emit_copy(module, name, types, transposes=transposes, whole=whole)
