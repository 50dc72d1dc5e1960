"""A comparison as JSON and CSV: times in seconds, sizes in bytes."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import Any

from xjit.comparison.comparison import Comparison, TargetResult


def to_json(comparison: Comparison) -> str:
    """Returns a JSON object. What is infinite or not known is null."""
    record = {
        "module": comparison.module,
        "machine": comparison.machine,
        "reference": comparison.reference,
        "ok": comparison.ok,
        "flops": comparison.flops,
        "bytes": comparison.bytes_accessed,
        "ceilings": [
            {
                "device": c.device,
                "bytes_per_second": c.bytes_per_second,
                "flops_per_second": c.flops_per_second,
                "remarks": list(c.remarks),
            }
            for c in comparison.ceilings
        ],
        "missing": dict(comparison.missing),
        "targets": [_target(comparison, result) for result in comparison.results],
    }
    return json.dumps(record, indent=1, allow_nan=False) + "\n"


def _target(comparison: Comparison, result: TargetResult) -> dict[str, Any]:
    times = result.times
    seconds = times.median if times else 0.0
    share = comparison.share_of_ceiling(result.device, comparison.flops, comparison.bytes_accessed, seconds)
    return {
        "target": result.target,
        "ok": result.ok,
        "median_seconds": times.median if times else None,
        "best_seconds": times.best if times else None,
        "rounds": times.rounds if times else 0,
        "share_of_ceiling": share,
        "outputs": [
            {
                "output": a.output,
                "shape": a.shape,
                "max_ulps": a.max_ulps,
                "mean_ulps": a.mean_ulps,
                "equal": a.equal,
                "error": a.error if math.isfinite(a.error) else None,
                "ok": a.ok,
            }
            for a in result.agreement
        ],
        "kernels": [
            {
                "kernel": k.kernel,
                "kind": k.kind,
                "instruction": k.instruction,
                "seconds": k.seconds,
                "bytes": k.bytes_accessed,
                "flops": k.flops,
                "share_of_ceiling": comparison.share_of_ceiling(result.device, k.flops, k.bytes_accessed, k.seconds),
            }
            for k in result.kernels
        ],
    }


COLUMNS = ("target", "kernel", "kind", "instruction", "median_seconds", "best_seconds", "bytes", "flops",
           "share_of_ceiling", "max_ulps", "error", "ok")  # fmt: skip


def to_csv(comparison: Comparison) -> str:
    """Returns a table: a line for each target, in total, followed by one for each of its kernels."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for result in comparison.results:
        times, seconds = result.times, result.times.median if result.times else 0.0
        share = comparison.share_of_ceiling(result.device, comparison.flops, comparison.bytes_accessed, seconds)
        writer.writerow(
            {
                "target": result.target,
                "median_seconds": times.median if times else "",
                "best_seconds": times.best if times else "",
                "bytes": comparison.bytes_accessed,
                "flops": comparison.flops,
                "share_of_ceiling": "" if share is None else share,
                "max_ulps": max((a.max_ulps for a in result.agreement), default=0),
                "error": max((a.error for a in result.agreement), default=0.0),
                "ok": result.ok,
            }
        )
        for k in result.kernels:
            share = comparison.share_of_ceiling(result.device, k.flops, k.bytes_accessed, k.seconds)
            writer.writerow(
                {
                    "target": result.target,
                    "kernel": k.kernel,
                    "kind": k.kind,
                    "instruction": k.instruction,
                    "median_seconds": k.seconds,
                    "bytes": k.bytes_accessed,
                    "flops": k.flops,
                    "share_of_ceiling": "" if share is None else share,
                }
            )
    return out.getvalue()
