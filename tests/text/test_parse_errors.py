"""Every mistake is an HloParseError at the right line and column that says what was found and what was expected."""

from __future__ import annotations

import pytest

from xjit.hlo import HloParseError
from xjit.text import parse_hlo

ENTRY = "HloModule m\nENTRY e {\n  p = f32[4] parameter(0)\n"
ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"

CASES = [
    # text after ENTRY (line 4 on), line, column, part of the message
    ("  x = f32[4] negat(p)\n}", 4, 14, "unknown opcode 'negat' (did you mean 'negate'?)"),
    (
        "  x = f32[4] transpose(p), dimensoins={0}\n}",
        4,
        28,
        "transpose has no attribute 'dimensoins' (did you mean 'dim",
    ),
    ("  x = ((f32[4]), f32[4]) parameter-start(p)\n}", 4, 26, "unknown opcode 'parameter-start'"),
    ("  x = ((f32[4]), f32[4]) async-start-start(p)\n}", 4, 26, "unknown opcode 'async-start-start'"),
    (
        "  x = f32[4] tanh(p), result_accuracy={tolerance={atol=0,ulps2}}\n}",
        4,
        39,
        "expected atol=, rtol= or ulps=, found 'ulps2'",
    ),
    ("  x = f32[4] tanh(p), result_accuracy={mode=hi}\n}", 4, 39, "expected one of default, highest; found 'hi'"),
    ("  x = f32[4] tanh(p), result_accuracy={tolerance={rtol=-1}}\n}", 4, 39, "cannot be negative: 'rtol=-1'"),
    ("  x = f32[4]{0:#(a)} negate(p)\n}", 4, 7, "expected an integer type, found 'a'"),
    ("  x = f32[4] negate(q)\n}", 4, 21, "operand 'q' is not defined before its use"),
    ("  x = f32[4] add(p, y)\n  y = f32[4] negate(p)\n}", 4, 21, "operand 'y' is not defined before its use"),
    ("  x = f32[4] negate(p, p)\n}", 4, 21, "negate takes 1 operand, found 2"),
    ("  x = f32[4] negate(f32[5] p)\n}", 4, 21, "operand 'p' is written as f32[5]{0}, but its shape is f32[4]{0}"),
    ("  p = f32[4] negate(p)\n}", 4, 3, "instruction name 'p' is used twice"),
    ("  x = f32[4] negate(p), control-predecessors={}\n}", 4, 46, "expected the name of a control predecessor"),
    ("  x = f32[4] collective-broadcast(p), dimensions={0}\n}", 4, 39, "has no attribute 'dimensions'"),
    ("  x = f32[4] all-reduce(p), mode=all\n}", 4, 34, "expected one of cross_replica, cross_partition"),
    ("  x = f32[4] negate(p) extra\n}", 5, 1, "expected '=' after the instruction name 'extra', found '}'"),
    ("  x = f32[4] negate(p)\n} garbage", 5, 10, "expected '{' before the instructions of 'garbage', found the end"),
    ("  x = f32[4] negate(p)\n", 5, 1, "computation 'e' is not closed"),
    ("  x = f32[4] transpose(p)\n}", 4, 3, "transpose needs the attribute 'dimensions'"),
    ("  x = f32[4] negate(p), origin={}, origin={}\n}", 4, 36, "attribute 'origin' is given twice"),
    ("  x = f32[4] negate(p), dimensions\n}", 4, 25, "expected 'key=value' after ',', found 'dimensions'"),
    ("  x = f32[4] negate(p), metadata=\n}", 5, 1, "expected a value after '=', found '}'"),
    ("  x = f33[4] negate(p)\n}", 4, 7, "unknown element type 'f33'"),
    ("  x = f32[4,5]{0} negate(p)\n}", 4, 7, "layout {0} is not a permutation of the 2 dimensions"),
    ("  x = f32[4 negate(p)\n}", 4, 7, "expected a shape such as f32[2,3], found 'f32[4 negate(p)'"),
    ("  x = f32[-4] negate(p)\n}", 4, 7, "expected a shape such as f32[2,3], found 'f32[-4]'"),
    ("  x = f32[2] constant({1, 2, 3})\n}", 4, 23, "expected 2 values nested as f32[2], found '{1, 2, 3}'"),
    ("  x = f32[2,2] constant({1, 2, 3, 4})\n}", 4, 25, "expected 4 values nested as f32[2,2]"),
    ("  x = f32[2] constant({1, ...})\n}", 4, 23, "elided constant"),
    ("  x = s8[] constant(300)\n}", 4, 21, "value 300 is out of range for s8: [-128, 127]"),
    ("  x = f32[] constant(1e40)\n}", 4, 22, "value 1e40 is out of range for f32"),
    ("  x = s32[] constant(1.5)\n}", 4, 22, "expected a value of type s32, found '1.5'"),
    ("  x = s32[] constant(true)\n}", 4, 22, "expected a value of type s32, found 'true'"),
    ("  x = pred[] constant(x)\n}", 4, 23, "expected a value of type pred, found 'x'"),
    ("  x = f32[] constant(nan(0x800000))\n}", 4, 22, "NaN payload 0x800000 is out of range for f32"),
    ("  x = f32[2] constant(s32[2] {1, 2})\n}", 4, 23, "the literal is written as s32[2]{0}"),
    ("  x = f32[4] call(p), to_apply=f\n}", 4, 32, "computation 'f' is not defined"),
    ("  x = f32[4] call(p)\n}", 4, 3, "call needs the attribute 'to_apply'"),
    ("  x = f32[4] slice(p), slice={[0:4:1:2]}\n}", 4, 30, "expected [start:limit]"),
    ("  x = f32[4] negate(p), sharding={{replicated}\n}", 5, 2, "computation 'e' is not closed"),
    ("  x = f32[4] negate(p), sharding={nonsense}\n}", 4, 34, "expected replicated, maximal, manual, devices=[...]"),
    ('  x = f32[4] negate(p), backend_config="abc\n}', 4, 40, "a string without an end"),
    ("  x = f32[4] negate(p) /* abc\n}", 4, 24, "found a comment without an end"),
    ("  x = f32[4] negate(p), control-predecessors={q}\n}", 4, 46, "control predecessor 'q' is not defined"),
    ("  q = f32[4] parameter(2)\n}", 3, 3, "computation 'e' has no parameter 1"),
    ("  q = f32[4] parameter(0)\n}", 4, 3, "two parameters numbered 0"),
    ("  q = f32[4] parameter(-1)\n}", 4, 24, "a parameter number cannot be negative"),
    ("  ROOT x = f32[4] negate(p)\n  ROOT y = f32[4] negate(p)\n}", 5, 3, "has two ROOT instructions"),
    ("}\nENTRY f { p = f32[] parameter(0) }", 5, 1, "only one ENTRY"),
    ("}\ne { p = f32[] parameter(0) }", 5, 1, "computation 'e' is defined twice"),
    (
        "  x = f32[4] convolution(p, p), window={size=1 foo=2}, dim_labels=b_i->b\n}",
        4,
        47,
        "unexpected window key 'foo'",
    ),
    (
        "  x = f32[4] convolution(p, p), dim_labels=b0f_0io->b1f\n}",
        4,
        44,
        "dimension labels 'b1f' must be an arrangement",
    ),
    ("  x = f31[4] negate(p)\n}", 4, 7, "unknown element type 'f31' (did you mean 'f32'?)"),
    ("  x = f32[4,y] negate(p)\n}", 4, 7, "expected a shape such as f32[2,3], found 'f32[4,y]'"),
    ("  x = pred[4] compare(p, p), direction=LTT\n}", 4, 40, "expected one of EQ, NE, GE, GT, LE, LT; found 'LTT'"),
    ("  x = pred[4] compare(p, p), direction=LT, type=BIG\n}", 4, 49, "expected one of FLOAT, TOTALORDER, SIGNED"),
    ("  x = c64[3] fft(p), fft_type=RFT, fft_length={4}\n}", 4, 31, "expected one of FFT, IFFT, RFFT, IRFFT;"),
    (
        "  x = f32[4] rng(p, p), distribution=normal\n}",
        4,
        38,
        "expected one of rng_uniform, rng_normal; found 'normal'",
    ),
    (
        '  x = f32[4] domain(p), domain={kind="sharding", entry={replicated}}\n}',
        4,
        32,
        'expected {kind="sharding", entry=',
    ),
    ("  x = f32[4] fusion(p), kind=kLop, calls=e\n}", 4, 30, "expected one of kLoop, kInput, kOutput, kCustom"),
    (
        "  x = f32[] dot(p, p), lhs_contracting_dims={0}, rhs_contracting_dims={0}, operand_precision={high,best}\n}",
        4,
        94,
        "expected one of default, high, highest; found 'best'",
    ),
    (
        "  x = f32[] dot(p, p), lhs_contracting_dims={0}, rhs_contracting_dims={0}, algorithm=dot_f32\n}",
        4,
        86,
        "expected one of dot_any_f8_any_f8_f32,",
    ),
    ("  x = f32[4] sort(p), dimensions={x}, to_apply=e\n}", 4, 34, "expected an integer, found 'x'"),
    ("  x = f32[4] reshape(p), inferred_dimension=99999999999999999999\n}", 4, 45, "does not fit into 64 bits"),
    ("  x = reshape(p)\n}", 4, 7, "expected the result shape before the opcode 'reshape'"),
    ("  x = add(p, p, p)\n}", 4, 11, "add takes 2 operands, found 3"),
    ("  x = concatenate(p, p), dimensions={3}\n}", 4, 7, "no result shape is written, and none can be inferred"),
]


@pytest.mark.parametrize(("body", "line", "column", "message"), CASES)
def test_mistake(body: str, line: int, column: int, message: str) -> None:
    with pytest.raises(HloParseError) as caught:
        parse_hlo(ENTRY + body, "some.hlo")
    error = caught.value
    assert message in error.message
    assert (error.line, error.column) == (line, column), str(error)
    text = str(error)
    assert text.startswith(f"some.hlo:{line}:{column}: error: ")
    assert "^" in text.splitlines()[2]


ATTRIBUTE_MISTAKES = [
    ("sharding={devices=[2,,1]0,1}", "found 'devices=[2,,1]0,1'"),
    ("sharding={devices=[2,1]}", "found 'devices=[2,1]'"),
    ("sharding={devices=[2,1]0 1}", "found '1'"),
    ("sharding={devices=[2,1]0}", "a sharding in tiles names more than one device"),
    ("sharding={devices=[2,1]<=[2] devices=[2,1]<=[2]}", "given twice"),
    ("sharding={devices=[2,1]<=[1,2]T(0)}", "T(0) is not an order of the 2 dimensions [1,2]"),
    ("sharding={devices=[2,1]<=[1,2]T(0,2)}", "T(0,2) is not an order"),
    ("sharding={maximal}", "a maximal sharding names its device"),
    ("sharding={maximal devices=[2,1]0,1}", "names its device, and no other"),
    ("sharding={manual device=0}", "a sharding that is manual names no devices"),
    ("sharding={shard_as 1}", "expected the devices of a sharding"),
    ("sharding={devices=[2,1]<=[2] last_tile_dims={foo}}", "in last_tile_dims, found 'foo'"),
    ("sharding={devices=[2,1]<=[2,1]}", "T() is not an order of the 2 dimensions [2,1]"),
    ("sharding={mesh['x'=2 'y'=2] [{'x'},{'y'}]}", "expected 'axis'=size in a mesh"),
    ("sharding={mesh['x'=0] [{'x'},{}]}", "expected 'axis'=size in a mesh, found ''x'=0'"),
    ("sharding={mesh['x'=4] [{'x'},{'x'}]}", "{'x','x'} overlap, or are no parts of the axes of mesh['x'=4]"),
    ("sharding={mesh['x'=4] [{'x':(1)2},{}], manual={'x'}}", "overlap, or are no parts"),
    ("sharding={mesh['x'=4] [{'x':(3)2},{}]}", "{'x':(3)2} overlap, or are no parts"),
    ("sharding={mesh['x'=4], device_ids=(1,2), [{},{}]}", "device_ids=(1,2) does not list a device for each"),
    ("sharding={mesh['x'=4] [{},{}], manual={?}}", "only the axes of a dimension are left open"),
    ("sharding={mesh['x'=2,'x'=2] [{'x'},{}]}", "axes of a mesh have one name"),
    ("sharding={mesh['x'=2] [{'x' 'x'},{}]}", "is not an axis of the mesh"),
    ("sharding={mesh['x'=2] [{'z'},{}]}", "''z'' is not an axis of the mesh"),
    ("sharding={mesh['x'=2] [{'x'},{}] replicated={'x'}}", "expected ',' before more of a sharding"),
    ("sharding={mesh['x'=2] [{'x'},{}], foo={'x'}}", "expected replicated, manual, unreduced or metadata"),
    ("sharding={mesh['x'=2] [{'x'},{}],}", "expected replicated, manual, unreduced or metadata"),
    ("sharding={mesh['x'=2] replicatedly}", "expected the axes of each dimension"),
    ("sharding={mesh['x'=2]}", "expected the axes of each dimension"),
    ('sharding={replicated metadata={op_name="a" "b"}}', "expected 'key=value' in metadata"),
    ("statistics={visualizing_index=0 a=1}", "expected name=number in statistics"),
    ("statistics={a=inf}", "expected name=number in statistics, found 'a=inf'"),
    ('frontend_attributes={a="b" c="d"}', "a frontend attribute is a quoted string"),
    ('metadata={op_nam="a"}', "unknown metadata 'op_nam' (did you mean 'op_name'?)"),
    ('metadata={op_name="a" op_name="b"}', "metadata 'op_name' is given twice"),
    ("metadata={profile_type={window}}", "expected an integer, found 'window'"),
    ("metadata={metadata_payload={b}}", "expected a quoted string"),
    ('metadata={op_name ="a"}', "expected 'key=value' in metadata"),
    ('frontend_attributes={a ="b"}', "expected 'key=value' in frontend attributes"),
    ("statistics={a =1}", "expected name=number in statistics"),
    ("sharding={devices =[1]0}", "expected replicated, maximal, manual, devices=[...]"),
]


@pytest.mark.parametrize(("attribute", "message"), ATTRIBUTE_MISTAKES)
def test_mistake_in_an_attribute(attribute: str, message: str) -> None:
    with pytest.raises(HloParseError) as caught:
        parse_hlo(ENTRY + f"  x = f32[4] negate(p), {attribute}\n}}")
    assert message in caught.value.message
    assert caught.value.line == 4 and (caught.value.column or 0) >= 26


def test_what_may_be_written_in_an_attribute() -> None:
    """All of it is XLA's, too; of JSON only the braces are matched, and a list of devices may name any."""
    for attribute in (
        "sharding={devices=[2,1]<=[2] replicated}",
        "sharding={devices=[2,1]0,-1}",
        "sharding={devices=[1,1]<=[1]}",
        "sharding={devices=[2,1]0,0,5 shard_like 3}",
        "sharding={device=0 maximal}",
        "sharding={mesh['x'=2,'y'=4], device_ids=([4,2]T(1,0)) [{'x','y':(1)2},{?}], manual={'y':(2)2}}",
        "sharding={mesh['x'=4] [{'x', ?},{}], metadata={op_name=\"a\"}}",
        "sharding={mesh['x'=2] unreduced}",
        "sharding={mesh['x'=2], replicated, metadata={op_name=\"a\"}}",
        "sharding={devices=[2,1,2]<=[4]last_tile_dim_replicate}",
        "sharding={maximal_mesh[device_id=0]}",
        'sharding={replicated metadata={{op_name="a"},{op_name="b"}}}',
        "statistics={visualizing_index=1,stat-1=33,stat-2=4.5}",
        "sharding={devices=[2,1,2]<=[4] last_tile_dims={manual, replicated}}",
        'backend_config={"a":[}',
        'backend_config={"}{" (}',
        'metadata={profile_type={1} metadata_payload="x"}',
    ):
        module = parse_hlo(ENTRY + f"  x = f32[4] negate(p), {attribute}\n}}")
        assert str(parse_hlo(str(module))) == str(module)


def test_spaces_of_a_sharding() -> None:
    """Only those outside of strings are none of its meaning."""
    text = 'sharding={devices=[2,1]\n <= [2]   metadata={op_name="a  <= b"}}'
    negate = parse_hlo(ENTRY + f"  ROOT x = f32[4] negate(p), {text}\n}}").entry_computation.root_instruction
    assert negate.sharding is not None
    assert negate.sharding.text == 'devices=[2,1]<=[2] metadata={op_name="a  <= b"}'


@pytest.mark.parametrize("word", ["ROOT", "ENTRY", "HloModule", "FileNames"])
def test_keywords_are_names_behind_a_sigil_only(word: str) -> None:
    text = "HloModule m\nENTRY e {{ p = f32[2] parameter(0) {0} = f32[2] negate(p) ROOT r = f32[2] negate({0}) }}"
    assert parse_hlo(text.format(f"%{word}")).entry_computation.instruction_count == 3
    for wrong in (text.format(word), f"HloModule {word}\nENTRY e {{ p = f32[] parameter(0) }}"):
        with pytest.raises(HloParseError, match="expected"):
            parse_hlo(wrong)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ("a: f32[2],", "expected the name of a parameter, found ')'"),
        (",a: f32[2]", "expected the name of a parameter, found ','"),
        ("a: f32[2] b: f32[2]", "expected ')' after the last parameter, found 'b'"),
        ("f32[2]", "expected the name of a parameter, found 'f32[2]'"),
        ("a: f32", "expected a shape such as f32[2,3], found 'f32'"),
        ("a: f32[2,]", "expected an integer, found ''"),
    ],
)
def test_mistake_in_a_list_of_parameters(parameters: str, message: str) -> None:
    with pytest.raises(HloParseError) as caught:
        parse_hlo(f"HloModule m\nENTRY e ({parameters}) -> f32[2] {{ ROOT a = f32[2] parameter(0) }}")
    assert message in caught.value.message


@pytest.mark.parametrize("parameters", ["", "a: f32[2]", "a f32[2]", "f32: f32[2]", "a:(f32[2], s32[]), b.1: token[]"])
def test_lists_of_parameters_are_read_but_parameters_are_instructions(parameters: str) -> None:
    module = parse_hlo(f"HloModule m\nENTRY e ({parameters}) -> f32[2] {{ ROOT a = f32[2] parameter(0) }}")
    assert module.entry_computation.num_parameters == 1


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        ("f32[4] collective-permute(p), source_target_pairs={{0,1,2}}", "expected a list of pairs"),
        ("f32[8] all-gather(p), dimensions={0}, replica_groups={0,1}", "found '0'"),
        ("f32[8] all-gather(p), dimensions={0}, replica_groups=[1,2,1]<=[2]", "expected {{0,1},...} or [groups,size]"),
        ("f32[8] all-gather(p), dimensions={0}, replica_groups=[1,2]<=[ ,2]", "expected {{0,1},...} or [groups,size]"),
        ("f32[8] all-gather(p), dimensions={0}, replica_groups=mesh['a'=2,'b'2] {'a'}", "expected 'axis'=size"),
        ("f32[8] all-gather(p), dimensions={0}, replica_groups=[1,9]<=[99999,99999]T(1,0)", "16777216 devices at most"),
        ("f32[8] all-gather(p), dimensions={0}, replica_groups=mesh['a'=16777217] {'a'}", "found 16777217"),
        ("f32[8] all-gather(p), dimensions={0}, replica_groups=mesh['a'=2] {}", "replica groups name an axis"),
        ("f32[8] all-gather(p), dimensions={0}, replica_groups=mesh['a'=2] {'c'}", "is not an axis of the mesh"),
        ("f32[] constant(,1)", "expected 1 values nested as f32[]"),
        ("f32[4] call(p), to_apply={e}", "'to_apply' takes one computation"),
        (
            'f32[4] domain(p), domain={kind="sharding", entry={maximal}, exit={replicated}}',
            "a maximal sharding names its device",
        ),
    ],
)
def test_mistake_in_what_an_opcode_takes(instruction: str, message: str) -> None:
    with pytest.raises(HloParseError) as caught:
        parse_hlo(ENTRY + f"  x = {instruction}\n}}")
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("", 1, 1, "expected a computation, found the end of the text"),
        ("HloModule", 1, 10, "expected the module's name, found the end of the text"),
        ("HloModule m", 1, 12, "expected a computation, found the end"),
        ("HloModule m, replica_count=x\n", 1, 28, "expected an integer, found 'x'"),
        (
            "HloModule m, is_scheduled=\nENTRY e { ROOT p = f32[] parameter(0) }",
            2,
            1,
            "expected true or false, found 'ENTRY'",
        ),
        ("HloModule m, is_scheduled=1", 1, 27, "expected true or false, found '1'"),
        ("HloModule m, num_partitions=2, num_partitions=2", 1, 32, "'num_partitions' is given twice"),
        (
            "HloModule m, allow_spmd_sharding_propagation_to_output={x}",
            1,
            56,
            "expected true or false, found 'x'",
        ),
        ("HloModule m\nf {}", 2, 3, "has no instructions"),
        ("HloModule m\nf { }", 2, 3, "has no instructions"),
        ("f (a: f32[]) -> f32[2] { a = f32[] parameter(0) }", 1, 3, "'f' is declared to return f32[2]{0}"),
        ('f { a = f32[] parameter(0) }, thread="x"', 1, 31, "a computation has only the attribute 'execution_thread'"),
        ("\x00\x01", 1, 1, "expected a computation"),
        (
            ADD + "ENTRY e { p = f32[2] parameter(0) r = f32[] reduce(p, p), dimensions={0}, to_apply=ad }",
            2,
            84,
            "mean 'add'",
        ),
    ],
)
def test_mistake_in_the_frame(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(HloParseError) as caught:
        parse_hlo(text)
    assert message in caught.value.message
    assert (caught.value.line, caught.value.column) == (line, column), str(caught.value)


def test_unknown_attribute_names_the_valid_ones() -> None:
    with pytest.raises(HloParseError) as caught:
        parse_hlo(ENTRY + "  x = f32[4] iota(), foo=1\n}")
    assert "iota_dimension" in caught.value.notes[0]
    assert "metadata" in caught.value.notes[0]


def test_a_computation_is_given_once() -> None:
    text = f"HloModule m\n{ADD}ENTRY e {{\n  p = f32[4] parameter(0)\n  ROOT r = f32[4] all-reduce(p), to_apply=add, to_apply=add\n}}"
    with pytest.raises(HloParseError, match="attribute 'to_apply' is given twice"):
        parse_hlo(text)


def test_the_mode_of_a_collective_is_checked_and_forgotten() -> None:
    text = f"HloModule m\n{ADD}ENTRY e {{\n  p = f32[4] parameter(0)\n  ROOT r = f32[4] all-reduce(p), to_apply=add, mode=flattened_id\n}}"
    assert "mode" not in str(parse_hlo(text))


def test_what_stands_right_before_an_equals_sign() -> None:
    """A name with `=` right behind it is a key, unless `%` says otherwise; so is one with `:` a parameter's."""
    parse_hlo("HloModule m, is_scheduled= true\nENTRY e (p:f32[4]) -> f32[4] { %p=f32[4] parameter(0) }")
    for text, message, column in (
        ("HloModule m\nENTRY e { p=f32[4] parameter(0) }", "'p=' is an attribute: a space is missing", 11),
        ("HloModule m\nENTRY e (p : f32[4]) -> f32[4] { p = f32[4] parameter(0) }", "only a name without '%'", 12),
        ("HloModule m\nENTRY e (%p: f32[4]) -> f32[4] { p = f32[4] parameter(0) }", "only a name without '%'", 12),
        ("ENTRY e { p = f32[4] parameter(0), metadata ={}\n}", "found 'metadata' and a space", 36),
        ("HloModule m, is_scheduled =true\nENTRY e { p = f32[4] parameter(0) }", "expected '=' right after", 27),
    ):
        with pytest.raises(HloParseError) as caught:
            parse_hlo(text)
        assert message in caught.value.message and caught.value.column == column


@pytest.mark.parametrize("layout", ["{0:T(8 8)}", "{0:T(8)S(1 1)}", "{0:E(3 2)}"])
def test_two_numbers_without_a_comma_in_a_layout(layout: str) -> None:
    parse_hlo("HloModule m\nENTRY e { p = f32[4]{0: T ( 8 ) S( 1 ) } parameter(0) }")
    with pytest.raises(HloParseError, match="expected an integer"):
        parse_hlo(f"HloModule m\nENTRY e {{ p = f32[4]{layout} parameter(0) }}")


def test_number_beside_elements() -> None:
    with pytest.raises(HloParseError, match="expected 2 values nested as"):
        parse_hlo("HloModule m\nENTRY e { ROOT c = f32[2] constant({1, }2) }")


@pytest.mark.parametrize("values", ["{1{}, {2}}", "{{1}, 2{}}", "{{1} 2, {}}", "{1 {}, {2}}"])
def test_number_beside_a_row(values: str) -> None:
    with pytest.raises(HloParseError, match="expected 2 values nested as"):
        parse_hlo(f"HloModule m\nENTRY e {{ ROOT c = f32[2,1] constant({values}) }}")
