"""What the cases are written over: computations and parameters, and the module that a case becomes."""

from __future__ import annotations

import re

Valid = tuple[str, str]
"""An instruction, and the shape that it has."""
Broken = tuple[str, str, str]
"""An instruction, the shape that it declares, and what is wrong with it."""

COMPUTATIONS = """
add_f32 { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
add_s32 { a = s32[] parameter(0)  b = s32[] parameter(1)  ROOT r = s32[] add(a, b) }
three { a = f32[] parameter(0)  b = f32[] parameter(1)  c = f32[] parameter(2)  ROOT r = f32[] add(a, b) }
vector { a = f32[2] parameter(0)  b = f32[2] parameter(1)  ROOT r = f32[2] add(a, b) }
less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = pred[] compare(a, b), direction=LT }
less_s32 { a = s32[] parameter(0)  b = s32[] parameter(1)  ROOT r = pred[] compare(a, b), direction=LT }
less_pairs { a = f32[] parameter(0)  b = f32[] parameter(1)  c = s32[] parameter(2)  d = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=GT }
argmax { a = f32[] parameter(0)  i = s32[] parameter(1)  b = f32[] parameter(2)  j = s32[] parameter(3)
  ROOT r = (f32[], s32[]) tuple(a, i) }
twice { a = f32[] parameter(0)  ROOT r = f32[] add(a, a) }
to_pred { a = f32[] parameter(0)  b = s32[] parameter(1)  ROOT r = pred[] constant(true) }
carry { x = f32[3] parameter(0)  c = f32[3] parameter(1)  s = f32[3] add(x, c)
  ROOT r = (f32[3], f32[3]) tuple(s, s) }
mixed_carry { x = f32[3] parameter(0)  c = s32[] parameter(1)  ROOT r = (f32[3], s32[]) tuple(x, c) }
state_body { s = (s32[], f32[8,3]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  x = f32[8,3] get-tuple-element(s), index=1  ROOT r = (s32[], f32[8,3]) tuple(i, x) }
state_cond { s = (s32[], f32[8,3]) parameter(0)  ROOT r = pred[] constant(false) }
array_cond { x = f32[8,3] parameter(0)  ROOT r = f32[8,3] negate(x) }
branch_a { x = f32[8,3] parameter(0)  ROOT r = f32[8,3] negate(x) }
branch_b { y = s32[8] parameter(0)  ROOT r = f32[8,3] constant({...}) }
branch_c { y = s32[8] parameter(0)  ROOT r = s32[8] negate(y) }
fused { x = f32[8,3] parameter(0)  y = f32[8,3] parameter(1)  ROOT r = f32[8,3] add(x, y) }
"""

PARAMETERS = """
x = f32[8,3]  y = f32[]  p = pred[8,3]  q = pred[]  i = s32[8]  n = s32[]  u = u32[2]  c = c64[2,2]  d = f32[<=8,3]
h = bf16[8,3]  j = s8[8,3]  b = u8[8,3,4]  k = f32[2,3,5]  l = f32[2,5,7]  g = s32[2]  v = f32[3]  z = f32[0,3]
w = f32[3,4]  sl = f8e8m0fnu[8,1]  sr = f8e8m0fnu[1,4]  im = f32[2,9,9,4]  ke = f32[3,3,4,6]  kg = f32[3,3,2,6]
a = f64[5,5]  e = f64[5,2]  bn = f32[4]  r = f32[2,8]  ir = c64[2,5]  none = c64[2,0]  ix = s32[6,2]  up = f32[6,3]  up2 = f32[6]
t = token[]  tu = (s32[], f32[8,3])  h8 = u16[8,3]  bi = s32[2,6,1]  st = u64[2]  cc = c64[8,3]  o = f32[4,1]
sz = s64[2]  f = f64[8,3]  it = s32[8,3]  ub = u8[4]
"""

_ROW = re.compile(r"(\w+) = (\([^)]*\)|\S+)")


def module_text(instruction: str, shape: str) -> str:
    """Returns a module whose entry computes `instruction` from the parameters it names; the ROOT is line 2 or later."""
    used = set(re.findall(r"\w+", instruction[instruction.index("(") :]))
    rows = [(name, kind) for name, kind in _ROW.findall(PARAMETERS) if name in used]
    lines = [f"  {name} = {kind} parameter({n})" for n, (name, kind) in enumerate(rows)]
    called = [c for c in re.split(r"\n(?=\w)", COMPUTATIONS.strip()) if re.search(rf"\b{c.split()[0]}\b", instruction)]
    spaced = "\n".join(re.sub(r"  (?=\w)", "\n  ", c) for c in called).replace(
        "{...}", "{" + "{0,0,0}," * 7 + "{0,0,0}}"
    )
    declared = f"{shape} " if shape else ""
    body = "\n".join(lines)
    return f"HloModule case\n{spaced}\nENTRY e {{\n{body}\n  ROOT result = {declared}{instruction}\n}}\n"
