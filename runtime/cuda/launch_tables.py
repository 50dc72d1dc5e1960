"""The tables of the native launcher, made of a program's thunks when it is loaded."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from xjit.hlo.diagnostics import ExecutionError
from xjit.runtime.cuda.driver import CudaDriver
from xjit.runtime.cuda.launcher_ir import MAX_ARGUMENTS, RUN_ARGUMENTS, SLOT, STEP, launcher_address
from xjit.thunks import BufferSlice, CopyThunk, GpuProgram, KernelThunk, RuntimeCallThunk, Thunk

Step = KernelThunk | CopyThunk


class LaunchTables:
    """Every kernel call and copy of a program, ready to be put on a stream.

    Args:
        program: what to run.
        functions: the loaded kernels, by name.
        first_bases: for each kind of slice, the number of the address of its first buffer among those of a call.
    """

    def __init__(self, program: GpuProgram, functions: Mapping[str, int], first_bases: Mapping[str, int]) -> None:
        self._program = program
        self._functions = functions
        self._first_bases = first_bases
        self._steps: list[Step] = []
        self._slots: list[np.ndarray] = []
        packed: list[bytes] = []
        for sequence in program.thunks.sequences.values():
            for thunk in sequence:
                if isinstance(thunk, KernelThunk | CopyThunk) and not isinstance(thunk, RuntimeCallThunk):
                    packed.append(self._kernel(thunk) if isinstance(thunk, KernelThunk) else self._copy(thunk))
                    self._steps.append(thunk)
        self._numbers = {id(thunk): number for number, thunk in enumerate(self._steps)}
        self._table = np.frombuffer(b"".join(packed), np.uint8)
        self._run = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(launcher_address())

    def order(self, thunks: Iterable[Thunk]) -> np.ndarray:
        """The numbers of the steps of some thunks, which must all be kernels or copies."""
        return np.array([self._numbers[id(thunk)] for thunk in thunks], np.int64)

    def run(self, order: np.ndarray, bases: np.ndarray, stream: int, driver: CudaDriver) -> None:
        """Puts steps on a stream. `bases`: the addresses (i64). ExecutionError names the instruction that failed."""
        if not len(order):
            return
        call = ctypes.create_string_buffer(
            RUN_ARGUMENTS.pack(
                steps=self._table.ctypes.data,
                order=order.ctypes.data,
                count=len(order),
                bases=bases.ctypes.data,
                stream=stream,
                launch=driver.launch_function,
                copy=driver.copy_function,
            ),
            RUN_ARGUMENTS.size,
        )
        status = self._run(ctypes.addressof(call))
        if status:
            step = self._steps[RUN_ARGUMENTS.unpack(call.raw)["failed"]]
            raise ExecutionError(f"launching '{step.instruction}' failed with CUDA's status {status}")

    def _kernel(self, thunk: KernelThunk) -> bytes:
        kernel = self._program.kernels[thunk.kernel]
        arguments = [self._slot(place.slice) for place in (*thunk.operands, *thunk.results)]
        slots = self._keep([*arguments, *(SLOT.pack(base=-1, offset=number) for number in kernel.scalars)])
        first, second = -1, -1
        if thunk.skip_if_same is not None:
            first, second = thunk.skip_if_same[0], len(thunk.operands) + thunk.skip_if_same[1]
        launch = kernel.launch
        extents = zip(("blocks", "threads"), (launch.blocks, launch.threads))
        return STEP.pack(
            function=self._functions[thunk.kernel],
            **{f"{kind}.{axis}": count for kind, extent in extents for axis, count in zip("xyz", extent)},
            shared_bytes=launch.dynamic_shared_bytes,
            num_slots=len(slots) // SLOT.size,
            slots=slots.ctypes.data,
            skip_first=first,
            skip_second=second,
        )

    def _copy(self, thunk: CopyThunk) -> bytes:
        slots = self._keep([self._slot(thunk.source), self._slot(thunk.destination)])
        pair = {"skip_first": 0, "skip_second": 1} if thunk.may_be_one else {"skip_first": -1, "skip_second": -1}
        return STEP.pack(num_slots=2, slots=slots.ctypes.data, copy_bytes=thunk.destination.size, **pair)

    def _slot(self, where: BufferSlice) -> bytes:
        return SLOT.pack(base=self._first_bases[where.kind] + where.index, offset=where.offset)

    def _keep(self, slots: Sequence[bytes]) -> np.ndarray:
        assert len(slots) <= MAX_ARGUMENTS, f"{len(slots)} arguments"
        self._slots.append(np.frombuffer(b"".join(slots), np.uint8))
        return self._slots[-1]
