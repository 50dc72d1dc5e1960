"""Kernels that are products with scores: what the pass that made the fusion found is found again in the view."""

from __future__ import annotations

from xjit.affine import AffineExpr, delinearize
from xjit.emitters.kernels.view import KernelView
from xjit.hlo import attributes as at
from xjit.passes.analysis.attention.joint import JointProducts, join_products
from xjit.passes.analysis.attention.products import ScoreProduct, find_products


def is_score_product(view: KernelView) -> bool:
    """Whether a view is one of the fusions that this is for."""
    fusion = view.instruction
    return fusion.opcode == "fusion" and fusion.attributes_as(at.FusionAttributes).kind == "kCustom"


def score_product(view: KernelView) -> ScoreProduct:
    """Returns the product that such a view's first result is. With a softmax, its maximum and total may be others."""
    products = score_products(view, 0)
    if len(products) != 1:
        raise AssertionError(f"{view.instruction.name} is no product with scores")
    (product,) = products
    softmax = product.softmax
    known = () if softmax is None else (softmax.maximum.instruction, softmax.total.instruction)
    if view.roots[1:] != tuple(i for i in known if i in view.roots):
        raise AssertionError(f"{view.instruction.name} has other results than a softmax's")
    return product


def joint_products(view: KernelView) -> JointProducts | None:
    """Returns the products of the same scores that such a view's results are; None if one has a softmax, or if there is
    one whose scores are not over the dimensions of their products.
    """
    found = [score_products(view, number) for number in range(len(view.roots))]
    if any(len(products) != 1 for products in found):
        return None
    return join_products([products[0] for products in found])


def score_products(view: KernelView, number: int) -> list[ScoreProduct]:
    """Returns the products with scores that a result of a view is."""
    leaves = set(view.leaves)
    return find_products(view.roots[number], lambda i: i not in leaves)


def batch_index(product: ScoreProduct, batch: AffineExpr) -> dict[int, AffineExpr]:
    """Returns the dimensions of the root that say which product it is, by the product's number."""
    sizes, dimensions = product.root.shape.dimensions, product.batch
    return dict(zip(dimensions, delinearize(batch, [sizes[d] for d in dimensions]), strict=True))
