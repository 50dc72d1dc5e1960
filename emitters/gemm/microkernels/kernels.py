"""The register-tile kernels of a multiplication: which of them its loops call, and the table that they find them in.

A table has an address for every number of rows and of vectors, at (rows - 1) * tile.vectors + vectors - 1. A routine
that is linked to its kernels reads it behind its record, where the program lists those that its shape needs; others
have a table of all, and all kernels in their module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from xjit.emitters.gemm.blocking.convolution_shapes import ConvolutionParameters
from xjit.emitters.gemm.blocking.method import GemmTypes, Method
from xjit.emitters.gemm.blocking.register_tile import RegisterTile, register_tile
from xjit.emitters.gemm.blocking.shapes import GemmParameters
from xjit.emitters.gemm.blocking.units import Unit
from xjit.emitters.gemm.microkernels.microkernel import emit_microkernel
from xjit.emitters.gemm.microkernels.tile_kernel import emit_tile_kernel
from xjit.llvm import Function, Module, Value
from xjit.llvm.types import PTR, array


class KernelSize(NamedTuple):
    """Rows and vectors of a kernel. A `partial` one can write less of its last vector, where columns end;
    with `masks`, which only such a one has, it reads no more either: the right operand need not be packed.
    """

    rows: int
    vectors: int
    masks: bool = False
    partial: bool = False


def kernel_types(types: GemmTypes) -> GemmTypes:
    """The types that decide a kernel's code: multiply-adds see packed operands and sums only."""
    compute = types.compute
    return replace(types, lhs=compute, rhs=compute, out=compute) if types.unit is Unit.FMA else types


def kernel_name(types: GemmTypes, size: KernelSize) -> str:
    """The name of a kernel; `types` are its `kernel_types`."""
    suffix = "_masked" if size.masks else "_partial" if size.partial else ""
    return f"xjit_kernel_{types.name}_{size.rows}x{size.vectors}{suffix}"


def emit_kernel(module: Module, types: GemmTypes, size: KernelSize) -> Function:
    """Defines a kernel, visible to other modules."""
    if types.unit.is_tiles:
        return emit_tile_kernel(module, kernel_name(types, size), types, size.rows, size.vectors)
    return emit_microkernel(module, kernel_name(types, size), types, *size)


def gemm_kernels(plan: GemmParameters, tile: RegisterTile, types: GemmTypes) -> list[KernelSize]:
    """The kernels that a multiplication needs."""
    if plan.method != Method.TILES:
        return []
    masks = not plan.pack_rhs and plan.n % tile.width != 0
    return kernels_of_blocks(tile, pieces(plan.m, plan.block_m), pieces(plan.n, plan.block_n), types, masks=masks)


def convolution_kernels(plan: ConvolutionParameters, tile: RegisterTile, types: GemmTypes) -> list[KernelSize]:
    """The kernels that a convolution needs."""
    if plan.depthwise:
        return []
    pixels = {
        images * rows * columns
        for images in pieces(plan.batch, plan.tile_batch)
        for rows in pieces(plan.output_1, plan.tile_1)
        for columns in pieces(plan.output_2, plan.tile_2)
    }
    return kernels_of_blocks(tile, pixels, pieces(plan.features, plan.block_features), types)


def all_kernels_table(module: Module, types: GemmTypes) -> Value:
    """Emits all kernels, once per module; returns their table."""
    kernels, tile = kernel_types(types), register_tile(module.target, types)
    addresses: dict[KernelSize, Value] = {}
    for rows, vectors in product(tile.row_variants, range(1, tile.vectors + 1)):
        is_vector = not types.unit.is_tiles  # what tiles read is packed
        size = KernelSize(rows, vectors, masks=is_vector, partial=is_vector)
        function = module.functions.get(kernel_name(kernels, size)) or emit_kernel(module, kernels, size)
        function.linkage = "internal"
        addresses[size] = function.value
    type = array(PTR, tile.rows * tile.vectors)
    entries = ", ".join(f"ptr {address}" for address in table_entries(tile, addresses))
    return module.add_constant(type, Value(type, f"[{entries}]"), 8, "kernel_table")


def table_entries(tile: RegisterTile, addresses: Mapping[KernelSize, Value]) -> list[str]:
    """The entries of a table, as text; that of a kernel that is not there is null."""
    texts = {(size.rows, size.vectors): address.text for size, address in addresses.items()}
    sizes = ((tile.variant_for(1 + row), 1 + v) for row in range(tile.rows) for v in range(tile.vectors))
    return [texts.get(size, "null") for size in sizes]


def pieces(whole: int, step: int) -> set[int]:
    """The sizes of what a dimension is cut into."""
    return {size for size in (min(whole, step), whole % step) if size}


def kernels_of_blocks(
    tile: RegisterTile, blocks: Iterable[int], columns: Set[int], types: GemmTypes, *, masks: bool = False
) -> list[KernelSize]:
    """The kernels for blocks of so many rows and columns, which are cut into strips and panels."""
    heights = {tile.variant_for(strip) for size in blocks for strip in pieces(size, tile.rows)}
    widths: set[int] = set()
    partial = not types.unit.is_tiles and any(size % tile.width for size in columns)
    for size in columns:
        left = -(-size // tile.width)
        while left:
            panel = tile.panel_vectors(left)
            widths.add(panel)
            left -= panel
    return sorted(KernelSize(rows, vectors, masks, partial) for rows in heights for vectors in widths)
