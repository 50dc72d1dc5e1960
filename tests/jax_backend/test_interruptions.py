"""What a signal's handler raises while the backend is at work is raised, and nothing is lost or done twice."""

from __future__ import annotations

from tests.jax_backend.process import run


def test_interruptions_while_threads_are_started() -> None:
    """Ctrl-C during calls on several devices, which start threads: it is raised, and no call is lost or done twice."""
    run("""
import contextlib, random, signal, threading, time
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((3,), ("x",))
rows = jax.device_put(np.arange(9.0, dtype=np.float32).reshape(3, 3), NamedSharding(mesh, P("x")))
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let what runs in the background ignore it
calls = []
def double(v):
    calls.append(1)
    return v * 2
def body(a):
    return jax.lax.psum(jax.pure_callback(double, jax.ShapeDtypeStruct(a.shape, a.dtype), a), "x")
total = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P(), check_vma=False))
expected = np.asarray(total(rows))
main, begin, end, counts = threading.main_thread().ident, threading.Event(), threading.Event(), [0, 0, 0]
def interrupt():
    random.seed(0)
    begin.wait()
    while not end.is_set():
        time.sleep(random.random() * 0.02)
        signal.pthread_kill(main, signal.SIGINT)
other = threading.Thread(target=interrupt, daemon=True)
def work():
    begin.set()
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline:
        try:
            counts[0] += 1
            found = np.asarray(total(rows))
            counts[1] += not (found == expected).all()
        except KeyboardInterrupt:
            counts[2] += 1
        except jax.errors.JaxRuntimeError as error:
            assert "KeyboardInterrupt" in str(error), error
def insist(function):
    while True:
        with contextlib.suppress(KeyboardInterrupt), contextlib.suppress(KeyboardInterrupt):
            return function()
other.start()
insist(work)
insist(end.set)
insist(other.join)
assert counts[0] > 10 and counts[1] == 0 and counts[2] > 10, counts
assert (np.asarray(total(rows)) == expected).all()  # by then, calls that nobody waited for are done
calls.clear()
assert (np.asarray(total(rows)) == expected).all() and len(calls) == 3
""", devices=3)  # fmt: skip


def test_what_a_handler_raises_meanwhile_is_raised_whole() -> None:
    """With its arguments: without them it is another one, or cannot be made, or an exit has another code."""
    run("""
import collections, contextlib, random, signal, sys, threading, time
from xjit.jax_backend.workers import Workers
x = jnp.ones(1000)
plain = jax.jit(lambda a: jax.pure_callback(lambda v: np.asarray(v) + 1, jax.ShapeDtypeStruct(a.shape, a.dtype), a))
plain(x)
class Alarm(Exception):
    def __init__(self, place, number):
        super().__init__(place, number)
def handler(*_):
    raise Alarm("here", 3)
signal.signal(signal.SIGALRM, handler)
main, begin, end, raised = threading.main_thread().ident, threading.Event(), threading.Event(), collections.Counter()
def interrupt():
    random.seed(0)
    begin.wait()
    while not end.wait(random.random() * 0.005):
        signal.pthread_kill(main, signal.SIGALRM)
other, deadline = threading.Thread(target=interrupt), time.monotonic() + 1.5
def work():
    begin.set()
    while time.monotonic() < deadline + 60 * (raised[("here", 3)] <= 10):  # where others use the processors, too
        try:
            plain(x)
        except (Alarm, ValueError, jax.errors.JaxRuntimeError) as error:
            raised[error.args if type(error) is Alarm else type(error)] += 1
def insist(function):
    while True:
        with contextlib.suppress(Alarm), contextlib.suppress(Alarm):
            return function()
other.start()
insist(work)
insist(end.set)
insist(other.join)
assert raised[("here", 3)] > 10, raised
def exit_soon(workers, gang, wait=Workers._wait_for_room):
    Workers._wait_for_room = wait
    signal.raise_signal(signal.SIGTERM)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
Workers._wait_for_room = exit_soon
y = jax.jit(lambda a: jnp.sin(plain(a)))(jnp.ones(1_000_000))  # long: it has a thread of its own
sys.exit("it is raised before the next line")
""", devices=2, expected_exit=3)  # fmt: skip


def test_what_has_begun_is_not_asked_for_again() -> None:
    """However it is interrupted: programs would be compiled again, and calls on several devices run again."""
    run("""
from xjit.jax_backend import plugin
from xjit.jax_backend.sharded_execution import ShardedExecution
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
class Alarm(Exception):
    pass
def interrupted(*_):
    raise Alarm
done = []
def doing(function):
    def does(*arguments):
        done.append(function(*arguments))
        raise ValueError
    return does
sharded = jax.device_put(np.ones(4, np.float32), NamedSharding(Mesh(jax.devices(), "x"), P("x")))
total = jax.jit(lambda a: a.sum())
assert total(sharded) == 4
error_of, plugin.error_of = plugin.error_of, interrupted
load_program, plugin.load_program = plugin.load_program, doing(plugin.load_program)
raises(jax.errors.JaxRuntimeError, "interrupted, and is not begun again", lambda: jax.jit(lambda a: a * 3)(x))
plugin.load_program = load_program
assert len(done) == 1
run_member, ShardedExecution.run_member = ShardedExecution.run_member, doing(ShardedExecution.run_member)
raises(jax.errors.JaxRuntimeError, "interrupted, and is not begun again", lambda: total(sharded).block_until_ready())
ShardedExecution.run_member, plugin.error_of = run_member, error_of
assert done[1:] == [0, 0], done
assert total(sharded) == 4
""", devices=2)  # fmt: skip


def test_a_handler_that_raises_where_python_is_about_to_answer() -> None:
    """It raises its own exception, and the request is answered: not that Python had not."""
    run("""
import collections, signal, threading, time
class Alarm(Exception):
    pass
def handler(*_):
    raise Alarm
step = jax.jit(lambda a: a + 1, donate_argnums=0)
step(x + 0)
host = np.arange(64, dtype=np.float32).reshape(8, 8)[::-1, ::2]  # Python copies it
dead = x + 0
dead.delete()
main, end, seen = threading.main_thread().ident, threading.Event(), collections.Counter()
def interrupt():
    while not end.wait(0.003):
        signal.pthread_kill(main, signal.SIGALRM)
def work():
    deadline = time.monotonic() + 2.5
    while time.monotonic() < deadline:
        for call in (lambda: jax.device_put(host), lambda: step(dead)):
            try:
                call()
                seen["answered"] += 1
            except Alarm:
                seen["raised"] += 1
            except (ValueError, RuntimeError, jax.errors.JaxRuntimeError) as error:
                seen["silent" if "did not answer" in str(error) else "error"] += 1
signal.signal(signal.SIGALRM, handler)
threading.Thread(target=interrupt, daemon=True).start()
while not end.is_set():
    try:
        work()
    except Alarm:
        continue
    try:
        end.set()
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
    except Alarm:
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
assert seen["raised"] > 5 and not seen["silent"], seen
""")
