"""Launch dimensions: how many, and how they read."""

from __future__ import annotations

from xjit.thunks import LaunchDimensions


def test_counts() -> None:
    launch = LaunchDimensions((4, 3, 2), (32, 4, 1))
    assert (launch.num_blocks, launch.threads_per_block) == (24, 128)


def test_text() -> None:
    assert str(LaunchDimensions((7, 1, 1), (128, 1, 1))) == "7 blocks of 128 threads"
    assert (
        str(LaunchDimensions((4, 3, 1), (32, 4, 1), 512))
        == "4x3x1 blocks of 32x4x1 threads, 512 bytes of shared memory"
    )
