"""Rules of opcodes that move data: see `tests.support.hlo_rules`."""

from __future__ import annotations

from tests.support.hlo_generator import ALL, COMMON, INTEGERS, WIDE, Dims, Generator, Value, names, product, text_of
from xjit.hlo.types.primitive_type import PrimitiveType as P


def any_value(g: Generator, low: int = 0, high: int = 5) -> Value:
    value = g.operand(None if g.graph else g.kind(*ALL), None if g.graph else g.dims(low, high))
    return value if len(value.dims) >= low else g.resized(value, g.dims(low, high, empty=False))


def copy(g: Generator) -> Value:
    x = any_value(g)
    return g.emit("copy", x.kind, x.dims, x.name, exact=x.exact)


def iota(g: Generator) -> Value:
    dims = g.dims(1)
    kind = g.kind(*[k for k in COMMON if k is not P.PRED]) if g.graph else g.kind(*WIDE, *INTEGERS[:4], P.U32, P.C64)
    return g.emit("iota", kind, dims, "", f"iota_dimension={g.rng.randrange(len(dims))}")


def broadcast(g: Generator) -> Value:
    x = any_value(g, 0, 3)
    dims = list(x.dims)
    kept = list(range(len(dims)))
    while len(dims) < 5 and (g.rng.random() < 0.6 or not x.dims):
        if product(dims) * 4 > 4000:
            break
        at = g.rng.randint(0, len(dims))
        dims.insert(at, g.rng.choice((1, 2, 3, 5)))
        kept = [k + (k >= at) for k in kept]
        if not x.dims and g.rng.random() < 0.5:
            break
    return g.emit("broadcast", x.kind, tuple(dims), x.name, f"dimensions={text_of(kept)}", x.exact)


def transpose(g: Generator) -> Value:
    x = any_value(g)
    order = g.permutation(len(x.dims))
    dims = tuple(x.dims[d] for d in order)
    return g.emit("transpose", x.kind, dims, x.name, f"dimensions={text_of(order)}", x.exact)


def reshape(g: Generator) -> Value:
    x = any_value(g)
    factors: list[int] = []
    rest = x.size
    for prime in (2, 3, 5, 7, 11, 13, 17):
        while rest and rest % prime == 0:
            factors.append(prime)
            rest //= prime
    factors.append(rest)
    g.rng.shuffle(factors)
    count = g.rng.randint(1, 4)
    dims = [1] * count
    for factor in factors:
        dims[g.rng.randrange(count)] *= factor
    return g.reshaped(x, () if x.size == 1 and g.rng.random() < 0.5 else tuple(dims))


def slice_(g: Generator) -> Value:
    x = any_value(g, 1)
    ranges: list[str] = []
    dims: list[int] = []
    for size in x.dims:
        start = g.rng.randint(0, size)
        limit = g.rng.randint(start, size)
        if g.graph and start == limit:
            start, limit = 0, size
        step = g.rng.choice((1, 1, 2, 3))
        ranges.append(f"[{start}:{limit}:{step}]" if step > 1 else f"[{start}:{limit}]")
        dims.append(-(-(limit - start) // step))
    return g.emit("slice", x.kind, tuple(dims), x.name, f"slice={{{','.join(ranges)}}}", x.exact)


def reverse(g: Generator) -> Value:
    x = any_value(g, 1)
    which = sorted(g.rng.sample(range(len(x.dims)), g.rng.randint(0, len(x.dims))))
    return g.emit("reverse", x.kind, x.dims, x.name, f"dimensions={text_of(which)}", x.exact)


def pad(g: Generator) -> Value:
    x = any_value(g, 1)
    value = g.operand(x.kind, ())
    parts: list[str] = []
    dims: list[int] = []
    for size in x.dims:
        low, high, interior = g.rng.randint(-2, 3), g.rng.randint(-2, 3), g.rng.choice((0, 0, 0, 1, 2))
        spread = size + max(size - 1, 0) * interior
        if spread + low + high < (1 if g.graph else 0) or min(low, high) < -spread:
            low, high = 0, 1
        parts.append(f"{low}_{high}_{interior}" if interior else f"{low}_{high}")
        dims.append(spread + low + high)
    return g.emit("pad", x.kind, tuple(dims), names(x, value), f"padding={'x'.join(parts)}", x.exact and value.exact)


def concatenate(g: Generator) -> Value:
    first = any_value(g, 1)
    axis = g.rng.randrange(len(first.dims))
    operands = [first]
    for _ in range(g.rng.randint(0, 3)):
        dims = list(first.dims)
        dims[axis] = g.rng.choice((1, 2, 3, 9) if g.graph else (0, 1, 2, 3, 9))
        operands.append(g.operand(first.kind, tuple(dims)))
    dims = list(first.dims)
    dims[axis] = sum(o.dims[axis] for o in operands)
    exact = all(o.exact for o in operands)
    return g.emit("concatenate", first.kind, tuple(dims), names(*operands), f"dimensions={{{axis}}}", exact)


def starts(g: Generator, count: int) -> list[Value]:
    kind = g.kind(P.S32, P.S32, P.S64, P.U32, P.S8, P.U8)
    return [g.operand(kind, (), exact=True) for _ in range(count)]


def smaller(g: Generator, dims: Dims) -> Dims:
    return tuple(g.rng.randint(min(size, 1), size) for size in dims)


def dynamic_slice(g: Generator) -> Value:
    x = any_value(g)
    sizes = smaller(g, x.dims)
    operands = names(x, *starts(g, len(x.dims)))
    return g.emit("dynamic-slice", x.kind, sizes, operands, f"dynamic_slice_sizes={text_of(sizes)}", x.exact)


def dynamic_update_slice(g: Generator) -> Value:
    x = any_value(g)
    update = g.operand(x.kind, smaller(g, x.dims))
    operands = names(x, update, *starts(g, len(x.dims)))
    return g.emit("dynamic-update-slice", x.kind, x.dims, operands, exact=x.exact and update.exact)


def gather_numbers(g: Generator, operand: Dims) -> tuple[Dims, Dims, Dims, Dims, Dims, int, Dims, Dims]:
    """(batch sizes, index dims, start_index_map, slice sizes, collapsed, index_vector_dim, offset dims, result)."""
    rank = len(operand)
    mapped = g.rng.sample(range(rank), g.rng.randint(1, rank))
    batch = g.dims(0, 2, empty=False)
    while product(batch) > 60:
        batch = batch[1:]
    vector_at = g.rng.randint(0, len(batch))
    indices = (*batch[:vector_at], len(mapped), *batch[vector_at:])
    if len(mapped) == 1 and vector_at == len(batch) and g.rng.random() < 0.5:
        indices = batch
    collapsed = [d for d in range(rank) if operand[d] and g.rng.random() < 0.4]
    sizes = [1 if d in collapsed else g.rng.randint(min(1, operand[d]), operand[d]) for d in range(rank)]
    window = [s for d, s in enumerate(sizes) if d not in collapsed]
    total = len(batch) + len(window)
    offset = sorted(g.rng.sample(range(total), len(window)))
    windows, batches = iter(window), iter(batch)
    result = tuple(next(windows) if d in offset else next(batches) for d in range(total))
    return batch, indices, tuple(mapped), tuple(sizes), tuple(collapsed), vector_at, tuple(offset), result


def gather(g: Generator) -> Value:
    x = any_value(g, 1, 4)
    _, indices, mapped, sizes, collapsed, vector_at, offset, result = gather_numbers(g, x.dims)
    start = g.operand(g.kind(P.S32, P.S64, P.U8, P.S8, P.U32), indices, exact=True)
    attributes = (
        f"offset_dims={text_of(offset)}, collapsed_slice_dims={text_of(collapsed)}, start_index_map={text_of(mapped)}, "
        f"index_vector_dim={vector_at}, slice_sizes={text_of(sizes)}"
    )
    return g.emit("gather", x.kind, result, names(x, start), attributes, x.exact)


def scatter(g: Generator) -> Value:
    x = g.operand(g.kind(P.S32, P.F32, P.S8, P.U8, P.S64, P.F64), None if g.graph else g.dims(1, 4), exact=True)
    if not x.dims:
        x = g.resized(x, g.dims(1, 4))
    _, indices, mapped, _, inserted, vector_at, window, updates = gather_numbers(g, x.dims)
    start = g.operand(g.kind(P.S32, P.S64, P.U8, P.S8, P.U32), indices, exact=True)
    update = g.operand(x.kind, updates, exact=True)
    combiner = g.scalar_computation(x.kind, g.rng.choice(("minimum", "maximum")) if x.kind.is_float else "add")
    attributes = (
        f"update_window_dims={text_of(window)}, inserted_window_dims={text_of(inserted)}, "
        f"scatter_dims_to_operand_dims={text_of(mapped)}, index_vector_dim={vector_at}, to_apply={combiner}"
    )
    return g.emit("scatter", x.kind, x.dims, names(x, start, update), attributes)
