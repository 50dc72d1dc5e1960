"""Several devices, evaluated and compiled: values that are written out, XLA:CPU on four host devices, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from tests.support import xla_devices
from xjit.hlo.diagnostics import ExecutionError, HloParseError, HloVerifyError, InvalidArgument, Unsupported

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }"
F32 = np.float32


def module(body: str, replicas: int = 1, partitions: int = 1, others: str = "") -> str:
    """Returns a module of so many devices."""
    return (
        f"HloModule m, replica_count={replicas}, num_partitions={partitions}\n{ADD}\n{others}\nENTRY e {{\n{body}\n}}"
    )


def numbered(replicas: int, partitions: int = 1, size: int = 1) -> list[list[np.ndarray]]:
    """Inputs of device n: one array that counts from 10 n."""
    return [[np.arange(size, dtype=F32) + 10 * n] for n in range(replicas * partitions)]


def run(body: str, replicas: int, partitions: int = 1, size: int = 1, others: str = "") -> list[list[float]]:
    """Returns the result of each device as a list; what is compiled must agree."""
    text, inputs = module(body, replicas, partitions, others), numbered(replicas, partitions, size)
    results = [np.asarray(r).reshape(-1).tolist() for r in xjit.evaluate(text, inputs)]
    if " recv(" in text:  # which is not compiled
        return results
    compiled = xjit.compile(text).execute_sharded(inputs)
    assert [np.asarray(r).reshape(-1).tolist() for r in compiled] == results
    return results


def test_all_reduce_in_the_four_group_modes() -> None:
    text = "x = f32[1] parameter(0) ROOT r = f32[1] all-reduce(x), to_apply=add, "
    both = "channel_id=1, replica_groups={{0},{1}}"
    # Devices (replica, partition) 0: (0, 0), 1: (0, 1), 2: (1, 0), 3: (1, 1) hold 0, 10, 20, 30.
    assert run(text + "replica_groups={{0,1}}", 2, 2) == [[20], [40], [20], [40]]
    assert run(text + both, 2, 2) == [[10], [10], [50], [50]]
    assert run(text + "channel_id=1, replica_groups={{0,1}}", 2, 2) == [[60], [60], [60], [60]]
    flat = "channel_id=1, use_global_device_ids=true, replica_groups={{0,3},{1,2}}"
    assert run(text + flat, 2, 2) == [[30], [30], [30], [30]]
    assert run(text + "replica_groups={}", 2, 2) == [[20], [40], [20], [40]]
    assert run(text + "channel_id=1, replica_groups={}", 2, 2) == [[60], [60], [60], [60]]


def test_opcodes_without_global_ids_go_across_partitions_when_they_have_a_channel() -> None:
    text = "x = f32[1] parameter(0) ROOT r = f32[1] collective-permute(x), source_target_pairs={{0,1}}"
    assert run(text, 2, 2) == [[0], [0], [0], [10]]
    assert run(text + ", channel_id=1", 2, 2) == [[0], [0], [0], [20]]
    text = "x = f32[2] parameter(0) ROOT r = f32[2] all-to-all(x), dimensions={0}, channel_id=1, replica_groups={{0,1}}"
    assert run(text, 2, 2, size=2) == [[0, 10], [1, 11], [20, 30], [21, 31]]


def test_results_follow_the_order_of_the_group() -> None:
    text = "x = f32[1] parameter(0) ROOT r = f32[2] all-gather(x), dimensions={0}, replica_groups={{1,0}}"
    assert run(text, 2) == [[10, 0], [10, 0]]
    text = "x = f32[2] parameter(0) ROOT r = f32[1] reduce-scatter(x), dimensions={0}, to_apply=add, replica_groups={{1,0}}"
    assert run(text, 2, size=2) == [[12], [10]]


def test_iota_groups() -> None:
    text = "x = f32[1] parameter(0) ROOT r = f32[1] all-reduce(x), to_apply=add, replica_groups="
    assert run(text + "[2,2]<=[4]", 4) == [[10], [10], [50], [50]]
    assert run(text + "[2,2]<=[2,2]T(1,0)", 4) == [[20], [40], [20], [40]]


def test_ids() -> None:
    text = "r = u32[] replica-id() p = u32[] partition-id() c = u32[] constant(10) m = u32[] multiply(r, c) ROOT s = u32[] add(m, p)"
    assert xjit.evaluate(module(text, 2, 3), [[]] * 6) == [0, 1, 2, 10, 11, 12]
    assert xjit.compile(module(text, 2, 3)).execute_sharded([[]] * 6) == [0, 1, 2, 10, 11, 12]


def test_broadcast_reaches_its_group_and_no_other_device() -> None:
    text = "x = f32[1] parameter(0) ROOT r = f32[1] collective-broadcast(x), replica_groups={{2,0}}"
    assert run(text, 3) == [[20], [0], [20]]


def test_tuple_all_to_all() -> None:
    text = (
        "x = f32[1] parameter(0) y = f32[1] add(x, x) t = (f32[1], f32[1]) all-to-all(x, y), replica_groups={{0,1}} "
        "a = f32[1] get-tuple-element(t), index=0 b = f32[1] get-tuple-element(t), index=1 "
        "ROOT r = f32[2] concatenate(a, b), dimensions={0}"
    )
    assert run(text, 2) == [[0, 10], [0, 20]]


def test_ragged_all_to_all() -> None:
    text = module(
        "x = f32[3] parameter(0) o = f32[4] parameter(1) i = s32[2] parameter(2) s = s32[2] parameter(3) "
        "t = s32[2] parameter(4) v = s32[2] parameter(5) "
        "ROOT r = f32[4] ragged-all-to-all(x, o, i, s, t, v), replica_groups={{0,1}}",
        2,
    )
    rows = np.zeros(4, F32)
    first = [np.array([1, 2, 3], F32), rows, *(np.array(v, np.int32) for v in ([0, 1], [1, 2], [0, 0], [1, 1]))]
    second = [np.array([4, 5, 6], F32), rows, *(np.array(v, np.int32) for v in ([0, 1], [1, 2], [1, 2], [2, 2]))]
    for a, b in (xjit.evaluate(text, [first, second]), xjit.compile(text).execute_sharded([first, second])):
        assert a.tolist() == [1, 4, 0, 0] and b.tolist() == [2, 3, 5, 6]
    second[4] = np.array([1, 3], np.int32)
    with pytest.raises(ExecutionError, match=r"ragged-all-to-all 'r': device 1 asks for rows 3 to 5 of 4"):
        xjit.compile(text).execute_sharded([first, second])


def test_asynchronous_forms() -> None:
    others = "work { p = f32[2] parameter(0) ROOT r = f32[1] reduce-scatter(p), dimensions={0}, to_apply=add, replica_groups={} }"
    text = (
        "x = f32[2] parameter(0) s = f32[2] all-reduce-start(x), to_apply=add, replica_groups={} "
        "d = f32[2] all-reduce-done(s) g = (f32[2], f32[4]) all-gather-start(x), dimensions={0}, replica_groups={} "
        "h = f32[4] all-gather-done(g) "
        "p = (f32[2], f32[2]) collective-permute-start(x), source_target_pairs={{0,1},{1,0}} "
        "q = f32[2] collective-permute-done(p) a = ((f32[2]), f32[1]) async-start(x), calls=work "
        "b = f32[1] async-done(a), calls=work ROOT r = f32[9] concatenate(d, h, q, b), dimensions={0}"
    )
    assert run(text, 2, size=2, others=others) == [
        [10, 12, 0, 1, 10, 11, 10, 11, 10],
        [10, 12, 0, 1, 10, 11, 0, 1, 12],
    ]


LOOP = """
body { p = (s32[], f32[1]) parameter(0) i = s32[] get-tuple-element(p), index=0 one = s32[] constant(1)
  j = s32[] add(i, one) v = f32[1] get-tuple-element(p), index=1
  w = f32[1] all-reduce(v), to_apply=add, replica_groups={{0,1}}
  ROOT t = (s32[], f32[1]) tuple(j, w) }
cond { p = (s32[], f32[1]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT }"""


def test_collectives_in_loops_meet_once_per_iteration() -> None:
    text = (
        "x = f32[1] parameter(0) z = s32[] constant(0) t = (s32[], f32[1]) tuple(z, x) "
        "w = (s32[], f32[1]) while(t), condition=cond, body=body ROOT r = f32[1] get-tuple-element(w), index=1"
    )
    assert run(text, 2, others=LOOP) == [[40], [40]]


BRANCHES = """
yes { p = f32[1] parameter(0) ROOT r = f32[1] all-reduce(p), to_apply=add, replica_groups={%s} }
no { p = f32[1] parameter(0) ROOT r = f32[1] negate(p) }"""
DIVERGE = (
    "x = f32[1] parameter(0) i = u32[] replica-id() z = u32[] constant(0) c = pred[] compare(i, z), direction=EQ "
    "ROOT r = f32[1] conditional(c, x, x), true_computation=yes, false_computation=no"
)


def test_devices_may_take_different_branches() -> None:
    assert run(DIVERGE, 2, others=BRANCHES % "{0},{1}") == [[0], [-10]]


def test_devices_that_wait_for_ever_are_an_error() -> None:
    text, inputs = module(DIVERGE, 2, others=BRANCHES % "{0,1}"), numbered(2)
    with pytest.raises(ExecutionError, match=r"devices wait for each other: r\S* of devices \[0\] waits for \[1\]"):
        xjit.evaluate(text, inputs)
    with pytest.raises(
        ExecutionError, match=r"wait for each other for ever: all-gather.* of devices \[0\] waits for \[1\]"
    ):
        xjit.compile(text).execute_sharded(inputs)


def test_an_error_on_one_device_stops_all() -> None:
    text = module("x = f32[1] parameter(0) ROOT r = f32[1] all-reduce(x), to_apply=add, replica_groups={}", 2)
    with pytest.raises(InvalidArgument, match=r"argument 0 'x' is float32\[2\]"):
        xjit.evaluate(text, [[np.zeros(1, F32)], [np.zeros(2, F32)]])


@pytest.mark.parametrize("arrays", [(), (np.zeros(1, F32),), ([[np.zeros(1, F32)]],), ([[np.zeros(1, F32)]] * 3,)])
def test_inputs_for_another_number_of_devices_are_refused(arrays: tuple[object, ...]) -> None:
    text = module("x = f32[1] parameter(0) ROOT r = f32[1] all-reduce(x), to_apply=add, replica_groups={}", 2)
    with pytest.raises(InvalidArgument, match=r"m runs on 2 devices \(replica_count=2, num_partitions=1\)"):
        xjit.evaluate(text, *arrays)
    with pytest.raises(InvalidArgument):
        xjit.evaluate(text, *arrays, inputs_per_device=[[np.zeros(1, F32)]])


def test_one_device_takes_one_list_by_keyword() -> None:
    text = module("x = f32[1] parameter(0) ROOT r = f32[1] negate(x)")
    assert [r.tolist() for r in xjit.evaluate(text, inputs_per_device=[[np.ones(1, F32)]])] == [[-1]]


NAMES_MORE = [
    "all-reduce(x), to_apply=add, replica_groups={{0,1}}",
    "all-reduce(x), to_apply=add, replica_groups=[1,2]<=[2]",
    "all-to-all(x), dimensions={0}, replica_groups={{0,1}}",
    "collective-permute(x), source_target_pairs={{1,0}}",
    "collective-broadcast(x), replica_groups={{1,0}}",
]


@pytest.mark.parametrize("instruction", NAMES_MORE)
def test_one_device_is_never_taken_for_two(instruction: str) -> None:
    text = module(f"x = f32[2] parameter(0) ROOT r = f32[2] {instruction}")
    with pytest.raises(Unsupported, match="names replica 1, but the module runs on one replica"):
        xjit.evaluate(text, np.zeros(2, F32))
    with pytest.raises(Unsupported):
        xjit.compile(text)
    parsed = xjit.parse_hlo(text)
    assert not xjit.run_passes(parsed, ["single-device-canonicalizer", "collective-expander"])


@pytest.mark.parametrize(("replicas", "partitions"), [(2, 1), (2, 2)])
def test_programs_of_several_replicas_run_on_all(replicas: int, partitions: int) -> None:
    text = module("x = f32[1] parameter(0) ROOT r = f32[1] negate(x)", replicas, partitions)
    executable, count = xjit.compile(text), replicas * partitions
    assert executable.execute_sharded(numbered(replicas, partitions)) == [[-10.0 * n] for n in range(count)]
    with pytest.raises(InvalidArgument, match=rf"runs on {count} devices .*: call execute_sharded"):
        executable(np.zeros(1, F32))
    with pytest.raises(InvalidArgument, match=rf"runs on {count} devices, got inputs for 1"):
        executable.execute_sharded(numbered(1))
    with pytest.raises(InvalidArgument, match=r"device 1: parameter 0 'x': expected f32\[1\]"):
        executable.execute_sharded([[np.zeros(i + 1, F32)] for i in range(count)])


def test_a_program_before_partitioning_is_one_program() -> None:
    text = module(
        'x = f32[1] parameter(0) s = f32[1] custom-call(x), custom_call_target="Sharding", sharding={replicated} '
        "ROOT r = f32[1] negate(s)",
        1,
        2,
    )
    ones = np.ones(1, F32)
    assert xjit.evaluate(text, ones).tolist() == xjit.compile(text)(ones).tolist() == [-1]
    assert [r.tolist() for r in xjit.evaluate(text, [[ones], [2 * ones]])] == [[-1], [-2]]
    assert xjit.compile(module("ROOT r = u32[] partition-id()", 1, 2)).execute_sharded([[], []]) == [0, 1]


def test_shapes_must_fit_the_groups() -> None:
    text = module("x = f32[1] parameter(0) ROOT r = f32[3] all-gather(x), dimensions={0}, replica_groups=[1,2]<=[2]", 2)
    with pytest.raises(HloVerifyError, match="differ by the factor 3, but groups have 2 devices"):
        xjit.evaluate(text, numbered(2))


MANUAL = ", sharding={manual}"
ORACLE: dict[str, tuple[int, int, str]] = {
    "all-reduce": (2, 2, "f32[4] all-reduce(x), to_apply=add, replica_groups={{0,1}}"),
    "all-reduce of replicas and partitions": (
        2, 2, "f32[4] all-reduce(x), to_apply=add, channel_id=1, replica_groups={{1},{0}}",
    ),
    "all-gather of replicas and partitions": (
        2, 2, "f32[16] all-gather(x), dimensions={0}, channel_id=1, replica_groups={{1,0}}",
    ),
    "all-gather by iota": (4, 1, "f32[8] all-gather(x), dimensions={0}, replica_groups=[2,2]<=[2,2]T(1,0)"),
    "all-gather by device": (
        2, 2,
        "f32[8] all-gather(x), dimensions={0}, channel_id=1, use_global_device_ids=true, replica_groups={{3,0},{1,2}}",
    ),
    "reduce-scatter": (4, 1, "f32[2] reduce-scatter(x), dimensions={0}, to_apply=add, replica_groups={{2,0},{1,3}}"),
    "all-to-all": (4, 1, "f32[4] all-to-all(x), dimensions={0}, replica_groups={{3,1,0,2}}"),
    "all-to-all of partitions": (
        2, 2, "f32[4] all-to-all(x), dimensions={0}, channel_id=1, replica_groups={{1,0}}",
    ),
    "collective-permute": (4, 1, "f32[4] collective-permute(x), source_target_pairs={{0,1},{1,2},{2,3}}"),
    "collective-permute of partitions": (
        2, 2, "f32[4] collective-permute(x), channel_id=1, source_target_pairs={{0,1}}",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[np.ndarray]] | str]:
    """What XLA computes for every case of ORACLE."""
    pytest.importorskip("jax")
    cases = [(oracle_text(name), r, p, numbered(r, p, 4)) for name, (r, p, _) in ORACLE.items()]
    return dict(zip(ORACLE, xla_devices.run_cases(cases, tmp_path_factory.mktemp("xla")), strict=True))


def oracle_text(name: str) -> str:
    """A module of one collective; XLA's partitioner leaves manually partitioned instructions as they are."""
    replicas, partitions, instruction = ORACLE[name]
    mark = MANUAL if partitions > 1 else ""
    return module(f"x = f32[4] parameter(0){mark}\nROOT r = {instruction}{mark}", replicas, partitions)


@pytest.mark.parametrize("name", ORACLE)
def test_values_are_those_of_xla(name: str, answers: dict[str, list[list[np.ndarray]] | str]) -> None:
    replicas, partitions, _ = ORACLE[name]
    text, inputs, expected = oracle_text(name), numbered(replicas, partitions, 4), answers[name]
    assert not isinstance(expected, str), expected
    for got in (xjit.evaluate(text, inputs), xjit.compile(text).execute_sharded(inputs)):
        assert [r.tolist() for r in got] == [leaves[0].tolist() for leaves in expected]


def transfer(pairs: str, channel: str = "channel_id=1") -> str:
    """Every device sends its parameter to its peer, and returns what it receives."""
    note = f'frontend_attributes={{_xla_send_recv_source_target_pairs="{pairs}"}}'
    channel = f"{channel}, " if channel else ""
    return f"""x = f32[1] parameter(0)
  t = token[] after-all()
  r = (f32[1], u32[], token[]) recv(t), {channel}{note}
  s = (f32[1], u32[], token[]) send(x, t), {channel}{note}
  d = (f32[1], token[]) recv-done(r), {channel}{note}
  e = token[] send-done(s), {channel}{note}
  ROOT v = f32[1] get-tuple-element(d), index=0"""


def test_send_and_recv_between_partitions_replicas_and_both() -> None:
    assert run(transfer("{{0,1},{1,2}}"), 1, 3) == [[0], [0], [10]]
    assert run(transfer("{{0,1},{1,0}}"), 1, 2) == [[10], [0]]
    assert run(transfer("{{0,1}}"), 2, 2) == [[0], [0], [0], [20]]  # partitions of each replica
    assert run(transfer("{{0,1},{1,0}}", ""), 2, 2) == [[20], [30], [0], [10]]  # replicas of each partition
    assert run(transfer("{{0,1},{1,0}}"), 2) == [[10], [0]]


def test_values_of_a_channel_come_in_the_order_of_their_sending() -> None:
    note = 'frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1}}"}'
    rounds = [
        f"""s{i} = (f32[1], u32[], token[]) send({x}, t), channel_id=1, {note}
  r{i} = (f32[1], u32[], token[]) recv(t), channel_id=1, {note}
  d{i} = (f32[1], token[]) recv-done(r{i}), channel_id=1, {note}
  v{i} = f32[1] get-tuple-element(d{i}), index=0
  e{i} = token[] send-done(s{i}), channel_id=1, {note}"""
        for i, x in enumerate(("x", "y"))
    ]
    body = "x = f32[1] parameter(0)\n  t = token[] after-all()\n  y = f32[1] exponential(x)\n" + "\n".join(rounds)
    assert run(body + "\n  ROOT c = f32[2] concatenate(v0, v1), dimensions={0}", 1, 2) == [[0, 0], [0, 1]]


@pytest.mark.parametrize(
    ("pairs", "channel", "error", "message"),
    [
        ("{{0,5}}", "channel_id=1", HloVerifyError, "no pairs of 2 devices"),
        ("{{0,1,1}}", "channel_id=1", HloVerifyError, "no pairs of 2 devices"),
        ("0,1", "channel_id=1", HloVerifyError, "expected"),
        ("{{0,1}}", "channel_id=1, is_host_transfer=true", Unsupported, "with the host"),
    ],
)
def test_transfers_that_are_refused(pairs: str, channel: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        run(transfer(pairs, channel), 1, 2)


def test_a_transfer_without_pairs_is_refused() -> None:
    text = transfer("").replace(', frontend_attributes={_xla_send_recv_source_target_pairs=""}', "")
    with pytest.raises(Unsupported, match="without the frontend attribute"):
        run(text, 1, 2)


def test_a_receiver_whom_nobody_sends_is_no_hang() -> None:
    note = 'frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1}}"}'
    text = f"""x = f32[1] parameter(0)
  t = token[] after-all()
  r = (f32[1], u32[], token[]) recv(t), channel_id=1, {note}
  d = (f32[1], token[]) recv-done(r), channel_id=1, {note}
  ROOT v = f32[1] get-tuple-element(d), index=0"""
    with pytest.raises(ExecutionError, match="d waits for what nobody sends"):
        run(text, 1, 2)


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ("mesh['x'=2,'y'=2] {'y'}", [[10], [10], [50], [50]]),
        ("mesh['x'=2,'y'=2] {'x'}", [[20], [40], [20], [40]]),
        ("mesh['x'=2,'y'=2] {'x','y'}", [[60], [60], [60], [60]]),
        ("mesh['x'=4] {'x':(1)2}", [[20], [40], [20], [40]]),
        ("mesh['x'=4] {'x':(2)2}", [[10], [10], [50], [50]]),
        ("mesh['x'=2,'y'=2], device_ids=([2,2]T(1,0)) {'y'}", [[20], [40], [20], [40]]),
        ("mesh['x'=2,'y'=2], device_ids=(0,3,1,2) {'y'}", [[30], [30], [30], [30]]),
    ],
)
def test_groups_by_the_axes_of_a_mesh(groups: str, expected: list[list[float]]) -> None:
    options = f"channel_id=1, use_global_device_ids=true, replica_groups={groups}, to_apply=add"
    assert run(f"x = f32[1] parameter(0) ROOT r = f32[1] all-reduce(x), {options}", 2, 2) == expected


def test_the_order_of_a_group_is_that_of_its_axes() -> None:
    options = "channel_id=1, use_global_device_ids=true, dimensions={0}, replica_groups=mesh['x'=2,'y'=2]"
    body = f"x = f32[1] parameter(0) ROOT r = f32[4] all-gather(x), {options}"
    assert run(body + " {'x','y'}", 2, 2)[0] == [0, 10, 20, 30]
    assert run(body + " {'y','x'}", 2, 2)[0] == [0, 20, 10, 30]


@pytest.mark.parametrize("groups", ["mesh['x'=4] {'x':(3)2}", "mesh['x'=2], device_ids=(0,1,2) {'x'}"])  # fmt: skip
def test_groups_that_the_mesh_has_not(groups: str) -> None:
    options = f"channel_id=1, use_global_device_ids=true, replica_groups={groups}, to_apply=add"
    with pytest.raises(HloParseError, match=r"no parts of the axes|does not list a device for each"):
        run(f"x = f32[1] parameter(0) ROOT r = f32[1] all-reduce(x), {options}", 2, 2)
