"""The native call path: a METH_FASTCALL | METH_KEYWORDS function that serves every executable from a table.

`self` is a capsule that points to a `CALL` record. The function compares each argument with its record, allocates the
results, calls the entry, and returns the array or the flat tuple of arrays. Whatever does not fit exactly goes to the
Python callable `slow`, with the same arguments and keywords. It holds the GIL except, optionally, around the entry.

Results of at least `POOLED_MIN_BYTES` live in pooled blocks: the array is created around the block, then marked as the
owner (OWNDATA) with our NEP 49 handler, so that NumPy returns the block to the pool with the last reference.
"""

from __future__ import annotations

from xjit.llvm import Module, Value
from xjit.llvm.execution_context import EXECUTION_CONTEXT, RuntimeStatus
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I8, I32, I64, PTR, VOID, LLVMType
from xjit.llvm.values import const_int, zero
from xjit.runtime.native.records import (
    ALIGNED,
    CALL,
    F_CONTIGUOUS,
    OWNDATA,
    PARAMETER,
    PY_ARRAY,
    PY_CAPSULE,
    RESULT,
    WRITEABLE,
)

POOLED_MIN_BYTES = 1024
"""Below, NumPy's own small-block cache is faster and its alignment good enough."""

MEM_HANDLER = "xjit_mem_handler"
"""The variable that holds the handler capsule of pooled arrays."""

_NEW_ARRAY = (PTR, PTR, I32, PTR, PTR, PTR, I32, PTR)
_NO_INSTRUCTION = const_int(I32, -1)


def define_fast_call(module: Module) -> None:
    """Defines `xjit_fast_call`. The module must have the functions of `call_functions`."""
    module.add_global(MEM_HANDLER, PTR, zero(PTR), align=8, linkage="")
    module.external_global("PyArray_Type")
    _define_match(module)
    _define_new_result(module)
    _define_drop(module)
    _define_raise_status(module)
    _define_pack(module)
    _define_run(module)
    _FastCall(module).emit()


def _define_match(module: Module) -> None:
    """`ptr xjit_match(object, record)`: the data of an argument if it is what the record asks for, else null."""
    builder = define(module, "xjit_match", [(PTR, "object"), (PTR, "record")], return_type=PTR)
    array, record = builder.function.args
    miss = zero(PTR)
    is_array = builder.icmp_signed("==", PY_ARRAY.load(builder, array, "ob_type"), Value(PTR, "@PyArray_Type"))
    with builder.when(builder.not_(is_array)):
        builder.ret(miss)
    rank = builder.sext(PY_ARRAY.load(builder, array, "nd"), I64)
    flags = builder.zext(PY_ARRAY.load(builder, array, "flags"), I64)
    wanted_flags = PARAMETER.load(builder, record, "flags")
    data = PY_ARRAY.load(builder, array, "data")
    misaligned = builder.and_(builder.ptrtoint(data, I64), PARAMETER.load(builder, record, "alignment_mask"))
    wanted_descriptor = PARAMETER.load(builder, record, "descriptor")
    same_descriptor = builder.icmp_signed("==", PY_ARRAY.load(builder, array, "descr"), wanted_descriptor)
    same_rank = builder.icmp_signed("==", rank, PARAMETER.load(builder, record, "rank"))
    has_flags = builder.icmp_signed("==", builder.and_(flags, wanted_flags), wanted_flags)
    is_aligned = builder.icmp_signed("==", misaligned, builder.i64(0))
    fits = builder.and_(builder.and_(same_descriptor, same_rank), builder.and_(has_flags, is_aligned))
    with builder.when(builder.not_(fits)):
        builder.ret(miss)
    sizes, wanted_sizes = PY_ARRAY.load(builder, array, "dimensions"), PARAMETER.load(builder, record, "dimensions")
    with builder.loop(builder.i64(0), rank) as i:
        size, wanted = _item(builder, I64, sizes, i), _item(builder, I64, wanted_sizes, i)
        with builder.when(builder.icmp_signed("!=", size, wanted)):
            builder.ret(miss)
    builder.ret(data)


def _define_new_result(module: Module) -> None:
    """`ptr xjit_new_result(record)`: a new array, or null with a Python exception set."""
    builder = define(module, "xjit_new_result", [(PTR, "record")], return_type=PTR)
    (record,) = builder.function.args
    num_bytes = RESULT.load(builder, record, "nbytes")
    order = builder.trunc(RESULT.load(builder, record, "order"), I32)
    with builder.when(builder.icmp_unsigned("<", num_bytes, builder.i64(POOLED_MIN_BYTES))):
        fortran = builder.and_(order, const_int(I32, F_CONTIGUOUS))
        builder.ret(_new_array(builder, record, zero(PTR), fortran))
    data = builder.call(module.declare("xjit_scratch_alloc", PTR, [I64]), [num_bytes], name="data")
    with builder.when(builder.is_null(data)):
        builder.call(module.declare("PyErr_NoMemory", PTR, []), [])
        builder.ret(zero(PTR))
    view = _new_array(builder, record, data, builder.or_(order, const_int(I32, ALIGNED | WRITEABLE)))
    with builder.when(builder.is_null(view)):
        builder.call(module.declare("xjit_scratch_free", VOID, [PTR]), [data])
        builder.ret(zero(PTR))
    flags = PY_ARRAY.load(builder, view, "flags")
    PY_ARRAY.store(builder, view, "flags", builder.or_(flags, const_int(I32, OWNDATA)))
    handler = builder.load(PTR, Value(PTR, f"@{MEM_HANDLER}"), align=8, name="handler")
    builder.call(module.declare("Py_IncRef", VOID, [PTR]), [handler])
    PY_ARRAY.store(builder, view, "mem_handler", handler)
    builder.ret(view)


def _new_array(builder: StructuredBuilder, record: Value, data: Value, flags: Value) -> Value:
    """PyArray_NewFromDescr, which takes a reference to the dtype; null `data` makes it allocate."""
    module = builder.module
    descriptor = RESULT.load(builder, record, "descriptor")
    rank = builder.trunc(RESULT.load(builder, record, "rank"), I32)
    builder.call(module.declare("Py_IncRef", VOID, [PTR]), [descriptor])
    arguments = [
        Value(PTR, "@PyArray_Type"), descriptor, rank, RESULT.load(builder, record, "dimensions"), zero(PTR), data,
        flags, zero(PTR),
    ]  # fmt: skip
    return builder.call(module.declare("PyArray_NewFromDescr", PTR, _NEW_ARRAY), arguments, name="array")


def _define_drop(module: Module) -> None:
    """`void xjit_drop(objects, i64 count)`: gives back references."""
    builder = define(module, "xjit_drop", [(PTR, "objects"), (I64, "count")])
    objects, count = builder.function.args
    with builder.loop(builder.i64(0), count) as i:
        builder.call(module.declare("Py_DecRef", VOID, [PTR]), [_item(builder, PTR, objects, i)])
    builder.ret_void()


def _define_raise_status(module: Module) -> None:
    """`void xjit_raise_status(call, i32 status, i32 instruction, i64 detail)`: `on_error` raises what it means."""
    params = [(PTR, "call"), (I32, "status"), (I32, "instruction"), (I64, "detail")]
    builder = define(module, "xjit_raise_status", params)
    call, *numbers = builder.function.args
    arguments = builder.alloca(PTR, len(numbers), align=8, name="arguments")
    for i, number in enumerate(numbers):
        wide = builder.sext(number, I64)
        item = builder.call(module.declare("PyLong_FromLong", PTR, [I64]), [wide], name="number")
        builder.store_slot(item, arguments, i)
        with builder.when(builder.is_null(item)):
            builder.call(module.functions["xjit_drop"], [arguments, builder.i64(i)])
            builder.ret_void()
    count = builder.i64(len(numbers))
    vectorcall = module.declare("PyObject_Vectorcall", PTR, [PTR, PTR, I64, PTR])
    builder.call(vectorcall, [CALL.load(builder, call, "on_error"), arguments, count, zero(PTR)])
    builder.call(module.functions["xjit_drop"], [arguments, count])
    builder.ret_void()


def _define_pack(module: Module) -> None:
    """`ptr xjit_pack(objects, i64 count)`: a tuple that takes the references; null if there is no memory."""
    builder = define(module, "xjit_pack", [(PTR, "objects"), (I64, "count")], return_type=PTR)
    objects, count = builder.function.args
    packed = builder.call(module.declare("PyTuple_New", PTR, [I64]), [count], name="packed")
    with builder.when(builder.icmp_signed("!=", packed, zero(PTR))), builder.loop(builder.i64(0), count) as i:
        set_item = module.declare("PyTuple_SetItem", I32, [PTR, I64, PTR])
        builder.call(set_item, [packed, i, _item(builder, PTR, objects, i)])
    builder.ret(packed)


def _define_run(module: Module) -> None:
    """`i32 xjit_run(call, context, parameters, results)`: calls the entry with an arena; 0, or an exception is set."""
    names = ("call", "context", "parameters", "results")
    builder = define(module, "xjit_run", [(PTR, name) for name in names], return_type=I32)
    call, context, parameters, results = builder.function.args
    arena_size = CALL.load(builder, call, "arena_size")
    raise_status = module.functions["xjit_raise_status"]
    arena = builder.alloca(PTR, align=8, name="arena")
    builder.store(zero(PTR), arena, align=8)
    with builder.when(builder.icmp_signed("!=", arena_size, builder.i64(0))):
        block = builder.call(module.declare("xjit_scratch_alloc", PTR, [I64]), [arena_size], name="block")
        builder.store(block, arena, align=8)
        with builder.when(builder.is_null(block)):
            exhausted = const_int(I32, RuntimeStatus.RESOURCE_EXHAUSTED)
            builder.call(raise_status, [call, exhausted, _NO_INSTRUCTION, arena_size])
            builder.ret(exhausted)
    builder.memcpy(context, CALL.load(builder, call, "initial_context"), builder.i64(EXECUTION_CONTEXT.size), align=8)
    block = builder.load(PTR, arena, align=8)
    entry, constants, release = (CALL.load(builder, call, name) for name in ("entry", "constants", "release_gil"))
    status = builder.call(
        module.functions["xjit_call_entry"],
        [entry, context, parameters, results, block, constants, release],
        name="status",
    )
    builder.call(module.declare("xjit_scratch_free", VOID, [PTR]), [block])
    with builder.when(builder.icmp_signed("!=", status, const_int(I32, 0))):
        exception = [EXECUTION_CONTEXT.load(builder, context, f"exception_{part}") for part in _EXCEPTION]
        with builder.when(builder.icmp_signed("!=", exception[0], zero(PTR))):
            builder.call(module.declare("PyErr_Restore", VOID, [PTR, PTR, PTR]), exception)
            builder.ret(status)
        where = [EXECUTION_CONTEXT.load(builder, context, name) for name in ("failed_instruction", "detail")]
        builder.call(raise_status, [call, status, *where])
    builder.ret(status)


_EXCEPTION = ("type", "value", "traceback")


class _FastCall:
    """Emits `ptr xjit_fast_call(self, arguments, i64 count, keyword_names)`."""

    def __init__(self, module: Module) -> None:
        params = [(PTR, "self"), (PTR, "arguments"), (I64, "count"), (PTR, "keyword_names")]
        self.builder = builder = define(module, "xjit_fast_call", params, linkage="", return_type=PTR)
        self._functions = module.functions
        capsule, self._arguments, self._count, self._keywords = builder.function.args
        self._call = PY_CAPSULE.load(builder, capsule, "pointer")
        self._num_parameters = CALL.load(builder, self._call, "num_parameters")
        self._num_results = CALL.load(builder, self._call, "num_results")
        self._parameters = builder.alloca_many(PTR, self._num_parameters, align=16, name="parameters")
        self._results = builder.alloca_many(PTR, self._num_results, align=16, name="results")
        self._objects = builder.alloca_many(PTR, self._num_results, align=16, name="objects")
        self._context = builder.alloca(I8, EXECUTION_CONTEXT.size, align=16, name="context")

    def emit(self) -> None:
        builder = self.builder
        wrong_count = builder.icmp_signed("!=", self._count, self._num_parameters)
        with builder.when(builder.or_(wrong_count, builder.icmp_signed("!=", self._keywords, zero(PTR)))):
            self._return_slow()
        self._match_arguments()
        self._make_results()
        run = [self._call, self._context, self._parameters, self._results]
        status = builder.call(self._functions["xjit_run"], run, name="status")
        with builder.when(builder.icmp_signed("!=", status, const_int(I32, 0))):
            self._return_failure(self._num_results)
        returns_tuple = CALL.load(builder, self._call, "returns_tuple")
        with builder.when(builder.icmp_signed("==", returns_tuple, builder.i64(0))):
            builder.ret(builder.load(PTR, self._objects, align=8))
        packed = builder.call(self._functions["xjit_pack"], [self._objects, self._num_results], name="packed")
        with builder.when(builder.is_null(packed)):
            self._return_failure(self._num_results)
        builder.ret(packed)

    def _match_arguments(self) -> None:
        builder = self.builder
        records = CALL.load(builder, self._call, "parameters")
        with builder.loop(builder.i64(0), self._num_parameters) as i:
            record = PARAMETER.element(builder, records, i)
            argument = _item(builder, PTR, self._arguments, i)
            data = builder.call(self._functions["xjit_match"], [argument, record], name="data")
            with builder.when(builder.is_null(data)):
                self._return_slow()
            builder.store(data, builder.gep(PTR, self._parameters, i), align=8)

    def _make_results(self) -> None:
        builder = self.builder
        records = CALL.load(builder, self._call, "results")
        with builder.loop(builder.i64(0), self._num_results) as i:
            record = RESULT.element(builder, records, i)
            array = builder.call(self._functions["xjit_new_result"], [record], name="array")
            with builder.when(builder.is_null(array)):
                self._return_failure(i)
            builder.store(array, builder.gep(PTR, self._objects, i), align=8)
            builder.store(PY_ARRAY.load(builder, array, "data"), builder.gep(PTR, self._results, i), align=8)

    def _return_slow(self) -> None:
        builder = self.builder
        vectorcall = builder.module.declare("PyObject_Vectorcall", PTR, [PTR, PTR, I64, PTR])
        slow = CALL.load(builder, self._call, "slow")
        builder.ret(builder.call(vectorcall, [slow, self._arguments, self._count, self._keywords]))

    def _return_failure(self, num_made: Value) -> None:
        """Ends with an exception that is set already."""
        self.builder.call(self._functions["xjit_drop"], [self._objects, num_made])
        self.builder.ret(zero(PTR))


def _item(builder: StructuredBuilder, kind: LLVMType, items: Value, index: Value) -> Value:
    """Element `index` of an array of 8-byte values."""
    return builder.load(kind, builder.gep(kind, items, index), align=8)
