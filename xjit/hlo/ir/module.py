"""`HloModule`: a program - computations, one of them the entry, and its configuration."""

from __future__ import annotations

import copy
import itertools
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from xjit.hlo.annotations import header_views
from xjit.hlo.annotations.dynamic_parameter_binding import DynamicParameterBinding
from xjit.hlo.annotations.input_output_alias import HloBufferDonorConfig, HloInputOutputAliasConfig
from xjit.hlo.annotations.metadata import HloSharding, StackFrameIndex
from xjit.hlo.compare.equality import structural_equal
from xjit.hlo.compare.hashing import module_hash
from xjit.hlo.diagnostics import FailedPrecondition, InvalidArgument
from xjit.hlo.edit import module_cloning, outlining
from xjit.hlo.edit.cloning import HloCloneContext
from xjit.hlo.io import serialization
from xjit.hlo.io.printing import HloPrintOptions, module_to_string
from xjit.hlo.ir import naming, orders
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.module_config import ComputationLayout, HloModuleConfig, ProgramShape, create_module_config_from_shape
from xjit.hlo.ir.name_uniquer import NameUniquer
from xjit.hlo.ir.schedule import HloSchedule
from xjit.hlo.mersenne_twister import MersenneTwister64
from xjit.hlo.types.shape import Shape

__all__ = ["ComputationLayout", "HloModule", "HloModuleConfig", "ProgramShape", "create_module_config_from_shape"]

_module_ids = itertools.count()
_RANDOM_SEED = 42
_random_lock = threading.Lock()


def _after_fork_in_child() -> None:
    global _random_lock
    _random_lock = threading.Lock()  # a thread that does not exist in the child may have held it


os.register_at_fork(after_in_child=_after_fork_in_child)


class HloModule:
    """Owns its computations. Names and ids are unique in the module. `==` compares graphs, as of HloComputation."""

    def __init__(self, name: str, config: HloModuleConfig | None = None) -> None:
        self.name = name
        self.config = config or HloModuleConfig()
        self.unique_id = next(_module_ids)
        self.instruction_name_uniquer = NameUniquer()
        self.computation_name_uniquer = NameUniquer()
        self.frontend_attributes: dict[str, str] = {}
        self.stack_frame_index = StackFrameIndex()
        self._computations: dict[HloComputation, None] = {}
        self._entry: HloComputation | None = None
        self._next_id = 0
        self._schedule: HloSchedule | None = None
        self._random: MersenneTwister64 | None = None
        self._version = 0
        self._whole_version = 0
        self._call_version = 0
        self._opcodes: tuple[int, frozenset[str]] = (-1, frozenset())
        self._orders: dict[Callable[[HloModule], list[HloComputation]], tuple[int, tuple[HloComputation, ...]]] = {}
        self.analyses: dict[type, tuple[int, Any]] = {}  # by kind: the version, and what was found out about it
        self.on_rewrite: Callable[[str, HloInstruction], None] | None = None
        """Told of every replacement (`xjit.hlo.edit.replacing`): the old instruction as text, and the new one."""

    # -- versions

    @property
    def version(self) -> int:
        """A number that grows with every change of instructions, edges, roots, attributes, calls or computations.

        What was found out about a version holds as long as the number stays. A shape counts that is replaced by
        `mutable_shape`. Other fields of instructions do not: who sets them calls `note_change`.
        """
        return self._version

    def note_change(self) -> None:
        """Makes this another version of the module, in which any computation may be another one."""
        self._version += 1
        self._whole_version = self._version

    def next_version(self) -> int:
        """Makes this another version of the module and returns its number (for HloComputation only)."""
        self._version += 1
        return self._version

    @property
    def whole_version(self) -> int:
        """The version of the last change that may be anywhere; of others see `HloComputation.version`."""
        return self._whole_version

    @property
    def call_version(self) -> int:
        """A number that grows with every change of the computations, of what calls them, or of the callers' order."""
        return self._call_version

    def calls_changed(self) -> None:
        """Makes this another version of the calls, and so of the module (for HloComputation only)."""
        self._call_version += 1
        self._version += 1

    # -- facts

    @property
    def opcodes(self) -> frozenset[str]:
        """The opcodes of the instructions of all computations."""
        version, found = self._opcodes
        if version != self._version:
            found = frozenset[str]().union(*[c.opcodes for c in self._computations])
            self._opcodes = self._version, found
        return found

    def set_name(self, name: str) -> None:
        """Renames the module; the name is only printed."""
        self.name = name

    def set_config(self, config: HloModuleConfig) -> None:
        """Replaces the whole config."""
        self.config = config

    @property
    def entry_computation(self) -> HloComputation:
        """The computation that runs; FailedPrecondition if there is none yet."""
        if self._entry is None:
            raise FailedPrecondition(f"module {self.name} has no entry computation")
        return self._entry

    def has_entry_computation(self) -> bool:
        """Whether an entry computation was added."""
        return self._entry is not None

    @property
    def result_shape(self) -> Shape:
        """Shape of the entry's root."""
        return self.entry_computation.root_instruction.shape

    def computations(self, execution_threads: Iterable[str] | None = None) -> list[HloComputation]:
        """Returns the computations in insertion order, optionally only those of some execution threads."""
        threads = set(execution_threads or ())
        return [c for c in self._computations if not threads or c.execution_thread in threads]

    def get_computation_with_name(self, name: str) -> HloComputation | None:
        """Returns the computation of that name, or None."""
        return next((c for c in self._computations if c.name == name), None)

    def mutable_computation(self, i: int) -> HloComputation:
        """Returns the i-th computation in insertion order; InvalidArgument if there is none."""
        if not 0 <= i < len(self._computations):
            raise InvalidArgument(f"module {self.name} has {len(self._computations)} computations, none numbered {i}")
        return next(itertools.islice(self._computations, i, None))

    @property
    def computation_count(self) -> int:
        """Number of computations."""
        return len(self._computations)

    @property
    def instruction_count(self) -> int:
        """Number of instructions of all computations."""
        return sum(c.instruction_count for c in self._computations)

    # -- mutation

    def register_instruction(self, instruction: HloInstruction) -> None:
        """Gives an instruction a unique name and id (for HloComputation only)."""
        instruction.name = self.instruction_name_uniquer.get_unique_name(instruction.name)
        instruction.unique_id = self.new_unique_instruction_id()

    def new_unique_instruction_id(self) -> int:
        """Returns the next id: dense, increasing, never reused."""
        self._next_id += 1
        return self._next_id - 1

    @property
    def next_unique_id(self) -> int:
        """The id that the next instruction or computation gets."""
        return self._next_id

    def reserve_ids(self, end: int) -> None:
        """Never gives out an id below `end` (for clones that keep ids)."""
        self._next_id = max(self._next_id, end)

    def random_new64(self) -> int:
        """Returns the next number below 2**64 of the module's generator, std::mt19937_64 with seed 42; thread-safe."""
        with _random_lock:
            if self._random is None:
                self._random = MersenneTwister64(_RANDOM_SEED)
            return self._random.next()

    def _adopt(self, computation: HloComputation) -> HloComputation:
        if computation.parent is not None:
            raise InvalidArgument(f"computation {computation.name} already belongs to a module")
        computation.parent = self
        computation.name = self.computation_name_uniquer.get_unique_name(computation.name)
        for instruction in computation.instructions:
            self.register_instruction(instruction)
        computation.unique_id = self._next_id
        self._next_id += 1
        self._computations[computation] = None
        self.calls_changed()
        computation.version = self._version
        return computation

    def add_entry_computation(self, computation: HloComputation) -> HloComputation:
        """Adds a computation and makes it the entry; error if there is one."""
        if self._entry is not None:
            raise FailedPrecondition(f"module {self.name} already has the entry computation {self._entry.name}")
        self._adopt(computation)
        self._entry = computation
        self.calls_changed()
        if self.config.entry_computation_layout is None:
            self.config.entry_computation_layout = self.compute_computation_layout()
        return computation

    def add_entry_computation_with_layouts(self, computation: HloComputation) -> HloComputation:
        """As add_entry_computation, and the layouts that callers see become those of its parameters and root."""
        self.add_entry_computation(computation)
        self.config.entry_computation_layout = self.compute_computation_layout()
        return computation

    def replace_entry_computation(self, computation: HloComputation) -> None:
        """Makes a computation of this module the entry; what the config says of the old signature is dropped.

        The old entry stays as an embedded computation. Errors: InvalidArgument if the computation is not of this
        module, FailedPrecondition if it is called.
        """
        self._require_own(computation)
        if computation is self._entry:
            return
        if caller := next(iter(computation.caller_instructions()), None):
            raise FailedPrecondition(f"{computation.name} cannot be the entry: {caller.name} calls it")
        self._entry = computation
        self.calls_changed()
        self.config.entry_computation_layout = self.compute_computation_layout()
        header_views.forget_signature(self)

    def _require_own(self, computation: HloComputation) -> None:
        if computation not in self._computations:
            raise InvalidArgument(f"computation {computation.name} is not in module {self.name}")

    def add_computation_and_unify_names_and_ids(
        self, computation: HloComputation, is_entry: bool = False
    ) -> HloComputation:
        """Adds a computation that was built elsewhere; it and its instructions get unique names and ids."""
        return self.add_entry_computation(computation) if is_entry else self.add_embedded_computation(computation)

    def add_embedded_computation(
        self, computation: HloComputation, caller: HloComputation | None = None
    ) -> HloComputation:
        """Adds a computation that is not the entry; it runs on the thread of its caller, if that is given."""
        if caller is not None:
            computation.execution_thread = caller.execution_thread
        return self._adopt(computation)

    def remove_embedded_computation(self, computation: HloComputation) -> None:
        """Removes a computation of this module that nothing calls and that is not the entry, also from the schedule."""
        self._require_own(computation)
        if computation is self._entry or computation.caller_instructions():
            raise FailedPrecondition(f"computation {computation.name} is still in use")
        for instruction in computation.instructions:
            instruction.detach_from_operands()
        del self._computations[computation]
        self.calls_changed()
        computation.parent = None
        if self._schedule is not None:
            self._schedule.remove_computation(computation)

    def remove_unused_computations(self) -> None:
        """Removes all computations that the entry does not need, callers first."""
        used = orders.reachable_computations(self)
        for computation in reversed(self.make_computation_post_order()):
            if computation not in used:
                computation.cleanup()
                self.remove_embedded_computation(computation)

    def replace_computations(self, replacements: Mapping[HloComputation, HloComputation]) -> None:
        """Replaces computations wherever they are called, and as the entry; the replaced ones are removed.

        Errors: InvalidArgument if one is not of this module or the signatures differ.
        """
        outlining.check_replacements(self, replacements)
        for computation in self._computations:
            if computation in replacements:
                continue
            for instruction in computation.instructions:
                for i, callee in enumerate(instruction.called_computations):
                    instruction.set_called_computation(i, replacements.get(callee, callee))
        if self._entry is not None:
            self._entry = replacements.get(self._entry, self._entry)
            self.calls_changed()
        for computation in reversed(self.make_computation_post_order()):
            if computation in replacements:
                self.remove_embedded_computation(computation)

    def outline_expression_from_computation(
        self, instructions: Sequence[HloInstruction], name: str, computation: HloComputation
    ) -> HloInstruction:
        """Moves instructions (operands first, the root last) into a new computation; returns the call of it."""
        return outlining.outline_expression_from_computation(self, instructions, name, computation)

    def cleanup(self) -> None:
        """Frees the instructions that are in no computation, but still read or call something of this module."""
        for computation in self._computations:
            computation.cleanup()

    # -- copies and identity

    def __eq__(self, other: object) -> bool:
        """Whether the graphs are equal, whatever their names, ids and metadata. (Hashing is by identity.)"""
        if self is other:
            return True
        if not isinstance(other, HloModule) or not (self.has_entry_computation() and other.has_entry_computation()):
            return False
        return structural_equal(self, other)

    __hash__ = object.__hash__

    def __deepcopy__(self, memo: dict[int, Any]) -> HloModule:
        return self.clone("")

    def __reduce__(self) -> tuple[Any, ...]:
        return serialization.create_from_proto, (self.to_proto(), self.config)

    def clone(self, suffix: str = "clone", config: HloModuleConfig | None = None) -> HloModule:
        """Returns a deep copy named `name-suffix` (`name` for an empty suffix); names and ids in it are kept.

        The config is copied unless another one is given.
        """
        name = f"{self.name}-{suffix}" if suffix else self.name
        clone = HloModule(name, copy.deepcopy(self.config) if config is None else config)
        module_cloning.clone_graph_into(self, clone)
        return clone

    def deep_clone_computation(
        self, computation: HloComputation, context: HloCloneContext | None = None
    ) -> HloComputation:
        """Adds a clone of a computation and of everything it calls to this module; returns the clone."""
        return module_cloning.deep_clone_computation(self, computation, context)

    def hash(self) -> int:
        """Returns a 64-bit hash of the graph (not of the config): names, ids and order play no part."""
        return module_hash(self)

    def check_unique_names_and_ids_for_computations_and_instructions(self) -> None:
        """Raises HloVerifyError if two instructions or two computations share a name or an id."""
        naming.check_unique_names_and_ids(self)

    # -- entry layout

    def compute_computation_layout(self) -> ComputationLayout:
        """Returns the layouts of the entry's parameters and root as they are now."""
        entry = self.entry_computation
        return ComputationLayout([p.shape for p in entry.parameter_instructions], entry.root_instruction.shape)

    @property
    def entry_computation_layout(self) -> ComputationLayout:
        """The layouts that callers see (requested in the config, else those of the entry)."""
        return self.config.entry_computation_layout or self.compute_computation_layout()

    def mutable_entry_computation_layout(self) -> ComputationLayout:
        """The layouts that callers see, to be changed in place."""
        if self.config.entry_computation_layout is None:
            self.config.entry_computation_layout = self.compute_computation_layout()
        return self.config.entry_computation_layout

    # -- typed views on the header

    @property
    def input_output_alias_config(self) -> HloInputOutputAliasConfig:
        """Which outputs reuse the buffers of parameters."""
        return HloInputOutputAliasConfig(self)

    @property
    def buffer_donor_config(self) -> HloBufferDonorConfig:
        """Which parameters give their buffers away."""
        return HloBufferDonorConfig(self)

    @property
    def dynamic_parameter_binding(self) -> DynamicParameterBinding:
        """Which parameters hold the run-time sizes of dimensions."""
        return DynamicParameterBinding(self)

    def has_spmd_output_sharding(self) -> bool:
        """Whether the sharding of the result before partitioning was set."""
        return header_views.OUTPUT_SHARDING in self.config.header_attributes

    @property
    def spmd_output_sharding(self) -> HloSharding:
        """The sharding of the result before partitioning; FailedPrecondition if it was not set."""
        return header_views.output_sharding(self)

    @spmd_output_sharding.setter
    def spmd_output_sharding(self, sharding: HloSharding) -> None:
        header_views.set_output_sharding(self, sharding)

    def has_spmd_parameters_shardings(self) -> bool:
        """Whether the shardings of the parameters before partitioning were set."""
        return header_views.PARAMETERS_SHARDINGS in self.config.header_attributes

    @property
    def spmd_parameters_shardings(self) -> list[HloSharding]:
        """The shardings of the parameters before partitioning; FailedPrecondition if they were not set."""
        return header_views.parameters_shardings(self)

    @spmd_parameters_shardings.setter
    def spmd_parameters_shardings(self, shardings: Sequence[HloSharding]) -> None:
        header_views.set_parameters_shardings(self, shardings)

    def add_cross_program_prefetch(self, parameter: int, index: Sequence[int] = ()) -> None:
        """Appends a buffer to prefetch; InvalidArgument if the entry has no such parameter buffer."""
        header_views.add_cross_program_prefetch(self, parameter, index)

    @property
    def cross_program_prefetches(self) -> tuple[header_views.CrossProgramPrefetch, ...]:
        """The parameter buffers to prefetch between programs, in the order they were added."""
        return header_views.cross_program_prefetches(self)

    # -- schedule

    @property
    def schedule(self) -> HloSchedule:
        """The execution order; FailedPrecondition before scheduling."""
        if self._schedule is None:
            raise FailedPrecondition(f"module {self.name} has no schedule")
        return self._schedule

    def has_schedule(self) -> bool:
        """Whether an execution order was set."""
        return self._schedule is not None

    def set_schedule(self, schedule: HloSchedule) -> None:
        """Verifies and keeps an execution order; the instructions are listed (and printed) in that order from now
        on.
        """
        schedule.verify(self)
        self.keep_schedule(schedule)
        for computation in self._computations:
            if schedule.is_scheduled(computation):
                computation.reorder_instructions(schedule.sequence(computation))
        schedule.note_complete(self)

    def keep_schedule(self, schedule: HloSchedule) -> None:
        """Keeps an execution order without a check (for clones and for modules that are read as scheduled)."""
        self._schedule = schedule
        self.note_change()
        self.config.header_attributes["is_scheduled"] = "true"

    def clear_schedule(self) -> None:
        """Forgets the execution order."""
        self._schedule = None
        self.note_change()
        self.config.header_attributes.pop("is_scheduled", None)

    # -- orders

    def make_computation_post_order(self) -> list[HloComputation]:
        """Returns all computations, callees before callers, deterministic, the entry last."""
        return self._kept_order(orders.make_computation_post_order)

    def _kept_order(self, make: Callable[[HloModule], list[HloComputation]]) -> list[HloComputation]:
        kept = self._orders.get(make)
        if kept is None or kept[0] != self._call_version:
            kept = self._orders[make] = (self._call_version, tuple(make(self)))
        return list(kept[1])

    def make_computation_sorted(self) -> list[HloComputation]:
        """Returns all computations sorted by content (names play no part), ties in post order."""
        return orders.make_computation_sorted(self)

    def make_nonfusion_computations(self) -> list[HloComputation]:
        """Returns the computations that no fusion calls, in post order."""
        return self._kept_order(orders.make_nonfusion_computations)

    def make_nonfusion_computations_sorted(self) -> list[HloComputation]:
        """Returns the computations that no fusion calls, sorted by content."""
        return orders.make_nonfusion_computations_sorted(self)

    # -- protos (see `serialization`)

    def to_proto(self) -> bytes:
        """Returns the module as a serialized HloModuleProto. Needs `xjit.text.proto`."""
        return serialization.module_to_proto(self)

    @staticmethod
    def create_from_proto(data: bytes, config: HloModuleConfig | None = None) -> HloModule:
        """Returns the module of a serialized HloModuleProto, validated; HloParseError if it is malformed."""
        return serialization.create_from_proto(data, config)

    @staticmethod
    def create_module_config_from_proto(
        data: bytes,
        debug_options: Mapping[str, Any] | None = None,
        execution_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> HloModuleConfig:
        """Returns the config of a serialized HloModuleProto; options replace its fields."""
        return serialization.create_module_config_from_proto(data, debug_options, execution_options, **options)

    @staticmethod
    def create_module_config_from_shape(
        program_shape: ProgramShape, layout: ComputationLayout | None = None, **options: Any
    ) -> HloModuleConfig:
        """Returns a config for a signature; `options` are further fields (replica_count, seed, ...)."""
        return create_module_config_from_shape(program_shape, layout, **options)

    # -- text

    def to_string(self, options: HloPrintOptions | None = None) -> str:
        """Returns HLO text; with the default options it parses back to an equal module."""
        return module_to_string(self, options)

    def __str__(self) -> str:
        return self.to_string()

    def __repr__(self) -> str:
        return f"<HloModule {self.name}: {self.computation_count} computations, {self.instruction_count} instructions>"
