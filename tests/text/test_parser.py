"""What the parser accepts: spellings old and new, and what it makes of them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import xjit
from tests.support import xla
from xjit.hlo import HloModule
from xjit.hlo.compare.equality import first_difference
from xjit.hlo.diagnostics import ElidedConstantWarning, HloParseError
from xjit.text import parse_hlo


def entry(body: str, header: str = "HloModule m") -> HloModule:
    return parse_hlo(f"{header}\nENTRY e {{\n  p = f32[4]{{0}} parameter(0)\n{body}\n}}\n")


SPELLINGS = [
    "x = f32[4] negate(p)",
    "%x = f32[4]{0} negate(f32[4]{0} %p)",
    "ROOT %x=f32[4] negate(f32[4] p)",
    "x = f32[4]{0} negate(/*index=0*/ p) // done",
    "x = negate(p)",
    "x = f32 [4] negate(,p,)",
    "x = f32[4] negate(f32/* four */ [ // of them\n4] {0} p)",
]


@pytest.mark.parametrize("text", SPELLINGS)
def test_spellings_of_one_instruction(text: str) -> None:
    assert first_difference(entry(SPELLINGS[0]), entry(text)) is None


@pytest.mark.parametrize(
    "text",
    [
        "p = f32[4] parameter(0)  ROOT n = f32[4] negate(p)",
        "e { p = f32[4] parameter(0)  ROOT n = f32[4] negate(p) }",
        "ENTRY %e (p: f32[4]) -> f32[4] { %p = f32[4] parameter(0)  %n = f32[4] negate(%p) }",
        "HloModule other\n\nENTRY e {\n  p = f32[4] parameter(0)\n  n = f32[4] negate(p)\n}\n",
    ],
)
def test_text_without_header_entry_or_signature(text: str) -> None:
    expected = parse_hlo("HloModule m\nENTRY e { p = f32[4] parameter(0)  ROOT n = f32[4] negate(p) }")
    assert first_difference(expected, parse_hlo(text)) is None


ANNOTATED = """c = () constant(())
  s = f32[4] slice(p), slice={[0:4]}, metadata={op_name="it's // no comment"}, frontend_attributes={k="a",l="{b"}
  x = f32[4] custom-call(s), custom_call_target="f", backend_config="say \\"it\\""
"""
REWRITTEN = """c = () constant( ( ) )
  s = f32[4] slice(p), slice=/* all */{[0: // the first
    4]}, metadata={op_name='it\\'s // no comment'}, frontend_attributes={k='a',l='{b'}
  x = f32[4] custom-call(s), custom_call_target='f', backend_config='say "it"'
"""


def test_either_quote_and_comments_anywhere() -> None:
    expected, found = entry(ANNOTATED), entry(REWRITTEN)
    assert first_difference(expected, found) is None
    assert found.to_string() == expected.to_string()


def test_lists_of_computations_written_in_place() -> None:
    branches = (
        "branch_computations={{ a = f32[4] parameter(0) ROOT n = f32[4] negate(a) }, { ROOT b = f32[4] parameter(0) }}"
    )
    root = entry(
        f"i = partition-id() j = s32[] convert(i) ROOT c = f32[4] conditional(j, p, p), {branches}"
    ).entry_computation.root_instruction
    assert [c.root_instruction.opcode for c in root.called_computations] == ["negate", "parameter"]
    assert root.operand(0).operand(0).shape.to_string() == "u32[]"
    with pytest.raises(HloParseError, match="expected ',' or '}' after a computation, found 'x'"):
        entry(
            "ROOT c = f32[4] custom-call(p), custom_call_target='f', called_computations={{ ROOT a = f32[4] parameter(0) } x}"
        )


def test_spaces_and_commas_that_say_nothing() -> None:
    module = entry(
        "ROOT x = f32[4] negate(p), sharding={devices= [2] <= [2]}",
        "HloModule m, entry_computation_layout={(f32[4],)->f32[4]}",
    )
    assert module.config.entry_computation_layout is not None
    assert len(module.config.entry_computation_layout.parameter_shapes) == 1
    assert str(module.entry_computation.root_instruction.sharding) == "{devices=[2]<=[2]}"
    constant = entry("ROOT c = s32[3] constant({1, ,2 3})").entry_computation.root_instruction
    assert "constant({1, 2, 3})" in str(constant)


@pytest.mark.parametrize("tiles", ["T()", "T(2,*)", "T(2,2)", "T(2)(2,2,2)"])
def test_tiles_are_read_as_they_are_written(tiles: str) -> None:
    layout = entry(f"ROOT x = f32[4]{{0:{tiles}}} negate(p)").result_shape.layout
    assert str(layout) == f"{{0:{tiles}}}"


def test_names_that_types_are_not_written_with_stay() -> None:
    names = [
        i.name for i in entry("tuple = (f32[4]) tuple(p) buffer = f32[4] negate(p)").entry_computation.instructions
    ]
    assert names == ["p", "tuple", "buffer"]


def test_last_computation_is_the_entry_and_callees_may_come_later() -> None:
    module = parse_hlo(
        "e { p = f32[] parameter(0) ROOT c = f32[] call(p), to_apply=f }\nf { ROOT p = f32[] parameter(0) }"
    )
    assert module.entry_computation.name == "f"
    module = parse_hlo("ENTRY e { p = f32[] parameter(0) c = f32[] call(p), to_apply=f }\nf { p = f32[] parameter(0) }")
    assert module.entry_computation.root_instruction.to_apply is module.get_computation_with_name("f")
    assert module.get_computation_with_name("f") in module.computations()


def test_nested_instructions_and_inferred_shapes() -> None:
    module = entry("ROOT x = add(p, f32[4] multiply(p, negate(p)))")
    assert [i.opcode for i in module.entry_computation.instructions] == ["parameter", "negate", "multiply", "add"]
    assert str(module.entry_computation.root_instruction.shape) == "f32[4]{0}"


def test_conditional_spellings_agree() -> None:
    computations = "a { x = f32[] parameter(0) }\nb { x = f32[] parameter(0) }\n"
    body = "ENTRY e {{ c = pred[] parameter(0) x = f32[] parameter(1) ROOT r = f32[] conditional(c, x, x), {} }}"
    one = parse_hlo(computations + body.format("false_computation=b, true_computation=a"))
    two = parse_hlo(computations + body.format("branch_computations={a, b}"))
    assert [c.name for c in one.entry_computation.root_instruction.branch_computations] == ["a", "b"]
    assert first_difference(one, two) is None


def test_async_sugar_wraps_the_opcode() -> None:
    module = entry(
        """s = ((f32[4]), f32[4], s32[]) custom-call-start(p), custom_call_target="t"
  u = ((f32[4]), f32[4], s32[]) custom-call-update(s)
  ROOT d = f32[4] custom-call-done(u)"""
    )
    start, update, done = module.entry_computation.instructions[1:]
    assert (start.opcode, update.opcode, done.opcode) == ("async-start", "async-update", "async-done")
    wrapped = start.called_computations[0]
    assert wrapped.root_instruction.opcode == "custom-call"
    assert wrapped.root_instruction.custom_call_target == "t"
    assert update.called_computations == done.called_computations == (wrapped,)


def test_header() -> None:
    module = entry(
        "ROOT n = f32[4] negate(p)",
        "HloModule name.1, is_scheduled=true, entry_computation_layout={(f32[4]{0})->f32[4]{0}}, replica_count=2, "
        'num_partitions=3, frontend_attributes={a={mesh = #x<["y"=2]>},b="c"}',
    )
    config = module.config
    assert (module.name, config.replica_count, config.num_partitions) == ("name.1", 2, 3)
    assert config.header_attributes == {"is_scheduled": "true"}
    assert module.frontend_attributes == {"a": '{mesh = #x<["y"=2]>}', "b": "c"}
    assert str(module.entry_computation_layout.result_shape) == "f32[4]{0}"


def test_annotations() -> None:
    module = entry(
        r"""ROOT n = f32[4] negate(p), metadata={op_type="t" op_name="a[\'b\']\n" source_line=3},
      sharding={{replicated}, {devices=[2,2]<=[4]}}, backend_config={"a" : {"b": "}"}},
      frontend_attributes={k="v\"w"}, control-predecessors={p}, origin={{"x" {0}}},
      statistics={visualizing_index=0,a=1.5}"""
    )
    n = module.entry_computation.root_instruction
    assert (n.metadata.op_type, n.metadata.op_name, n.metadata.source_line) == ("t", "a['b']\n", 3)
    assert [e.text for e in n.sharding.elements] == ["replicated", "devices=[2,2]<=[4]"]
    assert n.backend_config == '{"a" : {"b": "}"}}'
    assert n.frontend_attributes == {"k": 'v"w'}
    assert [i.name for i in n.control_predecessors] == ["p"]
    assert (n.origin, n.statistics) == ('{{"x" {0}}}', "{visualizing_index=0,a=1.5}")


def test_default_comparison_type_is_left_out() -> None:
    module = entry(
        "a = pred[4] compare(p, p), direction=LT, type=FLOAT\nb = pred[4] compare(p, p), direction=LT, type=TOTALORDER"
    )
    assert [i.attributes.type for i in module.entry_computation.instructions[1:]] == ["", "TOTALORDER"]


def test_names_are_unique_in_the_module_but_free_in_each_computation() -> None:
    module = parse_hlo("f { p = f32[] parameter(0) }\nENTRY e { p = f32[] parameter(0) c = f32[] call(p), to_apply=f }")
    names = [i.name for c in module.computations() for i in c.instructions]
    assert sorted(names) == ["c", "p", "p.1"]


def test_instructions_know_their_place() -> None:
    module = entry("  n = f32[4] negate(p)")
    span = module.entry_computation.root_instruction.span
    assert span is not None and (span.line, span.column) == (4, 3)


@pytest.mark.parametrize("allowed", [True, False])
def test_elided_constants_are_zeros_with_a_warning(allowed: bool) -> None:
    text = "c = f32[1000,1000] constant({...})\nROOT d = f32[1000,1000] add(c, c)"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        module = parse_hlo(text, "m.hlo", allow_elided_constants=allowed)
    assert not np.any(module.entry_computation.root_instruction.operand(0).literal.array)
    assert [str(w.message) for w in caught if "m.hlo:1:29: constants are elided" in str(w.message)] == [
        str(w.message) for w in caught
    ]
    assert [w.category for w in caught] == ([] if allowed else [ElidedConstantWarning])


def test_unusual_names() -> None:
    module = parse_hlo("%0 = f32[] parameter(0)\n%1x = f32[] negate(%0)\nROOT all-reduce.1 = f32[] add(%0, %1x)")
    assert module.entry_computation.root_instruction.operand_count == 2
    module = parse_hlo("%ROOT = f32[] parameter(0)\n%ENTRY = f32[] negate(%ROOT)")
    assert module.entry_computation.root_instruction.opcode == "negate"


def test_spaces_inside_shapes_are_accepted():
    module = parse_hlo("ENTRY e { p = f32[10, 20] parameter(0)  ROOT r = f32[10, 20]{1, 0} negate(p) }")
    assert str(module.result_shape) == "f32[10,20]{1,0}"


def test_operands_and_computations_are_written_in_place() -> None:
    module = parse_hlo(
        """HloModule m
        ENTRY e {
          x = f32[4] parameter(0)
          s = add(f32[4] broadcast(f32[] constant(2)), negate(x)), metadata={op_name="s"}
          ROOT c = f32[4] call(s, x), to_apply={
            a = f32[4] parameter(0)
            x = f32[4] parameter(1)
            ROOT r = f32[4] call(a), to_apply={ROOT y = f32[4] parameter(0)}
          }
        }"""
    )
    entry = module.entry_computation
    call = entry.root_instruction
    assert [o.opcode for o in call.operands] == ["add", "parameter"]
    assert call.operand(0).metadata.op_name == "s"
    assert [o.opcode for o in call.operand(0).operands] == ["broadcast", "negate"]
    assert [i.opcode for i in call.to_apply.instructions] == ["parameter", "parameter", "call"]
    assert module.computation_count == 3
    assert str(parse_hlo(str(module))) == str(module)


def test_computations_are_not_written_inside_of_each_other_for_ever() -> None:
    text = "HloModule m ENTRY e { x = f32[] parameter(0) ROOT r = f32[] call(x), to_apply="
    text += "{ x = f32[] parameter(0) ROOT r = f32[] call(x), to_apply=" * 1000
    with pytest.raises(HloParseError, match="nested deeper than"):
        parse_hlo(text)


def test_comments_in_shapes() -> None:
    module = entry("  ROOT n = f32[/*rows*/4]{0} negate(f32[4 /*rows*/]{0} p)")
    assert str(module.entry_computation.root_instruction.shape) == "f32[4]{0}"


def test_operands_named_like_opcodes() -> None:
    module = entry("  add = f32[4] negate(p)\n  ROOT r = add(add, add(add, add))")
    assert [o.opcode for o in module.entry_computation.root_instruction.operands] == ["negate", "add"]


def test_one_number_for_an_array() -> None:
    """XLA reads it as the first element; the others are zero."""
    array = entry("  ROOT a = f32[2,3] constant(5)").entry_computation.root_instruction.attributes.literal.array
    np.testing.assert_array_equal(array, [[5, 0, 0], [0, 0, 0]])
    array = entry("  ROOT a = c64[2] constant((1, 2))").entry_computation.root_instruction.attributes.literal.array
    np.testing.assert_array_equal(array, [1 + 2j, 0])
    for text in ("f32[1,1] constant(5)", "pred[1] constant(true)"):
        assert entry(f"  ROOT a = {text}").entry_computation.root_instruction.attributes.literal.array.all()
    with pytest.raises(HloParseError):
        entry("  ROOT a = f32[0] constant(5)")


@pytest.mark.parametrize(
    "text,printed",
    [
        ("x = u64[] constant(-1)", "u64[] constant(18446744073709551615)"),
        ("x = s32[2,2] constant({{1,2} {3,4}})", "{1, 2},"),
        ("x = add(f32[4], p, p)", "f32[4]{0} add(%p, %p)"),
        (
            'x = b(f32[4]) custom-call(p), custom_call_target="Pin", output_to_operand_aliasing={{}: (0, {})}',
            "b(f32[4]{0})",
        ),
        ('x = (f32[], b(f32[4]{0:T(2)})) custom-call(p), custom_call_target="f"', "(f32[], b(f32[4]{0:T(2)}))"),
        (
            'x = f32[] custom-call(), custom_call_target="f", literal=( s32[2]{0} {1, 2}, pred[] true )',
            "literal=( s32[2]{0} {1, 2}, pred[] true )",
        ),
    ],
)
def test_what_xla_reads(text: str, printed: str) -> None:
    module = entry(f"  ROOT {text}")
    assert printed in str(module)
    again = parse_hlo(str(module))
    assert first_difference(module, again) is None
    xla.parse(str(module))  # jaxlib reads what we print


def test_a_colon_behind_the_name() -> None:
    assert entry("  ROOT x = negate(p)", "HloModule m:").name == "m"


def test_convolutions_that_are_not_run() -> None:
    dense = "  i = f32[1,9,9,4] parameter(1)\n  f = f32[3,3,4,8] parameter(2)\n  ROOT c = f32[1,7,7,8] convolution(i, f), window={size=3x3}, "
    module = entry(f"{dense}dim_labels=b01f_01io->b01f, convolution_kind=fprop")
    assert "convolution_kind=fprop" in str(module)
    assert "b01f_01i?o->b01f" in str(
        entry(
            '  ROOT c = f32[4] custom-call(p), custom_call_target="f", window={size=2x2}, dim_labels=b01f?_01i?o->b01f?'
        )
    )
    sparse = entry(
        "  k = (f32[1,1], s32[1,1]) parameter(1)\n  q = f32[1,4] parameter(2)\n"
        "  ROOT c = f32[1,1] convolution(q, k), dim_labels=bf_io->bf, sparsity_config={rhs={sparsity=1x4 dimension=0 stride=1}}"
    )
    assert "sparsity_config={rhs={sparsity=1x4 dimension=0 stride=1}}" in str(sparse)
    with pytest.raises(xjit.HloError):
        xjit.compile(sparse)


@pytest.mark.parametrize(
    "text,message",
    [
        ("x = b(f32[4], f32[4]) parameter(1)", "a buffer b(...) holds one array"),
        ("x = b(token[]) parameter(1)", "a buffer b(...) holds one array"),
        ("x = f64[] constant(1.8e308)", "out of range for f64"),
        (
            'x = f32[4] custom-call(p), custom_call_target="f", api_version=API_VERSION_UNSPECIFIED',
            "expected one of API_VERSION",
        ),
    ],
)
def test_what_xla_refuses(text: str, message: str) -> None:
    with pytest.raises(HloParseError) as caught:
        entry(f"  ROOT {text}")
    assert message in str(caught.value)
    assert caught.value.line == 4


def test_unknown_module_attributes() -> None:
    with pytest.raises(HloParseError, match="a module has no attribute 'num_replicas'"):
        entry("  ROOT x = negate(p)", "HloModule m, num_replicas=4")


def test_buffers_are_read_and_not_run() -> None:
    module = entry(
        '  x = b(f32[4]) custom-call(p), custom_call_target="Pin", output_to_operand_aliasing={{}: (0, {})}\n'
        '  ROOT y = f32[4] custom-call(x), custom_call_target="Unpin", output_to_operand_aliasing={{}: (0, {})}'
    )
    assert first_difference(xjit.from_hlo_proto(xjit.to_hlo_proto(module)), module) is None
    for run in (xjit.compile, xjit.evaluate):
        with pytest.raises(xjit.Unsupported, match=r"custom-call 'x' has a buffer, b\(f32\[4\]\)"):
            run(module)
