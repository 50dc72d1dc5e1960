"""The runtime for GPUs on a driver of its own: memory, order on streams, control flow, graphs, arrays of others.

Nothing here runs on a GPU: `FakeDriver` simulates kernels, and notes what it is asked for.
"""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.support.fake_cuda import FakeDriver
from tests.support.gpu_kernels import kernel, kernel_of
from xjit.hlo.diagnostics import ExecutionError, FailedPrecondition, InvalidArgument
from xjit.hlo.types.shape import Shape
from xjit.runtime.arrays.dlpack import CPU, export_capsule, import_array
from xjit.runtime.arrays.physical_layout import array_signature
from xjit.runtime.cuda import CudaExecutable, DeviceArray
from xjit.runtime.cuda.bindings_driver import cuda_driver
from xjit.runtime.gpu_program import GpuModule
from xjit.thunks import (
    BufferSlice,
    CopyThunk,
    GpuKernel,
    GpuProgram,
    KernelThunk,
    ShapedSlice,
    Thunk,
    ThunkProgram,
    ThunkSequence,
    WhileThunk,
)
from xjit.thunks.result_alias import ResultAlias

N = 100
ARRAY, NUMBER, FLAG = Shape.array("f32", (N,)), Shape.array("s32"), Shape.array("pred")
COUNT = """
define ptx_kernel void @count(ptr addrspace(1) %n, ptr addrspace(1) %m) {
  %v = load i32, ptr addrspace(1) %n, align 4
  %w = sub i32 %v, 1
  store i32 %w, ptr addrspace(1) %m, align 4
  ret void
}
"""
POSITIVE = """
define ptx_kernel void @positive(ptr addrspace(1) %n, ptr addrspace(1) %p) {
  %v = load i32, ptr addrspace(1) %n, align 4
  %c = icmp sgt i32 %v, 0
  %b = zext i1 %c to i8
  store i8 %b, ptr addrspace(1) %p, align 1
  ret void
}
"""


def call(number: int, name: str, operands: list[ShapedSlice], results: list[ShapedSlice]) -> KernelThunk:
    """A kernel call."""
    return KernelThunk(
        instruction=f"{name}.{number}", number=number, kernel=name, kind="loop", operands=tuple(operands),
        results=tuple(results), units=1, tasks=1, cost_ns=0.0, bytes_accessed=0, flops=0, can_fail=False,
    )  # fmt: skip


def place(kind: Any, index: int = 0, offset: int = 0, shape: Shape = ARRAY, size: int = 4 * N) -> ShapedSlice:
    """An array in a slice."""
    return ShapedSlice(shape, BufferSlice(kind, index, offset, size))


def module(sequences: dict[str, list[Thunk]], kernels: list[GpuKernel], parameters: list[Shape], results: list[Shape],
           **others: Any) -> GpuModule:  # fmt: skip
    """A module whose entry is the sequence "entry"."""
    table = {name: ThunkSequence(name, tuple(thunks)) for name, thunks in sequences.items()}
    signatures = [tuple(array_signature(s, f"{n}{i}") for i, s in enumerate(shapes))
                  for n, shapes in (("p", parameters), ("r", results))]  # fmt: skip
    tree = tuple(range(len(results))) if len(results) > 1 else 0
    program = GpuProgram(ThunkProgram("m", "entry", table), {k.name: k for k in kernels})
    return GpuModule("m", "sm_90", program, signatures[0], tuple(range(len(parameters))), signatures[1], tree, **others)


def loaded(what: GpuModule, **options: Any) -> tuple[CudaExecutable, FakeDriver]:
    """The module on a driver of its own."""
    driver = FakeDriver(what.program.kernels, **options)
    return CudaExecutable(what, {name: name.encode() for name in what.program.kernels}, driver), driver


def sums(**others: Any) -> GpuModule:
    """x + y + constant, by way of temporary memory."""
    temporary = place("arena", offset=256)
    thunks: list[Thunk] = [
        call(0, "add", [place("parameter", 0), place("parameter", 1)], [temporary]),
        call(1, "add", [temporary, place("constant")], [place("result")]),
    ]
    constants = (np.full(N, 10, np.float32),)
    return module({"entry": thunks}, [kernel("add", 1, 128, N)], [ARRAY, ARRAY], [ARRAY], arena_size=256 + 4 * N,
                  constants=constants, **others)  # fmt: skip


def countdown() -> GpuModule:
    """A loop: as long as n > 0, n -= 1 and x += y; returns x and n."""
    n, flag = place("result", 1, 0, NUMBER, 4), place("arena", 0, 0, FLAG, 1)
    x = place("result", 0)
    entry: list[Thunk] = [
        CopyThunk(instruction="copy.1", source=place("parameter", 0).slice, destination=x.slice),
        CopyThunk(instruction="copy.2", source=place("parameter", 2, 0, NUMBER, 4).slice, destination=n.slice),
        WhileThunk(instruction="while.1", condition="condition", predicate=flag.slice, body="body"),
    ]
    body: list[Thunk] = [call(1, "count", [n], [n]), call(2, "add", [x, place("parameter", 1)], [x])]
    kernels = [kernel("add", 1, 128, N), kernel_of(COUNT, "count", 1, 1), kernel_of(POSITIVE, "positive", 1, 1)]
    sequences = {"condition": [call(0, "positive", [n], [flag])], "body": body, "entry": entry}
    return module(sequences, kernels, [ARRAY, ARRAY, NUMBER], [ARRAY, NUMBER], arena_size=64)


def numbers(seed: int) -> np.ndarray:
    """Some f32."""
    return np.random.default_rng(seed).random(N, np.float32)


def copy_in(driver: FakeDriver, value: np.ndarray) -> SimpleNamespace:
    """Another library's array on the device."""
    address = driver.allocate(value.nbytes, 0)
    driver.copy_to_device(address, value.ctypes.data, value.nbytes, 0)
    interface = {"version": 3, "shape": value.shape, "typestr": value.dtype.str, "data": (address, False)}
    return SimpleNamespace(__cuda_array_interface__=interface, address=address)


def test_numpy_in_numpy_out() -> None:
    executable, driver = loaded(sums())
    x, y = numbers(0), numbers(1)
    for _ in range(2):
        result = executable(x, y)
        assert isinstance(result, np.ndarray) and (result == x + y + 10).all()
    assert [entry[1] for entry in driver.log if entry[0] == "launch"] == ["add"] * 4
    gc.collect()
    assert driver.live_memory == 1, "the constant"
    assert not driver.events


def test_device_in_device_out() -> None:
    """Nothing is copied to or from the host; the result knows when it is ready, and others can read it."""
    executable, driver = loaded(sums())
    x, y = numbers(0), numbers(1)
    given = copy_in(driver, x), copy_in(driver, y)
    driver.log.clear()
    result = executable(*given, stream=77)
    assert isinstance(result, DeviceArray) and result.is_ready()
    assert {entry[0] for entry in driver.log} <= {"current", "allocate", "launch", "record", "free"}
    assert {entry[-1] for entry in driver.log if entry[0] in ("allocate", "launch", "record")} == {77}
    assert (result.block_until_ready().copy_to_host() == x + y + 10).all()
    interface = result.__cuda_array_interface__
    assert interface["shape"] == (N,) and interface["typestr"] == "<f4" and interface["stream"] == 77
    again = executable(result, given[1], stream=78)
    assert ("wait", 78) in driver.log and ("wait", 77) in driver.log, "78 waits for values, 77 before memory is reused"
    assert (np.asarray(again) == (x + y + 10) + y + 10).all()


def test_loop() -> None:
    """The host reads the predicate between launches, and only there."""
    executable, driver = loaded(countdown())
    x, y = numbers(0), numbers(1)
    assert not executable.is_static
    for n in (0, 3):
        driver.log.clear()
        result, left = executable(x, y, np.int32(n))
        expected = x.copy()
        for _ in range(n):
            expected += y
        assert left == 0 and (result == expected).all()
        assert sum(entry[:2] == ("to_host", 1) for entry in driver.log) == n + 1
    with pytest.raises(FailedPrecondition, match="loops, branches or steps of the host"):
        executable.capture(x, y, np.int32(1))


def test_graph() -> None:
    executable, driver = loaded(sums())
    given = copy_in(driver, numbers(0)), copy_in(driver, numbers(1))
    graph = executable.capture(*given)
    launches = sum(entry[0] == "launch" for entry in driver.log)
    assert (graph().copy_to_host() == numbers(0) + numbers(1) + 10).all()
    fresh = numbers(2)
    driver.copy_to_device(given[0].address, fresh.ctypes.data, fresh.nbytes, 0)
    result = graph(stream=5)
    assert ("graph", 5) in driver.log and (result.copy_to_host() == fresh + numbers(1) + 10).all()
    assert sum(entry[0] == "launch" for entry in driver.log) == launches, "a graph launches nothing by itself"
    with pytest.raises(FailedPrecondition, match="must be arrays on the device"):
        executable.capture(numbers(0), given[1])


def test_copies_and_kernels_that_have_nothing_to_do() -> None:
    """Where operand and result are one buffer, a copy is left out if the program says so."""
    copies: list[Thunk] = [
        CopyThunk(
            instruction="c", source=place("parameter").slice, destination=place("parameter").slice, may_be_one=True
        ),
        CopyThunk(instruction="d", source=place("parameter").slice, destination=place("result").slice, may_be_one=True),
    ]
    executable, driver = loaded(module({"entry": copies}, [], [ARRAY], [ARRAY]))
    assert (executable(numbers(0)) == numbers(0)).all()
    assert [entry[0] for entry in driver.log].count("copy") == 1


def test_failed_launch_names_the_instruction() -> None:
    executable, driver = loaded(sums())
    driver.fail_launch = 1
    with pytest.raises(ExecutionError, match=r"launching 'add\.1' failed with CUDA's status 719"):
        executable(numbers(0), numbers(1))
    driver.fail_launch = -1
    assert (executable(numbers(0), numbers(1)) == numbers(0) + numbers(1) + 10).all()


def test_arguments_that_do_not_fit() -> None:
    executable, driver = loaded(sums())
    short = copy_in(driver, numbers(0)[:50])
    with pytest.raises(InvalidArgument, match=r"parameter 1 'p1': expected f32\[100\].*got float32\[50\]"):
        executable(numbers(0), short)
    strided = copy_in(driver, np.zeros(2 * N, np.float32))
    strided.__cuda_array_interface__.update(shape=(N,), strides=(8,))
    with pytest.raises(InvalidArgument, match=r"with strides \(4,\), got .* with strides \(8,\)"):
        executable(strided, numbers(0))
    with pytest.raises(InvalidArgument, match="expected f32"):
        executable(numbers(0).astype(np.float64), numbers(0))
    with pytest.raises(InvalidArgument, match="expected a CUDA stream, got str"):
        executable(numbers(0), numbers(0), stream="s")
    must, _ = loaded(sums(aliases=(ResultAlias(0, 0, 4 * N, must=True),)))
    with pytest.raises(FailedPrecondition, match="parameter 0 must be donated"):
        must(numbers(0), numbers(1))


@pytest.mark.parametrize("stream", [
    SimpleNamespace(handle=9),
    SimpleNamespace(handle=SimpleNamespace(value=9)),
    SimpleNamespace(__cuda_stream__=lambda: (0, 9)),
    SimpleNamespace(cuda_stream=9),
    9,
])  # fmt: skip
def test_streams_of_others(stream: Any) -> None:
    executable, driver = loaded(sums())
    executable(numbers(0), numbers(1), stream=stream)
    assert {entry[2] for entry in driver.log if entry[0] == "launch"} == {9}


@pytest.mark.parametrize("dtype", ["f4", "i1", "u2", "c8", "?", "f8", ml_dtypes.bfloat16])
def test_dlpack(dtype: Any) -> None:
    """What is exported can be imported, and NumPy reads the same structure."""
    values = np.arange(24).reshape(2, 3, 4).astype(dtype).transpose(2, 0, 1)
    array = SimpleNamespace(address=values.ctypes.data, shape=values.shape, dtype=values.dtype, strides=values.strides)

    class Exporter:
        def __dlpack__(self, **_: Any) -> object:
            return export_capsule(array, CPU)

        def __dlpack_device__(self) -> tuple[int, int]:
            return (CPU, 0)

    found = import_array(Exporter(), 0, CPU)
    assert (found.address, found.shape, found.dtype, found.strides) == (
        array.address, array.shape, array.dtype, array.strides
    )  # fmt: skip
    if values.dtype.kind != "V":
        assert (np.from_dlpack(Exporter()) == values).all()
        mine = import_array(values, 0, CPU)
        assert (mine.address, mine.shape, mine.dtype) == (array.address, array.shape, array.dtype)
    with pytest.raises(InvalidArgument, match="on a device of DLPack's kind 1"):
        import_array(Exporter(), 0)


def test_arrays_by_dlpack() -> None:
    executable, driver = loaded(sums())
    first = executable(copy_in(driver, numbers(0)), copy_in(driver, numbers(1)), stream=3)
    other = SimpleNamespace(__dlpack__=first.__dlpack__, __dlpack_device__=first.__dlpack_device__)
    result = executable(other, numbers(1), stream=4)
    assert isinstance(result, DeviceArray)
    assert (result.copy_to_host() == (numbers(0) + numbers(1) + 10) + numbers(1) + 10).all()
    assert ("wait", 4) in driver.log


def test_without_packages_or_driver() -> None:
    """One clear error, in an environment that has no CUDA."""
    try:
        import cuda.bindings.driver  # pyright: ignore  # noqa: F401
    except ImportError:
        message = r"needs NVIDIA's Python packages: pip install 'xjit\[cuda\]'"
    else:
        pytest.skip("CUDA's packages are here")
    with pytest.raises(FailedPrecondition, match=message):
        cuda_driver()
