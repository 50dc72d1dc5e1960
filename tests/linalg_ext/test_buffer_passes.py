"""Copies made ahead, operands in buffers of their own, marked ops in tiles: the value is kept."""

from __future__ import annotations

import pytest

from tests.linalg_ext.equivalence import check_transformation, count
from tests.linalg_ext.tiling_support import named
from xjit.hlo.diagnostics import InvalidArgument
from xjit.linalg_ext import parse, run_passes
from xjit.linalg_ext.ir import LinalgError, Operation
from xjit.linalg_ext.transforms.single_ops.promote import promote

LOOP = """
func.func @main(%a: memref<23x4xf32>, %b: memref<23x4xf32>{more}) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %end = arith.constant {end} : index
  %m = memref.alloc() : memref<1x4xf32>
  scf.for %i = {start} to %end step {step} {{
    %s = memref.subview %a[%i, 0] [1, 4] [1, 1] : memref<23x4xf32> to memref<1x4xf32, strided<[4, 1], offset: ?>>
    %t = memref.subview %b[%i, 0] [1, 4] [1, 1] : memref<23x4xf32> to memref<1x4xf32, strided<[4, 1], offset: ?>>
    linalg.copy {{__byteir_prefetch__}} ins(%s : memref<1x4xf32, strided<[4, 1], offset: ?>>) outs(%m : memref<1x4xf32>)
    linalg.exp {{__byteir_data_place__}} ins(%m : memref<1x4xf32>) outs(%t : memref<1x4xf32, strided<[4, 1], offset: ?>>)
  }}
  return
}}
"""


def loop(end: int = 23, start: str = "%c0", step: str = "%c1", more: str = "") -> str:
    return LOOP.format(end=end, start=start, step=step, more=more)


@pytest.mark.parametrize("unroll", ["", " unroll"], ids=["shifted", "unrolled"])
@pytest.mark.parametrize("count_ahead", [1, 5])
@pytest.mark.parametrize("end", [0, 3, 23])
def test_prefetch(end: int, count_ahead: int, unroll: str) -> None:
    flag = f"linalg-prefetch=count={count_ahead}{unroll}"
    after = check_transformation(loop(end), lambda module: run_passes(module, [flag]))
    assert count(after, "memref.alloc") == 1 + count_ahead
    check_transformation(loop(end), lambda module: run_passes(module, [flag, "canonicalize", "cse"]))


@pytest.mark.parametrize("unroll", ["", " unroll"], ids=["shifted", "unrolled"])
def test_prefetch_where_start_and_step_are_unknown(unroll: str) -> None:
    text = loop(start="%low", step="%high", more=", %low: index, %high: index")
    check_transformation(text, lambda module: run_passes(module, [f"linalg-prefetch=count=2{unroll}"]))


def test_prefetch_of_the_mark() -> None:
    text = loop().replace("__byteir_prefetch__", "__byteir_prefetch__ = 3 : i32")
    assert count(check_transformation(text, lambda m: run_passes(m, ["linalg-prefetch"])), "memref.alloc") == 4
    text = loop().replace("__byteir_prefetch__", "__byteir_prefetch__ = 0 : i32")
    assert count(check_transformation(text, lambda m: run_passes(m, ["linalg-prefetch"])), "memref.alloc") == 1


@pytest.mark.parametrize(
    "old, new, error",
    [
        ("outs(%m : memref<1x4xf32>)", "outs(%t : memref<1x4xf32, strided<[4, 1], offset: ?>>)", "writes no buffer"),
        ("ins(%s : memref<1x4xf32, strided<[4, 1], offset: ?>>)", "ins(%m : memref<1x4xf32>)", "reads no view"),
        (
            "  }\n  return",
            "  }\n  memref.copy %m, %m : memref<1x4xf32> to memref<1x4xf32>\n  return",
            "or outside of that",
        ),
        (
            "linalg.copy {",
            "memref.copy %m, %m : memref<1x4xf32> to memref<1x4xf32>\n    linalg.copy {",
            "before it in the",
        ),
        ("scf.for %i = %c0 to %end step %c1 {", "scf.parallel (%i) = (%c0) to (%end) step (%c1) {", "not directly"),
    ],
)
def test_what_is_not_prefetched(old: str, new: str, error: str) -> None:
    text = loop()
    assert old in text
    with pytest.raises(LinalgError, match=error):
        run_passes(parse(text.replace(old, new, 1)), ["linalg-prefetch"])


@pytest.mark.parametrize("unroll", ["", " unroll"], ids=["shifted", "unrolled"])
def test_prefetch_of_two_copies_into_buffers_that_are_freed(unroll: str) -> None:
    text = loop().replace("  scf.for", "  %n = memref.alloc() : memref<1x4xf32>\n  scf.for")
    more = text[text.index("linalg.copy {") : text.index("linalg.exp")]
    text = text.replace(more, more + more.replace("%m", "%n")).replace("ins(%m :", "ins(%n :")
    text = text.replace("  return", "  memref.dealloc %m : memref<1x4xf32>\n  return")
    check_transformation(text, lambda module: run_passes(module, [f"linalg-prefetch=count=2{unroll}"]))


@pytest.mark.parametrize("spaces, placed", [("", 0), ("2", 2), ("-1,3", 1), ("1,-1", 1), ("-1", 0)])
def test_data_place_of_memrefs(spaces: str, placed: int) -> None:
    after = check_transformation(loop(), lambda module: run_passes(module, [f"linalg-data-place=mem-spaces={spaces}"]))
    kinds = [str(op.result.type) for op in named(after, "memref.alloc")]
    assert len(kinds) == 1 + placed
    assert all(kind.startswith("memref<1x4xf32, ") for kind in kinds[1:])


def test_promote_reads_what_is_accumulated_and_refuses_scalars() -> None:
    text = """
    func.func @main(%a: memref<4x3xf32>, %b: memref<3x5xf32>, %c: memref<4x5xf32>, %x: f32) {
      linalg.matmul ins(%a, %b : memref<4x3xf32>, memref<3x5xf32>) outs(%c : memref<4x5xf32>)
      linalg.fill ins(%x : f32) outs(%a : memref<4x3xf32>)
      return
    }"""
    after = check_transformation(text, lambda m: promote(named(m, "linalg.matmul")[0], dict.fromkeys(range(3))))
    assert count(after, "linalg.copy") == 4  # both inputs, the sum, and back
    for number in (0, 2):
        with pytest.raises(LinalgError, match="is no memref"):
            promote(named(parse(text), "linalg.fill")[0], {number: None})


TENSORS = """
#map = affine_map<(d0) -> (d0)>
func.func @main(%a: tensor<4xf32>, %large: tensor<8xf32>) -> (tensor<8xf32>, tensor<4xf32>) {
  %part = tensor.extract_slice %large[2] [4] [1] : tensor<8xf32> to tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]}
    ins(%a : tensor<4xf32>) outs(%part : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %y = math.exp %in : f32
    linalg.yield %y : f32
  } -> tensor<4xf32>
  %1 = tensor.insert_slice %0 into %large[2] [4] [1] : tensor<4xf32> into tensor<8xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]}
    ins(%0 : tensor<4xf32>) outs(%a : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %y = arith.addf %in, %out : f32
    linalg.yield %y : f32
  } -> tensor<4xf32>
  return %1, %2 : tensor<8xf32>, tensor<4xf32>
}
"""


def test_data_place_of_tensors() -> None:
    after = check_transformation(TENSORS, lambda module: run_passes(module, ["linalg-data-place"]))
    assert count(after, "linalg.copy") == 1 and count(after, "tensor.empty") == 2
    reads = TENSORS.replace("math.exp %in : f32", "arith.addf %in, %out : f32")
    assert count(check_transformation(reads, lambda m: run_passes(m, ["linalg-data-place"])), "linalg.copy") == 0


MARKED = """
func.func @main(%x: tensor<7x9xf32>, %o: tensor<7x9xf32>, %r: tensor<7xf32>) -> (tensor<7x9xf32>, tensor<7xf32>) {
  %0:2 = linalg_ext.scan {__internal_linalg_transform__ = "__byteir_tile__"} dimension(1) inclusive(true)
    ins(%x : tensor<7x9xf32>) outs(%o, %r : tensor<7x9xf32>, tensor<7xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    linalg_ext.yield %s : f32
  } -> tensor<7x9xf32>, tensor<7xf32>
  return %0#0, %0#1 : tensor<7x9xf32>, tensor<7xf32>
}
"""


@pytest.mark.parametrize(
    "options, loops", [("2", "scf.for"), ("3,4", "scf.for"), ("2 loop-type=parallel", "scf.forall")]
)
def test_op_tile(options: str, loops: str) -> None:
    def run(module: Operation) -> None:
        run_passes(module, [f"linalg-op-tile=tile-sizes={options}"])

    after = check_transformation(MARKED, run)
    assert count(after, loops) == options.count(",") + 1
    assert not any("__internal_linalg_transform__" in op.attributes for op in after.walk())
    if loops == "scf.for":
        hints = ["__byteir_parallel__" in op.attributes for op in named(after, "scf.for")]
        assert sorted(hints) == [False, True][2 - len(hints) :]


@pytest.mark.parametrize(
    "flag, error",
    [
        ("linalg-op-tile=tile-sizes=2,x", "'tile-sizes' of pass 'linalg-op-tile' is a number, found '2,x'"),
        ("linalg-op-tile=loop-type=while", "is scf, for or parallel, found 'while'"),
        ("linalg-prefetch=count=", "'count' of pass 'linalg-prefetch' is a number, found ''"),
        ("linalg-prefetch=unroll=2", "is true or false, found '2'"),
        ("linalg-data-place=space=1", "has no option 'space': its options are mem-spaces"),
        ("cse=deep", "has no option 'deep': its options are none"),
    ],
)
def test_wrong_options(flag: str, error: str) -> None:
    with pytest.raises(InvalidArgument, match=error):
        run_passes(parse(MARKED), [flag])
