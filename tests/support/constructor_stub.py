"""The text of `xjit/hlo/ir/constructors.pyi`: what type checkers see of the derived constructors.

`python -m tests.support.constructor_stub` writes the file anew after a change of the opcode table.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

from xjit.hlo import attributes as at
from xjit.hlo.ir import constructors
from xjit.hlo.ir.constructors import InstructionConstructors

STUB = Path(constructors.__file__).with_suffix(".pyi")

HEADER = '''\
"""Generated from the opcode table by `python -m tests.support.constructor_stub`: see `constructors.py`."""

from collections.abc import Sequence

from xjit.hlo.attributes import {attributes}
from xjit.hlo.attributes.opcodes import Opcode
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.literal import Literal
from xjit.hlo.types.shape import Shape

def constructor_name(op: Opcode) -> str: ...

class InstructionConstructors:
'''


def stub_text() -> str:
    """Returns the whole stub: a line per constructor, in the order of the class."""
    lines: list[str] = []
    for name in vars(InstructionConstructors):
        if name.startswith("create_"):
            lines += ["    @classmethod", f"    def {name}({_parameters(name)}) -> HloInstruction: ..."]
    body = "\n".join(lines) + "\n"
    used = sorted(name for name in vars(at) if re.search(rf"\b{name}\b", body) and name[0].isupper())
    own = [name for name in used if getattr(at, name).__module__.startswith(at.__name__)]
    return HEADER.format(attributes=", ".join(own)) + body


def _parameters(name: str) -> str:
    parts, keyword_only = ["cls"], False
    for parameter in inspect.signature(getattr(InstructionConstructors, name)).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            parts.append("*")
        annotation = str(parameter.annotation).removeprefix("at.")
        default = "" if parameter.default is parameter.empty else f" = {_default(parameter.default)}"
        parts.append(f"{parameter.name}: {annotation}{default}")
    return ", ".join(parts)


def _default(value: Any) -> str:
    return repr(value) if value is None or isinstance(value, (bool, int, str)) or value == () else "..."


if __name__ == "__main__":
    STUB.write_text(stub_text(), encoding="utf-8")
