"""`affine.parallel`: loops in any order, whose bounds are affine maps, and which may reduce what they yield."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from xjit.affine import AffineMap
from xjit.hlo.diagnostics import Span
from xjit.linalg_ext.dialects.affine_subscripts import bounds_text, parse_bounds
from xjit.linalg_ext.dialects.assembly import op
from xjit.linalg_ext.dialects.attribute_kinds import ATOMIC_KINDS, integer_array, word_of
from xjit.linalg_ext.dialects.definition import CustomAssembly, make_rows
from xjit.linalg_ext.dialects.scf import ensure_terminator
from xjit.linalg_ext.ir.attributes import AffineMapAttr, ArrayAttr, Attribute, DenseArrayAttr, DenseAttr, IntegerAttr
from xjit.linalg_ext.ir.errors import LinalgVerifyError
from xjit.linalg_ext.ir.operation import Operation, Value
from xjit.linalg_ext.ir.types import IndexType, IntegerType, TensorType, Type

if TYPE_CHECKING:
    from xjit.linalg_ext.text.parser import Parser, ParseState
    from xjit.linalg_ext.text.printer import Printer

__all__ = ["AFFINE_PARALLEL_ROWS", "parallel_bounds", "parallel_steps", "reduction_kinds"]

I32, I64 = IntegerType(32), IntegerType(64)
_SHOWN = frozenset(
    {"lowerBoundsMap", "lowerBoundsGroups", "upperBoundsMap", "upperBoundsGroups", "steps", "reductions"}
)


def _groups(sizes: list[int]) -> DenseAttr:
    """Returns `dense<[1, 2]> : tensor<2xi32>`, as MLIR keeps how many expressions make up each bound."""
    same = tuple(sizes) if len(set(sizes)) > 1 else tuple(sizes[:1])
    return DenseAttr(same, TensorType((len(sizes),), I32))


def parse_parallel(p: Parser, state: ParseState) -> None:
    """Parses `(%i, %j) = (0, max(%a, 2)) to (8, 9) step (2, 1) reduce ("addf") -> (f32) {region}`."""
    variables: list[tuple[str, Type, Span]] = []

    def variable() -> None:
        span = p.here()
        variables.append((p.expect_kind("value", "a loop variable").text, IndexType(), span))

    p.comma_list("(", ")", variable)
    for separator, side, word in (("=", "lower", "max"), ("to", "upper", "min")):
        p.expect(separator)
        place = p.here()
        map, sizes, operands = parse_bounds(p, word)
        if len(sizes) != len(variables):
            p.fail(f"expected {len(variables)} bounds, found {len(sizes)}", place)
        state.attributes[f"{side}BoundsMap"] = AffineMapAttr(map)
        state.attributes[f"{side}BoundsGroups"] = _groups(sizes)
        state.operands += operands
    steps = p.comma_list("(", ")", p.integer) if p.accept("step") else [1] * len(variables)
    state.attributes["steps"] = integer_array(steps)
    kinds: list[Attribute] = []
    if p.accept("reduce"):
        kinds = p.comma_list("(", ")", lambda: _reduction(p))
    state.attributes["reductions"] = ArrayAttr(tuple(kinds))
    state.result_types = p.arrow_types()
    state.regions = [p.region(variables)]
    if not state.result_types:
        ensure_terminator(state.regions[0], "affine.yield")
    state.attributes.update(p.optional_dictionary())


def _reduction(p: Parser) -> Attribute:
    place = p.here()
    word = p.string()
    if word not in ATOMIC_KINDS:
        p.fail(f"unknown reduction '{word}', expected one of {', '.join(ATOMIC_KINDS)}", place)
    return IntegerAttr(ATOMIC_KINDS[word], I64)


def _bound_maps(op: Operation) -> list[tuple[AffineMap, tuple[int, ...], tuple[Value, ...]]]:
    """Returns the map of the lower and of the upper bounds, how many results each bound has, and the operands.

    LinalgVerifyError where the attributes do not say that.
    """
    found: list[tuple[AffineMap, tuple[int, ...], tuple[Value, ...]]] = []
    start = 0
    for side in ("lower", "upper"):
        map, groups = op.attributes.get(f"{side}BoundsMap"), op.attributes.get(f"{side}BoundsGroups")
        sizes = _sizes(groups)
        if not isinstance(map, AffineMapAttr) or sum(sizes) != len(map.map.results) or 0 in sizes:
            raise LinalgVerifyError(f"'{op.name}' op has {side} bounds {map} in groups {groups}", op.location)
        end = start + map.map.num_dims + map.map.num_symbols
        found.append((map.map, sizes, op.operands[start:end]))
        start = end
    if start != len(op.operands):
        raise LinalgVerifyError(f"'{op.name}' op has {len(op.operands)} operands, expected {start}", op.location)
    return found


def _sizes(groups: Attribute | None) -> tuple[int, ...]:
    if isinstance(groups, DenseArrayAttr):
        return groups.ints
    kind = groups.type if isinstance(groups, DenseAttr) else None
    if not isinstance(groups, DenseAttr) or not isinstance(kind, TensorType) or kind.rank != 1 or kind.shape[0] is None:
        return ()
    values = tuple(v for v in groups.values if isinstance(v, int))
    return values * kind.shape[0] if len(values) == 1 else values


def parallel_bounds(op: Operation) -> list[tuple[list[AffineMap], tuple[Value, ...]]]:
    """Returns the lower and the upper bounds of an `affine.parallel`: per loop a map, and the operands of all maps. The
    lower bound is the largest of a map's results, the upper one the smallest.
    """
    found: list[tuple[list[AffineMap], tuple[Value, ...]]] = []
    for map, sizes, operands in _bound_maps(op):
        ends = list(accumulate(sizes))
        parts = [
            AffineMap(map.num_dims, map.num_symbols, map.results[end - size : end]) for size, end in zip(sizes, ends)
        ]
        found.append((parts, operands))
    return found


def parallel_steps(op: Operation) -> list[int]:
    """Returns the steps of an `affine.parallel`, one per loop."""
    steps = op.attributes.get("steps")
    return [e.value for e in steps.elements if isinstance(e, IntegerAttr)] if isinstance(steps, ArrayAttr) else []


def reduction_kinds(op: Operation) -> list[str]:
    """Returns how an `affine.parallel` reduces what it yields, per result; "" for what is no such kind."""
    kinds = op.attributes.get("reductions")
    return [word_of(e, ATOMIC_KINDS) for e in kinds.elements] if isinstance(kinds, ArrayAttr) else []


def check_parallel(op: Operation) -> None:
    """As many bounds and steps as loops, as many reductions as results, and as much is yielded."""
    rank = len(op.body.arguments)
    steps, kinds = parallel_steps(op), reduction_kinds(op)
    sizes = [len(groups) for _, groups, _ in _bound_maps(op)]
    if sizes != [rank, rank] or len(steps) != rank:
        raise LinalgVerifyError(
            f"'{op.name}' op has {sizes} bounds and {len(steps)} steps of {rank} loops", op.location
        )
    if any(step < 1 for step in steps):
        raise LinalgVerifyError(f"'{op.name}' op expects positive steps, found {steps}", op.location)
    if len(kinds) != len(op.results) or "" in kinds:
        raise LinalgVerifyError(f"'{op.name}' op has {len(op.results)} results for reductions {kinds}", op.location)
    yielded = tuple(v.type for v in op.body.terminator.operands) if op.body.operations else ()
    if yielded != op.result_types:
        raise LinalgVerifyError(
            f"'{op.name}' op yields ({', '.join(map(str, yielded))}) for results of other types", op.location
        )


def print_parallel(p: Printer, op: Operation) -> None:
    (lower, lower_sizes, lower_operands), (upper, upper_sizes, upper_operands) = _bound_maps(op)
    p.write(f" ({', '.join(map(p.value, op.body.arguments))})")
    p.write(f" = {bounds_text(p, lower, lower_sizes, lower_operands, 'max')}")
    p.write(f" to {bounds_text(p, upper, upper_sizes, upper_operands, 'min')}")
    steps = parallel_steps(op)
    if any(step != 1 for step in steps):
        p.write(f" step ({', '.join(map(str, steps))})")
    if op.results:
        kinds = ", ".join(f'"{kind}"' for kind in reduction_kinds(op))
        p.write(f" reduce ({kinds}) -> ({', '.join(p.type(t) for t in op.result_types)})")
    p.write(" ")
    p.region(op.regions[0], arguments=False, terminator=bool(op.results))
    p.optional_dictionary(op, _SHOWN)


AFFINE_PARALLEL_ROWS = make_rows(
    op(
        "affine.parallel",
        "operands* index",
        "results*",
        assembly=CustomAssembly(parse_parallel, print_parallel),
        needs="map(lowerBoundsMap) map(upperBoundsMap) integers(steps)",
        traits="recursive",
        regions=1,
        check=check_parallel,
    ),
)
