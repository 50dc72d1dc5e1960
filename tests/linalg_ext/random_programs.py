"""Random functions of structured ops on small tensors, as text."""

from __future__ import annotations

import random
from math import prod

Shape = tuple[int, ...]


def _type(shape: Shape) -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}f32>"


def _map(rank: int, results: list[str]) -> str:
    return f"affine_map<({', '.join(f'd{i}' for i in range(rank))}) -> ({', '.join(results)})>"


class RandomProgram:
    """Grows a function operation by operation; `values` are what is there so far."""

    BINARY = ("arith.addf", "arith.subf", "arith.mulf", "arith.maximumf", "arith.minimumf")
    UNARY = ("arith.negf", "math.absf", "math.tanh")

    def __init__(self, seed: int, num_ops: int) -> None:
        self.rng = random.Random(seed)
        self.lines: list[str] = ["%one = arith.constant 1.5 : f32", "%zero = arith.constant 0.0 : f32"]
        self.values: list[tuple[str, Shape]] = []
        self.number = 0
        self.sizes = [self.rng.choice((1, 2, 3, 4)) for _ in range(3)]
        arguments = []
        for i in range(self.rng.randint(1, 3)):
            shape = tuple(self.rng.choice(self.sizes) for _ in range(self.rng.randint(1, 3)))
            self.values.append((f"%arg{i}", shape))
            arguments.append(f"%arg{i}: {_type(shape)}")
        self.arguments = ", ".join(arguments)
        steps = (
            self.elementwise,
            self.elementwise,
            self.elementwise,
            self.reduction,
            self.move,
            self.reshape,
            self.map,
        )
        for _ in range(num_ops):
            self.rng.choice(steps)()

    def fresh(self) -> str:
        self.number += 1
        return f"%v{self.number}"

    def empty(self, shape: Shape) -> str:
        name = self.fresh()
        self.lines.append(f"{name} = tensor.empty() : {_type(shape)}")
        return name

    def pick(self) -> tuple[str, Shape]:
        """Later values are likelier."""
        return self.rng.choice(self.values[-4:] if self.rng.random() < 0.7 else self.values)

    def readable(self, shape: Shape) -> list[tuple[str, Shape, list[str]]]:
        """Returns values that a loop nest over `shape` can read, with indices: loops, each once, or 0."""
        found = []
        for name, other in self.values:
            free = list(range(len(shape)))
            indices: list[str] = []
            for n in other:
                fitting = [i for i in free if shape[i] == n]
                if n == 1 and (not fitting or self.rng.random() < 0.3):
                    indices.append("0")
                elif fitting:
                    indices.append(f"d{fitting[0]}" if self.rng.random() < 0.8 else f"d{self.rng.choice(fitting)}")
                    free.remove(int(indices[-1][1:]))
            if len(indices) == len(other):
                found.append((name, other, indices))
        return found

    def scalar_code(self, operands: list[str], loops: int) -> tuple[list[str], list[str]]:
        """Returns lines of a body and the values in it that depend on something."""
        lines: list[str] = []
        values = list(operands)
        for _ in range(self.rng.randint(1, 3)):
            name = self.fresh()
            a, b = self.rng.choice(values), self.rng.choice([*values, "%one"])
            if self.rng.random() < 0.7:
                lines.append(f"{name} = {self.rng.choice(self.BINARY)} {a}, {b} : f32")
            else:
                lines.append(f"{name} = {self.rng.choice(self.UNARY)} {a} : f32")
            values.append(name)
        if loops and self.rng.random() < 0.15:
            index, integer, name = self.fresh(), self.fresh(), self.fresh()
            lines.append(f"{index} = linalg.index {self.rng.randrange(loops)} : index")
            lines.append(f"{integer} = arith.index_cast {index} : index to i32")
            lines.append(f"{name} = arith.sitofp {integer} : i32 to f32")
            total = self.fresh()
            lines.append(f"{total} = arith.addf {values[-1]}, {name} : f32")
            values += [name, total]
        return lines, values[len(operands) :]

    def generic(
        self, inputs: list[tuple[str, Shape, list[str]]], outputs: list[tuple[str, Shape, list[str]]], kinds: list[str]
    ) -> None:
        rank = len(kinds)
        arguments = [f"%in{i}" for i in range(len(inputs))]
        outs = [f"%out{i}" for i in range(len(outputs))]
        reduces = "reduction" in kinds
        lines, made = self.scalar_code(arguments, rank)
        yielded = [self.rng.choice(made) for _ in outputs]
        if reduces:
            total = self.fresh()
            lines.append(f"{total} = arith.addf {outs[0]}, {yielded[0]} : f32")
            yielded = [total]
        maps = ", ".join(_map(rank, indices) for _, _, indices in (*inputs, *outputs))
        names = ", ".join(name for name, _, _ in inputs)
        types = ", ".join(_type(shape) for _, shape, _ in inputs)
        inits, init_types = ", ".join(n for n, _, _ in outputs), ", ".join(_type(s) for _, s, _ in outputs)
        result = self.fresh()
        many = f":{len(outputs)}" if len(outputs) > 1 else ""
        quoted = ", ".join(f'"{k}"' for k in kinds)
        self.lines.append(
            f"{result}{many} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{quoted}]}}"
            f" ins({names} : {types}) outs({inits} : {init_types}) {{"
        )
        block = ", ".join(f"{a}: f32" for a in (*arguments, *outs))
        self.lines += [f"^bb0({block}):", *(f"  {line}" for line in lines)]
        self.lines.append(f"  linalg.yield {', '.join(yielded)} : {', '.join(['f32'] * len(outputs))}")
        self.lines.append(f"}} -> {init_types if not many else f'({init_types})'}")
        for i, (_, shape, _) in enumerate(outputs):
            self.values.append((f"{result}#{i}" if many else result, shape))

    def elementwise(self) -> None:
        _, shape = self.pick()
        candidates = self.readable(shape)
        inputs = [self.rng.choice(candidates) for _ in range(self.rng.randint(1, 3))]
        loops = [f"d{i}" for i in range(len(shape))]
        outputs = []
        for _ in range(1 if self.rng.random() < 0.7 else 2):
            order = self.rng.sample(range(len(shape)), len(shape)) if self.rng.random() < 0.2 else range(len(shape))
            out = tuple(shape[i] for i in order)
            init = self.rng.choice([v for v, s in self.values if s == out] or [self.empty(out)])
            init = init if self.rng.random() < 0.2 else self.empty(out)
            outputs.append((init, out, [loops[i] for i in order]))
        self.generic(inputs, outputs, ["parallel"] * len(shape))

    def reduction(self) -> None:
        _, shape = self.pick()
        inputs = [self.rng.choice(self.readable(shape))]
        if not shape or sorted(e for e in inputs[0][2] if e != "0") != [f"d{i}" for i in range(len(shape))]:
            return
        reduced = self.rng.randrange(len(shape))
        kept = [i for i in range(len(shape)) if i != reduced]
        out = tuple(shape[i] for i in kept)
        init, filled = self.empty(out), self.fresh()
        self.lines.append(f"{filled} = linalg.fill ins(%zero : f32) outs({init} : {_type(out)}) -> {_type(out)}")
        kinds = ["reduction" if i == reduced else "parallel" for i in range(len(shape))]
        self.generic(inputs, [(filled, out, [f"d{i}" for i in kept])], kinds)

    def move(self) -> None:
        """A transpose, a broadcast, or a fill."""
        name, shape = self.pick()
        result = self.fresh()
        if self.rng.random() < 0.3:
            init = self.empty(shape)
            self.lines.append(f"{result} = linalg.fill ins(%one : f32) outs({init} : {_type(shape)}) -> {_type(shape)}")
            self.values.append((result, shape))
            return
        if self.rng.random() < 0.5:
            order = self.rng.sample(range(len(shape)), len(shape))
            out = tuple(shape[i] for i in order)
            word, numbers = "transpose", f"permutation = {order}"
        elif len(shape) < 3:
            axis = self.rng.randint(0, len(shape))
            out = (*shape[:axis], self.rng.choice(self.sizes), *shape[axis:])
            word, numbers = "broadcast", f"dimensions = [{axis}]"
        else:
            return
        init = self.empty(out)
        self.lines.append(
            f"{result} = linalg.{word} ins({name} : {_type(shape)}) outs({init} : {_type(out)}) {numbers}"
        )
        self.values.append((result, out))

    def reshape(self) -> None:
        name, shape = self.pick()
        result = self.fresh()
        if not shape:
            return
        if len(shape) > 1:
            axis = self.rng.randrange(len(shape) - 1)
            groups = [[i] for i in range(axis)] + [[axis, axis + 1]] + [[i] for i in range(axis + 2, len(shape))]
            out = (*shape[:axis], prod(shape[axis : axis + 2]), *shape[axis + 2 :])
            self.lines.append(f"{result} = tensor.collapse_shape {name} {groups} : {_type(shape)} into {_type(out)}")
        else:
            factor = self.rng.choice([n for n in (1, 2, 3) if shape[0] % n == 0])
            out = (factor, shape[0] // factor)
            self.lines.append(
                f"{result} = tensor.expand_shape {name} [[0, 1]] output_shape {list(out)}"
                f" : {_type(shape)} into {_type(out)}"
            )
        self.values.append((result, out))

    def map(self) -> None:
        name, shape = self.pick()
        other = self.rng.choice([v for v, s in self.values if s == shape])
        init, result = self.empty(shape), self.fresh()
        t = _type(shape)
        self.lines += [
            f"{result} = linalg.map ins({name}, {other} : {t}, {t}) outs({init} : {t}) (%a: f32, %b: f32) {{",
            f"  {result}x = {self.rng.choice(self.BINARY)} %a, %b : f32",
            f"  linalg.yield {result}x : f32",
            "}",
        ]
        self.values.append((result, shape))

    def text(self) -> str:
        """Returns the module; it returns up to three values, the last one among them."""
        made = [v for v in self.values if not v[0].startswith("%arg")] or self.values
        returned = list(dict.fromkeys([made[-1], *self.rng.sample(made, min(2, len(made)))]))
        types = ", ".join(_type(s) for _, s in returned)
        body = "\n".join(f"  {line}" for line in self.lines)
        names = ", ".join(v for v, _ in returned)
        return f"func.func @f({self.arguments}) -> ({types}) {{\n{body}\n  return {names} : {types}\n}}\n"


def random_program(seed: int, num_ops: int = 8) -> str:
    """Returns the text of a module with a function @f of f32 tensors."""
    return RandomProgram(seed, num_ops).text()
