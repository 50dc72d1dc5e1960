"""Generated from the opcode table by `python -m tests.support.constructor_stub`: see `constructors.py`."""

from collections.abc import Sequence

from xjit.hlo.attributes import ConvolutionDimensionNumbers, PaddingDimension, ReplicaGroups, SliceDimension, Window
from xjit.hlo.attributes.opcodes import Opcode
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.literal import Literal
from xjit.hlo.types.shape import Shape

def constructor_name(op: Opcode) -> str: ...

class InstructionConstructors:
    @classmethod
    def create_parameter(cls, number: int, shape: Shape, name: str = "") -> HloInstruction: ...
    @classmethod
    def create_constant(cls, literal: Literal, name: str = "") -> HloInstruction: ...
    @classmethod
    def create_get_tuple_element(cls, operand: HloInstruction, index: int) -> HloInstruction: ...
    @classmethod
    def create_tuple(cls, operands: Sequence[HloInstruction]) -> HloInstruction: ...
    @classmethod
    def create_async_update(cls, shape: Shape, operand: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_async_done(cls, shape: Shape, operand: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_nullary(cls, shape: Shape, opcode: str) -> HloInstruction: ...
    @classmethod
    def create_unary(cls, shape: Shape, opcode: str, operand: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_binary(cls, shape: Shape, opcode: str, lhs: HloInstruction, rhs: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_ternary(
        cls, shape: Shape, opcode: str, lhs: HloInstruction, rhs: HloInstruction, ehs: HloInstruction
    ) -> HloInstruction: ...
    @classmethod
    def create_variadic(cls, shape: Shape, opcode: str, operands: Sequence[HloInstruction]) -> HloInstruction: ...
    @classmethod
    def create_abs(cls, shape: Shape, operand: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_ceil(cls, shape: Shape, operand: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_count_leading_zeros(cls, shape: Shape, operand: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_convert(cls, shape: Shape, operand: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_bitcast_convert(cls, shape: Shape, operand: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_floor(cls, shape: Shape, operand: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_imag(cls, shape: Shape, operand: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_is_finite(cls, shape: Shape, operand: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_negate(cls, shape: Shape, operand: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_not(cls, shape: Shape, operand: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_popcnt(cls, shape: Shape, operand: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_real(cls, shape: Shape, operand: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_round_nearest_afz(cls, shape: Shape, operand: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_round_nearest_even(cls, shape: Shape, operand: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_sign(cls, shape: Shape, operand: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_copy(cls, shape: Shape, operand: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_acos(cls, shape: Shape, operand: HloInstruction, result_accuracy: str = "") -> HloInstruction: ...
    @classmethod
    def create_acosh(cls, shape: Shape, operand: HloInstruction, result_accuracy: str = "") -> HloInstruction: ...
    @classmethod
    def create_asin(cls, shape: Shape, operand: HloInstruction, result_accuracy: str = "") -> HloInstruction: ...
    @classmethod
    def create_asinh(cls, shape: Shape, operand: HloInstruction, result_accuracy: str = "") -> HloInstruction: ...
    @classmethod
    def create_atanh(cls, shape: Shape, operand: HloInstruction, result_accuracy: str = "") -> HloInstruction: ...
    @classmethod
    def create_cbrt(cls, shape: Shape, operand: HloInstruction, result_accuracy: str = "") -> HloInstruction: ...
    @classmethod
    def create_cosh(cls, shape: Shape, operand: HloInstruction, result_accuracy: str = "") -> HloInstruction: ...
    @classmethod
    def create_cosine(cls, shape: Shape, operand: HloInstruction, result_accuracy: str = "") -> HloInstruction: ...
    @classmethod
    def create_erf(cls, shape: Shape, operand: HloInstruction, result_accuracy: str = "") -> HloInstruction: ...
    @classmethod
    def create_exponential(cls, shape: Shape, operand: HloInstruction, result_accuracy: str = "") -> HloInstruction: ...
    @classmethod
    def create_exponential_minus_one(
        cls, shape: Shape, operand: HloInstruction, result_accuracy: str = ""
    ) -> HloInstruction: ...
    @classmethod
    def create_log(cls, shape: Shape, operand: HloInstruction, result_accuracy: str = "") -> HloInstruction: ...
    @classmethod
    def create_log_plus_one(
        cls, shape: Shape, operand: HloInstruction, result_accuracy: str = ""
    ) -> HloInstruction: ...
    @classmethod
    def create_logistic(cls, shape: Shape, operand: HloInstruction, result_accuracy: str = "") -> HloInstruction: ...
    @classmethod
    def create_rsqrt(cls, shape: Shape, operand: HloInstruction, result_accuracy: str = "") -> HloInstruction: ...
    @classmethod
    def create_sine(cls, shape: Shape, operand: HloInstruction, result_accuracy: str = "") -> HloInstruction: ...
    @classmethod
    def create_sinh(cls, shape: Shape, operand: HloInstruction, result_accuracy: str = "") -> HloInstruction: ...
    @classmethod
    def create_sqrt(cls, shape: Shape, operand: HloInstruction, result_accuracy: str = "") -> HloInstruction: ...
    @classmethod
    def create_tan(cls, shape: Shape, operand: HloInstruction, result_accuracy: str = "") -> HloInstruction: ...
    @classmethod
    def create_tanh(cls, shape: Shape, operand: HloInstruction, result_accuracy: str = "") -> HloInstruction: ...
    @classmethod
    def create_add(cls, shape: Shape, lhs: HloInstruction, rhs: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_multiply(cls, shape: Shape, lhs: HloInstruction, rhs: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_maximum(cls, shape: Shape, lhs: HloInstruction, rhs: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_minimum(cls, shape: Shape, lhs: HloInstruction, rhs: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_and(cls, shape: Shape, lhs: HloInstruction, rhs: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_or(cls, shape: Shape, lhs: HloInstruction, rhs: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_xor(cls, shape: Shape, lhs: HloInstruction, rhs: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_mulhi(cls, shape: Shape, lhs: HloInstruction, rhs: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_subtract(cls, shape: Shape, lhs: HloInstruction, rhs: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_shift_left(cls, shape: Shape, lhs: HloInstruction, rhs: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_shift_right_arithmetic(
        cls, shape: Shape, lhs: HloInstruction, rhs: HloInstruction
    ) -> HloInstruction: ...
    @classmethod
    def create_shift_right_logical(cls, shape: Shape, lhs: HloInstruction, rhs: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_divide(cls, shape: Shape, lhs: HloInstruction, rhs: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_remainder(cls, shape: Shape, lhs: HloInstruction, rhs: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_complex(cls, shape: Shape, real: HloInstruction, imag: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_stochastic_convert(
        cls, shape: Shape, operand: HloInstruction, random: HloInstruction
    ) -> HloInstruction: ...
    @classmethod
    def create_atan2(cls, shape: Shape, lhs: HloInstruction, rhs: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_power(cls, shape: Shape, lhs: HloInstruction, rhs: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_compare(
        cls, shape: Shape, lhs: HloInstruction, rhs: HloInstruction, direction: str, type: str = ""
    ) -> HloInstruction: ...
    @classmethod
    def create_select(
        cls, shape: Shape, pred: HloInstruction, on_true: HloInstruction, on_false: HloInstruction
    ) -> HloInstruction: ...
    @classmethod
    def create_clamp(
        cls, shape: Shape, min: HloInstruction, operand: HloInstruction, max: HloInstruction
    ) -> HloInstruction: ...
    @classmethod
    def create_reduce_precision(
        cls, shape: Shape, operand: HloInstruction, exponent_bits: int, mantissa_bits: int
    ) -> HloInstruction: ...
    @classmethod
    def create_iota(cls, shape: Shape, iota_dimension: int = 0) -> HloInstruction: ...
    @classmethod
    def create_broadcast(
        cls, shape: Shape, operand: HloInstruction, dimensions: tuple[int, ...] = ()
    ) -> HloInstruction: ...
    @classmethod
    def create_reshape(cls, shape: Shape, operand: HloInstruction, inferred_dimension: int = -1) -> HloInstruction: ...
    @classmethod
    def create_dynamic_reshape(cls, shape: Shape, operands: Sequence[HloInstruction]) -> HloInstruction: ...
    @classmethod
    def create_bitcast(cls, shape: Shape, operand: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_transpose(
        cls, shape: Shape, operand: HloInstruction, dimensions: tuple[int, ...] = ()
    ) -> HloInstruction: ...
    @classmethod
    def create_reverse(
        cls, shape: Shape, operand: HloInstruction, dimensions: tuple[int, ...] = ()
    ) -> HloInstruction: ...
    @classmethod
    def create_slice(
        cls, shape: Shape, operand: HloInstruction, slice: tuple[SliceDimension, ...]
    ) -> HloInstruction: ...
    @classmethod
    def create_dynamic_slice(
        cls, shape: Shape, operands: Sequence[HloInstruction], dynamic_slice_sizes: tuple[int, ...]
    ) -> HloInstruction: ...
    @classmethod
    def create_dynamic_update_slice(cls, shape: Shape, operands: Sequence[HloInstruction]) -> HloInstruction: ...
    @classmethod
    def create_concatenate(cls, shape: Shape, operands: Sequence[HloInstruction], dimension: int) -> HloInstruction: ...
    @classmethod
    def create_pad(
        cls, shape: Shape, operand: HloInstruction, padding_value: HloInstruction, padding: tuple[PaddingDimension, ...]
    ) -> HloInstruction: ...
    @classmethod
    def create_gather(
        cls,
        shape: Shape,
        operand: HloInstruction,
        start_indices: HloInstruction,
        *,
        offset_dims: tuple[int, ...],
        collapsed_slice_dims: tuple[int, ...],
        start_index_map: tuple[int, ...],
        operand_batching_dims: tuple[int, ...] = (),
        start_indices_batching_dims: tuple[int, ...] = (),
        index_vector_dim: int,
        slice_sizes: tuple[int, ...],
        indices_are_sorted: bool = False,
    ) -> HloInstruction: ...
    @classmethod
    def create_scatter(
        cls,
        shape: Shape,
        operands: Sequence[HloInstruction],
        computation: HloComputation,
        *,
        update_window_dims: tuple[int, ...],
        inserted_window_dims: tuple[int, ...],
        scatter_dims_to_operand_dims: tuple[int, ...],
        input_batching_dims: tuple[int, ...] = (),
        scatter_indices_batching_dims: tuple[int, ...] = (),
        index_vector_dim: int,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> HloInstruction: ...
    @classmethod
    def create_get_dimension_size(cls, shape: Shape, operand: HloInstruction, dimension: int) -> HloInstruction: ...
    @classmethod
    def create_set_dimension_size(
        cls, shape: Shape, operand: HloInstruction, size: HloInstruction, dimension: int
    ) -> HloInstruction: ...
    @classmethod
    def create_reduce(
        cls,
        shape: Shape,
        operands: Sequence[HloInstruction],
        computation: HloComputation,
        dimensions: tuple[int, ...] = (),
    ) -> HloInstruction: ...
    @classmethod
    def create_reduce_window(
        cls, shape: Shape, operands: Sequence[HloInstruction], computation: HloComputation, window: Window = ...
    ) -> HloInstruction: ...
    @classmethod
    def create_select_and_scatter(
        cls,
        shape: Shape,
        operand: HloInstruction,
        select: HloComputation,
        window: Window,
        source: HloInstruction,
        init_value: HloInstruction,
        scatter: HloComputation,
    ) -> HloInstruction: ...
    @classmethod
    def create_map(
        cls,
        shape: Shape,
        operands: Sequence[HloInstruction],
        computation: HloComputation,
        dimensions: tuple[int, ...] = (),
    ) -> HloInstruction: ...
    @classmethod
    def create_sort(
        cls,
        shape: Shape,
        operands: Sequence[HloInstruction],
        computation: HloComputation,
        dimensions: tuple[int, ...] = (),
        is_stable: bool = False,
    ) -> HloInstruction: ...
    @classmethod
    def create_topk(cls, shape: Shape, operand: HloInstruction, k: int, largest: bool = True) -> HloInstruction: ...
    @classmethod
    def create_scan(
        cls,
        shape: Shape,
        operands: Sequence[HloInstruction],
        computation: HloComputation,
        *,
        dimensions: tuple[int, ...],
        num_carries: int,
        is_reverse: bool = False,
        is_associative: str = "",
    ) -> HloInstruction: ...
    @classmethod
    def create_dot(
        cls,
        shape: Shape,
        lhs: HloInstruction,
        rhs: HloInstruction,
        lhs_batch_dims: tuple[int, ...] = (),
        lhs_contracting_dims: tuple[int, ...] = (),
        rhs_batch_dims: tuple[int, ...] = (),
        rhs_contracting_dims: tuple[int, ...] = (),
        operand_precision: tuple[str, ...] = (),
        algorithm: str = "",
        sparsity: str = "",
    ) -> HloInstruction: ...
    @classmethod
    def create_ragged_dot(
        cls,
        shape: Shape,
        lhs: HloInstruction,
        rhs: HloInstruction,
        group_sizes: HloInstruction,
        lhs_batch_dims: tuple[int, ...] = (),
        lhs_contracting_dims: tuple[int, ...] = (),
        rhs_batch_dims: tuple[int, ...] = (),
        rhs_contracting_dims: tuple[int, ...] = (),
        lhs_ragged_dims: tuple[int, ...] = (),
        rhs_group_dims: tuple[int, ...] = (),
        operand_precision: tuple[str, ...] = (),
    ) -> HloInstruction: ...
    @classmethod
    def create_scaled_dot(
        cls,
        shape: Shape,
        operands: Sequence[HloInstruction],
        lhs_batch_dims: tuple[int, ...] = (),
        lhs_contracting_dims: tuple[int, ...] = (),
        rhs_batch_dims: tuple[int, ...] = (),
        rhs_contracting_dims: tuple[int, ...] = (),
        operand_precision: tuple[str, ...] = (),
        algorithm: str = "",
        sparsity: str = "",
    ) -> HloInstruction: ...
    @classmethod
    def create_convolution(
        cls,
        shape: Shape,
        lhs: HloInstruction,
        rhs: HloInstruction,
        *,
        window: Window = ...,
        dim_labels: ConvolutionDimensionNumbers,
        feature_group_count: int = 1,
        batch_group_count: int = 1,
        convolution_kind: str = "",
        sparsity_config: str = "",
        operand_precision: tuple[str, ...] = (),
    ) -> HloInstruction: ...
    @classmethod
    def create_fft(
        cls, shape: Shape, operand: HloInstruction, fft_type: str, fft_length: tuple[int, ...]
    ) -> HloInstruction: ...
    @classmethod
    def create_cholesky(cls, shape: Shape, operand: HloInstruction, lower: bool = False) -> HloInstruction: ...
    @classmethod
    def create_triangular_solve(
        cls,
        shape: Shape,
        a: HloInstruction,
        b: HloInstruction,
        left_side: bool = False,
        lower: bool = False,
        unit_diagonal: bool = False,
        transpose_a: str = "NO_TRANSPOSE",
    ) -> HloInstruction: ...
    @classmethod
    def create_batch_norm_training(
        cls,
        shape: Shape,
        operand: HloInstruction,
        scale: HloInstruction,
        offset: HloInstruction,
        epsilon: float,
        feature_index: int,
    ) -> HloInstruction: ...
    @classmethod
    def create_batch_norm_inference(
        cls, shape: Shape, operands: Sequence[HloInstruction], epsilon: float, feature_index: int
    ) -> HloInstruction: ...
    @classmethod
    def create_batch_norm_grad(
        cls, shape: Shape, operands: Sequence[HloInstruction], epsilon: float, feature_index: int
    ) -> HloInstruction: ...
    @classmethod
    def create_rng(cls, shape: Shape, operands: Sequence[HloInstruction], distribution: str) -> HloInstruction: ...
    @classmethod
    def create_rng_bit_generator(cls, shape: Shape, state: HloInstruction, algorithm: str) -> HloInstruction: ...
    @classmethod
    def create_rng_get_and_update_state(cls, shape: Shape, delta: int = 0) -> HloInstruction: ...
    @classmethod
    def create_while(
        cls, shape: Shape, condition: HloComputation, body: HloComputation, init: HloInstruction
    ) -> HloInstruction: ...
    @classmethod
    def create_conditional(
        cls, shape: Shape, operands: Sequence[HloInstruction], computations: Sequence[HloComputation]
    ) -> HloInstruction: ...
    @classmethod
    def create_call(
        cls,
        shape: Shape,
        operands: Sequence[HloInstruction],
        computation: HloComputation,
        is_composite: bool = False,
        output_to_operand_aliasing: str = "",
    ) -> HloInstruction: ...
    @classmethod
    def create_fusion(
        cls,
        shape: Shape,
        operands: Sequence[HloInstruction],
        computation: HloComputation,
        kind: str = "kLoop",
        output_to_operand_aliasing: str = "",
    ) -> HloInstruction: ...
    @classmethod
    def create_custom_call(
        cls,
        shape: Shape,
        operands: Sequence[HloInstruction],
        computations: Sequence[HloComputation],
        custom_call_target: str,
        window: Window | None = None,
        dim_labels: ConvolutionDimensionNumbers | None = None,
        feature_group_count: int = 1,
        batch_group_count: int = 1,
        custom_call_has_side_effect: bool = False,
        operand_layout_constraints: tuple[Shape, ...] | None = None,
        output_to_operand_aliasing: str = "",
        api_version: str = "",
        schedule: str = "",
        literal: Literal | None = None,
        padding_type: str = "",
        operand_precision: tuple[str, ...] = (),
    ) -> HloInstruction: ...
    @classmethod
    def create_opt_barrier(cls, shape: Shape, operand: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_domain(cls, shape: Shape, operand: HloInstruction, domain: str) -> HloInstruction: ...
    @classmethod
    def create_after_all(cls, shape: Shape, operands: Sequence[HloInstruction]) -> HloInstruction: ...
    @classmethod
    def create_add_dependency(cls, shape: Shape, operand: HloInstruction, token: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_partition_id(cls, shape: Shape) -> HloInstruction: ...
    @classmethod
    def create_replica_id(cls, shape: Shape) -> HloInstruction: ...
    @classmethod
    def create_infeed(cls, shape: Shape, token: HloInstruction, infeed_config: str = "") -> HloInstruction: ...
    @classmethod
    def create_outfeed(
        cls,
        shape: Shape,
        operand: HloInstruction,
        token: HloInstruction,
        outfeed_config: str = "",
        outfeed_shape: Shape | None = None,
    ) -> HloInstruction: ...
    @classmethod
    def create_send(
        cls,
        shape: Shape,
        operand: HloInstruction,
        token: HloInstruction,
        channel_id: int | None = None,
        is_host_transfer: bool = False,
    ) -> HloInstruction: ...
    @classmethod
    def create_send_done(
        cls, shape: Shape, operand: HloInstruction, channel_id: int | None = None, is_host_transfer: bool = False
    ) -> HloInstruction: ...
    @classmethod
    def create_recv(
        cls, shape: Shape, token: HloInstruction, channel_id: int | None = None, is_host_transfer: bool = False
    ) -> HloInstruction: ...
    @classmethod
    def create_recv_done(
        cls, shape: Shape, operand: HloInstruction, channel_id: int | None = None, is_host_transfer: bool = False
    ) -> HloInstruction: ...
    @classmethod
    def create_all_gather(
        cls,
        shape: Shape,
        operands: Sequence[HloInstruction],
        channel_id: int | None = None,
        replica_groups: ReplicaGroups = ...,
        constrain_layout: bool = False,
        use_global_device_ids: bool = False,
        dimensions: tuple[int, ...] = (),
    ) -> HloInstruction: ...
    @classmethod
    def create_all_gather_start(
        cls,
        shape: Shape,
        operands: Sequence[HloInstruction],
        channel_id: int | None = None,
        replica_groups: ReplicaGroups = ...,
        constrain_layout: bool = False,
        use_global_device_ids: bool = False,
        dimensions: tuple[int, ...] = (),
    ) -> HloInstruction: ...
    @classmethod
    def create_all_gather_done(cls, shape: Shape, operand: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_all_reduce(
        cls,
        shape: Shape,
        operands: Sequence[HloInstruction],
        computation: HloComputation,
        channel_id: int | None = None,
        replica_groups: ReplicaGroups = ...,
        constrain_layout: bool = False,
        use_global_device_ids: bool = False,
        dimensions: tuple[int, ...] = (),
    ) -> HloInstruction: ...
    @classmethod
    def create_all_reduce_start(
        cls,
        shape: Shape,
        operands: Sequence[HloInstruction],
        computation: HloComputation,
        channel_id: int | None = None,
        replica_groups: ReplicaGroups = ...,
        constrain_layout: bool = False,
        use_global_device_ids: bool = False,
        dimensions: tuple[int, ...] = (),
    ) -> HloInstruction: ...
    @classmethod
    def create_all_reduce_done(cls, shape: Shape, operand: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_reduce_scatter(
        cls,
        shape: Shape,
        operands: Sequence[HloInstruction],
        computation: HloComputation,
        channel_id: int | None = None,
        replica_groups: ReplicaGroups = ...,
        constrain_layout: bool = False,
        use_global_device_ids: bool = False,
        dimensions: tuple[int, ...] = (),
    ) -> HloInstruction: ...
    @classmethod
    def create_all_to_all(
        cls,
        shape: Shape,
        operands: Sequence[HloInstruction],
        channel_id: int | None = None,
        replica_groups: ReplicaGroups = ...,
        constrain_layout: bool = False,
        use_global_device_ids: bool = False,
        dimensions: tuple[int, ...] = (),
    ) -> HloInstruction: ...
    @classmethod
    def create_ragged_all_to_all(
        cls,
        shape: Shape,
        operands: Sequence[HloInstruction],
        channel_id: int | None = None,
        replica_groups: ReplicaGroups = ...,
        constrain_layout: bool = False,
        use_global_device_ids: bool = False,
        dimensions: tuple[int, ...] = (),
    ) -> HloInstruction: ...
    @classmethod
    def create_collective_broadcast(
        cls,
        shape: Shape,
        operands: Sequence[HloInstruction],
        channel_id: int | None = None,
        replica_groups: ReplicaGroups = ...,
        constrain_layout: bool = False,
        use_global_device_ids: bool = False,
        dimensions: tuple[int, ...] = (),
    ) -> HloInstruction: ...
    @classmethod
    def create_collective_permute(
        cls,
        shape: Shape,
        operands: Sequence[HloInstruction],
        channel_id: int | None = None,
        source_target_pairs: tuple[tuple[int, ...], ...] = (),
        slice_sizes: tuple[tuple[int, ...], ...] = (),
    ) -> HloInstruction: ...
    @classmethod
    def create_collective_permute_start(
        cls,
        shape: Shape,
        operands: Sequence[HloInstruction],
        channel_id: int | None = None,
        source_target_pairs: tuple[tuple[int, ...], ...] = (),
        slice_sizes: tuple[tuple[int, ...], ...] = (),
    ) -> HloInstruction: ...
    @classmethod
    def create_collective_permute_done(cls, shape: Shape, operand: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_copy_start(
        cls, shape: Shape, operand: HloInstruction, cross_program_prefetch_index: int | None = None
    ) -> HloInstruction: ...
    @classmethod
    def create_copy_done(cls, shape: Shape, operand: HloInstruction) -> HloInstruction: ...
    @classmethod
    def create_async_start(
        cls,
        shape: Shape,
        operands: Sequence[HloInstruction],
        computation: HloComputation,
        async_group_id: int | None = None,
        async_execution_thread: str = "",
        output_to_operand_aliasing: str = "",
    ) -> HloInstruction: ...
