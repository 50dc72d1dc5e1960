"""Bodies of functions that one kernel would have many times are functions that it calls.

A sine in line is 65 instructions, and LLVM's time for a kernel grows faster than its length. A call costs a sine a few
percent. Both compute the same bits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from xjit.llvm.builder import IRBuilder
from xjit.llvm.function import Function
from xjit.llvm.math.vec import Vec
from xjit.llvm.module import Module
from xjit.llvm.target import Target
from xjit.llvm.types import LLVMType

INLINE_LINES = 120
"""Lines that one function of this library, for one type, may take in a kernel before it is called: two sines. Where
more are to come, all are calls."""


def shared_body(name: str, function: Callable[..., Vec]) -> Callable[..., Vec]:
    """Returns `function` of operands of one type, which calls instead of emitting where it was emitted often."""

    @functools.wraps(function)
    def emit(*operands: Vec) -> Vec:
        builder, module = operands[0].b, operands[0].b.module
        key = (name, operands[0].type.text)
        counted = (builder.function.name, *key)
        lines = module.inline_lines.get(counted, 0)
        uses = module.expected_uses.get(counted[:2], 1)
        if uses > 1 and not lines:
            lines = (uses - 1) * _body_lines(function, operands[0].type, len(operands), builder.target)
        if lines < INLINE_LINES or not builder.target.has_vector_arithmetic:
            before = len(builder.block.lines)
            result = function(*operands)
            module.inline_lines[counted] = module.inline_lines.get(counted, 0) + len(builder.block.lines) - before
            return result
        callee = module.shared.get(key) or _define(key, function, operands)
        return Vec(builder, builder.call(callee, [operand.v for operand in operands], name.replace("-", "_")))

    return emit


@functools.cache
def _body_lines(function: Callable[..., Vec], type: LLVMType, num_operands: int, target: Target) -> int:
    """How long the function is."""
    body = Module("body", target).add_function("body", type, [(type, f"x{n}") for n in range(num_operands)])
    builder = IRBuilder(body.append_block("entry"))
    function(*(Vec(builder, argument) for argument in body.args))
    return sum(len(block.lines) for block in body.blocks)


def _define(key: tuple[str, ...], function: Callable[..., Vec], operands: tuple[Vec, ...]) -> Function:
    module, type = operands[0].b.module, operands[0].type
    params = [(type, f"x{n}") for n in range(len(operands))]
    name = module.unique_name(f"shared_{key[0].replace('-', '_')}_{type.elem.text}_x{type.width}")
    defined = module.shared[key] = module.add_function(name, type, params, linkage="internal")
    builder = IRBuilder(defined.append_block("entry"))
    builder.ret(function(*(Vec(builder, argument) for argument in defined.args)).v)
    return defined
