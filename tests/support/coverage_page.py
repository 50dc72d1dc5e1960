"""Writes docs/coverage.md: `python -m tests.support.coverage_page`. A test holds the page against what this makes."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tests.emitters.gpu.test_every_opcode import MODULES, ON_CPUS_ONLY
from tests.support.hlo_generator import ALL
from tests.support.hlo_rules import ELEMENTWISE, RULES
from tests.support.opcode_servers import servers
from xjit.emitters.coverage import LEFT_OVER, SEVERAL_DEVICES, UNSUPPORTED
from xjit.emitters.elemental import supports_elementwise
from xjit.hlo import HloError, HloInstruction, PrimitiveType, Shape
from xjit.hlo.attributes.opcodes import OPCODES
from xjit.ops import build
from xjit.ops.evaluation.table import UNSUPPORTED as NOT_EVALUATED

PAGE = Path(__file__).resolve().parents[2] / "docs" / "coverage.md"
HEAD = """# Coverage

Which opcodes run where, and what tests it. This page is made of the tables that compilers and tests use:
`python -m tests.support.coverage_page`.

## Opcodes

*CPU* says what takes care of an opcode: the loops of fusions (elementwise, fused), a kernel of its own, the sequence of steps (unnested), a
pass that rewrites it (expander); behind it, in which form it is refused. *Tests*: `random` are random instructions over all types
(`tests/support/hlo_rules.py`), compiled for both targets and compared with the evaluator; else a module of
`tests/emitters/gpu/opcodes.hlo`, or the tests of the opcode by its name.

| opcode | evaluator | CPU | cuda-sim | tests |
|---|---|---|---|---|
"""
TYPES_HEAD = """
## Elementwise opcodes by type

R: random instructions of the type on the evaluator, CPU and cuda-sim. y: compiled, not among the random ones. -: no such instruction, the
verifier refuses it. n: refused by name when it is compiled.

"""


def page() -> str:
    """Returns the text of the page."""
    rows = [f"| {' | '.join(_row(opcode))} |\n" for opcode in sorted(OPCODES)]
    types = [f"| opcode | {' | '.join(kind.text for kind in ALL)} |\n", "|---" * (len(ALL) + 1) + "|\n"]
    for opcode in sorted(ELEMENTWISE):
        types.append(f"| `{opcode}` | {' | '.join(_cell(opcode, kind) for kind in ALL)} |\n")
    return HEAD + "".join(rows) + TYPES_HEAD + "".join(types)


def _row(opcode: str) -> list[str]:
    evaluated = f"no: {NOT_EVALUATED[opcode]}" if opcode in NOT_EVALUATED else "yes"
    return [f"`{opcode}`", evaluated, _cpu(opcode), _gpu(opcode), _tests(opcode)]


def _cpu(opcode: str) -> str:
    if opcode in UNSUPPORTED:
        return f"no: {UNSUPPORTED[opcode]}"
    how = ", ".join(sorted(servers(opcode)))
    if opcode in LEFT_OVER and opcode not in ON_CPUS_ONLY:
        how += f"; not if {LEFT_OVER[opcode]}"
    return how


def _gpu(opcode: str) -> str:
    if opcode in UNSUPPORTED:
        return f"no: {UNSUPPORTED[opcode]}"
    if opcode in SEVERAL_DEVICES:
        return "by the host"
    if opcode in LEFT_OVER:
        return f"not if {LEFT_OVER[opcode]}"
    return "yes"


def _tests(opcode: str) -> str:
    if opcode in RULES:
        return "random"
    return "`opcodes.hlo`" if any(opcode in name.split(",") for name in MODULES) else "by name"


def _cell(opcode: str, kind: PrimitiveType) -> str:
    rule = ELEMENTWISE[opcode]
    assert isinstance(rule, partial)
    if kind in rule.args[1]:
        return "R"
    if not _is_valid(opcode, kind):
        return "-"
    return "y" if supports_elementwise(opcode, kind) else "n"


def _is_valid(opcode: str, kind: PrimitiveType) -> bool:
    operands = [HloInstruction.create_parameter(n, Shape.array(kind, (2,))) for n in range(OPCODES[opcode].arity)]
    try:
        build.make(opcode, *operands)
    except HloError:
        return False
    return True


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
