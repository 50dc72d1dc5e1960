"""Wrong programs give one error with a place, or are accepted; what is printed of them is read again."""

from __future__ import annotations

import random
import shlex
from pathlib import Path

import pytest

from tests.linalg_ext.mutations import incomplete_modules, mutate_text
from xjit.hlo.diagnostics import HloError
from xjit.linalg_ext.diagnostics import SPLIT
from xjit.linalg_ext.passes import PASSES, run_passes
from xjit.linalg_ext.text.parser import parse_module
from xjit.linalg_ext.text.printer import print_module

FILES = sorted((Path(__file__).parent / "filecheck").glob("*.mlir"))


def _parts(path: Path) -> list[tuple[str, list[str]]]:
    """Returns the programs of a file, each with the passes of its first RUN line."""
    text = path.read_text(encoding="utf-8")
    words = shlex.split(text.split("RUN:", 1)[1].split("\n", 1)[0].split("|", 1)[0])
    passes = [word.lstrip("-") for word in words if word.lstrip("-").partition("=")[0] in PASSES]
    return [(part, passes) for part in SPLIT.split(text)]


def _run(text: str, passes: list[str]) -> str:
    """Runs a text through the passes and reads what is printed; returns the error's message, or nothing."""
    try:
        module = run_passes(parse_module(text), passes)
    except HloError as error:
        assert error.line is not None, f"without a place: {error.message}\n{text}"
        return error.message
    parse_module(print_module(module))
    return ""


def _check_incomplete(path: Path) -> None:
    seen: set[tuple[str, str]] = set()
    for text, passes in _parts(path):
        try:
            module = parse_module(text)
        except HloError:  # programs that are no MLIR
            continue
        for _, wrong in incomplete_modules(module, seen):
            print_module(wrong)
            _run(print_module(wrong, generic=True), passes)


@pytest.mark.parametrize("name", ["into_containing_op", "syntax_index", "syntax_cf"])
def test_incomplete_operations(name: str) -> None:
    _check_incomplete(next(path for path in FILES if path.stem == name))


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_incomplete_operations_of_every_file(path: Path) -> None:
    _check_incomplete(path)


def _check_texts(seed: int, count: int) -> None:
    rng = random.Random(seed)
    parts = [each for path in FILES for each in _parts(path)]
    for _ in range(count):
        text, passes = rng.choice(parts)
        _run(mutate_text(text, rng), passes)


def test_wrong_texts() -> None:
    _check_texts(0, 200)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_more_wrong_texts(seed: int) -> None:
    _check_texts(seed, 500)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('%0 = "arith.constant"() : () -> i32', "requires attribute 'value'"),
        ('"transform.structured.match"() : () -> !transform.any_op', "expected 1 operands, but found 0"),
        ('"transform.foreach_match"() : () -> ()', "expected 1 operands"),
        ('%0 = "affine.apply"() <{map = affine_map<() -> (1)>}> : () -> f32', "expects 'result' of type index"),
        ('"scf.if"() ({}, {}) : () -> ()', "expects 1 regions with a body"),
        ('%0 = "tensor.empty"() : () -> tensor<?xf32>', "has 0 sizes"),
        ('%0 = "index.cmp"() : () -> i1', "expected 2 operands"),
    ],
)
def test_generic_form_without_parts(text: str, message: str) -> None:
    module = parse_module(text)
    assert text.split('"')[1] in print_module(module)
    assert message in _run(text, ["canonicalize"])


@pytest.mark.parametrize(
    "text",
    [
        "affine.for %i = 9223372036854775808 to 3 { }",
        '"a.b"() {m = affine_map<(d) -> (d * 9223372036854775807 * 4)>} : () -> ()',
    ],
)
def test_numbers_beyond_64_bits(text: str) -> None:
    assert "does not fit int64" in _run(text, [])


@pytest.mark.parametrize(
    "expression", ["d0 * 2 - 9223372036854775808", "-9223372036854775808", "d0 * -9223372036854775808"]
)
def test_the_least_number_of_64_bits(expression: str) -> None:
    text = f'"a.b"() {{m = affine_map<(d0) -> ({expression})>}} : () -> ()'
    printed = print_module(parse_module(text))
    assert expression in printed and print_module(parse_module(printed)) == printed


def test_products_of_sizes_beyond_64_bits() -> None:
    """A pass that multiplies sizes cannot make a type that no text can say."""
    text = """
func.func @f(%x: tensor<4611686018427387904x4xf32>) -> tensor<4611686018427387904x4xf32> {
  %y = linalg.abs ins(%x : tensor<4611686018427387904x4xf32>) outs(%x : tensor<4611686018427387904x4xf32>)
    -> tensor<4611686018427387904x4xf32>
  return %y : tensor<4611686018427387904x4xf32>
}"""
    assert "needs the number 18446744073709551616" in _run(text, ["linalg-generalization-ext", "linalg-collapse-loops"])
    assert not _run(text, ["linalg-generalization-ext", "canonicalize"])


@pytest.mark.parametrize("type", ["tensor<{}xf32>", "memref<2x{}xf32>", "vector<{}xf32>", "tensor<2xvector<[{}]xf32>>"])
def test_sizes_of_64_bits(type: str) -> None:
    text = f'%0 = "a.b"() : () -> {type}'
    parse_module(text.format((1 << 63) - 1))
    for size in (1 << 63, 10**30):
        assert "the size is too large" in _run(text.format(size), [])
