"""Emits single numbers where they are needed: see `xjit.emitters.planners.inline` for which these are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from xjit.affine import constant
from xjit.emitters.access.access_analysis import Index
from xjit.emitters.access.memory import Buffer
from xjit.emitters.elemental import RegisterValue
from xjit.emitters.fused import Element, FusedIrEmitter
from xjit.emitters.kernels.kernel import KernelContext
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.emitters.planners.inline import UPDATE, is_number
from xjit.llvm.builder import IRBuilder
from xjit.llvm.function import Function
from xjit.llvm.values import Value


def emit_scalar_code(
    context: KernelContext,
    function: Function,
    builder: IRBuilder,
    view: KernelView,
    pointers: Sequence[Value],
    known: Sequence[RegisterValue | None] = (),
    keep: Callable[[int, RegisterValue], bool] = lambda number, value: False,
) -> None:
    """Emits the numbers of a view for which `is_scalar_code` holds; `pointers` are its operands, then its results.

    Operands that are `known` are not loaded. `keep` gets the number and value of each result that is a number; what it
    returns True for is not stored.
    """
    leaves = {
        leaf: Buffer(leaf.shape, pointer)
        for leaf, pointer in zip(view.leaves, pointers, strict=False)
        if leaf.opcode != "constant" or not is_number(leaf.shape)
    }
    leaves.update(context.constant_leaves(view))
    fused = FusedIrEmitter(LoopNest(context.module, function, context.target, builder), leaves, context.maps)
    for leaf, value in zip(view.leaves, known, strict=False):
        if value is not None and leaf in leaves:
            fused.foreign[leaf] = partial(_same_element, value)
    results = [Buffer(s, p) for s, p in zip(view.result_shapes, pointers[len(view.leaves) :], strict=True)]
    if view.hero.opcode == UPDATE:
        place = tuple(fused.runtime_values(view.hero, 1, ()))
        values = [fused.element(view.hero.operand(1), (constant(0),) * len(place))[0]]
        places = [place]
    else:
        places = [(constant(0),) * root.shape.rank for root in view.roots]
        values = [fused.element(root, place)[0] for root, place in zip(view.roots, places, strict=True)]
    for number, (buffer, place, value) in enumerate(zip(results, places, values, strict=True)):
        if not keep(number, value):  # all are read before one is written
            fused.memory.store(buffer, place, value)


def _same_element(value: RegisterValue, index: Index) -> Element:
    """The element of what has only one, at any index."""
    return value, 0
