"""Prints the statements of a schedule, one a line, with the bounds of each variable where it is bound."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import AffineExpr, Interval
from xjit.emitters.schedule.statements import (
    Barrier,
    Bind,
    Clear,
    Combine,
    Complete,
    Contract,
    Fetch,
    Give,
    Init,
    Lanes,
    Let,
    Loop,
    Normalize,
    Part,
    Reduce,
    ReduceRows,
    Reduction,
    Rescale,
    Role,
    SoftmaxStep,
    Stage,
    StageOperand,
    StageSum,
    Statement,
    Store,
)


class Printer:
    """The lines so far. `//` starts a remark that says what follows from the rest."""

    def __init__(self, variables: Sequence[Interval]) -> None:
        self._variables = variables
        self._indentation = 1
        self.lines: list[str] = []

    def let(self, let: Let) -> None:
        """Prints a variable that is read from an element."""
        self._line(f"let {self._bounds(let.variable)} = {_element(let.instruction, let.index)}")

    def part(self, part: Part, units: int) -> None:
        """Prints a part with its tiles and statements."""
        self._open("part", f"{units} {'unit' if units == 1 else 'units'}")
        for tile in part.tiles:
            over = f" over {_variables(tile.over)}" if tile.over else ""
            place = f" at {tile.place}" if tile.place is not None else ""
            self._line(f"tile %{tile.instruction}{over} in {tile.memory.value}{place}")
        for operand in part.operands:
            rows, steps = operand.sizes
            name = f"operand {operand.operand} of %{operand.instruction}"
            self._line(f"{name} as {operand.kind} {rows} x {steps} at {operand.place}")
        self._body(part.body)
        self._close()

    def _line(self, text: str) -> None:
        self.lines.append("  " * self._indentation + text)

    def _open(self, text: str, remark: str = "") -> None:
        self._line(f"{text} {{" + (f"  // {remark}" if remark else ""))
        self._indentation += 1

    def _close(self) -> None:
        self._indentation -= 1
        self._line("}")

    def _bounds(self, variable: int) -> str:
        return f"d{variable} in {self._variables[variable]}"

    def _body(self, body: Sequence[Statement]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, statement: Statement) -> None:
        match statement:
            case Loop():
                self._loop(statement)
            case Let():
                self.let(statement)
            case Reduce(reduction, where_needed, fetches_next):
                words = [" where needed"] * where_needed + [" and fetch next"] * fetches_next
                self._reduction(f"reduce{''.join(words)}", reduction)
            case ReduceRows(reduction, variable):
                self._reduction(f"reduce rows {self._bounds(variable)} of", reduction)
            case Combine(reduction):
                self._reduction("combine", reduction)
            case Fetch(instruction, index):
                self._line(f"fetch {_element(instruction, index)}")
            case Init(instruction, index):
                self._line(f"init {_element(instruction, index)}")
            case Stage(instruction, index):
                self._line(f"stage {_element(instruction, index)}")
            case Rescale(instruction, by, computation):
                self._line(f"rescale %{instruction} by %{by} with %{computation}")
            case Barrier():
                self._line("barrier")
            case Store(result, place, instruction, index, output):
                self._line(f"out{result}[{_list(place)}] = {_element(instruction, index, output)}")
            case Bind(variable, value, body, lanes):
                words = f"bind vector({lanes})" if lanes else "bind"
                self._open(f"{words} {self._bounds(variable)} to {value}")
                self._body(body)
                self._close()
            case StageOperand():
                self._stage_operand(statement)
            case Clear(instruction):
                self._line(f"clear %{instruction}")
            case Contract(instruction, rows, step, unit):
                blocks = ", ".join(f"{operand}[{row}]" for operand, row in rows)
                self._line(f"contract %{instruction} of {blocks} step {step}" + (f" by {unit}" if unit else ""))
            case Give(instruction, index, source):
                self._line(f"give {_element(instruction, index)}" + (f" from %{source}" if source else ""))
            case Complete(instruction, source, index, outside):
                self._line(f"complete %{instruction} with {_element(source, index)} or {outside:g}")
            case SoftmaxStep():
                self._softmax_step(statement)
            case Normalize(instruction, total, row):
                self._line(f"normalize %{instruction} by %{total} at {row}")
            case StageSum(instruction, operand, source, at):
                self._line(f"stage operand {operand} of %{instruction} from %{source} at ({_list(at)})")

    def _softmax_step(self, step: SoftmaxStep) -> None:
        rows, sums = step.rows
        scores, state = f"%{step.instruction} at {rows}", f"%{step.maximum}, %{step.total} and %{step.sums} at {sums}"
        self._line(f"softmax {scores} with {state} for {self._bounds(step.variable)} by {step.lanes} lanes")

    def _stage_operand(self, stage: StageOperand) -> None:
        element = f"{_element(stage.instruction, stage.index)} of ({_list(stage.symbols)})"
        self._line(f"stage operand {stage.operand} of {element} at ({_list(stage.at)}) along {stage.along}")

    def _loop(self, loop: Loop) -> None:
        lanes = f"vector({loop.lanes})" if loop.lanes else ""
        role = "" if loop.role is Role.VECTOR else loop.role.value
        words = [w for w in (role, lanes) if w]
        text = f"{' '.join(words)} {self._bounds(loop.variable)}"
        if loop.transposes is not None:
            text += f" transposes d{loop.transposes}"
        if loop.carries:
            text += f" carries {_names(loop.carries)}"
        bounds = self._variables[loop.variable]
        rest = (bounds.upper - bounds.lower + 1) % loop.lanes if loop.lanes else 0
        self._open(text, f"last step: {rest} of {loop.lanes} lanes" if rest else "")
        self._body(loop.body)
        self._close()

    def _reduction(self, word: str, reduction: Reduction) -> None:
        text = f"{word} {_element(reduction.instruction, reduction.index)} {reduction.combination.value}"
        loops = [self._bounds(v) for v in reduction.loops]
        if reduction.lanes is not None:
            loops.append(self._lanes(reduction.lanes))
        if loops:
            text += f" over {', '.join(loops)}"
        text += f" of {', '.join(f'({_list(step)})' for step in reduction.steps)}"
        if reduction.keeps:
            text += f" keeps {_names(reduction.keeps)}"
        if not reduction.within:
            self._line(text)
            return
        self._open(text)
        for inner in reduction.within:
            self._reduction("reduce", inner)
        self._close()

    def _lanes(self, lanes: Lanes) -> str:
        first = f" after {self._bounds(lanes.first)}" if lanes.first is not None else ""
        role = "" if lanes.role is Role.VECTOR else f"{lanes.role.value} "
        return f"{role}vector({lanes.width}) x {lanes.chains} {self._bounds(lanes.variable)}{first}"


def _list(expressions: Sequence[AffineExpr]) -> str:
    return ", ".join(str(e) for e in expressions)


def _element(instruction: str, index: Sequence[AffineExpr], output: int = 0) -> str:
    return f"%{instruction}{f'#{output}' if output else ''}[{_list(index)}]"


def _names(names: Sequence[str]) -> str:
    return ", ".join(f"%{name}" for name in names)


def _variables(positions: Sequence[int]) -> str:
    return ", ".join(f"d{p}" for p in positions)
