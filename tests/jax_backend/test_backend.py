"""The backend in a process of its own: what JAX sees of devices, arrays, donation, callbacks, errors, threads, exits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from xjit.jax_backend.boundary import free_layout
from xjit.text.parser import parse_hlo

ROOT = Path(__file__).parent.parent.parent
PROLOGUE = """
import jax, numpy as np, jax.numpy as jnp
import xjit_jax_plugin
xjit_jax_plugin.initialize()
def raises(kind, text, function):
    try:
        function()
    except kind as error:
        assert text in str(error), str(error)
        return
    raise AssertionError("nothing was raised")
x = jnp.arange(12.0).reshape(3, 4)
"""


def run(
    code: str,
    platforms: str | None = "xjit",
    devices: int | str = 1,
    expected_exit: int = 0,
    flags: str = "",
    **more: str,
) -> str:
    """Runs code after JAX's flags are set and the prologue; returns what it printed."""
    environment = {**os.environ, "XJIT_NUM_DEVICES": str(devices), **more}
    environment.pop("JAX_PLATFORMS", None)
    if platforms is not None:
        environment["JAX_PLATFORMS"] = platforms
    command = [sys.executable, "-W", "ignore", "-c", flags + PROLOGUE + code]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=240)
    assert result.returncode == expected_exit, result.stdout + result.stderr[-4000:]
    return result.stdout


def test_arrays() -> None:
    run("""
first, second = jax.devices()
assert (first.platform, second.id, jax.default_backend()) == ("cpu", 1, "cpu")
assert (repr(first), str(second)) == ("CpuDevice(id=0)", "cpu:1")
assert "xjit" in first.client.platform_version
moved = jax.device_put(x, second)
assert jax.jit(lambda a: a + 1)(moved).devices() == {second}
assert np.asarray(x).ctypes.data == x.unsafe_buffer_pointer()
assert np.from_dlpack(x).sum() == 66
host = np.ones(64)
assert jnp.from_dlpack(host).sum() == 64
for array in (
    np.asfortranarray(np.arange(6.0, dtype=np.float32).reshape(2, 3)), np.arange(6, dtype=np.int32)[::-2],
    np.zeros((0, 3), np.float32), np.float32(3), np.arange(12, dtype=np.uint8).reshape(3, 4)[:, 1:3],
    np.array([True, False]), np.arange(4, dtype=jnp.bfloat16), np.arange(3, dtype=jnp.int4), np.ones(2, np.complex64),
):
    back = np.asarray(jax.device_put(array))
    assert back.dtype == array.dtype and back.shape == array.shape and (back == array).all(), array
y = x + 1
y.delete()
assert y.is_deleted()
raises(RuntimeError, "deleted", lambda: y + 1)
raises(jax.errors.JaxRuntimeError, "deleted or donated", y.unsafe_buffer_pointer)
""", devices=2)  # fmt: skip


def test_donation() -> None:
    run("""
step = jax.jit(lambda a: a + 1, donate_argnums=0)
y = jnp.ones((1000,))
place = y.unsafe_buffer_pointer()
z = step(y)
assert y.is_deleted() and z.unsafe_buffer_pointer() == place and (z == 2).all()
host = np.ones(1000, np.float32)
assert (step(jax.device_put(host)) == 2).all() and (host == 1).all(), "memory of NumPy's was overwritten"
view = np.asarray(z)
after = step(z)
assert (view == 2).all() and (after == 3).all(), "memory that a view reads was overwritten"
assert not z.is_deleted() and (z == 2).all(), "a view keeps its array"
two = jax.jit(lambda a, b: (a + b, a - b), donate_argnums=(0, 1))(after, jnp.ones((1000,)))
assert (two[0] == 4).all() and (two[1] == 2).all()
both = jax.jit(lambda a, b: (a + b, a * b), donate_argnums=(0, 1))
first = jax.jit(lambda a, b: a + b, donate_argnums=0)
one = jnp.ones((1000,))
dead = jnp.ones((1000,))
step(dead)
deleted = "Invalid buffer passed to Execute() as argument 0 to replica 0: INVALID_ARGUMENT: Buffer has been deleted"
raises(ValueError, deleted, lambda: step(dead))
clash = "(flattened argument 1, replica 0, partition 0, first use: 0)"
last = jax.jit(lambda a, b: a + b, donate_argnums=1)
for view in (None, np.asarray(one)):
    raises(jax.errors.JaxRuntimeError, "donate the same buffer twice in Execute() " + clash, lambda: both(one, one))
    raises(jax.errors.JaxRuntimeError, "previously donated in the same call to Execute() " + clash, lambda: first(one, one))
    raises(jax.errors.JaxRuntimeError, "also used by the same call to Execute() " + clash, lambda: last(one, one))
del view
assert not one.is_deleted() and (first(one, one + 1) == 3).all() and one.is_deleted()
""")


def test_donation_of_arrays_whose_results_get_any_sharding() -> None:
    run("""
from jax.experimental.layout import Format, Layout
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((4,), ("x",))
rows, columns, whole = (NamedSharding(mesh, P(*axes)) for axes in (("x",), (None, "x"), ()))
both = jax.jit(lambda a, b: a @ b, donate_argnums=(0, 1))
a, b = jax.device_put(jnp.ones((8, 8)), Format(Layout((1, 0)), rows)), jax.device_put(jnp.ones((8, 8)), rows)
compiled = both.lower(a, b).compile()
assert "input_output_alias={ {}: (0, {}, may-alias) }, buffer_donor={ (1, {}) }" in compiled.as_text()
assert compiled.memory_analysis().alias_size_in_bytes == 64, compiled.memory_analysis()
assert (both(a, b) == 8).all() and a.is_deleted() and not b.is_deleted()
turned = jax.jit(lambda a: a.T + 1, donate_argnums=0, in_shardings=rows)  # as many bytes, of another shape
y = jax.device_put(jnp.ones((8, 4)), rows)
assert "input_output_alias={ {}: (0, {}, may-alias) }" in turned.lower(y).compile().as_text()
assert (turned(y) == 2).all() and y.is_deleted()
other = jax.jit(lambda a, b: a + b, donate_argnums=0, out_shardings=whole)
raises(jax.errors.JaxRuntimeError, "INTERNAL: Expected aliased input 0 at index {} and output at index {} to have the "
       "same size. Input sub-shape is f32[2,8]{1,0} with size 64, output sub-shape is f32[8,8]{1,0} with size 256",
       lambda: other(jnp.ones((8, 8)), jax.device_put(jnp.ones((8, 8)), rows)))
""", devices=4)  # fmt: skip


def test_layouts() -> None:
    run("""
from jax.experimental.layout import Format, Layout
from jax.sharding import SingleDeviceSharding
sharding = SingleDeviceSharding(jax.devices()[0])
columns, rows = (Format(Layout(order), sharding) for order in ((1, 0), (0, 1)))
y = jax.device_put(x, columns)
assert (y.format.layout.major_to_minor, x.format.layout.major_to_minor) == ((1, 0), (0, 1))
assert (y == x).all() and np.asarray(y).strides == (4, 12)
f = jax.jit(lambda a: (a * 2, a.T), in_shardings=columns, out_shardings=(rows, columns), donate_argnums=0)
doubled, turned = f(y)
assert (doubled == 2 * x).all() and (turned == x.T).all() and y.is_deleted()
assert [a.format.layout.major_to_minor for a in (doubled, turned)] == [(0, 1), (1, 0)]
free = jax.jit(lambda a: (jnp.sin(a.T) * 2, a + 1, jnp.transpose(a[None], (2, 0, 1)), a @ a.T),
               in_shardings=Format(Layout.AUTO), out_shardings=Format(Layout.AUTO)).lower(jax.ShapeDtypeStruct(x.shape, x.dtype)).compile()
assert [a.layout.major_to_minor for a in free.output_formats] == [(1, 0), (0, 1), (0, 1, 2), (0, 1)]
assert (np.asarray(free(x)[0]) == 2 * np.asarray(jnp.sin(x)).T).all() and np.asarray(free(x)[0]).strides == (4, 16)
assert (jnp.sin(turned) == jnp.sin(x).T).all() and (np.asarray(turned.copy()) == x.T).all()
deep = jax.device_put(np.arange(24.0, dtype=np.float32).reshape(2, 3, 4), Format(Layout((2, 0, 1)), sharding))
assert deep.format.layout.major_to_minor == (2, 0, 1) and np.asarray(deep)[1, 2, 3] == 23
wide = jax.jit(lambda a: a.reshape((1,) * 12 + (3, 4)))(x)
assert wide.format.layout.major_to_minor == tuple(range(14))
compiled = jax.jit(lambda a, b: (a.T * b, a[::-1].T), out_shardings=Format(Layout.AUTO)).lower(x, x.T).compile()
assert [a.layout.major_to_minor for a in compiled.output_formats] == [(0, 1), (1, 0)]
""")


def test_tiles_are_a_name() -> None:
    """As with XLA's CPU client: what lies in memory is in the order of the layout's dimensions."""
    run("""
from jax.experimental.layout import Format, Layout
from jax.sharding import SingleDeviceSharding
sharding = SingleDeviceSharding(jax.devices()[0])
tiled, nested = (Format(Layout((0, 1), tiles), sharding) for tiles in (((2, 2),), ((8, 128), (2, 1))))
y = jax.device_put(x, tiled)
assert y.format.layout == tiled.layout and (np.asarray(y) == x).all()
f = jax.jit(lambda a: a + 1, in_shardings=tiled, out_shardings=nested)
z = f(y)
del f
assert z.format.layout == nested.layout and (z == x + 1).all() and (y + y).format.layout.tiling == ()
compiled = jax.jit(lambda a: a.astype(jnp.bfloat16), in_shardings=tiled, out_shardings=tiled).lower(x).compile()
assert compiled.input_formats[0][0].layout == tiled.layout and compiled.output_formats.layout.tiling == ((2, 2),)
raises(ValueError, "Layout passed to jit does not match", lambda: jax.jit(lambda a: a, in_shardings=tiled)(z))
invalid = Format(Layout((0, 1), ((2, 0),)), sharding)
raises(jax.errors.JaxRuntimeError, "sizes must be positive", lambda: jax.device_put(x, invalid))
""")


def test_memories() -> None:
    run("""
from jax.sharding import SingleDeviceSharding
def memory(kind):
    return SingleDeviceSharding(jax.devices()[0], memory_kind=kind)
host = jax.device_put(x, memory("pinned_host"))
for f in (lambda a: a + 1, lambda a: jax.device_put(a, memory("device")) + 1):
    assert jax.jit(f, out_shardings=memory("unpinned_host"))(host).sharding.memory_kind == "unpinned_host"
y, z = jax.jit(lambda a: (jax.device_put(a * 2, memory("pinned_host")), a))(x)
assert (y.sharding.memory_kind, z.sharding.memory_kind) == ("pinned_host", "device")
assert (np.asarray(y) == 2 * np.asarray(x)).all()
kinds = memory("device"), memory("pinned_host")
text = jax.jit(lambda a, b: (a + 1, b + 1), out_shardings=kinds).lower(host, x).compile().as_text()
assert "layout={(f32[3,4]{1,0:S(5)}, f32[3,4]{1,0})->(f32[3,4]{1,0}, f32[3,4]{1,0:S(5)})}" in text, text
""")


def test_arrays_by_dlpack_are_copied_where_they_must_be() -> None:
    run("""
host = np.arange(65, dtype=np.float32)
def place(array):
    return array.unsafe_buffer_pointer()
assert place(jnp.from_dlpack(host)) == place(jnp.from_dlpack(host, copy=False)) == host.ctypes.data
assert place(jnp.from_dlpack(host, copy=True)) != host.ctypes.data
unaligned = jnp.from_dlpack(host[1:])
assert place(unaligned) != host[1:].ctypes.data and (unaligned == host[1:]).all()
raises(ValueError, "is not aligned to", lambda: jnp.from_dlpack(host[1:], copy=False))
columns = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
assert (jnp.from_dlpack(columns) == columns).all()
packed = jnp.ones(4, jnp.float4_e2m1fn)
raises(jax.errors.JaxRuntimeError, "UNIMPLEMENTED", lambda: jnp.from_dlpack(packed))
raises(jax.errors.JaxRuntimeError, "INVALID_ARGUMENT", lambda: jnp.from_dlpack(packed, copy=True))
""")


def test_callbacks() -> None:
    out = run("""
shape = jax.ShapeDtypeStruct((3, 4), np.float32)
assert np.allclose(jax.jit(lambda a: jax.pure_callback(np.sin, shape, a))(x), np.sin(x))
seen = []
jax.jit(lambda a: jax.debug.callback(lambda v: seen.append(float(v)), a.sum()))(x)
jax.effects_barrier()
assert seen == [66.0], seen
def loop(a):
    def body(i, c):
        jax.debug.print("{i}", i=i, ordered=True)
        return jax.experimental.io_callback(lambda v: v + 1, shape, c, ordered=True)
    return jax.lax.fori_loop(0, 5, body, a)
assert (jax.jit(loop)(x) == x + 5).all()
jax.effects_barrier()
def fail(v):
    raise ValueError("the callback's own message")
failing = jax.jit(lambda a: jax.pure_callback(fail, shape, a))
raises(jax.errors.JaxRuntimeError, "INTERNAL: CpuCallback error calling callback: Traceback (most recent", lambda: failing(x))
raises(jax.errors.JaxRuntimeError, "ValueError: the callback's own message\\n  note: from <string>:", lambda: failing(x))
ordered = lambda f: jax.jit(lambda a: jax.experimental.io_callback(f, shape, a, ordered=True), donate_argnums=0)
raises(jax.errors.JaxRuntimeError, "the callback's own message", lambda: ordered(fail)(x + 1))
assert (ordered(np.sin)(x + 1) == np.sin(x + 1)).all(), "a failure outlived its call"
from jax.experimental.buffer_callback import buffer_callback
def double(context, out, a):
    assert (a.shape, a.dtype, a.writeable, out.writeable) == ((3, 4), np.float32, False, True)
    np.asarray(out)[...] = np.from_dlpack(a) * 2
assert (jax.jit(buffer_callback(double, shape))(x) == x * 2).all()
def increment(context, out, a):
    np.asarray(out)[...] += 1
assert (jax.jit(buffer_callback(increment, shape, input_output_aliases={0: 0}))(x) == x + 1).all()
""")
    assert out.split() == ["0", "1", "2", "3", "4"]


def test_functions_with_the_interface_of_xla() -> None:
    run("""
import ctypes
from xjit.jax_backend.ffi.structs import Array, Buffer, CallFrame, ErrorRequest, Scalar, Span
def at(kind, table, i):
    return kind.from_address(ctypes.c_void_p.from_address(table + 8 * i).value)
@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
def scale(address):
    frame = CallFrame.from_address(address)
    if frame.extension_start:  # JAX asks for the version of the interface
        metadata = ctypes.c_void_p.from_address(frame.extension_start + 24).value
        (ctypes.c_int * 2).from_address(metadata + 24)[:] = [0, 3]
        return 0
    a, out = (at(Buffer, side.values, 0) for side in (frame.arguments, frame.results))
    table, names = frame.attributes.values, [at(Span, frame.attributes.names, i) for i in range(3)]
    assert [ctypes.string_at(n.address, n.size) for n in names] == [b"by", b"name", b"sizes"]
    name, sizes = at(Span, table, 1), at(Array, table, 2)
    assert (a.dtype, out.rank, sizes.dtype) == (11, 2, 5)
    assert list((ctypes.c_int64 * sizes.size).from_address(sizes.data)) == [3, 4]
    if ctypes.string_at(name.address, name.size) != b'a "name"':
        create = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(ctypes.c_void_p.from_address(frame.api + 48).value)
        request = ErrorRequest(subject=ctypes.addressof(message), message=3)
        return create(ctypes.addressof(request))
    by = ctypes.c_float.from_address(at(Scalar, table, 0).value).value
    given, made = ((ctypes.c_float * 12).from_address(b.data) for b in (a, out))
    made[:] = [v * by for v in given]
message = ctypes.create_string_buffer(b"an error of the handler's")
jax.ffi.register_ffi_target("scale", jax.ffi.pycapsule(scale), platform="cpu")
def call(name):
    target = jax.ffi.ffi_call("scale", jax.ShapeDtypeStruct((3, 4), np.float32), vmap_method="sequential")
    return jax.jit(lambda a: target(a, by=np.float32(2.5), name=name, sizes=np.array([3, 4])))
assert (call('a "name"')(x) == x * 2.5).all()
assert (jax.vmap(call('a "name"'))(jnp.stack([x, x + 1])) == jnp.stack([x, x + 1]) * 2.5).all()
raises(jax.errors.JaxRuntimeError, "an error of the handler's", lambda: call("other")(x))
@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
def untyped(out, operands):
    ctypes.memmove(out, operands[0], 48)
jax.ffi.register_ffi_target("untyped", jax.ffi.pycapsule(untyped), platform="cpu", api_version=0)
copy = jax.ffi.ffi_call("untyped", jax.ShapeDtypeStruct((3, 4), np.float32), custom_call_api_version=1)
assert (jax.jit(copy)(x) == x).all()
""")


def test_errors() -> None:
    run("""
def compiled(**options):
    return jax.jit(lambda a: a + 1, compiler_options=options)(x)
raises(jax.errors.JaxRuntimeError, "INVALID_ARGUMENT: No such compile option: 'xla_nothing'", lambda: compiled(xla_nothing=True))
raises(jax.errors.JaxRuntimeError, "'maybe' is not a valid bool value", lambda: compiled(xla_embed_ir_in_executable="maybe"))
for name, value in {"xla_cpu_enable_fast_math": "false", "xla_dump_max_hlo_modules": 1.5, "xla_gpu_nccl_init_max_rank_per_root_ratio": "1_0", "xla_step_marker_location": "entry"}.items():
    raises(jax.errors.JaxRuntimeError, f"While setting option {name}, '{value}' is not a valid", lambda: compiled(**{name: value}))
compiled(xla_cpu_enable_fast_math="False", xla_cpu_opt_preset="CPU_OPT_PRESET_DEFAULT", xla_dump_max_hlo_modules="7")
assert (compiled(xla_backend_optimization_level=0, xla_disable_hlo_passes="cse,fusion") == x + 1).all()
for version, words in {4: "No FFI handler registered for nobody on a platform Host (canonical host)", 2: "No registered implementation for untyped custom call to nobody for Host"}.items():
    nobody = jax.jit(jax.ffi.ffi_call("nobody", jax.ShapeDtypeStruct((), np.float32), custom_call_api_version=version))
    raises(jax.errors.JaxRuntimeError, f"NOT_FOUND: {words}", nobody)
raises(jax.errors.JaxRuntimeError, "Out of memory allocating 70368744177664 bytes", lambda: jnp.zeros((1 << 46,), np.uint8).block_until_ready())
raises(jax.errors.JaxRuntimeError, "RESOURCE_EXHAUSTED", lambda: jnp.zeros((1 << 40, 1 << 10)).block_until_ready())
""")  # fmt: skip


def test_a_trace_has_events_of_compilations_and_of_each_device(tmp_path: Path) -> None:
    run(
        """
import os, pathlib
mesh = jax.make_mesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
v = jax.device_put(np.arange(8.0, dtype=np.float32), jax.NamedSharding(mesh, jax.P("i")))
with jax.profiler.trace(os.environ["TRACE"]):
    with jax.profiler.TraceAnnotation("mine"):
        jax.block_until_ready(jax.jit(lambda a: a / a.sum())(v))
(found,) = pathlib.Path(os.environ["TRACE"]).rglob("*.xplane.pb")
names = [b"mine", b"xjit::read_program", b"xjit::compile", b"xjit::execute"]
assert [name for name in names if name not in found.read_bytes()] == []
""",
        devices=2,
        TRACE=str(tmp_path),
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"devices": "3", "JAX_NUM_CPU_DEVICES": "2"},
        {"devices": "", "JAX_NUM_CPU_DEVICES": "3", "XLA_FLAGS": "--xla_force_host_platform_device_count=2"},
        {"devices": "", "XLA_FLAGS": "--xla_force_host_platform_device_count=3"},
    ],
    ids=["of-xjit", "of-jax", "of-xla"],
)
def test_the_number_of_devices(settings: dict[str, str]) -> None:
    run(
        """
assert len(jax.devices()) == 3, jax.devices()
assert [d.id for d in jax.jit(lambda a: a + 1)(jax.device_put(x, jax.devices()[2])).devices()] == [2]
""",
        **settings,
    )


def test_cleared_backends_come_back_with_as_many_devices_as_are_asked_for_then() -> None:
    run(
        """
from jax.extend.backend import clear_backends
triple = jax.jit(lambda a: a * 3)
first = jax.devices()[0]
for count in (3, 2, 3):
    clear_backends()
    jax.config.update("jax_num_cpu_devices", count)
    assert [d.id for d in jax.devices()] == list(range(count)), jax.devices()
    last = jax.devices()[-1]
    assert last.default_memory().kind == "device"
    moved = jax.device_put(x, last)
    assert triple(moved).devices() == {last} and triple(moved).sum() == 198
    mesh = jax.make_mesh((count,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    total = jax.shard_map(lambda a: jax.lax.psum(a, "i"), mesh=mesh, in_specs=jax.P("i"), out_specs=jax.P())
    assert (jax.jit(total)(np.ones(6)) == count).all()
    assert x.devices() == {first} and (np.asarray(x) + 1).sum() == 78 and (triple(x) + 1).sum() == 210
raises(jax.errors.JaxRuntimeError, "device 5, there are 3", lambda: jax.devices()[0].client.device_from_local_hardware_id(5))
clear_backends()
jax.config.update("jax_num_cpu_devices", 5000)
raises(RuntimeError, "jax_num_cpu_devices) must be from 1 to 1024, got '5000'", jax.devices)
""",
        devices="",
    )


def test_what_dies_while_an_exception_passes() -> None:
    run("""
f = jax.jit(lambda a: a + 1)
def use(*values):
    pass
for _ in range(50):
    raises(ZeroDivisionError, "", lambda: use(f(x), 1 / 0))
def deep():
    return f(x) + deep()
raises(RecursionError, "", deep)
assert (f(x) == x + 1).all()
""")


def test_threads() -> None:
    run("""
import sys, threading
sys.setswitchinterval(1e-5)
f = jax.jit(lambda a: jnp.sin(a) @ a.T)
expected, wrong = np.asarray(f(x)), []
def work():
    for _ in range(150):
        y = f(x)
        y.is_ready(), y.format
        if not np.array_equal(np.asarray(y), expected):
            wrong.append(1)
workers = [threading.Thread(target=work) for _ in range(6)]
for w in workers: w.start()
for w in workers: w.join()
assert wrong == []
""")


def test_compiled_programs_describe_themselves() -> None:
    run("""
compiled = jax.jit(lambda a: (a @ a.T, a.sum()), donate_argnums=0).lower(x).compile()
assert "dot" in compiled.as_text()
costs = compiled.cost_analysis()
assert costs["flops"] > 0 and "optimal_seconds" not in costs and "transcendentals" not in costs
moved = sum(costs[f"bytes accessed{place}{{}}"] for place in (0, 1, "out"))
assert moved == costs["bytes accessed"] > 0 and costs["utilization0{}"] >= 1
memory = compiled.memory_analysis()
assert (memory.argument_size_in_bytes, memory.host_temp_size_in_bytes) == (48, 0)
assert memory.output_size_in_bytes == 9 * 4 + 4 + 2 * 8, "with the pointers of a tuple"
lowered = jax.jit(lambda a: a @ a.T).lower(x).cost_analysis()
assert (lowered["flops"], lowered["bytes accessed"]) == (2 * 36, 48 + 48 + 36), "the transpose renames dimensions"
turns = jax.jit(lambda a: jax.lax.fori_loop(0, 10, lambda i, c: jnp.sin(c) @ c.T @ c, a)).lower(x)
assert turns.cost_analysis()["transcendentals"] == 12 and turns.compile().cost_analysis()["transcendentals"] == 12
inside = jax.jit(lambda a: jax.jit(jnp.sin)(a) * 2).lower(x).cost_analysis()
assert (inside["bytes accessed0{}"], inside["bytes accessedout{}"]) == (48 + 48 + 4, 3 * 48)
narrow = jax.jit(lambda a: (a + a, a == a)).lower(jnp.ones(9, jnp.int4)).compile()
bits = [f.layout.sub_byte_element_size_in_bits for f in (*narrow.input_formats[0], *narrow.output_formats)]
assert bits == [4, 4, 0] and "(s4[9]{0:E(4)})->" in narrow.as_text(), bits
nibbles = narrow.memory_analysis()
assert (nibbles.argument_size_in_bytes, nibbles.output_size_in_bytes) == (5, 5 + 9 + 2 * 8)
exported = jax.export.deserialize(jax.export.export(jax.jit(jnp.sin))(x).serialize())
assert np.allclose(exported.call(x), np.sin(x), rtol=1e-6)
import pickle
assert (pickle.loads(pickle.dumps(x)) == x).all()
""")


def test_dumps(tmp_path: Path) -> None:
    run(
        f"""
import os
def dumped(name):
    directory = os.path.join({str(tmp_path)!r}, name)
    return {{n.split(".", 2)[2] for n in os.listdir(directory)}} if os.path.isdir(directory) else set()
stages = {{"before_optimizations.txt", "after_optimizations.txt", "ll"}}
lowered = jax.jit(lambda a: jnp.sin(a) * 2).lower(x)
lowered.compile(compiler_options={{"xla_dump_to": os.path.join({str(tmp_path)!r}, "asked")}})
assert dumped("asked") >= stages, dumped("asked")
lowered.compile(compiler_options={{"xla_dump_to": "-"}})
assert dumped("all") == dumped("asked")
""",
        XLA_FLAGS=f"--xla_dump_to={tmp_path / 'all'}",
    )


def test_what_a_compilation_asks_for() -> None:
    run("""
from xjit.jax_backend.plugin import plugin
from jax.sharding import NamedSharding, PartitionSpec as P
assert (jax.jit(lambda a: a * 2)(x) == 2 * x).all()
mesh = jax.make_mesh((2,), ("i",), (jax.sharding.AxisType.Auto,))
split = jax.device_put(jnp.arange(8.0).reshape(4, 2), NamedSharding(mesh, P("i")))
both = jax.jit(lambda a, b: (a * b, a.sum(), a.T)).lower(split, split).compile()
none = jax.jit(lambda a: None).lower(split).compile()
programs = list(plugin()._programs.values())
assert len(programs) >= 3 and not any("optimized_program" in vars(program) for program in programs)
assert [s.spec for s in both.output_shardings] == [P("i"), P(), P(None, "i")], both.output_shardings
assert [s.spec for s in both.input_shardings[0]] == [P("i"), P("i")] and none.output_shardings is None
given = both.runtime_executable().get_parameter_shardings()
assert [tuple(s.tile_assignment_dimensions) for s in given] == [(2, 1), (2, 1)]
jax.jit(lambda a: jax.debug.callback(lambda v: None, a))(split)  # no results
jax.effects_barrier()
alone = jax.jit(jnp.sin).lower(x).compile().runtime_executable()
assert (alone.get_parameter_shardings(), alone.get_output_shardings()) == (None, None)
assert [str(layout) for layout in alone.get_parameter_layouts()] == [str(layout) for layout in alone.get_output_layouts()]
""", devices=2)  # fmt: skip


def test_reductions_over_devices_are_shown_whole() -> None:
    run("""
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((4,), ("x",))
rows = jax.ShapeDtypeStruct((16, 4), np.float32, sharding=NamedSharding(mesh, P("x")))
total = jax.jit(lambda a: jnp.sin(a.sum(0)), out_shardings=NamedSharding(mesh, P())).lower(rows).compile()
text, (running,) = total.as_text(), total.runtime_executable().hlo_modules()
assert text.count(" all-reduce(") == 1 and "all-gather(" not in text and "is_scheduled=true" in text, text
assert "all-gather(" in running.to_string() and " all-reduce(" not in running.to_string()
moved = jax.jit(lambda a: a * 2, out_shardings=NamedSharding(mesh, P())).lower(rows).compile()
assert moved.as_text() == moved.runtime_executable().hlo_modules()[0].to_string()
from jax.experimental import serialize_executable
for compiled in (total, moved):
    back = serialize_executable.deserialize_and_load(*serialize_executable.serialize(compiled))
    assert back.as_text() == compiled.as_text() and back.cost_analysis() == compiled.cost_analysis()
    assert str(back.memory_analysis()) == str(compiled.memory_analysis())
""", devices=4)  # fmt: skip


def test_memory_stays_flat() -> None:
    run("""
import resource, gc
f, g = jax.jit(lambda a: a * 2 + 1), jax.jit(lambda a: a + 1, donate_argnums=0)
big, state = jnp.ones((256, 1024)), jnp.zeros(1000)
def rounds(n):
    global state
    for _ in range(n):
        f(big)
        state = g(state)
        jax.device_put(np.ones(4096, np.float32))
rounds(200)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rounds(3000)
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
assert grown < 20_000, f"{grown} kB"
""")


@pytest.mark.parametrize("platforms", [None, "cpu"])
def test_it_is_not_the_default(platforms: str | None) -> None:
    code = "print('xjit' in jax.devices()[0].client.platform_version, 'xjit' in __import__('sys').modules)"
    assert run(code, platforms).split()[0] == "False"


def test_one_function_on_this_backend() -> None:
    run("""
assert "xjit" not in x.devices().pop().client.platform_version
y = jax.jit(lambda a: a + 1, backend="xjit")(np.ones(3, np.float32))
assert "xjit" in y.devices().pop().client.platform_version and (np.asarray(y) == 2).all()
""", platforms=None)  # fmt: skip


def test_arrays_that_end_after_all_modules() -> None:
    code = """
def fail(v):
    raise ValueError("boom")
f = jax.jit(lambda a: jax.pure_callback(fail, jax.ShapeDtypeStruct(a.shape, a.dtype), a))
raises(jax.errors.JaxRuntimeError, "boom", lambda: f(x).block_until_ready())
keep = [x + 1]
keep.append(keep)
"""
    run(code, MALLOC_PERTURB_="165")  # memory that is freed changes at once


def test_exit_with_an_exception_and_living_arrays() -> None:
    code = "keep = [jax.jit(lambda a: a + 1)(x)]; keep.append(keep); raise SystemExit(3)"
    run(code, expected_exit=3)


def test_the_compilation_cache(tmp_path: Path) -> None:
    code = f"""
jax.config.update("jax_compilation_cache_dir", {str(tmp_path)!r})
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
import xjit.compiler
compiled, original = [], xjit.compiler.compile_module
def counting(*arguments):
    compiled.append(arguments[0].name)
    return original(*arguments)
xjit.compiler.compile_module = counting
f = jax.jit(lambda a: (jnp.sin(a) @ a.T, a + 1, jnp.arange(5)), donate_argnums=0)
r = f(jnp.ones((3, 4)) / 2)
assert np.allclose(r[0], 4 * np.sin(0.5) * 0.5) and (r[1] == 1.5).all() and r[2].sum() == 10
from jaxlib import xla_client
assert xla_client.get_topology_for_devices(jax.devices()).fingerprint()  # part of the cache's keys
compiled_f = f.lower(x).compile()
text = compiled_f.as_text()
assert "is_scheduled=true" in text, text  # as it is optimized, though its code was read back
assert compiled_f.cost_analysis()["flops"] > 0
print(len(compiled), "jit__lambda" in compiled, zlib.crc32(text.encode()))
"""
    first, second = run("import zlib" + code).split(), run("import zlib" + code).split()
    assert first[1] == "True" and second[:2] == ["1", "True"], (first, second)  # the second compiles for the analysis
    assert first[2] == second[2]


@pytest.mark.parametrize(
    ("source", "target", "order"),
    [
        ("f32[3,4]{0,1}", "s32[3,4]", (0, 1)),
        ("f32[3,4]{0,1}", "u8[3,4,4]", (2, 1, 0)),
        ("u8[3,4,4]{0,1,2}", "f32[3,4]", (1, 0)),
    ],
)
def test_free_layouts_of_bitcasts(source: str, target: str, order: tuple[int, ...]) -> None:
    """The operand's order is the result's where it has as many dimensions."""
    module = parse_hlo(
        f"HloModule m\nENTRY e {{\n  x = {source} parameter(0)\n  ROOT r = {target} bitcast-convert(x)\n}}\n"
    )
    entry = module.entry_computation
    parameters = [p.shape for p in entry.parameter_instructions]
    assert free_layout(entry.root_instruction, parameters).minor_to_major == order
