"""Eight threads that compile, call, donate, delete and are called back at once, on one device and on four that meet.

`-m slow` selects them.
"""

from __future__ import annotations

import pytest

from tests.jax_backend.process import run

PROLOGUE = """
import random, sys, threading, traceback
sys.setswitchinterval({interval})
failures, start = [], threading.Barrier(8)
def at_once(work):
    def guarded(seed):
        try:
            start.wait()
            for number in range({rounds}):
                work(random.Random(8 * number + seed), number)
        except BaseException:
            failures.append(traceback.format_exc())
    threads = [threading.Thread(target=guarded, args=(seed,)) for seed in range(8)]
    for t in threads: t.start()
    for t in threads: t.join()
    assert not failures, failures[0]
def integers(rng, size):
    return np.random.default_rng(rng.randrange(1 << 30)).integers(0, 4, (size, size)).astype(np.float32)
step = jax.jit(lambda a, b: a * 2 + b, donate_argnums=0)
def steps(b, zero):
    state, expected = zero, np.zeros(b.shape, np.float32)
    for _ in range(6):
        state, expected = step(state, b), expected * 2 + np.asarray(b)
    assert (np.asarray(state) == expected).all()
"""


@pytest.mark.slow
@pytest.mark.parametrize("interval", [1e-5, 5e-3])
def test_threads_that_do_everything_at_once(interval: float) -> None:
    run(PROLOGUE.format(interval=interval, rounds=10) + """
from jax.experimental import io_callback
shared = jax.jit(lambda a, b: (a @ b).sum(axis=0))
double = jax.jit(lambda a: jax.pure_callback(lambda v: np.asarray(v) * 2, jax.ShapeDtypeStruct(a.shape, a.dtype), a) + 1)
total = jax.jit(lambda a: io_callback(lambda v: np.float32(np.sum(v)), jax.ShapeDtypeStruct((), jnp.float32), a) + a)
again = lambda v: np.asarray(shared(jnp.asarray(v), jnp.asarray(v)))
nested = jax.jit(lambda a: jax.pure_callback(again, jax.ShapeDtypeStruct(a.shape[:1], a.dtype), a))
def work(rng, number):
    size = rng.choice([3, 17, 64, 200])
    a, b = integers(rng, size), integers(rng, size)
    x, y = jnp.asarray(a), jnp.asarray(b)
    product = shared(x, y)
    if rng.random() < 0.5: x.delete()
    n = rng.choice([number, rng.randrange(1 << 20)])  # one of all threads, or another one
    new = jax.jit(lambda v: jnp.sort(v + n, axis=0).cumsum(axis=1))
    assert (np.asarray(product) == (a @ b).sum(0)).all()
    assert (np.asarray(new(y)) == np.sort(b + np.float32(n), 0).cumsum(1, dtype=np.float64)).all() or n * size > 1 << 23
    assert (np.asarray(double(y)) == b * 2 + 1).all() and (np.asarray(total(y)) == b.sum() + b).all()
    steps(y, jnp.zeros_like(y))
    assert (np.asarray(nested(y)) == (b @ b).sum(0)).all()
at_once(work)
""")  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("interval", [1e-5, 5e-3])
def test_threads_whose_devices_meet(interval: float) -> None:
    run(PROLOGUE.format(interval=interval, rounds=6) + """
P = jax.P
mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(2, 2), ("x", "y"))
split = jax.NamedSharding(mesh, P("x", "y"))
mapped = lambda f: jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P("x", "y"), out_specs=P("x", "y"), check_vma=False))
product = jax.jit(lambda a, b: a @ b, out_shardings=split)
ring = mapped(lambda a: jax.lax.psum(jax.lax.ppermute(a, "x", [(0, 1), (1, 0)]), "y"))
double = mapped(lambda a: jax.lax.psum(jax.pure_callback(lambda v: np.asarray(v) * 2, jax.ShapeDtypeStruct(a.shape, a.dtype), a), "x"))
def work(rng, number):
    size = rng.choice([8, 64])
    a, b = integers(rng, size), integers(rng, size)
    x, y = jax.device_put(a, split), jax.device_put(b, split)
    results = [product(x, y), ring(y), double(y)]
    if rng.random() < 0.5: x.delete()
    steps(y, jax.device_put(np.zeros_like(b), split))
    halves = np.roll(b, size // 2, 0).reshape(size, 2, -1).sum(1)
    expected = [a @ b, np.tile(halves, 2), np.tile(2 * b.reshape(2, -1, size).sum(0), (2, 1))]
    for got, wanted in zip(results, expected):
        assert (np.asarray(got) == wanted).all()
    assert (np.asarray(jax.device_put(y, jax.devices()[rng.randrange(4)])) == b).all()
    n = rng.choice([number, rng.randrange(1 << 16)])
    assert (np.asarray(jax.jit(lambda v: (v + n).sum(0))(y)) == (b + n).sum(0)).all()
at_once(work)
""", devices=4)  # fmt: skip
