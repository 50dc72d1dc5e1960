"""`IRBuilder`: writes LLVM IR text, with the method names of `llvmlite.ir.IRBuilder`.

Invariants: every method checks the types it depends on and raises TypeError; names are unique hints; the default is
strict IEEE arithmetic. The parts are in `builder_base`, `builder_integer`, `builder_float`, `builder_memory`,
`builder_vector`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xjit.llvm.builder_base import same_type
from xjit.llvm.builder_vector import VectorBuilder
from xjit.llvm.function import Block, Phi
from xjit.llvm.types import I1, LLVMType
from xjit.llvm.values import Value


class IRBuilder(VectorBuilder):
    """Everything of the parts, and control flow."""

    __slots__ = ()

    def phi(self, type: LLVMType, incoming: Sequence[tuple[Value, Block]] = (), name: str = "phi") -> Phi:
        """A phi node at the head of the block; `add_incoming` may be called until the function is printed."""
        phi = Phi(type, f"%{name}.{self._function.number()}", None, list(incoming))
        self._block.phis.append(phi)
        return phi

    def if_then(
        self, condition: Value, emit: Callable[[], Sequence[Value]], otherwise: Sequence[Value], *, likely: bool = False
    ) -> list[Value]:
        """The values of `emit()` if `condition` (i1) holds, else `otherwise`: a branch inside the current block.

        The block stays the same object, so code may be hoisted into it before and after. `emit` must not move the
        builder.
        """
        if condition.type is not I1:
            raise TypeError(f"if_then needs an i1, not {condition}")
        block, number = self._block, self._function.number()
        taken, skipped = (1 << 16, 1) if likely else (1, 1 << 16)
        weights = self.module.add_metadata(f'!{{!"branch_weights", i32 {taken}, i32 {skipped}}}')
        before, then, join = block.exit_label, f"then.{number}", f"join.{number}"
        self._lines.append(f"br {condition.typed}, label %{then}, label %{join}, !prof {weights}")
        self._enter(then)
        values = emit()
        end = block.exit_label
        self._lines.append(f"br label %{join}")
        self._enter(join)
        return [
            self._value(
                f"phi {same_type(a, b, 'if_then').text} [ {a.text}, %{end} ], [ {b.text}, %{before} ]", a.type, "join"
            )
            for a, b in zip(values, otherwise, strict=True)
        ]

    def return_if(self, condition: Value, before: Callable[[], None] | None = None) -> None:
        """Leaves a function without result if `condition` (i1) holds, which is rare; `before` emits what it does first.

        The block stays the same object, as for `if_then`.
        """
        if condition.type is not I1:
            raise TypeError(f"return_if needs an i1, not {condition}")
        number = self._function.number()
        weights = self.module.add_metadata(f'!{{!"branch_weights", i32 1, i32 {1 << 16}}}')
        self._lines.append(f"br {condition.typed}, label %leave.{number}, label %stay.{number}, !prof {weights}")
        self._enter(f"leave.{number}")
        if before is not None:
            before()
        self._lines.append("ret void")
        self._enter(f"stay.{number}")

    def do_while(
        self, initial: Sequence[Value], body: Callable[[Sequence[Value]], tuple[Value, Sequence[Value]]]
    ) -> list[Value]:
        """Runs `body(state) -> (continue as i1, next state)` at least once, as a loop inside the current block.

        Returns the last state. `body` must not move the builder.
        """
        block, number = self._block, self._function.number()
        before, loop, after = block.exit_label, f"loop.{number}", f"after.{number}"
        self._lines.append(f"br label %{loop}")
        self._enter(loop)
        state = [Value(value.type, f"%state.{self._function.number()}") for value in initial]
        phi_position = len(self._lines)
        condition, following = body(state)
        end = block.exit_label
        phis = [
            f"{phi.text} = phi {same_type(first, again, 'do_while').text} "
            f"[ {first.text}, %{before} ], [ {again.text}, %{end} ]"
            for phi, first, again in zip(state, initial, following, strict=True)
        ]
        self._lines[phi_position:phi_position] = phis
        self._lines.append(f"br {condition.typed}, label %{loop}, label %{after}")
        self._enter(after)
        return list(following)

    def _enter(self, label: str) -> None:
        self._lines.append(f"{label}:")
        self._block.exit_label = label

    def br(self, target: Block) -> None:
        """Jumps."""
        self._terminate(f"br label {target.operand}")

    def cbranch(
        self, condition: Value, true_block: Block, false_block: Block, weights: tuple[int, int] | None = None
    ) -> None:
        """Jumps to one of two blocks; `weights` say how often each is expected."""
        if condition.type is not I1:
            raise TypeError(f"cbranch needs an i1, not {condition}")
        attachment = ""
        if weights is not None:
            body = f'!{{!"branch_weights", i32 {weights[0]}, i32 {weights[1]}}}'
            attachment = f", !prof {self.module.add_metadata(body)}"
        self._terminate(f"br {condition.typed}, label {true_block.operand}, label {false_block.operand}{attachment}")

    def switch(self, value: Value, default: Block, cases: Sequence[tuple[int, Block]]) -> None:
        """Jumps by the value of an integer."""
        body = " ".join(f"{value.type.text} {number}, label {block.operand}" for number, block in cases)
        self._terminate(f"switch {value.typed}, label {default.operand} [ {body} ]")

    def ret(self, value: Value) -> None:
        """Returns a value."""
        if value.type is not self._function.return_type:
            raise TypeError(f"@{self._function.name} returns {self._function.return_type}, not {value}")
        self._terminate(f"ret {value.typed}")

    def ret_void(self) -> None:
        """Returns nothing."""
        self._terminate("ret void")

    def unreachable(self) -> None:
        """Says that control never gets here."""
        self._terminate("unreachable")

    def _terminate(self, text: str) -> None:
        if self._block.terminator is not None:
            raise AssertionError(f"block {self._block.label} has a terminator already: {self._block.terminator}")
        self._block.terminator = text
