"""Shape inference against jaxlib, which infers the shape where HLO text leaves it out."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from tests.ops.shape_cases import INVALID, VALID, module_text
from tests.support import corpus
from xjit.ops.verifier import verify_module
from xjit.ops.verifier_options import VerifierOptions
from xjit.text.parser import parse_hlo

# Where jaxlib's parser infers something else: it has no declared shape to take sizes or the result type from, or its
# inference is not the rule that its verifier applies.
_OTHER = {
    "broadcast": "dimensions are read as sizes",
    "opt-barrier": "tuples are not inferred",
    "copy-start": "not inferred",
    "scaled-dot": "inferred with the scales beside their operands, though XLA builds it with the scales last",
}

# A process of its own, because a failed check inside jaxlib ends the process.
_SCRIPT = """
import json, sys
from jaxlib import _hlo
for line in sys.stdin:
    try:
        text, error = _hlo.hlo_module_from_text(json.loads(line)).to_string(), ""
    except Exception as e:
        text, error = "", str(e)
    print(json.dumps([text, error]), flush=True)
"""


def _jaxlib(texts: list[str]) -> list[tuple[str, str]]:
    """Returns (module text, error) of each text as jaxlib parses it; "aborted" where jaxlib ends the process."""
    pytest.importorskip("jaxlib._hlo")
    answers: list[tuple[str, str]] = []
    while len(answers) < len(texts):
        lines = "".join(json.dumps(t) + "\n" for t in texts[len(answers) :])
        done = subprocess.run([sys.executable, "-c", _SCRIPT], input=lines, capture_output=True, text=True, timeout=120)
        got = [tuple(json.loads(line)) for line in done.stdout.splitlines()]
        answers += got
        if len(answers) < len(texts):
            answers.append(("", "aborted"))
    return answers


def _result_shape(module_text: str) -> str:
    row = next(line for line in module_text.splitlines() if "%result = " in line)
    shape = re.search(r"%result = (.*?) [\w-]+\(", row).group(1)
    return re.sub(r"(?<=\])\{[\d,]*\}", "", shape)


def test_agrees_with_jaxlib_on_valid_instructions():
    cases = [(i, s) for i, s in VALID if i.split("(")[0] not in _OTHER]
    answers = _jaxlib([module_text(instruction, "") for instruction, _ in cases])
    agreed = 0
    for (instruction, shape), (text, error) in zip(cases, answers, strict=True):
        if error:
            variadic_window = instruction.startswith("reduce-window(x, it")  # inferred as if it had one input
            assert "cannot infer shape" in error or variadic_window, f"{instruction}: {error}"
            continue
        inferred = _result_shape(text)
        preferred_type = instruction.startswith("dot(") and inferred.split("[")[1] == shape.split("[")[1]
        assert inferred == shape or preferred_type, instruction
        agreed += 1
    assert agreed > 80


# What jaxlib's inference lets pass: its verifier checks it, or nothing does and the result is undefined.
_NOT_INFERRED = (
    "add: the operands have different dimensions",
    "must have integer elements",
    "complex numbers have no order",
    "does not fit operands of type",
    "sort: dimension",
    "must return pred[]",
    "of comparator",
    "must not be a scalar",
    "of computation car",
    "result type s8 is narrower",
    "result type f16 is narrower",
    "of type c64 cannot give",
    "scale f32[3] does not",
    "is in both start_index_map and operand_batching_dims",
    "differ in size",
    "must be a token",
)


def test_jaxlib_rejects_what_the_rules_reject():
    """Left out: rules about the declared shape, which is not there, and opcodes that jaxlib does not infer."""
    cases = [c for c in INVALID if "declared shape" not in c[2] and c[0].split("(")[0] not in _OTHER]
    answers = _jaxlib([module_text(instruction, "") for instruction, _, _ in cases])
    rejected = 0
    for (instruction, _, message), (_, error) in zip(cases, answers, strict=True):
        message = f"{instruction.split('(')[0]}: {message}"
        assert error or any(known in message for known in _NOT_INFERRED), f"jaxlib accepts {instruction}"
        rejected += "failed to infer shape" in error
    assert rejected > 90


@pytest.mark.corpus
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
@pytest.mark.skipif(not corpus.available(), reason="the corpus is not there")
def test_corpus_of_cases_verifies():
    names = corpus.stablehlo_case_names()
    assert names
    for name in names:
        module = parse_hlo((corpus.ROOT / "stablehlo_cases" / f"{name}.hlo").read_text(), file=name)
        verify_module(module)
        verify_module(module, VerifierOptions(layout_sensitive=True))


@pytest.mark.corpus
@pytest.mark.slow
@pytest.mark.skipif(not corpus.available(), reason="the corpus is not there")
def test_corpus_of_models_verifies():
    files = sorted(p for p in (corpus.ROOT / "models").rglob("*.txt"))
    assert files
    for file in files:
        verify_module(parse_hlo(file.read_text(), file=file.name, allow_elided_constants=True))
