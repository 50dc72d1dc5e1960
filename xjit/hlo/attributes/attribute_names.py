"""XLA's accessor names of instruction attributes, where our fields are called after the keys of HLO text."""

from __future__ import annotations

from typing import Any

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
