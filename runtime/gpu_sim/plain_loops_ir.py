"""The fast way for kernels whose threads never wait: loops over blocks and threads around the kernel's body."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.llvm import Module
from xjit.llvm.module import Declaration
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import DOUBLE, FLOAT, I8, I32, PTR, VOID, LLVMType, int_type
from xjit.llvm.values import Value
from xjit.runtime.gpu_sim.fields import Fields
from xjit.runtime.gpu_sim.records import LAUNCH, THREAD

RUN_PLAIN = "xjit_sim_run_plain"
_AXES = ("x", "y", "z")
_TYPES: dict[str, LLVMType] = {"float": FLOAT, "double": DOUBLE}


def plain_loops_ir(body: str, parameters: Sequence[str]) -> str:
    """Returns `void xjit_sim_run_plain(ptr launch)`, to be put beside the body that it calls.

    The body takes a thread and `parameters` (LLVM types). A `Thread` lives in registers once the body is inlined: only
    the facts that it reads are set.
    """
    module = Module("plain_loops")
    b = define(module, RUN_PLAIN, [(PTR, "launch")], linkage="")
    launch = Fields(b, LAUNCH, b.function.args[0])
    types = [PTR if text.startswith("ptr") else _TYPES.get(text) or int_type(int(text[1:])) for text in parameters]
    arguments = [b.load(kind, b.offset(launch["arguments"], b.i64(8 * n)), 8) for n, kind in enumerate(types)]
    thread = Fields(b, THREAD, b.alloca(I8, THREAD.size, align=8, name="thread"))
    counts = {fact: [launch[f"{fact}.{axis}"] for axis in _AXES] for fact in ("nctaid", "ntid")}
    for fact, values in counts.items():
        for axis, value in zip(_AXES, values):
            thread[f"{fact}.{axis}"] = b.trunc(value, I32)
    callee = Declaration(body, VOID, (PTR, *types))
    extents = [*reversed(counts["nctaid"]), *reversed(counts["ntid"])]
    facts = [f"{fact}.{axis}" for fact in ("ctaid", "tid") for axis in reversed(_AXES)]
    reverse = launch.is_("reverse", 1)

    def nest(level: int, coordinates: list[Value]) -> None:
        if level < len(extents):
            with b.loop(b.i64(0), extents[level], name=facts[level].replace(".", "_")) as number:
                last = b.sub(b.sub(extents[level], b.i64(1)), number)
                nest(level + 1, [*coordinates, b.select(reverse, last, number)])
            return
        for fact, coordinate in zip(facts, coordinates):
            thread[fact] = b.trunc(coordinate, I32)
        thread["index"] = b.trunc(_linear(b, coordinates[3:], counts["ntid"]), I32)
        b.call(callee, [thread.base, *arguments])

    nest(0, [])
    b.ret_void()
    return module.functions[RUN_PLAIN].to_text() + "\n"


def _linear(b: StructuredBuilder, coordinates: Sequence[Value], extents: Sequence[Value]) -> Value:
    z, y, x = coordinates
    return b.add(b.mul(b.add(b.mul(z, extents[1]), y), extents[0]), x)
