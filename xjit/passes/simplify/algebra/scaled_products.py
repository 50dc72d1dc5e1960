"""Factors of matrix products and convolutions: into a constant filter, or to where there are fewest elements."""

from __future__ import annotations

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.hlo.attributes import ConvolutionAttributes
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.simplify.algebra.dimensions import dimensions_of
from xjit.passes.simplify.algebra.kinds import is_float
from xjit.passes.simplify.algebra.rule import AlgebraRule, Exactness


def _scaled_filter(match: Match, into: Expansion) -> HloInstruction | None:
    """The convolution whose filter is multiplied by a constant: one number for all, or one for each output feature."""
    convolution, factor = match["convolution"], match["factor"]
    x, kernel = convolution.operands
    labels = convolution.attributes_as(ConvolutionAttributes).dim_labels
    along = dimensions_of(factor)
    if along not in ((), (labels.output_feature_dimension,)):
        return None
    place = at.DimensionsAttributes((labels.kernel_output_feature_dimension,) if along else ())
    spread = into.make("broadcast", factor.operand(0), shape=kernel.shape, attributes=place)
    scaled = into.make("multiply", kernel, spread)
    return into.add(convolution.clone_with_new_operands(convolution.shape, [x, scaled]))


def _scaled_filter_and_bias(match: Match, into: Expansion) -> HloInstruction | None:
    """(convolution(x, w) + b) * c: both summands are multiplied."""
    scaled = _scaled_filter(match, into)
    if scaled is None:
        return None
    return into.make("add", scaled, into.make("multiply", match["b"], match["factor"]))


def _at_the_fewest(match: Match, into: Expansion) -> HloInstruction | None:
    """A number that multiplies a product multiplies its smaller operand instead, if that is smaller."""
    product, number = match["product"], match["s"]
    small = min((0, 1), key=lambda i: product.operand(i).shape.num_elements)
    if product.operand(small).shape.num_elements >= product.shape.num_elements:
        return None
    operands = list(product.operands)
    operands[small] = _times(operands[small], number, into)
    return into.add(product.clone_with_new_operands(product.shape, operands))


def _from_operand(match: Match, into: Expansion) -> HloInstruction | None:
    """A number that multiplies an operand multiplies the product, or the other operand, if that is smaller."""
    product, scaled, number = match.root, match["scaled"], match["s"]
    place = product.operand_index(scaled)
    other = product.operand(1 - place)
    if min(product.shape.num_elements, other.shape.num_elements) >= scaled.shape.num_elements:
        return None
    operands = list(product.operands)
    operands[place] = match["x"]
    if other.shape.num_elements < product.shape.num_elements:
        operands[1 - place] = _times(other, number, into)
        return into.add(product.clone_with_new_operands(product.shape, operands))
    return _times(into.add(product.clone_with_new_operands(product.shape, operands)), number, into)


def _times(x: HloInstruction, number: HloInstruction, into: Expansion) -> HloInstruction:
    if not x.shape.rank:
        return into.make("multiply", x, number)
    spread = into.make("broadcast", number, shape=x.shape, attributes=at.DimensionsAttributes(()))
    return into.make("multiply", x, spread)


@m.of_shapes
def _is_one_float(product: HloInstruction) -> bool:
    kinds = {product.shape.element_type, *[o.shape.element_type for o in product.operands]}
    return len(kinds) == 1 and is_float(product)


_CONVOLUTION = m.op("convolution", m.any(), m.op("constant"), name="convolution").where(_is_one_float).one_use()
_FACTOR = m.op("broadcast", m.op("constant"), name="factor")
_NUMBER = m.op("broadcast", m.any("s").where(lambda s: s.shape.is_scalar))
_PRODUCT = m.op("dot|convolution", m.any(), m.any(), name="product").where(_is_one_float).one_use()
_SCALED = m.op("multiply", m.any("x"), _NUMBER, name="scaled").one_use()
_XLA, _OPTION = Exactness.XLA, "enable_scalar_multiply_reduction"

SCALED_PRODUCTS = (
    AlgebraRule("N42", "multiply(convolution(x, w), c) = convolution(x, multiply(w, c))",
                m.op("multiply", _CONVOLUTION, _FACTOR), _scaled_filter, _XLA),
    AlgebraRule("N42b", "multiply(add(convolution(x, w), b), c) = add(convolution(x, multiply(w, c)), multiply(b, c))",
                m.op("multiply", m.op("add", _CONVOLUTION, m.any("b")).one_use(), _FACTOR), _scaled_filter_and_bias,
                _XLA, "enable_conv_add_multiply_reorder"),
    AlgebraRule("R29", "multiply(dot(x, y), s) = dot(multiply(x, s), y) where x is smaller",
                m.op("multiply", _PRODUCT, _NUMBER), _at_the_fewest, _XLA, _OPTION),
    AlgebraRule("R29b", "dot(multiply(x, s), y) = multiply(dot(x, y), s) where that, or y, is smaller",
                m.op("dot|convolution", _SCALED, m.any()).where(_is_one_float), _from_operand, _XLA, _OPTION),
    AlgebraRule("R29c", "dot(y, multiply(x, s)) = multiply(dot(y, x), s) where that, or y, is smaller",
                m.op("dot|convolution", m.any(), _SCALED).where(_is_one_float), _from_operand, _XLA, _OPTION),
)  # fmt: skip
