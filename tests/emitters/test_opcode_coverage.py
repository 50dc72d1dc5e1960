"""Every opcode is compiled by something that can be named, or refused for a reason that is written down."""

from __future__ import annotations

import subprocess
import sys

import pytest

import xjit
from tests.support.opcode_servers import ONE_DEVICE, PLANNED, expanded, servers
from xjit.emitters import fused, unnested
from xjit.emitters.coverage import LEFT_OVER, UNSUPPORTED
from xjit.emitters.kernels.table import HAND_WRITTEN_EMITTERS, hand_written_emitter
from xjit.emitters.planners.cpu.custom_calls import TARGET_KINDS
from xjit.emitters.planners.cpu.kernels import HAND_WRITTEN, HERO_PLANNERS
from xjit.hlo.attributes.opcodes import OPCODES


@pytest.mark.parametrize("opcode", sorted(OPCODES))
def test_every_opcode_is_accounted_for(opcode: str) -> None:
    assert servers(opcode)


def test_what_is_unsupported_is_served_by_nothing_else() -> None:
    for opcode in UNSUPPORTED:
        assert servers(opcode) == {"unsupported"}


def test_tables_name_known_opcodes() -> None:
    for names in (PLANNED, fused._RULES, unnested._RULES, UNSUPPORTED, LEFT_OVER, expanded()):
        assert set(names) <= set(OPCODES)


def test_every_hand_written_kind_has_an_emitter() -> None:
    assert not set(HERO_PLANNERS) & set(HAND_WRITTEN)
    kinds = {kind for kind, _ in TARGET_KINDS.values()} | set(HAND_WRITTEN)
    others = {"custom-call", "scan", "scatter", "select-and-scatter"}
    assert kinds | others == set(HAND_WRITTEN_EMITTERS)
    assert all(callable(hand_written_emitter(kind)) for kind in HAND_WRITTEN_EMITTERS)


def test_programs_of_loops_import_no_other_emitters() -> None:
    script = (
        "import sys, numpy as np, xjit\n"
        "exe = xjit.compile('HloModule m\\nENTRY e {\\n  x = f32[8] parameter(0)\\n  ROOT r = f32[8] sine(x)\\n}')\n"
        "assert exe(np.zeros(8, np.float32)).sum() == 0\n"
        "print(*(m for m in sys.modules if m.startswith('xjit.emitters.kernels.linalg') or '.microkernels' in m))"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert found.stdout == "\n", found.stderr


def test_what_passes_may_leave_is_rewritten_by_a_pass() -> None:
    assert set(LEFT_OVER) <= expanded() | ONE_DEVICE
    assert not set(LEFT_OVER) & PLANNED


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "ENTRY e {\n  t = token[] after-all()\n  i = ((f32[2]), token[]) infeed(t)\n  ROOT r = (f32[2]) "
            "get-tuple-element(i), index=0\n}",
            ("infeed", "host queue"),
        ),
        (
            "HloModule m, replica_count=1\nENTRY e {\n  x = f32[2] parameter(0)\n  ROOT r = f32[4] all-gather(x), "
            "dimensions={0}, replica_groups={{0,1}}\n}",
            ("all-gather", "one replica"),
        ),
        (
            'ENTRY e {\n  x = f32[2] parameter(0)\n  ROOT r = f32[2] custom-call(x), custom_call_target="nobody"\n}',
            ("nobody", "TopK"),
        ),
    ],
)  # fmt: skip
def test_messages(text: str, words: tuple[str, ...]) -> None:
    with pytest.raises(xjit.HloError) as error:
        xjit.compile(text)
    for word in words:
        assert word in str(error.value)
