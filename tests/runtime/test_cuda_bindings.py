"""NVIDIA's own Python bindings on a libcuda of ours: do they take what `BindingsDriver` gives them?

In a process of its own, as the library is found by its name. Needs a C compiler and the extra `cuda`.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """
import atexit, ctypes, gc
import numpy as np
import pytest
from tests.runtime import test_cuda as program
from tests.support.fake_cuda import FakeDriver
from xjit.hlo.diagnostics import ExecutionError, FailedPrecondition
from xjit.runtime.cuda import CudaExecutable, cuda_device_count, cuda_driver, profile_kernels
from xjit.runtime.gpu_sim import MemoryRange

library = ctypes.CDLL("libcuda.so.1")
library.fake_live_blocks.restype = library.fake_live_events.restype = ctypes.c_int64
what = program.sums()
fake = FakeDriver(what.program.kernels)
fake._around = lambda address: MemoryRange(address, 4 * program.N)
assert cuda_device_count() == 1
driver = cuda_driver()
assert driver.architecture == "sm_90", driver.architecture
assert driver.free_bytes() == (1 << 20) + 3072, driver.free_bytes()  # what the pool keeps is free, too
images = {name: f"image {name}".encode() + bytes(1) for name in what.program.kernels}
library.fake_set_launch(fake._launch)
executable = CudaExecutable(what, images, driver)
for step in executable._tables._functions.values():
    fake._functions[step] = what.program.kernels["add"]
x, y = program.numbers(0), program.numbers(1)
assert (executable(x, y) == x + y + 10).all()
given = program.copy_in(driver, x), program.copy_in(driver, y)
result = executable(*given, stream=1)
assert result.is_ready() and (result.block_until_ready().copy_to_host() == x + y + 10).all()
graph = executable.capture(*given)
graph()
timed = profile_kernels(executable, *given)
assert [seconds for _, seconds in timed] == [2e-3] * len(timed) and timed
del result, graph
with pytest.raises(ExecutionError, match="cuLibraryLoadData failed: CUDA_ERROR_INVALID_IMAGE"):
    CudaExecutable(what, dict.fromkeys(images, b"nothing"), driver)
with pytest.raises(FailedPrecondition, match="device 1: cuDeviceGet failed: CUDA_ERROR_INVALID_DEVICE"):
    cuda_driver(1)
gc.collect()
assert library.fake_live_events() == 0, library.fake_live_events()
assert library.fake_live_blocks() == 3, library.fake_live_blocks()  # the constant, and two that the test made
result = executable(*given, stream=1).block_until_ready()
before = library.fake_live_blocks()
atexit._run_exitfuncs()
del result
gc.collect()
assert library.fake_live_blocks() == before > 3, before  # at the end of the process nothing is freed
print("done")
"""


def has_bindings() -> bool:
    """Whether NVIDIA's package is installed."""
    return importlib.util.find_spec("cuda") is not None and importlib.util.find_spec("cuda.bindings") is not None


@pytest.mark.skipif(not has_bindings(), reason="needs the package cuda-bindings")
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_bindings_take_our_arguments(tmp_path: Path) -> None:
    source = ROOT / "tests" / "support" / "fake_libcuda.c"
    command = ["cc", "-shared", "-fPIC", "-w", "-o", str(tmp_path / "libcuda.so.1"), str(source)]
    subprocess.run(command, check=True)
    environment = os.environ | {"LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, cwd=ROOT, capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("done\n", "")
