"""Parts of a program that are alike: what was chosen for a root is chosen for another one with the same producers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from xjit.dataclass import dataclass
from xjit.linalg_ext.automatic.estimate import Estimate, FusionEstimator
from xjit.linalg_ext.ir import Operation

__all__ = ["Choice", "Choices"]


@dataclass(frozen=True)
class Choice:
    """Sizes of tiles, and the producers that stay outside."""

    sizes: Sequence[int]
    stop: Sequence[Operation]


@dataclass(frozen=True)
class _Shape:
    """What estimates for a root have asked for: per operation, consumers first, its facts and the number of each
    operand's producer among them, None if nobody has asked for that one.
    """

    facts: Sequence[object]
    links: Sequence[Sequence[int | None]]
    sizes: Sequence[int]
    stop: Sequence[int]

    def matched(self, estimator: FusionEstimator) -> Choice | None:
        """Returns the choice for another root, None if its estimates could be others."""
        found: list[Operation | None] = [estimator.root.operation, *[None] * (len(self.facts) - 1)]
        positions = [1] * len(found)
        for number, (facts, links) in enumerate(zip(self.facts, self.links)):
            op = found[number]
            if op is None or estimator.node(op).facts != facts:
                return None
            for link, operand in zip(links, estimator.node(op).operands):
                if link is not None:
                    if found[link] not in (None, operand.producer):
                        return None
                    found[link], positions[link] = operand.producer, -operand.position
        ordered = all(a < b for a, b in pairwise(positions[1:]))  # so that there is none twice
        members = [op for op in found if op is not None]
        return Choice(self.sizes, [members[i] for i in self.stop]) if ordered else None


class Choices:
    """The choices for the roots of a block so far."""

    def __init__(self) -> None:
        self._known: dict[object, list[_Shape]] = {}

    def find(self, estimator: FusionEstimator) -> Choice | None:
        """Returns what was chosen for a root with the same producers, as far as estimates look at them."""
        facts = estimator.node(estimator.root.operation).facts
        found = (shape.matched(estimator) for shape in self._known.get(facts, ()))
        return next((choice for choice in found if choice is not None), None)

    def add(self, estimator: FusionEstimator, chosen: Estimate) -> Choice:
        """Notes what was chosen, with what the estimates have asked for."""
        members = [estimator.root.operation, *sorted(estimator.asked, key=lambda op: -estimator.asked[op])]
        number = {op: i for i, op in enumerate(members)}
        nodes = [estimator.node(op) for op in members]
        links = [[None if o.producer is None else number.get(o.producer) for o in node.operands] for node in nodes]
        stop = [*chosen.outside, *chosen.beyond]
        shape = _Shape([node.facts for node in nodes], links, chosen.sizes, [number[op] for op in stop])
        self._known.setdefault(shape.facts[0], []).append(shape)
        return Choice(chosen.sizes, stop)
