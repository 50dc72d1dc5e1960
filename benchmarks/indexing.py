"""Time of the indexing analysis: maps of every instruction of a module, both per output leaf, and the slowest ten.

Without a file, the largest module of the corpus next to the repository.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import xjit
from xjit.affine import IndexingMap
from xjit.hlo.ir.instruction import HloInstruction
from xjit.indexing import compute_output_to_input_indexing
from xjit.indexing.composition import Composer
from xjit.indexing.structure import leaf_count

CORPUS = Path(__file__).resolve().parents[2] / "shared" / "corpus" / "models"


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of CPU time for all outputs of one instruction and for the slowest; how many maps came out (UNKNOWN)."""

    seconds: float
    slowest: float
    instruction: HloInstruction
    maps: int
    unknown: int


def measure(path: Path) -> list[Timing]:
    """Returns the timings of every instruction of a module, in order."""
    module = xjit.load_module(path)
    composer = Composer()
    timings: list[Timing] = []
    for computation in module.computations():
        for instruction in computation.instructions:
            composer.refill()
            seconds: list[float] = []
            maps: list[IndexingMap] = []
            for output in range(leaf_count(instruction.shape)):
                begin = time.thread_time()
                found = compute_output_to_input_indexing(instruction, output, composer)
                seconds.append(time.thread_time() - begin)
                maps += [m for operand in found for m in operand]
            unknown = sum(m.is_unknown for m in maps)
            timings.append(Timing(sum(seconds), max(seconds, default=0.0), instruction, len(maps), unknown))
    return timings


def report(timings: list[Timing]) -> str:
    """Returns the totals and the slowest ten."""
    total = sum(t.seconds for t in timings)
    maps, unknown = sum(t.maps for t in timings), sum(t.unknown for t in timings)
    slowest = max((t.slowest for t in timings), default=0.0)
    lines = [
        f"{len(timings)} instructions, {maps} maps ({unknown} unknown), {total:.2f} s, slowest output {slowest:.3f} s",
        "",
        "slowest instructions, all their outputs:",
    ]
    for t in sorted(timings, key=lambda t: -t.seconds)[:10]:
        lines.append(f"{t.seconds * 1e3:9.2f} ms  {t.maps:5} maps  {t.instruction.opcode:16} {t.instruction.name}")
    return "\n".join(lines)


def largest() -> Path | None:
    """Returns the largest module of the corpus, if there is one."""
    files = sorted(CORPUS.rglob("*.txt"), key=lambda p: p.stat().st_size)
    return files[-1] if files else None


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, help="HLO in any format that xjit reads")
    chosen = parser.parse_args().file or largest()
    if chosen is None:
        sys.exit("no corpus: name a file")
    print(chosen.name)
    print(report(measure(chosen)))
