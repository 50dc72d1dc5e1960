"""fft on GPUs: lines in the shared memory of a block of threads, and what is written in terms of such."""

from __future__ import annotations

import pytest

from tests.emitters.kernels.test_fft import TOLERANCE, text
from tests.support.gpu_simulation import check_simulated
from xjit.gpu_compiler import SimulatedExecutable

SLOW = pytest.mark.slow
ONE_BLOCK = "xjit.passes.expand.fft_expander.ONE_BLOCK_BYTES"


def check_fft(kind: str, fft_type: str, batch: tuple[int, ...], lengths: tuple[int, ...]) -> SimulatedExecutable:
    tolerance = TOLERANCE[kind] * 8
    return check_simulated(text(kind, fft_type, batch, lengths), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("kind", "fft_type", "batch", "length"),
    [
        ("f32", "FFT", (3,), 64),
        ("f64", "IRFFT", (2, 2), 30),
        *(
            pytest.param(*case, marks=SLOW)
            for case in [
                ("f32", "RFFT", (3,), 64), ("f32", "IRFFT", (3,), 27), ("f32", "IFFT", (), 128), ("f64", "FFT", (40,), 13),
                ("f32", "FFT", (200,), 2), ("f32", "FFT", (2,), 1001), ("f64", "RFFT", (2,), 154), ("f32", "FFT", (1,), 4096),
                ("f64", "IFFT", (1,), 2048), ("f32", "RFFT", (9,), 256), ("f32", "IRFFT", (9,), 256), ("f32", "RFFT", (2,), 3),
            ]
        ),
    ],
)  # fmt: skip
def test_a_block_has_lines(kind: str, fft_type: str, batch: tuple[int, ...], length: int) -> None:
    executable = check_fft(kind, fft_type, batch, (length,))
    assert [kernel.kind for kernel in executable.kernels] == ["fft-in-block"]


@pytest.mark.parametrize(
    ("fft_type", "lengths"),
    [
        ("IFFT", (64,)),
        *(
            pytest.param(*case, marks=SLOW)
            for case in [("FFT", (60,)), ("RFFT", (64,)), ("IRFFT", (60,)), ("RFFT", (4, 6)), ("IRFFT", (4, 6)), ("FFT", (17,)), ("IFFT", (37,))]
        ),
    ],
)  # fmt: skip
def test_longer_lines_several_dimensions_and_large_factors(
    fft_type: str, lengths: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines of up to 16 elements have a kernel here."""
    monkeypatch.setattr(ONE_BLOCK, 128)
    executable = check_fft("f32", fft_type, (2,), lengths)
    assert [kernel.kind for kernel in executable.kernels].count("fft-in-block") >= 2


@pytest.mark.slow
def test_lengths_without_two_factors_are_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ONE_BLOCK, 32)
    executable = check_fft("f32", "FFT", (2,), (34,))
    assert "fft-in-block" not in [kernel.kind for kernel in executable.kernels]
