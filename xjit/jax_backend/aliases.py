"""Which parameters give their memory to which results, as XLA's CPU compiler decides it.

JAX says of some donated parameters which result they are for, of others (whose shardings it does not know) nothing.
"""

from __future__ import annotations

from xjit.hlo.ir.module import HloModule
from xjit.hlo.types.physical import physical_byte_size
from xjit.hlo.types.shape import Shape
from xjit.jax_backend.c_api import ErrorCode
from xjit.jax_backend.requests import CodedError
from xjit.passes.schedule_and_memory.optimize_input_output_buffer_alias import OptimizeInputOutputBufferAlias


def settle_aliases(module: HloModule) -> None:
    """Has donors give their memory to results of as many bytes. Errors: CodedError for a pair of other sizes."""
    layout = module.entry_computation_layout
    for alias in module.config.input_output_alias:
        source = layout.parameter_shapes[alias.parameter_number].subshape(alias.parameter_index)
        target = layout.result_shape.subshape(alias.output_index)
        if source.is_static_array and target.is_static_array and _size(source) != _size(target):
            raise CodedError(
                ErrorCode.INTERNAL,
                f"Expected aliased input {alias.parameter_number} at index {_index(alias.parameter_index)} and output "
                f"at index {_index(alias.output_index)} to have the same size. Input sub-shape is {source} with size "
                f"{_size(source)}, output sub-shape is {target} with size {_size(target)}",
            )
    OptimizeInputOutputBufferAlias(registered_buffer_donor_only=True, require_equal_shape=False).run(module)


def aliased_parameters(module: HloModule) -> frozenset[int]:
    """The parameters that a call deletes, used or not."""
    return frozenset(alias.parameter_number for alias in module.config.input_output_alias)


def aliased_bytes(module: HloModule) -> int:
    """The bytes of results that lie where parameters do, if these are donated."""
    aliases = module.config.input_output_alias
    return sum(_size(leaf) for a in aliases for _, leaf in module.result_shape.subshape(a.output_index).leaves())


def _size(shape: Shape) -> int:
    return physical_byte_size(shape)


def _index(index: tuple[int, ...]) -> str:
    return "{" + ",".join(map(str, index)) + "}"
