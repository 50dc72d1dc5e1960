"""What tiling and fusing ask of an operation: its loops, and the tiles of operands and results for a tile of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from xjit.linalg_ext.ir import LinalgError, Operation, OpResult, TensorType, Value
from xjit.linalg_ext.structured import PARALLEL
from xjit.linalg_ext.transforms.building_blocks.index_values import Index, IndexBuilder, same_index
from xjit.linalg_ext.transforms.building_blocks.tiles import Tile

__all__ = ["Tilable"]


class Tilable(ABC):
    """An operation with an iteration space whose tiles can be computed alone. Tiles of the space are called domains."""

    def __init__(self, op: Operation) -> None:
        self.op = op

    @property
    def iterator_types(self) -> tuple[str, ...]:
        """`parallel` or `reduction` per loop; an op of tensors has one parallel loop per dimension of its result."""
        kind = self.op.results[0].type
        assert isinstance(kind, TensorType)
        return (PARALLEL,) * kind.rank

    @property
    def fixed_loops(self) -> Mapping[int, str]:
        """Loops that must not be cut, with the reason."""
        return {}

    def error(self, message: str) -> LinalgError:
        """Returns an error at the place of the operation."""
        return LinalgError(f"'{self.op.name}' op {message}", self.op.location)

    def extents(self, index: IndexBuilder) -> tuple[Index, ...]:
        """Returns the number of iterations of each loop."""
        return tuple(index.dim_of(self.op.results[0], axis) for axis in range(len(self.iterator_types)))

    def whole_loops(self, index: IndexBuilder, domain: Tile) -> list[bool]:
        """Tells which loops a domain does not cut."""
        extents = self.extents(index)
        return [o == 0 and same_index(s, n) for o, s, n in zip(domain.offsets, domain.sizes, extents)]

    @abstractmethod
    def operand_tiles(self, index: IndexBuilder, domain: Tile) -> list[Tile | None]:
        """Returns the tile of each operand that a domain needs, None for one that is taken as it is.

        LinalgError if the operation cannot be cut like this.
        """

    def result_tile(self, index: IndexBuilder, number: int, domain: Tile) -> Tile:
        """Returns the tile of result `number` that a domain computes."""
        return domain

    def domain_of(self, index: IndexBuilder, number: int, tile: Tile) -> Tile | None:
        """Returns the domain that computes at least a tile of result `number`, None if there is no such domain."""
        return tile

    @abstractmethod
    def emit(self, index: IndexBuilder, domain: Tile, operands: Sequence[Value]) -> list[Value]:
        """Emits the operation on the tiles of its operands; returns the tiles of its results."""

    def init_of(self, result: OpResult) -> int | None:
        """Returns the operand that the result is written into, None if there is none."""
        return None

    def reads_init(self, number: int) -> bool:
        """Whether result `number` depends on what its init holds."""
        return False
