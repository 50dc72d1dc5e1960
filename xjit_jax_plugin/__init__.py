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

    xla_bridge.register_backend_factory(_NAME, _create_client, priority=_PRIORITY, fail_quietly=True)


def _create_client() -> Any:
    from xjit.jax_backend.registration import create_client

    return create_client()
