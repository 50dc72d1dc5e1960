"""Planning makes no code: its modules lead to none that writes LLVM IR, and a module is planned where there is none."""

from __future__ import annotations

import subprocess
import sys

import pytest

import xjit
from tests.support.schedules import parse_schedules
from tests.test_layering import ROOT, import_graph
from xjit.tools.main import main

PLAIN_LLVM = {
    "xjit.llvm.element_types",
    "xjit.llvm.gpu_models",
    "xjit.llvm.host_cpu",
    "xjit.llvm.matrix_units",
    "xjit.llvm.target",
    "xjit.llvm.types",
}
"""What planners may know of LLVM: facts about types and targets."""

CODE = ("xjit.llvm.builder", "xjit.llvm.function", "xjit.llvm.module", "xjit.llvm.values")

MODULE = """HloModule m
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT l = pred[] compare(a, b), direction=LT }
condition { s = (s32[], f32[64,64]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[64,64]) parameter(0) i = s32[] get-tuple-element(s), index=0 o = s32[] constant(1)
  x = f32[64,64] get-tuple-element(s), index=1 j = s32[] add(i, o)
  d = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0} t = f32[64,64] tanh(d)
  ROOT r = (s32[], f32[64,64]) tuple(j, t) }
ENTRY e { x = f32[64,64] parameter(0) y = f32[3] parameter(1) i = s32[3] parameter(2) z = s32[] constant(0)
  t = f32[64,64] transpose(x), dimensions={1,0}
  p = (s32[], f32[64,64]) tuple(z, t)
  w = (s32[], f32[64,64]) while(p), condition=condition, body=body
  f = f32[64,64] get-tuple-element(w), index=1
  k = f32[64,64] sort(f), dimensions={1}, to_apply=less
  zero = f32[] constant(0)
  r = f32[64] reduce(k, zero), dimensions={1}, to_apply=sum
  c = f32[64] reduce-window(r, zero), window={size=64 pad=63_0}, to_apply=sum
  ROOT u = f32[64] scatter(c, i, y), to_apply=sum, update_window_dims={}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1 }
"""
PLAN = """
import importlib.abc, sys, types
for package in ("xjit", "xjit.llvm", "xjit.emitters"):  # without what their __init__ imports
    sys.modules[package] = types.ModuleType(package)
    sys.modules[package].__path__ = [ROOT + "/" + package.replace(".", "/")]

class NoCode(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        assert name not in CODE, f"{name} is imported"

sys.meta_path.insert(0, NoCode())
from xjit.emitters.access.access_analysis import MapCache
from xjit.emitters.planners.module import schedule_text
from xjit.emitters.planners.plan import PlanContext
from xjit.llvm.target import Target
from xjit.passes.pipelines import cpu_pipeline
from xjit.passes.framework.driver import PassDriver
from xjit.passes.schedule_and_memory.buffer_assignment import assign_buffers
from xjit.text.parser import parse_hlo
module = parse_hlo(MODULE)
PassDriver().run(cpu_pipeline(), module)
print(schedule_text(assign_buffers(module), PlanContext(Target.host(), MapCache())), end="")
"""


def test_planners_lead_to_no_module_that_writes_code() -> None:
    graph = import_graph()
    todo = [name for name in graph if name.startswith("xjit.emitters.planners")]
    assert "xjit.emitters.planners.cpu.kernels" in todo
    reached: set[str] = set()
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo += graph[name]
    assert {name for name in reached if name.startswith("xjit.llvm")} <= PLAIN_LLVM
    assert not any(name.startswith(("xjit.runtime", "xjit.compiler")) for name in reached)


def test_a_module_is_planned_where_nothing_can_write_code() -> None:
    """What is printed there is what `as_text` says after compilation."""
    values = {"ROOT": str(ROOT), "CODE": CODE, "MODULE": MODULE}
    code = "".join(f"{name} = {value!r}\n" for name, value in values.items()) + PLAN
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    assert without_tasks(result.stdout) == without_tasks(xjit.compile(MODULE).as_text("schedule"))
    for kind in ("gemm", "sort", "scan", "scatter"):
        assert f"// {kind} %" in result.stdout


def without_tasks(text: str) -> list[str]:
    """The lines but those that depend on the number of threads."""
    return [line for line in text.splitlines() if not line.startswith(("//   tasks", "//   blocks"))]


def test_kernels_follow_the_plans() -> None:
    executable = xjit.compile(MODULE)
    planned = parse_schedules(executable.as_text("schedule"))
    emitted = [k.schedule for k in executable._emitted.unnested.kernels if k.schedule is not None]
    assert planned == emitted and len(planned) >= 2


def test_the_command_prints_schedules_without_emitting(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError("code is emitted")

    monkeypatch.setattr("xjit.compiler.emit_cpu_module", refuse)
    path = f"{tmp_path}/m.hlo"
    with open(path, "w", encoding="utf-8") as file:
        file.write(MODULE)
    assert main(["opt", path, "--stage", "schedule"]) == 0
    assert "out0[" in capsys.readouterr().out
