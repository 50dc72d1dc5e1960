"""Reading the fields of attributes from the instruction itself, by their names and by XLA's accessor names.

Our fields are called after the keys of HLO text, some of XLA's accessors otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from xjit.hlo import attributes as at

_FIELDS = {
    "slice_starts": (at.SliceAttributes, "starts"),
    "slice_limits": (at.SliceAttributes, "limits"),
    "slice_strides": (at.SliceAttributes, "strides"),
    "padding_config": (at.PadAttributes, "padding"),
    "tuple_index": (at.GetTupleElementAttributes, "index"),
    "comparison_direction": (at.CompareAttributes, "direction"),
    "comparison_type": (at.CompareAttributes, "type"),
    "fusion_kind": (at.FusionAttributes, "kind"),
    "concatenate_dimension": (at.ConcatenateAttributes, "dimension"),
    "random_distribution": (at.RngAttributes, "distribution"),
    "random_algorithm": (at.RngBitGeneratorAttributes, "algorithm"),
    "gather_slice_sizes": (at.GatherAttributes, "slice_sizes"),
    "convolution_dimension_numbers": ((at.ConvolutionAttributes, at.CustomCallAttributes), "dim_labels"),
    "precision_config": (at.Attributes, "operand_precision"),
    "domain_sides": (at.DomainAttributes, "domain"),
}
# Groups of fields that XLA keeps in a message of their own: here they are the attributes object itself.
_GROUPS = {
    "dot_dimension_numbers": (at.DotAttributes, at.RaggedDotAttributes),
    "gather_dimension_numbers": at.GatherAttributes,
    "scatter_dimension_numbers": at.ScatterAttributes,
    "cholesky_options": at.CholeskyAttributes,
    "triangular_solve_options": at.TriangularSolveAttributes,
}


def attribute_named(attributes: at.Attributes, name: str) -> Any:
    """Returns the value that XLA's accessor `name` would give, or None if these attributes have no such thing."""
    if name in _GROUPS:
        return attributes if isinstance(attributes, _GROUPS[name]) else None
    kind, field = _FIELDS.get(name, ((), ""))
    return getattr(attributes, field, None) if isinstance(attributes, kind) else None


def _classes(kind: type[at.Attributes] = at.Attributes) -> Iterator[type[at.Attributes]]:
    yield kind
    for derived in kind.__subclasses__():
        yield from _classes(derived)


def _property(name: str) -> property:
    def read(instruction: Any) -> Any:
        attributes = instruction.attributes
        try:
            return getattr(attributes, name)
        except AttributeError:
            value = attribute_named(attributes, name)
        if value is None:
            raise AttributeError(f"HloInstruction '{instruction.opcode}' has no attribute '{name}'")
        return value

    return property(read, doc=f"The attribute `{name}`; AttributeError if the opcode has no such attribute.")


class AttributeFields:
    """Base of HloInstruction: a property for every name that some attributes have.

    They are properties and no `__getattr__`, which would make all other attributes of a class, and calls of its
    methods, several times slower.
    """

    __slots__ = ()


if not TYPE_CHECKING:  # type checkers are to find misspelt names
    for _name in {n for kind in _classes() for n in vars(kind) if not n.startswith("_")} | {*_FIELDS, *_GROUPS}:
        setattr(AttributeFields, _name, _property(_name))
