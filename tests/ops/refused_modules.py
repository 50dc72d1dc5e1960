"""Modules that the verifier refuses, as XLA's does: what instructions say about each other, devices, threads, memory.

A row is (what is wrong, the module's header, the entry's instructions, part of the message). The entry has x, y: f32[4]
and the computations of PRELUDE. Instructions stand in line 14. (Shapes of single instructions: shape_cases/.)
"""

from __future__ import annotations

PRELUDE = """HloModule m HEADER
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
neg { n.x = f32[4] parameter(0) ROOT n.r = f32[4] negate(n.x) }
two { t.x = f32[4] parameter(0) t.n = f32[4] negate(t.x) ROOT t.r = f32[4] abs(t.n) }
far { f.x = f32[4] parameter(0) ROOT f.r = f32[4] negate(f.x) }, execution_thread="far"
yes { c.x = f32[4] parameter(0) ROOT c.r = pred[] constant(true) }
tiled { s.x = f32[4] parameter(0), sharding={devices=[2]0,1} ROOT s.r = f32[4] negate(s.x) }
whole { w.x = f32[4] parameter(0) ROOT w.r = f32[4] negate(w.x), sharding={replicated} }
reread { d.x = f32[4] parameter(0) ROOT d.r = f32[4] abs(d.x) d.n = f32[4] negate(d.r) }
keep { k.s = (b(f32[4])) parameter(0) k.b = b(f32[4]) get-tuple-element(k.s), index=0 k.w = b(f32[4]) custom-call(k.b), custom_call_target="f", output_to_operand_aliasing={{}: (0, {})} ROOT k.r = (b(f32[4])) tuple(k.b) }
ever { v.s = (b(f32[4])) parameter(0) ROOT v.r = pred[] constant(true) }
unread { u.x = f32[4] parameter(0) u.y = f32[4] parameter(1) ROOT u.r = f32[4] abs(u.x) }
ENTRY e { x = f32[4] parameter(0) y = f32[4] parameter(1) i = s32[] parameter(2) t = token[] after-all()
"""

_PIN = 'p = b(f32[4]) custom-call(x), custom_call_target="Pin", output_to_operand_aliasing={{}: (0, {})} '
_UNPIN = 'custom-call({0}), custom_call_target="Unpin", output_to_operand_aliasing={{{{}}: (0, {{}})}} '
_WRITE = 'custom-call({0}), custom_call_target="f", output_to_operand_aliasing={{{{}}: (0, {{}})}} '
_START = "s = ((f32[4]), f32[4], s32[]) async-start(x), calls=neg "
_SEND = 'channel_id={0}, frontend_attributes={{_xla_send_recv_source_target_pairs="{1}"}} '


def _send(name: str, pairs: str, channel: int = 1) -> str:
    return f"{name} = (f32[4], u32[], token[]) send(x, t), {_SEND.format(channel, pairs)}" + (
        f"{name}d = token[] send-done({name}), channel_id={channel} "
    )


def _recv(name: str, pairs: str, channel: int = 1) -> str:
    return f"{name} = (f32[4], u32[], token[]) recv(t), {_SEND.format(channel, pairs)}" + (
        f"{name}d = (f32[4], token[]) recv-done({name}), channel_id={channel} "
    )


_GATHER = "ROOT g = f32[8] all-gather(x), dimensions={0}, replica_groups={{0,1}}"
_PERMUTE = (
    "z = s32[] constant(0) o = (s32[]) tuple(z) oo = ((s32[]), (s32[])) tuple(o, o) xy = (f32[4], f32[4]) tuple(x, y) "
    "ROOT r = {} collective-permute({}), slice_sizes={{{{2}},{{2}}}}, source_target_pairs={{{}}}"
)

REFUSED: list[tuple[str, str, str, str]] = [
    # -- starts and dones
    ("a start as the result", "", "ROOT s = (f32[4], f32[4], u32[]) copy-start(x)", "s needs one copy-done, found 0"),
    ("a start that is read twice", "", "s = (f32[4], f32[4], u32[]) copy-start(x) c = f32[4] copy-done(s) ROOT g = f32[4] get-tuple-element(s), index=1", "found 2"),
    ("an update that nothing ends", "", _START + "ROOT u = ((f32[4]), f32[4], s32[]) async-update(s)", "u needs one async-update or async-done, found 0"),
    ("two updates of one start", "", _START + "u = ((f32[4]), f32[4], s32[]) async-update(s) v = ((f32[4]), f32[4], s32[]) async-update(s) d = f32[4] async-done(u) ROOT w = f32[4] async-done(v)", "found 2: u, v"),
    ("a start in a tuple", "", "s = f32[4] all-reduce-start(x), to_apply=add ROOT r = (f32[4]) tuple(s)", "s needs one all-reduce-done, found 1: r"),
    ("an asynchronous computation of several instructions", "", "s = ((f32[4]), f32[4], s32[]) async-start(x), calls=two ROOT d = f32[4] async-done(s)", "two must be one instruction, but has t.n and t.r"),
    ("a send that nothing ends", "", "ROOT s = (f32[4], u32[], token[]) send(x, t), channel_id=1", "s needs one send-done or tuple, found 0"),
    ("a done of a channel that its start has not", "", "s = (f32[4], u32[], token[]) send(x, t) ROOT d = token[] send-done(s), channel_id=2", "channel_id=2, but s uses channel None"),
    ("a done of another channel", "", "s = (f32[4], u32[], token[]) send(x, t), channel_id=1 ROOT d = token[] send-done(s), channel_id=2", "channel_id=2, but s uses channel 1"),
    ("a done of no transfer with the host", "", "s = (f32[4], u32[], token[]) recv(t), channel_id=1, is_host_transfer=true ROOT d = (f32[4], token[]) recv-done(s), channel_id=1", "is_host_transfer differs from that of s"),
    ("a done of a tuple", "", "u = u32[] constant(0) s = (f32[4], u32[], token[]) tuple(x, u, t) ROOT d = token[] send-done(s), channel_id=1", "the operand must be send or get-tuple-element, but s is tuple"),
    # -- threads
    ("a call to another thread", "", "ROOT c = f32[4] call(x), to_apply=far", "far is for thread far"),
    ("a loop on another thread", "", "ROOT w = f32[4] while(x), condition=yes, body=far", "far is for thread far"),
    ("a branch on another thread", "", "ROOT c = f32[4] conditional(i, x, x), branch_computations={neg, far}", "far is for thread far"),
    # -- fusions
    ("a fused root with users", "", "ROOT f = f32[4] fusion(x), kind=kLoop, calls=reread", "the root d.r of the fused computation reread has users"),
    ("a fused parameter without users", "", "ROOT f = f32[4] fusion(x, y), kind=kLoop, calls=unread", "u.y of the fused computation unread has no users"),
    # -- composites
    ("a composite with empty attributes", "", 'ROOT c = f32[4] call(x), to_apply=neg, is_composite=true, frontend_attributes={composite.name="a",composite.version="1",composite.attributes=""}', "are {} or more, not empty"),
    # -- collectives
    ("a channel of a transfer", "", "s = (f32[4], u32[], token[]) send(x, t), channel_id=1 d = token[] send-done(s), channel_id=1 ROOT r = f32[4] all-reduce(x), channel_id=1, to_apply=add", "channel 1 is that of s, which is send"),
    ("a channel that is no channel", "", "ROOT r = f32[4] all-reduce(x), channel_id=0, to_apply=add", "the channel_id must be positive, got 0"),
    ("one all-reduce that keeps layouts", "", "r = f32[4] all-reduce(x), constrain_layout=true, to_apply=add ROOT s = f32[4] all-reduce(r), to_apply=add", "constrain_layout differs from that of r"),
    ("a permute of more slices than there are", "", _PERMUTE.format("f32[4]", "x, y, oo, oo", "{0,1},{0,2},{0,3}"), "name the source 0 3 times, but slices are 2"),
    ("a permute of an array into a tuple", "", _PERMUTE.format("(f32[4], f32[4])", "x, xy, oo, oo", "{0,1}"), "are not as many buffers"),
    ("offsets of another rank", "", _PERMUTE.format("f32[4]", "x, y, xy, oo", "{0,1}"), "the input offsets (f32[4], f32[4]) are not one index per dimension"),
    ("offsets of one buffer for two", "", _PERMUTE.format("(f32[4], f32[4])", "xy, xy, o, oo", "{0,1}"), "do not have one entry per buffer"),
    ("pieces of different layouts", "", "a = f32[2,3]{1,0} constant({{1,2,3},{4,5,6}}) b = f32[2,3]{0,1} constant({{1,2,3},{4,5,6}}) ROOT r = (f32[2,3]{1,0}, f32[2,3]{0,1}) all-to-all(a, b), replica_groups={{0,1}}", "operand 1 has the layout of f32[2,3]{0,1}"),
    ("offsets of rank 3", "", "o = s32[1,1,1] constant({{{0}}}) ROOT r = f32[4] ragged-all-to-all(x, y, o, o, o, o), replica_groups={}", "equal integer arrays of rank 1 or 2"),
    # -- transfers in a schedule
    ("a send without its receive", ", is_scheduled=true", _send("s", "{{0,1}}") + "ROOT r = f32[4] negate(x)", "s has no recv of the same pairs"),
    ("two receives", ", is_scheduled=true", _recv("v", "{{3,0}}") + _recv("q", "{{0,1}}", 2) + "ROOT n = f32[4] negate(x)", "v has no send of the same pairs"),
    ("a collective between", ", is_scheduled=true", _send("s", "{{0,1}}") + _GATHER, "g would wait forever: s still waits"),
    ("a circle of devices", ", is_scheduled=true", _send("s", "{{0,1},{1,0}}") + _recv("r", "{{0,1},{1,0}}") + _GATHER, "is a cycle"),
    ("a source twice", ", is_scheduled=true", _send("s", "{{0,1},{0,2}}") + _recv("r", "{{0,1},{0,2}}") + _GATHER, "names a source or a target twice"),
    ("a circle of two sends", ", is_scheduled=true", _send("s", "{{0,1}}") + _send("q", "{{1,0}}", 2) + _GATHER, "q begins while s still waits"),
    # -- shardings
    ("a loop with two shardings", "", "ROOT w = f32[4] while(x), condition=yes, body=tiled, sharding={replicated}", "they hold the same values"),
    ("branches with two shardings", "", "ROOT c = f32[4] conditional(i, x, x), branch_computations={neg, whole}, sharding={maximal device=0}", "they hold the same values"),
    ("a device twice", "", "ROOT n = f32[4] negate(x), sharding={devices=[2]1,1}", "names a device twice"),
    ("more devices than tiles", "", "ROOT n = f32[4] negate(x), sharding={devices=[2]<=[3]}", "as many devices as tiles"),
    ("a negative device", "", "ROOT n = f32[4] negate(x), sharding={maximal device=-1}", "names a negative device"),
    ("shardings of more arrays", "", "ROOT n = (f32[4]) tuple(x), sharding={{replicated}, {replicated}}", "is for 2 arrays, but (f32[4]{0}) has 1"),
    ("a tuple sharding of an array", "", "ROOT n = f32[4] negate(x), sharding={{replicated}, {replicated}}", "is for a tuple, but the result is f32[4]{0}"),
    ("an origin of another structure", "", 'ROOT n = (f32[4], f32[4]) tuple(x, y), origin={{"a"}}', 'does not have the leaves of (f32[4], f32[4])'),
    # -- memory
    ("memory that callers see in two spaces", ", input_output_alias={{}: (0, {}, must-alias)}, entry_computation_layout={(f32[4]{0:S(5)}, f32[4]{0}, s32[])->f32[4]{0}}", "ROOT n = f32[4] negate(x)", "for callers the parameter is f32[4]{0:S(5)}"),
    ("a pinned tuple", "", 'a = (f32[4]) tuple(x) p = b(f32[4]) custom-call(a), custom_call_target="Pin", output_to_operand_aliasing={{}: (0, {0})} ROOT r = f32[4] ' + _UNPIN.format("p"), "Pin takes one array, got (f32[4])"),
    ("pinned without a place", "", 'p = b(f32[4]) custom-call(x), custom_call_target="Pin" ROOT r = f32[4] ' + _UNPIN.format("p"), "must say that result and operand share their memory"),
    ("pinned to no buffer", "", 'ROOT p = f32[4] custom-call(x), custom_call_target="Pin", output_to_operand_aliasing={{}: (0, {})}', "Pin gives a buffer, not f32[4]"),
    ("pinned to another shape", "", 'p = b(f32[3]) custom-call(x), custom_call_target="Pin" ROOT r = f32[3] ' + _UNPIN.format("p"), "the operand holds f32[4], the result f32[3]"),
    ("an array that was never pinned", "", "ROOT r = f32[4] " + _UNPIN.format("x"), "Unpin takes one buffer, got f32[4]"),
    ("a buffer that is made of something", "", 'p = b(f32[4]) custom-call(x), custom_call_target="CreateBuffer" ROOT r = f32[4] ' + _UNPIN.format("p"), "CreateBuffer takes no operands"),
    ("a buffer out of nothing", "", 'p = b(f32[4]) custom-call(x), custom_call_target="f" ROOT r = f32[4] ' + _UNPIN.format("p"), "of the result must be one of the operands"),
    ("a buffer with two writers", "", _PIN + "q = b(f32[4]) " + _WRITE.format("p") + "a = f32[4] " + _UNPIN.format("p") + "ROOT r = f32[4] " + _UNPIN.format("q"), "the buffer p has 2 writers"),
    ("a buffer that is written and kept", "", _PIN + "s = (b(f32[4])) tuple(p) w = (b(f32[4])) while(s), condition=ever, body=keep q = b(f32[4]) get-tuple-element(w), index=0 ROOT r = f32[4] " + _UNPIN.format("q"), "the buffer k.s at {0} has 2 writers"),
    ("arithmetic on a buffer", "", _PIN + "ROOT n = b(f32[4]) opt-barrier(p)", "its result b(f32[4]) is or has a buffer"),
    ("a seed that is no scalar", "", 'ROOT r = u64[2] custom-call(), custom_call_target="GetRngSeed"', "GetRngSeed gives a u64[], not u64[2]{0}"),
]  # fmt: skip
