"""How much memory do real training steps take beside XLA:CPU's? What both plan, in MB: nothing is allocated or run.

A step takes arguments, results that do not alias an argument, and temporary memory. `donated` adds the aliases that a
training loop would ask for: each result in the first free argument of its shape. xjit stops after buffer assignment.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from corpus import add_arguments, choose, open_corpus, short_name
from reporting import Report, parse_arguments
from xla_cpu import XlaExecutable

from xjit.hlo import HloModule, Shape
from xjit.hlo.types.physical import physical_byte_size
from xjit.passes import PassDriver, cpu_pipeline
from xjit.passes.schedule_and_memory.buffer_assignment import assign_buffers
from xjit.text.parser import parse_hlo

DEFAULT_NAMES = ["/training/"]
COLUMNS = ("arguments", "results", "xjit alias", "xla alias", "xjit temp", "xla temp", "temp ratio", "total ratio")
MB = 1e6


def load(models: Any, entry: str) -> HloModule:
    """Returns a module as the corpus prepares it for one device, with the aliases that its file declares.

    A layer, `FILE#COMPUTATION`, has none.
    """
    module = parse_hlo(models.load_text(entry))
    if "#" in entry:
        return module
    declared = parse_hlo(Path(models.full(entry)).read_text(), allow_elided_constants=True)
    module.config.input_output_alias = declared.config.input_output_alias
    return module


def donate(module: HloModule) -> None:
    """Lets each array of the result be in the first argument of its shape that is still free."""
    config = module.input_output_alias_config
    free = {n: p.shape for n, p in enumerate(module.entry_computation.parameter_instructions) if p.shape.is_array}
    for alias in module.config.input_output_alias:
        free.pop(alias.parameter_number, None)
    for index, shape in module.result_shape.leaves():
        number = next((n for n, s in free.items() if s.compatible(shape)), None)
        if number is not None and not any(a.output_index == index for a in module.config.input_output_alias):
            config.set_up_alias(index, number)
            del free[number]


def planned_by_xjit(module: HloModule) -> dict[str, float]:
    """Bytes by kind, from the buffer assignment of the optimized module."""
    optimized = module.clone("")
    PassDriver().run(cpu_pipeline(), optimized)
    assignment = assign_buffers(optimized)
    entry = optimized.entry_computation
    return {
        "arguments": sum(_bytes(p.shape) for p in entry.parameter_instructions),
        "results": _bytes(entry.root_instruction.shape),
        "alias": assignment.alias_bytes,
        "temp": assignment.arena_size,
    }


def planned_by_xla(text: str) -> dict[str, float]:
    """Bytes by kind, as XLA:CPU's executable tells."""
    stats = XlaExecutable(text).executable.get_compiled_memory_stats()
    return {
        "arguments": stats.argument_size_in_bytes,
        "results": stats.output_size_in_bytes,
        "alias": stats.alias_size_in_bytes,
        "temp": stats.temp_size_in_bytes,
    }


def _bytes(shape: Shape) -> int:
    return sum(physical_byte_size(leaf) for _, leaf in shape.leaves())


def _total(plan: dict[str, float]) -> float:
    return plan["arguments"] + plan["results"] - plan["alias"] + plan["temp"]


def row(ours: dict[str, float], theirs: dict[str, float] | None) -> dict[str, Any]:
    """The columns of a row."""
    found: dict[str, Any] = {name: ours[name] / MB for name in ("arguments", "results")}
    for side, plan in (("xjit", ours), ("xla", theirs)):
        if plan is not None:
            found |= {f"{side} {name}": plan[name] / MB for name in ("alias", "temp")}
    if theirs is not None:
        found |= {"temp ratio": ours["temp"] / max(theirs["temp"], 1), "total ratio": _total(ours) / _total(theirs)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    parser.add_argument("--no-xla", action="store_true", help="only what xjit plans (XLA generates code for minutes)")
    parser.add_argument("--donated", action="store_true", help="also with results in arguments of their shape")
    options = parse_arguments(parser)
    models = open_corpus(options.corpus)
    report = Report(COLUMNS)
    for entry in choose(models, options.names or DEFAULT_NAMES, runnable=False):
        module = load(models, entry)
        for donated in (False, True) if options.donated else (False,):
            if donated:
                donate(module)
            theirs = None if options.no_xla else planned_by_xla(str(module))
            label = short_name(entry) + (" donated" if donated else "")
            report.add(label, **row(planned_by_xjit(module), theirs))
    report.finish(options.json)


if __name__ == "__main__":
    main()
