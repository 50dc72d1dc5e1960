"""Attributes of instructions to and from `HloInstructionProto`: one row of rules per attributes class."""

from __future__ import annotations

from typing import Any

from xjit.hlo import attributes as at
from xjit.hlo.attributes.codecs import attribute_fields
from xjit.hlo.diagnostics import HloParseError, Unsupported
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.literal import Literal
from xjit.hlo.types.shape import Shape
from xjit.text.proto import hlo_pb2 as pb
from xjit.text.proto import structures as st
from xjit.text.proto.rules import Rule, enum, first_of, nested, optional_int, repeated, same, text_bytes
from xjit.text.proto.shapes import read_literal, read_shape, write_literal, write_shape

_DIMENSIONS = repeated("dimensions")
_WINDOW = Rule("window", st.write_window, st.read_window)
_PRECISION = Rule("operand_precision", st.write_precision, st.read_precision)
_ALIASING = Rule("output_to_operand_aliasing", st.write_aliasing, st.read_aliasing)
_CHANNEL = optional_int("channel_id")
_GROUPS = Rule("replica_groups", st.write_replica_groups, st.read_replica_groups)
_CONV_LABELS = Rule("dim_labels", st.write_dim_labels, st.read_dim_labels)
_GROUP_COUNTS = (same("feature_group_count", default=1), same("batch_group_count", default=1))
_DOT_ALGORITHM = nested(
    "precision_config", enum("algorithm", "algorithm", pb.PrecisionConfig.Algorithm, "ALG_", lower=True, zero="")
)
_DOT_DIMENSIONS = (
    repeated("lhs_batch_dims", "lhs_batch_dimensions"),
    repeated("lhs_contracting_dims", "lhs_contracting_dimensions"),
    repeated("rhs_batch_dims", "rhs_batch_dimensions"),
    repeated("rhs_contracting_dims", "rhs_contracting_dimensions"),
)
_RAGGED = "ragged_dot_dimension_numbers"
_GATHER = "gather_dimension_numbers"
_SCATTER = "scatter_dimension_numbers"


def _all_nested(field: str, *rules: Rule) -> tuple[Rule, ...]:
    return tuple(nested(field, rule) for rule in rules)


def _write_layout_constraints(shapes: Any, proto: Any) -> None:
    if shapes is not None:
        proto.constrain_layout = True
        for shape in shapes:
            write_shape(shape, proto.operand_shapes_with_layout.add())


def _read_layout_constraints(proto: Any) -> Any:
    return tuple(map(read_shape, proto.operand_shapes_with_layout)) if proto.constrain_layout else None


def _optional_window(proto: Any) -> Any:
    return st.read_window(proto) if proto.HasField("window") else None


def _optional_labels(proto: Any) -> Any:
    return st.read_dim_labels(proto) if proto.HasField("convolution_dimension_numbers") else None


def _optional(write: Any) -> Any:
    return lambda value, proto: None if value is None else write(value, proto)


_LITERAL = Rule(
    "literal",
    _optional(lambda value, proto: write_literal(value, proto.literal)),
    lambda proto: read_literal(proto.literal) if proto.HasField("literal") else None,
)


def _write_constant(literal: Literal, proto: Any) -> None:
    write_literal(_lying_as(literal, read_shape(proto.shape)), proto.literal)


def _lying_as(literal: Literal, shape: Shape) -> Literal:
    """A literal whose elements are in the order of a shape: XLA refuses constants that lie otherwise than they say."""
    if shape.is_tuple:
        pairs = zip(literal.elements, shape.tuple_shapes, strict=True)
        return Literal.tuple_of(tuple(_lying_as(element, part) for element, part in pairs))
    if not shape.is_array or literal.shape.minor_to_major == shape.minor_to_major:
        return literal
    return Literal(shape, literal.array)


_TRI_STATE = {"": 0, "true": 1, "false": 2}

RULES: dict[type[at.Attributes], tuple[Rule, ...]] = {
    at.NoAttributes: (),
    at.ParameterAttributes: (
        same("parameter_number"),
        nested("parameter_replication", repeated("parameter_replication", "replicated_at_leaf_buffers")),
    ),
    at.ConstantAttributes: (Rule("literal", _write_constant, _LITERAL.read),),
    at.DimensionsAttributes: (_DIMENSIONS,),
    at.ReshapeAttributes: (first_of("inferred_dimension", "dimensions", -1),),
    at.ConcatenateAttributes: (first_of("dimension", "dimensions"),),
    at.DimensionAttributes: (first_of("dimension", "dimensions"),),
    at.IotaAttributes: (first_of("iota_dimension", "dimensions"),),
    at.SliceAttributes: (Rule("slice", st.write_slices, st.read_slices),),
    at.DynamicSliceAttributes: (repeated("dynamic_slice_sizes"),),
    at.PadAttributes: (Rule("padding", st.write_padding, st.read_padding),),
    at.CompareAttributes: (same("direction", "comparison_direction"), same("type", "comparison_type")),
    at.GetTupleElementAttributes: (same("index", "tuple_index"),),
    at.ReducePrecisionAttributes: (same("exponent_bits"), same("mantissa_bits")),
    at.ResultAccuracyAttributes: (Rule("result_accuracy", st.write_accuracy, st.read_accuracy),),
    at.DotAttributes: (*_all_nested("dot_dimension_numbers", *_DOT_DIMENSIONS), _PRECISION, _DOT_ALGORITHM),
    at.RaggedDotAttributes: (
        *_all_nested(_RAGGED, *_all_nested("dot_dimension_numbers", *_DOT_DIMENSIONS)),
        nested(_RAGGED, repeated("lhs_ragged_dims", "lhs_ragged_dimensions")),
        nested(_RAGGED, repeated("rhs_group_dims", "rhs_group_dimensions")),
        _PRECISION,
    ),
    at.ConvolutionAttributes: (
        *(_WINDOW, _CONV_LABELS, *_GROUP_COUNTS, _PRECISION),
        enum("convolution_kind", "conv_kind", pb.ConvolutionKind, "CONVOLUTION_KIND_", lower=True, zero=""),
    ),
    at.WindowAttributes: (_WINDOW,),
    at.GatherAttributes: (
        *_all_nested(_GATHER, repeated("offset_dims"), repeated("collapsed_slice_dims"), repeated("start_index_map")),
        *_all_nested(_GATHER, repeated("operand_batching_dims"), repeated("start_indices_batching_dims")),
        nested(_GATHER, same("index_vector_dim")),
        repeated("slice_sizes", "gather_slice_sizes"),
        same("indices_are_sorted"),
    ),
    at.ScatterAttributes: (
        *_all_nested(_SCATTER, repeated("update_window_dims"), repeated("inserted_window_dims")),
        *_all_nested(_SCATTER, repeated("scatter_dims_to_operand_dims"), repeated("input_batching_dims")),
        *_all_nested(_SCATTER, repeated("scatter_indices_batching_dims"), same("index_vector_dim")),
        same("indices_are_sorted"),
        same("unique_indices"),
    ),
    at.SortAttributes: (_DIMENSIONS, same("is_stable")),
    at.TopKAttributes: (same("k"), same("largest")),
    at.ScanAttributes: (
        *(_DIMENSIONS, same("num_carries"), same("is_reverse")),
        Rule(
            "is_associative",
            lambda value, proto: setattr(proto, "is_associative", _TRI_STATE.get(value, 0)),
            lambda proto: ("", "true", "false")[proto.is_associative],
        ),
    ),
    at.FftAttributes: (enum("fft_type", "fft_type", pb.FftType), repeated("fft_length")),
    at.TriangularSolveAttributes: _all_nested(
        "triangular_solve_options",
        *(same("left_side"), same("lower"), same("unit_diagonal")),
        Rule(
            "transpose_a",
            lambda v, proto: setattr(proto, "transpose_a", pb.TriangularSolveOptions.Transpose.Value(v)),
            lambda proto: pb.TriangularSolveOptions.Transpose.Name(proto.transpose_a or 1),
        ),
    ),
    at.CholeskyAttributes: (nested("cholesky_options", same("lower")),),
    at.RngAttributes: (enum("distribution", "distribution", pb.RandomDistribution, lower=True),),
    at.RngBitGeneratorAttributes: (enum("algorithm", "rng_algorithm", pb.RandomAlgorithm, lower=True),),
    at.RngStateAttributes: (same("delta"),),
    at.BatchNormAttributes: (
        Rule("epsilon", lambda v, proto: setattr(proto, "epsilon", v), lambda proto: st.shortest(proto.epsilon)),
        same("feature_index"),
    ),
    at.FusionAttributes: (same("kind", "fusion_kind", default="kLoop"), _ALIASING),
    at.CallAttributes: (same("is_composite"), _ALIASING),
    at.CustomCallAttributes: (
        same("custom_call_target"),
        Rule("window", _optional(st.write_window), _optional_window),
        Rule("dim_labels", _optional(st.write_dim_labels), _optional_labels),
        *_GROUP_COUNTS,
        same("custom_call_has_side_effect"),
        Rule("operand_layout_constraints", _write_layout_constraints, _read_layout_constraints),
        _ALIASING,
        Rule("api_version", st.write_api_version, st.read_api_version),
        enum("schedule", "custom_call_schedule", pb.CustomCallSchedule, zero=""),
        _LITERAL,
        enum("padding_type", "padding_type", pb.PaddingType, zero=""),
        _PRECISION,
    ),
    at.DomainAttributes: (Rule("domain", st.write_domain, st.read_domain),),
    at.CollectiveAttributes: (
        *(_CHANNEL, _GROUPS, same("constrain_layout"), same("use_global_device_ids"), _DIMENSIONS),
    ),
    at.CollectivePermuteAttributes: (
        _CHANNEL,
        Rule("source_target_pairs", st.write_pairs, st.read_pairs),
    ),
    at.ChannelAttributes: (_CHANNEL, same("is_host_transfer")),
    at.InfeedAttributes: (text_bytes("infeed_config"),),
    at.OutfeedAttributes: (
        text_bytes("outfeed_config"),
        Rule(
            "outfeed_shape",
            _optional(lambda value, proto: write_shape(value, proto.outfeed_shape)),
            lambda proto: read_shape(proto.outfeed_shape) if proto.HasField("outfeed_shape") else None,
        ),
    ),
    at.CopyStartAttributes: (
        Rule(
            "cross_program_prefetch_index",
            _optional(lambda value, proto: setattr(proto, "cross_program_prefetch_index", value)),
            lambda proto: (
                proto.cross_program_prefetch_index if proto.HasField("cross_program_prefetch_index") else None
            ),
        ),
    ),
    at.AsyncAttributes: (
        Rule("async_execution_thread", st.write_thread, lambda proto: proto.async_execution_thread),
        _ALIASING,
    ),
}


def write_attributes(instruction: HloInstruction, proto: Any) -> None:
    """Writes the attributes of an instruction into its proto."""
    attributes = instruction.attributes
    for rule in RULES[type(attributes)]:
        rule.write(getattr(attributes, rule.name), proto)
    if isinstance(attributes, at.CollectivePermuteAttributes) and attributes.slice_sizes:
        raise Unsupported("collective-permute with slice_sizes has no form in HloModuleProto")
    if isinstance(attributes, at.ConvolutionAttributes) and attributes.sparsity_config:
        raise Unsupported("convolution with sparsity_config has no form in HloModuleProto")


def read_attributes(kind: type[at.Attributes], proto: Any) -> at.Attributes:
    """Returns the attributes that a proto has for an attributes class.

    HloParseError if a value is out of range, or a word that HLO text has not.
    """
    try:
        values = {rule.name: rule.read(proto) for rule in RULES[kind]}
        for field in attribute_fields(kind):
            value = values.get(field.name)
            if isinstance(value, (str, at.ConvolutionDimensionNumbers)) and value != field.default:
                field.codec.parse(field.codec.format(value))
        return kind(**values)
    except (ValueError, IndexError) as error:
        raise HloParseError(f"instruction '{proto.name}' in a proto: {error}") from None
