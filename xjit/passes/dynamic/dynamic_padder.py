"""Bounded dynamic dimensions become static ones, whose elements beyond the size are kept out of what is computed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from xjit.hlo import HloComputation, HloInstruction, HloModule, Shape, Unsupported
from xjit.hlo import attributes as at
from xjit.hlo.attributes.opcodes import Trait
from xjit.hlo.diagnostics import InvalidArgument
from xjit.passes.analysis.call_graph import CallGraph
from xjit.passes.calls_and_control.flatten_call_graph import FlattenCallGraph
from xjit.passes.dynamic.padded_values import (
    SIZE,
    PaddedArray,
    PaddingWriter,
    dynamic_places,
    leaf_arrays,
    static,
)
from xjit.passes.dynamic.padding_options import (
    SHAPE_CHECK_MODES,
    AssertionGenerator,
    CustomCallHandler,
    OpDynamismSupport,
    OpSupportsDynamismHandler,
    PaddingOptions,
)
from xjit.passes.dynamic.padding_rules import pad_instruction
from xjit.passes.framework import analyses
from xjit.passes.framework.base import HloModulePass, selected_computations
from xjit.passes.framework.expansion import Expansion
from xjit.passes.simplify.hlo_dce import HloDCE

TO_STATIC, TO_DYNAMIC = "PadToStatic", "SliceToDynamic"
_SIZES = frozenset({"get-dimension-size", "set-dimension-size"})


@dataclass
class DynamicPadder(HloModulePass):
    """Computes with arrays of the bounds, and scalars for the sizes; masks what would mix in what lies beyond.

    Dynamic parameters of the entry come in through a custom call PadToStatic, results go out through SliceToDynamic,
    or, without `slice_dynamic_output`, as padded arrays. Loops, branches and callees get the sizes beside the arrays.

    `op_supports_dynamism_handler` names instructions that the backend runs on dynamic arrays, required or where
    there is no rule: these get and give some, through the same two calls. `custom_call_handler` is the rule of custom
    calls. Where operands have sizes of their own for one dimension, `shape_check_mode` ignores it, refuses those that
    are computed differently (compile_time), or hands the comparison to `assertion_generator` (runtime).
    """

    name = "dynamic-padder"
    slice_dynamic_output: bool = True
    shape_check_mode: str = "ignore"
    op_supports_dynamism_handler: OpSupportsDynamismHandler | None = None
    custom_call_handler: CustomCallHandler | None = None
    assertion_generator: AssertionGenerator | None = None

    def __post_init__(self) -> None:
        modes = SHAPE_CHECK_MODES if self.assertion_generator is not None else SHAPE_CHECK_MODES[:-1]
        if self.shape_check_mode not in modes:
            known = ", ".join(SHAPE_CHECK_MODES)
            raise InvalidArgument(
                f"option 'shape_check_mode' is one of {known}, the last with an assertion_generator,"
                f" found '{self.shape_check_mode}'"
            )

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Pads what is alive of a module; True if a dynamic dimension, or a question for a size, was inside of it, or
        if something was dead.
        """
        cleaned = HloDCE().run_impl(module, execution_threads)
        support = self.op_supports_dynamism_handler or PaddingOptions.support
        options = PaddingOptions(support, self.custom_call_handler, self.shape_check_mode, self.assertion_generator)
        computations = selected_computations(module, execution_threads)
        instructions = [i for c in computations for i in c.instructions]
        if not any(_is_dynamic_inside(i) and not _is_enclosed(i, options) for i in instructions):
            return cleaned
        FlattenCallGraph().run_impl(module, execution_threads)
        selected = set(selected_computations(module, execution_threads))
        for computation in [c for c in analyses.get(CallGraph, module).sequential if c in selected]:
            _ComputationPadding(computation, self.slice_dynamic_output, options).run()
        HloDCE().run_impl(module, execution_threads)
        module.remove_unused_computations()
        return True


def _is_dynamic_inside(instruction: HloInstruction) -> bool:
    """Whether an instruction computes with dynamic arrays: those that only bring them in or out do not."""
    opcode = instruction.opcode
    if opcode == "get-dimension-size" and instruction.shape.element_type is not SIZE:
        return False  # no HLO: the verifier says so
    if opcode in _SIZES:
        return True
    if opcode in ("parameter", "tuple", "get-tuple-element") or _target(instruction) in (TO_STATIC, TO_DYNAMIC):
        return False
    return not all(s.is_static for s in (instruction.shape, *[o.shape for o in instruction.operands]))


def _is_enclosed(instruction: HloInstruction, options: PaddingOptions) -> bool:
    """Whether an instruction that may be dynamic stands between the two calls already."""
    if instruction.opcode != "infeed" and options.support(instruction) is OpDynamismSupport.NO_SUPPORT:
        return False
    given = [o for o in instruction.operands if not o.shape.is_static]
    readers = [u for t in _arrays_taken(instruction) for u in t.users]
    return all(_target(o) == TO_DYNAMIC for o in given) and all(_target(u) == TO_STATIC for u in readers)


def _arrays_taken(instruction: HloInstruction) -> Iterator[HloInstruction]:
    """Yields the dynamic arrays of a result, and what reads a tuple of it otherwise than by its elements."""
    if not instruction.shape.is_static:
        if instruction.shape.is_tuple and all(u.opcode == "get-tuple-element" for u in instruction.users):
            for user in instruction.users:
                yield from _arrays_taken(user)
        else:
            yield instruction


def _target(instruction: HloInstruction) -> str:
    is_call = instruction.opcode == "custom-call"
    return instruction.attributes_as(at.CustomCallAttributes).custom_call_target if is_call else ""


class _ComputationPadding:
    """The arrays of one computation so far. What is static all around stays the instruction it is."""

    def __init__(self, computation: HloComputation, slice_output: bool, options: PaddingOptions) -> None:
        self.computation = computation
        self.options = options
        self.slice_output = slice_output
        self.values: dict[HloInstruction, list[PaddedArray]] = {}
        self.replaced: list[HloInstruction] = []

    def run(self) -> None:
        """Replaces what is dynamic, in place."""
        is_entry = self.computation.is_entry_computation()
        for instruction in self.computation.make_instruction_post_order():
            self._visit(instruction, is_entry)
        root = self.computation.root_instruction
        if root in self.replaced:
            b = PaddingWriter(Expansion(root), self.options)
            made = self._result(root, b) if is_entry else _packed(root.shape, self.values[root], b)
            self.computation.set_root_instruction(made, accept_different_shape=True)
        for instruction in reversed(self.replaced):
            if instruction.opcode != "parameter":
                self.computation.force_remove_instruction(instruction)

    def _visit(self, instruction: HloInstruction, is_entry: bool) -> None:
        b = PaddingWriter(Expansion(instruction), self.options)
        touched = any(o in self.replaced for o in instruction.operands)
        if instruction.opcode == "parameter":
            if not instruction.shape.is_static:
                self._parameter(instruction, is_entry, b)
            return
        if not (touched or _is_dynamic_inside(instruction)):
            return
        self.values[instruction] = self._made(instruction, b)
        self.replaced.append(instruction)

    def _arrays(self, instruction: HloInstruction, b: PaddingWriter) -> list[PaddedArray]:
        known = self.values.get(instruction)
        if known is None:
            known = self.values[instruction] = [PaddedArray(leaf) for leaf in _elements(instruction, b)]
        return known

    def _made(self, instruction: HloInstruction, b: PaddingWriter) -> list[PaddedArray]:
        opcode = instruction.opcode
        arrays = [a for o in instruction.operands for a in self._arrays(o, b)]
        if opcode == "tuple":
            return arrays
        if _target(instruction) == TO_STATIC:
            sizes = [PaddedArray(b.size_of(arrays[0], d)) for d in range(instruction.operand(0).shape.rank)]
            return [arrays[0].without_sizes(), *sizes]
        if _target(instruction) == TO_DYNAMIC:
            dynamic = [d for d in range(instruction.shape.rank) if instruction.shape.is_dynamic_dimension(d)]
            return [PaddedArray(arrays[0].data, {d: arrays[d + 1].data for d in dynamic})]
        if opcode == "get-tuple-element":
            index = instruction.attributes_as(at.GetTupleElementAttributes).index
            before = instruction.operand(0).shape.tuple_shapes[:index]
            start = sum(1 for s in before for _ in leaf_arrays(s))
            return arrays[start : start + sum(1 for _ in leaf_arrays(instruction.shape))]
        if instruction.op.has(Trait.CONTROL_FLOW) and opcode != "async-start":
            given = [_packed(o.shape, self._arrays(o, b), b) for o in instruction.operands]
            return _unpacked(
                b.add(instruction.clone_with_new_operands(packed_shape(instruction.shape), given)), instruction.shape, b
            )
        if instruction.op.has(Trait.FORWARDS) and instruction.shape.is_tuple:
            return arrays
        if opcode == "infeed":
            return [_to_static(leaf, b) for leaf in _elements(_renewed(instruction, b), b)]
        if any(o.shape.is_tuple for o in instruction.operands) or opcode in ("fusion", "async-start"):
            raise Unsupported(f"dynamic-padder: {opcode} '{instruction.name}' of dynamic arrays", instruction.span)
        support = self.options.support(instruction)
        try:
            if support is not OpDynamismSupport.REQUIRED:
                return pad_instruction(instruction, arrays, b)
        except Unsupported:
            if support is OpDynamismSupport.NO_SUPPORT:
                raise
            b.into.discard()
        return _run_dynamic(instruction, arrays, b)

    def _parameter(self, parameter: HloInstruction, is_entry: bool, b: PaddingWriter) -> None:
        """Puts a copy between the parameter and its users, of the shape that they expect, to be taken apart."""
        stand_in = HloInstruction.create("copy", parameter.shape, [])
        self.computation.add_instruction(stand_in)
        parameter.replace_all_uses_with(stand_in)
        stand_in.append_operand(parameter)
        if is_entry:
            self.values[stand_in] = [_to_static(leaf, b) for leaf in _elements(parameter, b)]
        else:
            shape = parameter.shape
            parameter.shape = packed_shape(shape)
            self.values[stand_in] = _unpacked(parameter, shape, b)
        self.replaced.append(stand_in)

    def _result(self, root: HloInstruction, b: PaddingWriter) -> HloInstruction:
        arrays = iter(self.values[root])
        return _assembled(root.shape, arrays, b, self.slice_output)


def _elements(instruction: HloInstruction, b: PaddingWriter) -> Iterator[HloInstruction]:
    if instruction.shape.is_tuple and instruction.shape.tuple_shapes:
        for n in range(len(instruction.shape.tuple_shapes)):
            yield from _elements(b.element(instruction, n), b)
    else:
        yield instruction


def _renewed(instruction: HloInstruction, b: PaddingWriter) -> HloInstruction:
    return b.add(instruction.clone_with_new_operands(instruction.shape, instruction.operands))


def _run_dynamic(instruction: HloInstruction, arrays: Sequence[PaddedArray], b: PaddingWriter) -> list[PaddedArray]:
    """The instruction itself, between calls that make its operands dynamic and its results static."""
    given = [_to_dynamic(o.shape, a, b) for o, a in zip(instruction.operands, arrays, strict=True)]
    local = b.add(instruction.clone_with_new_operands(instruction.shape, given))
    return [_to_static(leaf, b) for leaf in _elements(local, b)]


def _to_dynamic(shape: Shape, array: PaddedArray, b: PaddingWriter) -> HloInstruction:
    if shape.is_static:
        return array.data
    operands = [array.data, *[b.size_of(array, d) for d in range(shape.rank)]]
    return b.add(HloInstruction.create("custom-call", shape, operands, at.CustomCallAttributes(TO_DYNAMIC)))


def _to_static(leaf: HloInstruction, b: PaddingWriter) -> PaddedArray:
    """The padded array of a dynamic one, and its sizes, one per dimension."""
    if leaf.shape.is_static:
        return PaddedArray(leaf)
    sizes = [Shape.array(SIZE)] * leaf.shape.rank
    shape = Shape.tuple_of([static(leaf.shape), *sizes])
    call = b.add(HloInstruction.create("custom-call", shape, [leaf], at.CustomCallAttributes(TO_STATIC)))
    dynamic = [d for d in range(leaf.shape.rank) if leaf.shape.is_dynamic_dimension(d)]
    return PaddedArray(b.element(call, 0), {d: b.element(call, d + 1) for d in dynamic})


def _assembled(shape: Shape, arrays: Iterator[PaddedArray], b: PaddingWriter, slice_output: bool) -> HloInstruction:
    if shape.is_tuple and shape.tuple_shapes:
        return b.tuple_of(*[_assembled(s, arrays, b, slice_output) for s in shape.tuple_shapes])
    array = next(arrays)
    return _to_dynamic(shape, array, b) if slice_output else array.data


# -- between computations: (value, size, ...)


def packed_shape(shape: Shape) -> Shape:
    """Returns the shape that a dynamic value has between computations: its elements, or itself, and the sizes."""
    sizes = [Shape.array(SIZE)] * len(dynamic_places(shape))
    if not sizes:
        return shape
    whole = static(shape)
    return Shape.tuple_of([*(whole.tuple_shapes if shape.is_tuple else (whole,)), *sizes])


def _packed(shape: Shape, arrays: Sequence[PaddedArray], b: PaddingWriter) -> HloInstruction:
    places = dynamic_places(shape)
    bare = [PaddedArray(a.data) for a in arrays]
    whole = static(shape)
    if not places:
        return _assembled(whole, iter(bare), b, False)
    remaining = iter(bare)
    elements = whole.tuple_shapes if shape.is_tuple else (whole,)
    values = [_assembled(s, remaining, b, False) for s in elements]
    return b.tuple_of(*values, *[b.size_of(arrays[n], d) for n, d in places])


def _unpacked(local: HloInstruction, shape: Shape, b: PaddingWriter) -> list[PaddedArray]:
    places = dynamic_places(shape)
    if not places:
        return [PaddedArray(leaf) for leaf in _elements(local, b)]
    count = len(local.shape.tuple_shapes) - len(places)
    leaves = [leaf for n in range(count) for leaf in _elements(b.element(local, n), b)]
    sizes: list[dict[int, HloInstruction]] = [{} for _ in leaves]
    for position, (n, d) in enumerate(places):
        sizes[n][d] = b.element(local, count + position)
    return [PaddedArray(leaf, found) for leaf, found in zip(leaves, sizes, strict=True)]
