"""The index dialect: arithmetic on values of type index, which do not tell their type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xjit.linalg_ext.dialects.assembly import op
from xjit.linalg_ext.dialects.definition import CustomAssembly, OpDefinition, make_rows, words
from xjit.linalg_ext.ir.attributes import IntegerAttr
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.ir.types import IndexType

if TYPE_CHECKING:
    from xjit.linalg_ext.text.parser import Parser, ParseState
    from xjit.linalg_ext.text.printer import Printer

__all__ = ["INDEX_BINARY", "INDEX_ROWS"]

INDEX_BINARY: dict[str, str] = {
    **{f"index.{name}": f"arith.{name}i" for name in ("add", "sub", "mul", "and", "or", "xor")},
    **{f"index.{name}": f"arith.{name[:-1]}{name[-1]}i" for name in ("maxs", "maxu", "mins", "minu")},
    **{f"index.{name}": f"arith.{name}i" for name in ("divs", "divu", "ceildivs", "ceildivu", "floordivs")},
    **{f"index.{name}": f"arith.{name}i" for name in ("rems", "remu")},
    "index.shl": "arith.shli",
    "index.shrs": "arith.shrsi",
    "index.shru": "arith.shrui",
}
"""The operation of arith that does the same, by name."""

_COMMUTATIVE = words("add mul and or xor maxs maxu mins minu")


def _binary(name: str) -> OpDefinition:
    traits = "pure commutative" if name.removeprefix("index.") in _COMMUTATIVE else "pure"
    return op(name, "lhs index;rhs index", "result index", "%lhs , %rhs attrs", traits=traits)


def parse_constant(p: Parser, state: ParseState) -> None:
    state.attributes.update(p.optional_dictionary())
    state.attributes["value"] = IntegerAttr(p.integer(), IndexType())
    state.result_types = [IndexType()]


def print_constant(p: Printer, op: Operation) -> None:
    p.optional_dictionary(op, frozenset({"value"}))
    value = op.attributes["value"]
    p.write(f" {value.value if isinstance(value, IntegerAttr) else value}")


INDEX_ROWS = make_rows(
    *(_binary(name) for name in INDEX_BINARY),
    op(
        "index.constant",
        "",
        "result index",
        assembly=CustomAssembly(parse_constant, print_constant),
        traits="pure",
        needs="i64(value)",
    ),
    op(
        "index.cmp",
        "lhs index;rhs index",
        "result i1",
        "index_predicate(predicate) ( %lhs , %rhs ) attrs",
        traits="pure",
    ),
    *(
        op(f"index.{name}", "input", "output", "%input attrs : type(input) to type(output)", traits="pure")
        for name in ("casts", "castu")
    ),
)
