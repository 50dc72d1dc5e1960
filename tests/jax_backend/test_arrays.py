"""What JAX sees of arrays: their contents, donation, layouts, memories, DLPack."""

from __future__ import annotations

from tests.jax_backend.process import run


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
