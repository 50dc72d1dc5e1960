"""The HLO text of small modules that instances of the simplifier's rules are made of; T is any element type."""

from __future__ import annotations


def reducer(opcode: str) -> str:
    return f"f {{ a = T[] parameter(0) b = T[] parameter(1) ROOT c = T[] {opcode}(a, b) }} "


def reduce(opcode: str, inputs: str, shape: str, dims: str, init: str = "constant(0)") -> str:
    """The module of a reduction of `x`, which `inputs` compute."""
    reduce = f"ROOT r = {shape} reduce(x, init), dimensions={{{dims}}}, to_apply=f"
    return f"{reducer(opcode)}ENTRY e {{ {inputs} init = T[] {init} {reduce} }}"


def reduce_window(opcode: str, inputs: str, shape: str, window: str, init: int = 0) -> str:
    root = f"ROOT r = {shape} reduce-window(x, init), window={{{window}}}, to_apply=f"
    return f"{reducer(opcode)}ENTRY e {{ {inputs} init = T[] constant({init}) {root} }}"


def moves(*bodies: str) -> tuple[str, ...]:
    return tuple(f"ENTRY e {{ {body} }}" for body in bodies)
