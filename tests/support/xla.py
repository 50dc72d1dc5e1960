"""XLA:CPU as an oracle for tests: `run` compiles HLO text with jaxlib and executes it. Tests skip without jaxlib."""

from __future__ import annotations

import functools
import os
from typing import Any

import numpy as np
import pytest


@functools.cache
def _client() -> tuple[Any, Any, Any]:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    jax = pytest.importorskip("jax")
    from jax._src.lib import xla_client

    return jax, xla_client, jax.devices("cpu")[0]


@functools.lru_cache(maxsize=64)
def _compile(text: str) -> Any:
    _, xla_client, device = _client()
    module = xla_client.hlo.hlo_module_from_text(text)
    computation = xla_client.XlaComputation(module.as_serialized_hlo_module_proto())
    program = xla_client._xla.mlir.xla_computation_to_mlir_module(computation)
    devices = xla_client.DeviceList((device,))
    return device.client.compile_and_load(program, devices, xla_client.CompileOptions())


def cost_analysis(text: str) -> dict[str, float]:
    """Returns what XLA counts for an HLO module as it is: flops, transcendentals, bytes accessed, ..."""
    _, xla_client, device = _client()
    module = xla_client.hlo.hlo_module_from_text(text)
    return dict(xla_client._xla.hlo_module_cost_analysis(device.client, module))


def parse(text: str) -> str:
    """Returns what XLA's parser makes of a text, as XLA prints it. Raises what it raises."""
    _, xla_client, _ = _client()
    return xla_client.hlo.hlo_module_from_text(text).to_string()


def run(text: str, *inputs: Any) -> list[np.ndarray]:
    """Returns the results of an HLO module (the leaves of its result tuple) on XLA:CPU."""
    jax, _, device = _client()
    executable = _compile(text)
    with jax.enable_x64(True):
        return [np.asarray(x) for x in executable.execute([jax.device_put(np.asarray(a), device) for a in inputs])]
