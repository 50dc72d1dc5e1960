"""A cumulative reduce-window that tells the order of its operands: the last number that is not zero."""

from __future__ import annotations


def last_set(shape: tuple[int, int], backwards: bool) -> str:
    """Returns HLO text: rows of s32 in, for each element the last one of its window, which is a row's part."""
    rows, n = shape
    pad = f"0_{n - 1}" if backwards else f"{n - 1}_0"
    return f"""HloModule m
f {{
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  none = s32[] constant(0)
  is_none = pred[] compare(b, none), direction=EQ
  ROOT r = s32[] select(is_none, a, b)
}}
ENTRY e {{
  x = s32[{rows},{n}] parameter(0)
  i = s32[] constant(0)
  ROOT w = s32[{rows},{n}] reduce-window(x, i), window={{size=1x{n} pad=0_0x{pad}}}, to_apply=f
}}
"""
