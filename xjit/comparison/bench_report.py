"""A run of `xjit bench` as a table for a terminal, and as an HTML page with plots and the runs before it."""

from __future__ import annotations

import io
import time
from collections.abc import Sequence
from html import escape

from rich.console import Console
from rich.table import Table

from xjit.comparison.bench import Bench, BenchRow
from xjit.comparison.bench_history import PastRun, past_run
from xjit.comparison.html_report import html_page, html_table
from xjit.comparison.plots import COLOURS, Bar, Line, Point, bar_chart, line_chart, roofline
from xjit.comparison.units import duration, percent, quantity

TITLES = ("xjit", "best", "XLA:CPU", "ratio", "B/s", "FLOP/s", "of ceiling", "compile", "of XLA's")
"""Of the columns behind the module's name. All times are medians, unless they are called best."""


def bench_text(run: Bench, width: int = 140) -> str:
    """Returns the table, what has no second side and why, and the means."""
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False)
    console.print(run.machine, markup=False)
    table = Table("module")
    for title in TITLES:
        table.add_column(title, justify="right")
    table.add_column("values")
    for row in run.rows:
        table.add_row(row.name, *_cells(row), _verdict(row))
    console.print(table)
    for row in run.rows:
        if row.reason:
            console.print(f"{row.name}: XLA:CPU did not run: {row.reason}", markup=False)
    console.print(_means(run), markup=False)
    return out.getvalue()


def bench_html(run: Bench, history: Sequence[PastRun] = ()) -> str:
    """Returns one page that holds everything it shows."""
    title = "xjit bench: " + ", ".join(row.name for row in run.rows[:3]) + (" ..." if len(run.rows) > 3 else "")
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.when))
    titles = [("module", "name"), *((title, "n") for title in TITLES), ("values", "")]
    rows = [[escape(row.name), *_cells(row), escape(_verdict(row))] for row in run.rows]
    reasons = (f"<p><b>{escape(r.name)}</b>: XLA:CPU did not run: {escape(r.reason)}</p>" for r in run.rows if r.reason)
    body = [
        "<h1>xjit beside XLA:CPU</h1>",
        f"<p>{escape(run.machine)} · {when} · {escape(_means(run))}</p>",
        html_table(titles, rows),
        *reasons,
        "<h2>Time of a call</h2><p>The median; the mark is the best one. Both took turns.</p>",
        *(f"<p>{escape(row.name)}</p>{_bars(row)}" for row in run.rows),
        *(_ceiling(row) for row in run.rows),
        _history([*history, past_run(run)]),
    ]
    return html_page(title, body)


def _cells(row: BenchRow) -> list[str]:
    ours, other = row.ours, row.other
    return [
        duration(ours.times.median),
        duration(ours.times.best),
        duration(other.times.median) if other else "–",
        f"{row.ratio:.2f}×" if row.ratio else "–",
        quantity(row.bytes_per_second, "B/s"),
        quantity(row.flops_per_second, "FLOP/s"),
        percent(row.share_of_ceiling),
        duration(ours.compile_seconds),
        f"{row.compile_ratio:.2f}×" if row.compile_ratio else "–",
    ]


def _verdict(row: BenchRow) -> str:
    if row.other is None:
        return "not compared"
    return "agree" if row.ok else f"differ by {row.error:.1e}"


def _means(run: Bench) -> str:
    if run.mean_ratio is None or run.mean_compile_ratio is None:
        return "XLA:CPU did not run"
    return f"geometric means: {run.mean_ratio:.2f}× as fast as XLA:CPU, {run.mean_compile_ratio:.2f}× its compile time"


def _bars(row: BenchRow) -> str:
    sides = [("xjit", row.ours, COLOURS[0]), *([("XLA:CPU", row.other, COLOURS[1])] if row.other else [])]
    return bar_chart([Bar(name, side.times.median, side.times.best, colour) for name, side, colour in sides])


def _ceiling(row: BenchRow) -> str:
    points = [Point("xjit", row.flops, row.bytes_accessed, row.ours.times.median, COLOURS[0], True)]
    if row.other is not None:
        points.append(Point("XLA:CPU", row.flops, row.bytes_accessed, row.other.times.median, COLOURS[1], True))
    plot = roofline(points, row.ceilings)
    note = f"Working set {quantity(row.bytes_accessed, 'B')}. Measured at that size: {'; '.join(row.ceilings.remarks)}."
    return f"<h2>{escape(row.name)} under its ceilings</h2><p>{escape(note)}</p>{plot}" if plot else ""


def _history(runs: Sequence[PastRun]) -> str:
    if len(runs) < 2:
        return ""
    names = list(dict.fromkeys(name for run in runs for name in run.seconds))
    lines = [
        Line(name, [(run.when, run.seconds[name]) for run in runs if name in run.seconds], COLOURS[n % len(COLOURS)])
        for n, name in enumerate(names)
    ]
    machines = len({run.machine for run in runs})
    note = f"{len(runs)} runs" + (f" on {machines} machines" if machines > 1 else "") + ". Medians of xjit's calls."
    return f"<h2>History</h2><p>{note}</p>{line_chart(lines)}"
