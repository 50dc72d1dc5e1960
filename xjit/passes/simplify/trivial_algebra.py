"""Rewrites that need no thought: identities, and pairs of index-only operations that are one.

The equations are exact (no arithmetic is changed). One function per equation; RULES lists them by opcode.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from xjit.hlo import HloInstruction, HloModule
from xjit.hlo.attributes import DimensionsAttributes, PadAttributes, SliceAttributes
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations

Rule = Callable[[HloInstruction], HloInstruction | None]
"""Returns what replaces the instruction: an existing one or a free new one; None if the equation does not apply."""


@dataclass
class TrivialAlgebra(HloModulePass):
    """Applies RULES in post order until no rule matches. Layout-sensitive, it keeps copies that change a layout."""

    name = "trivial-algebra"
    is_layout_sensitive: bool = True

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Rewrites every non-fusion computation; True if something changed."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            for instruction in computation.make_instruction_post_order():
                while instruction.parent is computation and (simpler := self._simplified(instruction)) is not None:
                    if simpler.parent is None:
                        simpler.copy_annotations_from(instruction)
                        computation.add_instruction(simpler)
                    instruction.replace_all_uses_with_different_shape(simpler)
                    computation.remove_instruction_and_unused_operands(instruction)
                    changed = True
                    instruction = simpler
        return changed

    def _simplified(self, instruction: HloInstruction) -> HloInstruction | None:
        rules = RULES.get(instruction.opcode, ())
        if not rules or has_control_dependencies(instruction) or not instruction.shape.is_static:
            return None
        for rule in rules:
            simpler = rule(instruction)
            if simpler is not None and (not self.is_layout_sensitive or _same_layout(simpler, instruction)):
                return simpler
        return None


def _same_layout(a: HloInstruction, b: HloInstruction) -> bool:
    return a.shape.layout == b.shape.layout


def _dimensions(i: HloInstruction) -> tuple[int, ...]:
    return i.attributes_as(DimensionsAttributes).dimensions


def identity(i: HloInstruction) -> HloInstruction | None:
    """convert/reshape/copy/bitcast(x) = x when the shape stays."""
    x = i.operand(0)
    return x if x.shape.element_type is i.shape.element_type and x.shape.same_dimensions(i.shape) else None


def identity_permutation(i: HloInstruction) -> HloInstruction | None:
    """transpose(x), dimensions={0,1,...} = x; broadcast(x) likewise."""
    x = i.operand(0)
    if _dimensions(i) == tuple(range(i.shape.rank)) and x.shape.same_dimensions(i.shape):
        return x
    return None


def identity_slice(i: HloInstruction) -> HloInstruction | None:
    """slice(x) of everything = x."""
    x = i.operand(0)
    return (
        x
        if x.shape.same_dimensions(i.shape) and all(d.stride == 1 for d in i.attributes_as(SliceAttributes).slice)
        else None
    )


def identity_pad(i: HloInstruction) -> HloInstruction | None:
    """pad(x, v) without padding = x."""
    zero = all(
        d.edge_padding_low == d.edge_padding_high == d.interior_padding == 0
        for d in i.attributes_as(PadAttributes).padding
    )
    return i.operand(0) if zero and i.operand(0).shape.same_dimensions(i.shape) else None


def identity_concatenate(i: HloInstruction) -> HloInstruction | None:
    """concatenate(x) = x."""
    return i.operand(0) if i.operand_count == 1 else None


def identity_reverse(i: HloInstruction) -> HloInstruction | None:
    """reverse(x) of dimensions of size 1 = x."""
    return i.operand(0) if all(i.shape.dimensions[d] == 1 for d in _dimensions(i)) else None


def reshape_of_reshape(i: HloInstruction) -> HloInstruction | None:
    """reshape(reshape(x)) = reshape(x)."""
    inner = i.operand(0)
    if inner.opcode != "reshape" or not inner.operand(0).shape.is_static:
        return None
    return HloInstruction.create("reshape", i.shape, [inner.operand(0)], name=i.name)


def transpose_of_transpose(i: HloInstruction) -> HloInstruction | None:
    """transpose(transpose(x, p), q) = transpose(x, p[q])."""
    inner = i.operand(0)
    if inner.opcode != "transpose":
        return None
    dimensions = tuple(_dimensions(inner)[d] for d in _dimensions(i))
    return HloInstruction.create(
        "transpose", i.shape, [inner.operand(0)], DimensionsAttributes(dimensions), name=i.name
    )


def transpose_to_reshape(i: HloInstruction) -> HloInstruction | None:
    """transpose(x) that only moves dimensions of size 1 = reshape(x)."""
    x = i.operand(0)
    moved = [d for d in _dimensions(i) if x.shape.dimensions[d] != 1]
    if moved != sorted(moved) or not x.shape.is_static:
        return None
    return HloInstruction.create("reshape", i.shape, [x], name=i.name)


def broadcast_of_broadcast(i: HloInstruction) -> HloInstruction | None:
    """broadcast(broadcast(x, p), q) = broadcast(x, q[p])."""
    inner = i.operand(0)
    if inner.opcode != "broadcast":
        return None
    dimensions = tuple(_dimensions(i)[d] for d in _dimensions(inner))
    return HloInstruction.create(
        "broadcast", i.shape, [inner.operand(0)], DimensionsAttributes(dimensions), name=i.name
    )


def broadcast_to_reshape(i: HloInstruction) -> HloInstruction | None:
    """broadcast(x) that only adds dimensions of size 1 = reshape(x)."""
    x = i.operand(0)
    if (
        x.shape.num_elements != i.shape.num_elements
        or not x.shape.is_static
        or list(_dimensions(i)) != sorted(_dimensions(i))
    ):
        return None
    return HloInstruction.create("reshape", i.shape, [x], name=i.name) if i.shape.num_elements else None


def reshape_of_broadcast_scalar(i: HloInstruction) -> HloInstruction | None:
    """reshape(broadcast(scalar)) = broadcast(scalar)."""
    inner = i.operand(0)
    if inner.opcode != "broadcast" or inner.operand(0).shape.rank:
        return None
    return HloInstruction.create("broadcast", i.shape, [inner.operand(0)], DimensionsAttributes(()), name=i.name)


RULES: Mapping[str, tuple[Rule, ...]] = {
    "convert": (identity,),
    "copy": (identity,),
    "reshape": (identity, reshape_of_reshape, reshape_of_broadcast_scalar),
    "transpose": (identity_permutation, transpose_of_transpose, transpose_to_reshape),
    "broadcast": (identity_permutation, broadcast_of_broadcast, broadcast_to_reshape),
    "slice": (identity_slice,),
    "pad": (identity_pad,),
    "concatenate": (identity_concatenate,),
    "reverse": (identity_reverse,),
}
