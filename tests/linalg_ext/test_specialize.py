"""Generics become named ops: what was generalized comes back, values stay, and nothing else is renamed."""

from __future__ import annotations

import numpy as np
import pytest

from xjit import linalg_ext
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.transforms.single_ops import specialize as module_of_specialize
from xjit.linalg_ext.transforms.single_ops.specialize import specialize

M = "tensor<4x6xf32>"
OPERANDS = {
    "fill": ("f32", M),
    "copy": (M, M),
    "select": ("tensor<4xi1>, tensor<4xf32>, tensor<4xf32>", "tensor<4xf32>"),
    "matmul": (f"{M}, tensor<6x8xf32>", "tensor<4x8xf32>"),
    "matmul_transpose_a": ("tensor<6x4xf32>, tensor<6x8xf32>", "tensor<4x8xf32>"),
    "matmul_transpose_b": (f"{M}, tensor<8x6xf32>", "tensor<4x8xf32>"),
    "batch_matmul": ("tensor<2x4x6xi32>, tensor<2x6x8xi32>", "tensor<2x4x8xi32>"),
    "batch_reduce_matmul": ("tensor<2x4x6xf32>, tensor<2x6x8xf32>", "tensor<4x8xf32>"),
    "matvec": (f"{M}, tensor<6xf32>", "tensor<4xf32>"),
    "batch_matvec": ("tensor<2x4x6xf32>, tensor<2x6xf32>", "tensor<2x4xf32>"),
    "dot": ("tensor<6xf32>, tensor<6xf32>", "tensor<f32>"),
    "div_unsigned": ("tensor<4xi32>, tensor<4xi32>", "tensor<4xi32>"),
    **dict.fromkeys(("exp", "abs", "negf", "rsqrt", "tanh", "erf", "square", "reciprocal"), (M, M)),
    **dict.fromkeys(("add", "sub", "mul", "div", "max", "min", "powf"), (f"{M}, {M}", M)),
}


@pytest.mark.parametrize("name", OPERANDS)
def test_round_trip(name: str) -> None:
    inputs, output = OPERANDS[name]
    types = inputs.split(", ")
    names = [f"%a{n}" for n in range(len(types))]
    arguments = ", ".join(f"{n}: {t}" for n, t in zip([*names, "%o"], [*types, output]))
    op = f"linalg.{name} ins({', '.join(names)} : {inputs}) outs(%o : {output}) -> {output}"
    module = linalg_ext.parse(f"func.func @f({arguments}) -> {output} {{\n  %0 = {op}\n  return %0 : {output}\n}}")
    linalg_ext.run_passes(module, ["linalg-generalize-named-ops"])
    assert "linalg.generic" in str(module)
    linalg_ext.run_passes(module, ["linalg-specialize-generic-ops"])
    assert f"linalg.{name} ins(" in str(module) and "linalg.generic" not in str(module)


def generic(body: str, maps: str, inputs: str, output: str = M, iterators: str = '"parallel", "parallel"') -> str:
    types = inputs.split(", ")
    names = ", ".join(f"%a{n}" for n in range(len(types)))
    arguments = ", ".join(f"%a{n}: {t}" for n, t in enumerate(types))
    elements = ", ".join(f"%x{n}: f32" for n in range(len(types)))
    return f"""func.func @f({arguments}, %o: {output}) -> {output} {{
  %0 = linalg.generic {{indexing_maps = [{", ".join(f"affine_map<{m}>" for m in maps.split("; "))}],
      iterator_types = [{iterators}]}} ins({names} : {inputs}) outs(%o : {output}) {{
  ^bb0({elements}, %out: f32):
    {body}
  }} -> {output}
  return %0 : {output}
}}"""


SAME = "(i, j) -> (i, j)"
YIELD = "linalg.yield %y : f32"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (generic(f"%y = arith.subf %x1, %x0 : f32\n{YIELD}", f"{SAME}; {SAME}; {SAME}", f"{M}, {M}"), "sub"),
        (generic("linalg.yield %x0 : f32", "(i, j) -> (j); (i, j) -> (i, j)", "tensor<6xf32>"), "broadcast"),
        (generic("linalg.yield %x0 : f32", "(i, j) -> (i, j); (i, j) -> (j, i)", "tensor<6x4xf32>"), "transpose"),
        (
            generic(
                f"%p = arith.mulf %x0, %x1 : f32\n%y = arith.addf %p, %out : f32\n{YIELD}",
                "(k, n, m) -> (n, k); (k, n, m) -> (m, k); (k, n, m) -> (m, n)",
                "tensor<6x5xf32>, tensor<4x5xf32>",
                iterators='"reduction", "parallel", "parallel"',
            ),
            "matmul_transpose_b",
        ),
    ],
)
def test_values(text: str, name: str) -> None:
    module = linalg_ext.parse(text)
    function = module.body.operations[0]
    sizes = [t.shape for t in (v.type for v in function.body.arguments)]  # type: ignore[attr-defined]
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=size).astype(np.float32) for size in sizes]
    before = linalg_ext.evaluate(module, "f", *arrays)
    made = specialize(function.body.operations[0])
    assert made.name == f"linalg.{name}"
    linalg_ext.run_passes(module, [])
    np.testing.assert_array_equal(linalg_ext.evaluate(module, "f", *arrays), before)
    assert specialize(made) is made


@pytest.mark.parametrize(
    "text",
    [
        generic(f"%y = arith.addf %x0, %out : f32\n{YIELD}", f"{SAME}; {SAME}", M),  # reads what it writes
        generic(f"%y = arith.addf %x0, %x1 : f32\n{YIELD}", f"{SAME}; (i, j) -> (j); {SAME}", f"{M}, tensor<6xf32>"),
        generic(f"%e = math.exp %x0 : f32\n%y = math.exp %e : f32\n{YIELD}", f"{SAME}; {SAME}", M),
        generic("linalg.yield %out : f32", f"{SAME}; {SAME}", M),
        generic("linalg.yield %x0 : f32", "(i, j) -> (i, i); (i, j) -> (i, j)", "tensor<4x4xf32>", "tensor<4x6xf32>"),
        generic("linalg.yield %x0 : f32", f"(i, j) -> (i, j + 2); {SAME}", "tensor<4x8xf32>"),
        generic(
            "%n = linalg.index 0 : index\n%m = arith.index_cast %n : index to i32\n%f = arith.sitofp %m : i32 to f32"
            f"\n%y = arith.addf %x0, %f : f32\n{YIELD}",
            f"{SAME}; {SAME}",
            M,
        ),
        generic(
            f"%p = arith.mulf %x0, %x1 : f32\n%y = arith.subf %out, %p : f32\n{YIELD}",
            "(m, n, k) -> (m, k); (m, n, k) -> (k, n); (m, n, k) -> (m, n)",
            "tensor<4x5xf32>, tensor<5x6xf32>",
            iterators='"parallel", "parallel", "reduction"',
        ),
        generic(
            f"%b = memref.alloc() : memref<f32>\nmemref.store %x0, %b[] : memref<f32>\n%y = math.exp %x0 : f32\n{YIELD}",
            f"{SAME}; {SAME}",
            M,
        ),  # does more than it yields
    ],
)
def test_what_has_no_name(text: str) -> None:
    module = linalg_ext.parse(text)
    before = str(module)
    with pytest.raises(LinalgError, match=r"'linalg\.generic' op does what no named op does"):
        specialize(module.body.operations[0].body.operations[0])
    assert str(module) == before
    assert not module_of_specialize.specialize_all(module)
