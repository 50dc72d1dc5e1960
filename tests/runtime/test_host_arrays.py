"""Arrays of other libraries in and out: which memory is shared, which types, and `out=`."""

from __future__ import annotations

import ctypes
import gc
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import xjit
from xjit.runtime.arrays.host_arrays import DlpackArray, from_dlpack, read_array

SUM = xjit.compile("ENTRY e { x = f32[4,8] parameter(0) y = f32[4,8] parameter(1) ROOT r = f32[4,8] add(x, y) }")
PAIR = xjit.compile(
    """
ENTRY e {
  x = f32[4,8]{0,1} parameter(0)
  n = f32[4,8]{0,1} negate(x)
  p = pred[4,8]{1,0} compare(x, n), direction=GT
  e = () tuple()
  ROOT r = (f32[4,8]{0,1}, (pred[4,8]{1,0}, ())) tuple(n, t)
}
""".replace("  ROOT", "  t = (pred[4,8]{1,0}, ()) tuple(p, e)\n  ROOT")
)
X, Y = np.arange(32, dtype=np.float32).reshape(4, 8), np.ones((4, 8), np.float32)

SEEN: list[int] = []


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
def _see(result: int, operands: Any) -> None:
    """A custom call that notes the address of its operand, and returns zero."""
    SEEN.append(operands[0])
    ctypes.c_float.from_address(result).value = 0


def address_seen(value: Any, kind: str) -> int:
    """The address that a program has for an argument of four elements."""
    xjit.register_custom_call_target("test_see_address", _see)
    exe = xjit.compile(
        f'ENTRY e {{ x = {kind}[4] parameter(0) ROOT r = f32[] custom-call(x), custom_call_target="test_see_address" }}'
    )
    exe(value)
    return SEEN[-1]


class OnlyDlpack:
    """An array that offers DLPack and nothing else."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)


@pytest.mark.parametrize(
    "kind,dtype", [("f32", jnp.float32), ("bf16", jnp.bfloat16), ("f8e4m3fn", jnp.float8_e4m3fn), ("s32", jnp.int32)]
)
def test_arrays_of_jax_are_read_where_they_are(kind: str, dtype: Any) -> None:
    x = jnp.arange(4).astype(dtype)
    assert address_seen(x, kind) == x.unsafe_buffer_pointer()
    assert address_seen(OnlyDlpack(x), kind) == x.unsafe_buffer_pointer()


def test_small_integers() -> None:
    exe = xjit.compile("ENTRY e { x = s4[4] parameter(0) ROOT r = s4[4] negate(x) }")
    result = exe(jnp.arange(4, dtype=jnp.int4))
    assert result.dtype == ml_dtypes.int4
    assert list(result.astype(int)) == [0, -1, -2, -3]
    with pytest.raises(xjit.InvalidArgument, match="DLPack has no int4"):
        DlpackArray(result).__dlpack__()


def test_results_are_read_by_jax_where_they_are() -> None:
    # JAX takes what is aligned to 64 bytes: arrays of the pool, from 1 KiB on.
    for kind in (np.float32, ml_dtypes.bfloat16):
        name = {4: "f32", 2: "bf16"}[np.dtype(kind).itemsize]
        exe = xjit.compile(f"ENTRY e {{ x = {name}[1024] parameter(0) ROOT r = {name}[1024] negate(x) }}")
        result = exe(np.ones(1024, kind))
        shared = jax.dlpack.from_dlpack(DlpackArray(result))
        assert (shared.dtype, shared.unsafe_buffer_pointer()) == (kind, result.ctypes.data)
    result = SUM(X, Y)
    assert memoryview(result).contiguous and memoryview(result).format == "f"


@pytest.mark.parametrize(
    "dtype",
    [
        bool,
        np.int8,
        np.uint16,
        np.float16,
        np.float64,
        np.complex64,
        np.complex128,
        ml_dtypes.bfloat16,
        ml_dtypes.float8_e5m2,
    ],
)
def test_dlpack_there_and_back(dtype: Any) -> None:
    array = np.arange(24).reshape(2, 3, 4).astype(dtype)
    for view in (array, array.transpose(2, 0, 1), array[::-1, :, ::2], array[0, 0, 0, ...], array[:, :0]):
        found = from_dlpack(DlpackArray(view))
        assert (found.dtype, found.shape) == (view.dtype, view.shape)
        assert found.tobytes() == view.tobytes()
        assert not view.size or np.shares_memory(found, view)


def test_memory_lives_as_long_as_it_is_used() -> None:
    array = np.arange(1000.0)
    dead = weakref.ref(array, lambda _: gone.append(True))
    gone: list[bool] = []
    found = from_dlpack(DlpackArray(array))
    part = found[10:]
    del array, found
    gc.collect()
    assert not gone and part[0] == 10
    del part
    gc.collect()
    assert gone and dead() is None


def test_arrays_of_torch() -> None:
    torch: Any = pytest.importorskip("torch")
    x = torch.arange(4, dtype=torch.float32)
    assert address_seen(x, "f32") == x.data_ptr()
    half = torch.arange(4, dtype=torch.bfloat16)
    assert address_seen(half, "bf16") == half.data_ptr()
    assert torch.from_dlpack(SUM(X, Y)).sum() == (X + Y).sum()
    with pytest.raises(xjit.InvalidArgument, match="grad"):
        SUM(torch.ones(4, 8, requires_grad=True), Y)


class NoNumpy:
    """Like a bfloat16 array of PyTorch: `__array__` fails, DLPack works."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("no NumPy form")

    def __dlpack__(self, **_: Any) -> Any:
        return DlpackArray(np.ones(4, ml_dtypes.bfloat16)).__dlpack__()


def test_dlpack_where_numpy_has_no_form() -> None:
    assert read_array(NoNumpy()).dtype == ml_dtypes.bfloat16
    with pytest.raises(xjit.InvalidArgument, match=r"parameter 0 'x'.*which NumPy cannot read: no"):
        SUM(type("Refusing", (), {"__array__": lambda *_, **__: (_ for _ in ()).throw(TypeError("no"))})(), Y)


def test_out_is_written_where_it_lies() -> None:
    out = np.empty((4, 8), np.float32)
    assert SUM(X, Y, out=out) is out
    np.testing.assert_array_equal(out, X + Y)
    results = (np.empty((4, 8), np.float32, order="F"), (np.empty((4, 8), bool), ()))
    n, (p, empty) = PAIR(X, out=results)
    assert n is results[0] and p is results[1][0] and empty == ()
    np.testing.assert_array_equal(n, -X)
    np.testing.assert_array_equal(p, X > -X)


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.empty((8, 4), np.float32).T,
        lambda: np.empty((8, 16), np.float32)[::2, ::2],
        lambda: np.empty(33, np.float32)[1:].reshape(4, 8),
        lambda: np.empty((4, 8), np.float32)[::-1],
    ],
)
def test_out_of_any_strides(make: Any) -> None:
    out = make()
    assert SUM(X, Y, out=out) is out
    np.testing.assert_array_equal(out, X + Y)
    np.testing.assert_array_equal(PAIR(X, out=(out, (np.empty((4, 8), bool), ())))[0], -X)
    np.testing.assert_array_equal(out, -X)


def test_out_may_be_an_argument() -> None:
    reverse = xjit.compile("ENTRY e { x = f32[64] parameter(0) ROOT r = f32[64] reverse(x), dimensions={0} }")
    block = np.arange(80, dtype=np.float32)
    expected = block[:64][::-1].copy()
    reverse(block[:64], out=block[16:])
    np.testing.assert_array_equal(block[16:], expected)


@pytest.mark.parametrize(
    "out,message",
    [
        (np.empty((4, 8)), r"out: result 0 is f32\[4,8\], got float64 \(4, 8\)"),
        (np.empty((8, 4), np.float32), r"got float32 \(8, 4\)"),
        ([1], "is written to a NumPy array, got list"),
        (np.broadcast_to(np.float32(0), (4, 8)), "read-only"),
        (jnp.zeros((4, 8)), "is written to a NumPy array"),
    ],
)
def test_what_cannot_be_written(out: Any, message: str) -> None:
    with pytest.raises(xjit.InvalidArgument, match=message):
        SUM(X, Y, out=out)


def test_wrong_structures_and_keywords() -> None:
    buffer, flags = np.empty((4, 8), np.float32), np.empty((4, 8), bool)
    for out in (buffer, (buffer,), (buffer, flags), (buffer, (flags,)), (buffer, (flags, (), ()))):
        with pytest.raises(xjit.InvalidArgument, match="nested as the results are"):
            PAIR(X, out=out)
    twice = xjit.compile(
        "ENTRY e { x = f32[4] parameter(0) n = f32[4] negate(x) ROOT r = (f32[4], f32[4]) tuple(n, x) }"
    )
    block = np.empty(6, np.float32)
    with pytest.raises(xjit.InvalidArgument, match="results 0 and 1 share memory"):
        twice(block[:4], out=(block[:4], block[2:]))
    halves = np.empty((4, 2), np.float32)
    twice(np.arange(4, dtype=np.float32), out=(halves[:, 0], halves[:, 1]))
    np.testing.assert_array_equal(halves, [[0, 0], [-1, 1], [-2, 2], [-3, 3]])
    with pytest.raises(xjit.InvalidArgument, match="out does not go together with donate"):
        SUM(X, Y, out=buffer, donate=[0])


def test_out_on_the_ctypes_path_and_the_simulator() -> None:
    from xjit.runtime.executable import CpuExecutable

    out = np.empty((4, 8), np.float32)
    assert CpuExecutable(SUM.program, fast=False)(X, Y, out=out) is out
    np.testing.assert_array_equal(out, X + Y)
    simulated = xjit.compile(SUM.as_text("hlo"), target="cuda-sim")
    out[:] = 0
    assert simulated(X, Y, out=out) is out
    np.testing.assert_array_equal(out, X + Y)
