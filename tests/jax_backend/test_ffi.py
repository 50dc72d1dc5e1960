"""Calls by XLA's typed interface: attributes, and handlers in C++ with states, scratch memory and errors."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.jax_backend.process import run
from xjit.hlo.diagnostics import InvalidArgument, ResourceExhausted, Unsupported
from xjit.jax_backend.ffi.contexts import EXECUTE, INSTANTIATE, Context, States, context_of

jax = pytest.importorskip("jax")

from xjit.jax_backend.ffi.attribute_list import AttributeList  # noqa: E402
from xjit.jax_backend.ffi.structs import Array, Attributes, Scalar, Span  # noqa: E402


def read(attributes: Attributes) -> dict[str, object]:
    """What a handler finds."""
    found: dict[str, object] = {}
    for i in range(attributes.size):
        kind = (ctypes.c_int * attributes.size).from_address(attributes.types)[i]
        name, value = (
            (ctypes.c_void_p * attributes.size).from_address(table)[i]
            for table in (attributes.names, attributes.values)
        )
        span = Span.from_address(name)
        key = ctypes.string_at(span.address, span.size).decode()
        if kind == 1:
            array = Array.from_address(value)
            found[key] = array.dtype, ctypes.string_at(array.data, array.size).hex() if array.size else ""
        elif kind == 2:
            found[key] = read(Attributes.from_address(value))
        elif kind == 3:
            scalar = Scalar.from_address(value)
            found[key] = scalar.dtype, ctypes.string_at(scalar.value, 1).hex()
        else:
            text = Span.from_address(value)
            found[key] = ctypes.string_at(text.address, text.size)
    return found


def test_attributes() -> None:
    text = r"""{n = 0x7FC00001 : f32, a = "q \22z\22\00", u = 200 : ui8, no = false, h = 1.5 : bf16,
      list = array<i8: 1, -2>, flags = array<i1: true, false>, same = dense<7> : tensor<3xui8>, none = dense<> : tensor<0xf32>,
      raw = dense<"0x0102"> : tensor<2xi8>, inner = {x = -1 : i8, y = {z = "deep"}}}"""
    attributes = AttributeList(text)
    assert read(attributes.struct) == {
        "a": b'q "z"\0', "flags": (1, "0100"), "h": (16, "c0"), "list": (2, "01fe"), "n": (11, "01"), "no": (1, "00"),
        "inner": {"x": (2, "ff"), "y": {"z": b"deep"}}, "none": (11, ""), "raw": (2, "0102"),
        "same": (6, "070707"), "u": (6, "c8"),
    }  # fmt: skip
    assert list(read(attributes.struct)) == sorted(read(attributes.struct))
    assert read(AttributeList("").struct) == {}


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("{a = ", InvalidArgument, "Unable to parse"),
        ("3 : i32", InvalidArgument, "no dictionary"),
        ("{a = dense<[[1]]> : tensor<1x1xi32>}", Unsupported, "tensor<1x1xi32>"),
        ("{a = 3 : i7}", Unsupported, "type i7"),
        ("{a}", Unsupported, "unit"),
    ],
)
def test_attributes_that_are_not_read(text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        AttributeList(text)


def test_contexts() -> None:
    shared, own = States(), States()
    context = Context(shared, own)
    assert context_of(context.number) is context and context.states(EXECUTE) is own
    context.states(INSTANTIATE).set(INSTANTIATE, 3, 64)
    assert context.states(INSTANTIATE) is shared and shared.get(INSTANTIATE, 3) == 64
    assert own.get(EXECUTE, 3) is None
    with pytest.raises(InvalidArgument, match="has type 3, not 4"):
        shared.get(INSTANTIATE, 4)
    with pytest.raises(InvalidArgument, match="has a state already"):
        shared.set(INSTANTIATE, 3, 128)
    data = context.allocate(100, 64)
    assert data % 64 == 0
    context.free(data)
    with pytest.raises(InvalidArgument, match="not scratch memory"):
        context.free(data)
    with pytest.raises(InvalidArgument, match="aligned to 128"):
        context.allocate(1, 128)
    with pytest.raises(ResourceExhausted, match="Out of memory"):
        context.allocate(1 << 60, 1)
    context.allocate(10, 1)
    context.end()
    with pytest.raises(InvalidArgument, match="has ended"):
        context_of(context.number)


_SOURCE = r"""
#include <cstdint>
#include <memory>
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
static int alive = 0;
struct State {
  static ffi::TypeId id;
  static ffi::TypeInfo info;
  explicit State(int64_t n) : next(n) { ++alive; }
  ~State() { --alive; }
  int64_t next;
};
ffi::TypeId State::id = {};
ffi::TypeInfo State::info = ffi::MakeTypeInfo<State>();
static ffi::ErrorOr<std::unique_ptr<State>> Make(int64_t start, ffi::Dictionary) {
  if (start < 0) return ffi::Unexpected(ffi::Error(ffi::ErrorCode::kOutOfRange, "a negative start"));
  return std::make_unique<State>(start);
}
static ffi::Error Count(State* state, ffi::ScratchAllocator scratch, int64_t, ffi::Dictionary more,
                        ffi::Result<ffi::BufferR0<ffi::S32>> out) {
  auto memory = scratch.Allocate(1000, 16);
  if (!memory) return ffi::Error(ffi::ErrorCode::kResourceExhausted, "no scratch memory");
  for (int i = 0; i < 1000; ++i) static_cast<char*>(*memory)[i] = 1;
  auto step = more.get<int32_t>("step");
  if (!step) return step.error();
  if (*step > 100) return ffi::Error(ffi::ErrorCode::kInvalidArgument, "a step above 100");
  *out->typed_data() = static_cast<int32_t>(state->next);
  state->next += *step;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(Instantiate, Make,
    ffi::Ffi::BindInstantiate().Attr<int64_t>("start").Attr<ffi::Dictionary>("more"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(Execute, Count, ffi::Ffi::Bind().Ctx<ffi::State<State>>().Ctx<ffi::ScratchAllocator>()
    .Attr<int64_t>("start").Attr<ffi::Dictionary>("more").Ret<ffi::BufferR0<ffi::S32>>());
extern "C" void* type_id() { return &State::id; }
extern "C" void* type_info() { return &State::info; }
extern "C" int num_alive() { return alive; }
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_handlers_in_c_plus_plus(tmp_path: Path) -> None:
    source, library = tmp_path / "handlers.cc", tmp_path / "handlers.so"
    source.write_text(_SOURCE)
    command = [
        "g++",
        "-std=c++17",
        "-O0",
        "-shared",
        "-fPIC",
        f"-I{jax.ffi.include_dir()}",
        str(source),
        "-o",
        str(library),
    ]
    subprocess.run(command, check=True, timeout=400)
    run(
        """
import ctypes, gc, os
handlers = ctypes.CDLL(os.environ["HANDLERS"])
handlers.type_id.restype = handlers.type_info.restype = ctypes.c_void_p
address = lambda name: jax.ffi.pycapsule(getattr(handlers, name)())
types = {"type_id": address("type_id"), "type_info": address("type_info")}
jax.ffi.register_ffi_type("xjit_test_state", types, platform="cpu")
stages = {"instantiate": jax.ffi.pycapsule(handlers.Instantiate), "execute": jax.ffi.pycapsule(handlers.Execute)}
jax.ffi.register_ffi_target("xjit_count", stages, platform="cpu")
def counter(start, step):
    config = {"start": np.int64(start), "more": {"step": np.int32(step)}}
    return jax.jit(lambda: jax.ffi.ffi_call("xjit_count", jax.ShapeDtypeStruct((), np.int32), has_side_effect=True)(**config))
first, second = counter(5, 2), counter(70, 1)
assert [int(first()) for _ in range(3)] == [5, 7, 9] and [int(second()) for _ in range(2)] == [70, 71]
assert int(first()) == 11 and handlers.num_alive() == 2
raises(jax.errors.JaxRuntimeError, "INVALID_ARGUMENT: ", lambda: counter(0, 101)().block_until_ready())
raises(jax.errors.JaxRuntimeError, "a step above 100", lambda: counter(0, 101)().block_until_ready())
raises(jax.errors.JaxRuntimeError, "OUT_OF_RANGE: a negative start", counter(-1, 1))
del first, second
jax.clear_caches()
gc.collect()
jax.jit(lambda a: a + 17)(x)  # the next program sweeps those that are gone
assert handlers.num_alive() == 0, handlers.num_alive()
""",
        HANDLERS=str(library),
    )
