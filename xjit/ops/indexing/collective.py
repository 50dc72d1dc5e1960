"""Indexing of collectives, with the replica an element comes from.

A *joint* map takes the output index and, as a last dim named `replica`, the reader's own position in its replica group;
its results are the operand index and, last, the position of the replica that holds the element. (collective-permute
has no groups: there both are replica ids.) The plain map of a collective forgets both: it relates an output element to
the operand elements it may come from, whatever the replica.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from xjit.affine import (
    INT64_MAX,
    UNKNOWN,
    AffineExpr,
    AffineMap,
    DimVar,
    IndexingMap,
    Interval,
    RangeVar,
    dim,
    substitute,
    symbol,
)
from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape
from xjit.ops.indexing.maps import Maps, OutputRule, identity_map, whole_map

REPLICA = "replica"


def _leaves(shape: Shape) -> list[Shape]:
    return [leaf for _, leaf in shape.leaves()]


def group_size(instruction: HloInstruction) -> int | None:
    """Number of devices in a replica group; None if neither the groups nor the module say."""
    attrs = instruction.attributes_as(at.CollectiveAttributes)
    config = instruction.module.config if instruction.module is not None else None
    groups = attrs.replica_groups.groups
    if groups:
        return max(len(g) for g in groups)
    replicas, partitions = (config.replica_count, config.num_partitions) if config is not None else (1, 1)
    total = replicas * (partitions if attrs.channel_id is not None else 1)
    return total if total > 1 else None


def _joint(
    sizes: tuple[int, ...], replica: Interval, results: list[AffineExpr], sources: list[Interval] | None = None
) -> IndexingMap:
    dims = (*[DimVar(Interval(0, n - 1)) for n in sizes], DimVar(replica, REPLICA))
    ranges = tuple([RangeVar(i) for i in sources or []])
    return IndexingMap(AffineMap(len(dims), len(ranges), tuple(results)), dims, ranges).simplify()


def _ids(count: int | None) -> Interval:
    return Interval(0, INT64_MAX if count is None else count - 1)


def _index(shape: Shape) -> list[AffineExpr]:
    return [dim(i) for i in range(shape.rank)]


def _all_reduce(instruction: HloInstruction, out: Shape, _operand: Shape) -> IndexingMap:
    group = _ids(group_size(instruction))
    return _joint(out.dimensions, group, [*_index(out), symbol(0)], [group])


def _broadcast(instruction: HloInstruction, out: Shape, _operand: Shape) -> IndexingMap:
    group = _ids(group_size(instruction))
    return _joint(out.dimensions, group, [*_index(out), dim(0) * 0])


def _all_gather(instruction: HloInstruction, out: Shape, operand: Shape) -> IndexingMap:
    axis = instruction.attributes_as(at.CollectiveAttributes).dimensions[0]
    results, shard = _index(out), operand.dimensions[axis]
    if not shard:
        return _joint(out.dimensions, _ids(None), [*results, dim(axis)])
    source = dim(axis).floordiv(shard)
    results[axis] = dim(axis).mod(shard)
    return _joint(out.dimensions, _ids(out.dimensions[axis] // shard), [*results, source])


def _reduce_scatter(instruction: HloInstruction, out: Shape, operand: Shape) -> IndexingMap:
    axis = instruction.attributes_as(at.CollectiveAttributes).dimensions[0]
    shard = out.dimensions[axis]
    group = _ids(operand.dimensions[axis] // shard if shard else None)
    results = _index(out)
    results[axis] = dim(axis) + dim(out.rank) * shard
    return _joint(out.dimensions, group, [*results, symbol(0)], [group])


def _all_to_all(instruction: HloInstruction, out: Shape, _operand: Shape) -> IndexingMap:
    """One array: part j of the result on replica r is part r of the operand of replica j."""
    axis = instruction.attributes_as(at.CollectiveAttributes).dimensions[0]
    count = group_size(instruction) or 1
    part = max(out.dimensions[axis] // count, 1)
    results = _index(out)
    results[axis] = dim(axis).mod(part) + dim(out.rank) * part
    return _joint(out.dimensions, _ids(count), [*results, dim(axis).floordiv(part)])


_JOINT: Mapping[str, Callable[[HloInstruction, Shape, Shape], IndexingMap]] = MappingProxyType(
    {
        "all-reduce": _all_reduce,
        "all-reduce-start": _all_reduce,
        "collective-broadcast": _broadcast,
        "all-gather": _all_gather,
        "all-gather-start": _all_gather,
        "reduce-scatter": _reduce_scatter,
    }
)


def _tuple_all_to_all(instruction: HloInstruction, output: int, out: Shape) -> list[Maps]:
    """Several arrays: result j on replica r is operand r of replica j."""
    source = dim(0) * 0 + output
    return [
        (_joint(out.dimensions, Interval(number, number), [*_index(out), source]),)
        for number in range(instruction.operand_count)
    ]


def _permute(instruction: HloInstruction, out: Shape) -> Maps:
    """One map per run of neighbouring targets whose sources lie equally far away; other replicas get zeros."""
    pairs = instruction.attributes_as(at.CollectivePermuteAttributes).source_target_pairs
    runs: list[tuple[int, int, int]] = []  # first target, last target, source - target
    for target, source in sorted((p[1], p[0]) for p in pairs):
        if runs and runs[-1][1] == target - 1 and runs[-1][2] == source - target:
            runs[-1] = (runs[-1][0], target, runs[-1][2])
        else:
            runs.append((target, target, source - target))
    replica = dim(out.rank)
    return tuple([_joint(out.dimensions, Interval(a, b), [*_index(out), replica + by]) for a, b, by in runs])


def replica_maps(instruction: HloInstruction, output: int = 0) -> list[Maps]:
    """Returns the joint maps of every operand for one output leaf; see the module's docstring."""
    out = _leaves(instruction.shape)[output]
    if not out.is_array:
        return [(UNKNOWN,)] * instruction.operand_count
    attrs = instruction.attributes
    if isinstance(attrs, at.CollectivePermuteAttributes):
        return [_permute(instruction, out) if n == output else () for n in range(instruction.operand_count)]
    if instruction.opcode == "all-to-all":
        if not instruction.attributes_as(at.CollectiveAttributes).dimensions:
            return _tuple_all_to_all(instruction, output, out)
        return [(_all_to_all(instruction, out, instruction.operand(0).shape),)]
    rule = _JOINT[instruction.opcode]
    return [
        (rule(instruction, out, operand.shape),) if number == output else ()
        for number, operand in enumerate(instruction.operands)
    ]


def _forget_replica(m: IndexingMap) -> IndexingMap:
    """The plain map of a joint one: own position is any, the source's is not said."""
    last = m.num_dims - 1
    if m.is_unknown:
        return UNKNOWN
    if m.is_known_empty:  # its results are zeros
        return m.replace(map=AffineMap(last, 0, m.results[:-1]), dim_vars=m.dim_vars[:-1])
    moved = {i: symbol(i + 1) for i in range(m.num_symbols)}
    results = [substitute(e, {last: symbol(0)}, moved) for e in m.results[:-1]]
    affine = AffineMap(last, m.num_symbols + 1, tuple(results))
    return IndexingMap(affine, m.dim_vars[:-1], (RangeVar(m.dim_bounds[last]), *m.range_vars)).simplify()


def _plain(instruction: HloInstruction, output: int) -> list[Maps]:
    joint = replica_maps(instruction, output)
    return [tuple(dict.fromkeys(_forget_replica(m) for m in maps)) for maps in joint]


def _start(rule: OutputRule) -> OutputRule:
    """Rule of a start whose result is (operands, results, contexts): operands pass through."""

    def of_output(instruction: HloInstruction, output: int) -> list[Maps]:
        count = instruction.operand_count
        shape = _leaves(instruction.shape)[output]
        if output < count:
            return [(identity_map(shape.dimensions),) if n == output else () for n in range(count)]
        if output < 2 * count:
            return rule(instruction, output)
        return [() for _ in range(count)]

    return of_output


def _gather_start(instruction: HloInstruction, output: int) -> list[Maps]:
    out, number = _leaves(instruction.shape)[output], output - instruction.operand_count
    operand = instruction.operand(number)
    joint = _all_gather(instruction, out, operand.shape)
    return [(_forget_replica(joint),) if n == number else () for n in range(instruction.operand_count)]


def _permute_plain(instruction: HloInstruction, output: int) -> list[Maps]:
    out = _leaves(instruction.shape)[output]
    if instruction.attributes_as(at.CollectivePermuteAttributes).slice_sizes:
        return [(UNKNOWN,)] * instruction.operand_count
    number = output % instruction.operand_count
    return [(identity_map(out.dimensions),) if n == number else () for n in range(instruction.operand_count)]


def _ragged_all_to_all(instruction: HloInstruction, output: int) -> list[Maps]:
    """Rows of unknown replicas and places, else the output operand's own; offsets and sizes are read whole."""
    out = _leaves(instruction.shape)[output]
    offsets: list[Maps] = [(whole_map(out.dimensions, o.shape),) for o in instruction.operands[2:]]
    return [(UNKNOWN,), (identity_map(out.dimensions),), *offsets]


OUTPUT_RULES: Mapping[str, OutputRule] = MappingProxyType(
    {
        **dict.fromkeys(("all-reduce", "all-reduce-start", "all-gather", "reduce-scatter", "all-to-all"), _plain),
        "collective-broadcast": _plain,
        "all-gather-start": _start(_gather_start),
        "collective-permute": _permute_plain,
        "collective-permute-start": _start(_permute_plain),
        "ragged-all-to-all": _ragged_all_to_all,
    }
)
HAS_REPLICA_MAPS = frozenset(
    ["all-reduce", "all-reduce-start", "all-gather", "reduce-scatter", "all-to-all", "collective-broadcast",
     "collective-permute"]
)  # fmt: skip
