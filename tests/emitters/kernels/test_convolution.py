"""convolution against the evaluator: every label order and layout, windows of all kinds, groups, element types.

Elements are small integers, so every order of summation gives the same bits: results are compared exactly.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pytest

from tests.support.kernels import Array, check, check_units
from xjit.emitters.planners.cpu.convolution import convolution_shape
from xjit.text.parser import parse_hlo


@dataclass(frozen=True, slots=True)
class Window:
    """One spatial dimension: input size, kernel size, and the window's attributes."""

    size: int
    kernel: int
    stride: int = 1
    low: int = 0
    high: int = 0
    base_dilation: int = 1
    window_dilation: int = 1
    reversal: int = 0

    @property
    def result(self) -> int:
        padded = (self.size - 1) * self.base_dilation + 1 + self.low + self.high
        reach = (self.kernel - 1) * self.window_dilation + 1
        return (padded - reach) // self.stride + 1 if padded >= reach else 0


@dataclass(frozen=True, slots=True)
class Convolution:
    """Sizes in groups: `inputs` features per group, `outputs` features per group, `batch` per batch group."""

    windows: tuple[Window, ...]
    batch: int = 1
    inputs: int = 1
    outputs: int = 1
    feature_groups: int = 1
    batch_groups: int = 1

    def text(self, rng: random.Random | None = None, kind: str = "f32", out_kind: str = "") -> str:
        """Returns the module; dimensions and layouts are in random order if there is a generator."""
        numbers = [str(i) for i in range(len(self.windows))]

        def sizes(of: str, features: dict[str, int]) -> dict[str, int]:
            result = {**features, **{n: getattr(w, of) for n, w in zip(numbers, self.windows)}}
            return {n: result[n] for n in (rng.sample(sorted(result), len(result)) if rng else result)}

        features = self.outputs * self.feature_groups * self.batch_groups
        source = sizes("size", {"b": self.batch * self.batch_groups, "f": self.inputs * self.feature_groups})
        kernel = sizes("kernel", {"i": self.inputs, "o": features})
        result = sizes("result", {"b": self.batch, "f": features})
        shapes = [_shape(k, s, rng) for k, s in ((kind, source), (kind, kernel), (out_kind or kind, result))]
        window = f"window={{{self._window()}}}, " if self.windows else ""
        labels = f"{''.join(source)}_{''.join(kernel)}->{''.join(result)}"
        return f"""ENTRY e {{
  x = {shapes[0]} parameter(0)
  y = {shapes[1]} parameter(1)
  ROOT r = {shapes[2]} convolution(x, y), {window}dim_labels={labels},
    feature_group_count={self.feature_groups}, batch_group_count={self.batch_groups}
}}
"""

    def _window(self) -> str:
        columns = {
            "size": [w.kernel for w in self.windows],
            "stride": [w.stride for w in self.windows],
            "pad": [f"{w.low}_{w.high}" for w in self.windows],
            "lhs_dilate": [w.base_dilation for w in self.windows],
            "rhs_dilate": [w.window_dilation for w in self.windows],
            "rhs_reversal": [w.reversal for w in self.windows],
        }
        return " ".join(f"{name}={'x'.join(map(str, column))}" for name, column in columns.items())


def _shape(kind: str, sizes: dict[str, int], rng: random.Random | None) -> str:
    order = rng.sample(range(len(sizes)), len(sizes)) if rng else range(len(sizes))[::-1]
    return f"{kind}[{','.join(map(str, sizes.values()))}]{{{','.join(map(str, order))}}}"


def random_convolution(rng: random.Random) -> Convolution:
    feature_groups = rng.choice((1, 1, 1, 2, 4))
    windows = [_random_window(rng) for _ in range(rng.choice((1, 2, 2, 2, 3)))]
    return Convolution(
        tuple(windows),
        batch=rng.randint(1, 3),
        inputs=rng.randint(1, 5),
        outputs=rng.randint(1, 5),
        feature_groups=feature_groups,
        batch_groups=1 if feature_groups > 1 else rng.choice((1, 1, 1, 2)),
    )


def _random_window(rng: random.Random) -> Window:
    while True:
        window = Window(
            size=rng.randint(1, 9),
            kernel=rng.randint(1, 4),
            stride=rng.randint(1, 3),
            low=rng.randint(-1, 3),
            high=rng.randint(-1, 3),
            base_dilation=rng.choice((1, 1, 2)),
            window_dilation=rng.choice((1, 1, 2)),
            reversal=rng.choice((0, 0, 1)),
        )
        if window.result:
            return window


def inputs_of(text: str) -> list[Array]:
    rng = np.random.default_rng(0)
    shapes = [p.shape for p in parse_hlo(text).entry_computation.parameter_instructions]
    return [(rng.integers(1, 4, s.dimensions) * rng.choice([-1, 1], s.dimensions)).astype(s.dtype) for s in shapes]


def check_convolution(text: str) -> None:
    """Checks the kernel of the root by itself."""
    check_units(text, *inputs_of(text))


@pytest.mark.parametrize("seed", range(45))
def test_any_convolution(seed: int) -> None:
    rng = random.Random(seed)
    kind = rng.choice(("f32", "f32", "f32", "bf16", "f64", "f16"))
    check_convolution(random_convolution(rng).text(rng, kind))


@pytest.mark.parametrize(("kind", "has_function"), [("c64", False), ("f8e5m2", True)])
@pytest.mark.parametrize("seed", range(2))
def test_other_types(kind: str, has_function: bool, seed: int) -> None:
    """Complex numbers are emitted as loops; 8-bit floats are converted where they are packed and stored."""
    rng = random.Random(seed)
    text = random_convolution(rng).text(rng, kind)
    assert (convolution_shape(parse_hlo(text).entry_computation.root_instruction) is not None) == has_function
    check_convolution(text)


@pytest.mark.parametrize("kind", ["s8", "s32", "u16", "u64"])
@pytest.mark.parametrize("seed", range(3))
def test_integers(kind: str, seed: int) -> None:
    rng = random.Random(seed)
    check_convolution(random_convolution(rng).text(rng, kind))


def test_long_sums_of_bytes() -> None:
    """2160 products of -128 and -128 are no longer exact in f32."""
    text = Convolution((Window(4, 3), Window(4, 3)), 1, 240, 3).text(kind="s8", out_kind="s32")
    check_units(text, *(np.full_like(x, -128) for x in inputs_of(text)))


@pytest.mark.parametrize(("kind", "out_kind"), [("bf16", "f32"), ("f16", "f32"), ("s8", "s32")])
def test_wider_results(kind: str, out_kind: str) -> None:
    check_convolution(Convolution((Window(9, 3), Window(7, 2)), 2, 8, 16).text(kind=kind, out_kind=out_kind))


NAMED = {
    "pointwise": Convolution((Window(14, 1), Window(14, 1)), 2, 24, 40),
    "strided pointwise": Convolution((Window(15, 1, 2), Window(15, 1, 2)), 2, 24, 40),
    "same padding": Convolution((Window(14, 3, 1, 1, 1), Window(14, 3, 1, 1, 1)), 1, 16, 32),
    "first layer": Convolution((Window(29, 7, 2, 3, 3), Window(29, 7, 2, 3, 3)), 1, 3, 16),
    "patches": Convolution((Window(32, 8, 8), Window(32, 8, 8)), 1, 3, 24),
    "depthwise": Convolution((Window(14, 3, 1, 1, 1), Window(14, 3, 1, 1, 1)), 2, 1, 1, 24),
    "depth multiplier": Convolution((Window(9, 3), Window(9, 3)), 2, 1, 2, 8),
    "transposed": Convolution((Window(7, 4, 1, 2, 2, 2), Window(7, 4, 1, 2, 2, 2)), 1, 16, 8),
    "weights' gradient": Convolution((Window(14, 12, 1, 1, 1), Window(14, 12, 1, 1, 1)), 8, 4, 8),
    "atrous": Convolution((Window(20, 3, 1, 4, 4, 1, 4), Window(20, 3, 1, 4, 4, 1, 4)), 1, 8, 16),
    "cropped": Convolution((Window(12, 3, 1, -2, -3), Window(12, 3, 2, -1, 2)), 2, 8, 16),
    "causal": Convolution((Window(50, 4, 1, 3, 0),), 2, 1, 1, 16),
    "volume": Convolution((Window(6, 3, 1, 1, 1), Window(7, 2), Window(8, 3, 2)), 1, 4, 8),
}


@pytest.mark.parametrize("name", NAMED)
def test_layers(name: str) -> None:
    text = NAMED[name].text()
    assert convolution_shape(parse_hlo(text).entry_computation.root_instruction) is not None
    check_convolution(text)
    check_convolution(NAMED[name].text(random.Random(name)))


def test_no_spatial_dimensions() -> None:
    check_convolution(Convolution((), 5, 7, 9).text())


def test_only_padding_is_read() -> None:
    """A window that lies in the padding gives zeros, not NaNs."""
    text = Convolution((Window(2, 2, 3, 6, 6),), 1, 3, 5).text()
    x, y = inputs_of(text)
    check_units(text, x, np.where(y > 0, np.float32("inf"), y).astype(np.float32))


@pytest.mark.parametrize("empty", [{"batch": 0}, {"inputs": 0}, {"outputs": 0}, {"windows": (Window(2, 3),)}])
def test_no_elements(empty: dict[str, int]) -> None:
    text = Convolution(**{"windows": (Window(6, 3),), "batch": 2, "inputs": 3, "outputs": 4, **empty}).text()
    check(text)
