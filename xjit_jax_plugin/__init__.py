"""How JAX finds xjit's backend: the entry point `jax_plugins`, called in every process that uses JAX.

A package of its own, as it must cost nothing there: xjit is imported when the backend is. The backend is never chosen
unless it is asked for by name: its priority is below that of JAX's own.
"""

from __future__ import annotations

from typing import Any

_NAME = "xjit"
_PRIORITY = -1


def initialize() -> None:
    """Registers the backend with JAX, which calls this when it looks for plugins."""
    from jax._src import xla_bridge
    from jaxlib import xla_client

    cpu = xla_client.xla_platform_names["cpu"]
    queues = xla_client._custom_callback, xla_client._custom_type_id  # pyright: ignore[reportPrivateUsage]
    waiting = [queue.setdefault(cpu, []) for queue in queues]  # XLA's client, if made first, drops them from there

    def create() -> Any:
        from xjit.jax_backend.registration import create_client

        return create_client(*waiting)

    xla_bridge.register_backend_factory(_NAME, create, priority=_PRIORITY, fail_quietly=True)
