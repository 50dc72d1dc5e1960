"""Calls that return before their results are there: order, waiting, deletion, donation, errors, callbacks, forks, exits.

A gate is a program that ends when Python says so: what is computed from its result is pending until then. `-m slow` selects the others of these tests.
"""

from __future__ import annotations

import pytest

from tests.jax_backend.process import run

PROLOGUE = """
import os, pickle, sys, threading, time
from jax.experimental import io_callback
scalar = jax.ShapeDtypeStruct((), jnp.float32)
opened = threading.Event()
def wait(v):
    assert opened.wait(100)
    return v
@jax.jit
def gated(a):
    waste = jnp.sin(jnp.arange(1e6)).sum() * 0  # long: it never runs in the thread that calls it
    return a + jax.pure_callback(wait, scalar, waste)
def gate(a):
    opened.clear()
    return gated(a)
def opens(wanted=None):
    opened.set()
    return wanted
increment = jax.jit(lambda a: a + 1)
step = jax.jit(lambda a: a * 2, donate_argnums=0)
def python(f):
    return jax.jit(lambda a: jax.pure_callback(f, jax.ShapeDtypeStruct(a.shape, a.dtype), a))
def fail(v):
    raise ValueError("boom")
plain, failing = python(lambda v: np.asarray(v) + 1), python(fail)
x = jnp.ones(1000)
one, two = jax.devices()
elsewhere = jax.device_put(x, two)
opens(), jax.block_until_ready([gated(x), increment(x), step(x + 0), plain(x), increment(elsewhere)])
raises(jax.errors.JaxRuntimeError, "boom", lambda: failing(x))
"""


def test_pending_arrays() -> None:
    run(PROLOGUE + """
y = gate(x)
z = increment(y)
assert not y.is_ready() and not z.is_ready()
readers = [
    lambda a: np.asarray(a)[0], lambda a: np.from_dlpack(a)[0], lambda a: pickle.loads(pickle.dumps(a))[0],
    lambda a: float(a[0]), lambda a: increment(jax.device_put(a, two))[0] - 1, lambda a: jax.block_until_ready(a)[0],
    lambda a: np.asarray(jax.device_put(a, two))[0], lambda a: jnp.from_dlpack(a)[0], lambda a: a.copy()[0],
]
for read in readers:
    read(x)
    z = increment(gate(x))
    later = threading.Timer(0.05, opened.set)
    later.start()
    assert read(z) == 2
    z.delete()
y = gate(x)
kept, gone = increment(y), increment(y)
del gone
y.delete()
raises(RuntimeError, "deleted", lambda: y + 1)
assert (opens(kept) == 2).all()
y = gate(x)
state, places, old = increment(y), set(), []
for _ in range(20):
    old.append(state)
    state = step(state)
    places.add(state.unsafe_buffer_pointer())
assert len(places) == 1 and all(a.is_deleted() for a in old), "donation while pending is in place"
view = increment(y)
held = np.asarray(opens(view))
y = gate(x)
doubled = step(view + y * 0)
assert (opens(doubled) == 4).all() and (held == 2).all() and (state == 2.0**21).all()
w = gate(x)
summed = [increment(w) for _ in range(3)]
again = step(w)
assert not again.is_ready()
opens()
assert all((s == 2).all() for s in summed) and (again == 2).all(), "a donation waits for those who read before"
""", devices=2)  # fmt: skip


@pytest.mark.slow
def test_failures_of_pending_calls() -> None:
    run(PROLOGUE + """
y = failing(gate(x))
after = [y, increment(y), step(increment(y)), jax.device_put(y, two), increment(jax.device_put(y, two)), plain(increment(y))]
opens()
for array in after:
    for use in (jax.block_until_ready, np.asarray, lambda a: increment(a).block_until_ready()):
        raises(jax.errors.JaxRuntimeError, "INTERNAL: CpuCallback error", lambda: use(array))
        raises(jax.errors.JaxRuntimeError, "boom", lambda: use(array))
huge = jax.jit(lambda a: jnp.broadcast_to(a, (1 << 46,)))
sorting = jax.jit(lambda a: jnp.sort(a + jnp.arange(1 << 46, dtype=jnp.float32))[5])
for attempt in range(3):
    raises(jax.errors.JaxRuntimeError, "RESOURCE_EXHAUSTED", lambda: huge(jnp.float32(1)))
    raises(jax.errors.JaxRuntimeError, "RESOURCE_EXHAUSTED", lambda: sorting(jnp.float32(1)).block_until_ready())
    raises(jax.errors.JaxRuntimeError, "RESOURCE_EXHAUSTED", lambda: huge(gate(x)[0] + opens(0)).block_until_ready())
too_much = jax.jit(lambda a: (a + 1, jnp.zeros(1 << 46)), donate_argnums=0)
y = gate(x)
place = y.unsafe_buffer_pointer()
raises(jax.errors.JaxRuntimeError, "RESOURCE_EXHAUSTED", lambda: too_much(y))
others = opens(jax.block_until_ready([x + i for i in range(9)]))
assert place not in [o.unsafe_buffer_pointer() for o in others], "memory that a pending call writes was freed"
assert (increment(x) == 2).all()
""", devices=2)  # fmt: skip


@pytest.mark.slow
def test_callbacks_of_pending_calls() -> None:
    run(PROLOGUE + """
seen = []
@jax.jit
def note(a):
    io_callback(lambda v: seen.append(float(v[0])), None, a, ordered=True)
    return a + 1
note(x)
jax.effects_barrier()
seen.clear()
y = note(gate(x))
assert not seen
opens()
for _ in range(9):
    y = note(y)
jax.effects_barrier()
assert seen == [float(i) for i in range(1, 11)]
long = jax.jit(lambda a: a + jnp.sin(jnp.arange(1e6)).sum() * 0)
nested = python(lambda v: np.asarray(long(increment(jnp.asarray(v)))))
y = nested(gate(x))
others = [long(y) for _ in range(50)] if opens(True) else []  # more than a queue takes
assert (y == 2).all() and all((o == 2).all() for o in others)
begun, done = threading.Event(), threading.Event()
@python
def patient(v):
    begun.set()
    assert done.wait(100)
    return np.asarray(v)
y = patient(gate(x))
depends = [increment(y), jax.device_put(y, two), step(long(y))]
opens()
assert begun.wait(100)
later = threading.Thread(target=lambda: (long(x * 2).block_until_ready(), step(x * 3).block_until_ready(), done.set()))
later.start()
later.join(100)
assert done.is_set(), "what needs a callback's result keeps nothing else"
assert [float(d[0]) for d in depends] == [2.0, 1.0, 2.0]
@jax.jit
def chat(a):
    jax.debug.callback(lambda v: seen.append("unordered"), a)
    return a
chat(gate(x))
opens()
jax.effects_barrier()
assert seen[-1] == "unordered"
""", devices=2)  # fmt: skip


@pytest.mark.slow
def test_threads_delete_and_donate_what_is_pending() -> None:
    run(PROLOGUE + """
import gc, random
sys.setswitchinterval(1e-5)
long = jax.jit(lambda a: a + jnp.sin(jnp.arange(1e5)).sum() * 0)
long(x)
problems = []
def work(seed):
    choose = random.Random(seed)
    try:
        for i in range(40):
            arrays = [(long(x), 1.0)]
            for _ in range(choose.randrange(1, 8)):
                place = choose.randrange(len(arrays))
                array, value = arrays[place]
                kind = choose.randrange(6)
                if kind == 0:
                    arrays.append((increment(array), value + 1))
                elif kind == 1:
                    arrays[place] = step(array), value * 2
                elif kind == 2 and len(arrays) > 1:
                    del arrays[place]
                    array.delete()
                elif kind == 3:
                    arrays.append((plain(array), value + 1))
                elif kind == 4:
                    arrays.append((jax.device_put(jax.device_put(array, two), one), value))
                elif kind == 5:
                    array.is_ready(), np.asarray(array)
            gc.collect() if i % 20 == 0 else None
            for array, value in arrays:
                assert (np.asarray(array) == value).all(), (np.asarray(array)[:5], value)
    except BaseException as error:
        problems.append(error)
threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not problems, problems
""", devices=2)  # fmt: skip


@pytest.mark.slow
def test_a_donation_does_not_overwrite_what_is_being_copied() -> None:
    run(PROLOGUE + """
clear = jax.jit(lambda a: a * 0, donate_argnums=0)
fill = jax.jit(lambda: jnp.ones(1 << 24))
clear(fill()).block_until_ready()
num_made = 0
for i in range(20):
    large, copies = fill().block_until_ready(), []
    copier = threading.Thread(target=lambda: copies.append(jax.device_put(large, two)))
    copier.start()
    time.sleep(0.001 * (i % 5))
    try:
        cleared = clear(large)
    finally:
        copier.join()
    for copy in copies:
        try:
            assert (np.asarray(copy) == 1).all()
            num_made += 1
        except jax.errors.JaxRuntimeError as error:  # the donation came first
            assert "deleted" in str(error)
assert num_made
""", devices=2)  # fmt: skip


@pytest.mark.slow
def test_a_donation_does_not_overwrite_what_waits_for_a_full_queue() -> None:
    run(PROLOGUE + """
read = jax.jit(lambda a, b: a + b * 0)
clear = jax.jit(lambda a, b: a * 0 + b * 0, donate_argnums=0)
arrays = [x + i for i in range(24)]
jax.block_until_ready([read(x, x), clear(x + 0, x), arrays])
y, sums = gate(x), {}
pending = [increment(y) for _ in range(32)]
def start(function, *arguments):
    thread = threading.Thread(target=function, args=arguments)
    thread.start()
    time.sleep(0.02)  # it is in the call, and waits
    return thread
threads = []
for i, array in enumerate(arrays):
    threads.append(start(lambda i, a: sums.update({i: read(a, y)}), i, array))
    threads.append(start(clear, array, y))
opens()
for thread in threads: thread.join()
assert all((np.asarray(sums[i]) == 1 + i).all() for i in range(len(arrays)))
""", devices=2)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("end", ["", "raise SystemExit(0)", "keep = [keep]; keep.append(keep)"])
def test_forks_and_exits_wait_for_what_is_pending(end: str) -> None:
    printed = run(PROLOGUE + """
y = increment(gate(x))
threading.Timer(0.05, opened.set).start()
child = os.fork()
if not child:
    os._exit(0 if y.is_ready() and np.asarray(increment(y))[0] == 3 and np.asarray(plain(gated(x)))[0] == 2 else 1)
assert os.waitpid(child, 0)[1] == 0 and y.is_ready()
@jax.jit
def report(a):
    io_callback(lambda v: print("reported", float(v[0]), flush=True), None, a)
    return a
report(x)
jax.effects_barrier()
keep = report(gate(x))
threading.Timer(0.05, opened.set).start()
""" + end, devices=2)  # fmt: skip
    assert printed.split().count("reported") == 2


@pytest.mark.slow
def test_it_may_be_turned_off() -> None:
    run(
        """
long = jax.jit(lambda a: a + jnp.sin(jnp.arange(1e7)).sum() * 0)
assert long(x).is_ready() and long(long(x)).is_ready()
""",
        flags="import jax; jax.config.update('jax_cpu_enable_async_dispatch', False)",
    )


def test_exits_do_not_wait_for_threads_that_go_on() -> None:
    run("""
import threading
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("i",))
v = jax.device_put(jnp.ones(1000), jax.NamedSharding(mesh, jax.P("i")))
normalized = jax.jit(lambda a: a / a.sum() + jnp.sin(jnp.arange(2e5)).sum() * 0)  # queues are never empty
done = threading.Semaphore(0)
def go_on():
    while True:
        normalized(v)
        done.release()
for _ in range(3): threading.Thread(target=go_on, daemon=True).start()
for _ in range(100): done.acquire()
""", devices=2)  # fmt: skip


SHARDED = (
    PROLOGUE
    + """
import functools
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("i",))
back = jax.sharding.Mesh(np.array(jax.devices()[::-1]), ("i",))
split = lambda a, m=mesh: jax.device_put(a, jax.NamedSharding(m, jax.P("i")))
normalized = jax.jit(lambda a: a / a.sum())  # its devices meet
doubled = jax.jit(lambda a: a * 2)  # and those of this do not
updated = jax.jit(lambda a: a - a.mean() + 1, donate_argnums=0)
v, w = split(jnp.ones(1000)), split(jnp.ones(1000), back)
def gate_on(device, a):
    pending = [s.data if s.device != device else gate(jax.device_put(s.data, device)) for s in a.addressable_shards]
    return jax.make_array_from_single_device_arrays(a.shape, a.sharding, pending)
opened_later = gate_on(two, v)
opens(), jax.block_until_ready([normalized(v), normalized(w), doubled(v), updated(v + 0), opened_later])
"""
)


def test_programs_on_several_devices() -> None:
    run(SHARDED + """
p = gate_on(two, v)
after = [normalized(p), doubled(p), normalized(doubled(p))]
assert not any(a.is_ready() for a in after)
assert (normalized(v) == 0.001).all(), "what waits for a callback has no place in the queues"
opens()
assert (after[0] == 0.001).all() and (after[1] == 2).all() and (after[2] == 0.001).all()
state, places = split(jnp.zeros(1000)), set()
for _ in range(50):
    old, state = state, updated(state)
    places.add(tuple(s.data.unsafe_buffer_pointer() for s in state.addressable_shards))
    assert old.is_deleted()
assert len(places) == 1 and (state == 1).all()
def work(m, results):
    for i in range(40):
        results.append(normalized(split(jnp.ones(1000) + i, m)))
found = [[], []]
threads = [threading.Thread(target=work, args=pair) for pair in zip((mesh, back), found)]
for t in threads: t.start()
for t in threads: t.join()
assert all(np.allclose(a, 0.001) for results in found for a in results)
gone = split(jnp.ones(1000))
next(iter(gone.addressable_shards)).data.delete()
raises((RuntimeError, ValueError), "deleted", lambda: updated(gone))
q = gate_on(two, v)
view = np.asarray(opens(normalized(q)))
del q
assert (view == np.float32(0.001)).all()
""", devices=2)  # fmt: skip


@pytest.mark.slow
def test_failures_on_several_devices() -> None:
    run(SHARDED + """
shards = [s.data for s in v.addressable_shards]
for f in (normalized, doubled, lambda a: normalized(doubled(a)), lambda a: updated(a + 0)):
    pending = [shards[0], failing(gate(shards[1]))]
    result = opens(f(jax.make_array_from_single_device_arrays(v.shape, v.sharding, pending)))
    raises(jax.errors.JaxRuntimeError, "boom", lambda: jax.block_until_ready(result))
assert (normalized(v) == 0.001).all(), "the next program meets again"
@jax.jit
@functools.partial(jax.shard_map, mesh=mesh, in_specs=jax.P("i"), out_specs=jax.P("i"), check_vma=False)
def fails_on_one(a):
    b = jax.lax.cond(jax.lax.axis_index("i") == 1, lambda: jax.pure_callback(fail, scalar, a[0]), lambda: a[0])
    return a + jax.lax.psum(b, "i")
for _ in range(3):
    raises(jax.errors.JaxRuntimeError, "boom", lambda: fails_on_one(v).block_until_ready())
huge = jax.jit(lambda a: jnp.sort(a.sum() + jnp.arange(1 << 46, dtype=jnp.float32))[5])
raises(jax.errors.JaxRuntimeError, "RESOURCE_EXHAUSTED", lambda: huge(v).block_until_ready())
assert (updated(v + 0) == 1).all()
""", devices=2)  # fmt: skip


@pytest.mark.slow
def test_callbacks_on_several_devices_call_programs_on_several_devices() -> None:
    run(SHARDED + """
seen = []
def inner(a):
    seen.append(float(jax.device_get(normalized(v))[0]))
    return np.asarray(a) + 1
@jax.jit
@functools.partial(jax.shard_map, mesh=mesh, in_specs=jax.P("i"), out_specs=jax.P("i"), check_vma=False)
def calls(a):
    b = jax.pure_callback(inner, jax.ShapeDtypeStruct(a.shape, a.dtype), a)
    return b + jax.lax.psum(b.sum(), "i") * 0
results = [calls(v) for _ in range(6)] + [normalized(v) for _ in range(40)] + [calls(normalized(v)) for _ in range(3)]
assert (results[0] == 2).all() and np.allclose(results[-1], 1.001)
jax.block_until_ready(results)
assert len(seen) == 18
""", devices=2)  # fmt: skip


@pytest.mark.slow
def test_programs_on_several_devices_wait_where_that_is_turned_off() -> None:
    run(
        """
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("i",))
v = jax.device_put(jnp.ones(1000), jax.NamedSharding(mesh, jax.P("i")))
normalized = jax.jit(lambda a: a / a.sum() + jnp.sin(jnp.arange(1e6)).sum() * 0)
for _ in range(5):
    v = normalized(v)
    assert v.is_ready()
""",
        devices=2,
        flags="import jax; jax.config.update('jax_cpu_enable_async_dispatch', False)",
    )
