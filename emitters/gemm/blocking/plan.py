"""Blocking: from a `GemmShape` and a target to the `GemmParameters` of one multiplication. Pure arithmetic.

The loops, outermost first: tasks (batches, blocks of n, blocks of m), chunks of k, strips of rows, panels of columns.
Chunks of k depend on k alone, and every element sums its chunks in order, so results do not depend on tasks or
threads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from xjit.emitters.gemm.blocking.method import (
    GemmTypes,
    Method,
    lies_transposed,
    prefers_swap,
    transposed,
    vector_method,
)
from xjit.emitters.gemm.blocking.register_tile import RegisterTile, register_tile
from xjit.emitters.gemm.blocking.shapes import MAX_BATCH_DIMENSIONS, BatchDimension, GemmParameters, GemmShape
from xjit.emitters.gemm.blocking.storage import has_native_masks, size_of
from xjit.emitters.gemm.blocking.units import TILE_LANES, Unit, panel_rows
from xjit.llvm.target import Target

PACKED_RHS_BYTES = 512 << 10  # of the 1 MB or so of L2
RESULT_SCRATCH_BYTES = 256 << 10
CHUNK_BYTES = 1024  # of a row of k in a chunk: a strip of rows and a panel's stream share L1
LHS_GROUP_ROWS = 48  # rows of the left operand that are packed at once: whole lines of one whose rows are contiguous

PARALLEL_FLOPS = 200_000  # below this a fork costs more than it gives
TASK_FLOPS = 60_000_000  # of a task, if that leaves enough of them
SMALL_TASK_FLOPS = 500_000  # of a task that does many small multiplications
MAX_TASKS = 8
"""Tasks of a multiplication that is not large, whatever the number of threads: with more, packing is repeated too often
for a few threads. Of these, the smallest that are shared out have a fourth.
"""
LARGE_TASK_FLOPS = 2 << 30  # of a task where that makes more of them, for machines with many threads
PARALLEL_BYTES = 256 << 10  # of the matrix of a matrix-vector product
VECTOR_COLUMNS = 2048  # of a task of a matrix-vector product: its results stay in L1
SKINNY_COLUMNS = 1024  # the same for a few rows
WOVEN_BYTES = 128 << 10  # of columns of matrices that lie between each other, which a task reads one after the other
MIN_WOVEN_BYTES = 2 << 20  # of all matrices: others stay in the cache anyway
MANY_ROWS = 1024  # of a block: packing the right operand is amortized, so another block may pack the same again
WIDE_TILES = 16  # register tiles side by side: a left operand that is not packed may be read again for half as many
SMALL_RHS_BYTES = 64 << 10
UNPACKED_TILE_ROWS = 6  # of the left operand: so many lines of one set leave room for others in an L1 of 8 ways
FEW_ROWS = 8  # register tiles, that read a matrix in the second-level cache as fast as they would a packed one
FEW_ROWS_RHS_BYTES = 512 << 10


def plan_gemm(
    shape: GemmShape,
    types: GemmTypes,
    target: Target,
    max_tasks: int = MAX_TASKS,
    *,
    may_swap: bool = True,
    in_scratch: bool = False,
) -> GemmParameters:
    """The parameters for one multiplication. `max_tasks` changes no bit of the result.

    With `in_scratch` all sums go through scratch memory. Raises ValueError for too many batch dimensions.
    """
    if len(shape.batch) > MAX_BATCH_DIMENSIONS:
        raise ValueError(
            f"a multiplication has at most {MAX_BATCH_DIMENSIONS} batch dimensions, not {len(shape.batch)}"
        )
    swap = may_swap and (prefers_swap(shape, types) or lies_transposed(shape, types))
    return _Planner(transposed(shape) if swap else shape, types, target, max_tasks, in_scratch).plan(swap=swap)


def chunk_of_k(k_outer: int, k_inner: int, element_bytes: int) -> tuple[int, int]:
    """(runs, length) of a chunk of k: part of one run, or several whole runs. Balanced."""
    limit = max(1, CHUNK_BYTES // element_bytes)
    if k_inner > limit:
        chunks = -(-k_inner // limit)
        return 1, -(-k_inner // chunks)
    runs = max(1, limit // max(1, k_inner))
    chunks = -(-k_outer // runs)
    return -(-k_outer // max(1, chunks)), k_inner


def rhs_stays_in_cache(shape: GemmShape, size: int, rows: int, tile_rows: int) -> bool:
    """Whether blocks of `rows` rows may read the right operand, of elements of `size` bytes, where its rows lie."""
    row_bytes = abs(shape.rhs_k_inner) * size
    if rows <= tile_rows:  # each of its elements is read once
        return True
    if rows <= FEW_ROWS * tile_rows:
        return shape.k * row_bytes <= FEW_ROWS_RHS_BYTES
    return row_bytes % 1024 != 0 and shape.k * row_bytes <= SMALL_RHS_BYTES


class _Planner:
    def __init__(self, shape: GemmShape, types: GemmTypes, target: Target, max_tasks: int, in_scratch: bool) -> None:
        self.shape = shape
        self.types = types
        self.target = target
        self.size = size_of(types.compute)
        self.tile: RegisterTile = register_tile(target, types)
        self.max_tasks = max(max_tasks, shape.flops // LARGE_TASK_FLOPS)
        self.min_tasks = max(1, max_tasks // 4)
        self.in_scratch = in_scratch

    def plan(self, *, swap: bool) -> GemmParameters:
        values = {field.name: 0 for field in dataclasses.fields(GemmParameters)}
        values.update(self._strides(swap))
        method = self._method()
        blocks = self._vector_blocks() if method in (Method.VECTOR_ALONG_N, Method.VECTOR_ALONG_K) else self._blocks()
        values.update(blocks, method=method, swap_operands=int(swap))
        values.update(self._woven(values))
        values["blocks_m"], values["blocks_n"] = (
            -(-self.shape.m // values["block_m"]),
            -(-self.shape.n // values["block_n"]),
        )
        groups = -(-self.shape.num_batches // values["batches_per_task"])
        values["num_tasks"] = groups * values["blocks_m"] * values["blocks_n"]
        values["parallel"] = int(values["parallel"] and values["num_tasks"] > 1)
        return GemmParameters(**values)

    def _strides(self, swap: bool) -> dict[str, int]:
        shape, types = self.shape, self.types
        lhs, rhs, out = size_of(types.lhs), size_of(types.rhs), size_of(types.out)
        values = {
            "m": shape.m,
            "n": shape.n,
            "k_outer": shape.k_outer,
            "k_inner": shape.k_inner,
            "lhs_row": shape.lhs_row * lhs,
            "lhs_k_outer": shape.lhs_k_outer * lhs,
            "lhs_k_inner": shape.lhs_k_inner * lhs,
            "rhs_k_outer": shape.rhs_k_outer * rhs,
            "rhs_k_inner": shape.rhs_k_inner * rhs,
            "rhs_column": shape.rhs_column * rhs,
            "out_row": shape.out_row * out,
            "out_column": shape.out_column * out,
            "num_batches": shape.num_batches,
        }
        padded = (*shape.batch, *[BatchDimension(1, 0, 0, 0)] * (MAX_BATCH_DIMENSIONS - len(shape.batch)))
        first, second = (
            ("rhs", "lhs") if swap else ("lhs", "rhs")
        )  # offsets move the operands before they change places
        for i, dimension in enumerate(padded):
            values[f"batch_{first}_{i}"] = dimension.lhs_stride * lhs
            values[f"batch_{second}_{i}"] = dimension.rhs_stride * rhs
            values[f"batch_out_{i}"] = dimension.out_stride * out
        values["batch_size_0"], values["batch_size_1"] = padded[0].size, padded[1].size
        return values

    def _method(self) -> Method:
        shape = self.shape
        if shape.k == 0:
            return Method.ZERO
        return vector_method(shape, self.types) or Method.TILES

    def _vector_blocks(self) -> dict[str, int]:
        """Blocks of columns; the result goes through scratch, where it is contiguous and of the compute type."""
        shape = self.shape
        matrix_bytes = shape.n * shape.k * size_of(self.types.rhs)
        parallel = matrix_bytes * shape.num_batches >= PARALLEL_BYTES
        columns = min(shape.n, VECTOR_COLUMNS if shape.m == 1 else SKINNY_COLUMNS)
        batches = shape.num_batches
        if parallel and batches < self.max_tasks:
            wanted = -(-self.max_tasks // batches)
            columns = min(columns, max(self._least_columns(), _round_up(-(-shape.n // wanted), 16)))
        return {
            "block_m": shape.m,
            "block_n": columns,
            "block_k_outer": 1,
            "block_k_inner": shape.k_inner,
            "parallel": int(parallel),
            "batches_per_task": self._batches_per_task(parallel),
            "use_scratch": 1,
        }

    def _woven(self, values: Mapping[str, int]) -> dict[str, int]:
        """Reads the matrix of a few rows in the order of memory, where a task is to read it in pieces of its rows: the
        matrices of a batch lie between each other, or rows are cut into tiles.

        CPUs fetch short pieces that are far from each other at a tenth to a third of the speed.
        """
        shape, size = self.shape, size_of(self.types.rhs)
        along_k = values["method"] == Method.VECTOR_ALONG_K
        stride, row = (shape.rhs_column, shape.k_inner) if along_k else (shape.rhs_k_inner, shape.n)
        first = shape.batch[0] if shape.batch else BatchDimension(1, 0, 0, 0)
        is_woven = first.size > 1 and first.size * first.rhs_stride == stride > 0
        in_tiles = not along_k and values["method"] == Method.TILES and row == stride > self.tile.columns
        once = along_k or (values["block_n"] >= shape.n and shape.m <= self.tile.rows and not values["pack_rhs"])
        num_bytes = stride * size
        if not ((is_woven or in_tiles) and once) or shape.k_outer > 1 or self.in_scratch:
            return {"woven": 1}
        if shape.num_batches * shape.k * shape.n * size < MIN_WOVEN_BYTES:
            return {"woven": 1}
        woven = first.size if is_woven else 1
        columns = min(values["block_n"], -(-WOVEN_BYTES // num_bytes)) if along_k else values["block_n"]
        return {
            "woven": woven,
            "woven_rows": 0 if along_k else shape.k_inner,
            "woven_stride": num_bytes,
            "batches_per_task": -(-values["batches_per_task"] // woven) * woven,
            "block_n": columns,
        }

    def _least_columns(self) -> int:
        """Columns that are worth a task: along n, each row of the matrix is read as a stream of that length."""
        return 512 if self._method() is Method.VECTOR_ALONG_N else 64

    def _batches_per_task(self, parallel: bool) -> int:
        """Many small multiplications share a task."""
        batches = self.shape.num_batches
        if not parallel:
            return max(1, batches)
        if self.shape.flops // max(1, batches) >= SMALL_TASK_FLOPS:
            return 1
        return max(1, -(-batches // max(self.max_tasks, min(batches, self.shape.flops // SMALL_TASK_FLOPS))))

    def _blocks(self) -> dict[str, int]:
        shape = self.shape
        group = self.types.lanes.group
        runs, lanes = self._chunk()
        chunk, length = max(1, runs * lanes), min(lanes * group, shape.k_inner)
        use_scratch = self._needs_scratch()
        block_n = self._limit_n(chunk)
        block_m = max(self.tile.rows, shape.m)
        if use_scratch:
            block_n = min(block_n, 512)
            padded = -(-min(block_n, shape.n) // self.tile.width) * self.tile.width
            block_m = max(self.tile.rows, RESULT_SCRATCH_BYTES // (self.size * max(1, padded)))
        parallel = shape.flops >= PARALLEL_FLOPS
        if parallel:
            block_m, block_n = self._split(block_m, block_n)
        block_m, block_n = max(1, min(block_m, shape.m)), max(1, min(block_n, shape.n))
        return {
            "block_m": block_m,
            "block_n": block_n,
            "block_k_outer": max(1, runs),
            "block_k_inner": max(1, length),
            "batches_per_task": self._batches_per_task(parallel),
            "parallel": int(parallel),
            "pack_lhs": int(self._packs_lhs(block_n)),
            "pack_rhs": int(self._packs_rhs(block_m)),
            "lhs_leading": self._leading(chunk),
            "use_scratch": int(use_scratch),
        }

    def _chunk(self) -> tuple[int, int]:
        """(runs, lanes of each) of a chunk of k. Matrix units take whole tiles of lanes."""
        lanes = -(-self.shape.k_inner // self.types.lanes.group)
        runs, length = chunk_of_k(self.shape.k_outer, lanes, self.size * max(self.types.planes))
        if self.types.unit.is_tiles and length < lanes:
            length = _round_up(length, TILE_LANES)
        return runs, length

    def _needs_scratch(self) -> bool:
        """Whether kernels cannot write the result in place."""
        shape, types = self.shape, self.types
        if self.in_scratch or types.out is not types.compute or (shape.out_column != 1 and shape.n > 1):
            return True
        return not has_native_masks(self.target, types.compute) and shape.n % self.tile.width != 0

    def _limit_n(self, chunk: int) -> int:
        """Columns of a block so that its packed chunk fits."""
        rows = self.types.planes[1] * panel_rows(self.types.unit, self.types.lhs, chunk)
        columns = PACKED_RHS_BYTES // (rows * self.size)
        return max(self.tile.columns, columns // self.tile.columns * self.tile.columns)

    def _split(self, block_m: int, block_n: int) -> tuple[int, int]:
        """Blocks for enough tasks; packing is repeated per task, so blocks stay wide."""
        shape, tile = self.shape, self.tile
        wanted = min(self.max_tasks, max(self.min_tasks, shape.flops // TASK_FLOPS))
        blocks_n = -(-shape.n // block_n)
        if blocks_n == 3 and wanted >= 8:
            blocks_n = 4  # with three, rows would be cut in four, and each column packed as often
        while shape.num_batches * blocks_n * -(-shape.m // block_m) < wanted:
            columns, rows = -(-shape.n // blocks_n), min(block_m, shape.m)
            prefers_columns = (
                shape.rhs_column != 1  # packing is slow: rather repeat that of the left operand
                or columns >= 2 * rows
                or (rows <= MANY_ROWS and columns >= WIDE_TILES * tile.columns and not self._packs_lhs(columns))
            )
            if prefers_columns and columns >= 4 * tile.columns:
                blocks_n *= 2
            elif rows > 8 * tile.rows:
                block_m = _round_up(-(-rows // 2), tile.rows)
            elif columns > 2 * tile.columns:
                blocks_n *= 2
            elif rows > 2 * tile.rows:
                block_m = _round_up(-(-rows // 2), tile.rows)
            else:
                break
        block_n = min(block_n, _round_up(-(-shape.n // blocks_n), tile.width))
        return block_m, block_n

    def _packs_lhs(self, block_n: int) -> bool:
        shape, types = self.shape, self.types
        if (
            types.unit is not Unit.FMA
            or types.lhs is not types.compute
            or (shape.lhs_k_inner != 1 and shape.k_inner > 1)
        ):
            return True
        if self.tile.rows <= UNPACKED_TILE_ROWS:
            return False
        row_bytes = abs(shape.lhs_row) * self.size
        aliases = row_bytes % 2048 == 0
        return min(block_n, shape.n) > (2 if aliases else 6) * self.tile.columns

    def _packs_rhs(self, block_m: int) -> bool:
        shape, types = self.shape, self.types
        if types.unit is not Unit.FMA or types.rhs is not types.compute or shape.k_outer > 1:
            return True
        if shape.rhs_column != 1 and shape.n > 1:
            return True
        if shape.n % self.tile.width and not self._has_masks_for(min(block_m, shape.m)):
            return True
        return not rhs_stays_in_cache(shape, self.size, min(block_m, shape.m), self.tile.rows)

    def _has_masks_for(self, rows: int) -> bool:
        """Whether a kernel with masks reads the last columns of so many rows well: with 16 vector registers, a mask
        leaves one too few for the largest tile.
        """
        if not has_native_masks(self.target, self.types.compute):
            return False
        return self.target.vector_bits >= 512 or rows <= self.tile.row_variants[0]

    def _leading(self, chunk: int) -> int:
        """Bytes between packed rows: whole lines, an odd number of them, and room for a vector's overhang."""
        rows = self.types.planes[0] * panel_rows(self.types.unit, self.types.lhs, chunk)
        lines = -(-rows * self.size // 64)
        return 64 * (lines + 1 - lines % 2)


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
