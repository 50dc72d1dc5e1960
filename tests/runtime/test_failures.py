"""What fails inside native code comes back as a Python error that names the instruction; nothing else runs after it."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xjit
from xjit.llvm.execution_context import EXECUTION_CONTEXT, RuntimeStatus, initial_context
from xjit.runtime.machine_code import symbols
from xjit.runtime.machine_code.elf import undefined_symbols
from xjit.runtime.machine_code.linker import load_object
from xjit.runtime.program import CpuProgram

pytestmark = pytest.mark.unguarded  # routines here fail at a certain call

ROOT = Path(__file__).resolve().parents[2]

# larger matrices than those that are factorized in line
CALL = (
    'custom-call({x}), custom_call_target="lapack_spotrf_ffi", operand_layout_constraints={{f32[40,40]{{0,1}}}}, '
    "api_version=API_VERSION_TYPED_FFI, backend_config={{uplo = 76 : ui8}}"
)
RESULT = "(f32[40,40]{0,1}, s32[])"


def pair() -> str:
    """Two calls of one kernel, `first` and `second`."""
    return f"""HloModule pair
ENTRY e {{
  x = f32[40,40]{{0,1}} parameter(0)
  first = {RESULT} {CALL.format(x="x")}
  y = f32[40,40]{{0,1}} parameter(1)
  second = {RESULT} {CALL.format(x="y")}
  a = s32[] get-tuple-element(first), index=1
  b = s32[] get-tuple-element(second), index=1
  ROOT z = s32[] subtract(b, a)
}}
"""


def loop() -> str:
    """Ten rounds of a call."""
    return f"""HloModule rounds
cond {{
  p = (s32[], f32[40,40]{{0,1}}) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  c = s32[] constant(10000)
  ROOT r = pred[] compare(i, c), direction=LT
}}
body {{
  p = (s32[], f32[40,40]{{0,1}}) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = f32[40,40]{{0,1}} get-tuple-element(p), index=1
  inside = {RESULT} {CALL.format(x="x")}
  y = f32[40,40]{{0,1}} get-tuple-element(inside), index=0
  ROOT t = (s32[], f32[40,40]{{0,1}}) tuple(j, y)
}}
ENTRY e {{
  i = s32[] constant(0)
  x = f32[40,40]{{0,1}} parameter(0)
  t = (s32[], f32[40,40]{{0,1}}) tuple(i, x)
  ROOT w = (s32[], f32[40,40]{{0,1}}) while(t), condition=cond, body=body
}}
"""


class _Routine:
    """Stands for spotrf: leaves `infos`, one per call, and 0 from then on."""

    def __init__(self, *infos: int) -> None:
        self.infos = list(infos)
        self.calls = 0
        self.function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)(self._run)

    def _run(self, uplo: int, n: int, a: int, lda: int, info: int) -> None:
        del uplo, n, a, lda
        self.calls += 1
        ctypes.c_int32.from_address(info).value = self.infos.pop(0) if self.infos else 0


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Returns a function that puts a routine in the place of spotrf, for programs that are loaded after that."""
    known = symbols.symbol_address
    kept: list[_Routine] = []

    def install(routine: _Routine) -> _Routine:
        kept.append(routine)
        address = ctypes.cast(routine.function, ctypes.c_void_p).value or 0
        monkeypatch.setattr(symbols, "symbol_address", lambda n: address if n == "xjit_lapack_spotrf" else known(n))
        return routine

    return install


def run_entry(program: CpuProgram, *inputs: np.ndarray) -> tuple[int, str, int]:
    """Calls the entry as it is; returns the status, the name of the instruction that failed ("" for none), the detail."""
    code = program.object_code
    loaded = load_object(code, [program.entry], symbols.resolve_symbols(undefined_symbols(code)))
    results = [np.zeros(s.byte_size, np.uint8) for s in program.results]
    tables = [
        (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
        for arrays in (inputs, results, program.constants)
    ]
    context = ctypes.create_string_buffer(initial_context(), EXECUTION_CONTEXT.size)
    arena = np.zeros(program.arena_size + 64, np.uint8)
    start = arena.ctypes.data + -arena.ctypes.data % 64
    entry = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 5)(loaded.address(program.entry))
    status = entry(context, tables[0], tables[1], start, tables[2])
    fields = [
        kind.from_buffer(context, EXECUTION_CONTEXT.offsets[name]).value
        for kind, name in (
            (ctypes.c_int32, "status"),
            (ctypes.c_int32, "failed_instruction"),
            (ctypes.c_int64, "detail"),
        )
    ]
    assert fields[0] == status
    return status, program.instructions[fields[1]] if fields[1] >= 0 else "", fields[2]


@pytest.mark.parametrize(("infos", "name"), [((-2,), "first"), ((0, -3), "second")])
def test_the_call_that_failed_is_named(infos: tuple[int, ...], name: str, refuse: Any) -> None:
    """Both calls run one function; the number comes from the call."""
    routine = refuse(_Routine(*infos))
    exe = xjit.compile(pair())
    assert [kernel.name for kernel in exe.kernels][:2] == ["first.1", "first.1"]
    x = np.eye(40, dtype=np.float32)
    assert run_entry(exe.program, x, x) == (RuntimeStatus.INTERNAL, name, infos[-1])
    assert routine.calls == len(infos), "nothing runs after a failure"
    routine.infos[:] = infos
    with pytest.raises(xjit.ExecutionError, match="INTERNAL"):
        exe(x, x)


def test_info_of_the_mathematics_is_a_result(refuse: Any) -> None:
    refuse(_Routine(0, 3))
    assert xjit.compile(pair())(*[np.eye(40, dtype=np.float32)] * 2) == 3


def test_loops_end_when_something_fails(refuse: Any) -> None:
    routine = refuse(_Routine(0, 0, -1))
    outcome = run_entry(xjit.compile(loop()).program, np.eye(40, dtype=np.float32))
    assert outcome == (RuntimeStatus.INTERNAL, "inside", -1)
    assert routine.calls == 3


def test_the_interpreter_names_it_too(refuse: Any) -> None:
    routine = refuse(_Routine(0, -3))
    with pytest.raises(xjit.ExecutionError, match="second"):
        xjit.compile(pair()).run_thunks(*[np.eye(40, dtype=np.float32)] * 2)
    assert routine.calls == 2


SCRATCH = {
    "topk": "(f32[1000000], s32[1000000]) topk(x), k=1000000, largest=true",
    "sort": "f32[8388608] sort(x), dimensions={0}, to_apply=lt",
    "fft": "c64[4194305] fft(x), fft_type=RFFT, fft_length={8388608}",
}
COMPARATOR = "lt { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = pred[] compare(b, a), direction=LT }\n"

PROGRAM = """
import resource, sys
import numpy as np
import xjit
from xjit.runtime.buffer_pool import trim_buffer_pool

exe = xjit.compile(sys.argv[1])
x = np.ones(8388608, np.float32)
xjit.compile("ENTRY e { x = f32[8388608] parameter(0)\\n ROOT n = f32[8388608] negate(x) }")(x)  # starts the threads
trim_buffer_pool()
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
for room in (4 << 20, 40 << 20):
    resource.setrlimit(resource.RLIMIT_AS, (used + room, resource.RLIM_INFINITY))
    try:
        exe(x)
    except (MemoryError, xjit.HloError) as error:
        print("no memory:", getattr(error, "message", error))
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
exe(x)
print("again")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("opcode", sorted(SCRATCH))
def test_no_memory_for_scratch(opcode: str) -> None:
    """A MemoryError, not a crash; and once there is memory, the same executable runs."""
    text = f"HloModule m\n{COMPARATOR if opcode == 'sort' else ''}"
    text += f"ENTRY e {{\n x = f32[8388608] parameter(0)\n ROOT big = {SCRATCH[opcode]}\n}}\n"
    done = subprocess.run([sys.executable, "-c", PROGRAM, text], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr}"
    lines = done.stdout.splitlines()
    assert lines[-1] == "again"
    assert len(lines) == 3 and all(line.startswith("no memory:") for line in lines[:2])
