"""Rematerialization on random graphs: values, peaks, schedules and the memory profile that is kept up to date."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xjit
from tests.support.passes import assert_same_values, random_arguments
from xjit.hlo import HloModule, Layout, Shape
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.types.physical import physical_byte_size
from xjit.ops.evaluation import evaluate
from xjit.ops.verifier import verify_module
from xjit.passes.schedule_and_memory.hlo_rematerialization import HloRematerialization
from xjit.passes.schedule_and_memory.live_candidates import Strategies
from xjit.passes.schedule_and_memory.memory_profile import MemoryProfile
from xjit.passes.schedule_and_memory.repeated_block import RepeatedBlock
from xjit.text.parser import parse_hlo


def random_module(seed: int, count: int) -> HloModule:
    """Returns a scheduled graph of arrays of several sizes; what is read is often far away, some of it in tuples."""
    rng = np.random.default_rng(seed)
    lines, values = ["v0 = f32[64] parameter(0)"], [("v0", 64)]
    for number in range(1, count):
        operand, size = values[int(rng.integers(max(0, len(values) - 12), len(values)))]
        others = [name for name, other in values if other == size]
        name, kind = f"v{number}", int(rng.integers(5))
        if kind == 0:
            factor = int(rng.integers(2, 4))
            lines.append(f"{name} = f32[{size}] negate({operand})")
            if size * factor < 512:
                names = ", ".join([operand] * factor)
                lines[-1] = f"{name} = f32[{size * factor}] concatenate({names}), dimensions={{0}}"
                size *= factor
        elif kind == 1 and size > 16:
            lines.append(f"{name} = f32[{size // 2}] slice({operand}), slice={{[0:{size // 2}]}}")
            size //= 2
        elif kind == 2:
            other = str(rng.choice(others))
            lines.append(f"t{number} = (f32[{size}], f32[{size}]) tuple({operand}, {other})")
            lines.append(f"{name} = f32[{size}] get-tuple-element(t{number}), index={int(rng.integers(2))}")
        else:
            lines.append(f"{name} = f32[{size}] {('add', 'subtract')[kind % 2]}({operand}, {rng.choice(others)})")
        values.append((name, size))
    sums = [f"s{i} = f32[1] slice({name}), slice={{[0:1]}}" for i, (name, _) in enumerate(values)]
    sums.append(f"ROOT r = f32[{len(values)}] concatenate({', '.join(f's{i}' for i in range(len(values)))})")
    body = "\n".join([*lines, *sums])
    return parse_hlo(f"HloModule m, is_scheduled=true\nENTRY e {{\n{body}, dimensions={{0}}\n}}")


def profile_of(module: HloModule) -> MemoryProfile:
    """Returns the profile of the entry as it is."""
    return MemoryProfile(module.entry_computation, module.schedule.sequence(module.entry_computation), {})


@pytest.mark.parametrize("seed", range(24))
def test_random_graphs(seed: int) -> None:
    module = random_module(seed, 24)
    arguments = random_arguments(module, seed)
    expected, peak = evaluate(module, *arguments), int(profile_of(module).totals.max())
    item = HloRematerialization(
        peak * (5 + seed % 4) // 10, block_size_limit=1 + seed % 3, block_rematerialization_factor=4
    )
    changed = item.run(module)
    verify_module(module)
    module.schedule.verify(module)
    assert_same_values(evaluate(module, *arguments), expected)
    assert item.sizes == (peak, int(profile_of(module).totals.max()))
    assert item.sizes[1] <= peak and (changed or item.sizes[1] == peak)
    assert not item.run(module)


def test_most_random_graphs_come_below_a_limit() -> None:
    reached = 0
    for seed in range(24):
        module = random_module(seed, 24)
        limit = int(profile_of(module).totals.max()) * 8 // 10
        item = HloRematerialization(limit, block_size_limit=3, block_rematerialization_factor=4)
        item.run(module)
        reached += item.sizes[1] <= limit
    assert reached >= 18


@pytest.mark.parametrize("seed", range(12))
def test_the_profile_follows_a_repeated_block(seed: int) -> None:
    module = random_module(seed, 16)
    profile = profile_of(module)
    applied = 0
    for value in list(module.entry_computation.instructions):
        if value.opcode not in ("add", "subtract", "negate", "concatenate") or value.is_root():
            continue
        places = range(profile.position(value) + 1, len(profile.order))
        blocks = (RepeatedBlock.of(profile, value, p) for p in places if not profile.is_read_at(value, p))
        block = next((b for b in blocks if b is not None), None)
        if block is None:
            continue
        needed, before = block.needed(), profile.totals.max()
        block.apply()
        assert profile.totals.max() <= max(needed, before)
        applied += 1
        module.schedule.set_sequence(module.entry_computation, profile.order)
        module.entry_computation.reorder_instructions(profile.order)
        fresh = profile_of(module)
        runs = [i.opcode not in ("tuple", "get-tuple-element") for i in profile.order]
        assert list(profile.totals[runs]) == list(fresh.totals[runs])
    assert applied


TILED = """HloModule m, is_scheduled=true
ENTRY e {
  x = f32[] parameter(0)
  b = f32[64,2]{1,0:T(8,128)} broadcast(x), dimensions={}
  s = f32[64,2]{1,0:T(8,128)} sine(b)
  n = f32[9000] broadcast(x), dimensions={}
  m = f32[1] slice(n), slice={[5:6]}
  l = f32[1,1]{1,0:T(8,128)} slice(s), slice={[1:2], [0:1]}
  q = f32[1] reshape(l)
  ROOT r = f32[1] subtract(m, q) }"""


@pytest.mark.parametrize(("mode", "added"), [("compress", 2), ("recompute", 0), ("recompute-and-compress", 2)])
def test_a_value_waits_without_tiles(mode: str, added: int) -> None:
    module = parse_hlo(TILED)
    before, count = evaluate(module, np.float32(3)), module.instruction_count
    item = HloRematerialization(60_000, mode=mode)
    assert item.run(module) == bool(added)
    verify_module(module)
    module.schedule.verify(module)
    assert module.instruction_count == count + added
    assert evaluate(module, np.float32(3)) == before
    if added:  # beside the broadcast: 64 tiles of 4096 bytes, or 512 bytes
        packed = next(i for i in module.entry_computation.instructions if i.name == "s.remat_compressed")
        names = [i.name for i in module.schedule.sequence(module.entry_computation)]
        assert packed.shape.layout is not None and not packed.shape.layout.tiles
        assert names.index("s.remat_uncompressed") == names.index("l") - 1
        assert int(profile_of(module).totals.max()) == item.sizes[1] < item.sizes[0]


@pytest.mark.parametrize("seed", range(8))
def test_compact_arrays_of_random_graphs(seed: int) -> None:
    module = random_module(seed, 24)
    arguments = random_arguments(module, seed)
    expected, peak = evaluate(module, *arguments), int(profile_of(module).totals.max())
    small = Layout((0,), memory_space=5)  # any layout that differs: what it takes is for the size function to say

    def byte_size(shape: Shape) -> int:
        return physical_byte_size(shape) // (4 if shape.layout == small else 1)

    mode = ("compress", "recompute-and-compress")[seed % 2]
    item = HloRematerialization(peak * 7 // 10, mode=mode, size_function=byte_size,
                                compact_shape_function=lambda s: s.with_layout(small))  # fmt: skip
    assert item.run(module)
    verify_module(module)
    module.schedule.verify(module)
    assert_same_values(evaluate(module, *arguments), expected)
    entry = module.entry_computation
    assert item.sizes[1] == MemoryProfile(entry, module.schedule.sequence(entry), {}, byte_size).totals.max() < peak


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="unknown mode 'offload', expected one of recompute, compress, "):
        HloRematerialization(1, mode="offload").run(random_module(0, 4))


def test_values_looked_at_are_in_proportion_to_the_program() -> None:
    """Each activation is computed again where the gradient reads it, or is kept."""

    def looks(count: int) -> float:
        lines = ["x0 = f32[64] parameter(0)"]
        lines += [f"h{i} = f32[64] negate(x{i})  x{i + 1} = f32[64] tanh(h{i})" for i in range(count)]
        lines.append(f"g{count} = f32[64] abs(x{count})")
        lines += [f"m{i} = f32[64] abs(x{i + 1})  g{i} = f32[64] add(g{i + 1}, m{i})" for i in reversed(range(count))]
        item = HloRematerialization(64 * 4 * count * 6 // 10, block_size_limit=2, block_rematerialization_factor=4)
        seen = values_looked_at([*lines, "ROOT r = f32[64] negate(g0)"], item)
        assert item.sizes[1] <= item.memory_limit_bytes
        return seen / count

    assert looks(400) < 1.2 * looks(100)


def test_a_value_that_cannot_go_is_not_looked_at_again_at_each_place() -> None:
    """Where `v` would be computed again there is more in memory than at any place in the chain."""
    lines = [
        "x = f32[] parameter(0)",
        "v = f32[100] broadcast(x), dimensions={}",
        "c0 = f32[50] broadcast(x), dimensions={}",
    ]
    lines += [f"c{i + 1} = f32[50] negate(c{i})" for i in range(100)]
    lines += [
        "large = f32[1000] broadcast(x), dimensions={}",
        "k = f32[100] negate(v)",
        "l = f32[50] slice(large), slice={[0:50]}",
    ]
    lines += ["a = f32[50] add(c100, l)", "s = f32[50] slice(k), slice={[0:50]}", "ROOT r = f32[50] add(a, s)"]
    assert values_looked_at(lines, HloRematerialization(600)) < 20


def values_looked_at(lines: list[str], item: HloRematerialization) -> int:
    """Runs the pass on a scheduled entry; returns how many values it looked at."""
    body = "\n".join(lines)
    module = parse_hlo(f"HloModule m, is_scheduled=true\nENTRY e {{\n{body}\n}}")
    seen = 0
    original = Strategies.steps

    def counting(*arguments: Any) -> Any:
        nonlocal seen
        seen += 1
        return original(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Strategies, "steps", counting)
        item.run(module)
    return seen


def test_a_module_without_a_schedule_is_refused() -> None:
    module = parse_hlo("HloModule m ENTRY e { x = f32[4] parameter(0) ROOT r = f32[4] negate(x) }")
    with pytest.raises(InvalidArgument, match="no schedule"):
        HloRematerialization(1).run(module)


KEPT = """HloModule m
ENTRY e { x = f32[256,256] parameter(0)  v = f32[256] parameter(1)
  b = f32[256,256] broadcast(v), dimensions={1}
  k = f32[256,256] add(x, b)
  p = f32[256,256] dot(k, k), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  q = f32[256,256] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  r = f32[256,256] dot(q, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT s = f32[256,256] dot(r, k), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""


def test_a_limit_of_the_compilation() -> None:
    """A sum that products read at both ends of a chain is computed again: three arrays live, not four."""
    free, limited = (xjit.compile(KEPT, options=xjit.CompileOptions(memory_limit_bytes=n)) for n in (0, 900_000))
    rng = np.random.default_rng(0)
    x, v = rng.normal(size=(256, 256)).astype(np.float32) / 16, rng.normal(size=256).astype(np.float32) / 16
    assert free(x, v).tobytes() == limited(x, v).tobytes()
    sizes = [e.memory_analysis().temp_size_in_bytes for e in (free, limited)]
    assert sizes[1] <= sizes[0] - 256 * 256 * 4
    with pytest.raises(xjit.InvalidArgument, match="memory_limit_bytes is -1"):
        xjit.CompileOptions(memory_limit_bytes=-1)
    with pytest.raises(xjit.InvalidArgument, match="memory_limit_bytes is '1GB', expected a number"):
        xjit.CompileOptions(memory_limit_bytes="1GB")  # type: ignore
