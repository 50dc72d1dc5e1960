"""rng-get-and-update-state: a 128-bit counter of the module, which every execution starts anew.

Runs are reproducible that way, and equal to the evaluator's. Executions of one module at the same time share the
counter.
"""

from __future__ import annotations

from xjit.emitters.kernels.kernel import Kernel, KernelContext, KernelView
from xjit.hlo import attributes as at
from xjit.llvm.builder import IRBuilder
from xjit.llvm.types import I64, array
from xjit.llvm.values import Value, const_int, zero

STATE = "xjit.rng_state"
INITIAL_STATE = 0x7012395
MASK = (1 << 64) - 1


def emit_rng_get_and_update_state(context: KernelContext, view: KernelView) -> list[Kernel]:
    """Emits the kernel: the result is the old state, low word first; the state advances by `delta`."""
    delta = view.hero.attributes_as(at.RngStateAttributes).delta
    function, _, results = context.new_kernel(view)
    builder = IRBuilder(function.append_block("entry"))
    type_ = array(I64, 2)
    state = context.module.get_global(STATE) or context.module.add_global(STATE, type_, zero(type_), 16)
    words = [builder.load(I64, _word(builder, state, i), 8) for i in range(2)]
    for i, word in enumerate(words):
        builder.store(word, _word(builder, results[0].pointer, i), 8)
    low = builder.add(words[0], const_int(I64, delta & MASK))
    carry = builder.zext(builder.icmp_unsigned("<", low, words[0]), I64)
    high = builder.add(builder.add(words[1], const_int(I64, delta >> 64 & MASK)), carry)
    for i, word in enumerate((low, high)):
        builder.store(word, _word(builder, state, i), 8)
    builder.ret_void()
    return [Kernel(function, 1, 5.0, "rng-state", 16, 0)]


def emit_reset(builder: IRBuilder) -> None:
    """Emits the initial state's store, if the module has such a state: the first thing of an execution."""
    state = builder.module.get_global(STATE)
    if state is not None:
        for i in range(2):
            builder.store(const_int(I64, INITIAL_STATE >> 64 * i & MASK), _word(builder, state, i), 8)


def _word(builder: IRBuilder, pointer: Value, i: int) -> Value:
    return builder.gep(I64, pointer, const_int(I64, i))
