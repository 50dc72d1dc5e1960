"""The pass catalogue's pairs through the passes: `python -m pytest tests/passes/test_catalogue.py -k 25`, or `-k cse`.

A pair is checked for its structure, the changed bit, a second run that changes nothing, the verifier, and values: the
evaluator on the module before and after. Pairs of passes that PASSES has not are expected to fail, by name.
Where the catalogue is not beside the checkout, `XJIT_CATALOGUE` names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import catalogue
from tests.support.catalogue import CataloguePair, arguments, difference, read_pairs
from tests.support.passes import leaves
from xjit.hlo import HloModule
from xjit.hlo.compare.fingerprint import module_fingerprint
from xjit.hlo.diagnostics import HloError
from xjit.ops.evaluation import evaluate, evaluate_devices
from xjit.ops.verifier import verify_module
from xjit.passes import PASSES, make_pass
from xjit.passes.framework.pass_text import canonical
from xjit.text.parser import parse_hlo

RUN: Mapping[str, str] = {
    "gpu_tree_reduction_rewriter": "gpu-tree-reduction-rewriter{row_bound=16,split_near_sqrt=false}",
    "hlo_rematerialization": "hlo-rematerialization{memory_limit_bytes=57344}",
    "multi_output_fusion": "multi-output-fusion{min_bytes=1}",
    "reduction_splitter": "reduction-splitter{min_split_dim=2}",
    "variadic_op_splitter": "variadic-op-splitter{max_parameters=2}",
}
"""Pairs that need options: name of the pair, then the pass as text, `call-inliner{single_call_site=true}`."""

DIFFERENT: Mapping[str, str] = {
    "batch_norm_expander": "divides by the root, as XLA:CPU's values ask for",
    "cholesky_expander": "a loop in a called computation, which simplification would unroll",
    "gemm_algorithm_picker": "measures only where it is given a measurement",
    "gpu_conv_algorithm_picker": "likewise",
    "gather_expander_loop": "places are vectors, as in XLA's loop, and the loop starts from other copies",
    "rng_bit_generator_expander": "the bits that nothing reads are written, too",
    "rng_expander": "its key is that of a seed of 0, and the range of a remainder is at least 1",
    "triangular_solve_expander": "a loop in a called computation, which simplification would unroll",
}
"""Pairs that a pass answers otherwise, and how; one that comes to agree must leave the table."""

NO_VALUES: Mapping[str, str] = {"gpu_copy_insertion": "its gemm does not say what it contracts"}
"""Pairs that cannot be evaluated, and why."""

SEEDS = 3
TOLERANCE = 2e-5


def _parameter(pair: CataloguePair) -> Any:
    marks: list[Any] = [pytest.mark.corpus]
    if canonical(pair.pass_name) not in PASSES and pair.name not in RUN:
        marks.append(pytest.mark.xfail(reason=f"{canonical(pair.pass_name)} is not in PASSES", run=False))
    elif pair.name in DIFFERENT:
        marks.append(pytest.mark.xfail(reason=DIFFERENT[pair.name], strict=True))
    return pytest.param(pair, id=pair.id, marks=marks)


@pytest.mark.parametrize("pair", [_parameter(pair) for pair in read_pairs()])
def test_pair(pair: CataloguePair) -> None:
    check(pair)


def check(pair: CataloguePair) -> None:
    """All checks of a pair. AssertionError says which one fails, with the module that the pass left."""
    before = _parse(pair.before, pair)
    module = before.clone("")
    run = make_pass(PASSES, RUN.get(pair.name, pair.pass_name)).run
    if not pair.after:
        _check_unchanged(pair, module, run)
        return
    verify_module(module)
    assert run(module), "the pass changed nothing"
    verify_module(module)
    assert not (found := difference(module, pair)), f"{found}\nthe result is\n{module}"
    fingerprint = module_fingerprint(module)
    assert not run(module), f"the second run returned True:\n{module}"
    assert module_fingerprint(module) == fingerprint, "the second run changed something"
    if "static" not in pair.keys and pair.name not in NO_VALUES:
        _check_values(pair, before, module)


def _parse(text: str, pair: CataloguePair) -> HloModule:
    module = parse_hlo(text)
    module.config.replica_count = int(pair.keys.get("replicas", module.config.replica_count))
    module.config.num_partitions = int(pair.keys.get("partitions", module.config.num_partitions))
    return module


def _check_unchanged(pair: CataloguePair, module: HloModule, run: Any) -> None:
    fingerprint = module_fingerprint(module)
    if pair.must_be_rejected:
        with pytest.raises(HloError):
            run(module)
    else:
        assert not run(module), "the pass returned True"
    assert module_fingerprint(module) == fingerprint, "the pass changed something"


def _check_values(pair: CataloguePair, before: HloModule, after: HloModule) -> None:
    devices = before.config.replica_count * before.config.num_partitions
    for seed in range(SEEDS):
        if devices > 1:
            inputs = [arguments(before, pair.keys, seed * devices + device) for device in range(devices)]
            got, expected = evaluate_devices(after, inputs), evaluate_devices(before, inputs)
        else:
            inputs = arguments(before, pair.keys, seed)
            got, expected = evaluate(after, *inputs), evaluate(before, *inputs)
        for a, e in zip(leaves(_tuples(got)), leaves(_tuples(expected)), strict=True):
            _compare(a, e, pair)


def _compare(got: Any, expected: Any, pair: CataloguePair) -> None:
    assert got.dtype == expected.dtype and got.shape == expected.shape
    if expected.dtype.kind in "biu":
        assert np.array_equal(got, expected), f"{got} instead of {expected}"
        return
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    a, e, tolerance = got.astype(wide), expected.astype(wide), float(pair.keys.get("tol", TOLERANCE))
    assert np.allclose(a, e, tolerance, tolerance, equal_nan=True), f"{got} instead of {expected}"
    if "nans" in pair.keys:
        zeros = e == 0
        assert np.array_equal(np.signbit(a[zeros]), np.signbit(e[zeros])), f"signs of zeros: {got} not {expected}"


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value


TEXT = """# passes
### 7. Dead code — `HloDCE` → `hlo_dce` [frontend]
```hlo imin=-3 imax=9
HloModule dead_before
ENTRY e { x = s32[4] parameter(0) y = s32[4] negate(x) c = s32[] constant(1) ROOT r = s32[4] abs(x) }
HloModule dead_after
ENTRY e { x = s32[4] parameter(0) ROOT r = s32[4] abs(x) }
```
### 8. Verifier — `HloVerifier` → `hlo_verifier` [frontend]
```hlo same
HloModule t_rejects
ENTRY e { x = f32[4,3] parameter(0) ROOT t = f32[4,3] transpose(x), dimensions={1,0} }
```
## 9. Other text
```hlo
HloModule other
```
"""


def test_fences_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "passes.md").write_text(TEXT)
    monkeypatch.setattr(catalogue, "PATH", tmp_path / "passes.md")
    dead, wrong = read_pairs()
    assert (dead.id, dict(dead.keys)) == ("7-hlo_dce-dead", {"imin": "-3", "imax": "9"})
    assert (wrong.id, wrong.after, wrong.must_be_rejected) == ("8-hlo_verifier-t_rejects", "", True)
    check(dead)
    check(wrong)


def test_what_a_pair_does_not_say_fails() -> None:
    text = "HloModule m ENTRY e { x = f32[4] parameter(0) ROOT r = f32[4] negate(x) }"
    dead = text.replace("ROOT", "d = f32[4] abs(x) ROOT")
    pair = CataloguePair("7", "hlo_dce", "dead", {}, dead, text)
    check(pair)
    with pytest.raises(AssertionError, match="negate and abs"):
        check(replace(pair, after=text.replace("negate", "abs")))
    with pytest.raises(AssertionError, match="changed nothing"):
        check(replace(pair, before=text))
    with pytest.raises(AssertionError, match="returned True"):
        check(replace(pair, keys={"same": ""}, after=""))
    with pytest.raises(AssertionError, match="schedule"):
        check(replace(pair, after=text.replace("HloModule m", "HloModule m, is_scheduled=true")))


def test_the_signs_of_zeros_count_where_a_pair_says_so() -> None:
    text = "HloModule m ENTRY e { x = f32[8] parameter(0) ROOT r = f32[8] negate(x) }"
    pair = CataloguePair("1", "hlo_dce", "zero", {"nans": ""}, text, text)
    module, other = parse_hlo(text), parse_hlo(text.replace("negate", "abs"))
    _check_values(pair, module, module)
    with pytest.raises(AssertionError):
        _check_values(pair, module, other)
    zero = np.zeros(1, np.float32)
    _compare(-zero, zero, replace(pair, keys={}))
    with pytest.raises(AssertionError, match="signs of zeros"):
        _compare(-zero, zero, pair)
