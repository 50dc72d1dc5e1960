"""The names that the printer gives to values and blocks, as MLIR's printer does.

Values of a region are numbered before those of the regions inside; regions side by side use the same numbers. What an
operation suggests (`%c0`, `%extracted_slice`, `%in`) is made unique by a number of its own.
"""

from __future__ import annotations

from xjit.linalg_ext.dialects.arith import constant_name
from xjit.linalg_ext.dialects.definition import result_groups
from xjit.linalg_ext.dialects.registry import definition_of
from xjit.linalg_ext.ir.operation import Block, Operation, Region, Value

__all__ = ["ValueNames"]


class _Counters:
    """The next numbers of values, arguments and conflicts, and the names in use; nested regions get a copy."""

    def __init__(self, value: int, argument: int, conflict: int, used: set[str]) -> None:
        self.value, self.argument, self.conflict, self.used = value, argument, conflict, used

    def copy(self) -> _Counters:
        return _Counters(self.value, self.argument, self.conflict, set(self.used))

    def unique(self, name: str) -> str:
        """Returns the name, with a number if it is in use."""
        result = name
        while result in self.used:
            result = f"{name}_{self.conflict}"
            self.conflict += 1
        self.used.add(result)
        return result


class ValueNames:
    """Names of all values and blocks inside an operation. `groups` has, for an operation whose results stand in
    several groups, where they begin."""

    def __init__(self, root: Operation) -> None:
        self.values: dict[Value, str] = {}
        self.blocks: dict[Block, str] = {}
        self.groups: dict[Operation, list[int]] = {}
        self._name_outside(root)
        counters = _Counters(0, 0, 0, set())
        self._name_results(root, counters)
        stack = [(region, counters) for region in root.regions]
        while stack:
            region, outer = stack.pop()
            inner = outer.copy()
            if region.op is not None and "isolated" in _traits(region.op):
                inner = _Counters(0, 0, 0, set())
            self._name_region(region, inner)
            for block in region.blocks:
                stack.extend((r, inner) for op in block.operations for r in op.regions)

    def _name_outside(self, root: Operation) -> None:
        """Values from outside of what is printed have names that no value inside gets."""
        for op in root.walk():
            for value in op.operands:
                block = value.parent_block
                inside = block is not None and block.parent_op is not None and root.is_ancestor_of(block.parent_op)
                if not inside and value not in self.values and value.defining_op is not root:
                    self.values[value] = f"<<outside {len(self.values)}>>"

    def _name_region(self, region: Region, counters: _Counters) -> None:
        for number, block in enumerate(region.blocks):
            self.blocks[block] = f"^bb{number}"
            suggested = _suggested_arguments(block) if number == 0 else []
            for index, argument in enumerate(block.arguments):
                if index < len(suggested) and suggested[index]:
                    self.values[argument] = counters.unique(suggested[index])
                elif number == 0:
                    self.values[argument] = counters.unique(f"arg{counters.argument}")
                    counters.argument += 1
                else:
                    self._number(argument, counters)
            for op in block.operations:
                self._name_results(op, counters)

    def _number(self, value: Value, counters: _Counters) -> None:
        self.values[value] = str(counters.value)
        counters.value += 1

    def _name_results(self, op: Operation, counters: _Counters) -> None:
        if not op.results:
            return
        starts = _suggested_results(op)
        self.groups[op] = sorted({0, *starts})
        for start, name in starts.items():
            self.values[op.results[start]] = counters.unique(name)
        if 0 not in starts:
            self._number(op.results[0], counters)
        for first, end in zip(self.groups[op], [*self.groups[op][1:], len(op.results)]):
            for index in range(first + 1, end):
                self.values[op.results[index]] = f"{self.values[op.results[first]]}#{index - first}"
            if end - first > 1:
                self.values[op.results[first]] += "#0"


def _traits(op: Operation) -> frozenset[str]:
    definition = definition_of(op.name)
    return frozenset() if definition is None else definition.traits


def _suggested_arguments(block: Block) -> list[str]:
    op = block.parent_op
    definition = None if op is None else definition_of(op.name)
    if op is None or definition is None or definition.argument_names is None:
        return []
    return list(definition.argument_names(op, len(block.arguments)))


def _suggested_results(op: Operation) -> dict[int, str]:
    """Returns the first result of each named group with the name."""
    if op.name == "arith.constant":
        return {0: constant_name(op)}
    definition = definition_of(op.name)
    if definition is None or not definition.result_names:
        return {}
    if not definition.results:  # one name per result, the last for all that remain
        return dict(zip(range(len(op.results)), definition.result_names))
    found: dict[int, str] = {}
    start = 0
    for name, values in zip(definition.result_names, result_groups(definition, op).values()):
        if values:
            found[start] = name
        start += len(values)
    return found
