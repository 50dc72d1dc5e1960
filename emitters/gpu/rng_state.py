"""rng-get-and-update-state on GPUs: a 128-bit counter in temporary memory, which every execution starts anew.

The kernels of such instructions have the counter as one more result, and one in front of all others sets it. Runs are
reproducible that way, and equal to the evaluator's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xjit.emitters.gpu.arena_tail import with_more_results
from xjit.emitters.gpu.kernel_context import GpuKernelContext, launch_dimensions
from xjit.emitters.kernels.kernel import Kernel
from xjit.emitters.kernels.view import KernelView
from xjit.hlo import attributes as at
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.hlo.types.shape import Shape
from xjit.llvm.builder import IRBuilder
from xjit.llvm.execution_context import INITIAL_RNG_STATE
from xjit.llvm.function import Function, Param, string_attribute
from xjit.llvm.types import I64, VOID, pointer
from xjit.llvm.values import Value, const_int
from xjit.thunks import KernelThunk, ShapedSlice, ThunkProgram, ThunkSequence

KIND = "rng-get-and-update-state"
STATE = Shape.array(PrimitiveType.U64, (2,))
_MASK = (1 << 64) - 1


def emit_gpu_rng_state(context: GpuKernelContext, view: KernelView) -> list[Kernel]:
    """Emits the kernel: the result is the old state, low word first; the state advances by `delta`."""
    delta = view.hero.attributes_as(at.RngStateAttributes).delta
    context = context.for_one_kernel(view.instruction.name)
    function, builder = _function(context, ["out0", "state"])
    result, state = function.args
    words = [builder.load(I64, _word(builder, state, i), 8) for i in range(2)]
    low = builder.add(words[0], const_int(I64, delta & _MASK))
    carry = builder.zext(builder.icmp_unsigned("<", low, words[0]), I64)
    high = builder.add(builder.add(words[1], const_int(I64, delta >> 64 & _MASK)), carry)
    for i, (old, new) in enumerate(zip(words, (low, high), strict=True)):
        builder.store(old, _word(builder, result, i), 8)
        builder.store(new, _word(builder, state, i), 8)
    builder.ret_void()
    return [_kernel(function)]


def emit_initial_state(context: GpuKernelContext) -> Kernel:
    """Emits the kernel that sets the state."""
    context = context.for_one_kernel("rng_state")
    function, builder = _function(context, ["state"])
    for i, word in enumerate((INITIAL_RNG_STATE & _MASK, INITIAL_RNG_STATE >> 64)):
        builder.store(const_int(I64, word), _word(builder, function.args[0], i), 8)
    builder.ret_void()
    return _kernel(function)


def with_state(program: ThunkProgram, kernels: Sequence[Kernel], initial: Kernel, state: ShapedSlice) -> ThunkProgram:
    """Returns a program whose kernels of the state have it, and which begins with setting it."""
    users = [kernel.function.name for kernel in kernels if kernel.kind == KIND]
    program = with_more_results(program, dict.fromkeys(users, (state,)))
    sequences = dict(program.sequences)
    first = KernelThunk(
        instruction=initial.function.name, number=len(program.kernel_thunks), kernel=initial.function.name, kind=KIND,
        operands=(), results=(state,), units=1, tasks=1, cost_ns=0.0, bytes_accessed=STATE.byte_size, flops=0,
        can_fail=False,
    )  # fmt: skip
    entry = sequences[program.entry]
    sequences[program.entry] = ThunkSequence(entry.name, (first, *entry.thunks))
    return replace(program, sequences=sequences)


def _function(context: GpuKernelContext, names: list[str]) -> tuple[Function, IRBuilder]:
    target = context.target
    params = [Param(pointer(target.address_spaces.global_), name, ("noalias", "align 8")) for name in names]
    function = context.module.add_function(
        context.module.name,
        VOID,
        params,
        ("nounwind", string_attribute("nvvm.reqntid", "1")),
        calling_convention=target.kernel_calling_convention,
    )
    return function, IRBuilder(function.append_block("entry"))


def _word(builder: IRBuilder, base: Value, number: int) -> Value:
    return builder.gep(I64, base, const_int(I64, number))


def _kernel(function: Function) -> Kernel:
    return Kernel(function, 1, 0.0, KIND, 2 * STATE.byte_size, launch=launch_dimensions(1, 1))
