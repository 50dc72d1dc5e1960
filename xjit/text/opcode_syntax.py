"""What may follow the operands of each opcode: derived from the attributes classes and the roles of computations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from xjit.hlo.attributes import Attributes, CompareAttributes
from xjit.hlo.attributes.codecs import AttributeField, attribute_fields
from xjit.hlo.attributes.codecs.scalars import Codec, one_of
from xjit.hlo.attributes.opcodes import OPCODES, Opcode
from xjit.hlo.types.primitive_type import PrimitiveType

C = TypeVar("C")

COMMON_KEYS = (
    *("metadata", "sharding", "frontend_attributes", "backend_config", "control-predecessors", "origin"),
    *("original_value", "statistics"),
)
# Keys that a class shared by several opcodes leaves optional, but these opcodes need.
_REQUIRED: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("transpose", "reverse", "reduce", "sort", "all-gather", "reduce-scatter"), ("dimensions",)),
    **dict.fromkeys(("collective-permute", "collective-permute-start"), ("source_target_pairs",)),
    "all-gather-start": ("dimensions",),
    "iota": ("iota_dimension",),
    "rng-get-and-update-state": ("delta",),
    "fusion": ("kind",),
}
# Keys that a class shared by several opcodes has, but not these opcodes.
_NOT_OF: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("all-reduce", "all-reduce-start"), ("dimensions",)),
    "collective-broadcast": ("constrain_layout", "dimensions", "use_global_device_ids"),
    "ragged-all-to-all": ("constrain_layout", "use_global_device_ids"),
}
# Keys that XLA reads and forgets.
_MODE = one_of("cross_replica", "cross_partition", "cross_replica_and_partition", "flattened_id")
_FORGOTTEN: Mapping[str, Mapping[str, Codec]] = {
    name: {"mode": _MODE} for name in ("all-reduce", "all-reduce-start", "reduce-scatter")
}
_NOT_ASYNC = ("parameter", "constant", "async-start", "async-update", "async-done")
_BRANCHES = {"true_computation": 0, "false_computation": 1}


@dataclass(frozen=True, slots=True)
class OpcodeSyntax:
    """Keys that an opcode accepts. `called` maps a key to the position of the computation; -1 is a whole list.

    Values of `forgotten` keys are checked, no more.
    """

    op: Opcode
    fields: Mapping[str, AttributeField]
    called: Mapping[str, int]
    required: tuple[str, ...]
    forgotten: Mapping[str, Codec]

    def keys(self) -> list[str]:
        """All keys, the opcode's own first."""
        return [*self.fields, *self.called, *self.forgotten, *COMMON_KEYS]


@cache
def opcode_syntax(name: str) -> OpcodeSyntax:
    """Returns the syntax of an opcode."""
    op = OPCODES[name]
    called: dict[str, int] = {}
    for position, role in enumerate(op.called):
        called[role.removesuffix("*")] = -1 if role.endswith("*") else position
    if name == "conditional":
        called.update(_BRANCHES)
    elif name == "custom-call":
        called.update(to_apply=0, calls=-1)
    fields = {f.key: f for f in attribute_fields(op.attributes) if f.key not in _NOT_OF.get(name, ())}
    required = (*(key for key, f in fields.items() if f.required), *_REQUIRED.get(name, ()))
    return OpcodeSyntax(op, fields, called, required, _FORGOTTEN.get(name, {}))


@cache
def async_wrapped_opcode(name: str) -> tuple[str, str] | None:
    """Returns (async opcode, wrapped opcode) of a spelling such as `custom-call-start`, or None."""
    for suffix in ("start", "update", "done"):
        wrapped = name.removesuffix(f"-{suffix}")
        if wrapped != name and wrapped in OPCODES and name not in OPCODES and wrapped not in _NOT_ASYNC:
            return f"async-{suffix}", wrapped
    return None


def default_comparison_type(kind: PrimitiveType) -> str:
    """Returns how operands of a type are compared unless a compare says otherwise."""
    if kind.is_float or kind.is_complex:
        return "FLOAT"
    return "SIGNED" if kind.is_signed else "UNSIGNED"


def without_default_comparison_type(attributes: Attributes, kind: PrimitiveType) -> Attributes:
    """Returns the attributes of a compare with the type left out where it is the default."""
    if isinstance(attributes, CompareAttributes) and attributes.type == default_comparison_type(kind):
        return CompareAttributes(attributes.direction)
    return attributes


def called_in_proto_order(opcode: str, called: Sequence[C]) -> list[C]:
    """Converts between the order of `op.called` and that of the proto, which has the body of a while first."""
    return list(reversed(called)) if opcode == "while" else list(called)
