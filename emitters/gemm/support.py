"""The parts that the loops of multiplications and convolutions call: kernels, copies, panels. One set per combination
of types.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass

from xjit.emitters.gemm.method import GemmTypes
from xjit.emitters.gemm.microkernel import emit_microkernels
from xjit.emitters.gemm.packing import emit_copy
from xjit.emitters.gemm.register_tile import RegisterTile, register_tile
from xjit.emitters.gemm.storage import size_of
from xjit.llvm import Function, LLVMType, Module, Value


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
    unpack_add: Function | None  # for integers that are summed as floats, a part of k at a time

    @property
    def compute(self) -> LLVMType:
        """The type that sums are kept in."""
        return self.types.compute

    @property
    def vector_bytes(self) -> int:
        """Bytes of one vector of `compute`."""
        return self.tile.width * size_of(self.compute)


_supports: weakref.WeakKeyDictionary[Module, dict[str, GemmSupport]] = weakref.WeakKeyDictionary()


def support_for(module: Module, types: GemmTypes) -> GemmSupport:
    """The parts for a combination of types, emitted once per module."""
    prefix = f"xjit_tiles_{types.lhs.mangled}_{types.rhs.mangled}_{types.out.mangled}"
    known = _supports.setdefault(module, {})
    if prefix not in known:
        known[prefix] = _emit_support(module, types, prefix)
    return known[prefix]


def _emit_support(module: Module, types: GemmTypes, prefix: str) -> GemmSupport:
    compute = types.compute
    kernels = emit_microkernels(module, f"{prefix}_kernel", compute)
    tile = register_tile(module.target, compute)
    pack_lhs, pack_rhs = (copy_function(module, storage, compute, compute) for storage in (types.lhs, types.rhs))
    unpack = copy_function(module, compute, types.out, compute)
    unpack_add = copy_function(module, compute, types.out, compute, adds=True) if types.exact_terms else None
    return GemmSupport(prefix, types, tile, kernels, pack_lhs, pack_rhs, unpack, unpack_add)


def copy_function(
    module: Module, source: LLVMType, destination: LLVMType, compute: LLVMType, *, adds: bool = False
) -> Function:
    """The strided copy (or addition) between two element types, emitted once per module."""
    name = f"xjit_{'add' if adds else 'copy'}_{source.mangled}_{destination.mangled}_{compute.mangled}"
    return module.functions.get(name) or emit_copy(module, name, source, destination, compute, adds=adds)
