"""IR of the fork/join pool: `xjit_parallel_for` and what Python needs to configure it.

One region runs at a time. A slot in a ring of four describes it, and the *ticket*: ``epoch << 32 | next task``.

* The caller takes `busy` (if it is taken, by another thread or an enclosing region, it runs its tasks alone), fills the
  slot of the next epoch, publishes the ticket, wakes sleepers, and then claims tasks like everybody else.
* A thread claims a task by compare-and-swap of the ticket. The swap succeeds only if the epoch is still the one whose
  slot it read; slots of other epochs may be written meanwhile, that of the current epoch never is. So what it read is
  whole.
* Each finished task increments `done`; the caller waits for `done == n`. It never waits for a worker that claimed
  nothing.
* Idle threads spin (`SPINS` pauses, roughly 0.1 ms), then sleep on a futex: workers on the epoch, the caller on `done`.
* Sleep and wake agree by sequentially consistent store-then-load on both sides (`sleepers` and `ticket`,
  `caller_waits` and `done`).
"""

from __future__ import annotations

from xjit.runtime.native.worker_ir import CONFIGURE, PIN, SPAWN

MAX_WORKERS = 1023
MAX_CPUS = 8192  # CPU numbers at or above are not pinned to
STACK_BYTES = 8 << 20
SPINS = 2000

_FUTEX_NUMBERS = {"x86_64": 202, "aarch64": 98}
_WAIT, _WAKE = 128, 129  # FUTEX_WAIT | FUTEX_PRIVATE_FLAG, FUTEX_WAKE | FUTEX_PRIVATE_FLAG
_SIG_SETMASK = 2


def thread_pool_ir(machine: str, system: str) -> str:
    """The IR for `platform.machine()` and `sys.platform`. Where there is no futex, regions run serially."""
    if system != "linux" or machine not in _FUTEX_NUMBERS:
        return _SERIAL_LOOP + _SERIAL_ONLY
    text = "".join((_SERIAL_LOOP, _STATE, _FUTEX, _CLAIM, _WORKER, _PARALLEL_FOR, SPAWN, PIN, CONFIGURE))
    replacements = {
        "$FUTEX": _FUTEX_NUMBERS[machine],
        "$WAIT": _WAIT,
        "$WAKE": _WAKE,
        "$SPINS": SPINS,
        "$STACK_BYTES": STACK_BYTES,
        "$SIG_SETMASK": _SIG_SETMASK,
        "$WORKER_ON_CPU_BYTES": MAX_CPUS * 4,
        "$MAX_CPUS": MAX_CPUS,
        "$CPU_MASK_BYTES": MAX_CPUS // 8,
        "$MAX_WORKERS": MAX_WORKERS,
    }
    for key, value in replacements.items():
        text = text.replace(key, str(value))
    return text


_SERIAL_LOOP = """
define internal void @xjit_serial_for(ptr %fn, ptr %ctx, i64 %n) {
entry:
  %any = icmp sgt i64 %n, 0
  br i1 %any, label %body, label %exit
body:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  call void %fn(ptr %ctx, i64 %i)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %body, label %exit
exit:
  ret void
}
"""

_SERIAL_ONLY = """
define void @xjit_parallel_for(ptr %fn, ptr %ctx, i64 %n) {
  call void @xjit_serial_for(ptr %fn, ptr %ctx, i64 %n)
  ret void
}
define i32 @xjit_num_threads() {
  ret i32 1
}
define i32 @xjit_pool_num_running() {
  ret i32 0
}
define i32 @xjit_pool_is_busy() {
  ret i32 0
}
define void @xjit_pool_configure(i32 %workers, ptr %cpus, i32 %num_cpus) {
  ret void
}
define void @xjit_pool_after_fork() {
  ret void
}
"""

# A slot is { fn, ctx, n, done } on a cache line of its own. All globals that threads write often have their own line,
# too.
_STATE = """
%Slot = type { ptr, ptr, i64, i32, [36 x i8] }
@xjit_ticket = internal global i64 0, align 64
@xjit_slots = internal global [4 x %Slot] zeroinitializer, align 64
@xjit_busy = internal global i32 0, align 64
@xjit_sleepers = internal global i32 0, align 64
@xjit_caller_waits = internal global i32 0, align 64
@xjit_target = internal global i32 0, align 64
@xjit_running = internal global i32 0, align 4
@xjit_threads = internal global [$MAX_WORKERS x i64] zeroinitializer, align 64
@xjit_cpus = internal global [$MAX_CPUS x i32] zeroinitializer, align 64
@xjit_num_cpus = internal global i32 0, align 4
@xjit_free_cpu = internal global i32 0, align 4
@xjit_worker_on_cpu = internal global [$MAX_CPUS x i32] zeroinitializer, align 64 ; worker + 1, or 0

declare i32 @xjit_flush_subnormals()
declare i64 @syscall(i64, ...)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_setstacksize(ptr, i64)
declare i32 @pthread_attr_destroy(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @pthread_setaffinity_np(i64, i64, ptr)
declare i32 @sched_getcpu()
declare i32 @sched_yield()
"""

_FUTEX = """
define internal void @xjit_futex_wait(ptr %word, i32 %expected) {
  %value = zext i32 %expected to i64
  %ignored = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %word, i64 $WAIT, i64 %value, ptr null, ptr null, i64 0)
  ret void
}
define internal void @xjit_futex_wake(ptr %word, i32 %count) {
  %value = zext i32 %count to i64
  %ignored = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %word, i64 $WAKE, i64 %value, ptr null, ptr null, i64 0)
  ret void
}
"""

# Returns false if the epoch of %ticket has no task left; true if a task was run, or another thread was faster.
_CLAIM = """
define internal i1 @xjit_claim(i64 %ticket) {
entry:
  %epoch = lshr i64 %ticket, 32
  %task = and i64 %ticket, 4294967295
  %index = and i64 %epoch, 3
  %slot = getelementptr [4 x %Slot], ptr @xjit_slots, i64 0, i64 %index
  %n_ptr = getelementptr %Slot, ptr %slot, i64 0, i32 2
  %n = load atomic i64, ptr %n_ptr monotonic, align 8
  %left = icmp ult i64 %task, %n
  br i1 %left, label %claim, label %none
claim:
  %fn = load atomic ptr, ptr %slot monotonic, align 8
  %ctx_ptr = getelementptr %Slot, ptr %slot, i64 0, i32 1
  %ctx = load atomic ptr, ptr %ctx_ptr monotonic, align 8
  %claimed = add i64 %ticket, 1
  %swap = cmpxchg ptr @xjit_ticket, i64 %ticket, i64 %claimed seq_cst seq_cst
  %won = extractvalue { i64, i1 } %swap, 1
  br i1 %won, label %run, label %some
run:
  call void %fn(ptr %ctx, i64 %task)
  %done_ptr = getelementptr %Slot, ptr %slot, i64 0, i32 3
  %before = atomicrmw add ptr %done_ptr, i32 1 seq_cst
  %after = add i32 %before, 1
  %n32 = trunc i64 %n to i32
  %last = icmp eq i32 %after, %n32
  br i1 %last, label %finish, label %some
finish:
  %waits = load atomic i32, ptr @xjit_caller_waits seq_cst, align 4
  %asleep = icmp ne i32 %waits, 0
  br i1 %asleep, label %wake, label %some
wake:
  call void @xjit_futex_wake(ptr %done_ptr, i32 1)
  br label %some
some:
  ret i1 true
none:
  ret i1 false
}
"""

_WORKER = """
define internal ptr @xjit_worker(ptr %argument) {
entry:
  %number = ptrtoint ptr %argument to i64
  %index = trunc i64 %number to i32
  %saved = call i32 @xjit_flush_subnormals()
  br label %loop
loop:
  %ticket = load atomic i64, ptr @xjit_ticket acquire, align 8
  %worked = call i1 @xjit_claim(i64 %ticket)
  br i1 %worked, label %loop, label %idle
idle:
  %target = load atomic i32, ptr @xjit_target acquire, align 4
  %wanted = icmp ult i32 %index, %target
  br i1 %wanted, label %spin, label %exit
spin:
  %i = phi i32 [ 0, %idle ], [ %i_next, %spin_more ]
  call void @xjit_pause()
  %seen = load atomic i64, ptr @xjit_ticket monotonic, align 8
  %same = icmp eq i64 %seen, %ticket
  br i1 %same, label %spin_more, label %loop
spin_more:
  %i_next = add i32 %i, 1
  %again = icmp ult i32 %i_next, $SPINS
  br i1 %again, label %spin, label %sleep
sleep:
  %s0 = atomicrmw add ptr @xjit_sleepers, i32 1 seq_cst
  %now = load atomic i64, ptr @xjit_ticket seq_cst, align 8
  %epoch_now = lshr i64 %now, 32
  %epoch = lshr i64 %ticket, 32
  %still = icmp eq i64 %epoch_now, %epoch
  br i1 %still, label %wait, label %awake
wait:
  %epoch32 = trunc i64 %epoch to i32
  %word = getelementptr i8, ptr @xjit_ticket, i64 4
  call void @xjit_futex_wait(ptr %word, i32 %epoch32)
  br label %awake
awake:
  %s1 = atomicrmw sub ptr @xjit_sleepers, i32 1 seq_cst
  br label %loop
exit:
  ret ptr null
}
"""

_PARALLEL_FOR = """
define void @xjit_parallel_for(ptr %fn, ptr %ctx, i64 %n) {
entry:
  %target = load atomic i32, ptr @xjit_target monotonic, align 4
  %no_workers = icmp eq i32 %target, 0
  %few = icmp slt i64 %n, 2
  %many = icmp sgt i64 %n, 2147483647
  %bad_count = or i1 %few, %many
  %alone = or i1 %no_workers, %bad_count
  br i1 %alone, label %serial, label %try
serial:
  call void @xjit_serial_for(ptr %fn, ptr %ctx, i64 %n)
  ret void
try:
  %swap = cmpxchg ptr @xjit_busy, i32 0, i32 1 acquire monotonic
  %taken = extractvalue { i32, i1 } %swap, 1
  br i1 %taken, label %prepare, label %serial
prepare:
  %running = load i32, ptr @xjit_running, align 4
  %missing = icmp ult i32 %running, %target
  br i1 %missing, label %spawn, label %placed
spawn:
  call void @xjit_spawn(i32 %running, i32 %target)
  br label %publish
placed:
  %num_cpus = load i32, ptr @xjit_num_cpus, align 4
  %pinning = icmp ne i32 %num_cpus, 0
  br i1 %pinning, label %repin, label %publish
repin:
  call void @xjit_repin()
  br label %publish
publish:
  %done_ptr = call ptr @xjit_publish(ptr %fn, ptr %ctx, i64 %n)
  %sleepers = load atomic i32, ptr @xjit_sleepers seq_cst, align 4
  %none_asleep = icmp eq i32 %sleepers, 0
  br i1 %none_asleep, label %work, label %wake
wake:
  %n32 = trunc i64 %n to i32
  %others = sub i32 %n32, 1
  %fewer = icmp ult i32 %others, %sleepers
  %count = select i1 %fewer, i32 %others, i32 %sleepers
  %word = getelementptr i8, ptr @xjit_ticket, i64 4
  call void @xjit_futex_wake(ptr %word, i32 %count)
  br label %work
work:
  %ticket = load atomic i64, ptr @xjit_ticket acquire, align 8
  %worked = call i1 @xjit_claim(i64 %ticket)
  br i1 %worked, label %work, label %join
join:
  call void @xjit_join(ptr %done_ptr, i64 %n)
  store atomic i32 0, ptr @xjit_busy release, align 4
  ret void
}

; Fills the slot of the next epoch and publishes it; returns the address of its counter of finished tasks.
define internal ptr @xjit_publish(ptr %fn, ptr %ctx, i64 %n) {
  %old = load atomic i64, ptr @xjit_ticket monotonic, align 8
  %old_epoch = lshr i64 %old, 32
  %next_epoch = add i64 %old_epoch, 1
  %ticket = shl i64 %next_epoch, 32
  %index = and i64 %next_epoch, 3
  %slot = getelementptr [4 x %Slot], ptr @xjit_slots, i64 0, i64 %index
  store atomic ptr %fn, ptr %slot monotonic, align 8
  %ctx_ptr = getelementptr %Slot, ptr %slot, i64 0, i32 1
  store atomic ptr %ctx, ptr %ctx_ptr monotonic, align 8
  %n_ptr = getelementptr %Slot, ptr %slot, i64 0, i32 2
  store atomic i64 %n, ptr %n_ptr monotonic, align 8
  %done_ptr = getelementptr %Slot, ptr %slot, i64 0, i32 3
  store atomic i32 0, ptr %done_ptr monotonic, align 4
  store atomic i64 %ticket, ptr @xjit_ticket seq_cst, align 8
  ret ptr %done_ptr
}

; Waits until all claimed tasks are finished: spins, then sleeps on the counter.
define internal void @xjit_join(ptr %done_ptr, i64 %n) {
entry:
  %n32 = trunc i64 %n to i32
  br label %spin
spin:
  %i = phi i32 [ 0, %entry ], [ %i_next, %spin_more ]
  %done = load atomic i32, ptr %done_ptr acquire, align 4
  %all = icmp eq i32 %done, %n32
  br i1 %all, label %exit, label %spin_more
spin_more:
  call void @xjit_pause()
  %i_next = add i32 %i, 1
  %again = icmp ult i32 %i_next, $SPINS
  br i1 %again, label %spin, label %doze
doze:
  store atomic i32 1, ptr @xjit_caller_waits seq_cst, align 4
  br label %check
check:
  %done_now = load atomic i32, ptr %done_ptr seq_cst, align 4
  %all_now = icmp eq i32 %done_now, %n32
  br i1 %all_now, label %up, label %wait
wait:
  call void @xjit_futex_wait(ptr %done_ptr, i32 %done_now)
  br label %check
up:
  store atomic i32 0, ptr @xjit_caller_waits seq_cst, align 4
  br label %exit
exit:
  ret void
}

define i32 @xjit_num_threads() {
  %target = load atomic i32, ptr @xjit_target monotonic, align 4
  %threads = add i32 %target, 1
  ret i32 %threads
}
define i32 @xjit_pool_num_running() {
  %running = load i32, ptr @xjit_running, align 4
  ret i32 %running
}
"""
