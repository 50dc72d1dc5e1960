"""Random sequences of transformations of a program that tile and fuse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from xjit.linalg_ext.ir import LinalgError, Operation, TensorType
from xjit.linalg_ext.transforms import (
    Keep,
    fuse,
    fuse_ext,
    fuse_into_containing_op,
    fuse_operands,
    tile,
    tile_loop_hint,
    tile_reduction_using_for,
    tile_reduction_using_forall,
    tile_to_forall,
)
from xjit.linalg_ext.transforms.tilable import find_tilable

__all__ = ["random_transformations"]


@dataclass(frozen=True)
class _Choice:
    """An operation with random tile sizes and a random order of its loops."""

    random: Random
    module: Operation
    op: Operation
    sizes: list[int]
    order: list[int]
    others: list[Operation]


def _tile(c: _Choice) -> None:
    tile_loop_hint(tile(c.op, c.sizes, c.order).tiled_op)


def _fuse_ext(c: _Choice) -> None:
    stop = [op for op in c.others if c.random.random() < 0.1]
    fuse_ext(c.op, c.sizes, c.order, stop, c.random.choice([Keep.USED, Keep.USED, Keep.UNALIGNED, Keep.ALL]))


def _fuse(c: _Choice) -> None:
    fuse(c.op, c.sizes, c.order)


def _forall(c: _Choice) -> None:
    tile_to_forall(c.op, tile_sizes=c.sizes)


def _threads(c: _Choice) -> None:
    tile_to_forall(c.op, num_threads=c.sizes)


def _reduction(c: _Choice) -> None:
    tile_reduction_using_for(c.op, c.sizes)


def _parallel_reduction(c: _Choice) -> None:
    steps = [c.random.randint(1, 2) for _ in c.sizes] if c.random.random() < 0.5 else []
    tile_reduction_using_forall(c.op, c.sizes, steps)


def _operands(c: _Choice) -> None:
    [end] = [op for op in c.module.walk() if op.name == "func.return"]
    fuse_operands(end, [c.random.randint(1, 3) for _ in range(c.random.randint(1, 2))])


def _containing(c: _Choice) -> None:
    producers = [v.defining_op for v in c.op.operands]
    loops = tile(c.op, c.sizes, c.order).loops
    beside = [p for p in producers if p is not None and loops and p.block is loops[0].block]
    if beside:
        fuse_into_containing_op(c.random.choice(beside), loops[0])


_TRANSFORMATIONS: Sequence[Callable[[_Choice], None]] = (
    _tile,
    *(_fuse_ext,) * 4,
    _fuse,
    _forall,
    _threads,
    _operands,
    _containing,
)
_OF_REDUCTIONS = (_reduction, _parallel_reduction)


def random_transformations(module: Operation, seed: int) -> list[str]:
    """Applies up to three transformations; returns what was done, and what was refused."""
    random = Random(seed)
    done: list[str] = []
    for _ in range(random.randint(1, 3)):
        ops = [
            op
            for op in module.walk()
            if op.dialect in ("linalg", "linalg_ext", "tensor")
            and any(isinstance(t, TensorType) for t in op.result_types)
        ]
        op = random.choice(ops[-6:] if random.random() < 0.6 else ops)
        tilable = find_tilable(op)
        if tilable is None:
            continue
        loops = len(tilable.iterator_types)
        order = list(range(loops))
        random.shuffle(order)
        sizes = [random.choice([0, 0, 1, 2, 3, 4]) for _ in range(loops)]
        choice = _Choice(random, module, op, sizes, order if random.random() < 0.5 else [], ops)
        is_reduction = op.name in ("linalg.matmul", "linalg.reduce") and random.random() < 0.2
        transformation = random.choice(_OF_REDUCTIONS if is_reduction else _TRANSFORMATIONS)
        name = f"{transformation.__name__} {op.name} {sizes} {choice.order}"
        try:
            transformation(choice)
            done.append(name)
        except LinalgError as error:
            done.append(f"{name}: {error.message}")
    return done
