"""Families of convolutions in training: gradients of strided 1x1 kernels, of depthwise ones and of patches, sums for
biases; products with long sums, and convolutions to few features."""

from __future__ import annotations

from typing import Any

import jax
from cases import Arguments, bfloat16, normal, several
from family import Family, Sizes, summed
from layer_families import images, strided, with_kernel
from shape_families import patches

BATCHES: Sizes = ((4, 28, 32), (16, 28, 64))
"""Images, rows and columns, channels."""


def pointwise(batch: int, size: int, channels: int) -> Arguments:
    """Images, and a kernel of 1x1 that makes twice as many channels."""
    return several(images(batch, size, channels), normal(1, 1, channels, 2 * channels))


def depthwise(x: Any, w: Any) -> Any:
    """A convolution of each channel with its own kernel, channels last."""
    numbers = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=numbers, feature_group_count=x.shape[-1]
    )


def same(x: Any, w: Any) -> Any:
    """A convolution that keeps places, channels last."""
    return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def skipping(x: Any, w: Any) -> Any:
    """A convolution whose windows leave pixels between them out, channels last."""
    step = w.shape[0] + 1
    return jax.lax.conv_general_dilated(x, w, (step, step), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))


GRADIENT_FAMILIES = (
    Family(
        "gradient of skipping 2x2, image",
        summed(lambda x, w: skipping(x, w) ** 2),
        lambda b, n, c: several(images(b, n, c), normal(2, 2, c, 32)),
        ((4, 57, 4), (1, 224, 3), (4, 60, 32)),
    ),
    Family("gradient of strided 1x1, image", summed(lambda x, w: strided(x, w) ** 2), pointwise, BATCHES),
    Family("gradient of strided 1x1, kernel", summed(lambda x, w: strided(x, w) ** 2, 1), pointwise, BATCHES),
    Family("gradient of 1x1, kernel", summed(lambda x, w: same(x, w) ** 2, 1), pointwise, BATCHES),
    Family("gradient of 3x3, kernel", summed(lambda x, w: same(x, w) ** 2, 1), with_kernel, BATCHES),
    Family(
        "gradient of 3x3 of bf16, kernel",
        summed(lambda x, w: same(x, w) ** 2, 1),
        lambda b, n, c: several(bfloat16(b, n, n, c), bfloat16(3, 3, c, c)),
        BATCHES,
    ),
    Family(
        "gradient of depthwise 5x5, kernel",
        summed(lambda x, w: depthwise(x, w) ** 2, 1),
        lambda b, n, c: several(images(b, n, c), normal(5, 5, 1, c)),
        BATCHES,
    ),
    Family(
        "gradient of patches, kernel",
        summed(lambda x, w: patches(x, w) ** 2, 1),
        lambda b, n, p, c: several(normal(b, n, n, 3), normal(p, p, 3, c)),
        ((1, 56, 8, 64), (8, 64, 4, 96)),
    ),
    Family(
        "convolution to three channels",
        same,
        lambda b, n, c: several(images(b, n, c), normal(3, 3, c, 3)),
        ((1, 28, 32), (4, 64, 64)),
    ),
    Family(
        "long sums of few products",
        lambda x, y: x.T @ y,
        lambda k, n: several(normal(k, n), normal(k, 2 * n)),
        ((4096, 16), (65536, 16), (65536, 64)),
    ),
)
"""Rows of the benchmark by family and size."""
