"""`HloInstruction.create_<opcode>`: one typed constructor per opcode, all after one rule.

    create_<opcode>(shape, <operands>, <called computations>, <fields of the attributes dataclass>)

Up to three operands are given one by one, more or variadic ones as a sequence; lists of called computations are a
sequence, too. The attributes follow in the order of their dataclass, or by keyword. The shape is taken as given: the
verifier checks it, `xjit.ops.build` infers it. The result is free: `HloComputation.add_instruction` takes it in.
Errors: InvalidArgument for a wrong number of operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from xjit.hlo import attributes as at
from xjit.hlo.attributes.opcodes import OPCODES, VARIADIC
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.ir import instruction as hi
from xjit.hlo.types.shape import Shape

if TYPE_CHECKING:
    from xjit.hlo.ir.computation import HloComputation
    from xjit.hlo.ir.instruction import HloInstruction

P = ParamSpec("P")
Kind = Callable[P, at.Attributes]  # an attributes dataclass: its constructor gives the parameters after the operands


def _fixed(opcode: str, kind: Callable[..., at.Attributes], count: int) -> Callable[..., HloInstruction]:
    def create(shape: Shape, *arguments: Any, **named: Any) -> HloInstruction:
        operands = arguments[:count]
        if len(operands) != count:
            raise InvalidArgument(f"{opcode} takes {count} operands, got {len(operands)}")
        return hi.HloInstruction.create(opcode, shape, operands, kind(*arguments[count:], **named))

    return _documented(create, opcode, kind, ("operand",) if count == 1 else ("lhs", "rhs", "third")[:count])


def _leaf(opcode: str, kind: Kind[P]) -> staticmethod[Concatenate[Shape, P], HloInstruction]:
    return staticmethod(_fixed(opcode, kind, 0))


def _unary(opcode: str, kind: Kind[P]) -> staticmethod[Concatenate[Shape, HloInstruction, P], HloInstruction]:
    return staticmethod(_fixed(opcode, kind, 1))


def _binary(
    opcode: str, kind: Kind[P]
) -> staticmethod[Concatenate[Shape, HloInstruction, HloInstruction, P], HloInstruction]:
    return staticmethod(_fixed(opcode, kind, 2))


def _ternary(
    opcode: str, kind: Kind[P]
) -> staticmethod[Concatenate[Shape, HloInstruction, HloInstruction, HloInstruction, P], HloInstruction]:
    return staticmethod(_fixed(opcode, kind, 3))


def _variadic(
    opcode: str, kind: Kind[P]
) -> staticmethod[Concatenate[Shape, Sequence[HloInstruction], P], HloInstruction]:
    def create(shape: Shape, operands: Sequence[HloInstruction], *args: P.args, **kwargs: P.kwargs) -> HloInstruction:
        return _create(opcode, shape, operands, kind(*args, **kwargs), ())

    return staticmethod(_documented(create, opcode, kind, ("operands",)))


def _applying(
    opcode: str, kind: Kind[P]
) -> staticmethod[Concatenate[Shape, Sequence[HloInstruction], HloComputation, P], HloInstruction]:
    def create(
        shape: Shape,
        operands: Sequence[HloInstruction],
        computation: HloComputation,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> HloInstruction:
        return _create(opcode, shape, operands, kind(*args, **kwargs), (computation,))

    return staticmethod(_documented(create, opcode, kind, ("operands", "computation")))


def _calling_many(
    opcode: str, kind: Kind[P]
) -> staticmethod[Concatenate[Shape, Sequence[HloInstruction], Sequence[HloComputation], P], HloInstruction]:
    def create(
        shape: Shape,
        operands: Sequence[HloInstruction],
        computations: Sequence[HloComputation],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> HloInstruction:
        return _create(opcode, shape, operands, kind(*args, **kwargs), computations)

    return staticmethod(_documented(create, opcode, kind, ("operands", "computations")))


def _create(
    opcode: str,
    shape: Shape,
    operands: Sequence[HloInstruction],
    attributes: at.Attributes,
    called: Sequence[HloComputation],
) -> HloInstruction:
    arity = OPCODES[opcode].arity
    if arity != VARIADIC and len(operands) != arity:
        raise InvalidArgument(f"{opcode} takes {arity} operands, got {len(operands)}")
    return hi.HloInstruction.create(opcode, shape, operands, attributes, called)


def _documented(create: Any, opcode: str, kind: Any, operands: Sequence[str]) -> Any:
    parameters = ("shape", *operands, *(f.name for f in fields(kind)))
    create.__name__ = "create_" + opcode.replace("-", "_")
    create.__qualname__ = f"HloInstruction.{create.__name__}"
    create.__doc__ = f"Returns a free `{opcode}`: ({', '.join(parameters)})."
    return create


class InstructionFactories:
    """Constructors of HloInstruction; those of parameters, constants and tuples are in the class itself."""

    __slots__ = ()

    create_abs = _unary("abs", at.NoAttributes)
    create_ceil = _unary("ceil", at.NoAttributes)
    create_count_leading_zeros = _unary("count-leading-zeros", at.NoAttributes)
    create_convert = _unary("convert", at.NoAttributes)
    create_bitcast_convert = _unary("bitcast-convert", at.NoAttributes)
    create_floor = _unary("floor", at.NoAttributes)
    create_imag = _unary("imag", at.NoAttributes)
    create_is_finite = _unary("is-finite", at.NoAttributes)
    create_negate = _unary("negate", at.NoAttributes)
    create_not = _unary("not", at.NoAttributes)
    create_popcnt = _unary("popcnt", at.NoAttributes)
    create_real = _unary("real", at.NoAttributes)
    create_round_nearest_afz = _unary("round-nearest-afz", at.NoAttributes)
    create_round_nearest_even = _unary("round-nearest-even", at.NoAttributes)
    create_sign = _unary("sign", at.NoAttributes)
    create_copy = _unary("copy", at.NoAttributes)
    create_acos = _unary("acos", at.ResultAccuracyAttributes)
    create_acosh = _unary("acosh", at.ResultAccuracyAttributes)
    create_asin = _unary("asin", at.ResultAccuracyAttributes)
    create_asinh = _unary("asinh", at.ResultAccuracyAttributes)
    create_atanh = _unary("atanh", at.ResultAccuracyAttributes)
    create_cbrt = _unary("cbrt", at.ResultAccuracyAttributes)
    create_cosh = _unary("cosh", at.ResultAccuracyAttributes)
    create_cosine = _unary("cosine", at.ResultAccuracyAttributes)
    create_erf = _unary("erf", at.ResultAccuracyAttributes)
    create_exponential = _unary("exponential", at.ResultAccuracyAttributes)
    create_exponential_minus_one = _unary("exponential-minus-one", at.ResultAccuracyAttributes)
    create_log = _unary("log", at.ResultAccuracyAttributes)
    create_log_plus_one = _unary("log-plus-one", at.ResultAccuracyAttributes)
    create_logistic = _unary("logistic", at.ResultAccuracyAttributes)
    create_rsqrt = _unary("rsqrt", at.ResultAccuracyAttributes)
    create_sine = _unary("sine", at.ResultAccuracyAttributes)
    create_sinh = _unary("sinh", at.ResultAccuracyAttributes)
    create_sqrt = _unary("sqrt", at.ResultAccuracyAttributes)
    create_tan = _unary("tan", at.ResultAccuracyAttributes)
    create_tanh = _unary("tanh", at.ResultAccuracyAttributes)
    create_add = _binary("add", at.NoAttributes)
    create_multiply = _binary("multiply", at.NoAttributes)
    create_maximum = _binary("maximum", at.NoAttributes)
    create_minimum = _binary("minimum", at.NoAttributes)
    create_and = _binary("and", at.NoAttributes)
    create_or = _binary("or", at.NoAttributes)
    create_xor = _binary("xor", at.NoAttributes)
    create_mulhi = _binary("mulhi", at.NoAttributes)
    create_subtract = _binary("subtract", at.NoAttributes)
    create_divide = _binary("divide", at.NoAttributes)
    create_remainder = _binary("remainder", at.NoAttributes)
    create_shift_left = _binary("shift-left", at.NoAttributes)
    create_shift_right_arithmetic = _binary("shift-right-arithmetic", at.NoAttributes)
    create_shift_right_logical = _binary("shift-right-logical", at.NoAttributes)
    create_complex = _binary("complex", at.NoAttributes)
    create_stochastic_convert = _binary("stochastic-convert", at.NoAttributes)
    create_atan2 = _binary("atan2", at.NoAttributes)
    create_power = _binary("power", at.NoAttributes)
    create_compare = _binary("compare", at.CompareAttributes)
    create_select = _ternary("select", at.NoAttributes)
    create_clamp = _ternary("clamp", at.NoAttributes)
    create_reduce_precision = _unary("reduce-precision", at.ReducePrecisionAttributes)
    create_iota = _leaf("iota", at.IotaAttributes)
    create_broadcast = _unary("broadcast", at.DimensionsAttributes)
    create_reshape = _unary("reshape", at.ReshapeAttributes)
    create_dynamic_reshape = _variadic("dynamic-reshape", at.NoAttributes)
    create_bitcast = _unary("bitcast", at.NoAttributes)
    create_transpose = _unary("transpose", at.DimensionsAttributes)
    create_reverse = _unary("reverse", at.DimensionsAttributes)
    create_slice = _unary("slice", at.SliceAttributes)
    create_dynamic_slice = _variadic("dynamic-slice", at.DynamicSliceAttributes)
    create_dynamic_update_slice = _variadic("dynamic-update-slice", at.NoAttributes)
    create_concatenate = _variadic("concatenate", at.ConcatenateAttributes)
    create_pad = _binary("pad", at.PadAttributes)
    create_gather = _binary("gather", at.GatherAttributes)
    create_scatter = _applying("scatter", at.ScatterAttributes)
    create_get_dimension_size = _unary("get-dimension-size", at.DimensionAttributes)
    create_set_dimension_size = _binary("set-dimension-size", at.DimensionAttributes)
    create_reduce = _applying("reduce", at.DimensionsAttributes)
    create_reduce_window = _applying("reduce-window", at.WindowAttributes)
    create_map = _applying("map", at.DimensionsAttributes)
    create_sort = _applying("sort", at.SortAttributes)
    create_topk = _unary("topk", at.TopKAttributes)
    create_scan = _applying("scan", at.ScanAttributes)
    create_dot = _binary("dot", at.DotAttributes)
    create_ragged_dot = _ternary("ragged-dot", at.RaggedDotAttributes)
    create_scaled_dot = _variadic("scaled-dot", at.DotAttributes)
    create_convolution = _binary("convolution", at.ConvolutionAttributes)
    create_fft = _unary("fft", at.FftAttributes)
    create_cholesky = _unary("cholesky", at.CholeskyAttributes)
    create_triangular_solve = _binary("triangular-solve", at.TriangularSolveAttributes)
    create_batch_norm_training = _ternary("batch-norm-training", at.BatchNormAttributes)
    create_batch_norm_inference = _variadic("batch-norm-inference", at.BatchNormAttributes)
    create_batch_norm_grad = _variadic("batch-norm-grad", at.BatchNormAttributes)
    create_rng = _variadic("rng", at.RngAttributes)
    create_rng_bit_generator = _unary("rng-bit-generator", at.RngBitGeneratorAttributes)
    create_rng_get_and_update_state = _leaf("rng-get-and-update-state", at.RngStateAttributes)
    create_conditional = _calling_many("conditional", at.NoAttributes)
    create_call = _applying("call", at.CallAttributes)
    create_fusion = _applying("fusion", at.FusionAttributes)
    create_custom_call = _calling_many("custom-call", at.CustomCallAttributes)
    create_opt_barrier = _unary("opt-barrier", at.NoAttributes)
    create_domain = _unary("domain", at.DomainAttributes)
    create_after_all = _variadic("after-all", at.NoAttributes)
    create_add_dependency = _binary("add-dependency", at.NoAttributes)
    create_partition_id = _leaf("partition-id", at.NoAttributes)
    create_replica_id = _leaf("replica-id", at.NoAttributes)
    create_infeed = _unary("infeed", at.InfeedAttributes)
    create_outfeed = _binary("outfeed", at.OutfeedAttributes)
    create_send = _binary("send", at.ChannelAttributes)
    create_send_done = _unary("send-done", at.ChannelAttributes)
    create_recv = _unary("recv", at.ChannelAttributes)
    create_recv_done = _unary("recv-done", at.ChannelAttributes)
    create_all_gather = _variadic("all-gather", at.CollectiveAttributes)
    create_all_gather_start = _variadic("all-gather-start", at.CollectiveAttributes)
    create_all_gather_done = _unary("all-gather-done", at.NoAttributes)
    create_all_reduce = _applying("all-reduce", at.CollectiveAttributes)
    create_all_reduce_start = _applying("all-reduce-start", at.CollectiveAttributes)
    create_all_reduce_done = _unary("all-reduce-done", at.NoAttributes)
    create_reduce_scatter = _applying("reduce-scatter", at.CollectiveAttributes)
    create_all_to_all = _variadic("all-to-all", at.CollectiveAttributes)
    create_ragged_all_to_all = _variadic("ragged-all-to-all", at.CollectiveAttributes)
    create_collective_broadcast = _variadic("collective-broadcast", at.CollectiveAttributes)
    create_collective_permute = _variadic("collective-permute", at.CollectivePermuteAttributes)
    create_collective_permute_start = _variadic("collective-permute-start", at.CollectivePermuteAttributes)
    create_collective_permute_done = _unary("collective-permute-done", at.NoAttributes)
    create_copy_start = _unary("copy-start", at.CopyStartAttributes)
    create_copy_done = _unary("copy-done", at.NoAttributes)
    create_async_start = _applying("async-start", at.AsyncAttributes)

    # -- the same for any opcode of an arity

    @staticmethod
    def create_nullary(shape: Shape, opcode: str) -> HloInstruction:
        """Returns a free instruction without operands and attributes."""
        return _generic(shape, opcode, [])

    @staticmethod
    def create_unary(shape: Shape, opcode: str, operand: HloInstruction) -> HloInstruction:
        """Returns a free instruction of one operand whose opcode needs no attributes; InvalidArgument for others."""
        return _generic(shape, opcode, [operand])

    @staticmethod
    def create_binary(shape: Shape, opcode: str, lhs: HloInstruction, rhs: HloInstruction) -> HloInstruction:
        """Returns a free instruction of two operands whose opcode needs no attributes; InvalidArgument for others."""
        return _generic(shape, opcode, [lhs, rhs])

    @staticmethod
    def create_ternary(
        shape: Shape, opcode: str, lhs: HloInstruction, rhs: HloInstruction, ehs: HloInstruction
    ) -> HloInstruction:
        """Returns a free instruction of three operands whose opcode needs no attributes; InvalidArgument for others."""
        return _generic(shape, opcode, [lhs, rhs, ehs])

    @staticmethod
    def create_variadic(shape: Shape, opcode: str, operands: Sequence[HloInstruction]) -> HloInstruction:
        """Returns a free instruction of any number of operands whose opcode needs no attributes."""
        return _generic(shape, opcode, operands)

    # -- called computations by role

    @staticmethod
    def create_while(
        shape: Shape, condition: HloComputation, body: HloComputation, init: HloInstruction
    ) -> HloInstruction:
        """Returns a free `while` loop."""
        return _create("while", shape, [init], at.NO_ATTRIBUTES, [condition, body])

    @staticmethod
    def create_select_and_scatter(
        shape: Shape,
        operand: HloInstruction,
        select: HloComputation,
        window: at.Window,
        source: HloInstruction,
        init_value: HloInstruction,
        scatter: HloComputation,
    ) -> HloInstruction:
        """Returns a free `select-and-scatter`."""
        attributes = at.WindowAttributes(window)
        return _create("select-and-scatter", shape, [operand, source, init_value], attributes, [select, scatter])

    @staticmethod
    def create_async_update(shape: Shape, operand: HloInstruction) -> HloInstruction:
        """Returns a free `async-update`: computation and attributes are those of the asynchronous operand."""
        return _create("async-update", shape, [operand], operand.attributes, operand.called_computations)

    @staticmethod
    def create_async_done(shape: Shape, operand: HloInstruction) -> HloInstruction:
        """Returns a free `async-done`: computation and attributes are those of the asynchronous operand."""
        return _create("async-done", shape, [operand], operand.attributes, operand.called_computations)


def _generic(shape: Shape, opcode: str, operands: Sequence[HloInstruction]) -> HloInstruction:
    op = OPCODES.get(opcode)
    if op is None:
        raise InvalidArgument(f"unknown opcode '{opcode}'")
    if op.called:
        raise InvalidArgument(f"{opcode} calls computations: use create_{opcode.replace('-', '_')}")
    try:
        attributes = at.NO_ATTRIBUTES if op.attributes is at.NoAttributes else op.attributes()
    except TypeError:
        raise InvalidArgument(f"{opcode} has attributes: use create_{opcode.replace('-', '_')}") from None
    return _create(opcode, shape, operands, attributes, ())
