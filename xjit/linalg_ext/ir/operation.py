"""Values, operations, blocks and regions: SSA form with nested regions, as MLIR has it. A module is a `builtin.module`.

Invariants: every operand is listed among its value's uses; an operation is in at most one block, a block in at most one
region, a region in exactly one operation. Use the methods here to change any of this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from xjit.hlo.diagnostics import Span
from xjit.linalg_ext.ir.attributes import Attribute
from xjit.linalg_ext.ir.types import Type

__all__ = ["Block", "BlockArgument", "OpOperand", "OpResult", "Operation", "Region", "Value"]


class OpOperand:
    """One use of a value: operand `index` of `owner`."""

    __slots__ = ("index", "owner", "value")

    def __init__(self, owner: Operation, index: int, value: Value) -> None:
        self.owner, self.index, self.value = owner, index, value
        value.add_use(self)

    def set(self, value: Value) -> None:
        """Makes the operand use another value."""
        self.value.remove_use(self)
        self.value = value
        value.add_use(self)

    def drop(self) -> None:
        """Ends the use; the operand is of no use afterwards."""
        self.value.remove_use(self)


class Value:
    """What operands refer to: a result of an operation or an argument of a block; `name` is a hint for the printer."""

    __slots__ = ("_uses", "name", "type")

    def __init__(self, type: Type, name: str = "") -> None:
        self.type = type
        self.name = name
        self._uses: dict[OpOperand, None] = {}

    @property
    def uses(self) -> list[OpOperand]:
        """The operands that use the value, oldest first."""
        return list(self._uses)

    @property
    def has_uses(self) -> bool:
        return bool(self._uses)

    @property
    def users(self) -> list[Operation]:
        """The operations that use the value, each once."""
        return list(dict.fromkeys(use.owner for use in self._uses))

    @property
    def defining_op(self) -> Operation | None:
        """The operation whose result it is; None for arguments."""
        return self.owner if isinstance(self, OpResult) else None

    @property
    def parent_block(self) -> Block | None:
        """The block where the value is defined."""
        if isinstance(self, OpResult):
            return self.owner.block
        return self.block if isinstance(self, BlockArgument) else None

    def add_use(self, use: OpOperand) -> None:
        """Registers a use; called by `OpOperand` only."""
        self._uses[use] = None

    def remove_use(self, use: OpOperand) -> None:
        """Removes a use; called by `OpOperand` only."""
        del self._uses[use]

    def replace_all_uses_with(self, other: Value) -> None:
        """Makes all users use `other`, which has the same type or one that the users accept."""
        self.replace_uses_if(other, lambda use: True)

    def replace_uses_if(self, other: Value, condition: Callable[[OpOperand], bool]) -> None:
        """Makes those operands use `other` for which `condition` holds."""
        if other is self:
            return
        for use in self.uses:
            if condition(use):
                use.set(other)


class OpResult(Value):
    """Result `index` of `owner`."""

    __slots__ = ("index", "owner")

    def __init__(self, owner: Operation, index: int, type: Type) -> None:
        super().__init__(type)
        self.owner, self.index = owner, index


class BlockArgument(Value):
    """Argument `index` of `block`."""

    __slots__ = ("block", "index")

    def __init__(self, block: Block, index: int, type: Type, name: str = "") -> None:
        super().__init__(type, name)
        self.block, self.index = block, index


class Operation:
    """One operation. `location` is where it stood in a text that was parsed; errors tell it."""

    __slots__ = ("_operands", "_order", "attributes", "block", "location", "name", "regions", "results", "successors")

    def __init__(
        self,
        name: str,
        operands: Iterable[Value] = (),
        result_types: Iterable[Type] = (),
        attributes: Mapping[str, Attribute] | None = None,
        regions: Iterable[Region] = (),
        location: Span | None = None,
        successors: Iterable[Block] = (),
    ) -> None:
        self.name = name
        self.block: Block | None = None
        self.attributes: dict[str, Attribute] = dict(attributes or {})
        self.location = location
        self._order = 0
        self._operands = [OpOperand(self, i, value) for i, value in enumerate(operands)]
        self.results: tuple[OpResult, ...] = tuple(OpResult(self, i, t) for i, t in enumerate(result_types))
        self.regions: list[Region] = []
        self.successors: list[Block] = list(successors)
        for region in regions:
            self.add_region(region)

    @property
    def dialect(self) -> str:
        """The part of the name before the first dot."""
        return self.name.split(".", 1)[0]

    @property
    def operands(self) -> tuple[Value, ...]:
        return tuple([use.value for use in self._operands])

    @property
    def op_operands(self) -> tuple[OpOperand, ...]:
        """The operands as uses."""
        return tuple(self._operands)

    def set_operand(self, index: int, value: Value) -> None:
        self._operands[index].set(value)

    def set_operands(self, values: Iterable[Value]) -> None:
        """Replaces the whole list of operands; their number may change."""
        new = list(values)
        for use in self._operands:
            use.drop()
        self._operands = [OpOperand(self, i, value) for i, value in enumerate(new)]

    @property
    def result(self) -> OpResult:
        """The only result."""
        assert len(self.results) == 1, f"{self.name} has {len(self.results)} results"
        return self.results[0]

    @property
    def result_types(self) -> tuple[Type, ...]:
        return tuple(result.type for result in self.results)

    def add_result(self, type: Type) -> OpResult:
        """Appends a result."""
        new = OpResult(self, len(self.results), type)
        self.results = (*self.results, new)
        return new

    def add_region(self, region: Region) -> None:
        assert region.op is None
        region.op = self
        self.regions.append(region)

    @property
    def body(self) -> Block:
        """The only block of the first region."""
        blocks = self.regions[0].blocks
        assert len(blocks) == 1, f"{self.name} has {len(blocks)} blocks"
        return blocks[0]

    @property
    def parent_op(self) -> Operation | None:
        """The operation that contains this one."""
        return None if self.block is None else self.block.parent_op

    def ancestors(self) -> Iterator[Operation]:
        """Yields the operations around this one, the nearest first."""
        parent = self.parent_op
        while parent is not None:
            yield parent
            parent = parent.parent_op

    def is_ancestor_of(self, other: Operation) -> bool:
        """Whether `other` is this operation or inside of it."""
        return other is self or any(parent is self for parent in other.ancestors())

    def is_before(self, other: Operation) -> bool:
        """Whether this operation stands before another one of its block."""
        assert self.block is not None and self.block is other.block
        return self.block.position(self) < self.block.position(other)

    def remove(self) -> None:
        """Takes the operation out of its block; it lives on."""
        if self.block is not None:
            self.block.detach(self)

    def erase(self) -> None:
        """Takes the operation out of its block and ends all its uses, also those inside; its results have none left."""
        assert not any(result.has_uses for result in self.results), f"{self.name} is erased, but its results are used"
        self.remove()
        self.drop_all_references()

    def drop_all_references(self) -> None:
        """Ends the uses by this operation and by everything inside."""
        for op in list(self.walk()):
            for use in op._operands:
                use.drop()
            op._operands = []

    def move_before(self, other: Operation) -> None:
        assert other.block is not None and other is not self
        self.remove()
        other.block.insert_before(other, self)

    def move_after(self, other: Operation) -> None:
        assert other.block is not None and other is not self
        self.remove()
        other.block.insert_after(other, self)

    def replace_all_uses_with(self, values: Sequence[Value]) -> None:
        """Replaces the uses of each result."""
        assert len(values) == len(self.results)
        for result, value in zip(self.results, values):
            result.replace_all_uses_with(value)

    def clone(self, mapping: dict[Value, Value] | None = None) -> Operation:
        """Returns a copy that is in no block; operands are looked up in `mapping`, which learns the new results."""
        return _clone(self, {} if mapping is None else mapping)

    def walk(self) -> Iterator[Operation]:
        """Yields this operation and everything inside, outer ones first. Who changes the IR on the way walks a list."""
        stack: list[Operation] = [self]
        while stack:
            op = stack.pop()
            yield op
            for region in reversed(op.regions):
                for block in reversed(region.blocks):
                    stack.extend(reversed(block.operations))

    def __str__(self) -> str:
        from xjit.linalg_ext.text.printer import print_operation

        return print_operation(self)

    def __repr__(self) -> str:
        return f"<Operation {self.name}>"


class Block:
    """A list of operations with arguments, whose last one is a terminator where the parent needs one."""

    __slots__ = ("_operations", "_ordered", "arguments", "name", "region")

    def __init__(self, arguments: Iterable[Type] = (), operations: Iterable[Operation] = ()) -> None:
        self.region: Region | None = None
        self.name = ""
        self.arguments: list[BlockArgument] = []
        self._operations: list[Operation] = []
        self._ordered = True
        for t in arguments:
            self.add_argument(t)
        for op in operations:
            self.append(op)

    @property
    def operations(self) -> tuple[Operation, ...]:
        """A snapshot: it does not change with the block."""
        return tuple(self._operations)

    @property
    def first(self) -> Operation | None:
        return self._operations[0] if self._operations else None

    @property
    def last(self) -> Operation | None:
        return self._operations[-1] if self._operations else None

    @property
    def terminator(self) -> Operation:
        """The last operation."""
        assert self._operations, "the block is empty"
        return self._operations[-1]

    @property
    def parent_op(self) -> Operation | None:
        return None if self.region is None else self.region.op

    def add_argument(self, type: Type, name: str = "", index: int | None = None) -> BlockArgument:
        """Appends an argument, or inserts it before argument `index`."""
        at = len(self.arguments) if index is None else index
        argument = BlockArgument(self, at, type, name)
        self.arguments.insert(at, argument)
        self._number_arguments()
        return argument

    def erase_argument(self, index: int) -> None:
        """Removes an argument that nothing uses."""
        assert not self.arguments[index].has_uses, "the argument has uses"
        del self.arguments[index]
        self._number_arguments()

    def _number_arguments(self) -> None:
        for i, argument in enumerate(self.arguments):
            argument.index = i

    def position(self, op: Operation) -> int:
        """Returns a number that grows along the block, constant time while the block does not change."""
        if not self._ordered:
            for i, each in enumerate(self._operations):
                each._order = i
            self._ordered = True
        return op._order

    def append(self, op: Operation) -> None:
        self.insert(len(self._operations), op)

    def insert(self, index: int, op: Operation) -> None:
        """Makes `op`, which is in no block, operation `index`."""
        assert op.block is None, f"{op.name} is in a block already"
        op.block = self
        if index == len(self._operations):
            op._order = self._operations[-1]._order + 1 if self._operations else 0
        else:
            self._ordered = False
        self._operations.insert(index, op)

    def insert_before(self, anchor: Operation, op: Operation) -> None:
        self.insert(self._index(anchor), op)

    def insert_after(self, anchor: Operation, op: Operation) -> None:
        self.insert(self._index(anchor) + 1, op)

    def _index(self, op: Operation) -> int:
        assert op.block is self
        if self._ordered and op._order < len(self._operations) and self._operations[op._order] is op:
            return op._order
        return self._operations.index(op)

    def next_of(self, op: Operation) -> Operation | None:
        """Returns the operation behind another one."""
        index = self._index(op) + 1
        return self._operations[index] if index < len(self._operations) else None

    def detach(self, op: Operation) -> None:
        """Takes an operation out; see `Operation.remove`."""
        index = self._index(op)
        del self._operations[index]
        op.block = None  # the orders of the others still grow


class Region:
    """A list of blocks that belongs to an operation; control enters at the first."""

    __slots__ = ("blocks", "op")

    def __init__(self, blocks: Iterable[Block] = ()) -> None:
        self.op: Operation | None = None
        self.blocks: list[Block] = []
        for block in blocks:
            self.add_block(block)

    @property
    def block(self) -> Block:
        """The only block."""
        assert len(self.blocks) == 1, f"the region has {len(self.blocks)} blocks"
        return self.blocks[0]

    def add_block(self, block: Block) -> Block:
        assert block.region is None
        block.region = self
        self.blocks.append(block)
        return block

    def clone(self, mapping: dict[Value, Value]) -> Region:
        """Returns a copy that belongs to no operation; `mapping` is as for `Operation.clone`."""
        return _clone_region(self, mapping)


def _clone(op: Operation, mapping: dict[Value, Value], blocks: dict[Block, Block] | None = None) -> Operation:
    blocks = {} if blocks is None else blocks
    new = Operation(
        op.name,
        [mapping.get(value, value) for value in op.operands],
        op.result_types,
        op.attributes,
        (),
        op.location,
        [blocks.get(block, block) for block in op.successors],
    )
    for old_result, result in zip(op.results, new.results):
        result.name = old_result.name
        mapping[old_result] = result
    for region in op.regions:
        new.add_region(_clone_region(region, mapping))
    return new


def _clone_region(region: Region, mapping: dict[Value, Value]) -> Region:
    """Blocks and arguments first: operations may refer to blocks, and to values of blocks, that come later."""
    blocks: dict[Block, Block] = {}
    for block in region.blocks:
        copy = blocks[block] = Block()
        copy.name = block.name
        for argument in block.arguments:
            mapping[argument] = copy.add_argument(argument.type, argument.name)
    result = Region(blocks.values())
    for block, copy in blocks.items():
        for op in block.operations:
            copy.append(_clone(op, mapping, blocks))
    for copy in blocks.values() if len(blocks) > 1 else ():
        for op in copy.operations:
            for use in op.op_operands:
                use.set(mapping.get(use.value, use.value))
    return result
