"""Custom calls to LAPACK (`lapack_spotrf_ffi` and the like): calls of SciPy's LAPACK, one per matrix of the batch,
and small factorizations and triangular solves in line.

`xjit.ops.lapack_targets` says what each routine takes. Arrays are worked on where they lie: matrices are column-major,
which the calls ask for with `operand_layout_constraints`. Results that a routine does not write are zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from xjit.emitters.entry.context_calls import emit_fail, emit_scratch_alloc
from xjit.emitters.kernels.kernel import Kernel, KernelContext, range_arguments
from xjit.emitters.kernels.linalg.lapack_geev import emit_eigenvectors, emit_is_finite
from xjit.emitters.kernels.linalg.small_getrf import MAX_SIZE as GETRF_MAX_SIZE
from xjit.emitters.kernels.linalg.small_getrf import SmallGetrf, emit_small_getrf
from xjit.emitters.kernels.linalg.small_potrf import MAX_SIZE as POTRF_MAX_SIZE
from xjit.emitters.kernels.linalg.small_potrf import SmallPotrf, emit_small_potrf
from xjit.emitters.kernels.linalg.small_trsm import MAX_SIZE, SmallTrsm, emit_small_trsm
from xjit.emitters.kernels.loops.hand_loops import Scratch
from xjit.emitters.kernels.view import KernelView
from xjit.hlo.attributes import CustomCallAttributes
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.types.shape import Shape
from xjit.llvm.execution_context import RuntimeStatus
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import DOUBLE, FLOAT, I8, I32, I64, PTR, VOID
from xjit.llvm.values import Value, const_int, zero
from xjit.ops.lapack_call import KINDS, MAX_INT, LapackArray, LapackCall, bind_lapack_call, element_type
from xjit.ops.lapack_targets import LAPACK_TARGETS

NS_PER_FLOP = 0.3
NS_PER_CALL = 1000.0
THREADED_SIZE = 128
"""Rows of matrices whose work the library shares out among threads of its own, which wait for each other in loops: two
calls at a time would take turns at them."""
NOT_FINITE = -4  # what jaxlib reports for eigenvalues of matrices with infinities or NaNs, and gesdd for NaNs

_BLAS = frozenset(["trsm"])
_UNWRITTEN: Mapping[str, Sequence[str]] = {
    "gesdd": ("u", "vt"),
    "gesvd": ("u", "vt"),
    "gees": ("vs",),
    "geev": ("w", "wr", "wi", "vl", "vr"),
}
"""Results that a routine leaves as they are in some modes, or when it fails."""


def emit_lapack(context: KernelContext, view: KernelView) -> list[Kernel]:
    """Emits the kernel of such a call. Errors: InvalidArgument for what the routine cannot take."""
    target = view.hero.attributes_as(CustomCallAttributes).custom_call_target
    call = bind_lapack_call(view.hero, LAPACK_TARGETS[target])
    check_layouts(view, call)
    units = math.prod(call.batch)
    if not units:
        return []
    return [_LapackKernel(context, view, call).emit(units)]


class _LapackKernel:
    """State while such a kernel is emitted."""

    def __init__(self, context: KernelContext, view: KernelView, call: LapackCall) -> None:
        self.view, self.call, self.row = view, call, call.row
        self.module = context.module
        self.kind = KINDS[self.row.letter]
        self.part = DOUBLE if self.kind.component.bit_width == 64 else FLOAT
        self.function, leaves, results = context.new_kernel(view)
        self.builder = StructuredBuilder(self.function.append_block("entry"))
        operands = [leaves[o].pointer for o in view.hero.operands]
        self.operands = {a.name: (a, p) for a, p in zip(self.row.operands, operands, strict=True)}
        self.results = {a.name: (a, b.pointer) for a, b in zip(self.row.results, results, strict=True)}
        self.shared = {self.row.results[j].name for _, j in view.shared}  # those lie where the operand lay
        self.pointers: dict[str, Value] = {}  # what the arguments point to, for the current matrix
        self.calls_library = False

    def emit(self, units: int) -> Kernel:
        """Emits the loop over the matrices."""
        builder, row = self.builder, self.row
        scratch = self._allocate()
        self._constants()
        begin, end = range_arguments(self.function)
        work = self._query_work(scratch) if "lwork" in row.arguments else None
        with builder.loop(begin, end, name="matrix") as unit:
            self._point_to(unit)
            self._prepare(unit)
            if row.routine == "geev":
                self._call_geev()
            else:
                self._call_routine()
                self._check_info()
        free = self.module.declare("xjit_scratch_free", VOID, [PTR])
        if work is not None:
            builder.call(free, [work])
        scratch.free(builder)
        builder.ret_void()
        flops = int(units * row.flops(self.call.sizes)) * (4 if self.kind.is_complex else 1)
        traffic = sum(leaf.shape.byte_size for leaf in self.view.leaves)
        traffic += sum(s.byte_size for s in self.view.result_shapes)
        cost = flops * NS_PER_FLOP + units * NS_PER_CALL
        shares_out = self.calls_library and max(self.call.sizes.values(), default=0) >= THREADED_SIZE
        return Kernel(self.function, units, cost, "lapack", traffic, flops, has_threads=shares_out)

    def _allocate(self) -> Scratch:
        """Memory for the copies and workspaces whose sizes are known."""
        sizes = {name: self._bytes(self.operands[name][0]) for name in self.row.copied}
        for name, (kind, length) in self.row.workspaces.items():
            width = element_type(kind, self.row.letter).byte_width
            sizes[name] = max(length(self.call.sizes, self.call.flags), 1) * width
        scratch = Scratch(self.module, self.builder, list(sizes.values()))
        self.pointers.update(zip(sizes, scratch.pieces, strict=True))
        return scratch

    def _constants(self) -> None:
        """Points the arguments that are the same for all matrices to constants."""
        module, call, one = self.module, self.call, np.array([1], self.kind.dtype)
        self.pointers["null"] = zero(PTR)
        for token in self.row.arguments:
            before, _, name = token.rpartition(":")
            if name in call.flags:
                self.pointers[token] = module.add_constant_bytes(call.flags[name].encode(), 1, "flag")
            elif before == "length":
                self.pointers[token] = self._number(max(self.row.workspaces[name][1](call.sizes, call.flags), 1))
            elif name in call.sizes and before in ("", "ld"):
                size = call.sizes[name]
                self.pointers[token] = self._number(max(size, 1) if before else size)
            elif token == "one":
                self.pointers[token] = module.add_constant_array(one, 16, "one")
        self.pointers.setdefault("info", self.builder.alloca(I32, align=4, name="info"))

    def _number(self, value: int) -> Value:
        if value > MAX_INT:
            raise InvalidArgument(f"{self.row.target} needs a workspace of {value} elements", self.view.hero.span)
        return self.module.add_constant(I32, const_int(I32, value), 4, "number")

    def _query_work(self, scratch: Scratch) -> Value:
        """Asks the routine for the length of its workspace, allocates it, and returns the block."""
        builder, part = self.builder, self.part
        self._point_to(const_int(I64, 0))
        answer = builder.alloca(DOUBLE, 2, align=16, name="answer")
        info = builder.alloca(I32, align=4, name="info")  # results belong to whichever task has their matrix
        self.pointers.update(work=answer, lwork=self._number_at(const_int(I32, -1)), info=info)
        self._call_routine()
        length = builder.fptosi(builder.load(part, answer, part.bits // 8), I64)
        longest = builder.min(length, const_int(I64, MAX_INT))
        length = builder.select(builder.icmp_signed(">", longest, const_int(I64, 1)), longest, const_int(I64, 1))
        num_bytes = builder.mul(length, const_int(I64, self.kind.byte_width))
        block = emit_scratch_alloc(builder, num_bytes, lambda: scratch.free(builder))
        self.pointers.update(work=block, lwork=self._number_at(builder.trunc(length, I32)))
        return block

    def _number_at(self, value: Value) -> Value:
        pointer = self.builder.alloca(I32, align=4, name="number")
        self.builder.store(value, pointer, 4)
        return pointer

    def _bytes(self, array: LapackArray) -> int:
        """Bytes of the array of one matrix."""
        return math.prod(self.call.dimensions(array)) * array.element_type(self.row.letter).byte_width

    def _point_to(self, unit: Value) -> None:
        """Points the arrays to those of a matrix of the batch; a result takes the place of an operand of its name."""
        for name, (array, base) in (*self.operands.items(), *self.results.items()):
            if name in self.row.copied:
                continue
            self.pointers[name] = self._matrix(array, base, unit)
            if f"next:{name}" in self.row.arguments:
                width = array.element_type(self.row.letter).byte_width
                self.pointers[f"next:{name}"] = self.builder.gep(I8, self.pointers[name], const_int(I64, width))

    def _matrix(self, array: LapackArray, base: Value, unit: Value) -> Value:
        return self.builder.gep(I8, base, self.builder.mul(unit, const_int(I64, self._bytes(array))))

    def _prepare(self, unit: Value) -> None:
        """Copies what is worked on in place, and clears what may stay unwritten."""
        builder, row = self.builder, self.row
        for name, (array, base) in self.operands.items():
            if (name in self.results and name not in self.shared) or name in row.copied:
                size = const_int(I64, self._bytes(array))
                builder.memcpy(self.pointers[name], self._matrix(array, base, unit), size)
        unwritten = self.call.flags.get("mode", "N") == "N" or 0 in self.call.sizes.values()
        for name in _UNWRITTEN.get(row.routine, ()) if unwritten else ():
            if name in self.results:
                size = const_int(I64, self._bytes(self.results[name][0]))
                builder.memset(self.pointers[name], const_int(I8, 0), size)

    def _call_geev(self) -> None:
        """Calls the routine for finite matrices only, and unpacks the eigenvectors of real ones."""
        builder, call = self.builder, self.call
        n = call.sizes["n"]
        parts = n * n * (2 if self.kind.is_complex else 1)
        finite = emit_is_finite(builder, self.pointers["a"], parts, self.part)
        info = self.pointers["info"]
        builder.store(const_int(I32, NOT_FINITE), info, 4)
        with builder.when(finite):
            self._call_routine()
            self._check_info()
            if not self.kind.is_complex:
                converged = builder.icmp_signed("==", builder.load(I32, info, 4), const_int(I32, 0))
                with builder.when(converged):
                    for name, flag in (("vl", "compute_left"), ("vr", "compute_right")):
                        if call.flags[flag] == "V":
                            packed = self.pointers[f"packed_{name}"]
                            emit_eigenvectors(builder, n, self.pointers["wi"], packed, self.pointers[name], self.part)

    def _check_info(self) -> None:
        """A negative info says that an argument is wrong, which is no result of the program but a failure of it."""
        if "info" not in self.row.arguments:
            return
        builder = self.builder
        info = builder.load(I32, self.pointers["info"], 4)
        refused = builder.icmp_signed("<", info, const_int(I32, 0))
        if self.row.routine == "gesdd":
            refused = builder.and_(refused, builder.icmp_signed("!=", info, const_int(I32, NOT_FINITE)))
        with builder.when(refused):
            emit_fail(builder, RuntimeStatus.INTERNAL, builder.sext(info, I64))

    def _call_routine(self) -> None:
        row = self.row
        solve = self._small_trsm()
        if solve is not None:
            emit_small_trsm(self.builder, solve, self.part, self.pointers["a"], self.pointers["b"])
            return
        sizes = self.call.sizes
        if row.routine == "getrf" and not self.kind.is_complex and max(sizes["m"], sizes["n"]) <= GETRF_MAX_SIZE:
            pointers = [self.pointers[name] for name in ("a", "ipiv", "info")]
            emit_small_getrf(self.builder, SmallGetrf(sizes["m"], sizes["n"]), self.part, *pointers)
            return
        if row.routine == "potrf" and not self.kind.is_complex and sizes["n"] <= POTRF_MAX_SIZE:
            cholesky = SmallPotrf(sizes["n"], self.call.flags["uplo"] == "L")
            emit_small_potrf(self.builder, cholesky, self.part, self.pointers["a"], self.pointers["info"])
            return
        self.calls_library = True
        library = "blas" if row.routine in _BLAS else "lapack"
        name = f"xjit_{library}_{row.letter}{row.routine}"
        declaration = self.module.declare(name, VOID, [PTR] * len(row.arguments))
        self.builder.call(declaration, [self.pointers[token] for token in row.arguments])

    def _small_trsm(self) -> SmallTrsm | None:
        """The triangular solve that is emitted in line; None for another routine, a large or a complex matrix."""
        sizes, flags = self.call.sizes, self.call.flags
        if self.row.routine != "trsm" or self.kind.is_complex or sizes["q"] > MAX_SIZE:
            return None
        return SmallTrsm(
            left=flags["side"] == "L",
            lower=flags["uplo"] == "L",
            transposed=flags["trans_x"] != "N",
            unit_diagonal=flags["diag"] == "U",
            m=sizes["m"],
            n=sizes["n"],
        )


def check_layouts(view: KernelView, call: LapackCall) -> None:
    """Errors: InvalidArgument for a matrix that is not column-major, or batch dimensions that do not come first."""
    shapes = [*(o.shape for o in view.hero.operands), *view.result_shapes]
    for array, shape in zip((*call.row.operands, *call.row.results), shapes, strict=True):
        batch, rank = len(call.batch), shape.rank
        wanted = [*range(batch, rank), *range(batch - 1, -1, -1)]
        if _significant(shape, wanted) != _significant(shape, shape.minor_to_major) or _is_tiled(shape):
            order = ",".join(map(str, wanted))
            raise InvalidArgument(
                f"custom-call to '{call.row.target}': {array.name} is {shape}, expected the layout "
                f"{{{order}}} in the result and in operand_layout_constraints",
                view.hero.span,
            )


def _significant(shape: Shape, order: Sequence[int]) -> list[int]:
    """The dimensions whose order matters: none if the array is empty."""
    return [d for d in order if shape.dimensions[d] != 1] if shape.num_elements else []


def _is_tiled(shape: Shape) -> bool:
    return shape.layout is not None and bool(shape.layout.tiles)
