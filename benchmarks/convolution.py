"""Convolutions of ResNet-50 (batch 8), MobileNet, ResNeXt and ViT against XLA:CPU, float32, NHWC and NCHW."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass

import jax
import numpy as np
from side_by_side import Native, aligned, compare, compile_function, geometric_mean, report

from xjit.emitters.gemm.blocking.convolution_dimensions import as_gemm
from xjit.emitters.gemm.blocking.convolution_plan import plan_convolution
from xjit.emitters.gemm.blocking.convolution_shapes import ConvolutionShape, SpatialDimension
from xjit.emitters.gemm.blocking.method import GemmTypes
from xjit.emitters.gemm.blocking.plan import plan_gemm
from xjit.emitters.gemm.convolution.function import emit_convolution
from xjit.emitters.gemm.gemm import emit_gemm
from xjit.llvm import Target

BATCH = 8


@dataclass(frozen=True, slots=True)
class Layer:
    """A square 2-D layer; `groups` feature groups."""

    label: str
    channels: int
    features: int
    size: int
    kernel: int
    stride: int = 1
    groups: int = 1

    @property
    def padding(self) -> int:
        return 0 if self.kernel == self.stride else (self.kernel - 1) // 2

    @property
    def output(self) -> int:
        return (self.size + 2 * self.padding - self.kernel) // self.stride + 1


LAYERS = (
    Layer("7x7/2 3->64 @224", 3, 64, 224, 7, 2),
    Layer("1x1 64->64 @56", 64, 64, 56, 1),
    Layer("3x3 64->64 @56", 64, 64, 56, 3),
    Layer("1x1 64->256 @56", 64, 256, 56, 1),
    Layer("1x1 256->64 @56", 256, 64, 56, 1),
    Layer("3x3/2 128->128 @56", 128, 128, 56, 3, 2),
    Layer("3x3 128->128 @28", 128, 128, 28, 3),
    Layer("1x1 256->512/2 @56", 256, 512, 57, 1, 2),
    Layer("3x3 256->256 @14", 256, 256, 14, 3),
    Layer("1x1 1024->256 @14", 1024, 256, 14, 1),
    Layer("3x3 512->512 @7", 512, 512, 7, 3),
    Layer("1x1 512->2048 @7", 512, 2048, 7, 1),
    Layer("depthwise 3x3 144 @56", 144, 144, 56, 3, 1, 144),
    Layer("32 groups 3x3 128 @56", 128, 128, 56, 3, 1, 32),
    Layer("ViT patches 16x16/16 3->768", 3, 768, 224, 16, 16),
)


def convolution_shape(layer: Layer, features_last: bool) -> ConvolutionShape:
    """Strides of NHWC/HWIO, or of NCHW/OIHW."""
    channels, features, per_group = layer.channels, layer.features, layer.channels // layer.groups
    size, kernel, output = layer.size, layer.kernel, layer.output
    if features_last:
        dimensions = [
            (size * channels, kernel * per_group * features, output * features),
            (channels, per_group * features, features),
        ]
        inner = (1, features, 1, 1)
    else:
        dimensions = [(size, kernel, output), (1, 1, 1)]
        inner = (size * size, kernel * kernel, per_group * kernel * kernel, output * output)
    spatial = tuple(
        SpatialDimension(size, kernel, output, *strides, layer.stride, layer.padding) for strides in dimensions
    )
    return ConvolutionShape(
        BATCH,
        channels,
        features,
        spatial,
        size * size * channels,
        inner[0],
        inner[1],
        inner[2],
        output * output * features,
        inner[3],
        layer.groups,
    )


def measure(layer: Layer, features_last: bool, gemm: Native, convolution: Native, repetitions: int) -> float:
    """One line of the table; also checks the result."""
    rng, shape = np.random.default_rng(0), convolution_shape(layer, features_last)
    as_product = as_gemm(shape)
    if as_product is not None:
        native, parameters = gemm, plan_gemm(as_product, GemmTypes(), Target.host()).to_array()
    else:
        native, parameters = convolution, plan_convolution(shape, GemmTypes(), Target.host()).to_array()
    n, c, f, s, k, o = BATCH, layer.channels, layer.features, layer.size, layer.kernel, layer.output
    per_group = c // layer.groups
    shapes = (
        [(n, s, s, c), (k, k, per_group, f), (n, o, o, f)]
        if features_last
        else [(n, c, s, s), (f, per_group, k, k), (n, f, o, o)]
    )
    names = ("NHWC", "HWIO", "NHWC") if features_last else ("NCHW", "OIHW", "NCHW")
    lhs, rhs, out = (aligned(math.prod(sizes), rng) for sizes in shapes)
    padding = [(layer.padding, layer.padding)] * 2
    convolve = jax.jit(
        lambda x, y: jax.lax.conv_general_dilated(
            x, y, (layer.stride, layer.stride), padding, dimension_numbers=names, feature_group_count=layer.groups
        )
    )
    x, y = jax.numpy.asarray(lhs.reshape(shapes[0])), jax.numpy.asarray(rhs.reshape(shapes[1]))
    pointers = (out.ctypes.data, lhs.ctypes.data, rhs.ctypes.data, 0, parameters.ctypes.data)
    native.call(*pointers)
    np.testing.assert_allclose(out.reshape(shapes[2]), convolve(x, y), atol=2e-4 * math.sqrt(per_group * k * k))
    times = compare(lambda: native.call(*pointers), lambda: convolve(x, y).block_until_ready(), repetitions, 1)
    return report(f"{names[0]} {layer.label}", shape.flops, *times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--only", default="", help="measure only lines that contain this")
    options = parser.parse_args()
    gemm = compile_function(lambda module: emit_gemm(module, module.target, GemmTypes()))
    convolution = compile_function(lambda module: emit_convolution(module, module.target, GemmTypes()))
    print(f"compiled in {convolution.compile_ms:.0f} ms (CPU time)")
    for features_last in (True, False):
        chosen = [layer for layer in LAYERS if options.only in layer.label]
        ratios = [measure(layer, features_last, gemm, convolution, options.repetitions) for layer in chosen]
        print(f"geometric mean of ratios: {geometric_mean(ratios):.2f}")


if __name__ == "__main__":
    main()
