"""Numbers as a reader wants them: seconds, bytes and rates with prefixes."""

from __future__ import annotations

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def quantity(value: float, unit: str) -> str:
    """Returns such as "12.3 GB/s", of decimal prefixes."""
    for factor, prefix in _PREFIXES:
        if abs(value) >= factor:
            return f"{value / factor:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def duration(seconds: float) -> str:
    """Returns such as "1.23 ms"."""
    for factor, unit in _SECONDS:
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return "0 s" if not seconds else f"{seconds / 1e-9:.2g} ns"


def percent(share: float | None) -> str:
    """Returns a share in percent; a dash if it is not known."""
    return "–" if share is None else f"{100 * share:.3g} %"


def ulps(count: int) -> str:
    """Returns a number of units in the last place, short."""
    return f"{count}" if count < 100_000 else f"{count:.1e}"
