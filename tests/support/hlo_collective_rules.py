"""Random collectives: what the devices of several replicas and partitions combine, gather and exchange."""

from __future__ import annotations

import functools

from tests.support.hlo_generator import Dims, Generator, Value, text_of
from xjit.hlo.types.primitive_type import PrimitiveType as P

_KINDS = (P.F32, P.F32, P.S32, P.U8, P.BF16, P.S64, P.F64)
_REDUCERS = ("add", "add", "add", "maximum", "minimum", "multiply")
_MAX_SIZE = 6


def _groups(g: Generator, count: int, may_be_empty: bool = True) -> tuple[int, str]:
    """Returns how many members the groups of some ids have, and the groups in random order."""
    size = g.rng.choice([n for n in range(1, count + 1) if count % n == 0])
    if size == count and may_be_empty and g.rng.random() < 0.5:
        return size, "{}"
    ids = g.permutation(count)
    return size, "{" + ",".join(text_of(ids[i : i + size]) for i in range(0, count, size)) + "}"


def _among(g: Generator) -> tuple[int, str]:
    """Returns for what combines or gathers how many devices do so together, and the attributes that say which."""
    replicas, partitions = g.module.replicas, g.module.partitions
    mode = g.rng.choice(("replicas", "replicas and partitions", "devices"))
    if mode == "devices":
        size, groups = _groups(g, replicas * partitions, may_be_empty=False)
        return size, f"replica_groups={groups}, channel_id={g.module.new_channel()}, use_global_device_ids=true"
    size, groups = _groups(g, replicas)
    if mode == "replicas":
        return size, f"replica_groups={groups}"
    return size * partitions, f"replica_groups={groups}, channel_id={g.module.new_channel()}"


def _between(g: Generator) -> tuple[int, str]:
    """Returns for what is sent how many replicas, or partitions, may exchange, and the attribute that says which."""
    if g.rng.random() < 0.5:
        return g.module.replicas, ""
    return g.module.partitions, f", channel_id={g.module.new_channel()}"


def _operand(g: Generator, along: int = 1) -> tuple[Value, int]:
    """Returns an array and one of its dimensions, whose size is a multiple of `along`."""
    dims = list(g.dims(1, 3))
    d = g.rng.randrange(len(dims))
    dims[d] = along * g.rng.choice((1, 2, 3))
    sizes: Dims = tuple(n if i == d else min(n, _MAX_SIZE) for i, n in enumerate(dims))
    return g.operand(g.kind(*_KINDS), sizes), d


def _combined(g: Generator, x: Value) -> tuple[str, bool]:
    """Returns a random reducer of an array's type, and whether the result has the same bits in any order."""
    opcode = g.rng.choice(_REDUCERS)
    exact = x.exact and (opcode in ("maximum", "minimum") or not x.kind.is_float)
    return g.scalar_computation(x.kind, opcode), exact


def all_reduce(g: Generator) -> Value:
    x, _ = _operand(g)
    reducer, exact = _combined(g, x)
    return g.emit("all-reduce", x.kind, x.dims, x.name, f"{_among(g)[1]}, to_apply={reducer}", exact)


def all_gather(g: Generator) -> Value:
    x, d = _operand(g)
    size, attributes = _among(g)
    dims = tuple(n * size if i == d else n for i, n in enumerate(x.dims))
    return g.emit("all-gather", x.kind, dims, x.name, f"{attributes}, dimensions={{{d}}}", x.exact)


def reduce_scatter(g: Generator) -> Value:
    size, attributes = _among(g)
    x, d = _operand(g, size)
    reducer, exact = _combined(g, x)
    dims = tuple(n // size if i == d else n for i, n in enumerate(x.dims))
    attributes = f"{attributes}, dimensions={{{d}}}, to_apply={reducer}"
    return g.emit("reduce-scatter", x.kind, dims, x.name, attributes, exact)


def all_to_all(g: Generator) -> Value:
    count, channel = _between(g)
    size, groups = _groups(g, count)
    x, d = _operand(g, size)
    attributes = f"replica_groups={groups}{channel}, dimensions={{{d}}}"
    return g.emit("all-to-all", x.kind, x.dims, x.name, attributes, x.exact)


def collective_permute(g: Generator) -> Value:
    x, _ = _operand(g)
    count, channel = _between(g)
    kept = g.rng.randint(0, count)
    pairs = list(zip(g.permutation(count)[:kept], g.permutation(count), strict=False))
    text = "{" + ",".join(text_of(pair) for pair in pairs) + "}"
    return g.emit("collective-permute", x.kind, x.dims, x.name, f"source_target_pairs={text}{channel}", x.exact)


def collective_broadcast(g: Generator) -> Value:
    x, _ = _operand(g)
    count, channel = _between(g)
    attributes = f"replica_groups={_groups(g, count, may_be_empty=False)[1]}{channel}"
    return g.emit("collective-broadcast", x.kind, x.dims, x.name, attributes, x.exact)


def _number(opcode: str, g: Generator) -> Value:
    return g.emit(opcode, P.U32, (), "")


replica_id = functools.partial(_number, "replica-id")
partition_id = functools.partial(_number, "partition-id")
