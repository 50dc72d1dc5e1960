"""Where attention is fused: by how many scores there are beside what they are computed from."""

from __future__ import annotations

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction
from xjit.passes.analysis.attention.gradient import Gradient, find_gradient
from xjit.passes.analysis.attention.products import ScoreProduct


@dataclass
class AttentionLimits:
    """Options of passes that fuse attention, or make what is to be fused.

    Each product of the batch must have `min_rows` queries, and `scores_per_element` scores for each element of such a
    row: fewer stay in the cache as they are. Gradients, which make the scores again, must have scores of
    `gradient_bytes` in all. Rows of queries, keys and values have `max_depth` elements at most: what blocks hold.
    """

    min_rows: int = 16
    scores_per_element: int = 512
    gradient_bytes: int = 1 << 20
    max_depth: int = 512

    def may_have_gradient(self, weights: HloInstruction) -> bool:
        """Whether these exponentials are as many as those of a gradient must be."""
        shape = weights.shape
        return shape.is_static_array and shape.rank >= 2 and shape.byte_size >= self.gradient_bytes

    def gradient_of(self, weights: HloInstruction) -> Gradient | None:
        """Returns the gradient whose products read the scores, if it pays to fuse it."""
        gradient = find_gradient(weights)
        if gradient is None or (gradient.forward is None and not gradient.sums):
            return None
        return gradient if all(map(self.pays, gradient.all_products())) else None

    def pays(self, product: ScoreProduct) -> bool:
        """Whether a product has so many scores that they are better made where they are read."""
        sizes = product.root.shape.dimensions
        rows, width = sizes[product.rows], sizes[product.width]
        depths = [width, *(tile.depth for tile in product.tiles)]
        enough = rows * product.num_columns >= self.scores_per_element * max(depths)
        return rows >= self.min_rows and enough and max(depths) <= self.max_depth
