"""What a device has to do, as native code: jobs that one thread takes from a queue, in order.

Jobs that call functions of users are run apart, by other threads: such a function may wait for any other program. A job
that needs their results gets its place in the queue when they are there, so that no worker waits for a function of a
user. None of these functions may be called with the GIL. Where no thread can be started the caller does the job.

* `void xjit_queue_put(queue, job)`: waits for room, and has the job done.
* `i1 xjit_queue_start(queue)`: whether it has a worker, who may have been started now.
* `void xjit_queue_reserve(queue)`: waits while there are `MAX_JOBS`, unless the caller is nested, and counts one more.
* `void xjit_queue_append(job, queue)`: gives a job its place, at once or later.
* `void xjit_queue_work(queue)`: what a worker does, for ever.
* `void xjit_queue_wait(queue)`: until as many jobs are done as there are now; others may go on to come.
* `void xjit_jobs_run_apart(jobs, i64 count)`: has other threads run them at the same time; each calls
  `void xjit_job_run(job)`.
* `i1 xjit_is_nested()`: whether this thread runs a job that is apart, so that the caller is a function of a user.
"""

from __future__ import annotations

from typing import Final

from xjit.jax_backend.native.questions import ask
from xjit.jax_backend.records import JOB, QUEUE
from xjit.llvm import Module, Value
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I1, I32, I64, PTR, VOID
from xjit.llvm.values import const_int, zero

MAX_JOBS: Final = 32
"""As many calls of a device may be waiting or running, as in XLA; they hold the memory of their results."""

START_WORKER: Final = "xjit_start_worker"
"""The variable of `void (*)(queue, i64 1, ANSWER)`: Python starts a worker."""

RUN_APART: Final = "xjit_run_apart"
"""The variable of `void (*)(jobs, i64 count, ANSWER)`: Python has a thread for each call `xjit_job_run`."""

HAS_THREADS: Final = 1
HAS_NO_THREADS: Final = 2
"""Their answers."""

NESTED_KEY: Final = "xjit_nested_key"
"""The variable of the pthread key that has a value in threads which run a job apart."""

_PTHREAD: Final = {
    "pthread_mutex_lock": (PTR,),
    "pthread_mutex_unlock": (PTR,),
    "pthread_cond_wait": (PTR, PTR),
    "pthread_cond_broadcast": (PTR,),
    "pthread_setspecific": (I32, PTR),
}


def define_queues(module: Module) -> None:
    """Defines them."""
    for name in (START_WORKER, RUN_APART, NESTED_KEY):
        module.add_global(name, PTR, zero(PTR), align=8, linkage="")
    _define_is_nested(module)
    _define_run(module)
    _define_run_apart(module)
    _define_append(module)
    _define_start(module)
    _define_reserve(module)
    _define_put(module)
    _define_work(module)
    _define_wait(module)


def _pthread(builder: StructuredBuilder, name: str, *arguments: Value) -> None:
    builder.call(builder.module.declare(name, I32, _PTHREAD[name]), arguments)


class Locked:
    """Emits what a thread does with a queue between `enter` and `leave`."""

    def __init__(self, builder: StructuredBuilder, queue: Value) -> None:
        self.builder = builder
        self.queue = queue
        self._mutex, self._changed = (QUEUE.load(builder, queue, name) for name in ("mutex", "changed"))

    def enter(self) -> None:
        _pthread(self.builder, "pthread_mutex_lock", self._mutex)

    def leave(self) -> None:
        _pthread(self.builder, "pthread_mutex_unlock", self._mutex)

    def sleep(self) -> None:
        """Until another thread calls `wake`, or for no reason."""
        _pthread(self.builder, "pthread_cond_wait", self._changed, self._mutex)

    def wake(self) -> None:
        """Wakes all that sleep."""
        _pthread(self.builder, "pthread_cond_broadcast", self._changed)

    def add(self, field: str, number: int) -> None:
        """Changes a count."""
        before = QUEUE.load(self.builder, self.queue, field)
        QUEUE.store(self.builder, self.queue, field, self.builder.add(before, self.builder.i64(number)))


def _nested_key(builder: StructuredBuilder) -> Value:
    return builder.trunc(builder.ptrtoint(builder.load(PTR, Value(PTR, f"@{NESTED_KEY}"), align=8), I64), I32)


def _define_is_nested(module: Module) -> None:
    builder = define(module, "xjit_is_nested", [], return_type=I1)
    get = module.declare("pthread_getspecific", PTR, [I32])
    builder.ret(builder.not_(builder.is_null(builder.call(get, [_nested_key(builder)], name="own"))))


def _define_run(module: Module) -> None:
    builder = define(module, "xjit_job_run", [(PTR, "job")], linkage="")
    (job,) = builder.function.args
    _pthread(builder, "pthread_setspecific", _nested_key(builder), job)
    _run(builder, job)
    _pthread(builder, "pthread_setspecific", _nested_key(builder), zero(PTR))
    builder.ret_void()


def _run(builder: StructuredBuilder, job: Value) -> None:
    builder.call_pointer(JOB.load(builder, job, "run"), VOID, [job])


def _define_run_apart(module: Module) -> None:
    """The caller runs those that get no thread, one after the other."""
    builder = define(module, "xjit_jobs_run_apart", [(PTR, "jobs"), (I64, "count")])
    jobs, number = builder.function.args
    with builder.when(_has_threads(builder, RUN_APART, jobs, number)):
        builder.ret_void()
    with builder.loop(builder.i64(0), number) as i:
        _run(builder, builder.load(PTR, builder.gep(PTR, jobs, i), align=8, name="job"))
    builder.ret_void()


def _has_threads(builder: StructuredBuilder, variable: str, subject: Value, number: Value) -> Value:
    """Emits a question to Python for threads; whether there are any."""
    return builder.icmp_signed("==", ask(builder, variable, subject, number), builder.i64(HAS_THREADS))


def place_job(builder: StructuredBuilder, job: Value, queue: Value) -> None:
    """Emits what gives a job the last place in a queue that the thread has locked."""
    JOB.store(builder, job, "next", zero(PTR))
    last = QUEUE.load(builder, queue, "last")
    before = builder.select(builder.is_null(last), QUEUE.pointer(builder, queue, "first"), last)
    builder.store(job, before, align=8)  # `next` is the first field of a job
    QUEUE.store(builder, queue, "last", job)
    builder.call_pointer(JOB.load(builder, job, "queued"), VOID, [job])


def _define_append(module: Module) -> None:
    builder = define(module, "xjit_queue_append", [(PTR, "job"), (PTR, "queue")])
    job, queue = builder.function.args
    listen = module.functions["xjit_event_listen"]
    with builder.repeat("awaiting") as loop:
        event = builder.call_pointer(JOB.load(builder, job, "awaited"), PTR, [job], name="event")
        loop.leave_if(builder.is_null(event))
        again = [event, Value(PTR, "@xjit_queue_append"), queue, job]
        with builder.when(builder.call(listen, again, name="waits")):
            builder.ret_void()
    locked = Locked(builder, queue)
    locked.enter()
    place_job(builder, job, queue)
    locked.wake()
    locked.leave()
    builder.ret_void()


def _define_start(module: Module) -> None:
    builder = define(module, "xjit_queue_start", [(PTR, "queue")], return_type=I1)
    (queue,) = builder.function.args
    has_worker = QUEUE.load_atomic(builder, queue, "has_worker", "acquire")
    with builder.when(builder.icmp_signed("!=", has_worker, const_int(I32, 0))):
        builder.ret(const_int(I1, 1))
    builder.ret(_has_threads(builder, START_WORKER, queue, builder.i64(1)))


def _define_reserve(module: Module) -> None:
    builder = define(module, "xjit_queue_reserve", [(PTR, "queue")])
    (queue,) = builder.function.args
    locked = Locked(builder, queue)
    is_nested = builder.call(module.functions["xjit_is_nested"], [], name="is_nested")
    locked.enter()
    with builder.repeat() as loop:
        length = QUEUE.load(builder, queue, "length")
        loop.leave_if(builder.or_(is_nested, builder.icmp_signed("<", length, builder.i64(MAX_JOBS))))
        locked.sleep()
    locked.add("length", 1)
    locked.leave()
    builder.ret_void()


def _define_put(module: Module) -> None:
    functions = module.functions
    builder = define(module, "xjit_queue_put", [(PTR, "queue"), (PTR, "job")])
    queue, job = builder.function.args
    with builder.when(builder.not_(builder.call(functions["xjit_queue_start"], [queue], name="has_worker"))):
        _run(builder, job)
        builder.ret_void()
    builder.call(functions["xjit_queue_reserve"], [queue])
    builder.call(functions["xjit_queue_append"], [job, queue])
    builder.ret_void()


def _define_work(module: Module) -> None:
    builder = define(module, "xjit_queue_work", [(PTR, "queue")], linkage="")
    (queue,) = builder.function.args
    locked = Locked(builder, queue)
    locked.enter()
    with builder.repeat("work"):
        with builder.repeat("idle") as idle:
            idle.leave_if(builder.not_(builder.is_null(QUEUE.load(builder, queue, "first"))))
            locked.sleep()
        job = QUEUE.load(builder, queue, "first")
        following = JOB.load(builder, job, "next")
        QUEUE.store(builder, queue, "first", following)
        with builder.when(builder.is_null(following)):
            QUEUE.store(builder, queue, "last", zero(PTR))
        locked.leave()
        _run(builder, job)
        locked.enter()
        locked.add("length", -1)
        locked.add("num_done", 1)
        locked.wake()
    builder.ret_void()


def _define_wait(module: Module) -> None:
    builder = define(module, "xjit_queue_wait", [(PTR, "queue")], linkage="")
    (queue,) = builder.function.args
    locked = Locked(builder, queue)
    locked.enter()
    wanted = builder.add(QUEUE.load(builder, queue, "num_done"), QUEUE.load(builder, queue, "length"))
    with builder.repeat() as loop:
        loop.leave_if(builder.icmp_signed(">=", QUEUE.load(builder, queue, "num_done"), wanted))
        locked.sleep()
    locked.leave()
    builder.ret_void()
