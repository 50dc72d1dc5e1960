"""Blocking of convolutions: from a `ConvolutionShape` to `ConvolutionParameters`. Pure arithmetic.

A task computes a tile of output pixels (images x rows x columns) for a block of output features. For each chunk of
taps and input channels it copies the input that the tile sees to a *slab*: padded, spread out, contiguous, of the
compute type (a slab for each plane of numbers that are taken apart). In the slab the pixels of the tile are rows of a
matrix with a pointer each, and k runs along taps and channels, so no im2col is needed.
"""

from __future__ import annotations

import dataclasses
import math

from xjit.emitters.gemm.blocking.convolution_dimensions import SlabAxis, is_depthwise, slab_axis, spatial_dimensions
from xjit.emitters.gemm.blocking.convolution_shapes import ConvolutionParameters, ConvolutionShape
from xjit.emitters.gemm.blocking.method import GemmTypes
from xjit.emitters.gemm.blocking.plan import MAX_TASKS, PACKED_RHS_BYTES, PARALLEL_FLOPS, RESULT_SCRATCH_BYTES
from xjit.emitters.gemm.blocking.register_tile import register_tile
from xjit.emitters.gemm.blocking.storage import has_native_masks, size_of
from xjit.emitters.gemm.blocking.units import panel_rows
from xjit.llvm.target import Target

SLAB_BYTES = 256 << 10
CHUNK_K_BYTES = 2400  # of k for one pixel and chunk
MAX_TILE_PIXELS = 1024
MIN_TILE_PIXELS = 64
GOOD_TILE_PIXELS = 256  # packing the kernel is amortised over so many
GOOD_BLOCK_FEATURES = 96
_CHANNEL_STEP = 16


def plan_convolution(
    shape: ConvolutionShape,
    types: GemmTypes,
    target: Target,
    max_tasks: int = MAX_TASKS,
    *,
    in_scratch: bool = False,
) -> ConvolutionParameters:
    """The record for a convolution with at most three spatial dimensions that are not trivial. Raises ValueError for
    more. `max_tasks` changes no bit of the result; with `in_scratch` all sums go through scratch memory.
    """
    return _ConvolutionPlanner(shape, types, target, max_tasks, in_scratch).plan()


class _ConvolutionPlanner:
    def __init__(
        self, shape: ConvolutionShape, types: GemmTypes, target: Target, max_tasks: int, in_scratch: bool
    ) -> None:
        self.shape = shape
        self.types = types
        self.target = target
        self.max_tasks = max_tasks
        self.in_scratch = in_scratch
        self.size = size_of(types.compute)
        self.tile = register_tile(target, types)
        self.dims = spatial_dimensions(shape)
        self.channels = shape.input_features // shape.feature_groups
        self.features = shape.output_features // shape.groups
        self.group = types.lanes.group
        self.batch = shape.batch // shape.batch_groups
        self.depthwise = is_depthwise(shape)
        if self.depthwise:
            assert self.group == 1, "channels that are not summed fill no lanes"
            self.features = self.channels = shape.feature_groups

    def plan(self) -> ConvolutionParameters:
        values = {field.name: 0 for field in dataclasses.fields(ConvolutionParameters)}
        values.update(self._sizes(), **self._strides())
        parallel = self.shape.flops >= PARALLEL_FLOPS
        self._choose_chunk()
        self._choose_tile(parallel)
        _, first, second = self.dims
        tiles = {
            "tiles_batch": -(-self.batch // self.tile_batch), "tiles_1": -(-first.output // self.tile_1),
            "tiles_2": -(-second.output // self.tile_2), "blocks_features": -(-self.features // self.block_features),
        }  # fmt: skip
        tasks = math.prod(tiles.values()) * values["groups"] * self.dims[0].output
        row = self._direct_row()
        direct = row is not None and not self.in_scratch and not self.depthwise
        padded = _round_up(self.block_features, self.tile.width) * self.size
        values.update(
            tiles,
            num_tasks=tasks,
            parallel=int(parallel and tasks > 1),
            depthwise=int(self.depthwise),
            tile_batch=self.tile_batch,
            tile_1=self.tile_1,
            tile_2=self.tile_2,
            block_features=self.block_features,
            chunk_1=self.first.taps,
            chunk_2=self.second.taps,
            chunk_channels=self.chunk_channels,
            step_1=self.first.step,
            step_2=self.second.step,
            slab_1=self.first.pixels(self.tile_1),
            slab_2=self.second.pixels(self.tile_2),
            slab_stride_1=self.first.stride,
            slab_stride_2=self.second.stride,
            slab_tap_1=self.first.tap,
            slab_tap_2=self.second.tap,
            use_scratch=int(not direct),
            merge_rows=int(self._rows_merge()),
            result_row=row if direct and row is not None else padded,
        )
        return ConvolutionParameters(**values)

    def _sizes(self) -> dict[str, int]:
        groups = 1 if self.depthwise else self.shape.groups
        values = {"batch": self.batch, "groups": groups, "features": self.features, "channels": self.channels}
        for i, d in enumerate(self.dims):
            values.update(
                {
                    f"input_{i}": d.input,
                    f"kernel_{i}": d.kernel,
                    f"output_{i}": d.output,
                    f"window_stride_{i}": d.window_stride,
                    f"padding_{i}": d.padding_low,
                    f"dilation_{i}": d.window_dilation,
                    f"base_{i}": d.base_dilation,
                }
            )
        return values

    def _strides(self) -> dict[str, int]:
        shape, types = self.shape, self.types
        lhs, rhs, out = size_of(types.lhs), size_of(types.rhs), size_of(types.out)
        by_feature = shape.feature_groups > 1
        in_group = self.channels * shape.input_feature if by_feature else self.batch * shape.input_batch
        values = {
            "in_batch": shape.input_batch * lhs,
            "in_group": in_group * lhs,
            "in_channel": shape.input_feature * lhs,
            "tap_group": self.features * shape.kernel_output * rhs,
            "tap_channel": shape.kernel_input * rhs,
            "tap_feature": shape.kernel_output * rhs,
            "out_batch": shape.output_batch * out,
            "out_group": self.features * shape.output_feature * out,
            "out_feature": shape.output_feature * out,
            "tap_start": 0,
        }
        for i, d in enumerate(self.dims):
            sign = -1 if d.reversed else 1
            values["tap_start"] += (d.kernel - 1) * d.kernel_stride * rhs if d.reversed else 0
            values.update(
                {
                    f"in_{i}": d.input_stride * lhs,
                    f"tap_{i}": sign * d.kernel_stride * rhs,
                    f"out_{i}": d.output_stride * out,
                }
            )
        return values

    def _choose_chunk(self) -> None:
        """Taps and channels of a chunk. Depends on the window and the channels alone: it sets the order of the sums."""
        _, first, second = self.dims
        limit = CHUNK_K_BYTES // (self.size * max(self.types.planes)) * self.group
        taps_1, taps_2 = first.kernel, second.kernel
        if self.depthwise:
            taps_1, taps_2 = min(taps_1, 16), min(taps_2, 32)
            self.chunk_channels = min(self.channels, 64)
        else:
            if slab_axis(second, taps_2).tap > 1:
                taps_2 = 1
            least = 1 if self._planar() else max(1, min(self._padded(self.channels), _CHANNEL_STEP))
            taps_2 = min(taps_2, max(1, limit // least))
            taps_1 = _balanced(taps_1, max(1, limit // (taps_2 * least)))
            most = 1 if self._planar() else max(least, limit // (taps_1 * taps_2))
            chunks = -(-self.channels // most)
            step = 1 if self._planar() else _CHANNEL_STEP
            self.chunk_channels = min(self.channels, _round_up(-(-self.channels // max(1, chunks)), step))
        if self._slab_bytes(slab_axis(first, taps_1), slab_axis(second, taps_2), 1, 1, 1) > SLAB_BYTES:
            taps_1 = 1
        if self._slab_bytes(slab_axis(first, taps_1), slab_axis(second, taps_2), 1, 1, 1) > SLAB_BYTES:
            taps_2 = 1
        self.first, self.second = slab_axis(first, taps_1), slab_axis(second, taps_2)

    def _planar(self) -> bool:
        """Few channels, each an image of its own (the first layer, features outermost): one channel per chunk copies
        whole rows.
        """
        if self.group > 1:
            return False
        return self.channels < _CHANNEL_STEP // 2 and self.shape.input_feature != 1 and self.dims[2].input_stride == 1

    def _slab_bytes(self, first: SlabAxis, second: SlabAxis, tile_batch: int, tile_1: int, tile_2: int) -> int:
        if self.depthwise:
            channels = _round_up(self.chunk_channels, self.tile.width)
        else:
            channels = self._lanes(self.chunk_channels)
        pixels = tile_batch * first.pixels(tile_1) * second.pixels(tile_2)
        return self.types.planes[0] * pixels * channels * self.size

    def _padded(self, channels: int) -> int:
        """Channels of a pixel with those that fill its last lane."""
        return _round_up(channels, self.group)

    def _lanes(self, channels: int) -> int:
        return self._padded(channels) // self.group

    def _fits(self, tile_batch: int, tile_1: int, tile_2: int, pixels: int) -> bool:
        bytes_needed = self._slab_bytes(self.first, self.second, tile_batch, tile_1, tile_2)
        return tile_batch * tile_1 * tile_2 <= pixels and bytes_needed <= SLAB_BYTES

    def _choose_tile(self, parallel: bool) -> None:
        chunk = max(1, self.first.taps * self.second.taps * self._lanes(self.chunk_channels))
        if self.depthwise:
            features = self.chunk_channels
        else:
            rows = self.types.planes[1] * panel_rows(self.types.unit, self.types.lhs, chunk)
            columns = PACKED_RHS_BYTES // (rows * self.size)
            features = max(self.tile.columns, columns // self.tile.columns * self.tile.columns)
        self.block_features = min(self.features, features, 512 if self._always_direct() else 256)
        padded = _round_up(self.block_features, self.tile.width) * self.size
        pixels = (
            MAX_TILE_PIXELS if self._always_direct() else min(MAX_TILE_PIXELS, max(1, RESULT_SCRATCH_BYTES // padded))
        )
        least = GOOD_BLOCK_FEATURES
        if self.shape.kernel_output != 1:  # features are packed across memory: every tile of pixels does that again
            least = 2 * self.tile.width
        outer = self.shape.groups * self.dims[0].output
        total = self.batch * self.dims[1].output * self.dims[2].output
        if parallel:
            blocks = -(-self.features // self.block_features)
            wanted = -(-self.max_tasks // (outer * blocks))
            pixels = min(pixels, max(GOOD_TILE_PIXELS, -(-total // wanted)))
            while -(-total // pixels) * blocks * outer < self.max_tasks // 2 and not self.depthwise:
                if self.block_features < 2 * least:
                    break
                self.block_features = _round_up(-(-self.block_features // 2), self.tile.width)
                blocks = -(-self.features // self.block_features)
            if -(-total // pixels) * blocks * outer < self.max_tasks // 2:
                pixels = min(pixels, max(MIN_TILE_PIXELS, -(-total // wanted)))
            is_alone = -(-total // pixels) * blocks * outer == 1
            if is_alone and self.block_features >= 4 * self.tile.width:  # rather read the input twice
                self.block_features = _round_up(-(-self.block_features // 2), self.tile.width)
        self._shape_tile(pixels)

    def _shape_tile(self, pixels: int) -> None:
        """Whole rows of output pixels, then several rows, then several images, as far as they fit."""
        _, first, second = self.dims
        tile_2 = max(1, second.output)
        while tile_2 > 1 and not self._fits(1, 1, tile_2, max(pixels, min(second.output, 64))):
            tile_2 = -(-tile_2 // 2)
        tile_1 = tile_batch = 1
        if tile_2 == second.output:
            most = min(first.output, pixels // tile_2)
            tile_1 = max((t for t in range(1, most + 1) if self._fits(1, t, tile_2, pixels)), default=1)
            tile_1 = _balanced(first.output, tile_1)
            if tile_1 == first.output:
                most = min(self.batch, pixels // (tile_1 * tile_2))
                tile_batch = max((t for t in range(1, most + 1) if self._fits(t, tile_1, tile_2, pixels)), default=1)
                tile_batch = _balanced(self.batch, tile_batch)
        self.tile_batch, self.tile_1, self.tile_2 = tile_batch, tile_1, tile_2

    def _rows_merge(self) -> bool:
        _, first, second = self.dims
        return self.tile_2 == second.output and first.output_stride == second.output * second.output_stride

    def _always_direct(self) -> bool:
        """Whether any tile can be computed in place: the output is dense, features innermost."""
        shape, (_, first, second) = self.shape, self.dims
        if self.in_scratch or self.depthwise or self.types.out is not self.types.compute or shape.output_feature != 1:
            return False
        if not has_native_masks(self.target, self.types.compute) and self.features % self.tile.width:
            return False
        rows_merge = (
            second.output == 1 or first.output == 1 or first.output_stride == second.output * second.output_stride
        )
        pixel = second.output_stride if second.output > 1 else first.output_stride
        images_merge = self.batch == 1 or shape.output_batch == first.output * second.output * pixel
        return rows_merge and images_merge and second.output > 1

    def _direct_row(self) -> int | None:
        """Bytes between consecutive pixels of a tile in the output, if kernels can write there."""
        shape, types = self.shape, self.types
        _, first, second = self.dims
        if types.out is not types.compute or shape.output_feature != 1:
            return None
        if not has_native_masks(self.target, types.compute) and self.features % self.tile.width:
            return None
        row = second.output_stride
        if self.tile_2 == 1 and second.output == 1:
            row = first.output_stride if first.output > 1 else shape.output_batch
        elif self.tile_1 > 1 and not self._rows_merge():
            return None
        if self.tile_batch > 1 and shape.output_batch != first.output * second.output * row:
            return None
        return row * size_of(types.out)


def _balanced(size: int, most: int) -> int:
    """The length of pieces of `most` at most, as many as needed and about equally long."""
    return -(-size // -(-size // most)) if size else 1


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
