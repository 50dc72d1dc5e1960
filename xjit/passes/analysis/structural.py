"""Structure without names: keys of instructions and computations, fingerprints of modules.

Two computations with one key compute the same thing in the same way; CSE, unification and the changed-bit check use
this.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable

from xjit.hlo import HloComputation, HloInstruction, HloModule
from xjit.hlo import attributes as at


class StructuralKeys:
    """Hands out one small number per structure: equal numbers mean equal structure (exactly, not by hash).

    Numbers of computations are remembered, so keep an instance only while the called computations do not change.
    """

    def __init__(self, layout_sensitive: bool = True) -> None:
        self._layout_sensitive = layout_sensitive
        self._numbers: dict[Hashable, int] = {}
        self._computations: dict[HloComputation, int] = {}
        self._shapes: dict[int, tuple[object, int]] = {}

    def number(self, key: Hashable) -> int:
        """Returns the number of a key: the same for equal keys."""
        return self._numbers.setdefault(key, len(self._numbers))

    def instruction_key(self, instruction: HloInstruction, operands: tuple[int, ...]) -> Hashable:
        """Returns what identifies an instruction, its operands given by number: all but name, metadata and control
        edges.
        """
        return (
            instruction.opcode,
            self._shape_number(instruction),
            operands,
            instruction.attributes,
            tuple(self.computation(c) for c in instruction.called_computations) if instruction.op.called else (),
            instruction.backend_config,
            instruction.sharding,
            tuple(instruction.frontend_attributes.items()) if instruction.frontend_attributes else (),
        )

    def _shape_number(self, instruction: HloInstruction) -> int:
        shape = instruction.shape
        known = self._shapes.get(id(shape))
        if known is not None and known[0] is shape:
            return known[1]
        number = self.number(shape.to_string(layout=self._layout_sensitive))
        self._shapes[id(shape)] = (shape, number)  # the entry keeps the shape alive: its id stays its own
        return number

    def computation(self, computation: HloComputation) -> int:
        """Returns the number of a computation's structure."""
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
        order = computation.make_instruction_post_order()
        position = {instruction: i for i, instruction in enumerate(order)}
        rows = [
            (
                self.number(self.instruction_key(i, tuple(position[o] for o in i.operands))),
                tuple(position[p] for p in i.control_predecessors),
            )
            for i in order
        ]
        return ("computation", tuple(rows), position[computation.root_instruction])


def module_fingerprint(module: HloModule) -> bytes:
    """Returns a hash of everything a pass may change: names, order of instructions, attributes, edges, the entry
    layout.
    """
    digest = hashlib.blake2b(digest_size=16)
    for computation in module.computations():
        digest.update(f"computation {computation.name} {computation.root_instruction.name}\n".encode())
        for i in computation.instructions:
            operands = " ".join(o.name for o in i.operands)
            before = " ".join(p.name for p in i.control_predecessors)
            called = " ".join(c.name for c in i.called_computations)
            attributes = (
                i.attributes_as(at.ConstantAttributes).literal.digest().hex()
                if i.opcode == "constant"
                else repr(i.attributes)
            )
            row = f"{i.name} {i.shape} {i.opcode} {operands} | {before} | {called} | {attributes} | {i.backend_config}"
            digest.update(f"{row} | {i.sharding} | {i.frontend_attributes}\n".encode())
        if module.has_schedule() and module.schedule.is_scheduled(computation):
            digest.update(" ".join(i.name for i in module.schedule.sequence(computation)).encode())
    layout = module.entry_computation_layout
    digest.update(f"{module.entry_computation.name} {layout.parameter_shapes} {layout.result_shape}".encode())
    return digest.digest()
