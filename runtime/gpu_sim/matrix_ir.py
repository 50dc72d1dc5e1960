"""Matrix instructions of a warp, as IR: every lane's registers are there, and each sum is made by itself.

Products and their sum are computed in f64, which is exact for the products of all types and nearly so for their sums;
the total is rounded to f32 once. GPUs drop some low bits on the way, so last bits differ from theirs. Integers wrap.
"""

from __future__ import annotations

import functools

import numpy as np

from xjit.affine import AffineExpr, constant, substitute
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm import Module
from xjit.llvm.conversions import load_convert, storage_type
from xjit.llvm.matrix_units import MATRIX_UNITS, MatrixUnit, Place
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import DOUBLE, FLOAT, I32, I64, PTR, int_type
from xjit.llvm.values import Value, const_int
from xjit.runtime.gpu_sim.fields import Fields, element
from xjit.runtime.gpu_sim.records import LAUNCH, THREAD, WARP_SIZE

_PARAMS = [(PTR, "launch"), (I64, "first"), (I64, "count"), (PTR, "leader")]
_TF32_MASK = -(1 << 13)


def matrix_function(unit: str) -> str:
    """The name of the function that does a unit: `void (launch, i64 first, i64 count, leader)`, as of exchanges."""
    return f"xjit_sim_matrix_{unit.replace('.', '_')}"


@functools.cache
def matrix_functions(units: frozenset[str]) -> str:
    """The functions of some units, by their names in `MATRIX_UNITS`, as IR: kernels that use them bring them along."""
    module = Module("matrix_units")
    for name in sorted(units):
        _define_unit(module, MATRIX_UNITS[name], matrix_function(name))
    lines = module.to_text().splitlines()
    return "\n".join(line for line in lines if not line.startswith(("target ", ";")))  # it goes into another module


def _define_unit(module: Module, unit: MatrixUnit, name: str) -> None:
    """One unit: for each row and column, the products of all steps, then the sum that was there."""
    b = define(module, name, _PARAMS)
    registers = (unit.lhs_registers, unit.rhs_registers)
    places = (
        _holders(module, unit.lhs_place, registers[0] * unit.per_register, (unit.m, unit.k)),
        _holders(module, unit.rhs_place, registers[1] * unit.per_register, (unit.n, unit.k)),
        _holders(module, unit.sum_place, unit.num_sums, (unit.m, unit.n)),
    )
    lanes = _Lanes(b, unit)
    with b.loop(b.i64(0), b.i64(unit.m), name="row") as row, b.loop(b.i64(0), b.i64(unit.n), name="column") as column:
        lane, member = lanes.holder(places[2], row, column, unit.n)
        place = lanes.register(lane, b.add(member, b.i64(sum(registers))))
        before = lanes.decoded_sum(b.load(I64, place, 8))
        with b.loop_with(b.i64(0), b.i64(unit.k), [before], name="step") as (step, (total,), following):
            left = lanes.factor(places[0], row, step, 0, unit.lhs)
            right = lanes.factor(places[1], column, step, unit.lhs_registers, unit.rhs)
            if total.type.is_int:
                following.append(b.add(total, b.mul(left, right)))
            else:
                following.append(b.fadd(total, b.fmul(left, right)))
        b.store(lanes.encoded_sum(total), place, 8)
    b.ret_void()


def _holders(module: Module, place: Place, elements: int, sizes: tuple[int, int]) -> Value:
    """A table of who holds the element at a place: lane * 256 + the number of the element."""
    table = np.zeros(sizes, np.int64)
    for lane in range(WARP_SIZE):
        for number in range(elements):
            i, j = (_value(e, lane, number) for e in place)
            table[i, j] = lane * 256 + number
    return module.add_constant_array(table, hint="xjit_sim_holders")


def _value(expr: AffineExpr, *dims: int) -> int:
    found = substitute(expr, {i: constant(n) for i, n in enumerate(dims)})
    assert found.is_constant
    return found.value


class _Lanes:
    """The registers of a warp's lanes."""

    def __init__(self, builder: StructuredBuilder, unit: MatrixUnit) -> None:
        self._b = builder
        self._unit = unit
        self._threads = Fields(builder, LAUNCH, builder.function.args[0])["threads"]
        self._first = builder.function.args[1]

    def holder(self, table: Value, i: Value, j: Value, columns: int) -> tuple[Value, Value]:
        """The lane, and the number of its element, of a place of a table."""
        b = self._b
        place = b.add(b.mul(i, b.i64(columns)), j)
        found = b.load(I64, b.gep(I64, table, place), 8)
        return b.lshr(found, b.i64(8)), b.and_(found, b.i64(255))

    def register(self, lane: Value, number: Value) -> Value:
        """The address of a register."""
        b = self._b
        thread = element(b, THREAD, self._threads, b.add(self._first, lane))
        return b.offset(thread.pointer("register.0"), b.mul(number, b.i64(8)))

    def factor(self, table: Value, i: Value, step: Value, first: int, kind: PrimitiveType) -> Value:
        """The element at a place of a block whose registers begin at `first`, as f64 or i32."""
        b, per = self._b, self._unit.per_register
        lane, number = self.holder(table, i, step, self._unit.k)
        place = self.register(lane, b.add(b.udiv(number, b.i64(per)), b.i64(first)))
        shift = b.mul(b.urem(number, b.i64(per)), b.i64(kind.bit_width))
        raw = b.lshr(b.load(I64, place, 8), shift)
        bits = int_type(kind.bit_width)
        raw = b.trunc(raw, bits) if bits.bits < 64 else raw
        if kind.is_integer:
            return b.sext(raw, I32) if kind.is_signed else b.zext(raw, I32)
        if kind is PrimitiveType.F32:
            raw = b.and_(raw, const_int(I32, _TF32_MASK))
        value = load_convert(b, kind, b.bitcast(raw, storage_type(kind)))
        return value if value.type is DOUBLE else b.fpext(value, DOUBLE)

    def decoded_sum(self, raw: Value) -> Value:
        """A register of sums as f64 or i32."""
        b, sums = self._b, self._unit.sums
        if sums.is_integer:
            return b.trunc(raw, I32)
        if sums is PrimitiveType.F64:
            return b.bitcast(raw, DOUBLE)
        return b.fpext(b.bitcast(b.trunc(raw, I32), FLOAT), DOUBLE)

    def encoded_sum(self, value: Value) -> Value:
        """The inverse of `decoded_sum`."""
        b = self._b
        if value.type.is_int:
            return b.zext(value, I64)
        if self._unit.sums is PrimitiveType.F64:
            return b.bitcast(value, I64)
        return b.zext(b.bitcast(b.fptrunc(value, FLOAT), I32), I64)
