"""Compiles convolutions, runs them on guarded buffers in any layout, and compares with a definition in NumPy."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tests.emitters.gemm.harness import DTYPES, Compiled, GuardedBuffer, compile_module, strided, target_of
from xjit.emitters.gemm.blocking.convolution_plan import plan_convolution
from xjit.emitters.gemm.blocking.convolution_shapes import ConvolutionShape, SpatialDimension
from xjit.emitters.gemm.blocking.method import GemmTypes
from xjit.emitters.gemm.convolution.function import ANY_CONVOLUTION, emit_convolution
from xjit.emitters.gemm.routine import ConvolutionRoutine, convolution_routine_for
from xjit.llvm import Module, Target


@dataclass(frozen=True)
class Case:
    """A convolution in logical terms. Orders list logical dimensions, major to minor: 0 batch (or kernel output), 1
    feature, 2.. spatial.
    """

    batch: int
    channels: int
    features: int
    input: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...] = ()
    padding: tuple[tuple[int, int], ...] = ()
    window_dilation: tuple[int, ...] = ()
    base_dilation: tuple[int, ...] = ()
    reversal: tuple[bool, ...] = ()
    feature_groups: int = 1
    batch_groups: int = 1
    orders: tuple[str, str, str] = (
        "last",
        "last",
        "last",
    )  # where features are in input, kernel, output: "last" or "first"
    types: GemmTypes = field(default=GemmTypes())

    def per_dimension(self, name: str, default: object) -> list:
        given = getattr(self, name)
        return list(given) if given else [default] * len(self.input)

    @property
    def output(self) -> tuple[int, ...]:
        sizes: list[int] = []
        for i, (size, taps) in enumerate(zip(self.input, self.kernel)):
            low, high = self.per_dimension("padding", (0, 0))[i]
            spread = (size - 1) * self.per_dimension("base_dilation", 1)[i] + 1 + low + high
            window = (taps - 1) * self.per_dimension("window_dilation", 1)[i] + 1
            sizes.append(max(0, (spread - window) // self.per_dimension("stride", 1)[i] + 1))
        return tuple(sizes)


def _strides(sizes: Sequence[int], order: str, kernel: bool = False) -> list[int]:
    """Strides of [batch, feature, spatial...]; "last": batch, spatial, feature (HWIO for kernels), "first": as
    listed, "mixed": spatial last of all.
    """
    rank = len(sizes)
    spatial = list(range(2, rank))
    major_to_minor = {
        "last": [*spatial, 1, 0] if kernel else [0, *spatial, 1],
        "first": [0, 1, *spatial],
        "mixed": [*reversed(spatial), 0, 1],
    }[order]
    strides, step = [0] * rank, 1
    for dimension in reversed(major_to_minor):
        strides[dimension] = step
        step *= sizes[dimension]
    return strides


def reference(case: Case, lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """The definition, in float64, on [batch, feature, spatial...] arrays."""
    rank = len(case.input)
    base, pads = case.per_dimension("base_dilation", 1), case.per_dimension("padding", (0, 0))
    spread_sizes = [(size - 1) * b + 1 for size, b in zip(case.input, base)]
    spread = np.zeros((*lhs.shape[:2], *spread_sizes))
    spread[(slice(None), slice(None), *(slice(None, None, b) for b in base))] = lhs
    for axis, (low, high) in enumerate(pads, 2):
        index = np.arange(-low, spread.shape[axis] + high)
        inside = (index >= 0) & (index < spread.shape[axis])
        taken = spread.take(np.clip(index, 0, spread.shape[axis] - 1), axis)
        spread = taken * inside.reshape([-1 if a == axis else 1 for a in range(spread.ndim)])
    for axis, flag in enumerate(case.per_dimension("reversal", False), 2):
        rhs = np.flip(rhs, axis) if flag else rhs
    groups = case.feature_groups * case.batch_groups
    inputs = (
        np.split(spread, case.feature_groups, 1) if case.feature_groups > 1 else np.split(spread, case.batch_groups, 0)
    )
    parts: list[np.ndarray] = []
    for part, kernel in zip(inputs, np.split(rhs, groups, 0)):
        total = np.zeros((part.shape[0], kernel.shape[0], *case.output))
        for tap in itertools.product(*map(range, case.kernel)):
            slices = []
            for axis in range(rank):
                start = tap[axis] * case.per_dimension("window_dilation", 1)[axis]
                step = case.per_dimension("stride", 1)[axis]
                slices.append(slice(start, start + (case.output[axis] - 1) * step + 1, step))
            total += np.einsum(
                "nc...,oc->no...", part[(slice(None), slice(None), *slices)], kernel[(slice(None), slice(None), *tap)]
            )
        parts.append(total)
    return np.concatenate(parts, 1)


def convolution_shape(case: Case) -> ConvolutionShape:
    """The shape with its strides."""
    groups = case.feature_groups * case.batch_groups
    lhs = _strides((case.batch, case.channels, *case.input), case.orders[0])
    rhs = _strides((case.features, case.channels // case.feature_groups, *case.kernel), case.orders[1], kernel=True)
    out = _strides((case.batch // case.batch_groups, case.features, *case.output), case.orders[2])
    spatial = tuple(
        SpatialDimension(
            case.input[i],
            case.kernel[i],
            case.output[i],
            lhs[i + 2],
            rhs[i + 2],
            out[i + 2],
            case.per_dimension("stride", 1)[i],
            case.per_dimension("padding", (0, 0))[i][0],
            case.per_dimension("window_dilation", 1)[i],
            case.per_dimension("base_dilation", 1)[i],
            case.per_dimension("reversal", False)[i],
        )
        for i in range(len(case.input))
    )
    assert groups >= 1
    return ConvolutionShape(
        case.batch,
        case.channels,
        case.features,
        spatial,
        lhs[0],
        lhs[1],
        rhs[1],
        rhs[0],
        out[0],
        out[1],
        case.feature_groups,
        case.batch_groups,
    )


@functools.cache
def compiled_convolution(
    level: str, types: GemmTypes, routine: ConvolutionRoutine = ANY_CONVOLUTION
) -> tuple[Target, Compiled]:
    """The convolution for a level and types."""
    target = target_of(level)
    module = Module("convolution", target)
    function = emit_convolution(module, target, types, routine)
    return target, compile_module(module, [function.name], 5)[function.name]


def run_convolution(
    case: Case, level: str = "host", seed: int = 0, tolerance: float = 0, fits: bool = False
) -> np.ndarray:
    """Runs a convolution of small integers, compares exactly, checks guards; returns the result.

    With a tolerance numbers have all bits: it bounds each error beside the sum of absolute products. What runs can do
    any convolution, or if it `fits` no more than this one needs.
    """
    shape, target = convolution_shape(case), target_of(level)
    plan = plan_convolution(shape, case.types, target)
    routine = replace(convolution_routine_for(plan, case.types, target), linked=False) if fits else ANY_CONVOLUTION
    _, compiled = compiled_convolution(level, case.types, routine)
    sizes = {
        "lhs": (case.batch, case.channels, *case.input),
        "rhs": (case.features, case.channels // case.feature_groups, *case.kernel),
        "out": (case.batch // case.batch_groups, case.features, *case.output),
    }
    strides = {name: _strides(sizes[name], order, name == "rhs") for name, order in zip(sizes, case.orders)}
    rng = np.random.default_rng(seed)
    buffers = {
        name: GuardedBuffer(elem, math.prod(sizes[name]), 1)
        for name, elem in zip(sizes, (case.types.lhs, case.types.rhs, case.types.out))
    }
    for name, buffer in buffers.items():
        size = buffer.array.size
        numbers = rng.standard_normal(size) if tolerance else rng.integers(-4, 5, size)
        buffer.array[:] = (numbers if name != "out" else np.full(size, 77)).astype(buffer.dtype)
    views = {name: strided(buffers[name].array, sizes[name], strides[name]) for name in sizes}
    record = plan.to_array()
    compiled.call(buffers["out"].address, buffers["lhs"].address, buffers["rhs"].address, 0, record.ctypes.data)
    lhs, rhs = (views[name].astype(np.float64) for name in ("lhs", "rhs"))
    expected, result = reference(case, lhs, rhs).astype(DTYPES[case.types.out]), views["out"]
    if tolerance:
        bound = tolerance * reference(case, np.abs(lhs), np.abs(rhs))
        assert (np.abs(result - expected) <= bound).all(), case
    else:
        np.testing.assert_array_equal(result, expected, err_msg=str(case))
    for buffer in buffers.values():
        buffer.check_guards()
    return views["out"].copy()
