"""The one structural key: what an instruction, a graph, a computation is, whatever its names, ids and metadata.

Structural equality, `identical`, content hashes, CSE, fingerprints and the sharing of kernels all compare these keys.
An absent layout is row-major, a backend config is its JSON value, frontend attributes have no order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from xjit.hlo.annotations.backend_config import canonical_backend_config

if TYPE_CHECKING:
    from xjit.hlo.ir.computation import HloComputation
    from xjit.hlo.ir.instruction import HloInstruction

Numbers = Mapping["HloInstruction", int]


def content_key(instruction: HloInstruction, layouts: bool = True, annotations: bool = True) -> tuple[Hashable, ...]:
    """Returns what an instruction is apart from its operands, control edges and called computations.

    Without `layouts`, those of the shape do not count; without `annotations`, neither do sharding, backend config and
    frontend attributes.
    """
    shape, op = instruction.shape, instruction.op
    text = shape.text_with_default_layouts if layouts else shape.to_string(layout=False)
    return (op.name, text, instruction.attributes, annotation_key(instruction) if annotations else None)


def annotation_key(instruction: HloInstruction) -> Hashable:
    """Returns what counts of the annotations: None if there are none."""
    config, frontend, sharding = instruction.raw_backend_config, instruction.frontend_attributes, instruction.sharding
    if not config and not frontend and sharding is None:
        return None
    return (canonical_backend_config(config) if config else "", sharding, tuple(sorted(frontend.items())))


def graph_key(
    order: Sequence[HloInstruction],
    outside: Numbers,
    roots: Iterable[HloInstruction],
    content: Callable[[HloInstruction], Hashable],
    callee: Callable[[HloComputation], Hashable],
) -> Hashable:
    """Returns the key of a graph: its instructions, operands first, and its roots.

    `outside` numbers (below 0) what is read, but not part of the graph; `content` and `callee` give the keys of
    instructions and of the computations that they call.
    """
    numbers = dict(outside)
    rows: list[Hashable] = []
    for number, instruction in enumerate(order):
        numbers[instruction] = number
        called = tuple([callee(c) for c in instruction.called_computations]) if instruction.op.called else ()
        before = instruction.control_predecessors
        waits = tuple([numbers[p] for p in before if p in numbers]) if before else ()
        rows.append((content(instruction), tuple([numbers[o] for o in instruction.operands]), waits, called))
    return (tuple(rows), tuple([numbers[root] for root in roots]))


class StructuralKeys:
    """Hands out one small number per structure: equal numbers mean equal structure (exactly, not by hash).

    Numbers of computations are remembered, so keep an instance only while the called computations do not change.
    """

    def __init__(self, layouts: bool = True, annotations: bool = True) -> None:
        self._layouts = layouts
        self._annotations = annotations
        self._numbers: dict[Hashable, int] = {}
        self._computations: dict[HloComputation, int] = {}

    def number(self, key: Hashable) -> int:
        """Returns the number of a key: the same for equal keys."""
        return self._numbers.setdefault(key, len(self._numbers))

    def instruction_key(self, instruction: HloInstruction, operands: tuple[Hashable, ...]) -> Hashable:
        """Returns what identifies an instruction, `operands` tell its operands: all but control edges."""
        content = content_key(instruction, self._layouts, self._annotations)
        if not instruction.op.called:
            return (content, operands)
        return (content, operands, tuple([self.computation(c) for c in instruction.called_computations]))

    def computation(self, computation: HloComputation) -> int:
        """Returns the number of a computation's structure, with all that it calls."""
        stack: list[tuple[HloComputation, bool]] = [(computation, False)]
        while stack:
            item, ready = stack.pop()
            if item in self._computations:
                continue
            if ready:
                self._computations[item] = self.number(self._computation_key(item))
                continue
            stack.append((item, True))
            stack.extend((callee, False) for callee in item.callees())
        return self._computations[computation]

    def _computation_key(self, computation: HloComputation) -> Hashable:
        return graph_key(
            computation.make_instruction_post_order(),
            {},
            [computation.root_instruction],
            self._content,
            self._computations.__getitem__,
        )

    def _content(self, instruction: HloInstruction) -> int:
        key = content_key(instruction, self._layouts, self._annotations)
        return self._numbers.setdefault(key, len(self._numbers))
