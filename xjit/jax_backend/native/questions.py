"""Questions to Python in the middle of a call, as native code: the handlers of signals may not end what answers them.

* `i64 xjit_ask(function, subject, i64 count)`: calls `void function(subject, count, ANSWER)`; the answer.
* `void xjit_call_python(result, operands, opaque, i64 length, status)`: the target of custom calls that call functions
  of Python's: a failed one, unless Python says that it was done.

Python runs such handlers at the first line of a function, too, and what they raise there ends it. So they run before,
where what they raise is kept; it is raised at the next line of Python that the thread comes to, after the call.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final

from xjit.jax_backend.records import ANSWER
from xjit.llvm import Module, Value
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I8, I32, I64, PTR, VOID
from xjit.llvm.values import const_int, zero
from xjit.runtime.native.call_functions import KEEP_SUBNORMALS, RESTORE_SUBNORMALS

UNANSWERED_ERROR: Final = "xjit_silence_error"
"""The variable that holds the address of the error for a request that Python did not answer."""

UNANSWERED: Final = 0
"""The answer where something was raised where it could not be kept: then Python is asked again."""

CALL_PYTHON: Final = "xjit_callback"
"""The variable of Python's function for `xjit_call_python`, which sets the status to 0 when it is done."""

CALL_TARGET: Final = "xjit_call_python"

_MAX_QUESTIONS: Final = 16
_NUM_QUESTIONS: Final = "xjit_num_questions"
_RAISE: Final = "xjit_raise"
_NOT_DONE: Final = -1  # a failure without a message


def ask(builder: StructuredBuilder, variable: str, subject: Value, number: Value) -> Value:
    """Emits a question to the function that a variable holds; the answer, an i64."""
    function = builder.load(PTR, Value(PTR, f"@{variable}"), align=8, name="function")
    return builder.call(builder.module.functions["xjit_ask"], [function, subject, number], name="answer")


def ask_for_error(builder: StructuredBuilder, variable: str, arguments: Sequence[Value]) -> Value:
    """Emits a request to the function that a variable holds, which writes an error, or null, to its last argument.

    Where it does not get as far as that, it is asked again, and in the end `UNANSWERED_ERROR` is the error. jaxlib
    calls some of the interface with subnormals flushed, which would end those of constants: Python keeps them.
    """
    unanswered = builder.load(PTR, Value(PTR, f"@{UNANSWERED_ERROR}"), align=8, name="unanswered")
    cell, kept = builder.alloca(PTR, align=8, name="cell"), _new_answer(builder)
    builder.store(unanswered, cell, align=8)
    function = builder.load(PTR, Value(PTR, f"@{variable}"), align=8, name="function")
    with builder.when(builder.not_(builder.is_null(function))):
        mode = builder.call(builder.module.declare(KEEP_SUBNORMALS, I32, []), [], name="mode")
        with builder.loop(builder.i64(0), builder.i64(_MAX_QUESTIONS)) as _:
            is_open = builder.icmp_signed("==", builder.load(PTR, cell, align=8), unanswered)
            with builder.when(is_open):
                _run_handlers(builder, kept)
                builder.call_pointer(function, VOID, [*arguments, cell])
        _raise_kept(builder, kept)
        builder.call(builder.module.declare(RESTORE_SUBNORMALS, VOID, [I32]), [mode])
    return builder.load(PTR, cell, align=8, name="error")


def define_questions(module: Module) -> None:
    """Defines them."""
    module.add_global(UNANSWERED_ERROR, PTR, zero(PTR), align=8, linkage="")
    module.add_global(_NUM_QUESTIONS, I64, const_int(I64, 0), align=8)
    module.add_global(CALL_PYTHON, PTR, zero(PTR), align=8, linkage="")
    _define_raise(module)
    builder = define(module, "xjit_ask", [(PTR, "function"), (PTR, "subject"), (I64, "count")], return_type=I64)
    function, subject, number = builder.function.args
    answer = _new_answer(builder)
    with builder.loop(builder.i64(0), builder.i64(_MAX_QUESTIONS)) as _:
        is_open = builder.icmp_signed("==", ANSWER.load(builder, answer, "answer"), builder.i64(UNANSWERED))
        with builder.when(is_open):
            _run_handlers(builder, answer)
            builder.call_pointer(function, VOID, [subject, number, answer])
    _raise_kept(builder, answer)
    builder.ret(ANSWER.load(builder, answer, "answer"))
    _define_call_python(module)


def _define_call_python(module: Module) -> None:
    params = [(PTR, "result"), (PTR, "operands"), (PTR, "opaque"), (I64, "length"), (PTR, "status")]
    builder = define(module, CALL_TARGET, params, linkage="")
    arguments = builder.function.args
    builder.store(builder.i64(_NOT_DONE), arguments[-1], align=8)
    answer = _new_answer(builder)
    _run_handlers(builder, answer)
    function = builder.load(PTR, Value(PTR, f"@{CALL_PYTHON}"), align=8, name="function")
    builder.call_pointer(function, VOID, arguments)
    _raise_kept(builder, answer)
    builder.ret_void()


def _new_answer(builder: StructuredBuilder) -> Value:
    answer = builder.alloca_many(I8, builder.i64(ANSWER.size), align=8, name="answer")
    ANSWER.store(builder, answer, "answer", builder.i64(UNANSWERED))
    ANSWER.store(builder, answer, "raised", zero(PTR))
    asked = builder.atomicrmw("add", Value(PTR, f"@{_NUM_QUESTIONS}"), builder.i64(1), "acq_rel", "asked")
    ANSWER.store(builder, answer, "question", asked)
    return answer


def _run_handlers(builder: StructuredBuilder, answer: Value) -> None:
    """Emits a run of Python's handlers of signals; what they raise is kept."""
    declare = builder.module.declare
    with _python(builder):
        failed = builder.call(declare("Py_MakePendingCalls", I32, []), [], name="failed")
        with builder.when(builder.icmp_signed("!=", failed, const_int(I32, 0))):
            parts = [ANSWER.pointer(builder, answer, field) for field in ("class", "raised", "traceback")]
            for name in ("PyErr_Fetch", "PyErr_NormalizeException"):
                builder.call(declare(name, VOID, [PTR] * 3), parts)
            kind, raised, trace = (builder.load(PTR, part, align=8) for part in parts)
            with builder.when(builder.not_(builder.is_null(trace))):
                builder.call(declare("PyException_SetTraceback", I32, [PTR, PTR]), [raised, trace])
            for part in (kind, trace):
                builder.call(declare("Py_DecRef", VOID, [PTR]), [part])


def _define_raise(module: Module) -> None:
    """`i32 xjit_raise(exception)`: a pending call, which Python does between two lines of its main thread."""
    builder = define(module, _RAISE, [(PTR, "exception")], return_type=I32)
    (exception,) = builder.function.args
    kind = builder.call(module.declare("PyObject_Type", PTR, [PTR]), [exception], name="class")
    builder.call(module.declare("PyErr_SetObject", VOID, [PTR, PTR]), [kind, exception])
    for part in (kind, exception):
        builder.call(module.declare("Py_DecRef", VOID, [PTR]), [part])
    builder.ret(const_int(I32, -1))


def _raise_kept(builder: StructuredBuilder, answer: Value) -> None:
    """Emits that what was kept is raised: handlers run in the main thread alone."""
    raised = ANSWER.load(builder, answer, "raised")
    with builder.when(builder.not_(builder.is_null(raised))):
        add = builder.module.declare("Py_AddPendingCall", I32, [PTR, PTR])
        builder.call(add, [Value(PTR, f"@{_RAISE}"), raised])


@contextmanager
def _python(builder: StructuredBuilder) -> Generator[None]:
    """What is emitted inside has the GIL."""
    state = builder.call(builder.module.declare("PyGILState_Ensure", I32, []), [], name="state")
    yield
    builder.call(builder.module.declare("PyGILState_Release", VOID, [I32]), [state])
