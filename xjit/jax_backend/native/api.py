"""The native module behind the API struct: what answers by itself, and the stubs that ask Python.

A stub gives Python the request and a cell for the answer, which holds an error already: if Python does not get as far
as to answer (it has no stack left, or is shutting down), that error is the answer, not silence.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Final

from xjit.jax_backend.c_api import (
    API,
    FUNCTIONS,
    LAYOUT_FUNCTIONS,
    LAYOUTS_EXTENSION,
    LAYOUTS_EXTENSION_TYPE,
    MAX_FUNCTIONS,
    SHARDING_FUNCTIONS,
    SHARDINGS_EXTENSION,
    SHARDINGS_EXTENSION_TYPE,
)
from xjit.jax_backend.native.buffers import DELETED_ERROR, NOT_ON_HOST_ERROR, READY_EVENT, define_buffers
from xjit.jax_backend.native.calls import CALL_RUN, RUN_MEMBER, RUN_PROGRAM, STATUS_ERROR, define_calls
from xjit.jax_backend.native.copies import COPY_START, define_copies
from xjit.jax_backend.native.device_data import ALLOCATE_DATA, COPY_DATA, DATA_FREED, define_device_data
from xjit.jax_backend.native.donation import define_donation
from xjit.jax_backend.native.events import EXHAUSTED_ERROR, EXHAUSTED_EVENT, define_errors, define_events
from xjit.jax_backend.native.execute import COUNT_ERROR, IS_ASYNCHRONOUS, define_execute, define_execute_on_one
from xjit.jax_backend.native.getters import define_getters
from xjit.jax_backend.native.groups import OPEN_GROUP, define_groups
from xjit.jax_backend.native.layouts import define_layouts
from xjit.jax_backend.native.preparation import define_preparation
from xjit.jax_backend.native.questions import (
    CALL_PYTHON,
    CALL_TARGET,
    UNANSWERED_ERROR,
    ask_for_error,
    define_questions,
)
from xjit.jax_backend.native.queues import NESTED_KEY, RUN_APART, START_WORKER, define_queues
from xjit.jax_backend.native.sharded_execute import define_sharded_execute
from xjit.jax_backend.native.transfers import FROM_HOST, define_from_host
from xjit.jax_backend.records import EXECUTABLE
from xjit.jax_backend.requests import Memory
from xjit.llvm import Module, Value
from xjit.llvm.function import Function
from xjit.llvm.library import Library
from xjit.llvm.structured_builder import define
from xjit.llvm.types import I32, PTR
from xjit.llvm.values import const_int, zero
from xjit.runtime.machine_code.elf import defined_symbols, undefined_symbols
from xjit.runtime.machine_code.jit import compile_library
from xjit.runtime.machine_code.linker import LoadedObject, load_object
from xjit.runtime.native.call_functions import KEEP_SUBNORMALS, RESTORE_SUBNORMALS
from xjit.runtime.thread_pool import running_pool

REFUSAL_ERROR: Final = "xjit_refusal_error"
"""The same for functions that the backend does not have."""

VARIABLES: Final = (
    READY_EVENT, DELETED_ERROR, COUNT_ERROR, STATUS_ERROR, UNANSWERED_ERROR, REFUSAL_ERROR, START_WORKER, RUN_APART,
    NESTED_KEY, IS_ASYNCHRONOUS, EXHAUSTED_ERROR, EXHAUSTED_EVENT, RUN_MEMBER, OPEN_GROUP,
    CALL_PYTHON, RUN_PROGRAM, ALLOCATE_DATA, COPY_DATA, NOT_ON_HOST_ERROR,
)  # fmt: skip
"""Variables of the module that Python sets."""

_FUNCTIONS_FOR_PYTHON: Final = (
    CALL_TARGET,
    "xjit_buffer_new", "xjit_buffer_hold", "xjit_buffer_unhold", "xjit_event_wait", COPY_START,
    "xjit_queue_work", "xjit_queue_wait", "xjit_job_run", CALL_RUN, DATA_FREED,
)  # fmt: skip

_REFUSE: Final = "xjit_refuse"
_RUNTIME_SYMBOLS: Final = (
    "xjit_scratch_alloc",
    "xjit_scratch_free",
    "xjit_call_entry",
    KEEP_SUBNORMALS,
    RESTORE_SUBNORMALS,
)


class NativeApi:
    """The loaded module. `python_functions` are answered by Python, all others natively or by a refusal."""

    def __init__(self, python_functions: Iterable[str]) -> None:
        names = tuple(python_functions)
        code = compile_library(Library.of("jax_backend", build_module, names))
        native = defined_symbols(code).intersection(FUNCTIONS)
        slots = [_slot(name) for name in names]
        symbols = {name: _address(name) for name in undefined_symbols([code])}
        layouts = [f"Layouts_{name}" for name in LAYOUT_FUNCTIONS]
        exports = [
            *sorted(native), *layouts, *SHARDING_FUNCTIONS, *VARIABLES, *slots, _REFUSE, *_FUNCTIONS_FOR_PYTHON,
        ]  # fmt: skip
        self._loaded: LoadedObject = load_object(code, exports, symbols)
        self.functions = {name: self.address(name if name in native else _REFUSE) for name in FUNCTIONS}
        pointer = ctypes.c_void_p
        self.new_buffer = ctypes.CFUNCTYPE(pointer, *[pointer] * 6)(self.address("xjit_buffer_new"))
        self.hold = ctypes.CFUNCTYPE(ctypes.c_bool, pointer, ctypes.c_int64)(self.address("xjit_buffer_hold"))
        self.unhold = ctypes.CFUNCTYPE(None, pointer, ctypes.c_int64)(self.address("xjit_buffer_unhold"))
        self.wait = ctypes.CFUNCTYPE(None, pointer)(self.address("xjit_event_wait"))
        self.data_freed = ctypes.CFUNCTYPE(pointer, pointer)(self.address(DATA_FREED))
        self.start_copy = ctypes.CFUNCTYPE(None, *[pointer] * 3)(self.address(COPY_START))

    def address(self, name: str) -> int:
        """The address of a function or variable."""
        return self._loaded.address(name)

    def set_variable(self, name: str, value: int) -> None:
        """Sets one of `VARIABLES`."""
        ctypes.c_void_p.from_address(self.address(name)).value = value

    def answer_with(self, name: str, function: int) -> None:
        """Has a Python function, a `void (args, cell)`, answer; 0: nothing does, any more."""
        ctypes.c_void_p.from_address(self.address(_slot(name))).value = function

    def api_struct(self, version: tuple[int, int]) -> ctypes.Array[ctypes.c_char]:
        """The struct of functions, with refusals in all places that are not in use."""
        self._shardings = Memory(self._shardings_extension())
        self._layouts = Memory(self._layouts_extension(self._shardings.address))
        fields = {f"later_{i}": self.address(_REFUSE) for i in range(MAX_FUNCTIONS - len(FUNCTIONS))}
        size = API.offsets["later_0"]  # callers then know that what follows is not part of it
        version_size = API.offsets["minor_version"] + 4 - API.offsets["version_size"]
        packed = API.pack(
            struct_size=size,
            extension_start=self._layouts.address,
            version_size=version_size,
            major_version=version[0],
            minor_version=version[1],
            **self.functions,
            **fields,
        )
        return ctypes.create_string_buffer(packed, len(packed))

    def _shardings_extension(self) -> bytes:
        addresses = {name: self.address(name) for name in SHARDING_FUNCTIONS}
        size = SHARDINGS_EXTENSION.size
        return SHARDINGS_EXTENSION.pack(struct_size=size, type=SHARDINGS_EXTENSION_TYPE, next=0, **addresses)

    def _layouts_extension(self, following: int) -> bytes:
        addresses = {name: self.address(f"Layouts_{name}") for name in LAYOUT_FUNCTIONS}
        size = LAYOUTS_EXTENSION.size
        return LAYOUTS_EXTENSION.pack(struct_size=size, type=LAYOUTS_EXTENSION_TYPE, next=following, **addresses)


def build_module(python_functions: tuple[str, ...]) -> Module:
    """The native module: getters, errors, events, buffers, execution, and a stub per Python function."""
    module = Module("jax_backend")
    define_questions(module)
    define_errors(module)
    define_events(module)
    define_device_data(module)
    define_buffers(module)
    define_calls(module)
    define_donation(module)
    define_preparation(module)
    define_queues(module)
    define_groups(module)
    define_execute(module)
    define_sharded_execute(module)
    define_execute_on_one(module)
    define_copies(module)
    define_getters(module)
    define_layouts(module)
    _define_ends(module)
    module.add_global(REFUSAL_ERROR, PTR, zero(PTR), align=8, linkage="")
    for name in python_functions:
        if name == FROM_HOST:
            define_from_host(module, _define_stub(module, name, f"xjit_ask_{name}"))
        else:
            _define_stub(module, name, name)
    builder = define(module, _REFUSE, [(PTR, "args")], linkage="", return_type=PTR)
    builder.ret(builder.load(PTR, Value(PTR, f"@{REFUSAL_ERROR}"), align=8))
    return module


def _define_ends(module: Module) -> None:
    """Executables only note that they are not needed: Python frees them later, when it may."""
    for name, field in (("LoadedExecutable_Destroy", "is_destroyed"), ("LoadedExecutable_Delete", "is_deleted")):
        builder = define(module, name, [(PTR, "args")], linkage="", return_type=PTR)
        executable = FUNCTIONS[name].load(builder, builder.function.args[0], "executable")
        EXECUTABLE.store(builder, executable, field, const_int(I32, 1))
        builder.ret(zero(PTR))


def _slot(name: str) -> str:
    return f"xjit_python_{name}"


def _define_stub(module: Module, name: str, symbol: str) -> Function:
    """Defines `symbol`, which has Python answer a request for the function `name`."""
    module.add_global(_slot(name), PTR, zero(PTR), align=8, linkage="")
    builder = define(module, symbol, [(PTR, "args")], linkage="", return_type=PTR)
    builder.ret(ask_for_error(builder, _slot(name), [builder.function.args[0]]))
    return builder.function


def _address(name: str) -> int:
    if name in _RUNTIME_SYMBOLS:
        return running_pool().address(name)
    return ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value or 0
