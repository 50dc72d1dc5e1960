"""PJRT's extension for layouts as native code: callers hold locks while they ask for the layout of a buffer.

Its layouts are opaque objects, which a caller turns to text (`{0,1:T(2,2)}`, from minor to major, then tiles) and
destroys. Source:
`xla/pjrt/c/pjrt_c_api_layouts_extension.h` of openxla/xla.
"""

from __future__ import annotations

from typing import Final

from xjit.jax_backend.c_api import LAYOUT_FUNCTIONS
from xjit.jax_backend.native.events import EXHAUSTED_ERROR
from xjit.jax_backend.records import BUFFER, EXECUTABLE, LAYOUT
from xjit.llvm import Module, Value
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I8, I64, PTR, VOID
from xjit.llvm.values import const_int, zero

_NEW: Final = "xjit_layout_new"
_CHARACTERS: Final = 4
"""Bytes per dimension, at most: ranks have three digits."""


def define_layouts(module: Module) -> None:
    """Defines `LAYOUT_FUNCTIONS`."""
    _define_digits(module)
    _define_new(module)
    builder, request = _begin(module, "MemoryLayout_Destroy")
    layout = _asked(builder, request, "MemoryLayout_Destroy", "layout")
    with builder.when(builder.icmp_signed("==", LAYOUT.load(builder, layout, "is_static"), builder.i64(0))):
        builder.call(module.declare("free", VOID, [PTR]), [layout])
    builder.ret(zero(PTR))
    _define_serialize(module)
    builder, request = _begin(module, "Buffer_MemoryLayout")
    buffer = _asked(builder, request, "Buffer_MemoryLayout", "buffer")
    order, rank, tiles = (BUFFER.load(builder, buffer, field) for field in ("minor_to_major", "rank", "tiles"))
    _answer(builder, request, "Buffer_MemoryLayout", order, rank, tiles)
    for name in ("Client_GetDefaultLayout", "Topology_GetDefaultLayout"):
        builder, request = _begin(module, name)
        _answer(builder, request, name, zero(PTR), _asked(builder, request, name, "num_dims"), zero(PTR))
    for name, what, fields in (
        ("Executable_GetOutputLayouts", "result", {"num_outputs": "num_results"}),
        ("Executable_GetParameterLayouts", "parameter", {"num_parameters": "num_parameters"}),
    ):
        builder, request = _begin(module, name)
        executable = _asked(builder, request, name, "executable")
        for field, source in {**fields, "layouts": f"{what}_layouts"}.items():
            LAYOUT_FUNCTIONS[name].store(builder, request, field, EXECUTABLE.load(builder, executable, source))
        builder.ret(zero(PTR))


def _begin(module: Module, name: str) -> tuple[StructuredBuilder, Value]:
    builder = define(module, f"Layouts_{name}", [(PTR, "args")], linkage="", return_type=PTR)
    return builder, builder.function.args[0]


def _asked(builder: StructuredBuilder, request: Value, name: str, field: str) -> Value:
    return LAYOUT_FUNCTIONS[name].load(builder, request, field)


def _answer(builder: StructuredBuilder, request: Value, name: str, order: Value, rank: Value, tiles: Value) -> None:
    made = builder.call(builder.module.functions[_NEW], [order, rank, tiles], name="made")
    with builder.when(builder.is_null(made)):
        builder.ret(builder.load(PTR, Value(PTR, f"@{EXHAUSTED_ERROR}"), align=8))
    LAYOUT_FUNCTIONS[name].store(builder, request, "layout", made)
    builder.ret(zero(PTR))


def _define_serialize(module: Module) -> None:
    name = "MemoryLayout_Serialize"
    builder, request = _begin(module, name)
    layout = _asked(builder, request, name, "layout")
    answers = {
        "serialized_bytes": builder.offset(layout, builder.i64(LAYOUT.size)),
        "serialized_bytes_size": LAYOUT.load(builder, layout, "text_size"),
        "serialized_layout": layout,
        "serialized_layout_deleter": Value(PTR, "@Plugin_Initialize"),  # which does nothing
    }
    for field, value in answers.items():
        LAYOUT_FUNCTIONS[name].store(builder, request, field, value)
    builder.ret(zero(PTR))


def _define_digits(module: Module) -> None:
    """`ptr xjit_write_digits(place, i64 number)`: writes a number without a sign; the place after it."""
    builder = define(module, "xjit_write_digits", [(PTR, "place"), (I64, "number")], return_type=PTR)
    place, number = builder.function.args
    position = builder.alloca(PTR, align=8, name="position")
    builder.store(place, position, align=8)
    for divisor in (100, 10, 1):
        rest = builder.udiv(number, builder.i64(divisor))
        is_written = builder.icmp_signed(">=", number, builder.i64(divisor if divisor > 1 else 0))
        with builder.when(is_written):
            digit = builder.urem(rest, builder.i64(10))
            _write(builder, position, builder.trunc(builder.add(digit, builder.i64(ord("0"))), I8))
    builder.ret(builder.load(PTR, position, align=8))


def _write(builder: StructuredBuilder, position: Value, character: Value) -> None:
    place = builder.load(PTR, position, align=8)
    builder.store(character, place, align=1)
    builder.store(builder.offset(place, builder.i64(1)), position, align=8)


def _define_new(module: Module) -> None:
    """`ptr xjit_layout_new(minor_to_major, i64 rank, tiles)`: a layout, row-major if the order is null."""
    builder = define(module, _NEW, [(PTR, "order"), (I64, "rank"), (PTR, "tiles")], return_type=PTR)
    order, rank, tiles = builder.function.args
    length = builder.alloca(I64, align=8, name="length")
    builder.store(builder.i64(0), length, align=8)
    with builder.when(builder.not_(builder.is_null(tiles))):
        builder.store(builder.call(module.declare("strlen", I64, [PTR]), [tiles]), length, align=8)
    added = builder.load(I64, length, align=8)
    most = builder.add(builder.mul(rank, builder.i64(_CHARACTERS)), added)
    size = builder.add(most, builder.i64(LAYOUT.size + 2))
    made = builder.call(module.declare("malloc", PTR, [I64]), [size], name="made")
    with builder.when(builder.is_null(made)):
        builder.ret(made)
    LAYOUT.store(builder, made, "vtable", zero(PTR))
    LAYOUT.store(builder, made, "is_static", builder.i64(0))
    text = builder.offset(made, builder.i64(LAYOUT.size))
    position, number = builder.alloca(PTR, align=8, name="position"), builder.alloca(I64, align=8, name="number")
    builder.store(text, position, align=8)
    _write(builder, position, const_int(I8, ord("{")))
    with builder.loop(builder.i64(0), rank) as i:
        with builder.when(builder.icmp_signed(">", i, builder.i64(0))):
            _write(builder, position, const_int(I8, ord(",")))
        builder.store(builder.sub(builder.sub(rank, builder.i64(1)), i), number, align=8)
        with builder.when(builder.not_(builder.is_null(order))):
            builder.store(builder.load(I64, builder.gep(I64, order, i), align=8), number, align=8)
        place = builder.load(PTR, position, align=8)
        after = builder.call(
            module.functions["xjit_write_digits"], [place, builder.load(I64, number, align=8)], name="after"
        )
        builder.store(after, position, align=8)
    with builder.when(builder.icmp_signed(">", added, builder.i64(0))):
        place = builder.load(PTR, position, align=8)
        builder.memcpy(place, tiles, added, align=1)
        builder.store(builder.offset(place, added), position, align=8)
    _write(builder, position, const_int(I8, ord("}")))
    end = builder.load(PTR, position, align=8)
    LAYOUT.store(builder, made, "text_size", builder.sub(builder.ptrtoint(end, I64), builder.ptrtoint(text, I64)))
    builder.ret(made)
