"""The backend: the functions of PJRT's interface that Python answers, and the API struct that JAX takes.

All objects live as long as the process: JAX keeps the struct's address, and asks until the very end.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import itertools
import threading
from collections.abc import Callable
from typing import Any, Final

from xjit.hlo.custom_call_registry import register_custom_call_target
from xjit.hlo.diagnostics import InvalidArgument, ResourceExhausted, Unsupported
from xjit.jax_backend.aliases import aliased_bytes
from xjit.jax_backend.analyses import memory_size
from xjit.jax_backend.c_api import FUNCTIONS, NAMED_VALUE, PROGRAM, VERSION, ErrorCode, NamedValueType
from xjit.jax_backend.callbacks import TARGET, call_python, failure_of_function
from xjit.jax_backend.device_memory import DeviceMemories, GpuMemory
from xjit.jax_backend.devices import Client, ClientBuilder, device_of_memory, is_asynchronous, num_devices
from xjit.jax_backend.gpu_programs import GpuProgram
from xjit.jax_backend.native.api import REFUSAL_ERROR, NativeApi
from xjit.jax_backend.native.buffers import DELETED_ERROR, NOT_ON_HOST_ERROR, READY_EVENT
from xjit.jax_backend.native.calls import CALL_RUN, RUN_MEMBER, RUN_PROGRAM, STATUS_ERROR
from xjit.jax_backend.native.device_data import ALLOCATE_DATA, COPY_DATA, NO_DATA
from xjit.jax_backend.native.donation import ARGUMENT_DELETED, DONATED_THEN_READ, DONATED_TWICE, READ_THEN_DONATED
from xjit.jax_backend.native.events import EXHAUSTED_ERROR, EXHAUSTED_EVENT
from xjit.jax_backend.native.execute import COUNT_ERROR
from xjit.jax_backend.native.groups import OPEN_GROUP
from xjit.jax_backend.native.questions import CALL_PYTHON, CALL_TARGET, UNANSWERED_ERROR
from xjit.jax_backend.platforms import CPU, PLATFORMS, Platform
from xjit.jax_backend.programs import LoadedProgram, load_program, read_program
from xjit.jax_backend.records import CALL, EXECUTABLE
from xjit.jax_backend.requests import (
    CodedError,
    Memory,
    Request,
    error_of,
    give_answer,
    new_error,
    static_error,
    static_ready_event,
)
from xjit.jax_backend.sharded_execution import ShardedExecution
from xjit.jax_backend.transfers import NO_VIEWS, Copying, Transfers
from xjit.jax_backend.workers import Workers
from xjit.llvm.execution_context import RuntimeStatus
from xjit.llvm.struct_layout import StructLayout
from xjit.runtime.collectives.communicator import StoppedError
from xjit.runtime.executable import CpuExecutable
from xjit.runtime.thread_pool import running_pool

_DELETED: Final = "Buffer has been deleted or donated."
_STATIC_ERRORS: Final = {
    DELETED_ERROR: (ErrorCode.INVALID_ARGUMENT, _DELETED),
    COUNT_ERROR: (
        ErrorCode.INVALID_ARGUMENT,
        "a call with another number of arguments or devices than its program",
    ),
    EXHAUSTED_ERROR: (ErrorCode.RESOURCE_EXHAUSTED, "Out of memory, or of threads"),
    UNANSWERED_ERROR: (ErrorCode.INTERNAL, "Python did not answer: it has no stack left, or is shutting down"),
    REFUSAL_ERROR: (ErrorCode.UNIMPLEMENTED, "xjit's backend does not have this function of PJRT"),
    NOT_ON_HOST_ERROR: (ErrorCode.UNIMPLEMENTED, NO_VIEWS),
}

_CUT_SHORT: Final = "an answer of Python's was interrupted, and is not begun again"

_CLASH: Final = "(flattened argument {0}, replica 0, partition 0, first use: {1}). Toy example for this bug: "
_ARGUMENT_ERRORS: Final = {
    DONATED_TWICE: f"Attempt to donate the same buffer twice in Execute() {_CLASH}`f(donate(a), donate(a))`.",
    DONATED_THEN_READ: "Attempt to use a buffer that was previously donated in the same call to Execute() "
    f"{_CLASH}`f(donate(a), a)`.",
    READ_THEN_DONATED: f"Attempt to donate a buffer which is also used by the same call to Execute() {_CLASH}"
    "`f(a, donate(a))`.",
    ARGUMENT_DELETED: "Invalid buffer passed to Execute() as argument {0} to replica 0: INVALID_ARGUMENT: " + _DELETED,
}

_ANSWER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_STATUS = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
_OPEN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
_RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_COPY = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, ctypes.c_int64, ctypes.c_void_p)


PLATFORM_OPTION: Final = "platform"
"""The option of a client that has the name of one of `PLATFORMS`."""

Answer = Callable[[Request], int | None]
"""Does a request; returns the address of an error, if there is one, or raises."""


class Showing(threading.local):
    """Whether this thread asks for programs to show them to readers."""

    is_asked = False


class Plugin:
    """The one of this process."""

    def __init__(self) -> None:
        answers = self._answers()
        self._api = NativeApi(answers)
        self._kept: list[Any] = []
        self._programs: dict[int, LoadedProgram] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self.showing = Showing()
        self._clients: dict[int, Client] = {}  # by address
        self._ready = static_ready_event()
        self._api.set_variable(READY_EVENT, self._ready.address)
        for name, (code, text) in _STATIC_ERRORS.items():
            address, kept = static_error(code, text)
            self._api.set_variable(name, address)
            self._kept.append(kept)
            if name == EXHAUSTED_ERROR:
                self._api.set_variable(EXHAUSTED_EVENT, self._keep(static_ready_event(address)).address)
        self._cut_short, kept = static_error(ErrorCode.INTERNAL, _CUT_SHORT)
        self._kept.append(kept)
        self._memories = DeviceMemories()
        self._transfers = Transfers(self._api, self._ready.address, self._memories)
        self._sharded_execution = ShardedExecution(self._api.address(CALL_RUN))
        self._set_answers(answers)
        self._api.set_variable(CALL_PYTHON, ctypes.cast(call_python, ctypes.c_void_p).value or 0)
        register_custom_call_target(TARGET, self._api.address(CALL_TARGET))
        self._workers = Workers(self._api, self._sharded_execution.stop)
        self.struct = self._api.api_struct(VERSION)
        atexit.register(self._end, tuple(answers))

    def _answers(self) -> dict[str, Answer]:
        return {
            "Plugin_Attributes": self._plugin_attributes,
            "Client_Create": self._create_client,
            "Client_TopologyDescription": self._topology,
            "TopologyDescription_Serialize": self._serialize_topology,
            "Client_LookupDevice": self._look_up_device,
            "Client_LookupAddressableDevice": self._look_up_local_device,
            "Client_DefaultDeviceAssignment": self._default_assignment,
            "Client_Compile": self._compile,
            "Client_BufferFromHostBuffer": lambda request: self._transfers.from_host(request),
            "Client_CreateViewOfDeviceBuffer": lambda request: self._transfers.view_of(request),
            "Client_CreateUninitializedBuffer": self._uninitialized,
            "Client_CreateErrorBuffer": self._error_buffer,
            "Buffer_ToHostBuffer": lambda request: self._transfers.to_host(request),
            "Buffer_CopyRawToHost": lambda request: self._transfers.raw_to_host(request),
            "Buffer_CopyToDevice": self._copy_to_device,
            "Buffer_CopyToMemory": self._copy_to_memory,
            "Executable_OptimizedProgram": self._optimized_program,
            "Executable_GetCostAnalysis": self._cost_analysis,
            "Executable_GetCompiledMemoryStats": self._memory_stats,
            "Executable_GetCompileOptions": self._compile_options,
            "Executable_Serialize": self._serialize,
            "Executable_DeserializeAndLoad": self._deserialize,
            "LoadedExecutable_GetDeviceAssignment": self._device_assignment,
        }

    def _set_answers(self, answers: dict[str, Answer]) -> None:
        for name, answer in answers.items():
            function = _ANSWER(self._answering(functools.partial(_answer_request, answer, FUNCTIONS[name])))
            self._kept.append(function)
            self._api.answer_with(name, ctypes.cast(function, ctypes.c_void_p).value or 0)
        for name, function in {
            STATUS_ERROR: _STATUS(self._answering(self._error_of_status)),
            OPEN_GROUP: _OPEN(self._open_group),
            RUN_MEMBER: _RUN(self._answering(self._run_member)),
            RUN_PROGRAM: _ANSWER(self._answering(self._run_program)),
            ALLOCATE_DATA: _OPEN(self._allocate),
            COPY_DATA: _COPY(self._answering(self._memories.copy)),
        }.items():
            self._kept.append(function)
            self._api.set_variable(name, ctypes.cast(function, ctypes.c_void_p).value or 0)

    def _answering(self, answer: Callable[..., int | None]) -> Callable[..., None]:
        """A function for native code, whose last argument is where the answer's error, or null, goes.

        While nothing is there it is asked again: so something is, as soon as an answer begins.
        """

        def answered(*arguments: Any) -> None:
            *subjects, cell = arguments
            place = ctypes.c_void_p.from_address(cell)
            try:
                place.value = self._cut_short
                error = answer(*subjects) or 0
            except BaseException as raised:
                error = error_of(raised)
            place.value = error

        return answered

    def _end(self, names: tuple[str, ...]) -> None:
        """At exit: what was asked for is done, and from now on nothing asks Python."""
        self._workers.end()
        for name in names:
            self._api.answer_with(name, 0)

    @property
    def copying(self) -> Copying:
        """What becomes of views that this thread makes of memory."""
        return self._transfers.copying

    # Client

    def _plugin_attributes(self, request: Request) -> None:
        from jaxlib.mlir.dialects import stablehlo

        version = [int(part) for part in stablehlo.get_current_version().split(".")]
        numbers = Memory.of_numbers(version)
        named = {"stablehlo_current_version": numbers, "stablehlo_minimum_version": numbers}
        values = [_named(self._keep, name, NamedValueType.INT64_LIST, m.address, 3) for name, m in named.items()]
        request["attributes"], request["num_attributes"] = self._keep(Memory(b"".join(values))).address, len(values)
        self._keep(numbers)

    def _create_client(self, request: Request) -> None:
        """A client of as many devices as are asked for now; those who ask for as many share it, one after another.

        JAX asks again when its backends were cleared. Arrays of before live on with theirs.
        """
        platform = PLATFORMS[_text_options(request).get(PLATFORM_OPTION, CPU.name)]
        with self._lock:
            count = num_devices(platform)
            there = (c for c in self._clients.values() if (c.platform, len(c.devices)) == (platform, count))
            client = next(there, None)
            if client is None:
                client = self._new_client(platform, count)
                self._clients[client.address] = client
            queues = [queue for client in self._clients.values() for queue in client.queues]
            self._workers.serve(queues, is_asynchronous=is_asynchronous())
        request["client"] = client.address

    def _new_client(self, platform: Platform, count: int) -> Client:
        """Errors: FailedPrecondition if there is no GPU for it."""
        if not platform.has_own_memory:
            return ClientBuilder(platform, count).build()
        from xjit.runtime.cuda import cuda_driver  # for GPUs alone

        drivers = [cuda_driver(number) for number in range(count)]
        client = ClientBuilder(platform, count).build()
        for device, driver in zip(client.devices, drivers, strict=True):
            self._memories.add(device, GpuMemory(driver, functools.partial(self._api.data_freed, device)))
        return client

    def _topology(self, request: Request) -> None:
        request["topology"] = request["client"]

    def _serialize_topology(self, request: Request) -> None:
        self._answer_serialized(request, "topology", self._clients[request["topology"]].topology)

    def _look_up_device(self, request: Request) -> None:
        request["device"] = self._device(request["client"], request["id"])

    def _look_up_local_device(self, request: Request) -> None:
        request["addressable_device"] = self._device(request["client"], request["local_hardware_id"])

    def _device(self, client: int, number: int) -> int:
        devices = self._clients[client].devices
        if not 0 <= number < len(devices):
            raise InvalidArgument(f"device {number}, there are {len(devices)}")
        return devices[number]

    def _default_assignment(self, request: Request) -> None:
        count, there = request["num_replicas"] * request["num_partitions"], self._clients[request["client"]].devices
        if count > min(len(there), request["default_assignment_size"]):
            raise InvalidArgument(f"{count} devices for a program, there are {len(there)}")
        ids = Memory.of_numbers(range(count), 32)
        ctypes.memmove(request["default_assignment"], ids.address, 4 * count)

    # Buffers

    def _allocate(self, device: int, num_bytes: int, answer: int) -> None:
        def allocate() -> int:
            try:
                return self._memories.allocate(device, num_bytes)
            except ResourceExhausted:
                return NO_DATA

        give_answer(answer, allocate, int)

    def _uninitialized(self, request: Request) -> None:
        request["buffer"] = self._transfers.uninitialized(request)

    def _error_buffer(self, request: Request) -> None:
        message = request.bytes("error_message", "error_message_size").decode("utf-8", "replace")
        failure = CodedError(ErrorCode(request["error_code"]), message)
        request["buffer"] = self._transfers.uninitialized(request, failure)

    def _copy_to_device(self, request: Request) -> None:
        request["dst_buffer"] = self._transfers.copy(request["buffer"], request["dst_device"], 0)

    def _copy_to_memory(self, request: Request) -> None:
        memory = request["dst_memory"]
        request["dst_buffer"] = self._transfers.copy(request["buffer"], device_of_memory(memory), memory)

    # Programs

    def _compile(self, request: Request) -> None:
        program = Request(PROGRAM, request["program"])
        code, form = program.bytes("code", "code_size"), program.bytes("format", "format_size").decode()
        options = request.bytes("compile_options", "compile_options_size")
        self._sweep()
        number = next(self._numbers)
        if form != "mlir":
            raise Unsupported(f"a program in the format {form!r}: expected mlir")
        loaded = load_program(self._clients[request["client"]], number, code, options)
        self._programs[number] = loaded
        request["executable"] = loaded.structs.address

    def _sweep(self) -> None:
        """Forgets programs that JAX has destroyed."""
        for number, program in list(self._programs.items()):
            structs = [Request(EXECUTABLE, address) for address in (program.structs.address, *program.structs.parts)]
            if structs[0]["is_destroyed"] and not any(struct["num_pending"] for struct in structs):
                self._programs.pop(number, None)

    def _program(self, address: int) -> LoadedProgram:
        return self._programs[Request(EXECUTABLE, address)["number"]]

    def _open_group(self, executable: int, _count: int, answer: int) -> None:
        def number(opened: list[int]) -> int:
            if not opened:
                opened.append(self._sharded_execution.open(self._program(executable)))
            return opened[0]

        give_answer(answer, list[int], number)

    def _run_member(self, call: int, error: int | None) -> int:
        return self._sharded_execution.run_member(call, error or 0)

    def _run_program(self, call: int) -> None:
        """Runs a program of a GPU on the data of a call's arguments and results."""
        fields = Request(CALL, call)
        program = self._program(fields["executable"])
        code, device = program.executable, self._sharded_execution.device_of(program, fields)
        assert isinstance(code, GpuProgram)
        parameters, results = (
            list((ctypes.c_int64 * len(leaves)).from_address(fields[name]))
            for name, leaves in (("inputs", code.program.parameters), ("outputs", code.program.results))
        )
        try:
            code.run(parameters, results, self._memories.of_gpu(fields["device"]), device)
        except BaseException as error:
            stopped = isinstance(error, StoppedError)
            status = RuntimeStatus.COLLECTIVE_FAILED if stopped else RuntimeStatus.INTERNAL
            raise self._sharded_execution.failure(status, failure_of_function(error)) from error

    def _error_of_status(self, executable: int, status: int, instruction: int, detail: int) -> int:
        if status in _ARGUMENT_ERRORS:
            return new_error(ErrorCode.INVALID_ARGUMENT, _ARGUMENT_ERRORS[status].format(instruction, detail))
        try:
            code = self._program(executable).executable
            assert isinstance(code, CpuExecutable)
            code.raise_status(status, instruction, detail)
        except BaseException as error:
            return error_of(self._sharded_execution.failure(status, failure_of_function(error)))
        return 0

    def _optimized_program(self, request: Request) -> None:
        """The program as it runs: JAX takes shardings and layouts from it after every compilation; or for readers."""
        loaded = self._program(request["executable"])
        text = loaded.shown_program if self.showing.is_asked else loaded.optimized_program
        program = Request(PROGRAM, request["program"])
        program["format"], program["format_size"] = self._hlo_format.address, self._hlo_format.size
        if program["code"]:
            ctypes.memmove(program["code"], text, len(text))
        program["code_size"] = len(text)

    @functools.cached_property
    def _hlo_format(self) -> Memory:
        return Memory("hlo_with_config")

    def _cost_analysis(self, request: Request) -> None:
        values, count, _ = self._program(request["executable"]).costs
        request["properties"], request["num_properties"] = values.address, count

    def _memory_stats(self, request: Request) -> None:
        loaded = self._program(request["executable"])
        found, entry = loaded.analyzed.memory_analysis(), loaded.module.entry_computation
        root = entry.root_instruction.shape
        arguments = memory_size([parameter.shape for parameter in entry.parameter_instructions], is_tuple=False)
        results = memory_size(root.tuple_shapes if root.is_tuple else [root], is_tuple=root.is_tuple)
        for field in ("generated_code", "argument", "output", "alias", "temp"):
            request[f"host_{field}_size_in_bytes"] = 0
        request["generated_code_size_in_bytes"] = found.generated_code_size_in_bytes
        request["argument_size_in_bytes"] = arguments
        request["output_size_in_bytes"] = results
        request["alias_size_in_bytes"] = aliased = aliased_bytes(loaded.module)
        request["temp_size_in_bytes"] = found.temp_size_in_bytes
        size = FUNCTIONS["Executable_GetCompiledMemoryStats"].offsets
        total = arguments + results + found.temp_size_in_bytes - aliased
        for field in ("peak_memory_in_bytes", "total_size_in_bytes"):
            if request["struct_size"] > size[field]:
                request[field] = total

    def _compile_options(self, request: Request) -> None:
        self._answer_serialized(request, "compile_options", self._program(request["executable"]).options)

    def _device_assignment(self, request: Request) -> None:
        self._answer_serialized(request, "device_assignment", self._program(request["executable"]).device_assignment)

    def _serialize(self, request: Request) -> None:
        self._answer_serialized(request, "executable", self._program(request["executable"]).serialized)

    def _answer_serialized(self, request: Request, what: str, kept: Memory) -> None:
        """Points to bytes that live as long as their program."""
        request["serialized_bytes"], request["serialized_bytes_size"] = kept.address, kept.size
        request[f"serialized_{what}"] = kept.address
        request[f"serialized_{what}_deleter"] = self._no_deleter

    def _deserialize(self, request: Request) -> None:
        data = request.bytes("serialized_executable", "serialized_executable_size")
        name = "overridden_serialized_compile_options"
        number = next(self._numbers)
        loaded = read_program(self._clients[request["client"]], number, data, request.bytes(name, f"{name}_size"))
        self._programs[number] = loaded
        request["loaded_executable"] = loaded.structs.address

    @functools.cached_property
    def _no_deleter(self) -> int:
        """A C function that does nothing."""
        return self._api.functions["Plugin_Initialize"]

    def _keep(self, memory: Memory) -> Memory:
        self._kept.append(memory)
        return memory


def _text_options(request: Request) -> dict[str, str]:
    """The options that a client is created with, those that are texts."""
    found: dict[str, str] = {}
    for number in range(request["num_options"]):
        option = Request(NAMED_VALUE, request["create_options"] + number * NAMED_VALUE.size)
        if option["type"] == NamedValueType.STRING:
            found[option.bytes("name", "name_size").decode()] = option.bytes("value", "value_size").decode()
    return found


def _answer_request(answer: Answer, layout: StructLayout, request: int) -> int | None:
    return answer(Request(layout, request))


def _named(keep: Callable[[Memory], Memory], name: str, kind: NamedValueType, value: int, size: int) -> bytes:
    text = keep(Memory(name))
    return NAMED_VALUE.pack(
        struct_size=NAMED_VALUE.size, name=text.address, name_size=text.size, type=kind, value=value, value_size=size
    )


@functools.cache
def plugin() -> Plugin:
    """The backend of this process; the first call compiles its native part.

    Arrays in cycles end after all modules: Python never frees it, nor the library that it calls.
    """
    made = Plugin()
    for kept in (made, running_pool()):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    return made
