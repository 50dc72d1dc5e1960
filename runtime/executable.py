"""A compiled program, loaded and callable.

Role: binds a `CpuProgram` to this process. `executable(*arrays)` is a builtin function where the process allows it;
everything that does not fit its table exactly takes the slow path below, which converts or explains, and then makes
the same native call. Invariants: calls from several threads are safe (each has its own arena and results); results are
fresh arrays.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np

from xjit.hlo.diagnostics import FailedPrecondition, InvalidArgument
from xjit.llvm.execution_context import initial_context
from xjit.runtime.arrays.arguments import conforming, flatten_arguments, leaf_paths, to_buffer
from xjit.runtime.arrays.donation import Donations, required_donations, result_buffers
from xjit.runtime.arrays.given_results import GivenResults
from xjit.runtime.arrays.physical_layout import Array, from_physical
from xjit.runtime.arrays.reordered_results import ReorderedResults, reordering
from xjit.runtime.buffer_pool import pooled_library
from xjit.runtime.calls.ctypes_call import CtypesCall, call_with_results
from xjit.runtime.calls.fast_call import MAX_FAST_LEAVES, ArraySpec, NativeEntry, make_fast_call
from xjit.runtime.calls.status_error import FindPlace, StatusError
from xjit.runtime.collectives import ShardedCall
from xjit.runtime.gpu_program import GpuModule
from xjit.runtime.machine_code.jit import missing_features
from xjit.runtime.machine_code.linker import load_object
from xjit.runtime.machine_code.symbols import resolve_symbols
from xjit.runtime.memory_limit import refused_call
from xjit.runtime.program import (
    CONSTANT_ALIGNMENT,
    GIL_RELEASE_US,
    PARAMETER_ALIGNMENT,
    ArraySignature,
    CpuProgram,
    KernelInfo,
    ProgramInterface,
    is_flat,
    unflatten_tree,
)


class CpuExecutable:
    """A `CpuProgram` loaded into this process.

    `executable(*arguments)` takes one argument per HLO parameter (tuples nested as in HLO), or one per leaf array, and
    returns the array or the nested tuple of arrays. Arguments are NumPy arrays of the logical shape, whatever the
    layout of the program, or objects that NumPy can read; scalars may be Python numbers. Raises InvalidArgument,
    naming the parameter.

    A program of several devices is called by `executable.execute_sharded(inputs_per_device)`, one list of arguments
    per device; it returns a list of their results.

    `executable(*arguments, donate=[0])` gives the arrays of parameter 0 away: results that alias it are written there.
    `executable(*arguments, out=array)` writes the result to an array of the caller, or results to a tuple of them,
    nested as in HLO.

    Args:
        program: what to run.
        fast: False forces the ctypes path (for tests and comparisons).
        find_place: says where an instruction is, for the errors of a call.
    """

    # `__call__` is a slot that holds a function: a call goes to the builtin without a Python frame in between.
    __slots__ = (
        "__call__",
        "__weakref__",
        "_counters",
        "_physical",
        "entry",
        "execute_sharded",
        "program",
        "raise_status",
        "uses_fast_call",
    )

    __call__: Callable[..., Any]

    def __init__(self, program: CpuProgram, *, fast: bool = True, find_place: FindPlace | None = None) -> None:
        self.entry = entry = _bind(program)
        self.program = program
        self._counters = entry.keep_alive[-1]
        num_leaves = max(len(program.parameters), len(program.results))
        self.uses_fast_call = fast and pooled_library().has_fast_call and num_leaves <= MAX_FAST_LEAVES
        make = make_fast_call if self.uses_fast_call else CtypesCall
        self.raise_status = on_error = StatusError(program.name, program.instructions, find_place)
        parameters = [_physical_spec(signature) for signature in program.parameters]
        mismatch = _PhysicalMismatch(program, parameters)
        results = [_physical_spec(signature) for signature in program.results]
        physical = partial(make, entry, parameters, results, True, PARAMETER_ALIGNMENT)
        self._physical = _MadeWhenCalled(lambda: physical(mismatch, on_error))
        mismatch.retry = _MadeWhenCalled(lambda: physical(_refuse, on_error))
        self.execute_sharded = ShardedCall(program, entry, on_error)
        refused = refused_call(program) or refused_on_one_device(program)
        if refused is not None:
            self._physical = self.__call__ = refused
            return
        slow = ConvertingCall(program, self._physical, partial(call_with_results, entry, on_error))
        direct_parameters = [_logical_spec(signature) for signature in program.parameters]
        direct_results = [_logical_spec(signature) or _in_memory_order(signature) for signature in program.results]
        direct = None not in direct_parameters and None not in direct_results and is_flat(program.result_tree)
        if not direct or any(alias.must for alias in program.aliases):
            self.__call__ = slow
            return
        reordered = ReorderedResults.of(program, slow)
        native = make(
            entry,
            [spec for spec in direct_parameters if spec is not None],
            [spec for spec in direct_results if spec is not None],
            not isinstance(program.result_tree, int),
            PARAMETER_ALIGNMENT,
            slow if reordered is None else reordered.convert,
            on_error,
        )
        self.__call__ = native if reordered is None else partial(reordered, native)

    @property
    def name(self) -> str:
        """The name of the module."""
        return self.program.name

    @property
    def kernels(self) -> tuple[KernelInfo, ...]:
        """The kernels and library calls, in order of execution."""
        return self.program.kernels

    @property
    def required_donations(self) -> tuple[int, ...]:
        """The parameters that every call must donate, by number."""
        return required_donations(self.program)

    def profile_cycles(self) -> tuple[int, ...]:
        """Returns the time-stamp cycles each kernel call has taken since the last request, and clears them.

        Empty unless the program was compiled for profiling. With several threads at work, calls that overlap count
        twice.
        """
        if self._counters is None:
            return ()
        cycles = tuple(int(n) for n in self._counters)
        ctypes.memset(self._counters, 0, ctypes.sizeof(self._counters))
        return cycles

    def call_physical(self, *buffers: Array) -> tuple[Array, ...]:
        """Runs on raw physical buffers, one 1-D array of the element type per leaf; returns those of the results."""
        return self._physical(*buffers)

    def __copy__(self) -> CpuExecutable:
        return self  # nothing of it can change

    def __deepcopy__(self, memo: dict[int, Any]) -> CpuExecutable:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"executable {self.program.name!r} holds machine code in memory: pickle its `program` instead")

    def __repr__(self) -> str:
        takes = ", ".join(signature.describe() for signature in self.program.parameters)
        gives = ", ".join(signature.describe() for signature in self.program.results)
        return f"<{type(self).__name__} {self.program.name}: ({takes}) -> ({gives})>"


def refused_on_one_device(program: CpuProgram | GpuModule) -> Callable[..., NoReturn] | None:
    """Returns what stands for a call on one device of a program of several: it raises InvalidArgument. Else None."""
    return partial(_refuse_one_device, program) if program.num_devices > 1 else None


def _refuse_one_device(program: CpuProgram | GpuModule, *_: Any, **__: Any) -> NoReturn:
    raise InvalidArgument(
        f"program {program.name!r} runs on {program.num_devices} devices (replica_count={program.num_replicas}, "
        f"num_partitions={program.num_partitions}): call execute_sharded with the arguments of each"
    )


class ConvertingCall:
    """Converts arguments, calls with physical buffers, and gives results their logical shape and nesting."""

    __slots__ = ("_paths", "_physical", "_program", "_run")

    def __init__(
        self,
        program: ProgramInterface,
        physical: Callable[..., tuple[Array, ...]],
        run: Callable[[Sequence[Array], Sequence[Array]], None] | None = None,
    ) -> None:
        """`run` calls the program with given result buffers: what donations need."""
        self._program = program
        self._physical = physical
        self._run = run
        self._paths = leaf_paths(program.parameter_tree)

    def __call__(self, *arguments: Any, donate: int | Iterable[int] = (), out: Any = None) -> Any:
        program = self._program
        leaves = flatten_arguments(program.parameter_tree, program.parameters, arguments)
        buffers = list(map(to_buffer, leaves, program.parameters, self._paths))
        if out is not None:
            return self._into(out, donate, buffers)
        if self._run is not None and (donate != () or program.aliases):
            donations = Donations.of(program, donate)
            if donations.parameter_of:
                return self._donating(self._run, donations, leaves, buffers)
        return self._result(self._physical(*buffers), {})

    def _into(self, out: Any, donate: int | Iterable[int], buffers: Sequence[Array]) -> Any:
        """Writes the results to arrays of the caller; returns these."""
        if donate != () or self._run is None:
            other = "donate" if donate != () else "a call step by step"
            raise InvalidArgument(f"out does not go together with {other}")
        if any(alias.must for alias in self._program.aliases):
            raise InvalidArgument(f"program {self._program.name!r} writes results to its parameters: it takes no out")
        results = GivenResults.of(self._program, out, buffers)
        conformed = [conforming(b, s.dtype) for b, s in zip(buffers, self._program.parameters, strict=True)]
        self._run(conformed, results.buffers)
        results.finish()
        return unflatten_tree(self._program.result_tree, results.arrays)

    def _donating(
        self,
        run: Callable[[Sequence[Array], Sequence[Array]], None],
        donations: Donations,
        leaves: Sequence[Any],
        buffers: Sequence[Array],
    ) -> Any:
        donations.check(self._program, leaves)
        buffers = [conforming(b, s.dtype) for b, s in zip(buffers, self._program.parameters, strict=True)]
        outputs = result_buffers(self._program, donations, buffers)
        run(buffers, outputs)
        return self._result(outputs, {result: leaves[leaf] for result, leaf in donations.parameter_of.items()})

    def _result(self, outputs: Sequence[Array], donated: Mapping[int, Array]) -> Any:
        """The nested result: donated arrays as they are, the others in their logical shape."""
        program = self._program
        arrays = [
            donated[n] if n in donated else from_physical(*pair)
            for n, pair in enumerate(zip(outputs, program.results, strict=True))
        ]
        return unflatten_tree(program.result_tree, arrays)


class _MadeWhenCalled:
    """A function that is made at its first call: most programs never need it."""

    __slots__ = ("_function", "_make")

    def __init__(self, make: Callable[[], Callable[..., Any]]) -> None:
        self._make = make
        self._function: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        function = self._function
        if function is None:
            function = self._function = self._make()
        return function(*arguments)


class _PhysicalMismatch:
    """What `call_physical` does with buffers that do not fit: copies those that only lack alignment or order."""

    __slots__ = ("_signatures", "_specs", "retry")

    def __init__(self, program: CpuProgram, specs: Sequence[ArraySpec]) -> None:
        self._signatures = program.parameters
        self._specs = specs
        self.retry: Callable[..., Any] = _refuse

    def __call__(self, *buffers: Any) -> Any:
        specs = self._specs
        if len(buffers) != len(specs):
            raise InvalidArgument(f"expected {len(specs)} physical buffers, got {len(buffers)}")
        fitting: list[Array] = []
        for number, (buffer, spec, signature) in enumerate(zip(buffers, specs, self._signatures, strict=True)):
            if not isinstance(buffer, np.ndarray) or buffer.dtype != spec.dtype or buffer.shape != spec.shape:
                found = f"{buffer.dtype} {buffer.shape}" if isinstance(buffer, np.ndarray) else type(buffer).__name__
                raise InvalidArgument(
                    f"physical buffer {number} {signature.name!r}: expected {spec.dtype} {spec.shape} "
                    f"for {signature.describe()}, got {found}"
                )
            fitting.append(conforming(buffer, spec.dtype))
        return self.retry(*fitting)


def canonical_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """NumPy's one object for `dtype`, which arrays share. (An unpickled dtype is another object.)"""
    canonical = np.dtype(dtype.type)
    return canonical if canonical == dtype else dtype


def _refuse(*buffers: Any) -> None:
    described = ", ".join(f"{type(b).__name__} {getattr(b, 'dtype', '')} {getattr(b, 'shape', '')}" for b in buffers)
    raise AssertionError(f"converted arguments do not fit the program: {described}")


def _physical_spec(signature: ArraySignature) -> ArraySpec:
    dtype = canonical_dtype(signature.dtype)
    return ArraySpec(dtype, (signature.byte_size // dtype.itemsize,))


def _logical_spec(signature: ArraySignature) -> ArraySpec | None:
    """What the native path takes directly: row-major and column-major arrays without padding."""
    spec = ArraySpec(canonical_dtype(signature.dtype), signature.shape)
    if spec.nbytes != signature.byte_size or signature.tiles:
        return None
    if signature.is_row_major:
        return spec
    if signature.minor_to_major == tuple(range(len(signature.shape))):
        return ArraySpec(spec.dtype, spec.shape, fortran=True)
    return None


def _in_memory_order(signature: ArraySignature) -> ArraySpec | None:
    """The row-major array of other dimensions that a result of permuted layout is a transpose of."""
    order = reordering(signature)
    return None if order is None else ArraySpec(canonical_dtype(signature.dtype), order.dimensions)


def _bind(program: CpuProgram) -> NativeEntry:
    """Loads the object code and the constants. Raises FailedPrecondition if this CPU lacks what the code needs."""
    if missing := missing_features(program.features):
        raise FailedPrecondition(
            f"program {program.name!r} was compiled for {program.cpu}; this CPU lacks {', '.join(missing)}"
        )
    loaded = load_object(program.object_code, [program.entry], resolve_symbols(program.external_symbols))
    counters = (ctypes.c_int64 * program.profile_counters)() if program.profile_counters else None
    constants, addresses = _place_constants(program.constants)
    return NativeEntry(
        address=loaded.address(program.entry),
        initial_context=initial_context(ctypes.addressof(counters) if counters is not None else 0),
        constants_address=ctypes.addressof(addresses),
        arena_size=program.arena_size,
        release_gil=program.always_releases_gil or program.estimated_us > GIL_RELEASE_US,
        keep_alive=(loaded, constants, addresses, counters),
    )


def _place_constants(constants: Sequence[Array]) -> tuple[Array, ctypes.Array[ctypes.c_void_p]]:
    """Copies the constants into one aligned block; returns it and the array of their addresses."""
    raw = [np.ascontiguousarray(constant).reshape(-1).view(np.uint8) for constant in constants]
    offsets: list[int] = []
    size = 0
    for data in raw:
        offsets.append(size)
        size += -(-max(data.size, 1) // CONSTANT_ALIGNMENT) * CONSTANT_ALIGNMENT
    block = np.zeros(size + CONSTANT_ALIGNMENT, np.uint8)
    start = -block.ctypes.data % CONSTANT_ALIGNMENT
    for data, offset in zip(raw, offsets, strict=True):
        block[start + offset : start + offset + data.size] = data
    base = block.ctypes.data + start
    return block, (ctypes.c_void_p * max(len(offsets), 1))(*(base + offset for offset in offsets))
