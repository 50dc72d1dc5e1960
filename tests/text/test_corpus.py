"""Real modules: parse, print and parse again; the same text and protos through jaxlib. A sample by default."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support import corpus
from xjit.hlo.compare.equality import first_difference
from xjit.hlo.diagnostics import ElidedConstantWarning
from xjit.text import create_from_proto, parse_hlo, to_proto

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(not corpus.available(), reason="the corpus is not there"),
]

MODELS = sorted(corpus.ROOT.glob("models/**/*.txt"), key=lambda path: path.stat().st_size)
CASES = sorted(corpus.ROOT.glob("stablehlo_cases/*.hlo"))
SAMPLE = MODELS[::6]


def check(path: Path) -> None:
    module = parse_hlo(path.read_text(), str(path), allow_elided_constants=True)
    text = str(module)
    again = parse_hlo(text)
    assert first_difference(module, again, metadata=True, config=True) is None
    assert str(again) == text
    back = create_from_proto(to_proto(module))
    assert first_difference(module, back, metadata=True) is None


def without_source(text: str) -> Any:
    module = parse_hlo(text, allow_elided_constants=True)
    for computation in module.computations():
        for instruction in computation.instructions:
            instruction.metadata = type(instruction.metadata)()
    return module


def check_with_jaxlib(path: Path) -> None:
    xla = pytest.importorskip("jax._src.lib").xla_client.hlo
    options = xla.HloPrintOptions()
    options.print_large_constants = True
    options.print_metadata = False  # jaxlib renumbers the stack frames
    text = re.sub(r"(?<![\w.])-0(?![\w.])", "-0.0", path.read_text())  # jaxlib reads -0 as the integer 0
    ours = str(parse_hlo(text, allow_elided_constants=True)) if "{...}" in text else str(parse_hlo(text))
    if "{...}" in text:
        text = ours  # jaxlib fills elided constants with values of its own
    original = xla.hlo_module_from_text(text)
    assert xla.hlo_module_from_text(ours).to_string(options) == original.to_string(options)
    module = create_from_proto(original.as_serialized_hlo_module_proto())
    assert first_difference(module, parse_hlo(original.to_string(options)), annotations=True) is None


@pytest.mark.parametrize("path", SAMPLE, ids=lambda path: path.stem)
def test_model(path: Path) -> None:
    check(path)


@pytest.mark.parametrize("path", MODELS[:2], ids=lambda path: path.stem)
def test_model_with_jaxlib(path: Path) -> None:
    check_with_jaxlib(path)


def test_cases() -> None:
    for path in CASES[::12]:
        check(path)


def test_cases_with_jaxlib() -> None:
    for path in CASES[::40]:
        check_with_jaxlib(path)


def test_elided_constants_are_told() -> None:
    path = next(path for path in MODELS if "constant({...})" in path.read_text())
    with pytest.warns(ElidedConstantWarning, match=r"\d+:\d+: constants are elided"):
        parse_hlo(path.read_text())


def test_a_large_model_parses_quickly() -> None:
    text = MODELS[-1].read_text()
    start = time.process_time()
    parse_hlo(text, allow_elided_constants=True)
    assert time.process_time() - start < 8


@pytest.mark.slow
@pytest.mark.parametrize("path", [p for p in MODELS if p not in SAMPLE], ids=lambda path: path.stem)
def test_every_model(path: Path) -> None:
    check(path)


@pytest.mark.slow
@pytest.mark.parametrize("path", MODELS[2:], ids=lambda path: path.stem)
def test_every_model_with_jaxlib(path: Path) -> None:
    check_with_jaxlib(path)


@pytest.mark.slow
def test_every_case() -> None:
    for path in CASES:
        check(path)


@pytest.mark.slow
def test_every_case_with_jaxlib() -> None:
    for path in CASES:
        check_with_jaxlib(path)
