"""Plots as SVG: times of targets, kernels under the device's ceilings, times of runs. Nothing is loaded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from xjit.comparison.ceilings import Ceilings
from xjit.comparison.units import duration, quantity
from xjit.dataclass import dataclass

COLOURS = ("#2563eb", "#d97706", "#059669", "#9333ea", "#dc2626")
WIDTH, BAR, LEFT, RIGHT = 760, 30, 110, 90


@dataclass(frozen=True, slots=True)
class Bar:
    """A value with its name; `tick` is another value of the same thing, a mark on the bar."""

    label: str
    value: float
    tick: float
    colour: str


@dataclass(frozen=True, slots=True)
class Point:
    """A kernel, or a whole module: operations, bytes and seconds."""

    label: str
    flops: float
    moved: float
    seconds: float
    colour: str
    is_total: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """Values over time: (seconds since the epoch, seconds) in order."""

    label: str
    points: Sequence[tuple[float, float]]
    colour: str


def line_chart(lines: Sequence[Line], height: int = 300) -> str:
    """Returns values over time, each relative to the first of its line, with the name at its end."""
    shown = [line for line in lines if line.points]
    times = [when for line in shown for when, _ in line.points]
    relative = [[value / line.points[0][1] for _, value in line.points] for line in shown]
    if not shown:
        return ""
    first, span = min(times), max(max(times) - min(times), 1.0)
    largest = max(1.0, *(value for values in relative for value in values))
    left, right, top, bottom = 60, WIDTH - 200, 16, height - 30
    parts = [_open(WIDTH, height)]
    for share in (0.0, 0.5, 1.0):
        y = bottom - (bottom - top) * share
        parts.append(f'<line x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{largest * share:.2f}×</text>')
    for line, values in zip(shown, relative, strict=True):
        places = [
            (left + (right - left) * (when - first) / span, bottom - (bottom - top) * value / largest)
            for (when, _), value in zip(line.points, values, strict=True)
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{line.colour}" stroke-width="2"/>')
        for (x, y), (_, seconds) in zip(places, line.points, strict=True):
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{line.colour}">')
            parts.append(f"<title>{escape(line.label)}: {escape(duration(seconds))}</title></circle>")
        x, y = places[-1]
        parts.append(f'<text x="{x + 8:.1f}" y="{y + 4:.1f}">{escape(line.label[:28])}</text>')
    return "\n".join([*parts, "</svg>"])


def bar_chart(bars: Sequence[Bar]) -> str:
    """Returns horizontal bars of seconds; a line on each marks the best time."""
    height = BAR * len(bars) + 8
    largest = max((bar.value for bar in bars), default=0.0) or 1.0
    room = WIDTH - LEFT - RIGHT
    lines = [_open(WIDTH, height)]
    for n, bar in enumerate(bars):
        y, length = n * BAR + 4, max(2.0, room * bar.value / largest)
        tick = LEFT + room * bar.tick / largest
        lines += [
            f'<text x="{LEFT - 10}" y="{y + 16}" text-anchor="end">{escape(bar.label)}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="22" rx="3" fill="{bar.colour}"/>',
            f'<line x1="{tick:.1f}" x2="{tick:.1f}" y1="{y - 2}" y2="{y + 24}" class="tick"/>',
            f'<text x="{LEFT + length + 8:.1f}" y="{y + 16}">{escape(duration(bar.value))}</text>',
        ]
    return "\n".join([*lines, "</svg>"])


class _LogAxes:
    """Places of points in a frame whose axes are logarithmic, over whole powers of ten."""

    def __init__(self, xs: Sequence[float], ys: Sequence[float], width: int, height: int) -> None:
        self.left, self.top, self.right, self.bottom = 80, 16, width - 24, height - 44
        self.x_range, self.y_range = _decades(xs), _decades(ys)

    def x(self, value: float) -> float:
        low, high = self.x_range
        return self.left + (self.right - self.left) * (math.log10(value) - low) / (high - low)

    def y(self, value: float) -> float:
        low, high = self.y_range
        return self.bottom - (self.bottom - self.top) * (math.log10(value) - low) / (high - low)

    def grid(self) -> list[str]:
        """Lines and numbers at the powers of ten."""
        lines: list[str] = []
        for power in range(self.x_range[0], self.x_range[1] + 1):
            x = self.x(10.0**power)
            lines.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{self.top}" y2="{self.bottom}" class="grid"/>')
            lines.append(f'<text x="{x:.1f}" y="{self.bottom + 16}" text-anchor="middle">{10.0**power:g}</text>')
        for power in range(self.y_range[0], self.y_range[1] + 1):
            y, label = self.y(10.0**power), escape(quantity(10.0**power, "FLOP/s"))
            lines.append(f'<line x1="{self.left}" x2="{self.right}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
            lines.append(f'<text x="{self.left - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
        middle = (self.left + self.right) / 2
        title = "operations per byte"
        lines.append(f'<text x="{middle:.0f}" y="{self.bottom + 36}" text-anchor="middle">{title}</text>')
        return lines


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def roofline(points: Sequence[Point], ceilings: Ceilings, height: int = 380) -> str:
    """Returns operations per second over operations per byte, below what the device can do at either.

    The area of a point is its share of the time. Points without operations or bytes are left out.
    """
    shown = [p for p in points if p.flops > 0 and p.moved > 0 and p.seconds > 0]
    if not shown or not ceilings.bytes_per_second or not ceilings.flops_per_second:
        return ""
    peak, rate = ceilings.flops_per_second, ceilings.bytes_per_second
    xs = [*(p.flops / p.moved for p in shown), peak / rate]
    ys = [*(p.flops / p.seconds for p in shown), peak]
    axes = _LogAxes(xs, ys, WIDTH, height)
    ridge, first, last = peak / rate, 10.0 ** axes.x_range[0], 10.0 ** axes.x_range[1]
    low = max(first, 10.0 ** axes.y_range[0] / rate)
    roof = [(low, low * rate), (ridge, peak), (last, peak)]
    path = " ".join(f"{axes.x(x):.1f},{axes.y(y):.1f}" for x, y in roof)
    label = f"{quantity(rate, 'B/s')} · {quantity(peak, 'FLOP/s')}"
    lines = [_open(WIDTH, height), *axes.grid(), f'<polyline points="{path}" class="roof"/>']
    lines.append(f'<text x="{axes.right}" y="{axes.y(peak) - 7:.1f}" text-anchor="end">{escape(label)}</text>')
    longest = max(p.seconds for p in shown)
    for p in sorted(shown, key=lambda p: -p.seconds):
        x, y, radius = axes.x(p.flops / p.moved), axes.y(p.flops / p.seconds), 3 + 11 * math.sqrt(p.seconds / longest)
        title = escape(f"{p.label}: {duration(p.seconds)}, {quantity(p.flops / p.seconds, 'FLOP/s')}")
        style = f'fill="none" stroke="{p.colour}" stroke-width="2"' if p.is_total else f'fill="{p.colour}"'
        lines.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" {style} opacity=".75">')
        lines.append(f"<title>{title}</title></circle>")
    return "\n".join([*lines, "</svg>"])


def _open(width: int, height: int) -> str:
    return f'<svg viewBox="0 0 {width} {height}" role="img" xmlns="http://www.w3.org/2000/svg">'
