"""StableHLO in all its forms becomes the module that it means, or one error with its place."""

from __future__ import annotations

import io
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xjit
from xjit.frontends.stablehlo_reader import contexts

TEXT = """module @scaled {
  func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
    %0 = chlo.erf %x : tensor<4xf32> -> tensor<4xf32>
    %1 = stablehlo.multiply %0, %y : tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}
"""
X, Y = np.linspace(-2, 2, 4, dtype=np.float32), np.arange(4, dtype=np.float32)
EXPECTED = jax.scipy.special.erf(X) * Y


def bytecode(text: str) -> bytes:
    from jax.interpreters import mlir
    from jaxlib.mlir import ir

    out = io.BytesIO()
    with mlir.make_ir_context():
        ir.Module.parse(text).operation.write_bytecode(out)
    return out.getvalue()


def portable_artifact() -> bytes:
    exported: Any = jax.export.export(jax.jit(lambda x, y: jax.scipy.special.erf(x) * y))(X, Y)
    return exported.mlir_module_serialized


@pytest.mark.parametrize("make", [lambda: TEXT, lambda: bytecode(TEXT), portable_artifact])
def test_every_form_is_read(make: Any) -> None:
    module = xjit.from_stablehlo(make())
    np.testing.assert_allclose(xjit.compile(module)(X, Y), EXPECTED, rtol=1e-6)
    np.testing.assert_allclose(xjit.compile(make())(X, Y), EXPECTED, rtol=1e-6)  # by content


def test_the_only_public_function_is_the_entry() -> None:
    text = TEXT.replace("@main", "@forward")
    helper = "\n  func.func private @g(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }\n}\n"
    module = xjit.from_stablehlo(text[: text.rindex("}")] + helper)
    np.testing.assert_allclose(xjit.evaluate(module, X, Y), EXPECTED, rtol=1e-6)
    with pytest.raises(xjit.InvalidArgument, match="found none"):
        xjit.from_stablehlo("module {}")
    with pytest.raises(xjit.InvalidArgument, match='found "forward", "g"'):
        xjit.from_stablehlo(text[: text.rindex("}")] + helper.replace("private ", ""))


@pytest.mark.parametrize(
    "broken,line,column,message",
    [
        (TEXT.replace("return %1", "return %2"), 5, 12, "undeclared SSA value"),
        (TEXT.replace("chlo.erf", "foo.bar"), 3, 10, "Dialect `foo' not found"),
        (TEXT.replace("stablehlo.multiply", "stablehlo.multply"), 4, 10, "is unknown"),
        ("module {\n  func.func @main(", 2, 18, "expected"),
    ],
)
def test_errors_have_their_place(broken: str, line: int, column: int, message: str) -> None:
    with pytest.raises(xjit.HloParseError, match=message) as caught:
        xjit.from_stablehlo(broken, "m.mlir")
    assert (caught.value.line, caught.value.column) == (line, column)
    assert str(caught.value).startswith(f"m.mlir:{line}:{column}: error: not valid StableHLO")


@pytest.mark.parametrize("source", [3, None, b"ML\xefR garbage", b"ML\xefR\rStableHLO_v9.9.9\0\1", "", "HloModule m"])
def test_what_is_no_stablehlo_is_refused(source: Any) -> None:
    with pytest.raises(xjit.HloError):
        xjit.from_stablehlo(source)


BODILESS = """module @m {
  func.func @main(%x: tensor<f32>) -> tensor<f32> {
    return %x : tensor<f32>
  }
  func.func private @f(tensor<f32>) -> tensor<f32>
}
"""
RECURSIVE = """module @m {
  func.func @main(%x: tensor<f32>) -> tensor<f32> {
    %0 = func.call @even(%x) : (tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
  func.func private @leaf(%x: tensor<f32>) -> tensor<f32> {
    return %x : tensor<f32>
  }
  func.func private @even(%x: tensor<f32>) -> tensor<f32> {
    %0 = func.call @odd(%x) : (tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
  func.func private @odd(%x: tensor<f32>) -> tensor<f32> {
    %0 = func.call @leaf(%x) : (tensor<f32>) -> tensor<f32>
    %1 = func.call @even(%0) : (tensor<f32>) -> tensor<f32>
    return %1 : tensor<f32>
  }
}
"""


@pytest.mark.parametrize("text,line,message", [(BODILESS, 5, '"f" has no body'), (RECURSIVE, 9, '"even" calls itself')])
def test_functions_that_hlo_cannot_express_are_refused(text: str, line: int, message: str) -> None:
    """jaxlib's converter ends the process for them."""
    with pytest.raises(xjit.Unsupported, match=message) as caught:
        xjit.from_stablehlo(text, "m.mlir")
    assert str(caught.value).startswith(f"m.mlir:{line}:3: error: the function")
    assert caught.value.span is not None and "func.func private" in caught.value.span.line_text
    with pytest.raises(xjit.Unsupported, match=message):
        xjit.from_stablehlo(bytecode(text))


@pytest.mark.parametrize(
    "call",
    [
        'stablehlo.composite "a.b" %x {decomposition = @f} : (tensor<f32>) -> tensor<f32>',
        "stablehlo.custom_call @g(%x) {called_computations = [@f]} : (tensor<f32>) -> tensor<f32>",
    ],
)
def test_functions_that_are_named_by_other_operations_are_recursive_too(call: str) -> None:
    function = f"(%x: tensor<f32>) -> tensor<f32> {{\n %0 = {call}\n return %0 : tensor<f32>\n }}\n"
    text = f"module @m {{\n func.func @main{function} func.func private @f{function} }}"
    with pytest.raises(xjit.Unsupported, match=r'm\.mlir:6:2: error: the function "f" calls itself'):
        xjit.from_stablehlo(text, "m.mlir")


def test_large_programs_are_checked_in_a_context_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kept one would keep their constants."""
    monkeypatch.setattr(contexts, "_PROGRAMS_PER_CONTEXT", 1 << 20)
    xjit.from_stablehlo(TEXT)
    with contexts.kept_context(0) as kept:
        count = kept.programs
    xjit.from_stablehlo(TEXT)
    monkeypatch.setattr(contexts, "MAX_BYTES", len(TEXT) - 1)
    xjit.from_stablehlo(TEXT)
    with pytest.raises(xjit.Unsupported, match="has no body"):
        xjit.from_stablehlo(BODILESS + " " * len(TEXT))
    with contexts.kept_context(0) as kept:
        assert kept.programs == count + 2


@pytest.mark.parametrize("kind", ["tensor<f6E2M3FN>", "tensor<2xf6E3M2FN>"])
def test_constants_of_six_bits_are_refused(kind: str) -> None:
    """jaxlib's converter ends the process for them, too; other values are read."""
    text = f"""module @m {{
  func.func @main(%x: {kind}) -> {kind} {{
    %0 = stablehlo.constant dense<1.0> : {kind}
    return %0 : {kind}
  }}
}}"""
    with pytest.raises(xjit.Unsupported, match=r"m\.mlir:3:10: error: a constant of type tensor<.*f6E") as caught:
        xjit.from_stablehlo(text, "m.mlir")
    assert caught.value.span is not None and "dense<1.0>" in caught.value.span.line_text
    constant = next(line for line in text.splitlines() if "dense" in line)
    passed = xjit.from_stablehlo(text.replace(constant, "").replace("return %0", "return %x"))
    assert passed.entry_computation.root_instruction.shape.element_type.is_float


def test_functions_that_are_called_twice_are_no_recursion() -> None:
    text = RECURSIVE.replace("@even(%0)", "@leaf(%0)")
    assert np.asarray(xjit.compile(xjit.from_stablehlo(text))(np.float32(3))) == 3


def test_unbounded_sizes_are_refused() -> None:
    text = "module { func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> { return %a : tensor<?xf32> } }"
    with pytest.raises(xjit.HloError, match=r"f32\[\?\]"):
        xjit.compile(xjit.from_stablehlo(text))


def test_names_and_lines_of_python_are_kept() -> None:
    def f(x: Any) -> Any:
        y = jnp.cos(x)
        return y @ y

    module = xjit.from_jax(f, np.ones((4, 4), np.float32))
    cosine = next(i for i in module.entry_computation.instructions if i.opcode == "cosine")
    assert cosine.metadata.op_name == "jit(f)/cos"
    assert cosine.span is not None and cosine.span.file == __file__
    assert cosine.span.line_text.strip() == "y = jnp.cos(x)"
    assert cosine.span.line_text[cosine.span.column - 1 :][: cosine.span.length] == "jnp.cos(x)"
    sources = xjit.compile(module).kernel_sources
    assert any(f"from {__file__}:{cosine.span.line + 1} (jit(f)/dot_general)" == source for source in sources)


def test_errors_point_at_python() -> None:
    def f(x: Any) -> Any:
        return jax.pure_callback(lambda v: v, jax.ShapeDtypeStruct((4,), np.float32), x)

    with pytest.raises(xjit.Unsupported, match=r"test_stablehlo\.py:\d+:\d+: error: custom-call to") as caught:
        xjit.compile(xjit.from_jax(f, X))
    assert "jax.pure_callback(lambda v: v" in str(caught.value)


def test_without_jax_the_error_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['jax'] = sys.modules['jaxlib'] = None\n"
        "import xjit\n"
        "for make in (lambda: xjit.from_stablehlo('module {}'), lambda: xjit.from_jax(abs, 1.0), lambda: xjit.jit(abs)):\n"
        "    try: make()\n"
        "    except xjit.FailedPrecondition as error: print(error)\n"
        "print(xjit.compile('ENTRY e { ROOT x = f32[] constant(3) }')())\n"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    assert [("pip install 'xjit[jax]'" in line) for line in shown] == [True, True, True, False]
    assert shown[3] == "3.0"
