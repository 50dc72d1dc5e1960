"""The records of multiplications and convolutions in words: what a reader wants to know of their blocking."""

from __future__ import annotations

from xjit.emitters.gemm.blocking.convolution_shapes import ConvolutionParameters
from xjit.emitters.gemm.blocking.direct_plan import DirectProduct
from xjit.emitters.gemm.blocking.method import GemmTypes, Method
from xjit.emitters.gemm.blocking.register_tile import RegisterTile
from xjit.emitters.gemm.blocking.shapes import GemmParameters, GemmShape
from xjit.emitters.gemm.blocking.units import Unit
from xjit.llvm.types import LLVMType

_METHODS = {
    Method.ZERO: "zeros, as there are no terms",
    Method.TILES: "register tiles of {rows}x{columns}",
    Method.VECTOR_ALONG_N: "rows of the matrix are added up",
    Method.VECTOR_ALONG_K: "dot products, a few columns at a time",
}


def gemm_facts(shape: GemmShape, types: GemmTypes, plan: GemmParameters, tile: RegisterTile) -> dict[str, object]:
    """Returns the facts about one multiplication. Blocks are in elements."""
    packed = [name for name, packs in (("left", plan.pack_lhs), ("right", plan.pack_rhs)) if packs]
    return {
        "product": f"{shape.num_batches} x [{shape.m}, {shape.k}] * [{shape.k}, {shape.n}]",
        "types": _types(types, types.compute),
        "method": _METHODS[Method(plan.method)].format(rows=tile.rows, columns=tile.columns)
        + (", operands swapped" if plan.swap_operands else ""),
        "blocks": f"m {plan.block_m}, n {plan.block_n}, k {plan.block_k_outer} x {plan.block_k_inner}",
        "packed": " and ".join(packed) or "nothing",
        "result": "through scratch memory" if plan.use_scratch else "in place",
        "tasks": _tasks(plan.num_tasks, plan.parallel),
    }


def direct_facts(product: DirectProduct) -> dict[str, object]:
    """Returns what differs where a multiplication needs no copies, and is code of the program."""
    return {
        "types": _types(product.types, product.compute),
        "method": f"register tiles of {product.rows} rows and {product.vectors} vectors, of constant sizes",
        "blocks": f"{product.strips} strips of {product.rows} rows",
        "tasks": f"{product.units} units",
    }


def convolution_facts(types: GemmTypes, plan: ConvolutionParameters, tile: RegisterTile) -> dict[str, object]:
    """Returns the facts about one convolution. Tiles are in output pixels, chunks in taps and channels."""
    return {
        "types": _types(types, types.compute),
        "method": "depthwise" if plan.depthwise else f"slabs, register tiles of {tile.rows}x{tile.columns}",
        "tile": f"{plan.tile_batch} images x {plan.tile_1} x {plan.tile_2} pixels, {plan.block_features} features",
        "chunk": f"{plan.chunk_1} x {plan.chunk_2} taps, {plan.chunk_channels} channels",
        "slab": f"{plan.slab_1} x {plan.slab_2} pixels",
        "result": "through scratch memory" if plan.use_scratch else "in place",
        "tasks": _tasks(plan.num_tasks, plan.parallel),
    }


def _types(types: GemmTypes, sums: LLVMType) -> str:
    text = f"{types.lhs.mangled} * {types.rhs.mangled} -> {types.out.mangled}, summed in {sums.mangled}"
    if types.unit is Unit.FMA:
        return text
    products = f", {len(types.plane_products)} products" if types.unit is Unit.BF16_PLANES else ""
    return f"{text}, by {types.unit.value}{products}"


def _tasks(count: int, parallel: int) -> str:
    return f"{count}, {'shared out' if parallel else 'in one thread'}"
