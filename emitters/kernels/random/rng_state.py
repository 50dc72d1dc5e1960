"""rng-get-and-update-state: a 128-bit counter in the context, which every execution starts anew.

Runs are reproducible that way, and equal to the evaluator's; executions at the same time do not share it.
"""

from __future__ import annotations

from xjit.emitters.kernels.kernel import Kernel, KernelContext
from xjit.emitters.kernels.view import KernelView
from xjit.hlo import attributes as at
from xjit.llvm.builder import IRBuilder
from xjit.llvm.execution_context import EXECUTION_CONTEXT
from xjit.llvm.types import I64
from xjit.llvm.values import const_int

MASK = (1 << 64) - 1
FIELDS = ("rng_state_low", "rng_state_high")


def emit_rng_get_and_update_state(context: KernelContext, view: KernelView) -> list[Kernel]:
    """Emits the kernel: the result is the old state, low word first; the state advances by `delta`."""
    delta = view.hero.attributes_as(at.RngStateAttributes).delta
    function, _, results = context.new_kernel(view)
    builder = IRBuilder(function.append_block("entry"))
    execution = function.args[0]
    words = [EXECUTION_CONTEXT.load(builder, execution, field) for field in FIELDS]
    for i, word in enumerate(words):
        builder.store(word, builder.gep(I64, results[0].pointer, const_int(I64, i)), 8)
    low = builder.add(words[0], const_int(I64, delta & MASK))
    carry = builder.zext(builder.icmp_unsigned("<", low, words[0]), I64)
    high = builder.add(builder.add(words[1], const_int(I64, delta >> 64 & MASK)), carry)
    for field, word in zip(FIELDS, (low, high), strict=True):
        EXECUTION_CONTEXT.store(builder, execution, field, word)
    builder.ret_void()
    return [Kernel(function, 1, 5.0, "rng-state", 16, 0)]
