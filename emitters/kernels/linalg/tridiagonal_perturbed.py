"""The custom call tridiagonal_solve_perturbed_ffi: solves tridiagonal systems that may be singular.

LAPACK's lagtf and lagts for several right-hand sides: elimination with row interchanges, chosen by the rows' sizes;
then pivots so small that back substitution would overflow are moved away from zero by eps max |U|. Eigenvectors by
inverse iteration need that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from xjit.emitters.kernels.kernel import Kernel, KernelContext, range_arguments
from xjit.emitters.kernels.linalg.lapack import check_layouts
from xjit.emitters.kernels.loops.hand_loops import Scratch
from xjit.emitters.kernels.view import KernelView
from xjit.llvm import complex_ops
from xjit.llvm.complex_ops import Complex
from xjit.llvm.inline_control_flow import do_while
from xjit.llvm.math.vec import Vec
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import DOUBLE, FLOAT, I64
from xjit.llvm.values import Value, const_int, constant
from xjit.ops.lapack_call import bind_lapack_call
from xjit.ops.lapack_targets import perturbed_row

NS_PER_ROW = 20.0
NS_PER_ELEMENT = 3.0

Number = Vec | Complex


def emit_tridiagonal_perturbed(context: KernelContext, view: KernelView) -> list[Kernel]:
    """Emits the kernel of such a call. Errors: InvalidArgument for arrays that do not fit together."""
    call = bind_lapack_call(view.hero, perturbed_row(view.hero))
    check_layouts(view, call)
    units, n, right = math.prod(call.batch), call.sizes["n"], call.sizes["r"]
    if not units * n * right:
        return []
    return [_Perturbed(context, view, n, right).emit(units)]


class _Perturbed:
    """State while the kernel is emitted. All positions are i64, counted in numbers."""

    def __init__(self, context: KernelContext, view: KernelView, n: int, right: int) -> None:
        self.view, self.n, self.right = view, n, right
        self.kind = view.result_shapes[0].element_type
        self.part = DOUBLE if self.kind.component.bit_width == 64 else FLOAT
        self.limits = np.finfo(self.kind.component.dtype)
        self.function, leaves, results = context.new_kernel(view)
        self.builder = StructuredBuilder(self.function.append_block("entry"))
        self.scratch = Scratch(context.module, self.builder, [3 * n * self.kind.byte_width])
        self.buffers = [*(leaves[o].pointer for o in view.hero.operands), results[0].pointer]
        self.lower = self.diagonal = self.upper = self.given = self.solution = self.buffers[0]

    def emit(self, units: int) -> Kernel:
        """Emits the loop over the systems."""
        builder = self.builder
        begin, end = range_arguments(self.function)
        with builder.loop(begin, end, name="system") as unit:
            sizes = [self.n] * 3 + [self.n * self.right] * 2
            self.lower, self.diagonal, self.upper, self.given, self.solution = (
                self._offset(base, builder.mul(unit, const_int(I64, size)))
                for base, size in zip(self.buffers, sizes, strict=True)
            )
            self._substitute_back(self._eliminate())
        self.scratch.free(builder)
        builder.ret_void()
        traffic = sum(leaf.shape.byte_size for leaf in self.view.leaves) + self.view.result_shapes[0].byte_size
        flops = units * self.n * (10 + 6 * self.right)
        cost = units * self.n * (NS_PER_ROW + NS_PER_ELEMENT * self.right)
        return Kernel(self.function, units, cost, "tridiagonal-solve", traffic, flops)

    def _eliminate(self) -> Vec:
        """Leaves U in scratch memory and L^-1 b in the result; returns how far pivots are moved, eps max |U|.

        The loop carries the row of the next pivot (two numbers) and its size.
        """
        builder, n = self.builder, self.n
        zero, first, last = const_int(I64, 0), const_int(I64, 1), const_int(I64, n - 1)
        pivot, beside = self._load(self.diagonal, zero), self._load(self.upper, zero)
        size = _abs(pivot) + _abs(beside)
        largest = _maximum(_abs(pivot), _abs(beside)) if n > 1 else _abs(pivot)
        with builder.loop(zero, const_int(I64, self.right), name="right") as j:
            self._store(self.solution, self._at(zero, j), self._load(self.given, self._at(zero, j)))
        initial = [*_parts(pivot), *_parts(beside), size.v, largest.v]
        with builder.loop_with(zero, last, initial, name="row") as (k, carried, following):
            below, inside = builder.add(k, first), builder.icmp_signed("<", k, const_int(I64, n - 2))
            vecs = [Vec(builder, value) for value in carried]
            width = 2 if self.kind.is_complex else 1
            pivot, beside = self._number(vecs[:width]), self._number(vecs[width : 2 * width])
            state = self._eliminate_row(k, below, Vec(builder, inside), (pivot, beside), (vecs[-2], vecs[-1]))
            following.extend(state)
        pivot = self._number([Vec(builder, value) for value in carried[: 2 if self.kind.is_complex else 1]])
        self._store_row(last, [pivot, self._zero(), self._zero()])
        return _maximum(Vec(builder, carried[-1]), _abs(pivot)) * float(self.limits.eps)

    def _eliminate_row(
        self, k: Value, below: Value, inside: Vec, row: tuple[Number, Number], sizes: tuple[Vec, Vec]
    ) -> list[Value]:
        """Eliminates the number under the pivot with the row of the two whose pivot is larger for its size."""
        (pivot, beside), (size, largest), zero = row, sizes, self._zero()
        under, middle = self._load(self.lower, below), self._load(self.diagonal, below)
        above = _where(inside, self._load(self.upper, below), zero)
        size_below = _abs(under) + _abs(middle) + _abs(above)
        is_zero = _abs(under).eq(0.0)
        weight = size.const(0.0).where(_abs(pivot).eq(0.0), _abs(pivot) / size)
        swap = ~is_zero & ~(_abs(under) / size_below <= weight)
        leading = [_where(swap, x, y) for x, y in ((under, pivot), (middle, beside), (above, zero))]
        other = [_where(swap, y, x) for x, y in ((under, pivot), (middle, beside), (above, zero))]
        factor = _where(is_zero, zero, _divide(other[0], leading[0]))
        pivot, beside = (_minus(other[i], _times(factor, leading[i])) for i in (1, 2))
        self._store_row(k, leading)
        with self.builder.loop(const_int(I64, 0), const_int(I64, self.right), name="right") as j:
            here, there = self._at(k, j), self._at(below, j)
            done, new = self._load(self.solution, here), self._load(self.given, there)
            lead = _where(swap, new, done)
            self._store(self.solution, here, lead)
            self._store(self.solution, there, _minus(_where(swap, done, new), _times(factor, lead)))
        largest_now = _maximum(_maximum(_maximum(largest, _abs(leading[0])), _abs(leading[1])), _abs(leading[2]))
        largest = largest_now.where(inside, largest)
        size = (_abs(pivot) + _abs(beside)).where(swap, size_below)
        return [*_parts(pivot), *_parts(beside), size.v, largest.v]

    def _substitute_back(self, step: Vec) -> None:
        """Solves U x = z in the result, from the last row to the first."""
        builder, n, one = self.builder, self.n, const_int(I64, 1)
        limit = const_int(I64, n - 1)
        with builder.loop(const_int(I64, 0), const_int(I64, n), name="back") as i:
            k = builder.sub(limit, i)
            behind = [builder.add(k, one), builder.add(k, const_int(I64, 2))]
            exist = [Vec(builder, builder.icmp_signed("<=", b, limit)) for b in behind]
            rows = [builder.min(b, limit) for b in behind]
            row = [self._load(self.scratch.pieces[0], self._in_row(k, c)) for c in range(3)]
            begin, end, zero = const_int(I64, 0), const_int(I64, self.right), constant(self.part, 0.0)
            with builder.loop_with(begin, end, [zero], name="right") as (j, now, later):
                value = self._load(self.solution, self._at(k, j))
                for c in range(2):
                    product = _times(row[c + 1], self._load(self.solution, self._at(rows[c], j)))
                    value = _minus(value, _where(exist[c], product, self._zero()))
                self._store(self.solution, self._at(k, j), value)
                later.append(_maximum(Vec(builder, now[0]), _abs(value)).v)
            pivot, scale = self._safe_pivot(row[0], step, Vec(builder, now[0]))
            reciprocal = _divide(self._real(constant(self.part, 1.0)), pivot)
            with builder.loop(const_int(I64, 0), const_int(I64, self.right), name="right") as j:
                value = _times(self._load(self.solution, self._at(k, j)), self._real(scale.v))
                self._store(self.solution, self._at(k, j), _times(value, reciprocal))

    def _safe_pivot(self, pivot: Number, step: Vec, largest: Vec) -> tuple[Number, Vec]:
        """Moves a pivot until dividing by it cannot overflow; returns it and the factor that the row takes."""
        builder, safe = self.builder, float(self.limits.tiny)
        sign = pivot.real if isinstance(pivot, Complex) else pivot
        step = _maximum(step, step.const(safe)).copysign(sign)
        initial = [*_parts(pivot), step.v, constant(self.part, 1.0)]

        def body(state: Sequence[Value]) -> tuple[Value, Sequence[Value]]:
            *parts, step, scale = (Vec(builder, value) for value in state)
            now = self._number(parts)
            size = _abs(now)
            active, small = size < 1.0, size < safe
            lost = size.eq(0.0) | (largest * safe > size)
            move = active & ((small & lost) | (~small & (largest > size * (1.0 / safe))))
            rescale = active & small & ~lost
            grown = _times(now, self._real(constant(self.part, 1.0 / safe)))
            following = _where(move, _plus(now, self._real(step.v)), _where(rescale, grown, now))
            scale = scale.const(1.0 / safe).where(rescale, scale)
            return move.v, [*_parts(following), (step * 2.0).where(move, step).v, scale.v]

        *parts, _, scale = (Vec(builder, value) for value in do_while(builder, initial, body))
        return self._number(parts), scale

    # -- memory

    def _offset(self, base: Value, position: Value) -> Value:
        factor = 2 if self.kind.is_complex else 1
        return self.builder.gep(self.part, base, self.builder.mul(position, const_int(I64, factor)))

    def _at(self, row: Value, column: Value) -> Value:
        return self.builder.add(self.builder.mul(column, const_int(I64, self.n)), row)

    def _in_row(self, row: Value, column: int) -> Value:
        return self.builder.add(self.builder.mul(row, const_int(I64, 3)), const_int(I64, column))

    def _store_row(self, row: Value, numbers: Sequence[Number]) -> None:
        for column, number in enumerate(numbers):
            self._store(self.scratch.pieces[0], self._in_row(row, column), number)

    def _load(self, base: Value, position: Value) -> Number:
        address = self._offset(base, position)
        count = 2 if self.kind.is_complex else 1
        places = [self.builder.gep(self.part, address, const_int(I64, i)) for i in range(count)]
        return self._number([Vec(self.builder, self.builder.load(self.part, p, self.part.bits // 8)) for p in places])

    def _store(self, base: Value, position: Value, number: Number) -> None:
        address = self._offset(base, position)
        for i, part in enumerate(_parts(number)):
            self.builder.store(part, self.builder.gep(self.part, address, const_int(I64, i)), self.part.bits // 8)

    def _number(self, parts: Sequence[Vec]) -> Number:
        return Complex(parts[0], parts[1]) if self.kind.is_complex else parts[0]

    def _real(self, value: Value) -> Number:
        return self._number([Vec(self.builder, value), Vec(self.builder, constant(self.part, 0.0))])

    def _zero(self) -> Number:
        return self._real(constant(self.part, 0.0))


def _parts(number: Number) -> list[Value]:
    return [number.real.v, number.imag.v] if isinstance(number, Complex) else [number.v]


def _binary(
    real: Callable[[Vec, Vec], Vec], pair: Callable[[Complex, Complex], Complex]
) -> Callable[[Number, Number], Number]:
    def apply(a: Number, b: Number) -> Number:
        if isinstance(a, Complex):
            assert isinstance(b, Complex)
            return pair(a, b)
        assert isinstance(b, Vec)
        return real(a, b)

    return apply


_plus = _binary(lambda a, b: a + b, complex_ops.add)
_minus = _binary(lambda a, b: a - b, complex_ops.subtract)
_times = _binary(lambda a, b: a * b, complex_ops.multiply)
_divide = _binary(lambda a, b: a / b, complex_ops.divide)


def _where(condition: Vec, a: Number, b: Number) -> Number:
    return _binary(lambda x, y: x.where(condition, y), lambda x, y: x.where(condition, y))(a, b)


def _abs(number: Number) -> Vec:
    return complex_ops.absolute(number) if isinstance(number, Complex) else number.abs()


def _maximum(a: Vec, b: Vec) -> Vec:
    """`b` only if it is larger: NaN stays in `a`."""
    return b.where(a < b, a)
