"""Programs that call functions: of Python, and native ones by either interface."""

from __future__ import annotations

import pytest

from tests.jax_backend.process import run
from xjit.hlo.diagnostics import InvalidArgument
from xjit.jax_backend import callbacks
from xjit.text.parser import parse_hlo

_TWO_CALLS = """
HloModule m, frontend_attributes={xjit_callbacks="NUMBER"}

ENTRY e {
  x = f32[2] parameter(0)
  a = f32[2] custom-call(x), custom_call_target="xla_ffi_python_cpu_callback", backend_config="{index = 0}"
  ROOT b = f32[2] custom-call(a), custom_call_target="xla_ffi_python_cpu_callback", backend_config="{index = 1}"
}
"""


def test_what_a_refused_program_calls_is_forgotten() -> None:
    before = dict(callbacks._targets)
    number = callbacks.announce([lambda x: (x,)])
    with pytest.raises(InvalidArgument, match="a callback without its function"):
        callbacks.bind_callbacks(parse_hlo(_TWO_CALLS.replace("NUMBER", str(number))))
    callbacks.withdraw(number)
    assert callbacks._targets == before


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
