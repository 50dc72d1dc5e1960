"""Products of one set of scores in one kernel: the gradient of attention."""

from __future__ import annotations

import math
from collections.abc import Mapping

from xjit.affine import dim
from xjit.dataclass import dataclass
from xjit.emitters.attention.joint_shapes import (
    JointBlocking,
    JointShape,
    JointTypes,
    MemberStrides,
    MemberTypes,
    plan_joint_blocks,
)
from xjit.emitters.attention.shapes import PRODUCTS, TileStrides
from xjit.emitters.gemm.blocking.register_tile import register_tile
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.planners.cpu.dot import GEMM_TYPES
from xjit.emitters.planners.plan import HandWritten, KernelPlan, PlanContext
from xjit.llvm.types import LLVMType
from xjit.passes.analysis.attention.joint import JointProducts
from xjit.passes.analysis.attention.masks import Masked, MaskFinder
from xjit.passes.analysis.attention.places import Matrix, Space
from xjit.passes.analysis.attention.statistics import Statistic, find_statistics


@dataclass(frozen=True, slots=True)
class JointWork:
    """The products, their sizes, and how they are blocked. `masked` are scores that are 0."""

    products: JointProducts
    shape: JointShape
    types: JointTypes
    blocking: JointBlocking
    masked: Masked
    statistics: tuple[Statistic, ...] = ()

    @property
    def units(self) -> int:
        """Ranges of rows, of all sets of products."""
        return self.shape.num_batches * self.blocking.units_per_batch

    def facts(self, context: PlanContext) -> Mapping[str, object]:
        """Its sizes, and how it is blocked."""
        shape, tile = self.shape, register_tile(context.target, PRODUCTS)
        over = [
            f"{'rows' if m.over_rows else 'columns'} to [{shape.columns if m.over_rows else shape.rows}, {m.width}]"
            for m in self.products.members
        ]
        return {
            "products": f"{shape.num_batches} x scores [{shape.rows}, {shape.columns}], summed over {', '.join(over)}",
            "scores": f"from products over {' and '.join(str(t.depth) for t in shape.tiles)}, made once",
            "types": self.types.mangled,
            "method": f"register tiles of {tile.rows}x{tile.columns}",
            "blocks": f"{self.blocking.rows} rows, {self.blocking.columns} columns; scores stay in the cache",
            "tasks": f"{self.units} units of {self.blocking.unit_rows} rows",
            **({"kept": f"scores of all rows, for {len(self.statistics)} sums of columns"} if self.statistics else {}),
            **self.masked.facts(),
        }


def plan_joint_scores(context: PlanContext, view: KernelView, joint: JointProducts) -> list[KernelPlan]:
    """Plans a view whose results are products of one set of scores."""
    statistics = find_statistics(joint, {i for i in view.instructions() if i.opcode == "reduce"})
    if statistics is None:
        raise AssertionError(f"{view.instruction.name} sums scores otherwise than by columns")
    shape, types = _shape(joint), _types(joint, 1 + max((s.level for s in statistics), default=-1))
    products = [tile.place for tile in joint.tiles]
    masked = MaskFinder(Space(joint.sizes), dim(joint.row), dim(joint.column), products).zero(
        [*(s.reduced for s in statistics if s.opcode == "add"), *joint.scores]
    )
    work = JointWork(joint, shape, types, plan_joint_blocks(shape, types, context.target), masked, statistics)
    reason = "scores stay in the cache, block by block, for all products"
    return [HandWritten(view.instruction.name, "scores", reason, work)]


def _shape(joint: JointProducts) -> JointShape:
    return JointShape(
        num_batches=math.prod(joint.sizes[d] for d in joint.batch),
        rows=joint.sizes[joint.row],
        columns=joint.sizes[joint.column],
        tiles=tuple(
            TileStrides(t.depth, t.left.row_stride, t.left.column_stride, t.right.row_stride, t.right.column_stride)
            for t in joint.tiles
        ),
        members=tuple(
            MemberStrides(
                m.width, m.right.row_stride, m.right.column_stride, m.result.row_stride, m.result.column_stride
            )
            for m in joint.members
        ),
    )


def _types(joint: JointProducts, levels: int) -> JointTypes:
    def storage(matrix: Matrix) -> LLVMType:
        return GEMM_TYPES[matrix.leaf.shape.element_type]

    tiles = tuple((storage(t.left), storage(t.right)) for t in joint.tiles)
    members = tuple(MemberTypes(m.scores, m.over_rows, storage(m.right), storage(m.result)) for m in joint.members)
    return JointTypes(tiles, members, levels)
