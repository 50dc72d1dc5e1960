"""The parts that the loops of multiplications and convolutions call: kernels, copies, panels. One set per combination
of types.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass

from xjit.emitters.gemm.lane_packing import LaneCopy, emit_lane_copy
from xjit.emitters.gemm.method import GemmTypes
from xjit.emitters.gemm.microkernel import emit_microkernels
from xjit.emitters.gemm.packing import emit_copy
from xjit.emitters.gemm.register_tile import RegisterTile, register_tile
from xjit.emitters.gemm.storage import size_of
from xjit.emitters.gemm.tile_kernel import emit_tile_kernels
from xjit.emitters.gemm.units import TILE_LANES, is_biased
from xjit.llvm import Function, LLVMType, Module, Value
from xjit.llvm.structured_builder import StructuredBuilder


@dataclass(frozen=True, slots=True)
class GemmSupport:
    """What the loops call. All of it may be shared by several multiplications and convolutions of a module."""

    prefix: str  # of the names of functions that belong to this set
    types: GemmTypes
    tile: RegisterTile
    kernels: Value  # the table of `microkernel.emit_microkernels`
    pack_lhs: Function
    pack_rhs: Function
    unpack: Function

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


_supports: weakref.WeakKeyDictionary[Module, dict[str, GemmSupport]] = weakref.WeakKeyDictionary()


def support_for(module: Module, types: GemmTypes) -> GemmSupport:
    """The parts for a combination of types, emitted once per module."""
    prefix = f"xjit_tiles_{types.name}"
    known = _supports.setdefault(module, {})
    if prefix not in known:
        known[prefix] = _emit_support(module, types, prefix)
    return known[prefix]


def _emit_support(module: Module, types: GemmTypes, prefix: str) -> GemmSupport:
    compute = types.compute
    emit_kernels = emit_tile_kernels if types.unit.is_tiles else emit_microkernels
    kernels = emit_kernels(module, f"{prefix}_kernel", types)
    tile = register_tile(module.target, types)
    pack_lhs, pack_rhs = (_packing(module, types, is_lhs=is_lhs) for is_lhs in (True, False))
    unpack = copy_function(module, compute, types.out, compute)
    return GemmSupport(prefix, types, tile, kernels, pack_lhs, pack_rhs, unpack)


def _packing(module: Module, types: GemmTypes, *, is_lhs: bool) -> Function:
    """The copy of an operand to the form that kernels read."""
    lanes = types.lanes
    storage, packed = (types.lhs, lanes.lhs) if is_lhs else (types.rhs, lanes.rhs)
    if lanes.group == 1:
        return copy_function(module, storage, packed, packed)
    return emit_lane_copy(module, LaneCopy(storage, packed, lanes.group, along_lines=is_lhs))


def copy_function(module: Module, source: LLVMType, destination: LLVMType, compute: LLVMType) -> Function:
    """The strided copy between two element types, emitted once per module."""
    name = f"xjit_copy_{source.mangled}_{destination.mangled}_{compute.mangled}"
    return module.functions.get(name) or emit_copy(module, name, source, destination, compute)
