"""The direct reader makes of a program what jaxlib's converter does, or leaves it to the converter."""

from __future__ import annotations

import os
import re
import signal
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.interpreters import mlir
from jaxlib import _jax  # pyright: ignore[reportAttributeAccessIssue]
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from xjit.frontends.stablehlo_reader import contexts
from xjit.frontends.stablehlo_reader.reader import read_artifact
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.module import HloModule
from xjit.text.proto import create_from_proto

X = np.linspace(0.1, 1, 24, dtype=np.float32).reshape(4, 6)
Y = np.linspace(0.1, 1, 36, dtype=np.float32).reshape(6, 6)
NUMBERS = np.arange(6, dtype=np.int32)

PROGRAMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "affine": lambda x, y, i: 3 + x * 2,
    "neutral numbers": lambda x, y, i: (x + 0.0, x * 1, 0 * i, i & -1, i | 0, i ^ 0, x - 0.0, i | -1),
    "not neutral": lambda x, y, i: (x * 0, x / 1, 0 - x, 1 - x, lax.max(x, jnp.ones_like(x)), i // 3),
    "softmax": lambda x, y, i: jax.nn.softmax(x * 2),
    "sort": lambda x, y, i: jnp.sort(y, axis=0),
    "sort that is not stable": lambda x, y, i: lax.sort(x, dimension=0, is_stable=False),
    "argsort": lambda x, y, i: jnp.argsort(y, axis=1),
    "argmax": lambda x, y, i: jnp.argmax(x, axis=1),
    "argmax of integers": lambda x, y, i: jnp.argmax(i),
    "compared with itself": lambda x, y, i: (lax.eq(i, i), lax.lt(i, i), lax.ge(i, i), lax.ne(x, x), x[0] <= x[0]),
    "transforms": lambda x, y, i: (
        jnp.fft.rfft(x),
        jnp.fft.irfft(jnp.fft.rfft(y, axis=0)),
        jnp.fft.fft(lax.complex(x, x)),
    ),
    "known bits": lambda x, y, i: (
        i + lax.shift_right_logical(np.int32(-5), np.int32(3)) + lax.max(np.int32(3), np.int32(5))
    ),
    "take": lambda x, y, i: x[:, i],
    "indexed update": lambda x, y, i: x.at[:, i].add(2.0).at[0].set(1.0),
    "where": lambda x, y, i: jnp.where(x > 0.5, x, 2.5).T,
    "loop": lambda x, y, i: lax.fori_loop(0, 3, lambda _, a: a * 2, x),
    "loop with invariants": lambda x, y, i: lax.fori_loop(0, 3, lambda k, a: a @ y + y[k] + i[0], x),
    "while": lambda x, y, i: lax.while_loop(lambda a: a[0, 0] < 9, lambda a: a * 2 + x, x),
    "while of one array": lambda x, y, i: lax.while_loop(lambda a: a[0, 0] < 9, lambda a: a * 2, x),
    "scan": lambda x, y, i: lax.scan(lambda c, r: (c + r, c * r), x[0], x),
    "matmul": lambda x, y, i: jnp.dot(x, y, precision=lax.Precision.HIGHEST) @ y,
    "einsum": lambda x, y, i: jnp.einsum("ij,kj->ik", x, y),
    "grad": lambda x, y, i: jax.grad(lambda a: (jnp.tanh(a @ y) ** 2).sum())(x),
    "concatenate": lambda x, y, i: jnp.concatenate([x, y, 2 * x]).mean(),
    "pad, reverse": lambda x, y, i: jnp.pad(x[::-1], ((1, 2), (0, 3)), constant_values=7.0),
    "dynamic slices": lambda x, y, i: lax.dynamic_update_slice(
        y, lax.dynamic_slice(x, (i[1], i[0]), (2, 3)), (i[2], i[1])
    ),
    "windows": lambda x, y, i: lax.reduce_window(x, -np.inf, lax.max, (2, 2), (1, 2), "SAME"),
    "outer products": lambda x, y, i: jax.vmap(lambda a: jnp.outer(a, x))(x),
    "broadcasts": lambda x, y, i: x[:, None, :1] + y[None, :, 0:1] + jnp.broadcast_to(x[:1, :], (5, 6))[:1, None],
    "iota": lambda x, y, i: jnp.arange(6) + lax.broadcasted_iota(np.int32, (4, 6), 1),
    "integers": lambda x, y, i: (i << 2, lax.population_count(i), i % 4, lax.bitcast_convert_type(x, np.int32)),
    "types": lambda x, y, i: (x.astype(jnp.bfloat16) * 2, x.astype(np.float16), i.astype(np.uint8), x > 0.3),
    "bits of a key": lambda x, y, i: jax.random.bits(jax.random.wrap_key_data(i[:2].astype(np.uint32)), (3,)),
    "products of known numbers": lambda x, y, i: jax.grad(lambda a: (jnp.tanh(a) * 3.0).sum() * 0.1)(x),
    "totally ordered": lambda x, y, i: lax.sort([x, y[:4]], num_keys=2),
    "no arguments used": lambda x, y, i: jnp.full((2, 3), 4.0),
    "a call that nothing uses": lambda x, y, i: (jax.jit(jnp.sin)(x), x + 1)[1],
    "nothing": lambda x, y, i: (),
    "several results": lambda x, y, i: {"a": x, "b": (i, x.sum())},
    "a case": lambda x, y, i: lax.cond(i[0] > 0, lambda: x, lambda: x * 2),
    "branches that take several": lambda x, y, i: lax.cond(
        i[0] > 0, lambda: (x @ y, i), lambda: (x * 2 + y[:4], i + 1)
    ),
    "branches that take what was computed": lambda x, y, i: (
        lambda z: lax.cond(i[0] > 0, lambda: z * 3, lambda: z + y[:4])
    )(jnp.sin(x)),
    "branches that take nothing": lambda x, y, i: lax.switch(
        i[0], [lambda: x[0], lambda: jnp.zeros(6, np.float32), lambda: jnp.ones(6, np.float32)]
    ),
    "branches that take a value twice": lambda x, y, i: (
        lambda z: lax.cond(i[0] > 0, lambda: (x + y[:4]) * z, lambda: z - x[0] * y[0])
    )(x * 1),
    "nested cases": lambda x, y, i: lax.cond(
        i[0] > 0, lambda: lax.cond(i[1] > 2, lambda: x, lambda: x * y[:4]), lambda: x + 1
    ),
    "a loop in a case in a loop": lambda x, y, i: lax.fori_loop(
        0, 3, lambda k, a: lax.cond(k > 1, lambda: lax.fori_loop(0, 2, lambda _, b: b * 2, a), lambda: a + x), x
    ),
    "a select of known numbers": lambda x, y, i: (
        jnp.where(x > 0.5, np.float32(1), np.float32(0)),
        jnp.where(x > 0.5, np.float32(-2.8), np.float32(2.8)) + lax.select(i[0] > 0, x * 0 + 3, x * 0 + 7),
    ),
    "a select by a scalar": lambda x, y, i: lax.select(i[0] > 0, x, x * 2),
    "a slice of one part": lambda x, y, i: (
        jnp.concatenate([x, x])[:4],
        jnp.concatenate([x, 2 * x, jnp.ones((3, 6), np.float32)])[5:7, 1:3],
        jnp.concatenate([x, jnp.ones((3, 6), np.float32)])[4:6] + x[:2],
    ),
    "bits of a known key": lambda x, y, i: jax.random.bits(jax.random.key(3), (4,)),
    "a constant array": lambda x, y, i: i + np.array([3, 1, 4, 1, 5, 9], np.int32),
}

_KERNEL = np.linspace(-1, 1, 12, dtype=np.float32)

PROGRAMS |= {
    "a convolution": lambda x, y, i: lax.conv(x[None, None], _KERNEL.reshape(2, 1, 2, 3) * y[0, 0], (1, 2), "SAME"),
    "a dilated convolution of groups": lambda x, y, i: lax.conv_general_dilated(
        x.reshape(2, 3, 4), y.reshape(3, 2, 6), (2,), [(1, -1)], (2,), (2,), ("NWC", "WIO", "NWC"), 2,
        precision=(lax.Precision.HIGHEST, lax.Precision.DEFAULT),
    ),
    "a convolution of groups of the batch": lambda x, y, i: lax.conv_general_dilated(
        x.reshape(4, 1, 6), y.reshape(2, 1, 18), (1,), [(9, 9)], batch_group_count=2
    ),
    "a convolution without space": lambda x, y, i: lax.conv_general_dilated(x, y, (), "VALID"),
    "a convolution with known numbers": lambda x, y, i: lax.conv(
        x[None, None], np.ones((1, 1, 2, 2), np.float32), (1, 1), "VALID"
    ),
    "a convolution's gradient": lambda x, y, i: jax.grad(
        lambda a, b: jnp.tanh(lax.conv(a[None, None], b[None, None], (1, 1), "VALID")).sum(), (0, 1)
    )(y, x[:2, :3]),
    "a reversed convolution": lambda x, y, i: jnp.convolve(x[0], y[0, :3]),
}  # fmt: skip

LEFT: dict[str, Callable[[Any, Any, Any], Any]] = {
    "the larger of two zeros": lambda x, y, i: x + lax.max(np.float32(0), np.float32(-0.0)),
    "the smaller of two zeros": lambda x, y, i: x + lax.min(np.float32(-0.0), np.float32(0)),
    "known numbers": lambda x, y, i: jnp.log(jnp.full((2,), 4.0)),
    "a composite": lambda x, y, i: lax.top_k(x, 2),
    "a callback whose result nothing uses": lambda x, y, i: (jax.debug.callback(len, x), x + 1)[1],
    "a callback in a call": lambda x, y, i: (jax.jit(lambda a: jax.debug.callback(len, a))(x), x + 1)[1],
    "a convolution of known numbers": lambda x, y, i: lax.conv(
        np.ones((1, 1, 2, 2), np.float32), np.ones((1, 1, 2, 2), np.float32), (1, 1), "VALID"
    ),
    "a case that is known": lambda x, y, i: lax.switch(np.int32(1) + np.int32(0) * i[0], [lambda: x, lambda: x * 2]),
    "an empty array": lambda x, y, i: x[:0],
    "complex numbers": lambda x, y, i: jnp.tanh(x + 1j),
    "a custom call": lambda x, y, i: jnp.linalg.eigh(y),
    "float8": lambda x, y, i: x.astype(jnp.float8_e4m3fn),
    "a select of known truths": lambda x, y, i: lax.select(x > 0.5, jnp.ones_like(x, bool), jnp.zeros_like(x, bool)),
    "a select of one number": lambda x, y, i: lax.select(x > 0.5, jnp.full_like(x, 2), jnp.full_like(x, 2)),
    "a slice of several parts": lambda x, y, i: jnp.concatenate([x, x])[2:6],
}


def artifact(function: Callable[..., Any], arguments: tuple[Any, ...], **options: Any) -> bytes:
    """What JAX hands over for a jitted function."""
    lowered: Any = jax.jit(function, **options).lower(*arguments)
    return serialized(str(lowered.compiler_ir("stablehlo").operation.get_asm(enable_debug_info=True)))


def serialized(text: str) -> bytes:
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        return stablehlo.serialize_portable_artifact(module, stablehlo.get_current_version(), True)


def converted(code: bytes) -> HloModule:
    computation = _jax.mlir.mlir_module_to_xla_computation(code)
    return create_from_proto(computation.as_serialized_hlo_module_proto())


def rows(module: HloModule) -> list[object]:
    """All of a module but numbers in names, layouts inside, and what constants are called."""
    config = module.config
    found: list[object] = [[module.name, module.frontend_attributes, config.input_output_alias, config.buffer_donors]]
    numbers = {computation: i for i, computation in enumerate(module.computations())}
    for computation in module.computations():
        places = {instruction: i for i, instruction in enumerate(computation.instructions)}
        for i in computation.instructions:
            called = [numbers[c] for c in i.called_computations]
            row = [i.opcode, i.shape.to_string(layout=False), [places[o] for o in i.operands], i.attributes, called]
            annotations = [i.sharding, i.frontend_attributes, i is computation.root_instruction]
            found.append((row, annotations, () if _is_constant(i) else _origin(module, i)))
        found.append(re.sub(r"\.\d+$", "", computation.name))
    return found


def _is_constant(instruction: HloInstruction) -> bool:
    return all(operand.opcode == "constant" for operand in instruction.operands) and instruction.opcode != "parameter"


def _origin(module: HloModule, instruction: HloInstruction) -> tuple[object, ...]:
    """The names, and the frames; of two that differ in their last column the converter may take either."""
    index, frames = module.stack_frame_index, []
    number = instruction.metadata.stack_frame_id
    while number:
        frame = index.stack_frames[number - 1]
        place = index.file_locations[frame.file_location_id - 1]
        names = index.file_names[place.file_name_id - 1], index.function_names[place.function_name_id - 1]
        frames.append((*names, place.line, place.column, place.end_line))
        number = frame.parent_frame_id - 1
    return re.sub(r"\.\d+$", "", instruction.name), instruction.metadata.op_name, frames


def assert_as_converted(module: HloModule, code: bytes) -> None:
    """Of operations that the converter merges, the names and the frames may be of one."""
    found, expected = rows(module), rows(converted(code))
    assert len(found) == len(expected)
    for row, wanted in zip(found, expected, strict=True):
        if isinstance(wanted, tuple) and wanted[-1] and ";" in wanted[-1][1]:  # an instruction
            assert isinstance(row, tuple) and row[:-1] == wanted[:-1]
        else:
            assert row == wanted


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_what_the_converter_makes(name: str) -> None:
    code = artifact(PROGRAMS[name], (X, Y, NUMBERS))
    module = read_artifact(code)
    assert module is not None
    assert_as_converted(module, code)


@pytest.mark.parametrize("name", LEFT)
def test_what_the_converter_changes_or_knows_alone_is_left_to_it(name: str) -> None:
    code = artifact(LEFT[name], (X, Y, NUMBERS))
    assert read_artifact(code) is None
    assert converted(code).entry_computation.instructions


_CONVERT = """module @m attributes {{mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32}} {{
  func.func public @main(%arg0: tensor<3x{1}> loc(unknown)) -> tensor<3x{1}> {{
    %c = stablehlo.constant dense<{0}> : tensor<{2}> loc(unknown)
    %0 = stablehlo.convert %c : (tensor<{2}>) -> tensor<{1}> loc(unknown)
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<{1}>) -> tensor<3x{1}> loc(unknown)
    %2 = stablehlo.divide %arg0, %1 : tensor<3x{1}> loc(unknown)
    return %2 : tensor<3x{1}> loc(unknown)
  }}
}}"""


_UNUSED = """module @m attributes {{mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32}} {{
  func.func public @main(%x: tensor<3xf32> loc(unknown), %y: tensor<3xf32> loc(unknown), %i: tensor<i32> loc(unknown))
      -> tensor<3xf32> {{
    %0 = "stablehlo.case"(%i) ({{
      %1 = stablehlo.sine %y : tensor<3xf32> loc(unknown)
      stablehlo.return %x : tensor<3xf32> loc(unknown)
    }}, {{
      stablehlo.return %y : tensor<3xf32> loc(unknown)
    }}) : (tensor<i32>) -> tensor<3xf32> loc(unknown)
    return {0} : tensor<3xf32> loc(unknown)
  }}
}}"""


def test_what_nothing_uses_is_not_passed_to_branches() -> None:
    code = serialized(_UNUSED.format("%0"))
    module = read_artifact(code)
    assert module is not None
    assert_as_converted(module, code)


def test_a_case_that_nothing_uses_is_left_to_the_converter() -> None:
    code = serialized(_UNUSED.format("%x"))
    assert read_artifact(code) is None
    assert [i.opcode for i in converted(code).entry_computation.instructions] == ["parameter"] * 3


@pytest.mark.parametrize(
    ("number", "kind", "of"),
    [
        ("-3", "f32", "i32"),
        ("-0.0", "f64", "f32"),
        ("-300", "ui8", "i32"),
        ("200", "i8", "ui8"),
        ("true", "f32", "i1"),
        ("5", "bf16", "i64"),
        ("1.0", "i8", "f16"),
        ("4000000000", "i32", "ui64"),
    ],
)
def test_known_numbers_of_another_type(number: str, kind: str, of: str) -> None:
    code = serialized(_CONVERT.format(number, kind, of))
    module = read_artifact(code)
    assert module is not None
    assert_as_converted(module, code)


@pytest.mark.parametrize(
    ("number", "kind", "of"),
    [
        ("1.5", "i32", "f32"),
        ("-0.0", "i32", "f32"),
        ("300.0", "i8", "f32"),
        ("16777217", "f32", "i32"),
        ("0x7FC00000", "f64", "f32"),
        ("1.0e+39", "f32", "f64"),
        ("257", "bf16", "i32"),
        ("-1.0", "ui8", "f32"),
    ],
)
def test_known_numbers_that_another_type_has_not_are_left_to_the_converter(number: str, kind: str, of: str) -> None:
    assert read_artifact(serialized(_CONVERT.format(number, kind, of))) is None


def test_donated_arguments_and_shardings_over_one_device() -> None:
    donating = artifact(lambda x, y, i: (i + 1, x + 1), (X, Y, NUMBERS), donate_argnums=(0, 2), keep_unused=True)
    on_device = jax.device_put((X, Y, NUMBERS), jax.devices("cpu")[0])
    placed = artifact(lambda x, y, i: x @ y, on_device)
    for code in (donating, placed):
        module = read_artifact(code)
        assert module is not None
        assert_as_converted(module, code)


@pytest.mark.parametrize(
    "change",
    [
        ("mhlo.num_partitions = 1", "mhlo.num_partitions = 2"),
        ("module @m attributes", "module attributes"),
        ("func.func public @main", "func.func public @other"),
        ("%arg0: tensor<f32>", '%arg0: tensor<f32> {mhlo.sharding = "{replicated}"}'),
        ("%arg0: tensor<f32>", '%arg0: tensor<f32> {mhlo.memory_kind = "x"}'),
        ("-> tensor<f32> {\n", '-> (tensor<f32> {mhlo.layout_mode = "default"}) {\n'),
        ("tensor<f32>", "tensor<?xf32>"),
        ("%arg0, %arg0 :", '%arg0, %arg0 {mhlo.frontend_attributes = {a = "b"}} :'),
    ],
)
def test_programs_that_say_more_are_left_to_the_converter(change: tuple[str, str]) -> None:
    text = """module @m attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<f32> loc(unknown)) -> tensor<f32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<f32> loc(unknown)
    return %0 : tensor<f32> loc(unknown)
  } loc(unknown)
} loc(unknown)"""
    assert read_artifact(serialized(text)) is not None
    assert change[0] in text
    assert read_artifact(serialized(text.replace(*change))) is None


def test_real_parts_by_a_conversion_are_left_to_the_converter() -> None:
    """Which takes the real part first: i, as a truth, is false."""
    text = """module @m {
  func.func public @main(%arg0: tensor<complex<f32>> loc(unknown)) -> tensor<i1> {
    %0 = stablehlo.convert %arg0 : (tensor<complex<f32>>) -> tensor<i1> loc(unknown)
    return %0 : tensor<i1> loc(unknown)
  } loc(unknown)
} loc(unknown)"""
    assert read_artifact(serialized(text)) is None
    assert read_artifact(serialized(text.replace("i1", "complex<f64>"))) is not None


def test_other_bytes_are_left_to_the_converter() -> None:
    code = artifact(PROGRAMS["affine"], (X, Y, NUMBERS))
    for other in (b"", b"nothing", code[: len(code) // 2], b"module {}"):
        assert read_artifact(other) is None


@pytest.mark.parametrize(
    "function,message",
    [
        ("func.func private @f(tensor<f32>) -> tensor<f32>", '"f" has no body'),
        (
            "func.func private @f(%y: tensor<f32>) -> tensor<f32> { {call}\n return %0 : tensor<f32> }",
            '"f" calls itself',
        ),
    ],
)
def test_functions_that_end_the_converter_are_refused(function: str, message: str) -> None:
    call = "%0 = func.call @f(%y) : (tensor<f32>) -> tensor<f32>"
    main = f"func.func public @main(%y: tensor<f32>) -> tensor<f32> {{ {call}\n return %0 : tensor<f32> }}"
    code = serialized(f"module @m {{ {function.replace('{call}', call)}\n {main} }}")
    with pytest.raises(Unsupported, match=message):
        read_artifact(code)


def test_contexts_are_renewed_and_threads_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "_PROGRAMS_PER_CONTEXT", 3)
    codes = [artifact(PROGRAMS[name], (X, Y, NUMBERS)) for name in ("affine", "loop", "softmax", "sort")]
    expected = [rows(converted(code)) for code in codes]
    wrong: list[int] = []

    def read(first: int) -> None:
        for i in range(first, first + 8):
            module = read_artifact(codes[i % 4])
            if module is None or rows(module) != expected[i % 4]:
                wrong.append(i)

    threads = [threading.Thread(target=read, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_fork_while_another_thread_reads() -> None:
    code = artifact(PROGRAMS["affine"], (X, Y, NUMBERS))
    assert read_artifact(code) is not None
    with contexts._lock, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of JAX, and of Python: there are threads
        child = os.fork()
        if not child:
            signal.alarm(30)
            os._exit(0 if read_artifact(code) is not None else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.slow
def test_the_programs_of_the_backend_are_what_the_converter_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of some 500 programs, most are read."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "jax_backend"))
    from programs import all_programs  # pyright: ignore

    read = 0
    for function, arguments in all_programs().values():
        with warnings.catch_warnings(), jax.enable_x64(True):
            warnings.simplefilter("ignore")
            try:
                code = artifact(function, arguments)
            except (TypeError, ValueError):  # such as a function that is not to be jitted whole
                continue
        module = read_artifact(code)
        if module is not None:
            read += 1
            assert_as_converted(module, code)
    assert read > 300
