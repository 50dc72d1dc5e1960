"""How the warps of a kernel touch the operands of an instruction or fusion, given its map of work items to outputs."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import AffineMap, DimVar, IndexingMap, Interval, compose_indexing_maps, delinearize, dim, physical_map
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape
from xjit.indexing import WarpAccess, classify_warp_access
from xjit.indexing.composition import Composer
from xjit.indexing.structure import leaf_shape

__all__ = ["operand_accesses", "work_item_map"]


def work_item_map(shape: Sequence[int], threads: int, vector: int = 1) -> IndexingMap:
    """Returns the usual map (thread, block, vector element) -> index: consecutive work items take consecutive elements.

    Row-major; work items beyond the last element are cut off by a constraint.
    """
    total = 1
    for n in shape:
        total *= n
    blocks = max(-(-total // (threads * vector)), 1)
    linear = (dim(1) * threads + dim(0)) * vector + dim(2)
    dims = tuple(
        [DimVar(Interval(0, n - 1), name) for n, name in ((threads, "thread"), (blocks, "block"), (vector, "vector"))]
    )
    beyond = [(linear, Interval(0, total - 1))] if blocks * threads * vector != total else []
    return IndexingMap(AffineMap(3, 0, tuple(delinearize(linear, shape))), dims, (), (), tuple(beyond)).simplify()


def operand_accesses(
    instruction: HloInstruction,
    work: IndexingMap,
    output_id: int = 0,
    *,
    warp_size: int = 32,
    composer: Composer | None = None,
) -> list[list[WarpAccess]]:
    """Returns, per operand, how a warp touches it through each of its maps, layouts and tiles of the operand included.

    `work` maps (thread, block, vector element) to the index of output `output_id`. A vector dim of one value is no
    vector. InvalidArgument if the map does not fit to the output.
    """
    out = leaf_shape(instruction.shape, output_id)
    if work.num_dims != 3 or len(work.results) != out.rank:
        raise InvalidArgument(
            f"expected a map of 3 dims (thread, block, vector) to the {out.rank} dims of {out}, found {work.map}"
        )
    composer = composer or Composer()
    vector = 2 if work.dim_bounds[2].size > 1 else None
    found: list[list[WarpAccess]] = [[] for _ in instruction.operands]
    for read in composer.reads(instruction, output_id):
        shape = leaf_shape(instruction.operand(read.operand).shape, read.leaf)
        for m in read.maps:
            access = compose_indexing_maps(compose_indexing_maps(work, m), _offsets(shape)).simplify()
            width = shape.element_type.byte_width
            found[read.operand].append(classify_warp_access(access, width, vector_dim=vector, warp_size=warp_size))
    return found


def _offsets(shape: Shape) -> IndexingMap:
    tiles = shape.layout.tile_dimensions if shape.layout is not None else ()
    return physical_map(shape.dimensions, shape.minor_to_major, tiles)
