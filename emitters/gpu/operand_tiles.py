"""Contractions on GPUs: operands staged in shared memory, multiplied from there by threads, or by matrix instructions.

Where an element lies in its tile is the tile's own map; which elements a lane needs for a matrix instruction is one of
`xjit.llvm.matrix_units`. Addresses are the composition of the two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xjit.affine import AffineExpr, Interval, constant, dim, substitute
from xjit.emitters.access.access_analysis import apply_map, map_conditions
from xjit.emitters.access.guards import EVERYWHERE, restrict
from xjit.emitters.elemental import ComplexValue, RegisterValue, constant_register, emit_elementwise
from xjit.emitters.fused import FusedIrEmitter
from xjit.emitters.gpu.shared_memory import ALIGNMENT, SharedArray, SharedMemory
from xjit.emitters.gpu.threads import Threads
from xjit.emitters.loops.variables import VariableTable, factor_of, known_divisor
from xjit.emitters.nested import splat_register
from xjit.emitters.reductions.contraction import convert_register
from xjit.emitters.reductions.reduction_loops import flatten
from xjit.emitters.schedule.statements import Contract, OperandTile, StageOperand, StageSum
from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.builder import IRBuilder
from xjit.llvm.conversions import load_convert, storage_type, store_convert
from xjit.llvm.element_types import PROMOTED
from xjit.llvm.gpu_models import FIRST_WITH_COPIES, WARP_SIZE
from xjit.llvm.matrix_units import MATRIX_UNITS, MatrixUnit, Place
from xjit.llvm.types import DOUBLE, HALF, I32, VOID, LLVMType, struct, vector
from xjit.llvm.values import Value, const_int, poison, zero

COPIED_BYTES = 16
"""Of an asynchronous copy."""

_TF32_DROPPED_BITS = 13


class OperandTiles:
    """The tiles of one part, and what is computed from them."""

    def __init__(self, fused: FusedIrEmitter, threads: Threads, shared: SharedMemory) -> None:
        self._fused = fused
        self._nest = fused.nest
        self._shared = shared
        self._arrays: dict[OperandTile, tuple[SharedArray, ...]] = {}
        self._is_copying = False
        self._valid_from = 0  # the level of the last barrier: what was read before it is no more
        self._lane = self._nest.new_variable(WARP_SIZE)
        self._nest.bind(self._lane, threads.lane, 0)

    def before_barrier(self) -> None:
        """Waits for this thread's copies."""
        if self._is_copying:
            self._nest.builder.intrinsic("nvvm.cp.async.wait.all", VOID, (), overloads=())
            self._is_copying = False

    def barrier(self) -> None:
        """Says that all threads have met at this level: what they staged can be read."""
        self._valid_from = self._nest.level.depth

    def stage(self, tile: OperandTile, instruction: HloInstruction, stage: StageOperand, inside: Value | None) -> None:
        """Emits an element, or a vector of them, and writes it to its tile; zeros where it is not `inside`."""
        nest = self._nest
        if self._copy(tile, instruction, stage, inside):
            return
        value = self._staged(tile, instruction, stage)
        builder, width = nest.builder, nest.vector.width if nest.vector is not None else 0
        parts = [splat_register(builder, part, width) for part in flatten([value])]
        position = nest.index_value(self._place(tile, stage.at))
        stride = factor_of(tile.place, stage.along)
        assert stride is not None, "a tile whose elements lie unevenly"
        alignment = self._alignment(tile, stage.at) if stride == 1 and width else 0
        for array, part in zip(self._of(tile), flatten(parts), strict=True):
            if inside is not None:
                part = builder.select(inside, part, zero(part.type))
            _store_along(builder, array, position, part, stride, alignment)

    def _copy(self, tile: OperandTile, instruction: HloInstruction, stage: StageOperand, inside: Value | None) -> bool:
        """Emits an asynchronous copy, past the registers, if the element is one of memory; returns whether it is."""
        nest, gpu = self._nest, self._nest.target.gpu
        operand = instruction.operand(tile.operand)
        leaf = self._fused.leaves.get(operand)
        if leaf is None or gpu is None or gpu.compute_capability < FIRST_WITH_COPIES or nest.vector is None:
            return False
        if operand.shape.element_type.text != tile.kind or factor_of(tile.place, stage.along) != 1:
            return False
        indexing = self._fused.maps.of(instruction)[tile.operand][0]
        index, symbols = stage.index, stage.symbols
        guard = restrict(nest, EVERYWHERE, map_conditions(indexing, instruction.shape.dimensions, index, symbols))
        if guard is None or self._alignment(tile, stage.at) % COPIED_BYTES:
            return False
        source = self._fused.memory.vector_address(
            leaf, apply_map(nest.table, indexing, index, symbols), guard, COPIED_BYTES
        )
        if source is None:
            return False
        builder, count = nest.builder, const_int(I32, COPIED_BYTES)
        for condition in (inside, guard.scalar):
            if condition is not None:
                count = builder.select(condition, count, const_int(I32, 0))
        (array,) = self._of(tile)
        destination = array.address(builder, nest.index_value(self._place(tile, stage.at)))
        builder.intrinsic("nvvm.cp.async.cg.shared.global.16.s", VOID, (destination, source, count), overloads=())
        self._is_copying = True
        return True

    def _staged(self, tile: OperandTile, instruction: HloInstruction, stage: StageOperand) -> RegisterValue:
        """What is staged, as it is in the tile; zero where the instruction skips the step."""
        fused, table = self._fused, self._nest.table
        operand, kind = instruction.operand(tile.operand), PrimitiveType.from_text(tile.kind)
        source = operand.shape.element_type
        copied = source is kind and not kind.is_complex
        indexing = fused.maps.of(instruction)[tile.operand][0]
        place = apply_map(table, indexing, stage.index, stage.symbols)
        value, _ = fused.where(
            map_conditions(indexing, instruction.shape.dimensions, stage.index, stage.symbols),
            EVERYWHERE,
            lambda guard: (fused.stored_element if copied else fused.element)(operand, place, guard),
            lambda _: (zero(storage_type(kind)) if copied else constant_register(source, 0), 0),
        )
        return value if copied or kind.is_complex else self._converted(value, source, kind)

    def _converted(self, value: RegisterValue, source: PrimitiveType, kind: PrimitiveType) -> Value:
        """A number in a register as one of another type in memory."""
        builder = self._nest.builder
        value = emit_elementwise(builder, "convert", kind, [source], [value], at.NO_ATTRIBUTES)
        assert isinstance(value, Value)
        return store_convert(builder, kind, value)

    def stage_sum(self, tile: OperandTile, stage: StageSum, value: Value) -> None:
        """Writes an accumulator of f32 to a tile."""
        (array,) = self._of(tile)
        stored = self._converted(value, PrimitiveType.F32, PrimitiveType.from_text(tile.kind))
        array.store(self._nest.builder, self._nest.index_value(self._place(tile, stage.at)), stored)

    def contract(
        self,
        tiles: Sequence[OperandTile],
        instruction: HloInstruction,
        contract: Contract,
        sums: Sequence[RegisterValue],
    ) -> list[RegisterValue]:
        """Returns the sums with the products that a statement says."""
        rows = [row for _, row in contract.rows]
        if not contract.unit:
            return [self._multiply_add(tiles, instruction, rows, contract.step, sums[0])]
        unit = MATRIX_UNITS[contract.unit]
        places = (unit.lhs_place, unit.rhs_place)
        counts = (unit.lhs_registers, unit.rhs_registers)
        arguments = [
            self._fragment(tile, (row, contract.step), unit, place, register)
            for tile, row, place, count in zip(tiles, rows, places, counts, strict=True)
            for register in range(count)
        ]
        builder, totals = self._nest.builder, flatten(sums)
        result = struct(totals[0].type, len(totals))
        found = builder.intrinsic(unit.intrinsic, result, [*arguments, *totals], overloads=())
        return [builder.extract_value(found, i) for i in range(len(totals))]

    def _multiply_add(
        self,
        tiles: Sequence[OperandTile],
        instruction: HloInstruction,
        rows: Sequence[AffineExpr],
        step: AffineExpr,
        total: RegisterValue,
    ) -> RegisterValue:
        """One product, in the type of the sums; of floats with one rounding."""
        builder, declared = self._nest.builder, instruction.shape.element_type
        kind = PROMOTED.get(declared, declared)
        factors = [
            convert_register(builder, PrimitiveType.from_text(tile.kind), kind, self._element(tile, (row, step)))
            for tile, row in zip(tiles, rows, strict=True)
        ]
        if kind.is_float:
            a, b, c = flatten([*factors, total])
            return builder.fma(a, b, c)
        product = emit_elementwise(builder, "multiply", kind, [kind, kind], factors, at.NO_ATTRIBUTES)
        return emit_elementwise(builder, "add", kind, [kind, kind], [total, product], at.NO_ATTRIBUTES)

    # -- reading tiles

    def _element(self, tile: OperandTile, place: Place) -> RegisterValue:
        kind = PrimitiveType.from_text(tile.kind)
        parts = [self._load(array, self._place(tile, place), 0) for array in self._of(tile)]
        if kind.is_complex:
            return ComplexValue(*parts)
        return load_convert(self._nest.builder, kind, parts[0])

    def _fragment(self, tile: OperandTile, begin: Place, unit: MatrixUnit, place: Place, register: int) -> Value:
        """Emits one register of a lane's part of a block that begins at (row, step) `begin`."""
        first = register * unit.per_register
        (array,) = self._of(tile)
        places = [
            self._place(tile, (begin[0] + self._at(place[0], first + e), begin[1] + self._at(place[1], first + e)))
            for e in range(unit.per_register)
        ]
        builder = self._nest.builder
        if factor_of(tile.place, 1) == 1:
            value = self._load(array, places[0], unit.per_register)
        else:
            wide = vector(array.kind, unit.per_register)
            value = poison(wide)
            for number, where in enumerate(places):
                value = builder.insert_element(value, self._load(array, where, 0), number)
        if unit.lhs is PrimitiveType.F32:
            return _rounded_to_tf32(builder, value)
        return builder.bitcast(value, _argument_type(unit))

    def _at(self, expr: AffineExpr, element: int) -> AffineExpr:
        """One of a unit's places, for this lane."""
        return self._nest.simplify(substitute(expr, {0: dim(self._lane), 1: constant(element)}))

    def _place(self, tile: OperandTile, where: Sequence[AffineExpr]) -> AffineExpr:
        return self._nest.simplify(substitute(tile.place, dict(enumerate(where))))

    def _load(self, array: SharedArray, place: AffineExpr, width: int) -> Value:
        """Reads where the place is known; not in front of the barrier behind which the element is there."""
        nest = self._nest
        key = ("operand tile", array.pointer.text, place, width)
        found = nest.lookup(key)
        if found is None:
            level = nest.levels[max(nest.depth_of(place), self._valid_from)]
            size = array.kind.bits // 8
            alignment = math.gcd(size * known_divisor(nest.table, place, {}), ALIGNMENT)
            found = array.load(level.builder, nest.index_value(place), width if width > 1 else 0, alignment)
            level.cache[key] = found
        return found

    # -- memory

    def _of(self, tile: OperandTile) -> tuple[SharedArray, ...]:
        arrays = self._arrays.get(tile)
        if arrays is None:
            kind = PrimitiveType.from_text(tile.kind)
            size = VariableTable([Interval(0, n - 1) for n in tile.sizes]).interval(tile.place).upper + 1
            count = 2 if kind.is_complex else 1
            stored = storage_type(kind.component)
            arrays = self._arrays[tile] = tuple(self._shared.allocate(stored, size) for _ in range(count))
        return arrays

    def _alignment(self, tile: OperandTile, where: Sequence[AffineExpr]) -> int:
        """Bytes to which what is written to a tile is aligned."""
        size = storage_type(PrimitiveType.from_text(tile.kind).component).bits // 8
        return math.gcd(size * known_divisor(self._nest.table, self._place(tile, where), {}), ALIGNMENT)


def _store_along(
    builder: IRBuilder, array: SharedArray, position: Value, part: Value, stride: int, alignment: int
) -> None:
    """Writes a value, or the lanes of a vector `stride` elements apart."""
    if stride == 1 or not part.type.is_vector:
        array.store(builder, position, part, alignment)
        return
    for lane in range(part.type.width):
        place = builder.add(position, const_int(position.type, lane * stride)) if lane else position
        array.store(builder, place, builder.extract_element(part, lane))


def _argument_type(unit: MatrixUnit) -> LLVMType:
    """The type of a register in the intrinsic's signature: f16 and f64 are themselves, others are bits."""
    own = {PrimitiveType.F16: vector(HALF, unit.per_register), PrimitiveType.F64: DOUBLE}
    return own.get(unit.lhs, I32)


def _rounded_to_tf32(builder: IRBuilder, value: Value) -> Value:
    """The bits of an f32 rounded to ten bits of mantissa, to nearest, ties away from zero; a NaN stays one."""
    bits = builder.bitcast(value, I32)
    rounded = builder.add(bits, const_int(I32, 1 << (_TF32_DROPPED_BITS - 1)))
    rounded = builder.and_(rounded, const_int(I32, -(1 << _TF32_DROPPED_BITS)))
    return builder.select(builder.fcmp_unordered("!=", value, value), bits, rounded)
