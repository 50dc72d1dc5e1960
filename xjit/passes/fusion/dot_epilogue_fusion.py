"""What is computed from a dot or convolution element by element becomes part of it: its epilogue.

Bias, activation, scaling, residual, conversion: the emitter computes them on tiles of sums that are still in the cache,
so that the dot's result is not written to memory and read again. If something else needs the result, it is one more
output. Which instructions these are is read off indexing maps: each element must come from the element of the dot that
lies at the same place in memory, and everything else be read along memory with it, so that layouts never differ.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from xjit.hlo import HloComputation, HloInstruction, HloModule, PrimitiveType, Shape
from xjit.hlo import attributes as at
from xjit.hlo.attributes.opcodes import Trait
from xjit.indexing.element_reads import ElementReads, is_tiled
from xjit.passes.analysis import fusion_cost as cost
from xjit.passes.analysis.call_graph import CallGraph
from xjit.passes.analysis.convolution_phases import num_phases
from xjit.passes.analysis.planar_convolutions import suits_planes
from xjit.passes.framework import analyses
from xjit.passes.framework.base import NO_THREADS, HloModulePass, has_control_dependencies
from xjit.passes.fusion.unit_merging import merge_units

MAX_FUSED_PHASES = 4
"""Parts of a convolution's result that lie between each other; each has the code of the epilogue."""
MIN_IDLE = 64
"""Rows that are worth loops of their own."""
HEROES = frozenset({"convolution", "dot"})
_FLOATS = frozenset((PrimitiveType.BF16, PrimitiveType.F16, PrimitiveType.F32, PrimitiveType.F64))
_SMALL_INTEGERS = frozenset((PrimitiveType.S8, PrimitiveType.U8, PrimitiveType.S16))


@dataclass(frozen=True, slots=True)
class _Consumer:
    """What may become an epilogue: an instruction or fusion that reads the hero, directly or through bitcasts."""

    user: HloInstruction
    bitcasts: tuple[HloInstruction, ...]  # from the hero on


@dataclass
class DotEpilogueFusion(HloModulePass):
    """Fuses dots and convolutions with what is computed from them element by element.

    Results of fewer than `min_elements` elements are left alone: what reads them may be code in line. A fusion has at
    most `max_operands` operands and `max_outputs` results; `like_dimensions`: several results have the same dimensions.
    Where an epilogue takes vectors of `vector_bytes` from one row, and rows fill them badly, transcendental functions
    are loops of their own, which take whole vectors of several rows; so is all that is computed from a convolution
    whose features lie apart, as an epilogue's vectors would.
    """

    name = "dot-epilogue-fusion"
    opcodes = HEROES
    min_elements: int = 16
    max_operands: int = 64
    max_outputs: int = 4
    like_dimensions: bool = False
    vector_bytes: int = 0

    def run_impl(self, module: HloModule, execution_threads: Collection[str] = NO_THREADS) -> bool:
        """Fuses in every sequential computation; True if something was fused."""
        changed = False
        reads = ElementReads()
        for computation in analyses.get(CallGraph, module).sequential:
            if not execution_threads or computation.execution_thread in execution_threads:
                changed |= self._run_on(computation, reads)
        return changed

    def _run_on(self, computation: HloComputation, reads: ElementReads) -> bool:
        heroes = [i for i in computation.instructions if self._is_hero(i)]
        if not heroes:
            return False
        overwrites = _declared_overwrites(computation)
        order = computation.make_instruction_post_order()
        position = {instruction: number for number, instruction in enumerate(order)}
        changed = False
        for hero in heroes:
            chosen = self._choose(hero, position, reads, overwrites)
            if not chosen:
                continue
            units = dict.fromkeys([hero, *(b for c in chosen for b in c.bitcasts), *(c.user for c in chosen)])
            roots = [c.user for c in chosen]
            outputs = roots if _only_read_by(hero, set(units)) else [*roots, hero]
            place = position[hero] if len(outputs) > 1 else position[roots[0]]
            for new in merge_units(computation, list(units), outputs, hero, "kOutput", "dot_epilogue"):
                position[new] = place
            changed = True
        return changed

    def _is_hero(self, instruction: HloInstruction) -> bool:
        body = instruction.fused_expression_root if instruction.opcode == "fusion" else instruction
        return (
            body.opcode in HEROES
            and not instruction.is_custom_fusion()  # a kernel of its own kind, as attention has
            and instruction.shape.is_static_array
            and _has_products(body)
            and instruction.shape.num_elements >= self.min_elements
            and not is_tiled(instruction.shape)
            and not has_control_dependencies(instruction)
            and not (self.vector_bytes and _has_features_apart(body, instruction.shape))
            and num_phases(body) <= MAX_FUSED_PHASES
        )

    def _choose(
        self,
        hero: HloInstruction,
        position: Mapping[HloInstruction, int],
        reads: ElementReads,
        overwrites: Mapping[HloInstruction, HloInstruction],
    ) -> list[_Consumer]:
        """Returns the consumers that join the hero: one that is the only one, or any that need nothing after it.

        Neither makes a cycle. In the first case nothing else depends on the hero; in the second the fusion takes the
        hero's place in the order.
        """
        sources = {_behind_bitcasts(o) for o in hero.operands}
        consumers = [c for c in _consumers(hero) if overwrites.get(c.user) not in sources]
        fitting = [c for c in consumers if c.user is not hero and self._fits(hero, c, reads)]
        if len(fitting) == 1 and _only_read_by(hero, {fitting[0].user, *fitting[0].bitcasts}):
            return fitting
        ready = [c for c in fitting if _needs_only_before(hero, c, position)]
        if self.like_dimensions:
            ready = [c for c in ready if c.user.shape.dimensions == hero.shape.dimensions]
        return ready[: self.max_outputs - 1]

    def _fits(self, hero: HloInstruction, consumer: _Consumer, reads: ElementReads) -> bool:
        user = consumer.user
        if user.opcode in HEROES or not _is_loop(user) or user.operand_count + hero.operand_count > self.max_operands:
            return False
        if user.shape.num_elements != hero.shape.num_elements or is_tiled(user.shape):
            return False
        if self.vector_bytes and _leaves_lanes_idle(hero, self.vector_bytes) and _is_transcendental(user):
            return False
        source = consumer.bitcasts[-1] if consumer.bitcasts else hero
        own = reads.identity(user.shape)
        for operand, ways in zip(user.operands, reads.of(user), strict=True):
            lies_alike = operand.shape.dimensions == user.shape.dimensions and _same_order(operand.shape, user.shape)
            if lies_alike and len(ways) == 1 and own in ways:
                continue  # the element at the same index, and so at the same place
            if operand is source:
                place = reads.places(own, user.shape)
                if any(m.is_unknown or reads.places(m, operand.shape) != place for m in ways):
                    return False
            elif not all(reads.is_along(m, operand.shape, user.shape) for m in ways):
                return False
        return True


def _has_features_apart(hero: HloInstruction, shape: Shape) -> bool:
    """Whether neighbours in the memory of a convolution's result are pixels, and the lanes of its vectors are not."""
    if hero.opcode != "convolution" or suits_planes(hero):
        return False
    feature = hero.attributes_as(at.ConvolutionAttributes).dim_labels.output_feature_dimension
    minor = next((d for d in shape.minor_to_major if shape.dimensions[d] > 1), feature)
    return minor != feature


def _leaves_lanes_idle(hero: HloInstruction, vector_bytes: int) -> bool:
    """Whether more than a quarter of the lanes of a row's vectors have no element."""
    lanes = max(1, vector_bytes // hero.shape.element_type.byte_width)
    sizes = [hero.shape.dimensions[d] for d in hero.shape.minor_to_major]
    row = next((size for size in sizes if size > 1), 1)
    return hero.shape.num_elements >= MIN_IDLE * row and 4 * row < 3 * -(-row // lanes) * lanes


def _is_transcendental(user: HloInstruction) -> bool:
    body = user.fused_instructions_computation.instructions if user.opcode == "fusion" else [user]
    return any(i.op.has(Trait.TRANSCENDENTAL) for i in body)


def _has_products(hero: HloInstruction) -> bool:
    """Whether the types are those of a multiplication in tiles: floats, or sums of small integers in s32."""
    if hero.shape.element_type is PrimitiveType.S32:
        return all(operand.shape.element_type in _SMALL_INTEGERS for operand in hero.operands)
    return hero.shape.element_type in _FLOATS


def _consumers(hero: HloInstruction) -> list[_Consumer]:
    found: dict[HloInstruction, _Consumer] = {}
    stack: list[tuple[HloInstruction, tuple[HloInstruction, ...]]] = [(hero, ())]
    while stack:
        value, bitcasts = stack.pop()
        for user in value.users:
            if user.opcode == "bitcast" and user.shape.element_type is hero.shape.element_type:
                if not (user.is_root() or has_control_dependencies(user)):
                    stack.append((user, (*bitcasts, user)))
            elif user not in found:
                found[user] = _Consumer(user, bitcasts)
            else:  # it reads the hero in two forms
                found[user] = _Consumer(hero, ())
    return [c for c in found.values() if c.user is not hero]


def _declared_overwrites(computation: HloComputation) -> dict[HloInstruction, HloInstruction]:
    """Returns, by result of the program, the parameter that it may take the memory of, as the module declares.

    If a dot reads that parameter, a fused epilogue would overwrite what is still to be read: the result would get
    memory of its own.
    """
    module = computation.parent
    if module is None or computation is not module.entry_computation:
        return {}
    root = computation.root_instruction
    found: dict[HloInstruction, HloInstruction] = {}
    for alias in module.config.input_output_alias:
        result = root
        for element in alias.output_index if root.opcode == "tuple" else ():
            result = result.operand(element) if result.opcode == "tuple" else result
        if not alias.parameter_index:
            found[_behind_bitcasts(result)] = computation.parameter_instructions[alias.parameter_number]
    return found


def _behind_bitcasts(value: HloInstruction) -> HloInstruction:
    while value.opcode == "bitcast":
        value = value.operand(0)
    return value


def _only_read_by(hero: HloInstruction, readers: Collection[HloInstruction]) -> bool:
    """Whether nothing but `readers`, and bitcasts among them, needs the hero's value."""
    stack = [hero]
    while stack:
        value = stack.pop()
        if value.is_root():
            return False
        for user in value.users:
            if user not in readers:
                return False
            if user.opcode == "bitcast":
                stack.append(user)
    return True


def _needs_only_before(hero: HloInstruction, consumer: _Consumer, position: Mapping[HloInstruction, int]) -> bool:
    own = {hero, *consumer.bitcasts}
    return all(o in own or position[o] < position[hero] for o in consumer.user.operands)


def _is_loop(user: HloInstruction) -> bool:
    """Whether an instruction is one array that is computed in a loop, without anything that it must wait for. A
    transpose would be the kernel's hero, even if it moves nothing in memory.
    """
    if user.opcode == "fusion":
        is_loop = user.attributes_as(at.FusionAttributes).kind == "kLoop" and cost.is_array_program(user)
        return is_loop and all(i.opcode != "transpose" for i in user.fused_instructions_computation.instructions)
    return user.opcode not in ("bitcast", "copy") and cost.may_be_root(user)


def _same_order(a: Shape, b: Shape) -> bool:
    return a.minor_to_major == b.minor_to_major and not is_tiled(a) and not is_tiled(b)
