"""The parser and the printer: MLIR's forms are read and printed back; wrong text gives one error with a place."""

from __future__ import annotations

from pathlib import Path

import pytest

from xjit.hlo.diagnostics import HloError, InvalidArgument
from xjit.linalg_ext import compile, evaluate, parse, print_module
from xjit.linalg_ext.passes import parse_pipeline
from xjit.linalg_ext.text.lexer import MAX_NESTING

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "byteir"


def check_round_trip(text: str) -> str:
    """Returns what is printed: it parses back to itself, also by way of the generic form."""
    module = parse(text)
    printed = str(module)
    assert str(parse(printed)) == printed
    generic = print_module(module, generic=True)
    assert str(parse(generic)) == printed
    return printed


def body_of(printed: str) -> list[str]:
    """Returns the lines inside the first function."""
    lines = printed.splitlines()
    start = next(i for i, line in enumerate(lines) if "func.func" in line)
    end = next(i for i, line in enumerate(lines) if line.startswith("    return"))
    return [line[4:] for line in lines[start + 1 : end]]


FORMS = """
%c0 = arith.constant 0 : index
%c1_i64 = arith.constant 1 : i64
%true = arith.constant true
%cst = arith.constant dense<[1.000000e+00, 0x7F800000]> : tensor<2xf32>
%0 = arith.addi %c0, %c0 overflow<nsw> : index
%1 = arith.mulf %a, %a fastmath<nnan, ninf> {x} : f32
%2 = arith.cmpf oeq, %a, %a : f32
%3 = arith.cmpi slt, %0, %c0 : index
%4 = arith.select %2, %a, %1 : f32
%5 = arith.index_cast %c0 : index to i64
%6 = math.exp %a : f32
%dim = tensor.dim %t, %c0 : tensor<?x4xf32>
%7 = tensor.empty(%dim) : tensor<?x4xf32>
%extracted = tensor.extract %t[%c0, %0] : tensor<?x4xf32>
%inserted = tensor.insert %extracted into %t[%c0, %c0] : tensor<?x4xf32>
%extracted_slice = tensor.extract_slice %t[0, %c0] [%dim, 2] [1, 1] : tensor<?x4xf32> to tensor<?x2xf32>
%inserted_slice = tensor.insert_slice %extracted_slice into %t[0, 0] [%dim, 2] [1, 1] : tensor<?x2xf32> into tensor<?x4xf32>
%collapsed = tensor.collapse_shape %t [[0, 1]] : tensor<?x4xf32> into tensor<?xf32>
%expanded = tensor.expand_shape %collapsed [[0, 1]] output_shape [%dim, 4] : tensor<?xf32> into tensor<?x4xf32>
%cast = tensor.cast %t : tensor<?x4xf32> to tensor<2x4xf32>
%8 = affine.apply affine_map<(d0)[s0] -> (d0 + s0)>(%c0)[%dim]
%9 = affine.min affine_map<(d0) -> (d0, 4)>(%c0)
%10 = linalg.fill ins(%a : f32) outs(%7 : tensor<?x4xf32>) -> tensor<?x4xf32>
%alloc = memref.alloc(%dim) {alignment = 64 : i64} : memref<?x4xf32>
%11 = memref.load %alloc[%c0, %c0] : memref<?x4xf32>
memref.store %11, %alloc[%c0, %c0] : memref<?x4xf32>
%subview = memref.subview %alloc[0, 0] [2, 2] [1, 1] : memref<?x4xf32> to memref<2x2xf32, strided<[4, 1]>>
linalg.fill ins(%a : f32) outs(%alloc : memref<?x4xf32>)
%12 = linalg_ext.alias(%a : f32) : f32
%13 = "test.unknown"(%a) {x = [1, 2.500000e+00], y = #test.attr<a b>} : (f32) -> !test.type<4>
%14 = call @other(%a) : (f32) -> f32
""".strip()


def test_forms_are_printed_as_they_are_read() -> None:
    text = (
        "func.func private @other(f32) -> f32\nfunc.func @f(%a: f32, %t: tensor<?x4xf32>) {\n" + FORMS + "\nreturn\n}"
    )
    printed = check_round_trip(text)
    body = "\n".join(body_of(printed.split("private @other")[1]))
    for alias in printed.splitlines()[:2]:
        name, attribute = alias.split(" = ")
        body = body.replace(f"{name}(", f"{attribute}(")
    expected = (
        FORMS.replace("%a", "%arg0").replace("%arg0lloc", "%alloc").replace("%t,", "%arg1,").replace("%t[", "%arg1[")
    )
    expected = expected.replace("%t :", "%arg1 :").replace("%t [", "%arg1 [").replace("%true", "%true")
    assert body.splitlines() == expected.splitlines()


LOOPS = """
#map = affine_map<(d0, d1) -> (d0, d1)>
module {
  func.func @f(%arg0: tensor<4x8xf32>, %arg1: index) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
    %c0 = arith.constant 0 : index
    %0:2 = scf.for %arg2 = %c0 to %arg1 step %arg1 iter_args(%arg3 = %arg0, %arg4 = %arg0) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
      %3 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg3 : tensor<4x8xf32>) outs(%arg4 : tensor<4x8xf32>) attrs =  {__root__} {
      ^bb0(%in: f32, %out: f32):
        %4 = linalg.index 0 : index
        %5 = arith.addf %in, %out : f32
        linalg.yield %5 : f32
      } -> tensor<4x8xf32>
      scf.yield %3, %0#1 : tensor<4x8xf32>, tensor<4x8xf32>
    } {__parallel__}
    %1 = scf.forall (%arg2, %arg3) in (4, %arg1) shared_outs(%arg4 = %arg0) -> (tensor<4x8xf32>) {
      %extracted_slice = tensor.extract_slice %arg4[%arg2, 0] [1, 8] [1, 1] : tensor<4x8xf32> to tensor<1x8xf32>
      scf.forall.in_parallel {
        tensor.parallel_insert_slice %extracted_slice into %arg4[%arg2, 0] [1, 8] [1, 1] : tensor<1x8xf32> into tensor<4x8xf32>
      }
    } {mapping = [#gpu.block<x>]}
    scf.for %arg2 = %c0 to %arg1 step %arg1 {
      "test.op"() : () -> ()
    }
    %true = arith.constant true
    %2 = scf.if %true -> (tensor<4x8xf32>) {
      scf.yield %0#0 : tensor<4x8xf32>
    } else {
      scf.yield %1 : tensor<4x8xf32>
    }
    %reduced = linalg.reduce { arith.addf } ins(%arg0 : tensor<4x8xf32>) outs(%arg0 : tensor<4x8xf32>) dimensions = []
    return %2, %reduced : tensor<4x8xf32>, tensor<4x8xf32>
  }
}
"""


def test_regions_and_names_are_those_of_upstream() -> None:
    text = LOOPS.replace("%0#1 :", "%arg4 :")  # a loop cannot use its own result
    assert check_round_trip(text).split() == text.split()


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.mlir")), ids=lambda path: path.stem)
def test_corpus_round_trips(path: Path) -> None:
    for part in path.read_text().split("// -----"):
        check_round_trip(part)


def test_old_spellings() -> None:
    printed = check_round_trip(
        """
        func.func @f(%a: tensor<4xf32>) -> tensor<2x2xf32> {
          %0 = linalg.elemwise_unary {__root__} ins(%a: tensor<4xf32>) outs(%a: tensor<4xf32>)
          %1 = tensor.expand_shape %0 [[0, 1]] : tensor<4xf32> into tensor<2x2xf32>
          func.return %1 : tensor<2x2xf32>
        }
        transform.sequence failures(suppress) {
        ^bb0(%arg1: !pdl.operation):
          %0 = transform.structured.match attributes{"__root__"} in %arg1
          %1, %loops:2 = transform.structured.tile_ext %0 [2, 0, 4] {interchange = [1, 0]}
          cleanup
        }"""
    )
    assert "outs(%arg0 : tensor<4xf32>) -> tensor<4xf32>" in printed
    assert "[[0, 1]] output_shape [2, 2] :" in printed
    assert "transform.structured.match attributes {__root__} in %arg0 : (!pdl.operation) -> !pdl.operation" in printed
    assert "%tiled_linalg_op, %loops:2 = transform.structured.tile_ext %0 [2, 0, 4] {interchange = [1, 0]}\n" in printed


SCRIPTS = """
transform.sequence failures(propagate) {
^bb1(%arg1: !transform.any_op):
  %0 = transform.structured.match ops{["linalg.generic"]} in %arg1 : (!transform.any_op) -> !transform.any_op
  %a, %b = transform.structured.tile_using_forall %0 num_threads [10, 20] (mapping = [ #gpu.thread<y>, #gpu.thread<x> ] ) : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
  %c, %d = transform.structured.tile_using_forall %0 tile_sizes [10, 20] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
  %c1, %d1 = transform.structured.tile_using_forall %0 tile_sizes [%a : !transform.any_op, 20] : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
  %e, %f = transform.structured.fuse_into_containing_op %0 into %b : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
  %fill_op, %split, %combining, %for = transform.structured.tile_reduction_using_for %0 by tile_sizes = [0, 5] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)
  %g:4 = transform.structured.tile_reduction_using_forall %0 by num_threads = [0, 5], tile_sizes = [0, 3], mapping = [#gpu.thread<x>] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)
  transform.structured.tile_loop_hint %0 : !transform.any_op
  %func, %call = transform.structured.outline %0 {func_name = "outlined", libcall} : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
  %h = transform.structured.collapse_dims %0 [[0, 1], [2]]
  %i = transform.structured.fold_unit_extent_dims %0
  transform.structured.inline %0
  %t, %l:2 = transform.structured.fuse %0 {tile_sizes = [32, 32], tile_interchange = [0, 1]} : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
  %t1, %l1:2 = transform.structured.fuse %0 [5, 7] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
  %t2, %l2:2 = transform.structured.fuse_ext %0, %a {tile_sizes = [32, 32], tile_interchange = [0, 1], keep_intermediates = true}
  %j = transform.get_producer_of_operand %0[0] : (!transform.any_op) -> !transform.any_op
  %k = transform.get_parent_op %0 {isolated_from_above} : (!transform.any_op) -> !transform.any_op
  %k2 = transform.get_parent_op %0 {op_name = "func.func"} : (!transform.any_op) -> !transform.any_op
  transform.apply_patterns to %k {
    transform.apply_patterns.canonicalization
    transform.apply_patterns.linalg.tiling_canonicalization
  } : !transform.any_op
  transform.apply_patterns to %k {
    transform.apply_patterns.canonicalization
  } {apply_cse} : !transform.any_op
  transform.apply_cse to %k : !transform.any_op
  transform.apply_dce to %k : !transform.any_op
  %m = transform.merge_handles %a, %b : !transform.any_op
  %n = transform.merge_handles deduplicate %a, %b : !transform.any_op
  %o:2 = transform.split_handle %0 : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
  transform.print %0 : !transform.any_op
  transform.print %0 {name = "x"} : !transform.any_op
  transform.print
  %p = transform.cast %0 : !transform.any_op to !transform.op<"linalg.generic">
  transform.annotate %0 "foo" : !transform.any_op
  %r = transform.loop.get_parent_for %0 {num_loops = 2 : i64} : (!transform.any_op) -> !transform.any_op
  %s = transform.structured.generalize %0 : (!transform.any_op) -> !transform.any_op
  %1, %loops:3 = transform.structured.tile_using_for %0 tile_sizes [4, 4, 4] interchange = [1, 0, 2] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)
  %v, %loopsv:2 = transform.structured.tile_using_for %0[4, 0, 4] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
  %w = transform.structured.match interface{TilingInterface} attributes{test.x = 1 : i64} in %arg1 : (!transform.any_op) -> !transform.any_op
  transform.foreach %0 : !transform.any_op {
  ^bb0(%x: !transform.any_op):
    transform.print %x : !transform.any_op
  }
}
transform.sequence failures(propagate) {
^bb0(%arg0: !pdl.operation):
  sequence %arg0 : !pdl.operation failures(propagate) {
  ^bb1(%arg1: !pdl.operation):
  }
}
"""


def test_forms_of_scripts() -> None:
    """Forms of upstream's scripts, with types of handles and without, are read; what is printed says the same."""
    check_round_trip(SCRIPTS)


FUNC = "func.func @f(%a: f32, %i: index) {\n"


@pytest.mark.parametrize(
    "text,message",
    [
        (FUNC + "%0 = arith.addf %a, %b : f32\nreturn }", "2:21: error: use of undefined value '%b'"),
        (FUNC + "%0 = arith.addf %a, %i : f32\nreturn }", "2:21: error: '%i' has type index, and is used as f32"),
        (FUNC + "%0:2 = arith.addf %a, %a : f32\nreturn }", "2:8: error: 'arith.addf' has 1 results, but 2 names"),
        (FUNC + "%a = arith.addf %a, %a : f32\nreturn }", "2:1: error: redefinition of '%a'"),
        (FUNC + "%0 = arith.adf %a, %a : f32\nreturn }", "unknown operation 'arith.adf' (did you mean 'arith.addf'?)"),
        (FUNC + "%0 = arith.cmpf xeq, %a, %a : f32\nreturn }", "unknown predicate 'xeq'"),
        (FUNC + "%0 = tensor.empty() : tensor<4xf33>\nreturn }", "unknown type 'f33'"),
        (FUNC + "return", "expected '}', found end of text"),
        (FUNC + "%0 = arith.constant 300 : i8\nreturn }", "300 does not fit into i8"),
        (FUNC + "%0 = arith.constant 1 : f32\nreturn }", "expected a number with a point for type f32"),
        (FUNC + "%0 = arith.constant dense<[1, [2]]> : tensor<2xi8>\nreturn }", "lists on one level differ in shape"),
        (FUNC + "%0 = arith.constant dense<[1, 2]> : tensor<3xi8>\nreturn }", "the values have shape [2], the type is"),
        (FUNC + "cf.br ^bb1\nreturn }", "block '^bb1' is not defined"),
        (FUNC + "cf.bar ^bb1\nreturn }", "unknown operation 'cf.bar'"),
        (FUNC + "^bb0:\n}", "2:1: error: the first block has named arguments already"),
        ('"a.b"(', "expected an SSA value, found end of text"),
        ('"a.b"() : () -> (tensor<4x', "expected a type, found end of text"),
        ('"a.b"() {x = affine_map<(d0) -> (d1)>} : () -> ()', "invalid affine text: unknown name 'd1'"),
        ('"a.b"() {x = affine_map<(d0) -> (d0 * d0)>} : () -> ()', "invalid affine text"),
        ('"a.b"() {x = #nothing} : () -> ()', "unknown attribute alias '#nothing'"),
        ('"a.b"() {x, x} : () -> ()', "attribute 'x' occurs twice"),
        ('"a.b"() {x = #d<(} : () -> ()', "unexpected '}'"),
        ("\x00", "expected an operation, found '\\x00'"),
    ],
)
def test_errors_tell_the_place(text: str, message: str) -> None:
    with pytest.raises(HloError) as caught:
        parse(text)
    assert message in str(caught.value)
    assert caught.value.line is not None


@pytest.mark.parametrize(
    "opening,closing",
    [
        ('"a.b"() ({', "}) : () -> ()"),
        ('"a.b"() {x = ', "} : () -> ()"),
        ("scf.if %x {", "}"),
        ('"a.b"() : () -> (tensor<4x', ">)"),
    ],
)
def test_depth_is_bounded(opening: str, closing: str) -> None:
    """A thousand levels end in an error, not in a stack overflow."""
    inner = {"[": "[" * 1000, "t": "tensor<4x" * 1000}.get(
        "[" if "x = " in opening else "t" if "tensor" in opening else ""
    )
    text = (opening + inner) if inner else opening * 1000
    with pytest.raises(HloError):
        parse(text)
    assert MAX_NESTING < 100


def test_truncated_text_is_refused_or_parsed() -> None:
    """Every prefix of a text gives a module or an error of the parser, nothing else."""
    for end in range(0, len(LOOPS), 7):
        try:
            parse(LOOPS[:end])
        except HloError as error:
            assert error.line is not None


def test_blocks_of_dropped_bodies_do_not_count() -> None:
    """Bodies that the generic form tells of named operations are dropped; their labels are free again."""
    lines = "\n".join(
        f"%{i} = linalg.exp ins(%a : tensor<4xf32>) outs(%a : tensor<4xf32>) -> tensor<4xf32>" for i in range(100)
    )
    check_round_trip(f"func.func @f(%a: tensor<4xf32>) {{\n{lines}\nreturn\n}}")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("dense<(1.000000e+00,-2.000000e+00)> : tensor<2xcomplex<f32>>", [1 - 2j, 1 - 2j]),
        ("dense<[(1.000000e+00,0.000000e+00), (0.000000e+00,-5.000000e-01)]> : tensor<2xcomplex<f64>>", [1, -0.5j]),
    ],
)
def test_complex_constants(text: str, values: list[complex]) -> None:
    """Parsed, printed in MLIR's form, evaluated and compiled."""
    kind = text.rsplit(" : ", 1)[1]
    module = parse(f"func.func @f() -> {kind} {{\n  %0 = arith.constant {text}\n  return %0 : {kind}\n}}")
    assert text in str(module) and str(parse(str(module))) == str(module)
    assert evaluate(module, "f").tolist() == values
    assert compile(module, "f")().tolist() == values


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("dense<(1.0)> : tensor<2xcomplex<f32>>", "expected ','"),
        ("dense<1.0> : tensor<2xcomplex<f32>>", "expected '\\('"),
        ("dense<(1.0, 2.0)> : tensor<2xf32>", "expected"),
        ("dense<(1.0, (2.0, 3.0))> : tensor<2xcomplex<f32>>", "expected"),
        ("dense<(1, 2)> : tensor<2xcomplex<index>>", "parts of floats or integers, not of index"),
        ("dense<(9007199254740993, 1)> : tensor<2xcomplex<i64>>", "up to 2\\*\\*53"),
    ],
)
def test_complex_constants_that_are_none(body: str, error: str) -> None:
    with pytest.raises(HloError, match=error):
        parse(f"func.func @f() {{\n  %0 = arith.constant {body}\n  return\n}}")


@pytest.mark.parametrize(
    "text",
    ["dense<[(1,-2), (3,0)]> : tensor<2xcomplex<i32>>", "dense<(0x7FC00000,0x7F800000)> : tensor<2xcomplex<f32>>"],
)
def test_complex_integers_and_infinities(text: str) -> None:
    assert text in str(parse(f"func.func @f() {{\n  %0 = arith.constant {text}\n  return\n}}"))


def test_pass_pipelines() -> None:
    text = "builtin.module( cse, func.func(linalg-op-tile{tile-sizes=2,3 loop-type=scf}),func.func(a,any(b)), c )"
    assert parse_pipeline(text) == ["cse", "linalg-op-tile=tile-sizes=2,3 loop-type=scf", "a", "b", "c"]
    assert parse_pipeline("cse,canonicalize{}") == ["cse", "canonicalize"]


@pytest.mark.parametrize("text", ["builtin.module(cse", "cse)", "cse,", "cse cse", "f(cse),,x", "f(g{x)"])
def test_malformed_pass_pipelines(text: str) -> None:
    with pytest.raises(InvalidArgument, match="pass pipeline"):
        parse_pipeline(text)
