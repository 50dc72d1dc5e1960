"""A comparison as tables for a terminal."""

from __future__ import annotations

import io

from rich.console import Console
from rich.table import Table

from xjit.comparison.comparison import Comparison, TargetResult
from xjit.comparison.units import duration, percent, quantity, ulps

SHOWN_KERNELS = 15


def to_text(comparison: Comparison, width: int = 120) -> str:
    """Returns what is worth reading first: targets, then what did not run, ceilings, and the dearest kernels."""
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False)
    work = f"{quantity(comparison.flops, 'FLOP')}, {quantity(comparison.bytes_accessed, 'B')} in and out"
    console.print(f"module {comparison.module}: {work}; {comparison.machine}", markup=False)
    console.print(_targets(comparison))
    for name, reason in comparison.missing:
        console.print(f"{name}: not here: {reason.splitlines()[0]}", markup=False)
    for c in comparison.ceilings:
        rates = f"{quantity(c.bytes_per_second, 'B/s')}, {quantity(c.flops_per_second, 'FLOP/s')}"
        console.print(f"ceilings of {c.device}, measured now: {rates} ({'; '.join(c.remarks)})", markup=False)
    for result in comparison.results:
        if result.kernels:
            console.print(_kernels(comparison, result))
    return out.getvalue()


def _targets(comparison: Comparison) -> Table:
    table = Table("target", title=f"values against {comparison.reference}", title_justify="left")
    for title in ("median", "best", "speed", "FLOP/s", "of ceiling", "max ULPs", "rel. error"):
        table.add_column(title, justify="right")
    table.add_column("values")
    first = next((r.times.median for r in comparison.results if r.times), None)
    for result in comparison.results:
        worst = max((a.max_ulps for a in result.agreement), default=0)
        error = max((a.error for a in result.agreement), default=0.0)
        verdict = "reference" if result.target == comparison.reference else "agree" if result.ok else "DIFFER"
        table.add_row(result.target, *_times(comparison, result, first), ulps(worst), f"{error:.1e}", verdict)
    return table


def _times(comparison: Comparison, result: TargetResult, first: float | None) -> tuple[str, ...]:
    times = result.times
    if times is None or first is None:
        return ("not timed", "–", "–", "–", "–")
    share = comparison.share_of_ceiling(result.device, comparison.flops, comparison.bytes_accessed, times.median)
    rate = quantity(comparison.flops / times.median, "FLOP/s")
    return duration(times.median), duration(times.best), f"{first / times.median:.2f}x", rate, percent(share)


def _kernels(comparison: Comparison, result: TargetResult) -> Table:
    table = Table("time", title=f"kernels of {result.target}, the dearest first", title_justify="left")
    for title in ("share", "B/s", "FLOP/s", "of ceiling"):
        table.add_column(title, justify="right")
    table.add_column("kind")
    table.add_column("instruction", overflow="fold")
    total = sum(k.seconds for k in result.kernels) or 1.0
    ordered = sorted(result.kernels, key=lambda k: -k.seconds)
    for k in ordered[:SHOWN_KERNELS]:
        rates = [quantity(amount / k.seconds, "") if k.seconds else "–" for amount in (k.bytes_accessed, k.flops)]
        of_ceiling = percent(comparison.share_of_ceiling(result.device, k.flops, k.bytes_accessed, k.seconds))
        table.add_row(duration(k.seconds), percent(k.seconds / total), *rates, of_ceiling, k.kind, k.instruction)
    if len(ordered) > SHOWN_KERNELS:
        rest = sum(k.seconds for k in ordered[SHOWN_KERNELS:])
        table.add_row(duration(rest), percent(rest / total), "", "", "", "", f"{len(ordered) - SHOWN_KERNELS} more")
    return table
