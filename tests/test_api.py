"""`import xjit`: what the public names do, and what they say about wrong input."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xjit
from xjit import CompileOptions, collector_pause
from xjit.runtime.cuda import cuda_driver
from xjit.tools.opt import GPU_STAGES, STAGES

TEXT = """HloModule sum
ENTRY e {
  x = f32[2,3] parameter(0)
  y = f32[2,3] parameter(1)
  ROOT r = f32[2,3] add(x, y)
}
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(scope="module")
def executable() -> xjit.Executable:
    return xjit.compile(TEXT)


def test_every_public_name_exists() -> None:
    assert all(hasattr(xjit, name) for name in xjit.__all__)


def test_errors_are_one_family() -> None:
    kinds = [getattr(xjit, name) for name in xjit.__all__ if name.endswith("Error")]
    kinds += [xjit.InvalidArgument, xjit.FailedPrecondition, xjit.Unsupported]
    assert all(issubclass(kind, xjit.HloError) for kind in kinds) and xjit.XjitError is xjit.HloError


def test_sources(tmp_path: Path) -> None:
    path = tmp_path / "sum.hlo"
    path.write_text(TEXT, encoding="utf-8-sig")  # with a byte order mark
    module = xjit.parse_hlo(TEXT)
    for source in (TEXT, module, path, str(path)):
        np.testing.assert_array_equal(xjit.evaluate(source, X, X), X + X)
        assert xjit.load_module(source) == module
    np.testing.assert_array_equal(xjit.compile(path)(X, X), X + X)


@pytest.mark.parametrize("source", [None, 3, ["HloModule"]])
def test_sources_that_are_none(source: Any) -> None:
    for function in (xjit.compile, xjit.evaluate):
        with pytest.raises(xjit.InvalidArgument, match="expected a module, HLO text or a path; found"):
            function(source)


def test_misuse_is_explained() -> None:
    with pytest.raises(xjit.InvalidArgument, match="null byte"):
        xjit.compile("a\0b")
    with pytest.raises(xjit.InvalidArgument, match=r"'m.hlo' is a path, expected HLO text"):
        xjit.parse_hlo("m.hlo")
    with pytest.raises(xjit.InvalidArgument, match="expected the bytes of an HloModuleProto; found NoneType"):
        xjit.from_hlo_proto(None)  # type: ignore[arg-type]
    with pytest.raises(xjit.InvalidArgument, match="expected an HloModule; found str"):
        xjit.to_hlo_proto("abc")  # type: ignore[arg-type]
    with pytest.raises(xjit.InvalidArgument, match="options is a dict"):
        xjit.compile(TEXT, options={})  # type: ignore[arg-type]


def test_arguments_of_the_wrong_type_get_a_hint(executable: xjit.Executable) -> None:
    with pytest.raises(xjit.InvalidArgument, match=r"got float64 \(2, 3\): convert it with .astype\(np.float32\)"):
        executable(X.astype(np.float64), X)
    with pytest.raises(xjit.InvalidArgument, match=r"a list of 2 elements: pass np.asarray\(x, np.float32\)"):
        executable(X.tolist(), X)
    with pytest.raises(xjit.InvalidArgument, match="parameter 1 'y': a masked array would lose its mask"):
        executable(X, np.ma.masked_less(X, 3))


def test_texts_and_paths_that_hold_no_module() -> None:
    with pytest.raises(xjit.HloParseError, match="expected a computation, found the end of the text"):
        xjit.compile("")
    with pytest.raises(xjit.InvalidArgument, match=r"cannot read HLO from 'no\.hlo'"):
        xjit.compile("no.hlo")
    for text in (None, b"HloModule m"):
        with pytest.raises(xjit.InvalidArgument, match="expected HLO text, found"):
            xjit.parse_hlo(text)  # type: ignore[arg-type]


def test_stages(executable: xjit.Executable) -> None:
    texts = {s: executable.as_text(s) for s in STAGES if s not in GPU_STAGES}
    assert all(texts.values()) and texts["hlo"] == str(xjit.parse_hlo(TEXT))
    assert xjit.parse_hlo(texts["optimized-hlo"]).has_schedule()
    with pytest.raises(xjit.InvalidArgument, match="unknown stage 'ptx': expected one of hlo, optimized-hlo"):
        executable.as_text("ptx")


def test_facts(executable: xjit.Executable) -> None:
    assert executable.name == "sum" and repr(executable).startswith("<Executable sum: (f32[2,3], f32[2,3])")
    assert [k.instruction for k in executable.kernels] == ["r"]
    assert executable.cost_analysis()["flops"] == 6 and executable.cost_analysis()["bytes accessed"] == 72
    memory = executable.memory_analysis()
    assert (memory.argument_size_in_bytes, memory.output_size_in_bytes) == (48, 24)


@pytest.mark.parametrize("target", ["cuda-graph", "tpu", "cpu:sm_90", ""])
def test_targets(target: str) -> None:
    with pytest.raises(xjit.InvalidArgument, match=f"target '{target}'"):
        xjit.compile(TEXT, target)


def test_a_gpu_that_is_not_here_is_one_error() -> None:
    try:
        cuda_driver()
    except xjit.FailedPrecondition:
        with pytest.raises(
            xjit.FailedPrecondition, match=r"target 'cuda' (?s:.*)target 'cuda-sim' runs it on the host"
        ):
            xjit.compile(TEXT, "cuda:sm_90")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cpu_level": "avx3"}, "unknown x86-64 level 'avx3': expected one of sse2, sse4.2, avx2, avx512,"),
        ({"opt_level": 4}, "opt_level is 4, expected 0, 1, 2 or 3"),
        ({"unoptimized_us": float("nan")}, "unoptimized_us is nan, expected a number, 0 or more"),
        ({"disabled_passes": "dce"}, "disabled_passes is the string 'dce', expected a tuple"),
        ({"disabled_passes": ("dec",)}, "unknown pass 'dec'"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(xjit.InvalidArgument) as caught:
        CompileOptions(**options)
    assert message in caught.value.message


def test_options() -> None:
    options = CompileOptions(cpu_level="sse2", opt_level=0, disabled_passes=["fusion"])  # type: ignore[arg-type]
    np.testing.assert_array_equal(xjit.compile(TEXT, "cpu", options)(X, X), X + X)
    assert hash(options) == hash(CompileOptions(cpu_level="sse2", opt_level=0, disabled_passes=("fusion",)))
    with pytest.raises(xjit.InvalidArgument, match="options is a dict"):
        xjit.compile(TEXT, options={"fusion": False})  # type: ignore[arg-type]


@pytest.mark.parametrize("elements", [6, 60000])
def test_short_programs_are_not_optimized_if_that_is_asked_for(elements: int) -> None:
    """The time of 6 elements, one after the other, is less than a microsecond; that of 60,000 is not."""
    text = TEXT.replace("2,3", str(elements)).replace("add(x, y)", "exponential(y)")
    x = np.linspace(-3, 3, elements, dtype=np.float32)
    optimized, given = xjit.compile(text), xjit.compile(text, options=CompileOptions(unoptimized_us=1.0))
    is_short = elements == 6
    for stage in ("asm", "llvm", "schedule"):
        assert (given.as_text(stage) == optimized.as_text(stage)) == (not is_short)
    assert (given.program.object_code == optimized.program.object_code) == (not is_short)
    assert given(x, x).tobytes() == optimized(x, x).tobytes() == given.run_thunks(x, x).tobytes()


def test_compile_leaves_the_module_as_it_is() -> None:
    module = xjit.parse_hlo(TEXT.replace("HloModule sum", "HloModule sum, is_scheduled=true"))
    before, order = str(module), module.schedule.sequence(module.entry_computation)
    np.testing.assert_array_equal(xjit.compile(module)(X, X), X + X)
    assert str(module) == before and module.schedule.sequence(module.entry_computation) == order


def test_run_passes() -> None:
    module = xjit.parse_hlo(TEXT.replace("ROOT r", "dead = f32[2,3] negate(x)\n  ROOT r"))
    assert xjit.run_passes(module, ["cse", "dce"]) and not xjit.run_passes(module, ["hlo_cse", "hlo-dce"])
    assert module == xjit.parse_hlo(TEXT)
    with pytest.raises(xjit.InvalidArgument, match="unknown pass 'dcee'"):
        xjit.run_passes(module, ["dcee"])
    with pytest.raises(xjit.InvalidArgument, match="expected a list of pass names, found the string 'dce'"):
        xjit.run_passes(module, "dce")
    with pytest.raises(xjit.InvalidArgument, match="expected an HloModule, found str"):
        xjit.run_passes(TEXT, ["dce"])  # type: ignore[arg-type]


def test_copies_of_modules_and_executables(executable: xjit.Executable) -> None:
    module = xjit.parse_hlo(TEXT.replace("HloModule sum", "HloModule sum, replica_count=2"))
    for twin in (copy.deepcopy(module), copy.copy(module), pickle.loads(pickle.dumps(module))):
        assert twin is not module and twin == module and str(twin) == str(module)
    assert copy.deepcopy(executable) is executable is copy.copy(executable)
    with pytest.raises(TypeError, match="pickle its `program` instead"):
        pickle.dumps(executable)


def test_evaluator_and_executable_take_the_same_scalars() -> None:
    text = "HloModule m ENTRY e { x = f32[] parameter(0) n = s32[] parameter(1) ROOT t = (f32[], s32[]) tuple(x, n) }"
    executable = xjit.compile(text)
    for x, n in [(0.1, 3), (1, -1), (float("inf"), 0), (np.float32(2), np.int32(4))]:
        for function in (executable, lambda x, n: xjit.evaluate(text, x, n)):
            outputs = function(x, n)
            assert [o.dtype for o in outputs] == [np.float32, np.int32]
            assert (outputs[0], outputs[1]) == (np.float32(x), n)
    for x, n in [(0.1, 1.5), (1e300, 0), (True, 0), (1.0, 2**31), (1j, 0)]:
        for function in (executable, lambda x, n: xjit.evaluate(text, x, n)):
            with pytest.raises(xjit.InvalidArgument, match=r"'[xn]'"):
                function(x, n)


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        ("ROOT r = f32[3] negate(x)", "the declared shape is f32[3], but the operands give f32[4]"),
        ("ROOT r = f32[4] slice(x), slice={[0:9]}", "range [0:9] of dimension 0 does not lie in [0:4]"),
        ("ROOT r = f32[4] add(x, y)", "add"),
        ("ROOT r = f32[2,2] transpose(x), dimensions={1,0}", "is not a permutation"),
        (
            "z = f32[] constant(0) ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=f",
            "takes 1 parameters, expected",
        ),
    ],
)
def test_invalid_modules_are_neither_evaluated_nor_compiled(instruction: str, message: str) -> None:
    text = f"""HloModule m
    f {{ p = f32[] parameter(0) ROOT n = f32[] negate(p) }}
    ENTRY e {{ x = f32[4] parameter(0) y = f32[1] parameter(1) {instruction} }}"""
    for function in (xjit.evaluate, xjit.compile):
        with pytest.raises(xjit.HloVerifyError) as caught:
            function(text)
        assert message in caught.value.message and caught.value.line is not None


def test_keyword_arguments_are_refused(executable: xjit.Executable) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'y'"):
        executable(X, y=X)


class Cyclic:
    """An object that only the collector of cycles ends."""

    itself: Cyclic


def test_what_is_taken_for_old_is_not_young_and_still_collected() -> None:
    collector_pause.take_all_for_old()
    made: list[Any] = [object(), {}]
    made.append(made)
    reference = weakref.ref(cycle := Cyclic())
    cycle.itself = cycle
    collector_pause.take_all_for_old()
    assert gc.get_freeze_count() == 0 and not any(made is young for young in gc.get_objects(0))
    del cycle
    gc.collect(1)
    assert reference() is not None
    gc.collect()
    assert reference() is None


def test_frozen_objects_stay_so() -> None:
    gc.freeze()
    try:
        count = gc.get_freeze_count()
        collector_pause.take_all_for_old()
        assert gc.get_freeze_count() == count > 0
    finally:
        gc.unfreeze()


def test_large_modules_spare_the_collections_at_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are only parsed, too."""
    registered: list[Any] = []
    monkeypatch.setattr("atexit.register", registered.append)
    collector_pause._freeze_at_exit.cache_clear()
    xjit.parse_hlo(TEXT)
    assert registered == []
    monkeypatch.setattr(collector_pause, "LARGE_GRAPH", 5)
    for read in (
        xjit.parse_hlo,
        xjit.compile,
        lambda text: xjit.from_hlo_proto(xjit.to_hlo_proto(xjit.parse_hlo(text))),
    ):
        for _ in range(2):
            gc.collect()
            read(TEXT)
        assert registered == [gc.freeze]
        collector_pause._freeze_at_exit.cache_clear()
        registered.clear()


def test_the_catalogue_of_passes_shows_its_names() -> None:
    assert "algebraic-simplifier" in repr(xjit.passes.PASSES) and "dot-decomposer" in repr(xjit.passes.PASSES)
