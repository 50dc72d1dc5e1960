"""fft: FFT, IFFT, RFFT, IRFFT over the last one to three dimensions, of any length.

Several dimensions are several kernels: one transforms the rows, whose unit of work is a row, and then one or two per
further dimension transform columns in the result (`columns`). An IRFFT has its rows last, and keeps half spectra in
the rows of its real result until then (`half_spectra`). Where layouts do not allow that, all is one kernel, whose unit
of work is one transform over all its dimensions. All work in scratch memory with real
and imaginary parts apart. An inverse transform is the forward one with the parts exchanged, scaled on the way out. Real
transforms run as complex ones: of half the length if that is even and rows lie in memory (`real_halves`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xjit.affine import AffineExpr, constant, dim
from xjit.emitters.access.guards import EVERYWHERE
from xjit.emitters.access.memory import Buffer, MemoryAccess
from xjit.emitters.access.physical_offsets import physical_offset
from xjit.emitters.elemental import ComplexValue, RegisterValue, register_type
from xjit.emitters.kernels.fft.butterflies import Pair, scaled
from xjit.emitters.kernels.fft.columns import NS_PER_BUTTERFLY, ColumnPass, emit_columns, is_row_major
from xjit.emitters.kernels.fft.half_joins import emit_halves, emit_spectrum
from xjit.emitters.kernels.fft.half_spectra import emit_half_columns, load_half_row
from xjit.emitters.kernels.fft.lengths import transform_of
from xjit.emitters.kernels.fft.parts import MIN_ROW, emit_join, emit_split
from xjit.emitters.kernels.fft.real_halves import RealHalves, pairs_of
from xjit.emitters.kernels.fft.row_groups import RowGroups, takes_groups
from xjit.emitters.kernels.fft.transform import load_pair, spread, store_pair
from xjit.emitters.kernels.kernel import Kernel, KernelContext, finish, range_arguments
from xjit.emitters.kernels.loops.hand_loops import Scratch, here
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.iteration_space import unit_index
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.hlo import attributes as at
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.types.shape import Shape
from xjit.llvm.types import I8, I64
from xjit.llvm.values import Value, const_float, const_int

Index = tuple[AffineExpr, ...]


def emit_fft(context: KernelContext, view: KernelView) -> list[Kernel]:
    """Emits the kernels of an fft, in the order in which they run."""
    attributes = view.hero.attributes_as(at.FftAttributes)
    lengths = attributes.fft_length
    scale = 1.0 / max(1, math.prod(lengths)) if attributes.fft_type in ("IFFT", "IRFFT") else 1.0
    shape = view.result_shapes[0]
    first, last = len(shape.dimensions) - len(lengths), len(shape.dimensions) - 1
    is_real_inverse = attributes.fft_type == "IRFFT"
    in_order = all(map(is_row_major, (shape, view.hero.operand(0).shape)))
    if not math.prod(shape.dimensions) or not in_order:
        return [_Fft(context, view, lengths, scale).emit()]
    if is_real_inverse and len(lengths) > 1:
        return [*emit_half_columns(context, view, first), _emit_rows(context, view, scale, reads_result=True)]
    kernels = [_emit_rows(context, view, 1.0 if len(lengths) > 1 else scale)]
    for axis in range(last - 1, first - 1, -1):
        inverse = attributes.fft_type == "IFFT"
        kernels += emit_columns(context, view, ColumnPass(axis, inverse, scale if axis == first else 1.0))
    return kernels


def _emit_rows(context: KernelContext, view: KernelView, scale: float, reads_result: bool = False) -> Kernel:
    """Emits the kernel over the last dimension: of rows side by side, or one after the other."""
    if takes_groups(context, view):
        return RowGroups(context, view, scale, reads_result).emit()
    lengths = view.hero.attributes_as(at.FftAttributes).fft_length
    return _Fft(context, view, lengths[-1:], scale, reads_result).emit()


class _Fft:
    """State while the kernel over the last dimensions, of those lengths, is emitted.

    With `reads_result` the rows of the result hold the half spectra to transform (`half_spectra`).
    """

    def __init__(
        self,
        context: KernelContext,
        view: KernelView,
        lengths: tuple[int, ...],
        scale: float,
        reads_result: bool = False,
    ) -> None:
        self.view = view
        self.reads_result = reads_result
        attributes = view.hero.attributes_as(at.FftAttributes)
        self.kind_of_fft = attributes.fft_type
        self.scale = scale
        self.inverse = attributes.fft_type in ("IFFT", "IRFFT")
        self.function, leaves, results = context.new_kernel(view)
        source = leaves.get(view.hero.operand(0))
        if source is None:
            raise Unsupported("fft of a value that is fused into its kernel", view.hero.span)
        self.source, self.result = source, results[0]
        self.kind = self.result.shape.element_type.component
        self.nest = LoopNest(context.module, self.function, context.target)
        self.memory = MemoryAccess(self.nest)
        self.width = context.target.vector_width(register_type(self.kind))
        real = {"RFFT": self.source, "IRFFT": self.result}.get(self.kind_of_fft)
        self.pairs = pairs_of(real) if real is not None and len(lengths) == 1 else None
        self.halves = RealHalves(self.nest, self.memory, lengths[0], self.kind) if self.pairs is not None else None
        self.lengths = lengths if self.halves is None else (self.halves.m,)
        stays = len(lengths) > 1
        self.transforms = {n: transform_of(context, n, self.kind, in_place=stays) for n in dict.fromkeys(self.lengths)}
        self.batch = self.result.shape.dimensions[: -len(self.lengths)]
        self.units = math.prod(self.batch)
        self._unit = self.nest.new_variable(max(1, self.units))
        self.is_called = self._has_long_rows()
        self.function.is_cold = self.is_called
        self._allocate(context)

    def _has_long_rows(self) -> bool:
        """Whether rows lie in memory one after the other, and are so long that libraries do all the work."""
        shapes = self.source.shape, self.result.shape
        is_row = len(self.lengths) == 1 and (self.halves is not None or self.kind_of_fft != "IRFFT")
        shortest = min(*self.lengths, *(s.dimensions[-1] for s in shapes))
        return is_row and all(map(is_row_major, shapes)) and shortest >= MIN_ROW

    def _allocate(self, context: KernelContext) -> None:
        dims, longest = self.lengths, max(self.lengths)
        if self.halves is not None and self.inverse:
            dims = (longest + 1,)  # the half spectrum
        size = math.prod(dims)
        work = [t.work_bytes for t in self.transforms.values()]
        sizes = [n * self.kind.byte_width for n in (size, size, longest, longest)]
        tables = self.halves.table_bytes if self.halves is not None else ()
        self.scratch = Scratch(context.module, self.nest.builder, [*sizes, *tables, *work])
        box, line = Shape.array(self.kind, dims), Shape.array(self.kind, (longest,))
        pointers = self.scratch.pieces
        self.box = [Buffer(box, p) for p in pointers[:2]]
        self.line = [Buffer(line, p) for p in pointers[2:4]]
        self.work = dict(zip(self.transforms, pointers[4 + len(tables) :], strict=True))
        if self.halves is not None:
            self.halves.prepare(pointers[4:6])
        for n, transform in self.transforms.items():
            transform.emit_prepare(self.nest.builder, self.work[n])
        self.joined = self.line if self.halves is not None and self.inverse else self.box
        self.transformed = self._result() if len(self.lengths) == 1 else self.box

    def _result(self) -> list[Buffer]:
        """Where the transform of one dimension leaves its result."""
        (n,) = self.lengths
        parts = self._exchanged([buffer.pointer for buffer in self.joined])
        result = self.transforms[n].result(self.nest.builder, parts, self.work[n])
        return [Buffer(self.line[0].shape, pointer) for pointer in self._exchanged(result)]

    def _exchanged(self, parts: Sequence[Value]) -> Sequence[Value]:
        """Real and imaginary parts, exchanged for an inverse transform."""
        return parts[::-1] if self.inverse else parts

    @property
    def half(self) -> int:
        """Length of the last dimension of a real transform's complex side."""
        return self.lengths[-1] // 2 + 1

    def emit(self) -> Kernel:
        begin, end = range_arguments(self.function)

        def body(_: Sequence[Value]) -> Sequence[Value]:
            self._load()
            axes = list(range(len(self.lengths)))
            for axis in axes if self.kind_of_fft == "IRFFT" else reversed(axes):
                self._transform(axis)
            self._store()
            return ()

        self.nest.loop(self._unit, body, begin=begin, end=end, name="transform")
        self.scratch.free(self.nest.builder)
        finish(self.nest)
        size = math.prod(self.lengths)
        work = self.units * size * max(1, size.bit_length())
        return Kernel(self.function, self.units, work * NS_PER_BUTTERFLY, "fft", self.view.byte_size, 5 * work)

    # -- moving elements

    def _loops(self, sizes: Sequence[int], body: Callable[[Index], None]) -> None:
        """Loops over a box, vectors along the last dimension."""
        positions = [self.nest.new_variable(n) for n in sizes]

        def element(_: Sequence[Value]) -> Sequence[Value]:
            body(tuple(dim(p) for p in positions))
            return ()

        self.nest.loops(positions, element, vector_width=self.width)

    def _far(self, index: Index) -> Index:
        """The index in the operand or result of an element of the current transform."""
        return (*unit_index(self.nest.table, self._unit, self.batch), *index)

    def _load(self) -> None:
        if self.is_called:
            self._load_called()
            return
        if self.reads_result:
            n = self.result.shape.dimensions[-1]
            load_half_row(self.nest, self.memory, self._load_result, n, self.box, self.width)
        else:
            self._load_box()
        if self.halves is not None and self.inverse:
            self.halves.join(self.box, self.joined)

    def _load_box(self) -> None:
        source = self.pairs if self.pairs is not None and not self.inverse else self.source

        def body(index: Index) -> None:
            value: RegisterValue = self.memory.load(source, self._far(index), EVERYWHERE)
            zero = const_float(register_type(self.kind), 0.0)
            pair = (value.real, value.imag) if isinstance(value, ComplexValue) else (value, zero)
            store_pair(self.memory, self.box, index, (spread(self.nest, pair[0]), spread(self.nest, pair[1])))

        self._loops(source.shape.dimensions[-len(self.lengths) :], body)

    def _load_called(self) -> None:
        builder, parts = self.nest.builder, [b.pointer for b in self.joined]
        if self.halves is not None and self.inverse:
            emit_halves(builder, self.kind, self._spectrum(), parts, self.halves.roots, self.halves.m)
            return
        source = self.pairs or self.source
        row, length = self._row(source), source.shape.dimensions[-1]
        if source.shape.element_type.is_complex:
            emit_split(builder, self.kind, row, parts, (1, length, 0))
            return
        size = const_int(I64, length * self.kind.byte_width)
        builder.memcpy(parts[0], row, size, self.kind.byte_width)
        builder.memset(parts[1], const_int(I8, 0), size, self.kind.byte_width)

    def _spectrum(self) -> tuple[Value, Value]:
        """Addresses of X[0] and of the row X[k]. That of half spectra is one real number ahead of it."""
        if not self.reads_result:
            row = self._row(self.source)
            return row, row
        row = self._row(self.result)
        return row, self.nest.builder.gep(I8, row, const_int(I64, -self.kind.byte_width), inbounds=False)

    def _row(self, array: Buffer) -> Value:
        """The address of the row at hand."""
        first = self.nest.index_value(physical_offset(self.nest.table, array.shape, self._far((constant(0),))))
        distance = self.nest.builder.mul(first, const_int(I64, array.shape.element_type.byte_width))
        return self.nest.builder.gep(I8, array.pointer, distance)

    def _load_result(self, number: AffineExpr) -> Value:
        value = self.memory.load(self.result, self._far((number,)), here(self.nest))
        assert isinstance(value, Value)
        return value

    def _store(self) -> None:
        if self.is_called:
            self._store_called()
            return
        if self.halves is not None and not self.inverse:
            self.halves.spectrum(self.transformed, lambda k, value: self._store_pair(self.result, k, value))
            return
        result = self.result if self.pairs is None else self.pairs

        def body(index: Index) -> None:
            self._store_pair(result, index, load_pair(self.nest, self.memory, self.transformed, index))

        self._loops(result.shape.dimensions[-len(self.lengths) :], body)

    def _store_called(self) -> None:
        builder, parts = self.nest.builder, [b.pointer for b in self.transformed]
        if self.halves is not None and not self.inverse:
            emit_spectrum(builder, self.kind, self._row(self.result), parts, self.halves.roots, self.halves.m)
            return
        result = self.pairs or self.result
        emit_join(builder, self.kind, self._row(result), parts, (1, result.shape.dimensions[-1], 0), self.scale)

    def _store_pair(self, result: Buffer, index: Index, value: Pair) -> None:
        place = self._far(index)
        re, im = (scaled(self.nest.builder, part, self.scale) for part in value)
        if re.type.is_vector and not self.nest.uses_vector(physical_offset(self.nest.table, result.shape, place)):
            re, im = (self.nest.builder.extract_element(part, 0) for part in (re, im))
        self.memory.store(result, place, ComplexValue(re, im) if result.shape.element_type.is_complex else re)

    # -- one axis

    def _transform(self, axis: int) -> None:
        """Transforms all lines along one axis; those that only a complete spectrum would have are left out."""
        lines = [d for d in range(len(self.lengths)) if d != axis]
        last = len(self.lengths) - 1
        real = self.kind_of_fft in ("RFFT", "IRFFT")
        positions = {d: self.nest.new_variable(self.half if real and d == last else self.lengths[d]) for d in lines}

        def line(_: Sequence[Value]) -> Sequence[Value]:
            self._line({d: dim(p) for d, p in positions.items()}, axis)
            return ()

        self.nest.loops(list(positions.values()), line)

    def _line(self, fixed: dict[int, AffineExpr], axis: int) -> None:
        n, last = self.lengths[axis], len(self.lengths) - 1

        def at_position(along: AffineExpr) -> Index:
            return tuple(along if d == axis else fixed[d] for d in range(len(self.lengths)))

        if self.halves is not None:
            self._apply(n, [b.pointer for b in self.joined])
            return
        if axis == last:
            if self.kind_of_fft == "IRFFT":
                self._complete_spectrum(at_position)
            start = self.nest.index_value(physical_offset(self.nest.table, self.box[0].shape, at_position(constant(0))))
            bytes_before = self.nest.builder.mul(start, const_int(I64, self.kind.byte_width))
            self._apply(n, [self.nest.builder.gep(I8, b.pointer, bytes_before) for b in self.box])
            return
        self._copy_line(n, self.box, at_position, self.line, lambda along: (along,))
        self._apply(n, [b.pointer for b in self.line])
        self._copy_line(n, self.line, lambda along: (along,), self.box, at_position)

    def _apply(self, n: int, pointers: Sequence[Value]) -> None:
        self.nest.builder.call(self.transforms[n].apply, [*self._exchanged(pointers), self.work[n]])

    def _copy_line(
        self, n: int, source: Sequence[Buffer], from_index: Callable[[AffineExpr], Index],
        target: Sequence[Buffer], to_index: Callable[[AffineExpr], Index],
    ) -> None:  # fmt: skip
        def body(index: Index) -> None:
            value = load_pair(self.nest, self.memory, source, from_index(index[0]))
            store_pair(self.memory, target, to_index(index[0]), value)

        self._loops((n,), body)

    def _complete_spectrum(self, at_position: Callable[[AffineExpr], Index]) -> None:
        """Fills in the conjugates that make the result real; the first and the middle element count as real."""
        n, half, nest = self.lengths[-1], self.half, self.nest
        zero = const_float(register_type(self.kind), 0.0)
        for place in (0, n // 2) if n % 2 == 0 else (0,):
            self.memory.store(self.box[1], at_position(constant(place)), zero)
        if half == n:
            return
        position = nest.new_variable(n - half, half)

        def body(_: Sequence[Value]) -> Sequence[Value]:
            source: Pair = load_pair(nest, self.memory, self.box, at_position(constant(n) - dim(position)))
            turned = source[0], nest.builder.fneg(source[1])
            store_pair(self.memory, self.box, at_position(dim(position)), turned)
            return ()

        nest.vector_loop(position, self.width, body)
