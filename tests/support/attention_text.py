"""HLO text of attention, in the forms that programs write it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from xjit.hlo.attributes import ParameterAttributes
from xjit.passes.fusion.attention_fusion import AttentionFusion
from xjit.text.parser import parse_hlo

Array = np.ndarray[Any, Any]
REDUCERS = """HloModule m
max {
  a = KIND[] parameter(0)
  b = KIND[] parameter(1)
  ROOT r = KIND[] maximum(a, b)
}
add {
  a = KIND[] parameter(0)
  b = KIND[] parameter(1)
  ROOT r = KIND[] add(a, b)
}
"""
MASKS = ("none", "scale", "bias", "where", "causal", "causal_inf", "additive")
ADDED = {"added": "-1e9", "added_inf": "-inf", "added_later": "-1e4", "added_low": "-1.0"}
"""Masks that are added to scores, and what is added where they mask."""
PLANE_MASKS = ("low", "later", "window", *ADDED)
"""Masks of positions: of scores that count all the same, of rows without others, and on both sides of a band."""


@dataclass(frozen=True)
class AttentionText:
    """softmax(mask(q k^T)) v over [batch, heads, length, width]; `groups` heads share keys and values.

    `kind` is the type of the operands and the result; scores are f32.
    """

    batch: int = 1
    heads: int = 2
    groups: int = 1
    queries: int = 17
    keys: int = 19
    depth: int = 8
    width: int = 8
    kind: str = "f32"
    mask: str = "none"
    divide_late: bool = False
    by_logarithm: bool = False

    @property
    def scores(self) -> str:
        """The shape of the scores."""
        return f"f32[{self.batch},{self.heads},{self.queries},{self.keys}]"

    def _mask(self) -> str:
        b, h, t, s = self.batch, self.heads, self.queries, self.keys
        wide = self.scores
        grid = f"pred[{t},{s}]"
        within = f"""band = s32[] constant(9)
  bands = s32[{t},{s}] broadcast(band), dimensions={{}}
  jk = s32[{t},{s}] add(j, bands)
  c0 = {grid} compare(i, j), direction=GE
  c1 = {grid} compare(jk, i), direction=GT
  c = {grid} and(c0, c1)"""
        direction = "LE" if self.mask.endswith("later") else "GE"
        comparison = within if self.mask == "window" else f"c = {grid} compare(i, j), direction={direction}"
        zeros = f"{wide} select(cb, zeros, lows)\n  x = {wide} add(dot, w)"
        masked = f"w = {zeros}" if self.mask in ADDED else f"x = {wide} select(cb, dot, lows)"
        causal = f"""
  i = s32[{t},{s}] iota(), iota_dimension=0
  j = s32[{t},{s}] iota(), iota_dimension=1
  {comparison}
  cb = pred[{b},{h},{t},{s}] broadcast(c), dimensions={{2,3}}
  {masked}"""
        low = {**ADDED, "low": "-1.0", "causal_inf": "-inf", "where": "-3.4028235e38"}.get(self.mask, "-2.3819763e+38")
        lows = f"""
  low = f32[] constant({low})
  lows = {wide} broadcast(low), dimensions={{}}
  nil = f32[] constant(0)
  zeros = {wide} broadcast(nil), dimensions={{}}"""
        return {
            "none": "",
            "scale": f"\n  z = f32[] constant(0.125)\n  zs = {wide} broadcast(z), dimensions={{}}\n  x = {wide} multiply(dot, zs)",
            "bias": f"\n  m = f32[{h},{s}] parameter(3)\n  mb = {wide} broadcast(m), dimensions={{1,3}}\n  x = {wide} add(dot, mb)",
            "additive": f"\n  m = f32[{b},{t},{s}] parameter(3)\n  mb = {wide} broadcast(m), dimensions={{0,2,3}}"
            f"\n  x = {wide} add(mb, dot)",
            "where": f"{lows}\n  m = pred[{b},{s}] parameter(3)\n  mb = pred[{b},{h},{t},{s}] broadcast(m), dimensions={{0,3}}"
            f"\n  x = {wide} select(mb, dot, lows)",
            "causal": lows + causal,
            "causal_inf": lows + causal,
            **dict.fromkeys(PLANE_MASKS, lows + causal),
        }[self.mask]  # fmt: skip

    def _shared(self, name: str, width: int) -> str:
        """Keys or values: repeated for the heads that share them."""
        if self.groups == 1:
            return f"\n  {name}h = {self.kind}[{self.batch},{self.heads},{self.keys},{width}] copy({name})"
        wide = f"{self.kind}[{self.batch},{self.heads // self.groups},{self.groups},{self.keys},{width}]"
        return (
            f"\n  {name}g = {wide} broadcast({name}), dimensions={{0,1,3,4}}"
            f"\n  {name}h = {self.kind}[{self.batch},{self.heads},{self.keys},{width}] reshape({name}g)"
        )

    def text(self) -> str:
        """The module, before any pass."""
        b, h, t, s, d, w = self.batch, self.heads, self.queries, self.keys, self.depth, self.width
        kv, kind, wide, rows = h // self.groups, self.kind, self.scores, f"f32[{b},{h},{t}]"
        x = "dot" if self.mask == "none" else "x"
        narrow = "" if kind == "f32" else f"\n  pk = {kind}[{b},{h},{t},{s}] convert(P)"
        p = "P" if kind == "f32" else "pk"
        numbers = "lhs_batch_dims={0,1}, rhs_batch_dims={0,1}"
        if self.divide_late:
            end = f"""
  P = {wide} copy(e){narrow}
  o = {kind}[{b},{h},{t},{w}] dot({p}, vh), {numbers}, lhs_contracting_dims={{3}}, rhs_contracting_dims={{2}}
  lk = {kind}[{b},{h},{t}] convert(l)
  lw = {kind}[{b},{h},{t},{w}] broadcast(lk), dimensions={{0,1,2}}
  ROOT r = {kind}[{b},{h},{t},{w}] divide(o, lw)"""
        else:
            divided = f"""
  lb = {wide} broadcast(l), dimensions={{0,1,2}}
  P = {wide} divide(e, lb)"""
            subtracted = f"""
  ll = {rows} log(l)
  lb = {wide} broadcast(ll), dimensions={{0,1,2}}
  lp = {wide} subtract(y, lb)
  P = {wide} exponential(lp)"""
            end = f"""{subtracted if self.by_logarithm else divided}{narrow}
  ROOT r = {kind}[{b},{h},{t},{w}] dot({p}, vh), {numbers}, lhs_contracting_dims={{3}}, rhs_contracting_dims={{2}}"""
        return (
            REDUCERS.replace("KIND", "f32")
            + f"""ENTRY e {{
  q = {kind}[{b},{h},{t},{d}] parameter(0)
  k = {kind}[{b},{kv},{s},{d}] parameter(1)
  v = {kind}[{b},{kv},{s},{w}] parameter(2){self._shared("k", d)}{self._shared("v", w)}
  dot = {wide} dot(q, kh), {numbers}, lhs_contracting_dims={{3}}, rhs_contracting_dims={{3}}{self._mask()}
  ninf = f32[] constant(-inf)
  zero = f32[] constant(0)
  mx = {rows} reduce({x}, ninf), dimensions={{3}}, to_apply=max
  mb_ = {wide} broadcast(mx), dimensions={{0,1,2}}
  y = {wide} subtract({x}, mb_)
  e = {wide} exponential(y)
  l = {rows} reduce(e, zero), dimensions={{3}}, to_apply=add{end}
}}
"""
        )


def gradient_text(
    batch: int,
    queries: int,
    keys: int,
    depth: int,
    width: int,
    low: str = "-1e9",
    direction: str = "GE",
    added: bool = False,
    forward: bool = False,
) -> str:
    """The gradients of q, k and v of attention over [batch, length, width], given that of the result.

    Scores are masked, by `low`, where row and column do not compare so: they are that, or it is `added` to them.
    With `forward` the result of the attention is a result, too.
    """
    b, t, s, d, w = batch, queries, keys, depth, width
    wide, rows, numbers = f"f32[{b},{t},{s}]", f"f32[{b},{t}]", "lhs_batch_dims={0}, rhs_batch_dims={0}"
    masked = (
        f"w = {wide} select(c, none, lows)\n  x = {wide} add(dot, w)" if added else f"x = {wide} select(c, dot, lows)"
    )
    root = f"  ROOT r = (f32[{b},{t},{d}], f32[{b},{s},{d}], f32[{b},{s},{w}]) tuple(dq, dk, dv)"
    if forward:
        root = (
            f"  o = f32[{b},{t},{w}] dot(p, v), {numbers}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}\n"
            + root
        )
        root = root.replace(") tuple(", f", f32[{b},{t},{w}]) tuple(").replace("dv)", "dv, o)")
    gradient = "copy(dy)" if added else "select(c, dy, none)"
    return (
        REDUCERS.replace("KIND", "f32")
        + f"""ENTRY e {{
  q = f32[{b},{t},{d}] parameter(0)
  k = f32[{b},{s},{d}] parameter(1)
  v = f32[{b},{s},{w}] parameter(2)
  g = f32[{b},{t},{w}] parameter(3)
  dot = {wide} dot(q, k), {numbers}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{2}}
  i = s32[{b},{t},{s}] iota(), iota_dimension=1
  j = s32[{b},{t},{s}] iota(), iota_dimension=2
  c = pred[{b},{t},{s}] compare(i, j), direction={direction}
  low = f32[] constant({low})
  lows = {wide} broadcast(low), dimensions={{}}
  zero = f32[] constant(0)
  none = {wide} broadcast(zero), dimensions={{}}
  {masked}
  ninf = f32[] constant(-inf)
  mx = {rows} reduce(x, ninf), dimensions={{2}}, to_apply=max
  mb = {wide} broadcast(mx), dimensions={{0,1}}
  y = {wide} subtract(x, mb)
  e = {wide} exponential(y)
  l = {rows} reduce(e, zero), dimensions={{2}}, to_apply=add
  lb = {wide} broadcast(l), dimensions={{0,1}}
  p = {wide} divide(e, lb)
  dp = {wide} dot(g, v), {numbers}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{2}}
  pd = {wide} multiply(p, dp)
  rs = {rows} reduce(pd, zero), dimensions={{2}}, to_apply=add
  rb = {wide} broadcast(rs), dimensions={{0,1}}
  dc = {wide} subtract(dp, rb)
  dy = {wide} multiply(p, dc)
  ds = {wide} {gradient}
  dq = f32[{b},{t},{d}] dot(ds, k), {numbers}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}
  dk = f32[{b},{s},{d}] dot(ds, q), {numbers}, lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  dv = f32[{b},{s},{w}] dot(p, g), {numbers}, lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
{root}
}}
"""
    )


def fused(text: str, weighs: bool = True) -> str:
    """The module after the pass, of any size. Its root is the fusion, whose operands are the parameters in order.

    With `weighs` it is a fusion of CPUs.
    """
    module = parse_hlo(text)
    assert AttentionFusion(min_rows=1, scores_per_element=0, weighs=weighs).run(module), "nothing was fused"
    root = module.entry_computation.root_instruction
    assert root.opcode == "fusion"
    order = [o.attributes_as(ParameterAttributes).parameter_number for o in root.operands]
    head, entry = re.split(r"(?=^ENTRY )", str(module), flags=re.MULTILINE)
    entry = re.sub(r"parameter\((\d+)\)", lambda m: f"parameter({order.index(int(m[1]))})", entry)
    return re.sub(r", entry_computation_layout=.*", "", head) + re.sub(r"^(ENTRY \S+) .*", r"\1 {", entry)


def joint_fusion(text: str, joint_batches: int = 1) -> str:
    """A module of the first fusion with several products of the gradient that a text has."""
    module = parse_hlo(text)
    limits = AttentionFusion(min_rows=1, scores_per_element=0, gradient_bytes=0, joint_batches=joint_batches)
    assert limits.run(module), "nothing was fused"
    fusion = next(i for i in module.entry_computation.instructions if i.name.startswith("attention_gradient_fusion"))
    head = re.split(r"(?=^ENTRY )", str(module), flags=re.MULTILINE)[0]
    shapes = [operand.shape.to_string() for operand in fusion.operands]
    lines = [f"  p{n} = {shape} parameter({n})" for n, shape in enumerate(shapes)]
    operands = ", ".join(f"p{n}" for n in range(len(shapes)))
    called = fusion.fused_instructions_computation.name
    lines.append(f"  ROOT r = {fusion.shape.to_string()} fusion({operands}), kind=kCustom, calls={called}")
    return re.sub(r", entry_computation_layout=.*", "", head) + "ENTRY e {\n" + "\n".join(lines) + "\n}\n"


def inputs_of(text: str, seed: int = 0) -> dict[str, Array]:
    """Random inputs by the names of the parameters: masks mostly true, other numbers normal."""
    rng = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for parameter in parse_hlo(text).entry_computation.parameter_instructions:
        dtype, sizes = parameter.shape.dtype, parameter.shape.dimensions
        found[parameter.name] = rng.random(sizes) < 0.7 if dtype == np.bool_ else rng.normal(size=sizes).astype(dtype)
    return found
