"""The runs of `xjit bench` over time: a file with a JSON object per line, which every run adds one to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from xjit.comparison.bench import Bench, BenchRow, Side
from xjit.dataclass import dataclass
from xjit.hlo.diagnostics import InvalidArgument


@dataclass(frozen=True, slots=True)
class PastRun:
    """What a history keeps of a run: per module the median seconds of a call, and the ratio to XLA:CPU."""

    when: float
    machine: str
    seconds: dict[str, float]
    ratios: dict[str, float]


def bench_record(run: Bench) -> dict[str, Any]:
    """Returns a run as a JSON object: seconds, bytes, rates per second. What is not known is null."""
    return {
        "when": run.when,
        "machine": run.machine,
        "mean_ratio": run.mean_ratio,
        "mean_compile_ratio": run.mean_compile_ratio,
        "rows": [_row(row) for row in run.rows],
    }


def read_history(path: str) -> list[PastRun]:
    """Returns the runs of a file, the oldest first; none if there is no such file. Errors: InvalidArgument."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"cannot read '{path}': {error}") from error
    try:
        return [_past(json.loads(line)) for line in lines if line.strip()]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidArgument(f"'{path}' is no history of xjit bench: {error!r}") from error


def add_to_history(path: str, run: Bench) -> None:
    """Adds a line to a file. Errors: InvalidArgument."""
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(bench_record(run), allow_nan=False) + "\n")
    except OSError as error:
        raise InvalidArgument(f"cannot write '{path}': {error}") from error


def past_run(run: Bench) -> PastRun:
    """Returns what a history would keep of a run."""
    return _past(bench_record(run))


def _row(row: BenchRow) -> dict[str, Any]:
    return {
        "module": row.name,
        "flops": row.flops,
        "bytes": row.bytes_accessed,
        "xjit": _side(row.ours),
        "xla": _side(row.other),
        "ratio": row.ratio,
        "compile_ratio": row.compile_ratio,
        "bytes_per_second": row.bytes_per_second,
        "flops_per_second": row.flops_per_second,
        "ceilings": {
            "bytes_per_second": row.ceilings.bytes_per_second,
            "flops_per_second": row.ceilings.flops_per_second,
        },
        "share_of_ceiling": row.share_of_ceiling,
        "ok": row.ok,
        "reason": row.reason,
    }


def _side(side: Side | None) -> dict[str, Any] | None:
    if side is None:
        return None
    times = side.times
    seconds = {"median_seconds": times.median, "best_seconds": times.best, "rounds": times.rounds}
    return {**seconds, "compile_seconds": side.compile_seconds}


def _past(record: dict[str, Any]) -> PastRun:
    rows = record["rows"]
    seconds = {row["module"]: float(row["xjit"]["median_seconds"]) for row in rows}
    ratios = {row["module"]: float(row["ratio"]) for row in rows if row["ratio"] is not None}
    return PastRun(float(record["when"]), str(record["machine"]), seconds, ratios)
