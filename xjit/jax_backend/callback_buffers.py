"""What functions of `jax.experimental.buffer_callback` get: memory of the program, to read or to write in place."""

from __future__ import annotations

from typing import Any

import numpy as np

_Array = np.ndarray[Any, np.dtype[Any]]


class CallbackContext:
    """The call that a function is part of. `stage`: which one of XLA's; there is but one here."""

    @property
    def stage(self) -> Any:
        """`ExecutionStage.EXECUTE`."""
        from jax.experimental.buffer_callback import ExecutionStage

        return ExecutionStage.EXECUTE


class Buffer:
    """An array in the program's memory. It is valid during the call only."""

    __slots__ = ("_array", "writeable")

    def __init__(self, array: _Array, *, writeable: bool) -> None:
        self._array = array
        self.writeable = writeable

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of its dimensions."""
        return self._array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its elements."""
        return self._array.dtype

    @property
    def ndim(self) -> int:
        """The number of its dimensions."""
        return self._array.ndim

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> _Array:
        view = self._array.view()
        view.flags.writeable = self.writeable
        return np.array(view, dtype=dtype, copy=copy) if dtype is not None or copy else view

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[Any, int]:
        return self._array.__dlpack_device__()
