"""The backend's client as JAX's object, and what JAX must be told beside PJRT's interface."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterable
from typing import Any, Final

from xjit.jax_backend.platforms import CPU, PLATFORMS
from xjit.jax_backend.plugin import PLATFORM_OPTION
from xjit.runtime.capsules import new_capsule

_CAPSULE_NAME: Final = ctypes.create_string_buffer(b"pjrt_c_api")


def create_client(
    name: str = CPU.name, ffi_targets: Iterable[tuple[Any, ...]] = (), ffi_types: Iterable[tuple[Any, ...]] = ()
) -> Any:
    """The client of one of `PLATFORMS` that JAX asked for: the native part of the backend is compiled with the first.

    `ffi_targets` (name, function, API version, traits) and `ffi_types` (name, type) waited for a CPU client before.
    """
    import jax
    from jax._src import xla_bridge

    from xjit.jax_backend import custom_partitioners

    _hand_over_callbacks()
    _copy_foreign_arrays()
    _take_ffi_targets()
    _keep_ffi_targets(ffi_targets, ffi_types)
    _analyze_lowered()
    _show_programs()
    custom_partitioners.register()
    client = _new_client(name)
    settings: Any = jax.config
    platforms = (settings.jax_platforms or "cpu").split(",")
    if "cpu" not in platforms:  # JAX looks for a CPU by this name: for arguments of callbacks, to begin with
        xla_bridge._backends.setdefault("cpu", _new_client(CPU.name) if PLATFORMS[name].is_gpu else client)
    return client


def _new_client(name: str) -> Any:
    from jaxlib import xla_client

    if not xla_client.pjrt_plugin_loaded(name):
        xla_client.load_pjrt_plugin_with_c_api(name, _capsule())
        xla_client.initialize_pjrt_plugin(name)
    return xla_client.make_c_api_client(name, {PLATFORM_OPTION: name}, None)


def _is_ours(client: Any) -> bool:
    return "xjit" in client.platform_version


@functools.cache
def _hand_over_callbacks() -> None:
    """Has JAX's compiler announce the Python functions of programs that are for this backend.

    JAX hands them to a client beside the program, as objects that only its own native code can call.
    """
    from jax._src import compiler
    from jaxlib.mlir import ir

    from xjit.jax_backend.callbacks import ATTRIBUTE, announce, withdraw

    original = compiler.backend_compile_and_load

    @functools.wraps(original)
    def compile_and_load(backend: Any, module: Any, devices: Any, options: Any, host_callbacks: Any) -> Any:
        if not host_callbacks or not _is_ours(backend):
            return original(backend, module, devices, options, host_callbacks)
        number = announce(tuple(host_callbacks))
        try:
            with module.context:
                mark = ir.DictAttr.get({ATTRIBUTE: ir.StringAttr.get(str(number))})
                module.operation.attributes["mhlo.frontend_attributes"] = mark
            return original(backend, module, devices, options, ())
        finally:
            withdraw(number)

    compiler.backend_compile_and_load = compile_and_load


@functools.cache
def _copy_foreign_arrays() -> None:
    """Has arrays that come by DLPack copied by the backend, where they must be: PJRT's C interface cannot say that."""
    from jaxlib import _jax  # pyright: ignore[reportAttributeAccessIssue]

    from xjit.jax_backend.plugin import plugin

    original = _jax.dlpack_managed_tensor_to_buffer

    @functools.wraps(original)
    def to_buffer(tensor: Any, device: Any, stream: Any, copy: bool | None = None, *more: Any) -> Any:
        if not _is_ours(device.client):
            return original(tensor, device, stream, copy, *more)
        copying = plugin().copying
        copying.is_allowed, copying.is_asked = copy is not False, copy is True
        try:
            return original(tensor, device, stream, False, *more)
        finally:
            copying.is_allowed = copying.is_asked = False

    _jax.dlpack_managed_tensor_to_buffer = to_buffer


def _keep_ffi_targets(targets: Iterable[tuple[Any, ...]], types: Iterable[tuple[Any, ...]]) -> None:
    """Keeps what waited for a CPU client when JAX found this backend: XLA's own client may have taken it since."""
    from xjit.jax_backend.ffi.calls import register, register_state_type

    for name, function, api_version, _ in targets:
        register(name, function, api_version)
    for _, registration in types:
        register_state_type(registration)


@functools.cache
def _take_ffi_targets() -> None:
    """Has functions that users register for CPUs kept here, too: what waits for a CPU client, and what comes later.

    XLA's own client gets all of them besides. What was registered after that was made, and before this, it alone has.
    """
    from jaxlib import xla_client

    from xjit.jax_backend.ffi.calls import register, register_state_type

    native: Any = xla_client._xla  # pyright: ignore[reportPrivateImportUsage]

    def take(name: str, fn: Any, platform: str, /, api_version: int = 0, traits: Any = 0) -> None:
        register(name, fn, api_version)
        native.register_custom_call_target(name, fn, platform, api_version, traits)

    def take_type(name: str, registration: Any) -> None:
        native.register_custom_type(name, registration)
        register_state_type(registration)

    xla_client.register_custom_type_handler("cpu", take_type)
    xla_client._custom_type_id_handler[xla_client.xla_platform_names["cpu"]] = take_type
    xla_client.register_custom_call_handler("cpu", take)
    xla_client._custom_callback_handler[xla_client.xla_platform_names["cpu"]] = take


@functools.cache
def _analyze_lowered() -> None:
    """Has `cost_analysis()` of what is lowered, not compiled, for this backend: JAX asks XLA's clients alone."""
    from jax._src.interpreters import pxla

    from xjit.jax_backend.analyses import cost_properties
    from xjit.text.proto import create_from_proto

    original = pxla.MeshComputation.cost_analysis

    @functools.wraps(original)
    def cost_analysis(self: Any) -> dict[str, float]:
        backend = self.compile_args["backend"]
        if backend is None or not _is_ours(backend):
            return original(self)
        return cost_properties(create_from_proto(self.hlo().as_serialized_hlo_module_proto()))

    pxla.MeshComputation.cost_analysis = cost_analysis


@functools.cache
def _show_programs() -> None:
    """Has `as_text()` of what is compiled say that it shows programs to readers: PJRT has one question for all."""
    from jax._src import stages

    from xjit.jax_backend.plugin import plugin

    original = stages.Executable.as_text

    @functools.wraps(original)
    def as_text(self: Any) -> str:
        showing = plugin().showing
        showing.is_asked = True
        try:
            return original(self)
        finally:
            showing.is_asked = False

    stages.Executable.as_text = as_text


@functools.cache
def _capsule() -> Any:
    from xjit.jax_backend.plugin import plugin

    return new_capsule(ctypes.addressof(plugin().struct), ctypes.addressof(_CAPSULE_NAME), None)
