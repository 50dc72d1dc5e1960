"""The memory of devices, as Python asks for it."""

import pytest

from xjit.hlo.diagnostics import ExecutionError
from xjit.jax_backend.device_memory import DeviceMemories


class _Counted(DeviceMemories):
    def __init__(self) -> None:
        super().__init__()
        self.held: set[int] = set()

    def allocate(self, device: int, num_bytes: int) -> int:
        data = super().allocate(device, num_bytes)
        self.held.add(data)
        return data

    def free(self, device: int, data: int) -> None:
        self.held.remove(data)
        super().free(device, data)


def test_a_failed_copy_leaves_no_memory() -> None:
    memories = _Counted()
    with memories.allocated(0, 64) as kept:
        pass
    with pytest.raises(ExecutionError), memories.allocated(0, 64):
        raise ExecutionError("the copy to the device failed")
    assert memories.held == {kept}
    memories.free(0, kept)
