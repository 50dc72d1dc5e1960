"""How JAX finds xjit's backend: the entry point `jax_plugins`, called in every process that uses JAX.

A package of its own, as it must cost nothing there: xjit is imported when the backend is. The backend is never chosen
unless it is asked for by name: its priority is below that of JAX's own. It has three names: `xjit` is this machine's
CPU, `xjit_cuda` an NVIDIA GPU, `xjit_cuda_sim` one that the host simulates.
"""

from __future__ import annotations

import functools
from typing import Any

_NAMES = ("xjit", "xjit_cuda", "xjit_cuda_sim")
_PRIORITY = -1


def initialize() -> None:
    """Registers the backend with JAX, which calls this when it looks for plugins."""
    from jax._src import xla_bridge
    from jaxlib import xla_client

    cpu = xla_client.xla_platform_names["cpu"]
    queues = xla_client._custom_callback, xla_client._custom_type_id  # pyright: ignore[reportPrivateUsage]
    waiting = [queue.setdefault(cpu, []) for queue in queues]  # XLA's client, if made first, drops them from there

    def create(name: str) -> Any:
        from xjit.jax_backend.registration import create_client

        return create_client(name, *waiting)

    for name in _NAMES:
        factory = functools.partial(create, name)
        xla_bridge.register_backend_factory(name, factory, priority=_PRIORITY, fail_quietly=True)
