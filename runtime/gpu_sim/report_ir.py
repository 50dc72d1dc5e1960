"""How native code notes findings: one per kind and instruction, in a table that Python reads after the launch."""

from __future__ import annotations

from xjit.llvm import Module
from xjit.llvm.structured_builder import define
from xjit.llvm.types import I32, I64, PTR
from xjit.llvm.values import Value
from xjit.runtime.gpu_sim.fields import Fields, both, element
from xjit.runtime.gpu_sim.records import FINDING, LAUNCH, THREAD
from xjit.runtime.gpu_sim.shadow_record import ordinal_of, thread_of

_PARAMS = (
    (PTR, "thread"),
    (I32, "kind"),
    (I32, "site"),
    (I32, "object"),
    (I64, "offset"),
    (I64, "bytes"),
    (I64, "other"),
    (I32, "other_access"),
)


def define_report(module: Module) -> None:
    """Defines `void xjit_sim_report(thread, kind, site, object, i64 offset, i64 bytes, i64 other, other_access)`.

    `other` is the record of the other access, 0 if there is none.
    """
    b = define(module, "xjit_sim_report", _PARAMS)
    thread = Fields(b, THREAD, b.function.args[0])
    values: dict[str, Value] = {name: value for (_, name), value in zip(_PARAMS, b.function.args)}
    launch = Fields(b, LAUNCH, thread["launch"])
    count = launch["num_findings"]
    with b.loop(b.i64(0), count, name="known") as number:
        known = element(b, FINDING, launch["findings"], number)
        with b.when(both(b, known.is_("kind", values["kind"]), known.is_("site", values["site"]))):
            b.ret_void()
    with b.when(b.icmp_signed("<", count, launch["max_findings"])):
        finding = element(b, FINDING, launch["findings"], count)
        for field in ("kind", "site", "object", "offset", "bytes", "other_access"):
            finding[field] = values[field]
        finding["thread"] = thread["index"]
        finding["ordinal"] = b.trunc(launch["ordinal"], I32)
        finding["other_thread"] = b.trunc(thread_of(b, values["other"]), I32)
        finding["other_ordinal"] = b.trunc(b.sub(ordinal_of(b, values["other"]), b.i64(1)), I32)
        launch["num_findings"] = b.add(count, b.i64(1))
    b.ret_void()
