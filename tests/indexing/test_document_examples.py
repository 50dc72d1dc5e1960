"""Every example of XLA's document on indexing analysis, with its exact text (known slips of the document mended)."""

from __future__ import annotations

import re

import pytest

from xjit.affine import IndexingMap, compose_indexing_maps
from xjit.hlo.ir.instruction import HloInstruction
from xjit.indexing import compute_input_to_output_indexing, compute_output_to_input_indexing
from xjit.text.parser import parse_hlo

SCALARS = """
add_f32 { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
max_f32 { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }
max2 {
  a0 = f32[] parameter(0)
  a1 = s32[] parameter(1)
  b0 = f32[] parameter(2)
  b1 = s32[] parameter(3)
  m0 = f32[] maximum(a0, b0)
  m1 = s32[] maximum(a1, b1)
  ROOT r = (f32[], s32[]) tuple(m0, m1)
}
"""


def root_of(body: str) -> HloInstruction:
    """Returns the last instruction of a computation body."""
    lines = [line for line in body.strip().splitlines() if line.strip()]
    if "ROOT" not in body:
        lines[-1] = "ROOT " + lines[-1].strip()
    text = "HloModule m\n" + SCALARS + "ENTRY e {\n" + "\n".join(lines) + "\n}\n"
    return parse_hlo(text).entry_computation.root_instruction


def lines_of(text: str) -> str:
    """Text without indentation."""
    return "\n".join(line.strip() for line in text.strip().splitlines())


def expect(maps: tuple[IndexingMap, ...], *texts: str) -> None:
    assert [lines_of(str(m)) for m in maps] == [lines_of(t) for t in texts]


def backward(root: HloInstruction, operand: int, *texts: str, output: int = 0) -> None:
    expect(compute_output_to_input_indexing(root, output)[operand], *texts)


def forward(root: HloInstruction, operand: int, *texts: str, output: int = 0) -> None:
    expect(compute_input_to_output_indexing(root, operand)[output], *texts)


def test_elementwise() -> None:
    root = root_of("p0 = f32[10,20] parameter(0)\np1 = f32[10,20] parameter(1)\nadd = f32[10,20] add(p0, p1)")
    same = "(d0, d1) -> (d0, d1)\ndomain:\nd0 in [0, 9]\nd1 in [0, 19]"
    for operand in (0, 1):
        backward(root, operand, same)
        forward(root, operand, same)
    assert str(compute_output_to_input_indexing(root)) == f"operand id = 0\n{same}\noperand id = 1\n{same}"
    assert str(compute_input_to_output_indexing(root, 1)) == f"output id = 0\n{same}"


def test_broadcast() -> None:
    root = root_of("p0 = f32[20] parameter(0)\nbc0 = f32[10,20,30] broadcast(p0), dimensions={1}")
    backward(root, 0, "(d0, d1, d2) -> (d1)\ndomain:\nd0 in [0, 9]\nd1 in [0, 19]\nd2 in [0, 29]")
    forward(root, 0, "(d0)[s0, s1] -> (s0, d0, s1)\ndomain:\nd0 in [0, 19]\ns0 in [0, 9]\ns1 in [0, 29]")


def test_constant_and_iota_have_nothing_to_read() -> None:
    for text in ("c = f32[] constant(1)", "i = s32[5] iota(), iota_dimension=0"):
        assert len(compute_output_to_input_indexing(root_of(text))) == 0


def test_dynamic_slice() -> None:
    root = root_of("""
      src = s32[2,2,258] parameter(0)
      of1 = s32[] parameter(1)
      of2 = s32[] parameter(2)
      of3 = s32[] parameter(3)
      ds = s32[1,2,32] dynamic-slice(s32[2,2,258] src, s32[] of1, s32[] of2, s32[] of3), dynamic_slice_sizes={1, 2, 32}
    """)
    backward(
        root,
        0,
        """(d0, d1, d2)[s0, s1, s2] -> (d0 + s0, d1 + s1, d2 + s2)
      domain:
      d0 in [0, 0]
      d1 in [0, 1]
      d2 in [0, 31]
      s0 in [0, 1]
        hlo: of1 = s32[] parameter(1)
        (d0, d1, d2) -> ()
      s1 in [0, 0]
        hlo: of2 = s32[] parameter(2)
        (d0, d1, d2) -> ()
      s2 in [0, 226]
        hlo: of3 = s32[] parameter(3)
        (d0, d1, d2) -> ()""",
    )
    for operand in (1, 2, 3):
        backward(root, operand, "(d0, d1, d2) -> ()\ndomain:\nd0 in [0, 0]\nd1 in [0, 1]\nd2 in [0, 31]")


def test_dynamic_update_slice() -> None:
    root = root_of("""
      src = s32[20,30] parameter(0)
      upd = s32[5,10] parameter(1)
      of1 = s32[] parameter(2)
      of2 = s32[] parameter(3)
      dus = s32[20,30] dynamic-update-slice(s32[20,30] src, s32[5,10] upd, s32[] of1, s32[] of2)
    """)
    backward(root, 0, "(d0, d1) -> (d0, d1)\ndomain:\nd0 in [0, 19]\nd1 in [0, 29]")
    backward(
        root,
        1,
        """(d0, d1)[s0, s1] -> (d0 - s0, d1 - s1)
      domain:
      d0 in [0, 19]
      d1 in [0, 29]
      s0 in [0, 15]
        hlo: of1 = s32[] parameter(2)
        (d0, d1) -> ()
      s1 in [0, 20]
        hlo: of2 = s32[] parameter(3)
        (d0, d1) -> ()""",
    )
    for operand in (2, 3):
        backward(root, operand, "(d0, d1) -> ()\ndomain:\nd0 in [0, 19]\nd1 in [0, 29]")


def test_gather() -> None:
    root = root_of("""
      operand = f32[33,76,70] parameter(0)
      indices = s32[1806,2] parameter(1)
      gather = f32[1806,7,8,4] gather(operand, indices), offset_dims={1,2,3}, collapsed_slice_dims={}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={7,8,4}
    """)
    backward(
        root,
        0,
        """(d0, d1, d2, d3)[s0, s1] -> (d1 + s0, d2 + s1, d3)
      domain:
      d0 in [0, 1805]
      d1 in [0, 6]
      d2 in [0, 7]
      d3 in [0, 3]
      s0 in [0, 26]
        hlo: indices = s32[1806,2]{1,0} parameter(1)
        (d0, d1, d2, d3) -> (d0, 0)
      s1 in [0, 68]
        hlo: indices = s32[1806,2]{1,0} parameter(1)
        (d0, d1, d2, d3) -> (d0, 1)""",
    )
    backward(
        root,
        1,
        """(d0, d1, d2, d3)[s0] -> (d0, s0)
      domain:
      d0 in [0, 1805]
      d1 in [0, 6]
      d2 in [0, 7]
      d3 in [0, 3]
      s0 in [0, 1]""",
    )


def test_transpose() -> None:
    root = root_of("p0 = f32[3,12288,6,128] parameter(0)\nt = f32[3,6,128,12288] transpose(p0), dimensions={0,2,3,1}")
    backward(
        root,
        0,
        """(d0, d1, d2, d3) -> (d0, d3, d1, d2)
      domain:
      d0 in [0, 2]
      d1 in [0, 5]
      d2 in [0, 127]
      d3 in [0, 12287]""",
    )
    forward(
        root,
        0,
        """(d0, d1, d2, d3) -> (d0, d2, d3, d1)
      domain:
      d0 in [0, 2]
      d1 in [0, 12287]
      d2 in [0, 5]
      d3 in [0, 127]""",
    )


def test_reverse() -> None:
    root = root_of("p0 = f32[1,17,9,9] parameter(0)\nreverse = f32[1,17,9,9] reverse(p0), dimensions={1,2}")
    text = """(d0, d1, d2, d3) -> (d0, -d1 + 16, -d2 + 8, d3)
      domain:
      d0 in [0, 0]
      d1 in [0, 16]
      d2 in [0, 8]
      d3 in [0, 8]"""
    backward(root, 0, text)
    forward(root, 0, text)


def test_variadic_reduce() -> None:
    root = root_of("""
      p0 = f32[256,10] parameter(0)
      p0_init = f32[] constant(-inf)
      p1 = s32[256,10] parameter(1)
      p1_init = s32[] constant(0)
      reduce = (f32[10], s32[10]) reduce(p0, p1, p0_init, p1_init), dimensions={0}, to_apply=max2
    """)
    for output in (0, 1):
        for number in (0, 1):
            backward(root, number, "(d0)[s0] -> (s0, d0)\ndomain:\nd0 in [0, 9]\ns0 in [0, 255]", output=output)
            forward(root, number, "(d0, d1) -> (d1)\ndomain:\nd0 in [0, 255]\nd1 in [0, 9]", output=output)
            backward(root, 2 + number, "(d0) -> ()\ndomain:\nd0 in [0, 9]", output=output)
            forward(root, 2 + number, "()[s0] -> (s0)\ndomain:\ns0 in [0, 9]", output=output)


def test_slice() -> None:
    root = root_of(
        "p0 = f32[10,20,50] parameter(0)\nslice = f32[5,3,25] slice(f32[10,20,50] p0), slice={[5:10:1], [3:20:7], [0:50:2]}"
    )
    backward(
        root, 0, "(d0, d1, d2) -> (d0 + 5, d1 * 7 + 3, d2 * 2)\ndomain:\nd0 in [0, 4]\nd1 in [0, 2]\nd2 in [0, 24]"
    )
    forward(
        root,
        0,
        """(d0, d1, d2) -> (d0 - 5, (d1 - 3) floordiv 7, d2 floordiv 2)
      domain:
      d0 in [5, 9]
      d1 in [3, 17]
      d2 in [0, 48]
      (d1 - 3) mod 7 in [0, 0]
      d2 mod 2 in [0, 0]""",
    )


RESHAPES = {
    "collapse": (
        (4, 8), (32,),
        "(d0) -> (d0 floordiv 8, d0 mod 8)\ndomain:\nd0 in [0, 31]",
        "(d0, d1) -> (d0 * 8 + d1)\ndomain:\nd0 in [0, 3]\nd1 in [0, 7]",
    ),
    "expand": (
        (32,), (4, 8),
        "(d0, d1) -> (d0 * 8 + d1)\ndomain:\nd0 in [0, 3]\nd1 in [0, 7]",
        "(d0) -> (d0 floordiv 8, d0 mod 8)\ndomain:\nd0 in [0, 31]",
    ),
    "linearise and delinearise": (
        (4, 8), (2, 4, 4),
        "(d0, d1, d2) -> (d0 * 2 + d1 floordiv 2, d2 + (d1 mod 2) * 4)\ndomain:\nd0 in [0, 1]\nd1 in [0, 3]\nd2 in [0, 3]",
        "(d0, d1) -> (d0 floordiv 2, d1 floordiv 4 + (d0 mod 2) * 2, d1 mod 4)\ndomain:\nd0 in [0, 3]\nd1 in [0, 7]",
    ),
    "expand and collapse parts": (
        (4, 8, 12), (32, 3, 4),
        "(d0, d1, d2) -> (d0 floordiv 8, d0 mod 8, d1 * 4 + d2)\ndomain:\nd0 in [0, 31]\nd1 in [0, 2]\nd2 in [0, 3]",
        "(d0, d1, d2) -> (d0 * 8 + d1, d2 floordiv 4, d2 mod 4)\ndomain:\nd0 in [0, 3]\nd1 in [0, 7]\nd2 in [0, 11]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RESHAPES)
def test_reshape(name: str) -> None:
    source, target, out_to_in, in_to_out = RESHAPES[name]
    dims = [",".join(map(str, d)) for d in (source, target)]
    root = root_of(f"p0 = f32[{dims[0]}] parameter(0)\nreshape = f32[{dims[1]}] reshape(p0)")
    backward(root, 0, out_to_in)
    forward(root, 0, in_to_out)


def test_bitcast_is_transpose_reshape_transpose() -> None:
    root = root_of("p0 = f32[4,6]{0,1} parameter(0)\nb = f32[3,8]{1,0} bitcast(p0)")
    steps = root_of(
        "p0 = f32[4,6] parameter(0)\nt = f32[6,4] transpose(p0), dimensions={1,0}\n"
        "u = f32[3,8] reshape(t)\nROOT r = f32[3,8] copy(u)"
    )
    composed = IndexingMap.identity((3, 8))
    for step in (steps.operand(0), steps.operand(0).operand(0)):
        (m,) = compute_output_to_input_indexing(step)[0]
        composed = compose_indexing_maps(composed, m).simplify()
    assert compute_output_to_input_indexing(root)[0] == (composed,)


def test_concatenate() -> None:
    root = root_of("""
      p0 = f32[2,5,7] parameter(0)
      p1 = f32[2,11,7] parameter(1)
      p2 = f32[2,17,7] parameter(2)
      ROOT concat = f32[2,33,7] concatenate(f32[2,5,7] p0, f32[2,11,7] p1, f32[2,17,7] p2), dimensions={1}
    """)
    for operand, (shift, low, high, size) in enumerate([(0, 0, 4, 4), (5, 5, 15, 10), (16, 16, 32, 16)]):
        minus, plus = (f" - {shift}", f" + {shift}") if shift else ("", "")
        backward(
            root,
            operand,
            f"(d0, d1, d2) -> (d0, d1{minus}, d2)\ndomain:\nd0 in [0, 1]\nd1 in [{low}, {high}]\nd2 in [0, 6]",
        )
        forward(
            root, operand, f"(d0, d1, d2) -> (d0, d1{plus}, d2)\ndomain:\nd0 in [0, 1]\nd1 in [0, {size}]\nd2 in [0, 6]"
        )


def test_dot() -> None:
    root = root_of("""
      p0 = f32[4,128,256] parameter(0)
      p1 = f32[4,256,64] parameter(1)
      dot = f32[4,128,64] dot(p0, p1), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
    """)
    box = "domain:\nd0 in [0, 3]\nd1 in [0, 127]\nd2 in [0, 63]\ns0 in [0, 255]"
    backward(root, 0, f"(d0, d1, d2)[s0] -> (d0, d1, s0)\n{box}")
    backward(root, 1, f"(d0, d1, d2)[s0] -> (d0, s0, d2)\n{box}")
    forward(
        root,
        0,
        """(d0, d1, d2)[s0] -> (d0, d1, s0)
      domain:
      d0 in [0, 3]
      d1 in [0, 127]
      d2 in [0, 255]
      s0 in [0, 63]""",
    )
    # the document's result (d0, s0, d1) takes the contracted dim for the free one: d2 is the free dim of operand 1
    forward(
        root,
        1,
        """(d0, d1, d2)[s0] -> (d0, s0, d2)
      domain:
      d0 in [0, 3]
      d1 in [0, 255]
      d2 in [0, 63]
      s0 in [0, 127]""",
    )


def test_pad() -> None:
    root = root_of(
        "p0 = f32[4,4] parameter(0)\np1 = f32[] parameter(1)\npad = f32[12,16] pad(p0, p1), padding=1_4_1x4_8_0"
    )
    backward(
        root,
        0,
        """(d0, d1) -> ((d0 - 1) floordiv 2, d1 - 4)
      domain:
      d0 in [1, 7]
      d1 in [4, 7]
      (d0 - 1) mod 2 in [0, 0]""",
    )
    backward(root, 1, "(d0, d1) -> ()\ndomain:\nd0 in [0, 11]\nd1 in [0, 15]")


def test_reduce_window() -> None:
    root = root_of("""
      c_inf = f32[] constant(-inf)
      p0 = f32[1024,514] parameter(0)
      reduce-window = f32[1024,3] reduce-window(p0, c_inf), window={size=1x512 pad=0_0x0_0}, to_apply=max_f32
    """)
    backward(root, 0, "(d0, d1)[s0] -> (d0, d1 + s0)\ndomain:\nd0 in [0, 1023]\nd1 in [0, 2]\ns0 in [0, 511]")
    backward(root, 1, "(d0, d1) -> ()\ndomain:\nd0 in [0, 1023]\nd1 in [0, 2]")


def fusion_of(body: str, operands: str) -> HloInstruction:
    shape = re.search(r"ROOT \S+ = (\S+|\([^)]*\)) ", body)
    assert shape
    names = ", ".join(re.findall(r"(\w+) =", operands))
    text = f"HloModule m\n{SCALARS}\nf {{\n{body}\n}}\nENTRY e {{\n{operands}\nROOT fusion = {shape[1]} fusion({names}), kind=kLoop, calls=f\n}}"
    return parse_hlo(text).entry_computation.root_instruction


def test_fusion_with_two_maps_of_one_input() -> None:
    root = fusion_of(
        """p0 = f32[1000,1000] parameter(0)
        transpose_p0 = f32[1000,1000]{0,1} transpose(p0), dimensions={1,0}
        ROOT a0 = f32[1000,1000] add(p0, transpose_p0)""",
        "x = f32[1000,1000] parameter(0)",
    )
    box = "domain:\nd0 in [0, 999]\nd1 in [0, 999]"
    backward(root, 0, f"(d0, d1) -> (d0, d1)\n{box}", f"(d0, d1) -> (d1, d0)\n{box}")


def test_fusion_with_deduplicated_maps() -> None:
    root = fusion_of(
        """p0 = f32[20,10,50] parameter(0)
        lhs_transpose_1 = f32[10,20,50] transpose(p0), dimensions={1,0,2}
        lhs_e = f32[10,20,50] exponential(lhs_transpose_1)
        lhs_transpose_2 = f32[10,50,20] transpose(lhs_e), dimensions={0,2,1}
        rhs_transpose_1 = f32[50,10,20] transpose(p0), dimensions={2,1,0}
        rhs_log = f32[50,10,20] exponential(rhs_transpose_1)
        rhs_transpose_2 = f32[10,50,20] transpose(rhs_log), dimensions={1,0,2}
        ROOT add = f32[10,50,20] add(lhs_transpose_2, rhs_transpose_2)""",
        "x = f32[20,10,50] parameter(0)",
    )
    backward(root, 0, "(d0, d1, d2) -> (d2, d0, d1)\ndomain:\nd0 in [0, 9]\nd1 in [0, 49]\nd2 in [0, 19]")


SOFTMAX = """p0 = f32[2,65,125] parameter(0)
  minus_inf = f32[] constant(-inf)
  most = f32[2,65] reduce(p0, minus_inf), dimensions={2}, to_apply=max_f32
  most_b = f32[2,65,125] broadcast(most), dimensions={0,1}
  shifted = f32[2,65,125] subtract(p0, most_b)
  e = f32[2,65,125] exponential(shifted)
  zero = f32[] constant(0)
  total = f32[2,65] reduce(e, zero), dimensions={2}, to_apply=add_f32
  total_b = f32[2,65,125] broadcast(total), dimensions={0,1}
  ROOT softmax = f32[2,65,125] divide(e, total_b)"""


def test_softmax() -> None:
    root = fusion_of(SOFTMAX, "x = f32[2,65,125] parameter(0)")
    maps = compute_output_to_input_indexing(root)[0]
    box = "domain:\nd0 in [0, 1]\nd1 in [0, 64]\nd2 in [0, 124]"
    expect(maps, f"(d0, d1, d2) -> (d0, d1, d2)\n{box}", f"(d0, d1, d2)[s0] -> (d0, d1, s0)\n{box}\ns0 in [0, 124]")


def test_reshapes_cancel() -> None:
    root = fusion_of(
        "p0 = f32[10,10,10] parameter(0)\nreshape1 = f32[50,20] reshape(p0)\nROOT reshape2 = f32[10,10,10] reshape(reshape1)",
        "x = f32[10,10,10] parameter(0)",
    )
    backward(root, 0, "(d0, d1, d2) -> (d0, d1, d2)\ndomain:\nd0 in [0, 9]\nd1 in [0, 9]\nd2 in [0, 9]")
