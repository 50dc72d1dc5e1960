"""Small branches and loops inside the current block.

The block stays the same object, so code may be hoisted into it before and after. What is emitted inside must not move
the builder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xjit.llvm.builder import IRBuilder
from xjit.llvm.types import I1
from xjit.llvm.values import Value, same_type

_RARE, _OFTEN = 1, 1 << 16


def if_then(
    builder: IRBuilder,
    condition: Value,
    emit: Callable[[], Sequence[Value]],
    otherwise: Sequence[Value],
    *,
    likely: bool = False,
) -> list[Value]:
    """The values of `emit()` if `condition` (i1) holds, else `otherwise`."""
    block, number = builder.block, builder.function.number()
    before, then, join = block.exit_label, f"then.{number}", f"join.{number}"
    _branch(builder, condition, then, join, (_OFTEN, _RARE) if likely else (_RARE, _OFTEN))
    _enter(builder, then)
    values = emit()
    end = block.exit_label
    builder.write(f"br label %{join}")
    _enter(builder, join)
    return [
        builder.assign(
            f"phi {same_type(a, b, 'if_then').text} [ {a.text}, %{end} ], [ {b.text}, %{before} ]", a.type, "join"
        )
        for a, b in zip(values, otherwise, strict=True)
    ]


def return_if(builder: IRBuilder, condition: Value, before: Callable[[], Value | None] | None = None) -> None:
    """Leaves a function if `condition` (i1) holds, which is rare; `before` emits what it does first, and gives its
    result if it has one.
    """
    number = builder.function.number()
    leave, stay = f"leave.{number}", f"stay.{number}"
    _branch(builder, condition, leave, stay, (_RARE, _OFTEN))
    _enter(builder, leave)
    result = before() if before is not None else None
    builder.write("ret void" if result is None else f"ret {result.typed}")
    _enter(builder, stay)


def do_while(
    builder: IRBuilder, initial: Sequence[Value], body: Callable[[Sequence[Value]], tuple[Value, Sequence[Value]]]
) -> list[Value]:
    """Runs `body(state) -> (continue as i1, next state)` at least once. Returns the last state."""
    block, number = builder.block, builder.function.number()
    before, loop, after = block.exit_label, f"loop.{number}", f"after.{number}"
    builder.write(f"br label %{loop}")
    _enter(builder, loop)
    state = [Value(value.type, f"%state.{builder.function.number()}") for value in initial]
    phi_position = len(block.lines)
    condition, following = body(state)
    end = block.exit_label
    block.lines[phi_position:phi_position] = [
        f"{phi.text} = phi {same_type(first, again, 'do_while').text} "
        f"[ {first.text}, %{before} ], [ {again.text}, %{end} ]"
        for phi, first, again in zip(state, initial, following, strict=True)
    ]
    builder.write(f"br {condition.typed}, label %{loop}, label %{after}")
    _enter(builder, after)
    return list(following)


def _branch(builder: IRBuilder, condition: Value, then: str, other: str, weights: tuple[int, int]) -> None:
    if condition.type is not I1:
        raise TypeError(f"a branch needs an i1, not {condition}")
    node = builder.module.add_metadata(f'!{{!"branch_weights", i32 {weights[0]}, i32 {weights[1]}}}')
    builder.write(f"br {condition.typed}, label %{then}, label %{other}, !prof {node}")


def _enter(builder: IRBuilder, label: str) -> None:
    builder.write(f"{label}:")
    builder.block.exit_label = label
