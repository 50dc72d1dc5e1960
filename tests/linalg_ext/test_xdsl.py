"""Another parser of MLIR reads what is printed; skipped where it is not installed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

pytest.importorskip("xdsl")
pytest.importorskip("filecheck")

from xdsl.context import Context
from xdsl.parser import Parser
from xdsl.universe import Universe

from tests.linalg_ext.run_lines import run_lines
from xjit.linalg_ext import parse, print_module, run_passes
from xjit.linalg_ext.ir import Operation, TensorType
from xjit.linalg_ext.passes import PASSES

HERE = Path(__file__).resolve().parent / "filecheck"
CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "byteir"
DIALECTS = ("builtin", "func", "arith", "math", "tensor", "linalg", "scf", "affine", "memref")


def read_by_xdsl(text: str, verify: bool = True) -> None:
    """Parses and verifies; operations of dialects that xdsl does not have pass in the generic form."""
    context = Context(allow_unregistered=True)
    for name, factory in Universe.get_multiverse().all_dialects.items():
        if name in DIALECTS:
            context.register_dialect(name, factory)
    module = Parser(context, text).parse_module()
    if verify:
        module.verify()


def passes_of(path: Path) -> list[str]:
    """Returns the passes of a file's first RUN line."""
    words = shlex.split(run_lines(path)[0])
    return [w.lstrip("-") for w in words if w.startswith("-") and w.lstrip("-").partition("=")[0] in PASSES]


def is_semi_affine(text: str) -> bool:
    """Whether a map multiplies or divides by a symbol, which xdsl does not read."""
    return re.search(r"(\* \(*s\d|(ceildiv|floordiv|mod) \(?s\d|\* \(s\d+ ceildiv)", text) is not None


def xdsl_differs(op: Operation) -> bool:
    """Whether xdsl's verifier asks for something else than MLIR's.

    It wants an unknown size wherever padding is unknown (MLIR takes the known size that the source prints, too), words
    for the numbers of reductions, no comparisons of tensors, and strides of convolutions where MLIR takes 1.
    """
    compares_tensors = op.name == "arith.cmpi" and isinstance(op.result.type, TensorType)
    without_strides = op.name.startswith("linalg.conv") and "strides" not in op.attributes
    return op.name in ("tensor.pad", "affine.parallel") or compares_tensors or without_strides


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=() if path.stem.startswith("fuse") else pytest.mark.slow, id=path.stem)
        for path in sorted([*HERE.glob("*.mlir"), *CORPUS.glob("*.mlir")])
    ],
)
@pytest.mark.parametrize("transformed", [False, True])
def test_generic_form(path: Path, transformed: bool) -> None:
    for part in path.read_text().split("// -----"):
        if "expected-error" in part:
            continue
        module = parse(part)
        if transformed:
            run_passes(module, passes_of(path))
        for op in module.body.operations:
            if op.dialect == "transform":
                op.erase()
        text = print_module(module, generic=True)
        if not is_semi_affine(text):
            read_by_xdsl(text, verify=not any(map(xdsl_differs, module.walk())))


def test_custom_form() -> None:
    module = parse(
        """
        #map = affine_map<(d0, d1) -> (d0, d1)>
        func.func @f(%a: tensor<4x8xf32>, %n: index, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
          %c0 = arith.constant 0 : index
          %0 = scf.for %i = %c0 to %n step %n iter_args(%x = %a) -> (tensor<4x8xf32>) {
            %s = tensor.extract_slice %x[0, %i] [4, 2] [1, 1] : tensor<4x8xf32> to tensor<4x2xf32>
            %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]}
                ins(%s : tensor<4x2xf32>) outs(%s : tensor<4x2xf32>) {
            ^bb0(%in: f32, %out: f32):
              %2 = arith.addf %in, %out : f32
              linalg.yield %2 : f32
            } -> tensor<4x2xf32>
            %y = tensor.insert_slice %1 into %x[0, %i] [4, 2] [1, 1] : tensor<4x2xf32> into tensor<4x8xf32>
            scf.yield %y : tensor<4x8xf32>
          }
          %m = linalg.matmul ins(%0, %w : tensor<4x8xf32>, tensor<8x8xf32>) outs(%0 : tensor<4x8xf32>) -> tensor<4x8xf32>
          return %m : tensor<4x8xf32>
        }"""
    )
    read_by_xdsl(str(module))
