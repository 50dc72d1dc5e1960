"""The backend in a process of its own: what JAX sees of devices, errors, traces, threads, exits."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jax_backend.process import run


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
