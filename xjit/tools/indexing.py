"""Print the indexing maps of the instructions of an HLO file."""

from __future__ import annotations

import argparse
import json
from typing import Any

from xjit.api import load
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.module import HloModule
from xjit.indexing.composition import Composer
from xjit.indexing.hlo_indexing import (
    HloInstructionIndexing,
    compute_input_to_output_indexing,
    compute_output_to_input_indexing,
)
from xjit.indexing.structure import leaf_count
from xjit.ops.verifier import verify_module

DIRECTIONS = ("output-to-input", "input-to-output")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `xjit indexing`."""
    parser.add_argument("file", metavar="FILE", help="in any format of xjit run")
    parser.add_argument(
        "--instruction", metavar="NAME", help="only this instruction (default: all of the entry computation)"
    )
    parser.add_argument("--direction", choices=DIRECTIONS, default=DIRECTIONS[0])
    parser.add_argument("--operand", metavar="N", type=int, help="only this operand")
    parser.add_argument("--output", metavar="N", type=int, help="only this output, of a tuple")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")


def main(options: argparse.Namespace) -> int:
    """Prints the maps; every instruction is a block of its HLO text and its maps."""
    module = load(options.file)
    verify_module(module)
    composer = Composer()
    for instruction in _chosen(module, options.instruction):
        composer.refill()
        for number, indexing in _indexings(instruction, options, composer):
            _print(instruction, number, indexing, options)
    return 0


def _chosen(module: HloModule, name: str | None) -> list[HloInstruction]:
    if name is None:
        return [i for i in module.entry_computation.instructions if i.operand_count]
    wanted = name.removeprefix("%")
    found = [i for c in module.computations() for i in c.instructions if i.name == wanted]
    if not found:
        raise InvalidArgument(f"the module has no instruction named '{wanted}'")
    return found


def _indexings(
    instruction: HloInstruction, options: argparse.Namespace, composer: Composer
) -> list[tuple[int, HloInstructionIndexing]]:
    if options.operand is not None and not 0 <= options.operand < instruction.operand_count:
        raise InvalidArgument(
            f"{instruction.name} has {instruction.operand_count} operands, there is no {options.operand}"
        )
    outputs = leaf_count(instruction.shape)
    if options.output is not None and not 0 <= options.output < outputs:
        raise InvalidArgument(f"{instruction.name} has {outputs} outputs, there is no {options.output}")
    if options.direction == "output-to-input":
        numbers = range(outputs) if options.output is None else [options.output]
        return [(n, compute_output_to_input_indexing(instruction, n, composer)) for n in numbers]
    numbers = range(instruction.operand_count) if options.operand is None else [options.operand]
    return [(n, compute_input_to_output_indexing(instruction, n, composer)) for n in numbers]


def _print(
    instruction: HloInstruction, number: int, indexing: HloInstructionIndexing, options: argparse.Namespace
) -> None:
    forward = options.direction == "output-to-input"
    only = options.operand if forward else options.output
    sets = [(n, maps) for n, maps in enumerate(indexing) if only is None or n == only]
    if options.json:
        record: dict[str, Any] = {
            "instruction": instruction.name,
            "direction": options.direction,
            "output" if forward else "operand": number,
            "maps": [{indexing.what: n, "indexing": [str(m) for m in maps]} for n, maps in sets],
        }
        print(json.dumps(record))
        return
    title = f"{'output' if forward else 'operand'} {number} of " if _needs_number(instruction, forward) else ""
    print(f"{title}{instruction.short_text()}")
    for n, maps in sets:
        print(f"{indexing.what} id = {n}")
        for m in maps:
            print(m)
    print()


def _needs_number(instruction: HloInstruction, forward: bool) -> bool:
    return (leaf_count(instruction.shape) if forward else instruction.operand_count) > 1
