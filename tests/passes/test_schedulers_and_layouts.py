"""Schedulers, layout assignment and the whole pipeline."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from tests.support import corpus
from tests.support.passes import BufferMachine, assert_same_values, check_pass, count, leaves, random_arguments
from xjit.hlo import HloComputation, HloInstruction, HloModule, HloVerifyError, Layout
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.ir.schedule import HloSchedule, verify_sequence
from xjit.ops.evaluation import evaluate
from xjit.ops.verifier import verify_module
from xjit.passes import PassDriver, PipelineOptions, cpu_pipeline
from xjit.passes.layout.layout_assignment import LayoutAssignment
from xjit.passes.schedule_and_memory.buffer_assignment import assign_buffers
from xjit.passes.schedule_and_memory.buffer_packing import ALIGNMENT, Block, pack
from xjit.passes.schedule_and_memory.buffer_verifier import verify_buffer_assignment
from xjit.passes.schedule_and_memory.hlo_schedulers import (
    HloMemoryScheduler,
    HloTrivialScheduler,
    _Graph,
    defined_bytes,
)
from xjit.passes.schedule_and_memory.list_order import ListOrder
from xjit.text.parser import parse_hlo

WIDE = """HloModule m ENTRY e { x = f32[256] parameter(0) y = f32[256] parameter(1)
  bx = f32[256,256] broadcast(x), dimensions={0} by = f32[256,256] broadcast(y), dimensions={0}
  ex = f32[1,1] slice(bx), slice={[3:4], [5:6]} ey = f32[1,1] slice(by), slice={[7:8], [9:10]}
  ROOT r = f32[1,1] add(ex, ey) }"""


def schedule_of(module: HloModule) -> list[str]:
    """Returns the names of the entry's instructions in scheduled order."""
    return [i.name for i in module.schedule.sequence(module.entry_computation)]


def test_memory_scheduler_keeps_one_temporary_alive() -> None:
    module = check_pass_of_scheduler(HloMemoryScheduler(), WIDE)
    order = schedule_of(module)
    assert order.index("ex") < order.index("by") or order.index("ey") < order.index("bx")
    graph = _Graph(module.entry_computation, defined_bytes, {})
    numbers = {i: n for n, i in enumerate(graph.order)}
    chosen = graph.peak([numbers[i] for i in module.schedule.sequence(module.entry_computation)])
    assert chosen <= min(graph.peak(graph.post_order()), graph.peak(graph.list_order()))
    assert chosen < 2 * 256 * 256 * 4


def test_a_large_temporary_on_the_way_to_a_small_result_is_not_put_off() -> None:
    """Node 0 takes 100 bytes that node 1 makes one of; 2, 3 and 4 take 10 each, which the last node reads."""
    needs = [[], [0], [], [2], [3], [1, 2, 3, 4]]
    order = ListOrder(needs, needs, readers=[1, 1, 2, 2, 1, 1], size=[100, 1, 10, 10, 10, 1]).run()
    assert order[:2] == [0, 1]


def test_trivial_scheduler_is_post_order() -> None:
    module = check_pass_of_scheduler(
        HloTrivialScheduler(),
        "HloModule m ENTRY e { x = f32[4] parameter(0) a = f32[4] negate(x) b = f32[4] abs(x) ROOT r = f32[4] "
        "add(b, a) }",
    )
    assert schedule_of(module) == ["x", "b", "a", "r"]  # depth first, not as the text is
    assert module.config.header_attributes["is_scheduled"] == "true"
    module.clear_schedule()
    assert "is_scheduled" not in module.config.header_attributes


@pytest.mark.parametrize("algorithm", ["list", "dfs", "post-order"])
def test_one_heuristic_alone(algorithm: str) -> None:
    module = check_pass_of_scheduler(HloMemoryScheduler(algorithm=algorithm), WIDE)
    graph = _Graph(module.entry_computation, defined_bytes, {})
    heuristics = {"list": graph.list_order, "dfs": graph.depth_first_order, "post-order": graph.post_order}
    wanted = graph.instructions_of(heuristics[algorithm]())
    assert schedule_of(module) == [i.name for i in wanted]


def test_unknown_algorithm() -> None:
    with pytest.raises(InvalidArgument, match="algorithm of hlo-memory-scheduler is default or list or"):
        HloMemoryScheduler(algorithm="fastest").run(parse_hlo(WIDE))


def test_postprocessor_has_the_last_word_and_must_be_legal() -> None:
    def by_first(computation: HloComputation, order: list[HloInstruction]) -> list[HloInstruction]:
        return [i for name in ("y", "x", "by", "bx", "ey", "ex", "r") for i in order if i.name == name]

    module = check_pass_of_scheduler(HloMemoryScheduler(postprocessor=by_first), WIDE)
    assert schedule_of(module) == ["y", "x", "by", "bx", "ey", "ex", "r"]
    with pytest.raises(HloVerifyError, match="the schedule runs"):
        HloMemoryScheduler(postprocessor=lambda _, order: order[::-1]).run(parse_hlo(WIDE))


TWO_THREADS = """HloModule m
other { x = f32[4] parameter(0)  ROOT n = f32[4] negate(x) }, execution_thread="second"
ENTRY e { x = f32[4] parameter(0)  s = ((f32[4]), f32[4], u32[]) call-start(x), async_execution_thread="second", to_apply=other
  ROOT d = f32[4] call-done(s) }"""


@pytest.mark.parametrize("scheduler", [HloTrivialScheduler, HloMemoryScheduler])
def test_only_the_given_threads_are_scheduled(scheduler: type[HloMemoryScheduler | HloTrivialScheduler]) -> None:
    module = parse_hlo(TWO_THREADS)
    entry, other = module.entry_computation, next(c for c in module.computations() if c.name == "other")
    assert scheduler().run(module, ["main"])
    module.schedule.verify(module)
    assert module.schedule.is_scheduled(entry) and not module.schedule.is_scheduled(other)
    assert not scheduler().run(module, ["main"])
    assert scheduler().run(module, ["second"])  # the other one keeps its order
    module.schedule.verify(module)
    assert module.schedule.is_scheduled(entry) and module.schedule.is_scheduled(other)
    assert not scheduler().run(module)


def check_pass_of_scheduler(item: HloMemoryScheduler | HloTrivialScheduler, text: str) -> HloModule:
    """Schedules twice: the second time nothing may change."""
    module = parse_hlo(text)
    assert item.run(module)
    module.schedule.verify(module)
    assert not item.run(module)
    return module


def test_schedule_rules() -> None:
    module = parse_hlo(WIDE)
    entry = module.entry_computation
    order = entry.make_instruction_post_order()
    verify_sequence(entry, order)
    with pytest.raises(HloVerifyError, match="the schedule runs"):
        verify_sequence(entry, order[::-1])
    with pytest.raises(HloVerifyError, match="has 6 entries for 7"):
        HloSchedule({entry: order[1:]}).verify(module)


def test_layouts_of_the_entry_are_kept() -> None:
    header = "HloModule m, entry_computation_layout={(f32[4,8]{1,0}, f32[4,8]{0,1})->f32[4,8]{1,0}}"
    check_pass(
        LayoutAssignment(),
        f"{header}\nENTRY e {{ x = f32[4,8] parameter(0) y = f32[4,8] parameter(1) ROOT a = f32[4,8] add(x, y) }}",
        f"{header}\nENTRY e {{ x = f32[4,8] parameter(0) y = f32[4,8]{{0,1}} parameter(1) c = f32[4,8] copy(y) "
        "ROOT a = f32[4,8] add(x, c) }",
    )


def test_kept_layouts_of_parameters_are_those_of_copies() -> None:
    """A transpose is a bitcast of the layout that the text gives its operand, whatever the entry's layout is."""
    header = "HloModule m, entry_computation_layout={(f32[4,8]{1,0})->f32[8,4]{1,0}}"
    check_pass(
        LayoutAssignment(keep_intermediate_layouts=True),
        f"{header}\nENTRY e {{ x = f32[4,8]{{0,1}} parameter(0) ROOT b = f32[8,4] bitcast(x) }}",
        f"{header}\nENTRY e {{ x = f32[4,8] parameter(0) c = f32[4,8]{{0,1}} copy(x) ROOT b = f32[8,4] bitcast(c) }}",
    )
    text = (
        f"{header}\nENTRY e {{ x = f32[4,8]{{0,1}} parameter(0) ROOT t = f32[8,4] transpose(x), dimensions={{1,0}} }}"
    )
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    executable = xjit.compile(text, options=xjit.CompileOptions(keep_intermediate_layouts=True))
    np.testing.assert_array_equal(executable(x), x.T)


def test_result_and_tuple_layouts() -> None:
    shape = "(f32[2,3]{0,1}, s32[4])"
    module = parse_hlo(
        f"HloModule m, entry_computation_layout={{({shape})->({shape}, f32[2,3]{{0,1}})}}\n"
        "ENTRY e { p = (f32[2,3], s32[4]) parameter(0) a = f32[2,3] get-tuple-element(p), index=0 "
        "n = f32[2,3] negate(a) ROOT t = ((f32[2,3], s32[4]), f32[2,3]) tuple(p, n) }"
    )
    assert LayoutAssignment().run(module)
    assert not LayoutAssignment().run(module)
    root = module.entry_computation.root_instruction.shape
    assert root.subshape((0, 0)).layout == root.subshape((1,)).layout == Layout((0, 1))
    run_pipeline(module)


def test_physical_bitcast_becomes_logical() -> None:
    text = """HloModule m ENTRY e { x = f32[2,3] parameter(0) t = f32[2,3]{0,1} copy(x)
      b = f32[3,2]{1,0} bitcast(t) ROOT r = f32[3,2] negate(b) }"""
    module = parse_hlo(text)
    assert LayoutAssignment().run(module)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(evaluate(module, x), -x.T)


def run_pipeline(module: HloModule, options: PipelineOptions | None = None) -> PassDriver:
    """Runs the CPU pipeline with all checks, assigns buffers and proves them."""
    driver = PassDriver(check_changed_bit=True)
    driver.run(cpu_pipeline(options), module)
    verify_module(module)
    verify_buffer_assignment(assign_buffers(module))
    return driver


@pytest.mark.parametrize("options", [PipelineOptions(), PipelineOptions(optimize=False), PipelineOptions(fuse=False)])
def test_whole_pipeline_on_real_memory(options: PipelineOptions) -> None:
    text = """HloModule m, entry_computation_layout={(f32[4,8]{0,1}, f32[8,4]{1,0})->(f32[4,4]{0,1}, f32[4])}
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
gelu { a = f32[4,4] parameter(0)  t = f32[4,4] tanh(a)  ROOT m = f32[4,4] multiply(a, t) }
ENTRY e { x = f32[4,8] parameter(0) w = f32[8,4] parameter(1)
  d = f32[4,4] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  g = f32[4,4] call(d), to_apply=gelu  h = f32[16] reshape(g)  k = f32[4,4] reshape(h)  z = f32[] constant(0)
  r = f32[4] reduce(k, z), dimensions={0}, to_apply=add  ROOT t = (f32[4,4], f32[4]) tuple(g, r) }"""
    module = parse_hlo(text)
    arguments = random_arguments(module)
    expected = evaluate(module, *arguments)
    run_pipeline(module, options)
    assert_same_values(evaluate(module, *arguments), expected)
    got = BufferMachine(assign_buffers(module), arguments).run()
    assert_same_values(tuple(got), tuple(leaves(expected)))
    assert (count(module, "fusion") > 0) == (options.optimize and options.fuse)


def test_packing_never_overlaps() -> None:
    rng = np.random.default_rng(0)
    blocks = [
        Block(int(rng.integers(0, 5000)), int(b := rng.integers(0, 300)), int(b + rng.integers(0, 40)))
        for _ in range(300)
    ]
    offsets, size = pack(blocks)
    live = [0] * 400
    for i, a in enumerate(blocks):
        assert offsets[i] % ALIGNMENT == 0
        assert offsets[i] + a.size <= size
        for t in range(a.begin, a.end + 1):
            live[t] += a.size
        for j, b in enumerate(blocks[:i]):
            if a.size and b.size and a.begin <= b.end and b.begin <= a.end:
                assert offsets[i] + a.size <= offsets[j] or offsets[j] + b.size <= offsets[i]
    assert size < 1.5 * max(live)


SAMPLE = ["vit/inference/1gpu", "llama3_8b/inference/1gpu/module_2266", "resnet50/inference/1gpu"]


def corpus_models() -> list[str]:
    """Returns the model dumps relative to the corpus."""
    return (
        sorted(str(p.relative_to(corpus.ROOT)) for p in (corpus.ROOT / "models").rglob("*.txt"))
        if corpus.available()
        else []
    )


def check_model(path: str) -> None:
    """Runs a model dump through the pipeline and proves its buffer assignment."""
    module = parse_hlo((corpus.ROOT / path).read_text(), allow_elided_constants=True)
    before = module.result_shape
    PassDriver().run(cpu_pipeline(), module)
    verify_module(module)
    assert module.result_shape.compatible(before)
    assignment = assign_buffers(module)
    verify_buffer_assignment(assignment)
    assert assignment.arena_size % ALIGNMENT == 0


@pytest.mark.corpus
@pytest.mark.parametrize("path", [p for p in corpus_models() if any(s in p for s in SAMPLE)])
def test_sampled_models(path: str) -> None:
    check_model(path)


@pytest.mark.corpus
@pytest.mark.slow
@pytest.mark.parametrize("path", corpus_models())
def test_all_models(path: str) -> None:
    check_model(path)
