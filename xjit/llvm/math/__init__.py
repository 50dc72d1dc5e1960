"""Inline math for scalars and vectors of any width: no calls, no tables beyond a few constants.

`vec.Vec` is the arithmetic notation, `math_functions` the index by name. All functions are written once for f32 and
f64.
"""
