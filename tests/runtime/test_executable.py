"""Calls: arguments, results, layouts, errors. Each test runs on the native and on the ctypes call path."""

from __future__ import annotations

import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xjit
from tests.runtime.conftest import Load
from tests.runtime.programs import add_program, array, copies, elementwise, program, returns
from xjit.hlo.diagnostics import ExecutionError, FailedPrecondition, InvalidArgument
from xjit.llvm.execution_context import RuntimeStatus
from xjit.runtime.executable import CpuExecutable
from xjit.runtime.program import CpuProgram

pytestmark = pytest.mark.unguarded  # the calls themselves are tested


def test_add(load: Load) -> None:
    executable = load(add_program(8))
    x = np.arange(8, dtype=np.float32)
    result = executable(x, x + 1)
    np.testing.assert_array_equal(result, x + x + 1)
    assert (
        result.dtype is np.dtype(np.float32)
        and result.flags.owndata
        and result.flags.writeable
        and result.flags.c_contiguous
    )


def test_the_native_path_is_used_here() -> None:
    assert CpuExecutable(add_program(8)).uses_fast_call
    assert type(CpuExecutable(add_program(8)).__call__).__name__ == "builtin_function_or_method"


@pytest.mark.parametrize(
    "name",
    [
        "bool",
        "int8",
        "uint8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "uint64",
        "float16",
        "float32",
        "float64",
        "complex64",
        "complex128",
        "bfloat16",
        "float8_e4m3fn",
        "float8_e5m2",
        "int4",
        "uint4",
    ],
)
def test_every_dtype_takes_the_native_path(name: str) -> None:
    dtype = getattr(ml_dtypes, name, name)
    signature = array(dtype, 5, 3)
    loaded = CpuExecutable(program(copies([signature.byte_size]), [signature], [signature]))
    x = np.arange(15).reshape(5, 3).astype(dtype)
    slow_calls = _count_slow_calls(loaded)
    np.testing.assert_array_equal(loaded(x), x)
    assert loaded(x).dtype is np.dtype(dtype)
    assert not slow_calls


def _count_slow_calls(executable: CpuExecutable) -> list[Any]:
    """Records calls that fall through to conversion by watching the physical path (both slow callables use it)."""
    calls: list[Any] = []
    keep_alive = executable.__call__.__module__
    slow = next(item for item in keep_alive if type(item).__name__ == "ConvertingCall")
    physical = slow._physical
    slow._physical = lambda *buffers: calls.append(buffers) or physical(*buffers)
    return calls


def test_an_unpickled_program_takes_the_native_path() -> None:
    loaded = CpuExecutable(pickle.loads(pickle.dumps(add_program(8))))
    slow_calls = _count_slow_calls(loaded)
    x = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(loaded(x, x), x + x)
    assert not slow_calls
    loaded(x[::-1], x)
    assert len(slow_calls) == 1  # the instrument works


def test_results_as_a_flat_tuple(load: Load) -> None:
    signatures = [array(np.float32, 4), array(np.int64, 2, 3), array(np.float64, 400)]
    executable = load(program(copies([16, 48, 3200]), signatures, signatures, (0, 1, 2)))
    arguments = (np.arange(4, dtype=np.float32), np.arange(6).reshape(2, 3), np.arange(400.0))
    results = executable(*arguments)
    assert type(results) is tuple
    for result, argument in zip(results, arguments, strict=True):
        np.testing.assert_array_equal(result, argument)


def test_many_leaves(load: Load) -> None:
    signatures = [array(np.int32, 1 + i % 3) for i in range(300)]
    executable = load(
        program(copies([s.byte_size for s in signatures]), signatures, signatures, tuple(range(len(signatures))))
    )
    arguments = [np.full(signature.shape, i, np.int32) for i, signature in enumerate(signatures)]
    for result, argument in zip(executable(*arguments), arguments, strict=True):
        np.testing.assert_array_equal(result, argument)
    with pytest.raises(InvalidArgument, match=r"parameter 299: expected s32\[3\], got int32 \(2,\)"):
        executable(*arguments[:-1], np.zeros(2, np.int32))


def test_programs_beyond_the_native_path_use_ctypes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xjit.runtime.executable.MAX_FAST_LEAVES", 1)
    executable = CpuExecutable(add_program(8))
    assert not executable.uses_fast_call
    assert executable(np.ones(8, np.float32), np.ones(8, np.float32)).tolist() == [2] * 8


def test_tuple_of_one_and_of_none(load: Load) -> None:
    one = load(program(copies([16]), [array(np.float32, 4)], [array(np.float32, 4)], (0,)))
    (result,) = one(np.ones(4, np.float32))
    np.testing.assert_array_equal(result, np.ones(4))
    assert load(program(returns(0), [], [], ()))() == ()


def test_nested_tuples_in_and_out(load: Load) -> None:
    signatures = [array(np.float32, 2, name="a"), array(np.int32, 1, name="b"), array(np.float32, 3, name="c")]
    executable = load(
        program(copies([8, 4, 12]), signatures, signatures, ((0, (1,)), (), 2), parameter_tree=((0, (1,)), 2))
    )
    a, b, c = np.ones(2, np.float32), np.array([7], np.int32), np.zeros(3, np.float32)
    for arguments in [((a, (b,)), c), ([a, [b]], c), (a, b, c)]:
        (first, (second,)), nothing, third = executable(*arguments)
        assert nothing == ()
        np.testing.assert_array_equal(first, a)
        np.testing.assert_array_equal(second, b)
        np.testing.assert_array_equal(third, c)
    with pytest.raises(InvalidArgument, match=r"parameter 0 'b' element \{1,0\}: expected s32\[1\], got int64 \(1,\)"):
        executable((a, (b.astype(np.int64),)), c)
    with pytest.raises(InvalidArgument, match=r"parameter 0: expected a tuple of 2 elements, got float32 \(2,\)"):
        executable(a, c)
    with pytest.raises(InvalidArgument, match=r"parameter 0 element \{1\}: expected a tuple of 1 elements, got 2"):
        executable((a, (b, b)), c)


def test_deeply_nested_tuples() -> None:
    depth = 20_000
    tree: Any = 0
    for _ in range(depth):
        tree = (tree,)
    signature = array(np.float32, 2)
    executable = CpuExecutable(program(copies([8]), [signature], [signature], tree, parameter_tree=(tree,)))
    value: Any = np.ones(2, np.float32)
    for _ in range(depth):
        value = (value,)
    result = executable(value)
    for _ in range(depth):
        (result,) = result
    np.testing.assert_array_equal(result, np.ones(2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (np.zeros((8, 4), np.float32), np.zeros((8, 5))),
            r"parameter 1 'y': expected f32\[8,4\], got float64 \(8, 5\)",
        ),
        (
            (np.zeros((8, 4), np.float32), np.zeros((4, 8), np.float32)),
            r"parameter 1 'y': expected f32\[8,4\], got float32 \(4, 8\)",
        ),
        (
            (np.zeros((8, 4), ">f4"), np.zeros((8, 4), np.float32)),
            r"parameter 0 'x': expected f32\[8,4\], got >f4 \(8, 4\)",
        ),
        ((np.zeros((8, 4), np.float32), 1.0), r"parameter 1 'y': expected f32\[8,4\], got float 1.0"),
        ((np.zeros((8, 4), np.float32), None), r"parameter 1 'y': expected f32\[8,4\], got NoneType None"),
        ((np.zeros((8, 4), np.float32), "ab"), r"parameter 1 'y': expected f32\[8,4\], got str ab"),
        (
            (np.zeros((8, 4), np.float32), [[1], [1, 2]]),
            r"parameter 1 'y': expected f32\[8,4\], got a list of 2 elements",
        ),
        (
            (np.zeros((8, 4), np.float32),),
            r"expected 2 parameters, got 1; the program takes \(f32\[8,4\] 'x', f32\[8,4\] 'y'\)",
        ),
        ((), r"expected 2 parameters, got 0"),
    ],
)
def test_wrong_arguments_name_the_parameter(load: Load, arguments: tuple[Any, ...], message: str) -> None:
    executable = load(add_program(8, 4))
    with pytest.raises(InvalidArgument, match=message):
        executable(*arguments)


def test_keyword_arguments_are_refused(load: Load) -> None:
    with pytest.raises(TypeError):
        load(add_program(8))(x=np.zeros(8, np.float32))


class _Subclass(np.ndarray):
    pass


def test_arrays_that_need_a_copy(load: Load) -> None:
    executable = load(add_program(6, 4))
    base = np.arange(48, dtype=np.float32)
    odd = np.zeros(24 * 4 + 1, np.uint8)[1:].view(np.float32).reshape(6, 4)
    odd[...] = 3
    read_only = np.arange(24, dtype=np.float32).reshape(6, 4)
    read_only.flags.writeable = False
    x = np.ones((6, 4), np.float32)
    for argument in [
        base[::2].reshape(6, 4),
        base[:24].reshape(4, 6).T,
        base.reshape(6, 8)[:, ::-2],
        base[1:25].reshape(6, 4),
        odd,
        read_only,
        np.broadcast_to(np.float32(2), (6, 4)),
        np.ones((6, 4), np.float32).view(_Subclass),
    ]:
        expected = np.asarray(argument) + 1
        np.testing.assert_array_equal(executable(x, argument), expected)
        np.testing.assert_array_equal(executable(argument, x), expected)


class _ArrayLike:
    def __init__(self, value: Any) -> None:
        self._value = value

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self._value


class _DlpackOnly:
    def __init__(self, value: Any) -> None:
        self._value = value

    def __dlpack__(self, **keywords: Any) -> Any:
        return self._value.__dlpack__(**keywords)

    def __dlpack_device__(self) -> Any:
        return self._value.__dlpack_device__()


def test_foreign_arrays(load: Load) -> None:
    executable = load(add_program(8))
    x = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(executable(_ArrayLike(x), _DlpackOnly(x)), x + x)
    np.testing.assert_array_equal(executable(memoryview(x), x), x + x)


def test_scalars(load: Load) -> None:
    executable = load(add_program())
    assert executable(np.float32(3), np.float32(4)) == 7
    assert executable(np.array(3, np.float32), 0.5) == 3.5
    assert executable(1, 2).shape == ()
    assert executable(0.1, 0.0) == np.float32(0.1)
    for value in [2**24 + 1, 1j, True, np.float64(1.0), 10**400, 1e300]:
        with pytest.raises(InvalidArgument, match=r"parameter 1 'y': expected f32\[\]"):
            executable(1.0, value)
    assert np.isnan(executable(float("nan"), 1.0)) and executable(float("inf"), 1.0) == np.inf
    integers = load(add_program(dtype=np.int32))
    assert integers(2**31 - 1, -1) == 2**31 - 2
    for value in [2**31, -(2**31) - 1, 1.5, True, 10**30]:
        with pytest.raises(InvalidArgument, match=r"parameter 0 'x': expected s32\[\]"):
            integers(value, 0)


@pytest.mark.parametrize("dtype", [np.bool_, np.uint64, np.complex64, ml_dtypes.bfloat16])
def test_python_numbers_for_other_types(load: Load, dtype: Any) -> None:
    signature = array(dtype)
    executable = load(program(copies([signature.byte_size]), [signature], [signature]))
    value: Any = {"bool": True, "uint64": 2**64 - 1, "complex64": 1 - 2j, "bfloat16": 1.5}[np.dtype(dtype).name]
    assert executable(value) == np.asarray(value, dtype)


def test_zero_size_arrays(load: Load) -> None:
    signatures = [array(np.float32, 0, 7), array(np.int8, 3)]
    executable = load(program(copies([0, 3]), signatures, signatures, (0, 1)))
    empty, full = executable(np.zeros((0, 7), np.float32), np.ones(3, np.int8))
    assert empty.shape == (0, 7) and full.tolist() == [1, 1, 1]
    executable(np.zeros((7, 0), np.float32).T, np.ones(3, np.int8))


def test_column_major_parameters_and_results(load: Load) -> None:
    signatures = [array(np.float32, 3, 5, layout=(0, 1))]
    executable = load(program(copies([60]), signatures, signatures))
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    for argument in (x, np.asfortranarray(x)):
        result = executable(argument)
        np.testing.assert_array_equal(result, x)
        assert result.strides == (4, 12)
    (buffer,) = executable.call_physical(np.arange(15, dtype=np.float32))
    assert buffer.tolist() == list(range(15))
    np.testing.assert_array_equal(executable.call_physical(x.T.reshape(-1))[0], x.T.reshape(-1))


def test_large_column_major_result(load: Load) -> None:
    signature = array(np.float64, 40, 50, layout=(0, 1))
    executable = load(program(copies([16000]), [signature], [signature]))
    x = np.arange(2000.0).reshape(40, 50)
    np.testing.assert_array_equal(executable(np.asfortranarray(x)), x)


def test_any_dimension_order(load: Load) -> None:
    parameter, result = array(np.int32, 2, 3, 4, layout=(1, 2, 0)), array(np.int32, 2, 4, 3, layout=(2, 1, 0))
    executable = load(program(copies([96]), [parameter], [result]))
    x = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    np.testing.assert_array_equal(executable(x), x.transpose(0, 2, 1))
    back = load(program(copies([96]), [result], [parameter]))
    np.testing.assert_array_equal(back(x.transpose(0, 2, 1)), x)
    assert back(x.transpose(0, 2, 1)).base is not None  # a view of the physical buffer


def test_results_in_memory_order_take_the_native_call(load: Load) -> None:
    """A permuted result is a transposed view; what does not fit, and `out`, give the same."""
    plain, permuted = array(np.int32, 2, 3, 4), array(np.int32, 3, 2, 4, layout=(2, 0, 1))
    executable = load(program(copies([96, 96]), [plain, plain], [permuted, plain], (0, 1)))
    x = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    for argument in (x, np.asfortranarray(x)):
        first, second = executable(argument, x)
        np.testing.assert_array_equal(first, x.transpose(1, 0, 2))
        np.testing.assert_array_equal(second, x)
        assert first.strides == (16, 48, 4)
    out = (np.empty((3, 2, 4), np.int32), np.empty((2, 3, 4), np.int32))
    assert executable(x, x, out=out)[0] is out[0]
    np.testing.assert_array_equal(out[0], x.transpose(1, 0, 2))
    with pytest.raises(InvalidArgument, match="expected"):
        executable(x[0], x)


def test_tiled_parameters_and_results(load: Load) -> None:
    signature = array(np.float32, 3, 5, layout=(1, 0), tiles=((2, 2),), byte_size=24 * 4)
    executable = load(program(copies([96]), [signature], [signature]))
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    np.testing.assert_array_equal(executable(x), x)
    marked = np.arange(24, dtype=np.float32)
    (raw,) = executable.call_physical(marked)
    np.testing.assert_array_equal(raw, marked)
    with pytest.raises(
        InvalidArgument,
        match=r"physical buffer 0 '': expected float32 \(24,\) for f32\[3,5\]\{1,0:T\(2,2\)\}, got float32 \(15,\)",
    ):
        executable.call_physical(x.reshape(-1))


def test_physical_buffers_are_copied_when_misaligned(load: Load) -> None:
    executable = load(add_program(8))
    x = np.arange(9, dtype=np.float32)
    np.testing.assert_array_equal(executable.call_physical(x[1:], x[:-1])[0], x[1:] + x[:-1])
    with pytest.raises(InvalidArgument, match="expected 2 physical buffers, got 1"):
        executable.call_physical(x)


def test_constants_are_aligned_and_in_order(load: Load) -> None:
    ir_text = """
define i32 @entry(ptr %context, ptr %parameters, ptr %results, ptr %arena, ptr %constants) {
  %out = load ptr, ptr %results
  %c0 = load ptr, ptr %constants
  %c1_ptr = getelementptr ptr, ptr %constants, i64 1
  %c1 = load ptr, ptr %c1_ptr
  %a0 = ptrtoint ptr %c0 to i64
  %a1 = ptrtoint ptr %c1 to i64
  %both = or i64 %a0, %a1
  %low = and i64 %both, 63
  %v0 = load i8, ptr %c0
  %v1 = load i64, ptr %c1
  %v0x = zext i8 %v0 to i64
  store i64 %low, ptr %out
  %out1 = getelementptr i64, ptr %out, i64 1
  store i64 %v0x, ptr %out1
  %out2 = getelementptr i64, ptr %out, i64 2
  store i64 %v1, ptr %out2
  ret i32 0
}
"""
    constants = (np.array([42, 1, 2], np.uint8), np.array([[1, 2], [-5, 4]])[1:])
    executable = load(program(ir_text, [], [array(np.int64, 3)], constants=constants))
    assert executable().tolist() == [0, 42, -5]


@pytest.mark.parametrize(
    "status", [s for s in RuntimeStatus if s not in (RuntimeStatus.OK, RuntimeStatus.RESOURCE_EXHAUSTED)]
)
def test_status_becomes_an_exception(load: Load, status: RuntimeStatus) -> None:
    executable = load(program(returns(status), [], [array(np.float32, 400)], name="failing"))
    with pytest.raises(ExecutionError, match=f"program 'failing' failed: {status.name}: "):
        executable()


def test_other_statuses(load: Load) -> None:
    with pytest.raises(MemoryError, match="RESOURCE_EXHAUSTED: Out of memory"):
        load(program(returns(1), [], [], ()))()
    with pytest.raises(ExecutionError, match="status -7"):
        load(program(returns(-7), [], [], ()))()


def test_what_needs_more_memory_than_there_is_compiles() -> None:
    text = "HloModule m ENTRY e { x = f32[] parameter(0) ROOT b = f32[1048576,1048576,16] broadcast(x), dimensions={} }"
    executable = xjit.compile(text)
    assert executable.memory_analysis().output_size_in_bytes == 1 << 46
    with pytest.raises(MemoryError, match=r"needs 70,368,744,177,\d+ bytes \(4 of arguments"):
        executable(np.float32(1))


def test_impossible_allocations_raise_memory_error(load: Load) -> None:
    with pytest.raises(MemoryError):
        load(program(returns(0), [], [array(np.float32, 1 << 46)]))()
    with pytest.raises(MemoryError):
        load(program(returns(0), [], [array(np.float32, 8)], arena_size=1 << 60))()


def test_program_for_another_cpu_is_refused() -> None:
    with pytest.raises(FailedPrecondition, match="was compiled for futurechip; this CPU lacks avx2048"):
        CpuExecutable(program(returns(0), [], [], (), cpu="futurechip", features="+avx2048,-avx512f"))


def test_signature_is_checked() -> None:
    with pytest.raises(ValueError, match=r"result_tree must number its leaves 0\.\.1 from left to right, got \[1, 0\]"):
        CpuProgram("bad", b"", "entry", (), (), (array(np.int8), array(np.int8)), (1, 0))


def test_subnormals_are_flushed_and_the_mode_restored(load: Load) -> None:
    executable = load(add_program(8))
    tiny = np.full(8, 1e-39, np.float32)
    assert (tiny + tiny != 0).all()
    np.testing.assert_array_equal(executable(tiny, tiny), np.zeros(8))
    assert (tiny + tiny != 0).all()
    halves = load(program(elementwise("fmul", "float", 1), [array(np.float32, 1)] * 2, [array(np.float32, 1)]))
    assert halves(np.array([1.2e-38], np.float32), np.array([0.5], np.float32)) == 0


def test_repr(load: Load) -> None:
    assert repr(load(add_program(8, name="sum"))) == "<CpuExecutable sum: (f32[8], f32[8]) -> (f32[8])>"
