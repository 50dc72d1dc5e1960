"""The backend on GPUs: one that the host simulates, and one with memory of its own that the host cannot touch."""

from __future__ import annotations

from tests.jax_backend.process import run
from xjit.jax_backend.platforms import PLATFORMS
from xjit_jax_plugin import _NAMES  # pyright: ignore[reportPrivateUsage]

GUARDED = "from tests.support.guarded_cuda import install\ndriver = install()\n"
"""To be run before JAX asks for its backends."""

ARRAYS = """
(device,) = jax.devices()
assert (device.platform, jax.default_backend()) == ("cpu", "cpu") and device.device_kind == KIND
assert jax.devices("cpu") != [device] and jax.devices("cpu")[0].device_kind == "cpu"
for array in (
    np.asfortranarray(np.arange(6.0, dtype=np.float32).reshape(2, 3)), np.arange(6, dtype=np.int32)[::-2],
    np.zeros((0, 3), np.float32), np.float32(3), np.arange(12, dtype=np.uint8).reshape(3, 4)[:, 1:3],
    np.arange(4, dtype=jnp.bfloat16), np.arange(3, dtype=jnp.int4), np.ones(2, np.complex64),
):
    back = np.asarray(jax.device_put(array))
    assert back.dtype == array.dtype and back.shape == array.shape and (back == array).all(), array
there = jax.device_put(x, jax.devices("cpu")[0])
assert (np.asarray(there) == np.asarray(x)).all() and there.devices() == set(jax.devices("cpu"))
assert (np.asarray(jax.device_put(there, device) + jnp.copy(x)) == 2 * np.asarray(x)).all()
y = x.T + 1
assert np.asarray(y)[3, 2] == 12 and y.devices() == {device}
y.delete()
raises(RuntimeError, "deleted", lambda: y + 1)
"""

CALLS = """
step = jax.jit(lambda a: a + 1, donate_argnums=0)
y = x + 0
given = y.unsafe_buffer_pointer()
z = step(y)
assert y.is_deleted() and float(z[2, 3]) == 12 and z.unsafe_buffer_pointer() == given
total = jax.jit(lambda a, b: (a + 1, (a * b).sum()), donate_argnums=0)(x + 0, x)[1]
assert float(total) == 506
power = lambda p: jax.lax.fori_loop(0, 5, lambda i, c: c * p, 1.0)
assert float(jax.jit(power)(2.0)) == 32
asked = jax.jit(lambda a: jax.pure_callback(lambda v: np.asarray(v) * 2, a, a) + 1)(x)
assert float(asked[2, 3]) == 23
compiled = jax.jit(lambda a: a @ a.T).lower(x).compile()
assert compiled.cost_analysis()["flops"] >= 72 and compiled.memory_analysis().output_size_in_bytes == 36
assert "HloModule" in compiled.as_text()
def fail(v):
    raise ValueError("not today")
raises(jax.errors.JaxRuntimeError, "not today", lambda: jax.block_until_ready(
    jax.jit(lambda a: jax.pure_callback(fail, a, a))(x)))
"""


def test_names() -> None:
    assert tuple(PLATFORMS) == _NAMES


def test_simulated_gpu() -> None:
    run("KIND = 'cuda-sim'" + ARRAYS + CALLS, "xjit_cuda_sim")


SEVERAL = """
first, second = jax.devices()
moved = jax.device_put(x, second)
assert jax.jit(lambda a: a + 1)(moved).devices() == {second}
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh([first, second], "x")
split = jax.device_put(jnp.arange(4.0), NamedSharding(mesh, P("x")))
total = jax.jit(lambda a: a - a.sum())(split)
assert (np.asarray(total) == np.arange(4) - 6).all() and total.devices() == {first, second}
numbers = jax.jit(jax.shard_map(lambda a: a + jax.lax.axis_index("x"), mesh=mesh, in_specs=P("x"), out_specs=P("x")))
assert (np.asarray(numbers(split)) == [0, 1, 3, 4]).all()
def fail(v):
    raise ValueError("not today")
def failing(a):
    a = jax.lax.cond(jax.lax.axis_index("x") == 1, lambda v: jax.pure_callback(fail, v, v), lambda v: v, a)
    return jax.lax.psum(a, "x")
sharded = jax.jit(jax.shard_map(failing, mesh=mesh, in_specs=P("x"), out_specs=P(), check_vma=False))
raises(jax.errors.JaxRuntimeError, "not today", lambda: jax.block_until_ready(sharded(split)))
"""


def test_several_devices() -> None:
    run(SEVERAL, "xjit_cuda_sim", devices=2)
    run(SEVERAL, "xjit_cuda", devices="", flags="from tests.support.guarded_cuda import install\ninstall(2)\n")


def test_memory_of_its_own() -> None:
    run("KIND = 'cuda'" + ARRAYS + CALLS + """
raises(jax.errors.JaxRuntimeError, "numpy.asarray", lambda: np.from_dlpack(x))
assert jnp.from_dlpack(np.ones(64)).devices() == set(jax.devices("cpu"))
""", "xjit_cuda", flags=GUARDED)  # fmt: skip


def test_memory_is_given_back() -> None:
    run("""
y = x + 1
np.asarray(y)
before = driver.live_memory
for _ in range(20):
    y = y * 2
y.block_until_ready()
np.asarray(y + 0)
assert driver.live_memory <= before + 3, (driver.live_memory, before)
allocate = driver.allocate
def exhausted(size, stream):
    from xjit.hlo.diagnostics import ResourceExhausted
    raise ResourceExhausted("no memory")
driver.allocate = exhausted
raises(jax.errors.JaxRuntimeError, "RESOURCE_EXHAUSTED", lambda: jax.block_until_ready(y * 3))
driver.allocate = allocate
assert np.asarray(y * 0).sum() == 0
""", "xjit_cuda", flags=GUARDED)  # fmt: skip


def test_without_a_gpu() -> None:
    code = """
import xjit.runtime.cuda
from xjit.hlo.diagnostics import FailedPrecondition
def missing():
    raise FailedPrecondition("there is no GPU")
xjit.runtime.cuda.cuda_device_count = missing
import jax, xjit_jax_plugin
xjit_jax_plugin.initialize()
try:
    jax.devices()
except RuntimeError as error:
    assert "'xjit_cuda'" in str(error) and "there is no GPU" in str(error), error
else:
    raise AssertionError("a backend without a GPU")
raise SystemExit(3)
"""
    run("", "xjit_cuda", expected_exit=3, flags=code)
