"""Families of convolutions to few features: filters of images, of colours, of bytes, and of signals."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from cases import Arguments, integers, normal, several
from family import Family, Sizes
from gradient_families import depthwise, same

IMAGES: Sizes = ((4, 64, 5), (1, 512, 3), (1, 512, 7))
"""Images, rows and columns, taps along either."""


def gray(batch: int, size: int, taps: int, features: int = 1) -> Arguments:
    """Images of one channel, and a kernel."""
    return several(normal(batch, size, size, 1), normal(taps, taps, 1, features))


def colours(batch: int, size: int, taps: int) -> Arguments:
    """Images of three channels, and a kernel for each."""
    return several(normal(batch, size, size, 3), normal(taps, taps, 1, 3))


FILTER_FAMILIES = (
    Family("filter", same, gray, IMAGES),
    Family("four filters", same, lambda *size: gray(*size, features=4), IMAGES),
    Family("filter of colours", depthwise, colours, IMAGES),
    Family(
        "filter of bytes",
        same,
        lambda batch, size, taps: several(
            integers(np.uint8, batch, size, size, 1), integers(np.uint8, taps, taps, 1, 1)
        ),
        IMAGES,
    ),
    Family(
        "filter to one channel",
        same,
        lambda batch, size, taps: several(normal(batch, size, size, 3), normal(taps, taps, 3, 1)),
        IMAGES,
    ),
    Family("fir", jnp.convolve, lambda n, taps: several(normal(n), normal(taps)), ((20_000, 31), (1 << 20, 9))),
)
