"""Passes that change the header, names, or nothing: what cases do not compare."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from xjit.hlo import HloModule
from xjit.hlo.diagnostics import HloVerifyError
from xjit.ops.evaluation import evaluate
from xjit.ops.verifier import verify_module
from xjit.passes import PASSES, make_pass
from xjit.text.parser import parse_hlo

PASSTHROUGH = """
HloModule m{header}
ENTRY e {{
  p0 = f32[8] parameter(0)
  p1 = f32[8] parameter(1)
  s = f32[8] add(p0, p1)
  ROOT t = (f32[8], f32[8], f32[8], f32[8]) tuple({elements})
}}"""
DONATION = """
HloModule m{header}
ENTRY e {{
  a = (f32[3], s32[3]) parameter(0)
  b = f32[3] parameter(1)
  a0 = f32[3] get-tuple-element(a), index=0
  a1 = s32[3] get-tuple-element(a), index=1
  x = f32[3] negate(a0)
  y = s32[3] abs(a1)
  z = f32[3] add(x, b)
  ROOT t = (s32[3], f32[3], f32[3], f32[3]) tuple(y, x, z, x)
}}"""


def _run(name: str, text: str) -> tuple[bool, HloModule]:
    """Runs a pass twice; the second run must change nothing, and the text must parse to the same header."""
    module = parse_hlo(text)
    item = make_pass(PASSES, name)
    changed = item.run(module)
    verify_module(module)
    once = str(module)
    assert not item.run(module) and str(module) == once
    assert parse_hlo(once).config.input_output_alias == module.config.input_output_alias
    return changed, module


def _aliases(name: str, text: str) -> list[str]:
    changed, module = _run(name, text)
    assert changed == (module.config.input_output_alias != parse_hlo(text).config.input_output_alias)
    return [str(alias) for alias in module.config.input_output_alias]


@pytest.mark.parametrize(
    ("header", "elements", "expected"),
    [
        ("", "p1, s, p0, p1", ["{0}: (1, {}, must-alias)", "{2}: (0, {}, must-alias)"]),
        ("", "s, s, s, s", []),
        (", input_output_alias={ {0}: (1, {}, may-alias) }", "p0, s, s, s", ["{0}: (1, {}, may-alias)"]),
        (", input_output_alias={ {1}: (0, {}, may-alias) }", "p0, s, s, s", ["{1}: (0, {}, may-alias)"]),
    ],
)
def test_alias_passthrough_params(header: str, elements: str, expected: list[str]) -> None:
    assert _aliases("alias-passthrough-params", PASSTHROUGH.format(header=header, elements=elements)) == expected


@pytest.mark.parametrize("is_asked_for", [True, False])
def test_the_config_asks_for_aliases_of_results_that_are_parameters(is_asked_for: bool) -> None:
    header = ", alias_passthrough_params=true" if is_asked_for else ""
    text = f"""HloModule m{header}
ENTRY e {{ p = f32[4096] parameter(0) q = f32[4096] parameter(1) s = f32[4096] add(p, q)
  ROOT t = (f32[4096], f32[4096], f32[4096]) tuple(p, s, p) }}"""
    module = parse_hlo(text)
    assert module.config.alias_passthrough_params == is_asked_for
    assert ("alias_passthrough_params=true" in str(module)) == is_asked_for
    executable = xjit.compile(module)
    given = [np.full(4096, value, np.float32) for value in (1, 2)]
    address = given[0].ctypes.data
    results = executable(*given, donate=[0]) if is_asked_for else executable(*given)
    assert [float(r[0]) for r in results] == [1, 3, 1]
    assert (results[0].ctypes.data == address) == is_asked_for and results[2].ctypes.data != address


@pytest.mark.parametrize("text", ["ROOT p = f32[8] parameter(0)", "p = f32[8] parameter(0) ROOT c = f32[8] copy(p)"])
def test_only_elements_of_the_root_tuple_are_passed_through(text: str) -> None:
    assert not _aliases("alias-passthrough-params", f"HloModule m ENTRY e {{ {text} }}")


@pytest.mark.parametrize(
    ("options", "header", "expected"),
    [
        ("", "", ["{0}: (0, {1}, may-alias)", "{1}: (0, {0}, may-alias)", "{2}: (1, {}, may-alias)"]),
        ("", ", input_output_alias={ {3}: (1, {}, must-alias) }",
         ["{3}: (1, {}, must-alias)", "{0}: (0, {1}, may-alias)", "{1}: (0, {0}, may-alias)"]),
        ("{registered_buffer_donor_only=true}", "", []),
        ("{registered_buffer_donor_only=true}", ", buffer_donor={ (1, {}) }", ["{1}: (1, {}, may-alias)"]),
    ],
)  # fmt: skip
def test_optimize_input_output_buffer_alias(options: str, header: str, expected: list[str]) -> None:
    assert _aliases(f"optimize-input-output-buffer-alias{options}", DONATION.format(header=header)) == expected


def test_other_shapes_share_no_buffer_unless_bytes_are_enough() -> None:
    text = "HloModule m ENTRY e { a = f32[4] parameter(0) ROOT x = f32[2,2] reshape(a) }"
    assert not _aliases("optimize-input-output-buffer-alias", text)
    relaxed = "optimize-input-output-buffer-alias{require_equal_shape=false}"
    assert _aliases(relaxed, text) == ["{}: (0, {}, may-alias)"]
    assert not _aliases(relaxed, text.replace("f32[4] parameter", "f32[4]{0:S(5)} parameter"))


def test_bytes_pair_the_largest_first_and_each_once() -> None:
    text = """HloModule m ENTRY e {
  a = f32[4] parameter(0)  b = s8[16] parameter(1)  c = f32[8] parameter(2)
  x = s32[4] constant({1,2,3,4})  y = f64[4] constant({1,2,3,4})  z = u8[17] constant({0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0})
  ROOT t = (s32[4], f64[4], u8[17], s32[4]) tuple(x, y, z, x) }"""
    assert _aliases("optimize-input-output-buffer-alias{require_equal_shape=false}", text) == [
        "{0}: (0, {}, may-alias)",
        "{1}: (2, {}, may-alias)",
        "{3}: (1, {}, may-alias)",
    ]


CONSTANTS = """
HloModule m
twice { y = f32[] parameter(0)  k.1 = f32[] constant(2)  ROOT m = f32[] multiply(y, k.1) }
ENTRY e {
  equal_to = pred[] parameter(0)
  k_1 = f32[] parameter(1)
  k-1 = f32[] constant(5)
  a.b = f32[] select(equal_to, k-1, k_1)
  ROOT r = f32[] call(a.b), to_apply=twice
}"""


def test_constants_get_names_that_are_symbols() -> None:
    changed, module = _run("gpu-sanitize-constant-names", CONSTANTS)
    names = [i.name for c in module.computations() for i in c.instructions]
    constants = {i.name for c in module.computations() for i in c.instructions if i.opcode == "constant"}
    assert changed and constants == {"k_1_1", "k_1_2"}
    assert len(names) == len(set(names)) and "a.b" in names and "k_1" in names
    assert evaluate(module, True, 1.0) == evaluate(parse_hlo(CONSTANTS), True, 1.0)
    assert module.instruction_name_uniquer.get_unique_name("k_1_1") not in names  # what comes later gets another


@pytest.mark.parametrize("name", ["k_1", "k", "constant"])
def test_a_valid_name_stays(name: str) -> None:
    text = (
        f"HloModule m ENTRY e {{ x.1 = f32[] parameter(0) {name} = f32[] constant(2) ROOT r = f32[] add(x.1, {name}) }}"
    )
    assert not _run("gpu-sanitize-constant-names", text)[0]


def test_names_of_another_thread_stay_and_are_not_given_again() -> None:
    module = parse_hlo("""HloModule m
f { ROOT k_1 = f32[] constant(1) }, execution_thread="host"
ENTRY e { k.1 = f32[] constant(3) s = ((), f32[], s32[]) async-start(), calls=f, async_execution_thread="host"
  d = f32[] async-done(s) ROOT r = f32[] add(d, k.1) }""")
    assert make_pass(PASSES, "gpu-sanitize-constant-names").run(module, {"main"})
    verify_module(module)
    names = {i.name for c in module.computations() for i in c.instructions if i.opcode == "constant"}
    assert names == {"k_1", "k_1_1"}


DOMAINS = """
HloModule m
ENTRY e {{
  x = f32[4] parameter(0)
  d = f32[4] domain(x), domain={{kind="sharding", entry={entry}, exit={{maximal device=0}}}}
  b = f32[4] abs(d)
  ROOT o = f32[4] domain(b), domain={{kind="sharding", entry={{maximal device=0}}, exit={{maximal device=2}}}}
}}"""


def test_domains_that_agree_are_verified() -> None:
    assert not _run("hlo-domain-verifier", DOMAINS.format(entry="{maximal device=2}"))[0]


@pytest.mark.parametrize("name", ["hlo-domain-verifier", "hlo-domain-remover"])
@pytest.mark.parametrize("entry", ["{maximal device=1}", "{replicated}", "{}"])
def test_domains_that_contradict_each_other_are_refused(name: str, entry: str) -> None:
    with pytest.raises(HloVerifyError, match="says"):
        make_pass(PASSES, name).run(parse_hlo(DOMAINS.format(entry=entry)))


def test_a_domain_that_says_nothing_readable_is_refused() -> None:
    module = parse_hlo(DOMAINS.format(kind="sharding", entry="{replicated}"))
    domain = next(i for c in module.computations() for i in c.instructions if i.opcode == "domain")
    domain.update_attributes(domain='{kind="sharding", entry={nowhere}, exit={replicated}}')
    with pytest.raises(HloVerifyError, match="names a sharding that is none"):
        make_pass(PASSES, "hlo-domain-verifier").run(module)


ORIGINS = """
HloModule m
f { a = f32[2] parameter(0) ROOT n = f32[2] negate(a) }
ENTRY e {
  t = ((f32[2], s32[]), f32[2]) parameter(0)
  u = (f32[2], s32[]) get-tuple-element(t), index=0
  x = f32[2] get-tuple-element(u), index=0, origin={{"y, (z)"}}
  c = f32[2] call(x), to_apply=f
  v = s32[] get-tuple-element(u), index=1
  ROOT r = (f32[2], (f32[2], s32[]), s32[]) tuple(c, u, v)
}"""


def test_original_values() -> None:
    changed, module = _run("add-original-value", ORIGINS)
    origins = {i.name: i.origin for c in module.computations() for i in c.instructions}
    assert changed
    assert origins == {
        "a": '{{"a"}}',
        "n": '{{"n"}}',
        "t": '{(({"t" {0,0}}, {"t" {0,1}}), {"t" {1}})}',
        "u": '{({"t" {0,0}}, {"t" {0,1}})}',
        "x": '{{"y, (z)"}}',
        "c": '{{"c"}}',
        "v": '{{"t" {0,1}}}',
        "r": '{({"c"}, ({"t" {0,0}}, {"t" {0,1}}), {"t" {0,1}})}',
    }
    assert str(parse_hlo(str(module))) == str(module)


@pytest.mark.parametrize(
    ("call", "inside"),
    [(', origin={{"c"}}', '{{"c/n"}}'), (", origin={[synthetic_call]}", '{{"n"}}'), ("", "")],
)
def test_original_values_behind_a_call(call: str, inside: str) -> None:
    text = ORIGINS.replace("negate(a)", 'negate(a), origin={{"n"}}').replace("to_apply=f", f"to_apply=f{call}")
    module = parse_hlo(text)
    assert make_pass(PASSES, "call-inliner").run(module)
    assert [i.origin for i in module.entry_computation.instructions if i.opcode == "negate"] == [inside]


def test_tracking_suffix() -> None:
    text = """HloModule m ENTRY e {
      x.1 = f32[] parameter(0) k = f32[] constant(1) a.0 = f32[] add(x.1, k) a = f32[] abs(a.0)
      ROOT t = (f32[], f32[]) tuple(a, x.1) }"""
    module = parse_hlo(text)
    assert make_pass(PASSES, "add-tracking-suffix-to-instruction-names").run(module)
    assert [i.name for i in module.entry_computation.instructions] == ["x.1", "k", "a.0.0", "a.1", "t"]
    assert not make_pass(PASSES, "add-tracking-suffix-to-instruction-names").run(
        parse_hlo("HloModule m ENTRY e { x = f32[] parameter(0) ROOT t = (f32[]) tuple(x) }")
    )
