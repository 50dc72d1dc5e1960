"""Every allocation of the backend's native code fails once: the call fails with RESOURCE_EXHAUSTED, and nothing leaks."""

from __future__ import annotations

import pytest

from tests.jax_backend.process import run

HOOK = """
import ctypes
import xjit.jax_backend.native.api as api
from xjit.llvm import Module, Value
from xjit.llvm.structured_builder import define
from xjit.llvm.types import I64, PTR, VOID
from xjit.llvm.values import const_int, zero
from xjit.runtime.machine_code.jit import compile_ir_to_object
from xjit.runtime.machine_code.linker import load_object

def counting(allocate, free):
    # Counts blocks that are not freed, and fails when a countdown comes to 0.
    module = Module("counting")
    for name in ("countdown", "blocks"):
        module.add_global(name, I64, const_int(I64, 0), align=8, linkage="")
    builder = define(module, "test_allocate", [(I64, "bytes")], linkage="", return_type=PTR)
    left = builder.atomicrmw("sub", Value(PTR, "@countdown"), builder.i64(1), "seq_cst", "left")
    with builder.when(builder.icmp_signed("==", left, builder.i64(1))):
        builder.ret(zero(PTR))
    builder.atomicrmw("add", Value(PTR, "@blocks"), builder.i64(1), "seq_cst", "before")
    builder.ret(builder.call(module.declare("real_allocate", PTR, [I64]), list(builder.function.args)))
    builder = define(module, "test_free", [(PTR, "block")], linkage="")
    with builder.when(builder.not_(builder.is_null(builder.function.args[0]))):
        builder.atomicrmw("sub", Value(PTR, "@blocks"), builder.i64(1), "seq_cst", "before")
    builder.call(module.declare("real_free", VOID, [PTR]), list(builder.function.args))
    builder.ret_void()
    code = compile_ir_to_object(module.to_text(), trusted=True)
    symbols = {"real_allocate": allocate, "real_free": free}
    loaded = load_object(code, ["test_allocate", "test_free", "countdown", "blocks"], symbols)
    return loaded, *(ctypes.c_int64.from_address(loaded.address(name)) for name in ("countdown", "blocks"))

real = api._address
heap, heap_left, heap_blocks = counting(real("malloc"), real("free"))
pool, pool_left, pool_blocks = counting(real("xjit_scratch_alloc"), real("xjit_scratch_free"))
hooks = {
    "malloc": heap.address("test_allocate"), "free": heap.address("test_free"),
    "xjit_scratch_alloc": pool.address("test_allocate"), "xjit_scratch_free": pool.address("test_free"),
}
api._address = lambda name: hooks.get(name) or real(name)
from types import SimpleNamespace
from xjit.jax_backend import device_memory, requests
allocating = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)
freeing = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
requests._system_malloc, requests._system_free = allocating(hooks["malloc"]), freeing(hooks["free"])
warm = SimpleNamespace(alloc=allocating(hooks["xjit_scratch_alloc"]), free=freeing(hooks["xjit_scratch_free"]))
device_memory.running_pool = lambda: warm
import gc

def fails_each_time(function, least):
    # Has every allocation of a call fail in turn, and then none.
    jax.block_until_ready(function())
    failures = 0
    for left in (heap_left, pool_left):
        n, succeeded = 0, False
        while not succeeded:
            n += 1
            gc.collect()
            before = heap_blocks.value, pool_blocks.value
            left.value = n
            try:
                jax.block_until_ready(function())
            except (jax.errors.JaxRuntimeError, ValueError) as error:  # the latter from calls without Python
                assert "RESOURCE_EXHAUSTED" in str(error), error
                failures += 1
            succeeded = left.value > 0  # there were fewer allocations
            left.value = 0
            gc.collect()
            after = heap_blocks.value, pool_blocks.value
            assert after == before, (n, before, after)
            jax.block_until_ready(function())
            assert n < 200
    assert failures >= least, failures
"""


@pytest.mark.slow
def test_programs_and_transfers() -> None:
    run("""
x, host = jnp.arange(8.0), np.arange(1000.0, dtype=np.float32)
add, both = jax.jit(lambda a: a + 1), jax.jit(lambda a, b: (a @ b, jnp.sin(a).sum(), a))
fails_each_time(lambda: add(x), 3)
fails_each_time(lambda: both(x, x), 3)
fails_each_time(lambda: jax.device_put(host[1:]), 0)  # Python tries again
fails_each_time(lambda: jax.device_put(host[::2]), 1)
fails_each_time(lambda: jax.device_put(x, jax.devices()[1]), 1)
fails_each_time(lambda: add(host), 2)
donating = jax.jit(lambda a: a * 2, donate_argnums=0)
fails_each_time(lambda: donating(add(x)), 3)
long = jax.jit(lambda a: jax.lax.fori_loop(0, 100, lambda i, c: jnp.sin(c), a))
big = jnp.ones(20000)
fails_each_time(lambda: add(long(big)), 3)
""", devices=2, flags=HOOK)  # fmt: skip


@pytest.mark.slow
def test_several_devices() -> None:
    run("""
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((2,), ("x",))
rows = jax.device_put(np.arange(8.0, dtype=np.float32).reshape(2, 4), NamedSharding(mesh, P("x")))
plain = jax.jit(lambda a: a * 2)
total = jax.jit(jax.shard_map(lambda a: jax.lax.psum(a, "x"), mesh=mesh, in_specs=P("x"), out_specs=P()))
fails_each_time(lambda: plain(rows), 4)
fails_each_time(lambda: total(rows), 4)
assert (np.asarray(total(rows)) == np.asarray(rows).sum(0)).all()
""", devices=2, flags=HOOK)  # fmt: skip


def test_a_view_of_memory_that_fails_leaves_nothing() -> None:
    """Its event, what that would call, and its buffer: with what JAX asks for afterwards, it would end the process."""
    run("""
host = np.arange(1000.0, dtype=np.float32)
jnp.from_dlpack(host)
for n in (1, 2, 3):
    before, heap_left.value = heap_blocks.value, n
    raises(jax.errors.JaxRuntimeError, "RESOURCE_EXHAUSTED", lambda: jnp.from_dlpack(host))
    assert heap_blocks.value == before, (n, before, heap_blocks.value)
assert jnp.from_dlpack(host)[3] == 3
""", flags=HOOK)  # fmt: skip
