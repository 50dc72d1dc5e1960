"""Whether the iterations of a `scf.forall` together write all of a tensor."""

from __future__ import annotations

from xjit.affine import AffineExpr, constant, substitute_all
from xjit.affine.semi import ceildiv, product
from xjit.linalg_ext.dialects.scf_parallel import forall_bounds
from xjit.linalg_ext.ir import AffineMapAttr, Operation, Value
from xjit.linalg_ext.structured import shape_of
from xjit.linalg_ext.transforms.building_blocks.index_values import Index, Operands
from xjit.linalg_ext.transforms.building_blocks.slices import slice_lists
from xjit.linalg_ext.transforms.building_blocks.tiles import Tile

__all__ = ["covers_all", "writes_all"]


def writes_all(loop: Operation, insertion: Operation) -> bool:
    """Whether a `tensor.parallel_insert_slice` of the loop is known to write all elements of its output."""
    offsets, sizes, _ = slice_lists(insertion, 2)
    return covers_all(loop, Tile.of((o, s, True) for o, s in zip(offsets, sizes)), insertion.operands[1])


def covers_all(loop: Operation, tile: Tile, tensor: Value) -> bool:
    """Whether the tiles of all iterations are known to be all of a tensor.

    In each dimension they are all of it, or shares of one size, one per step of a loop variable.
    """
    bounds = zip(*forall_bounds(loop))
    domain: dict[Value, tuple[Index, Index, Index]] = dict(zip(loop.body.arguments, bounds))
    used: list[Value] = []
    for offset, size, extent in zip(tile.offsets, tile.sizes, shape_of(tensor)):
        if extent is None:
            return False
        if offset == 0 and size == extent:
            continue
        variable = _Shares(extent, domain).variable(offset, size)
        if variable is None or variable in used:
            return False
        used.append(variable)
    return True


class _Shares:
    """The shares of a dimension of `extent` elements in a loop with lower bounds, upper bounds and steps `domain`."""

    def __init__(self, extent: int, domain: dict[Value, tuple[Index, Index, Index]]) -> None:
        self.extent = extent
        self.domain = domain
        self.operands = Operands()

    def variable(self, offset: Index, size: Index) -> Value | None:
        """Returns the loop variable whose steps take one share each and reach the end, None if none is known to."""
        start = self._expr(offset)
        for variable, (lower, upper, step) in self.domain.items():
            width, end = self._expr(step), self._expr(upper)
            if lower != 0 or not self._expr(variable).dims <= start.dims:
                continue
            counted = width == constant(1)
            lengths = self._bounds(size)
            for share in lengths if counted else [width]:
                expected = product(self._expr(variable), share) if counted else self._expr(variable)
                reaches = end == (ceildiv(constant(self.extent), share) if counted else constant(self.extent))
                divides = share.is_constant and self.extent % share.value == 0
                cut = {constant(self.extent) - expected, share}
                if start == expected and reaches and (lengths == cut or (divides and lengths == {share})):
                    return variable
        return None

    def _expr(self, index: Index) -> AffineExpr:
        return self.operands.expr(index, False)

    def _bounds(self, size: Index) -> set[AffineExpr]:
        """The results of the minimum that a size is; a maximum with 0 changes no size that is written."""
        op = size.defining_op if isinstance(size, Value) else None
        if op is None or op.name not in ("affine.min", "affine.max"):
            return {self._expr(size)}
        if op.name == "affine.max":
            return self._bounds(op.operands[0]) if len(op.operands) == 1 else {self._expr(size)}
        attribute = op.attributes["map"]
        assert isinstance(attribute, AffineMapAttr)
        values = [self._expr(v) for v in op.operands]
        count = attribute.map.num_dims
        return set(substitute_all(attribute.map.results, values[:count], values[count:]))
