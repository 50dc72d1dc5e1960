"""FusedIrEmitter: what each opcode emits inside a fusion, what is shared, and what is computed outside of loops."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from tests.support.kernels import check_units, kernel_text, random_inputs
from xjit.hlo.diagnostics import Unsupported
from xjit.llvm.target import Target
from xjit.text.parser import parse_hlo

TARGET = Target.for_features("avx2")


def fusion(body: str, result: str, computations: str = "") -> str:
    """Returns a module of one fusion with this body; its parameters become those of the entry.

    Parameters and constants that nothing reads are left out.
    """
    for definition, name in re.findall(r"((\w+) = \S+ (?:parameter|constant)\((?:[^()]|\([^()]*\))*\))", body):
        if len(re.findall(rf"\b{name}\b", body)) == 1 and f"ROOT {name}" not in body:
            body = body.replace(definition, "")
    numbers = itertools.count()
    body = re.sub(r"parameter\(\d+\)", lambda _: f"parameter({next(numbers)})", body)
    parameters = re.findall(r"(\w+) = (\S+) parameter\((\d+)\)", body)
    lines = "\n".join(f"  {name} = {shape} parameter({number})" for name, shape, number in parameters)
    names = ", ".join(name for name, _, _ in sorted(parameters, key=lambda p: int(p[2])))
    return f"""{computations}
fused {{
{body}
}}
ENTRY e {{
{lines}
  ROOT fusion = {result} fusion({names}), kind=kLoop, calls=fused
}}
"""


def blocks(text: str) -> dict[str, str]:
    """The blocks of the first function by the start of their labels (`p_loop`, `v_loop`, ...), joined."""
    found: dict[str, str] = {}
    body = text[text.index("define") :].split("\n}\n")[0]
    for label, lines in re.findall(r"(?m)^([\w.]+):\n((?:  .*\n?)*)", body):
        hint = label.rsplit(".", 1)[0]
        found[hint] = found.get(hint, "") + lines
    return found


# -- sharing and hoisting


def test_common_subexpressions_are_emitted_once() -> None:
    """x + y is used by three instructions and by itself twice: one load of each, one addition."""
    text = fusion(
        """  x = f32[64,64] parameter(0)
  y = f32[64,64] parameter(1)
  s = f32[64,64] add(x, y)
  a = f32[64,64] multiply(s, s)
  b = f32[64,64] subtract(s, x)
  ROOT r = f32[64,64] maximum(a, b)""",
        "f32[64,64]",
    )
    emitted = kernel_text(text, TARGET)
    assert emitted.count("= fadd") == 1 and emitted.count("= load <8 x float>") == 2
    check_units(text)


def test_long_diamonds_stay_small() -> None:
    """Sixty instructions that each use the one before twice are sixty additions, not 2^60."""
    steps = "\n".join(f"  a{i + 1} = s32[64] add(a{i}, a{i})" for i in range(60))
    text = fusion(f"  a0 = s32[64] parameter(0)\n{steps}\n  ROOT r = s32[64] negate(a60)", "s32[64]")
    assert kernel_text(text, TARGET).count("= add <8 x i32>") == 60
    check_units(text)


def test_deep_chains() -> None:
    """Depth is no matter of recursion."""
    steps = "\n".join(f"  a{i + 1} = s32[8] add(a{i}, a0)" for i in range(3000))
    check_units(fusion(f"  a0 = s32[8] parameter(0)\n{steps}\n  ROOT r = s32[8] negate(a3000)", "s32[8]"))


def test_invariants_leave_the_inner_loop() -> None:
    """What depends on the row only is computed once per row; what depends on nothing, once."""
    text = fusion(
        """  x = f32[64,40]{1,0} parameter(0)
  row = f32[64] parameter(1)
  s = f32[] parameter(2)
  e = f32[64] exponential(row)
  q = f32[] sqrt(s)
  eb = f32[64,40] broadcast(e), dimensions={0}
  qb = f32[64,40] broadcast(q), dimensions={}
  a = f32[64,40] add(x, eb)
  ROOT r = f32[64,40] multiply(a, qb)""",
        "f32[64,40]",
    )
    found = blocks(kernel_text(text, TARGET))
    assert "sqrt" in found["entry"]
    assert "load float" in found["p_loop"] and "fmul float" in found["p_loop"]
    assert "load float" not in found["v_loop"] and "load <8 x float>" in found["v_loop"]
    assert found["v_loop"].count("fmul") == 1 and found["v_loop"].count("fadd") == 1
    check_units(text, *[np.abs(x) for x in random_inputs(parse_hlo(text))], rtol=1e-5)


def test_only_columns_vary() -> None:
    """A value per column is a vector load inside, without any gather or division."""
    text = fusion(
        """  x = f32[64,40]{1,0} parameter(0)
  c = f32[40] parameter(1)
  b = f32[64,40] broadcast(c), dimensions={1}
  ROOT r = f32[64,40] multiply(x, b)""",
        "f32[64,40]",
    )
    emitted = kernel_text(text, TARGET)
    assert "gather" not in emitted and "div" not in emitted
    check_units(text)


# -- data movement

MOVES = {
    "reverse": "f32[5,19] reverse(x), dimensions={0,1}",
    "slice": "f32[2,6] slice(x), slice={[1:5:2], [3:19:3]}",
    "broadcast": "f32[5,3,19] broadcast(x), dimensions={0,2}",
    "reshape": "f32[19,5] reshape(x)",
    "transpose": "f32[19,5] transpose(x), dimensions={1,0}",
    "bitcast": "f32[95] bitcast(x)",
    "copy": "f32[5,19] copy(x)",
    "pad": "f32[9,24] pad(x, z), padding=1_3x2_3",
    "pad interior": "f32[13,57] pad(x, z), padding=0_0_2x1_1_2",
    "pad negative": "f32[3,25] pad(x, z), padding=-1_-1x-3_9",
    "pad all": "f32[5,4] pad(x, z), padding=0_0x-19_4",
    "concatenate": "f32[12,19] concatenate(x, y, x), dimensions={0}",
    "concatenate columns": "f32[5,38] concatenate(x, x), dimensions={1}",
    "iota": "s32[5,19] iota(), iota_dimension=1",
    "iota rows": "f32[5,19] iota(), iota_dimension=0",
    "iota wraps": "s8[300,2] iota(), iota_dimension=0",
    "constant": "f32[5,19] broadcast(z), dimensions={}",
}


@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("kind", ["f32", "bf16", "pred", "c64"])
def test_movement(name: str, kind: str) -> None:
    """Each kind of movement behind an element-wise root, so that no root of its own shapes the loops."""
    kind = "s32" if "iota" in name and kind in ("pred", "c64") else kind
    shape, call = MOVES[name].split(" ", 1)
    shape = shape if "iota" in name else shape.replace("f32", kind)
    zero = {"pred": "true", "c64": "(1, 2)"}.get(kind, "3")
    text = fusion(
        f"""  x = {kind}[5,19] parameter(0)
  y = {kind}[2,19] parameter(1)
  z = {kind}[] constant({zero})
  m = {shape} {call}
  ROOT r = {shape} copy(m)""",
        shape,
    )
    check_units(text)


@pytest.mark.parametrize("axis", [0, 1])
def test_concatenate_inside_a_fusion(axis: int) -> None:
    """Four operands behind an addition; each lane takes its own operand, and the others are not read out of bounds."""
    parts = [(3, 10), (1, 10), (7, 10), (2, 10)] if axis == 0 else [(10, 3), (10, 1), (10, 7), (10, 2)]
    total = "13,10" if axis == 0 else "10,13"
    lines = "\n".join(f"  x{i} = f32[{m},{n}] parameter({i})" for i, (m, n) in enumerate(parts))
    check_units(
        fusion(
            f"""{lines}
  y = f32[{total}] parameter(4)
  c = f32[{total}] concatenate(x0, x1, x2, x3), dimensions={{{axis}}}
  ROOT r = f32[{total}] add(c, y)""",
            f"f32[{total}]",
        )
    )


def test_padding_masks_what_it_does_not_need() -> None:
    """A padded row is loaded under a mask, not gathered."""
    text = fusion(
        """  x = f32[64,40] parameter(0)
  z = f32[] parameter(1)
  p = f32[64,43] pad(x, z), padding=0_0x1_2
  ROOT r = f32[64,43] negate(p)""",
        "f32[64,43]",
    )
    emitted = kernel_text(text, TARGET)
    assert "masked.load" in emitted and "gather" not in emitted
    check_units(text)


def test_pad_of_nothing() -> None:
    check_units(
        fusion(
            """  x = f32[0,4] parameter(0)
  z = f32[] parameter(1)
  p = f32[3,4] pad(x, z), padding=1_2x0_0
  ROOT r = f32[3,4] negate(p)""",
            "f32[3,4]",
        )
    )


def test_array_constants_are_globals() -> None:
    text = fusion(
        """  x = f32[2,3] parameter(0)
  c = f32[2,3]{0,1} constant({{1, 2, 3}, {4, 5, 6}})
  o = f32[2,3] constant({{7, 7, 7}, {7, 7, 7}})
  s = f32[2,3] add(x, c)
  ROOT r = f32[2,3] multiply(s, o)""",
        "f32[2,3]",
    )
    assert kernel_text(text, TARGET).count("private unnamed_addr constant") == 1, "one value everywhere needs no array"
    check_units(text)


# -- indices known at run time

START_TYPES = {"s32": np.int32, "s64": np.int64, "u8": np.uint8, "u32": np.uint32, "u64": np.uint64, "s8": np.int8}


@pytest.mark.parametrize("kind", START_TYPES)
def test_dynamic_slice_starts_are_clamped(kind: str) -> None:
    text = fusion(
        f"""  x = f32[7,90] parameter(0)
  i = {kind}[] parameter(1)
  j = {kind}[] parameter(2)
  d = f32[3,60] dynamic-slice(x, i, j), dynamic_slice_sizes={{3,60}}
  ROOT r = f32[3,60] negate(d)""",
        "f32[3,60]",
    )
    dtype = START_TYPES[kind]
    x = np.random.default_rng(0).standard_normal((7, 90)).astype(np.float32)
    for i, j in ((0, 0), (2, 17), (100, 31), (np.iinfo(dtype).min, np.iinfo(dtype).max)):
        check_units(text, x, dtype(i), dtype(j))


def test_dynamic_update_slice_inside_a_fusion() -> None:
    text = fusion(
        """  x = f32[7,40] parameter(0)
  u = f32[3,21] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  d = f32[7,40] dynamic-update-slice(x, u, i, j)
  ROOT r = f32[7,40] negate(d)""",
        "f32[7,40]",
    )
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((7, 40), (3, 21))]
    for i, j in ((0, 0), (2, 17), (100, -5), (-3, 100)):
        check_units(text, *arrays, np.int32(i), np.int32(j))


@pytest.mark.parametrize("kind", ["s32", "u8", "s64"])
@pytest.mark.parametrize("width", [1, 20])
def test_gather_indices_are_clamped(kind: str, width: int) -> None:
    """Rows, and lone elements that every lane takes from elsewhere; indices far out of bounds."""
    text = fusion(
        f"""  x = f32[30,{width}] parameter(0)
  i = {kind}[21,1] parameter(1)
  g = f32[21,{width}] gather(x, i), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}},
    index_vector_dim=1, slice_sizes={{1,{width}}}
  ROOT r = f32[21,{width}] negate(g)""",
        f"f32[21,{width}]",
    )
    rng, info = np.random.default_rng(0), np.iinfo(START_TYPES[kind])
    indices = rng.integers(0, 30, (21, 1)).astype(START_TYPES[kind])
    indices[:4, 0] = info.min, info.max, 29, 30
    check_units(text, rng.standard_normal((30, width)).astype(np.float32), indices)


def test_indices_may_be_computed() -> None:
    """The start of one slice is an element of another: both are hoisted."""
    text = fusion(
        """  x = f32[40] parameter(0)
  table = s32[9] parameter(1)
  n = s32[] parameter(2)
  one = s32[1] dynamic-slice(table, n), dynamic_slice_sizes={1}
  i = s32[] reshape(one)
  two = s32[] constant(2)
  k = s32[] multiply(i, two)
  d = f32[17] dynamic-slice(x, k), dynamic_slice_sizes={17}
  ROOT r = f32[17] negate(d)""",
        "f32[17]",
    )
    rng = np.random.default_rng(0)
    for n in (0, 5, 77):
        check_units(text, rng.standard_normal(40).astype(np.float32), np.arange(9, dtype=np.int32) * 3, np.int32(n))


# -- called computations and contractions

ADD_AND_SCALE = """f {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  h = f32[] constant(0.5)
  m = f32[] multiply(a, h)
  ROOT r = f32[] add(m, b)
}
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}"""


def test_map() -> None:
    check_units(
        fusion(
            """  x = f32[5,19] parameter(0)
  y = f32[5] parameter(1)
  b = f32[5,19] broadcast(y), dimensions={0}
  ROOT r = f32[5,19] map(x, b), dimensions={0,1}, to_apply=f""",
            "f32[5,19]",
            ADD_AND_SCALE,
        )
    )


def test_reductions_and_dots_inside() -> None:
    """A row's sum and a dot as operands of what is computed per element."""
    text = fusion(
        """  x = f32[9,40] parameter(0)
  w = f32[40,6] parameter(1)
  z = f32[] constant(0)
  s = f32[9] reduce(x, z), dimensions={1}, to_apply=sum
  b = f32[9,6] broadcast(s), dimensions={0}
  d = f32[9,6] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[9,6] subtract(d, b)""",
        "f32[9,6]",
        ADD_AND_SCALE,
    )
    check_units(text, rtol=1e-4, atol=1e-4)


def test_several_results_of_several_types() -> None:
    check_units(
        fusion(
            """  x = f32[5,19] parameter(0)
  y = f32[5,19] negate(x)
  z = f32[] constant(0)
  b = f32[5,19] broadcast(z), dimensions={}
  p = pred[5,19] compare(x, b), direction=GT
  c = c64[5,19] complex(x, y)
  h = bf16[5,19] convert(x)
  ROOT r = (f32[5,19], pred[5,19], c64[5,19], bf16[5,19], f32[5,19]) tuple(y, p, c, h, x)""",
            "(f32[5,19], pred[5,19], c64[5,19], bf16[5,19], f32[5,19])",
        )
    )


def test_what_cannot_be_fused_is_named() -> None:
    text = fusion("  x = f32[9] parameter(0)\n  s = f32[9] sort(x), dimensions={0}, to_apply=f\n  ROOT r = f32[9] negate(s)",
                  "f32[9]", "f {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = pred[] compare(a, b), direction=LT\n}")  # fmt: skip
    with pytest.raises(Unsupported, match="sort 's'"):
        kernel_text(text)
