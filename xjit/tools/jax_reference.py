"""Runs HLO text with XLA through jaxlib: the second, foreign oracle (extra [jax])."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xjit.hlo.diagnostics import FailedPrecondition, InvalidArgument


class JaxProgram:
    """HLO text compiled by XLA for "cpu" or "cuda", with its inputs on that device.

    Errors: FailedPrecondition without jax, without such a device, or if XLA refuses the module; InvalidArgument.
    """

    def __init__(self, text: str, inputs: list[Any], platform: str = "cpu") -> None:
        try:
            import jax
            from jax._src import lib
        except ImportError as error:
            raise FailedPrecondition("XLA needs the extra: pip install 'xjit[jax]'") from error
        jax.config.update("jax_enable_x64", True)
        if any(isinstance(value, tuple) for value in inputs):
            raise InvalidArgument("XLA through jax does not take tuple parameters here")
        xla_client: Any = getattr(lib, "xla_client")  # noqa: B009  # the names below are not public
        self._errors = (jax.errors.JaxRuntimeError, ValueError, TypeError)
        try:
            device = jax.devices(platform)[0]
        except RuntimeError as error:
            raise FailedPrecondition(f"jax has no device of the kind '{platform}' here") from error
        try:
            hlo = xla_client.hlo.hlo_module_from_text(text)
            computation = xla_client.XlaComputation(hlo.as_serialized_hlo_module_proto())
            stablehlo = xla_client._xla.mlir.xla_computation_to_mlir_module(computation)
            devices = xla_client.DeviceList((device,))
            self._executable = device.client.compile_and_load(stablehlo, devices, xla_client.CompileOptions())
            self._inputs = [jax.device_put(value, device) for value in inputs]
        except self._errors as error:
            raise FailedPrecondition(f"XLA cannot run this module: {error}") from error

    def call(self) -> None:
        """Runs once, and returns when the results are there."""
        self._finished(lambda output: output.block_until_ready())

    def outputs(self) -> list[np.ndarray[Any, Any]]:
        """Runs once and returns the leaves of the result."""
        return self._finished(np.asarray)

    def _finished(self, finish: Callable[[Any], Any]) -> list[Any]:
        try:  # what fails on the device is told when its results are asked for
            return [finish(output) for output in self._executable.execute(self._inputs)]
        except self._errors as error:
            raise FailedPrecondition(f"XLA cannot run this module: {error}") from error


def run_with_jax(text: str, inputs: list[Any]) -> Any:
    """Returns XLA:CPU's outputs as a tuple of arrays. Errors: FailedPrecondition without jax; InvalidArgument."""
    return tuple(JaxProgram(text, inputs).outputs())
