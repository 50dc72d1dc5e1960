"""A comparison as one HTML page that holds everything it shows: no scripts, no fonts, no network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from xjit.comparison.comparison import Comparison, TargetResult
from xjit.comparison.plots import COLOURS, Bar, Point, bar_chart, roofline
from xjit.comparison.units import duration, percent, quantity, ulps

SHOWN_KERNELS = 40
STYLE = """
:root { color-scheme: light dark; --ink: #1f2937; --faint: #6b7280; --line: #d1d5db; --back: #fff; --card: #f8fafc; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e5e7eb; --faint: #9ca3af; --line: #374151; --back: #111827; --card: #1f2937; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back); margin: 2rem auto;
  max-width: 1000px; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.1rem; margin-top: 2.2rem; }
p, .faint { color: var(--faint); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; } th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); }
td.n, th.n { text-align: right; white-space: nowrap; }
td.name { font-family: ui-monospace, monospace; font-size: 13px;
  word-break: break-all; }
.bad { color: #dc2626; font-weight: 600; } .good { color: #059669; }
.dot { display: inline-block; width: .7em; height: .7em; border-radius: 50%; margin-right: .5em; }
svg { width: 100%; height: auto; background: var(--card); border-radius: 8px; padding: .5rem; box-sizing: border-box; }
svg text { font: 12px system-ui, sans-serif; fill: var(--ink); } svg .grid { stroke: var(--line); stroke-width: 1; }
svg .tick { stroke: var(--ink); stroke-width: 2; } svg .roof { fill: none; stroke: var(--ink); stroke-width: 2; }
"""


def to_html(comparison: Comparison) -> str:
    """Returns the page."""
    title = f"{comparison.module}: {', '.join(result.target for result in comparison.results)}"
    work = f"{quantity(comparison.flops, 'FLOP')} · {quantity(comparison.bytes_accessed, 'B')} in and out"
    body = [
        f"<h1>{escape(comparison.module)}</h1>",
        f"<p>{escape(work)} · {escape(comparison.machine)} · values against {escape(comparison.reference)}</p>",
        _targets(comparison),
        _missing(comparison),
        _times(comparison),
        *(_roofline(comparison, device) for device in dict.fromkeys(r.device for r in comparison.results if r.times)),
        _outputs(comparison),
        *(_kernels(comparison, result) for result in comparison.results if result.kernels),
    ]
    return html_page(title, body)


def html_page(title: str, body: Iterable[str]) -> str:
    """Returns a page of parts that are HTML; empty ones are left out."""
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    page = "\n".join(part for part in body if part)
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head>\n<body>\n{page}\n</body></html>\n'
    )


def _colour(comparison: Comparison, result: TargetResult) -> str:
    return COLOURS[comparison.results.index(result) % len(COLOURS)]


def html_table(titles: Sequence[tuple[str, str]], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table; each title comes with the class of its column, cells are HTML."""
    head = "".join(f'<th class="{kind}">{escape(title)}</th>' for title, kind in titles)
    lines = [f"<table><thead><tr>{head}</tr></thead><tbody>"]
    for row in rows:
        cells = (f'<td class="{kind}">{cell}</td>' for cell, (_, kind) in zip(row, titles, strict=True))
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return "\n".join([*lines, "</tbody></table>"])


def _targets(comparison: Comparison) -> str:
    titles = [("target", ""), ("median", "n"), ("best", "n"), ("speed", "n"), ("FLOP/s", "n"), ("of ceiling", "n"),
              ("max ULPs", "n"), ("relative error", "n"), ("values", "")]  # fmt: skip
    first = next((r.times.median for r in comparison.results if r.times), 0.0)
    rows: list[list[str]] = []
    for result in comparison.results:
        times = result.times
        name = f'<span class="dot" style="background:{_colour(comparison, result)}"></span>{escape(result.target)}'
        cells = ["not timed", "–", "–", "–", "–"]
        if times is not None:
            share = comparison.share_of_ceiling(
                result.device, comparison.flops, comparison.bytes_accessed, times.median
            )
            speed, rate = f"{first / times.median:.2f}×", quantity(comparison.flops / times.median, "FLOP/s")
            cells = [duration(times.median), duration(times.best), speed, rate, percent(share)]
        worst = max((a.max_ulps for a in result.agreement), default=0)
        error = max((a.error for a in result.agreement), default=0.0)
        rows.append([name, *cells, ulps(worst), f"{error:.1e}", _verdict(comparison, result)])
    return html_table(titles, rows)


def _verdict(comparison: Comparison, result: TargetResult) -> str:
    if not result.ok:
        return '<span class="bad">differ</span>'
    return "reference" if result.target == comparison.reference else '<span class="good">agree</span>'


def _missing(comparison: Comparison) -> str:
    lines = (f"<b>{escape(name)}</b> did not run: {escape(reason)}" for name, reason in comparison.missing)
    return "".join(f"<p>{line}</p>" for line in lines)


def _times(comparison: Comparison) -> str:
    bars = [Bar(r.target, r.times.median, r.times.best, _colour(comparison, r)) for r in comparison.results if r.times]
    note = "The median of a call; the mark is the best one. Targets took turns."
    return f"<h2>Time of a call</h2><p>{note}</p>{bar_chart(bars)}" if bars else ""


def _roofline(comparison: Comparison, device: str) -> str:
    ceilings = comparison.ceilings_of(device)
    if ceilings is None:
        return ""
    points: list[Point] = []
    for result in comparison.results:
        if result.device != device or result.times is None:
            continue
        colour = _colour(comparison, result)
        work = (comparison.flops, comparison.bytes_accessed, result.times.median)
        points.append(Point(f"{result.target}, all", *work, colour, True))
        points += [
            Point(f"{result.target} {k.instruction}", k.flops, k.bytes_accessed, k.seconds, colour)
            for k in result.kernels
        ]
    plot = roofline(points, ceilings)
    note = (
        f"Circles are whole calls, discs are kernels; larger ones take longer. Measured: {'; '.join(ceilings.remarks)}."
        " The slope is the memory's rate: what lies in caches can be above it."
    )
    return f"<h2>Against the ceilings of {escape(device)}</h2><p>{escape(note)}</p>{plot}" if plot else ""


def _outputs(comparison: Comparison) -> str:
    titles = [("target", ""), ("output", "name"), ("max ULPs", "n"), ("mean ULPs", "n"), ("same bits", "n"),
              ("relative error", "n"), ("", "")]  # fmt: skip
    rows = [
        [
            escape(result.target),
            f"{a.output}: {escape(a.shape)}",
            ulps(a.max_ulps),
            f"{a.mean_ulps:.3g}",
            percent(a.equal),
            f"{a.error:.1e}",
            '<span class="good">ok</span>' if a.ok else '<span class="bad">differs</span>',
        ]
        for result in comparison.results
        if result.target != comparison.reference
        for a in result.agreement
    ]
    return f"<h2>Values</h2>{html_table(titles, rows)}" if rows else ""


def _kernels(comparison: Comparison, result: TargetResult) -> str:
    titles = [("instruction", "name"), ("kind", ""), ("time", "n"), ("share", "n"), ("B/s", "n"), ("FLOP/s", "n"),
              ("of ceiling", "n")]  # fmt: skip
    total = sum(k.seconds for k in result.kernels) or 1.0
    ordered = sorted(result.kernels, key=lambda k: -k.seconds)
    rows: list[list[str]] = []
    for k in ordered[:SHOWN_KERNELS]:
        rates = [quantity(amount / k.seconds, "") if k.seconds else "–" for amount in (k.bytes_accessed, k.flops)]
        of_ceiling = percent(comparison.share_of_ceiling(result.device, k.flops, k.bytes_accessed, k.seconds))
        times = (duration(k.seconds), percent(k.seconds / total))
        rows.append([escape(k.instruction), escape(k.kind), *times, *rates, of_ceiling])
    rest = ordered[SHOWN_KERNELS:]
    note = f"<p>{len(rest)} more take {duration(sum(k.seconds for k in rest))}.</p>" if rest else ""
    return f"<h2>Kernels of {escape(result.target)}</h2>{html_table(titles, rows)}{note}"
