"""The objects behind PJRT's opaque handles: structs that native code reads and Python fills.

Every handle is the address of one of these. The first word is zero: the caller looks there for a table of functions of
its own. Strings and arrays are a pointer and a length; what they point to lives as long as the process, or the object.
"""

from __future__ import annotations

from typing import Final

from xjit.llvm.struct_layout import StructLayout
from xjit.llvm.types import I32, I64, PTR

ERROR: Final = StructLayout(
    "Error", (("vtable", PTR), ("references", I64), ("code", I64), ("message", PTR), ("message_size", I64))
)
"""An error. Static ones have so many references that they never end; of others the message follows the struct."""

EVENT: Final = StructLayout(
    "Event", (("vtable", PTR), ("references", I64), ("waiting", PTR), ("error", PTR), ("in_queue", I64))
)
"""Something that is ready (`waiting` is `READY`) or not yet: then `waiting` is a list of `CALLBACK`s and `in_queue` is
not 0 if a job makes it ready that has its place in a queue.
"""

READY: Final = 1
"""The value of `waiting` of an event that is ready."""

CALLBACK: Final = StructLayout("Callback", (("next", PTR), ("function", PTR), ("argument", PTR), ("subject", PTR)))
"""To be called when an event is ready: `void function(error, argument)`, or `(subject, argument)` if there is one."""

MEMORY: Final = StructLayout(
    "Memory",
    (
        ("vtable", PTR),
        ("id", I32),
        ("kind_id", I32),
        ("kind", PTR),
        ("kind_size", I64),
        ("debug_string", PTR),
        ("debug_string_size", I64),
        ("to_string", PTR),
        ("to_string_size", I64),
        ("devices", PTR),
        ("num_devices", I64),
    ),
)
"""A memory space of a device."""

DEVICE: Final = StructLayout(
    "Device",
    (
        ("vtable", PTR),
        ("id", I32),
        ("process_index", I32),
        ("is_addressable", I32),
        ("kind_size", I64),
        ("kind", PTR),
        ("debug_string", PTR),
        ("debug_string_size", I64),
        ("to_string", PTR),
        ("to_string_size", I64),
        ("memories", PTR),
        ("num_memories", I64),
        ("default_memory", PTR),
        ("own_address", PTR),  # a device is its own description
        ("queue", PTR),  # a QUEUE
        ("is_host", I32),  # whether its memory is this machine's
        ("freed", PTR),  # else: memory that nobody needs any more, a FREED each, the latest first
    ),
)
"""A device and its description."""

FREED: Final = StructLayout("Freed", (("next", PTR), ("data", PTR)))
"""Memory of a device that Python gives back, when it is asked for some, or at the end of a call."""

QUEUE: Final = StructLayout(
    "Queue",
    (
        ("first", PTR),  # a JOB, as is `last`
        ("last", PTR),
        ("length", I64),  # jobs that are not done
        ("num_done", I64),  # and those that were, since the process began
        ("has_worker", I32),
        ("mutex", PTR),  # a pthread_mutex_t
        ("changed", PTR),  # a pthread_cond_t
    ),
)
"""What a device has to do, in order. A thread of its own does it, which starts with the first job."""

PTHREAD_SIZE: Final = 128
"""At least the bytes of a `pthread_mutex_t` or a `pthread_cond_t`; zeros are one that is initialized."""

JOB: Final = StructLayout("Job", (("next", PTR), ("run", PTR), ("queued", PTR), ("awaited", PTR)))
"""The first fields of what a queue holds. `ptr awaited(job)` is an event that it waits for and that no queue will make
ready, or null: only then it gets a place. `void queued(job)` is called when it has that, before any job that comes
later; `void run(job)` does it and frees it.
"""

CALL: Final = StructLayout(
    "Call",
    (
        *JOB.fields,
        ("executable", PTR),
        ("device", PTR),
        ("group", I64),  # the number of the GROUP that it belongs to, 0 for none
        ("event", PTR),  # that of the results; the call has a reference
        ("hold", I64),  # how it holds arguments: HOLD or QUEUED
        ("arguments", PTR),  # a BUFFER each
        ("donated", PTR),  # the memory of each argument if it was taken, else null
        ("inputs", PTR),  # the memory of each leaf of the parameters
        ("data", PTR),  # the memory of each result
        ("outputs", PTR),  # the memory of each leaf of the results
        ("results", PTR),  # a BUFFER each
    ),
)
"""One call of a program on one device."""

GROUP: Final = StructLayout("Group", (("count", I64), ("order", PTR), ("calls", PTR)))
"""One call of a program whose devices meet: a CALL for each of them. `order` is that of EXECUTABLE's `part_order`."""

COPY: Final = StructLayout(
    "Copy",
    (
        *JOB.fields,
        ("hold", I64),  # how it holds the source: HOLD or QUEUED
        ("source", PTR),
        ("data", PTR),
        ("target", PTR),
        ("event", PTR),  # of the target
    ),
)
"""A copy of a buffer; `data` is the source's: the buffer may be donated before the copy is made."""

ANSWER: Final = StructLayout(
    "Answer", (("answer", I64), ("raised", PTR), ("class", PTR), ("traceback", PTR), ("question", I64))
)
"""What Python answers in the middle of a call, and what a signal's handler has raised (a reference), or null.

`question` is the number of the question, which Python may be asked more than once.
"""

CLIENT: Final = StructLayout(
    "Client",
    (
        ("vtable", PTR),
        ("process_index", I32),
        ("num_devices", I64),
        ("devices", PTR),
        ("memories", PTR),
        ("num_memories", I64),
        ("platform_name", PTR),
        ("platform_name_size", I64),
        ("platform_version", PTR),
        ("platform_version_size", I64),
    ),
)
"""The client; it is its own topology."""

BUFFER: Final = StructLayout(
    "Buffer",
    (
        ("vtable", PTR),
        ("references", I64),  # of this struct: the handle, and every hold
        ("holds", I64),  # of the data: HOLDs of the owner, external references and running calls, and QUEUED ones
        ("external_references", I64),  # a NumPy view, for example: who has one keeps the array from donations
        ("data", PTR),
        ("num_bytes", I64),
        ("is_deleted", I32),
        ("type", I32),
        ("rank", I64),
        ("dimensions", PTR),  # they follow the struct
        ("minor_to_major", PTR),  # likewise
        ("tiles", PTR),  # text that ends with a zero and never goes, or null: the tiles that its layout names
        ("device", PTR),
        ("memory", PTR),
        ("ready", PTR),  # an EVENT
        ("host_event", PTR),  # an EVENT that is set when the data is not needed: it belongs to the caller; or null
        ("is_on_host", I32),  # as its device is
    ),
)
"""An array. Its data is a block of the warm pool, or its device's, unless there is a `host_event`."""

HOLD: Final = 1
QUEUED: Final = 1 << 32
"""The hold of a job in the queue of the buffer's device, and of who makes the data: what comes later in that queue may
overwrite it, and waits for who makes it.
"""

EXECUTABLE: Final = StructLayout(
    "Executable",
    (
        ("vtable", PTR),
        ("is_destroyed", I32),
        ("is_deleted", I32),
        ("returned_errors", I64),  # which failures are the error of the call, not that of its results: RETURNED_*
        ("dispatch", I64),  # one of DISPATCH_*
        ("calls_functions", I64),  # whether it calls functions of users, Python's for example
        ("num_pending", I64),  # calls that are queued or run by another thread
        ("num_replicas", I64),
        ("num_partitions", I64),
        ("num_parameters", I64),
        ("num_results", I64),
        ("parameters", PTR),  # an ARRAY each
        ("results", PTR),  # an ARRAY each
        ("entry", PTR),  # null for what Python runs
        ("constants", PTR),
        ("arena_size", I64),
        ("initial_context", PTR),
        ("devices", PTR),
        ("num_devices", I64),
        ("parts", PTR),  # of a program of several devices: an EXECUTABLE for each
        ("part_order", PTR),  # likewise: their numbers (i64), in the order in which all programs lock queues
        ("name", PTR),
        ("name_size", I64),
        ("fingerprint", PTR),
        ("fingerprint_size", I64),
        ("code_size", I64),
        ("result_types", PTR),  # an i32 each
        ("result_dimensions", PTR),  # of all results, one after the other
        ("result_ranks", PTR),  # an i64 each
        ("result_memory_kinds", PTR),
        ("result_memory_kind_sizes", PTR),
        ("result_layouts", PTR),  # a LAYOUT each
        ("parameter_layouts", PTR),  # likewise
        ("parameter_shardings", PTR),  # a serialized OpSharding each; null where nothing is said of shardings
        ("parameter_sharding_sizes", PTR),
        ("num_parameter_shardings", I64),
        ("num_result_shardings", I64),
        ("result_shardings", PTR),
        ("result_sharding_sizes", PTR),
        ("own_address", PTR),  # a loaded executable is its own executable
        ("number", I64),  # by which Python knows it
    ),
)
"""A loaded program."""

RETURNED_NONE: Final = 0
RETURNED_MEMORY: Final = 1
RETURNED_ALL: Final = 2
"""None, a lack of memory, or all. What a device of several fails with is the error of its results."""

DISPATCH_TOGETHER: Final = 0
"""The parts of all devices go to their queues at once: they meet while they run."""

DISPATCH_SHORT: Final = 1
"""The caller's thread runs it if all its arguments are there: of all devices, one after the other."""

DISPATCH_LONG: Final = 2
"""It always goes to the queue of its device."""

LAYOUT: Final = StructLayout("Layout", (("vtable", PTR), ("is_static", I64), ("text_size", I64)))
"""A layout; its text follows. What is static belongs to an executable and ends with that."""

ARRAY: Final = StructLayout(
    "Array",
    (
        ("type", I64),
        ("num_bytes", I64),
        ("rank", I64),
        ("dimensions", PTR),
        ("leaf", I64),  # its number for the entry, -1 for a token, which has no data
        ("donated_to", I64),  # of a parameter: the result that may take its memory, -1 for none, -2 if it just ends
        ("donated_from", I64),  # of a result: that parameter, or -1
        ("memory", I64),  # of a result: the number of its memory among those of the device
        ("minor_to_major", PTR),  # null for row-major
        ("tiles", PTR),  # as a buffer has them
    ),
)
"""A parameter or result of an executable."""

NO_LEAF: Final = -1
NOT_DONATED: Final = -1
DONATED_WITHOUT_RESULT: Final = -2
