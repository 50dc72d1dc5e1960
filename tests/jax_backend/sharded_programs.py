"""Programs over four devices, on one of xjit's backends and on XLA:CPU, in a process of its own; what went wrong as JSON.

Usage: python sharded_programs.py MODULUS REMAINDER [BACKEND]: the programs whose number has that remainder. A program
is a function of a mesh of two by two devices, with the axes x and y.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

os.environ["JAX_PLATFORMS"] = ",".join(("cpu", *(sys.argv[3:] or ["xjit"])))
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
os.environ["XJIT_NUM_DEVICES"] = "4"

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import io_callback
from jax.experimental.custom_partitioning import custom_partitioning
from jax.experimental.shard_alike import shard_alike
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import xjit_jax_plugin

xjit_jax_plugin.initialize()

RNG = np.random.default_rng(3)
A, B = (RNG.standard_normal((8, 8)).astype(np.float32) for _ in range(2))
PROGRAMS: dict[str, Callable[[Mesh], Any]] = {}


def program(run: Callable[[Mesh], Any]) -> Callable[[Mesh], Any]:
    PROGRAMS[run.__name__] = run
    return run


def put(mesh: Mesh, array: Any, *axes: Any) -> jax.Array:
    return jax.device_put(array, NamedSharding(mesh, P(*axes)))


def mapped(mesh: Mesh, f: Any, in_specs: Any, out_specs: Any, *arrays: Any, **more: Any) -> Any:
    specs = in_specs if isinstance(in_specs, list) else [in_specs]
    given = [put(mesh, a, *spec) for a, spec in zip(arrays, specs, strict=True)]
    shard = jax.shard_map(f, mesh=mesh, in_specs=tuple(specs), out_specs=out_specs, check_vma=False, **more)
    return jax.jit(shard)(*given)


@program
def matmul_with_a_constraint(mesh: Mesh) -> Any:
    def f(a: Any, b: Any) -> Any:
        inner = lax.with_sharding_constraint(jnp.tanh(a @ b), NamedSharding(mesh, P("y", None)))
        return inner * 2, jnp.sum(a)

    return jax.jit(f)(put(mesh, A, "x", "y"), put(mesh, B, "y", None))


@program
def result_sharding(mesh: Mesh) -> Any:
    out = jax.jit(lambda a: a @ a.T, out_shardings=NamedSharding(mesh, P(None, "x")))(put(mesh, A, "x", "y"))
    assert out.sharding.is_equivalent_to(NamedSharding(mesh, P(None, "x")), 2)
    return out


@program
def gradient(mesh: Mesh) -> Any:
    return jax.jit(jax.grad(lambda x: jnp.sum(jnp.tanh(x @ x.T) ** 2)))(put(mesh, A, "x", "y"))


@program
def reductions_sorts_and_gathers(mesh: Mesh) -> Any:
    x = put(mesh, A, "x", "y")
    return jax.jit(lambda v: (v.sum(0), v.max(), jnp.argsort(v, axis=0), v[np.array([1, 5, 3])]))(x)


@program
def control_flow(mesh: Mesh) -> Any:
    def f(x: Any, i: Any) -> Any:
        y = lax.cond(i > 0, lambda v: v @ v.T, lambda v: v * 2, x)
        return lax.while_loop(lambda c: c[1] < 3, lambda c: (jnp.tanh(c[0] @ c[0]), c[1] + 1), (y, 0))[0]

    return jax.jit(f)(put(mesh, A, "x", "y"), 1)


@program
def random_numbers(mesh: Mesh) -> Any:
    key = jax.device_put(jax.random.key_data(jax.random.key(0)), NamedSharding(mesh, P()))
    draw = jax.jit(lambda k: jax.random.normal(jax.random.wrap_key_data(k), (8, 8)))
    return draw(key)


@program
def sums_and_indices_by_hand(mesh: Mesh) -> Any:
    def f(a: Any, b: Any) -> Any:
        return lax.psum(a, "x") + lax.axis_index("y"), b * 2

    return mapped(mesh, f, [P("x", "y"), P("y")], (P(None, "y"), P("y")), A, B)


@program
def every_collective_by_hand(mesh: Mesh) -> Any:
    def f(a: Any) -> Any:
        both = ("x", "y")
        return (
            lax.ppermute(a, "x", [(0, 1), (1, 0)]),
            lax.all_to_all(a, "x", 1, 0, tiled=True),
            lax.all_gather(a, "y", tiled=True),
            lax.psum_scatter(a, both, tiled=True),
            lax.pmax(a, both),
            lax.pmean(a, "y"),
        )

    return mapped(mesh, f, P("x", "y"), (P("x", "y"),) * 6, A)


@program
def one_axis_by_hand(mesh: Mesh) -> Any:
    return mapped(mesh, lambda a: lax.psum(jnp.sin(a) @ a.T, "x"), P("x"), P(None), A, axis_names={"x"})


@program
def loops_and_branches_by_hand(mesh: Mesh) -> Any:
    def f(a: Any) -> Any:
        last, sums = lax.scan(lambda c, v: (lax.psum(c, "x") * 0.1 + v, c.sum()), a[0], a)
        return lax.cond(lax.axis_index("x") == 0, lambda v: v * 2, lambda v: v - 1, last), sums

    return mapped(mesh, f, P(None, "x"), (P("x"), P(None)), A)


@program
def one_axis_after_the_other_by_hand(mesh: Mesh) -> Any:
    def inner(a: Any) -> Any:
        return lax.psum(a, "y") + a, lax.psum(lax.psum(a, "x"), "y")

    def f(a: Any) -> Any:
        split = jax.shard_map(inner, in_specs=P(None, "y"), out_specs=(P(None, "y"), P()), axis_names={"y"})
        return lax.scan(lambda c, _: (split(c)[0], split(c)[1]), a * 2, None, length=2)

    part = jax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=(P("x"), P()), axis_names={"x"}, check_vma=False)
    return jax.jit(part)(A)


def specs_of(arrays: Any) -> list[P]:
    return [array.sharding.spec for array in jax.tree.leaves(arrays)]


@program
def axes_that_a_region_leaves_to_the_compiler_split_its_arrays(mesh: Mesh) -> Any:
    def region(f: Any, in_spec: P, out_spec: P, axis: str) -> Any:
        part = jax.shard_map(f, mesh=mesh, in_specs=in_spec, out_specs=out_spec, axis_names={axis}, check_vma=False)
        return jax.jit(part)

    def f(a: Any) -> Any:
        b = lax.with_sharding_constraint(jnp.tanh(a), P(None, "y")) + lax.axis_index("x")
        return lax.fori_loop(0, 2, lambda _, c: lax.ppermute(c, "x", [(0, 1), (1, 0)]) * 2, b)

    a = put(mesh, A, "x", "y")
    compiled = region(f, P("x"), P("x"), "x").lower(a).compile()
    assert "all-gather" not in compiled.as_text()
    results = [
        compiled(a),
        region(lambda v: lax.psum(v, "x"), P("x"), P(), "x")(a),
        region(lambda v: lax.all_gather(v, "x", tiled=True), P("x"), P("x"), "x")(a),
        region(lambda v: lax.psum_scatter(v, "x", scatter_dimension=1, tiled=True), P("x"), P("x"), "x")(a),
        region(lambda v: lax.psum(v.T @ v, "x"), P("x"), P(), "x")(a),
        region(
            lambda v: lax.cond(lax.axis_index("y") == 1, lambda w: w * 2, lambda w: w - 1, v),
            P(None, "y"),
            P(None, "y"),
            "y",
        )(a),
    ]
    return results, np.array([str(spec) for spec in specs_of(results)]).view(np.uint32)


@program
def tiles_of_different_sizes_in_a_region(mesh: Mesh) -> Any:
    part = jax.shard_map(
        lambda v: jnp.sort(v, 0) + lax.axis_index("x"), mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"}
    )
    return jax.jit(lambda a: part(lax.with_sharding_constraint(a, NamedSharding(mesh, P(("x", "y"))))))(A[:6])


@program
def a_region_and_the_rest_share_a_function(mesh: Mesh) -> Any:
    twice = jax.jit(lambda v: jnp.sin(v) * 2)
    part = jax.shard_map(lambda v: twice(v) + 1, mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})
    return jax.jit(lambda a: part(twice(a)) + twice(a))(put(mesh, A, "x", "y"))


@program
def a_custom_partitioning(mesh: Mesh) -> Any:
    @custom_partitioning
    def sums(v: Any) -> Any:
        return v.sum(1), v * 2

    def partition(mesh: Any, args: Any, _: Any) -> Any:
        rows, columns = args[0].sharding.spec
        takes = NamedSharding(mesh, P(rows, columns))
        return mesh, lambda v: (lax.psum(v.sum(1), columns), v * 2), (NamedSharding(mesh, P(rows)), takes), (takes,)

    sums.def_partition(partition, sharding_rule="i j -> i, i j")
    return jax.jit(lambda v: sums(jnp.sin(v)))(put(mesh, A, "x", "y"))


@program
def callbacks_of_one_device(mesh: Mesh) -> Any:
    seen: list[Any] = []
    in_order: list[Any] = []

    def note(v: Any) -> Any:
        seen.append(np.array(v))
        return np.array(v) + 1

    def f(a: Any) -> Any:
        jax.debug.callback(note, a.sum())
        jax.debug.callback(note, a, partitioned=True)
        for i in range(3):
            io_callback(in_order.append, None, a[i, 0], ordered=True)
        jax.debug.inspect_array_sharding(a * 2, callback=lambda s: seen.append(np.array(s.spec == P("x", "y"))))
        return io_callback(note, jax.ShapeDtypeStruct(a.shape, a.dtype), a) * 2

    calls: list[int] = []

    def count(v: Any) -> Any:
        calls.append(1)
        return np.array(v) * 2

    result = jax.block_until_ready(jax.jit(f)(put(mesh, A, "x", "y")))
    pure = jax.jit(lambda v: jax.pure_callback(count, jax.ShapeDtypeStruct(v.shape, v.dtype), v))
    doubled = jax.block_until_ready(pure(put(mesh, A, "x")))
    assert len(calls) == 1
    jax.effects_barrier()
    return (result, doubled), sorted(seen, key=lambda v: v.size * 1000 + float(v.sum())), in_order


@program
def shardings_of_results(mesh: Mesh) -> Any:
    def constrained(*axes: Any) -> Any:
        return lambda v: lax.with_sharding_constraint(v, NamedSharding(mesh, P(*axes)))

    functions: list[Any] = [
        constrained("y"),
        constrained(P.UNCONSTRAINED, "y"),
        lambda v: shard_alike(v * 2, jnp.ones((8, 8)))[1],
        lambda v: shard_alike(v, v.T)[1],  # the group says more than the transpose
        lambda v: lax.top_k(v, 2),
        lambda v: v.reshape(2, 4, 8)[:, None],
    ]
    results = jax.tree.leaves([jax.jit(f)(put(mesh, A, "x", "y")) for f in functions])
    return results, np.array([[str(axis) for axis in [*r.sharding.spec, None, None][:2]] for r in results]) == "x"


@program
def shardings_of_parameters(mesh: Mesh) -> Any:
    x = put(mesh, A, "x", "y")
    functions: list[Any] = [lambda v, w: v + w, lambda v, w: w @ v, lambda v, w: v + w[0], lambda v, w: v + w[:4].sum()]
    compiled = [jax.jit(f).lower(x, B).compile() for f in functions]
    odd = jax.jit(lambda v, w: v[:7] + w).lower(x, B[:7]).compile()
    results = [f(x, B) for f in compiled], odd(x, B[:7])
    specs = [[str(axis) for axis in [*f.input_shardings[0][1].spec, None, None][:2]] for f in [*compiled, odd]]
    return results, np.array([[ord(axis[-1]) for axis in axes] for axes in specs])


@program
def shardings_where_operands_disagree(mesh: Mesh) -> Any:
    def loop(v: Any) -> Any:
        return lax.scan(lambda c, r: (jnp.tanh(c @ r.T @ r), c.sum()), jnp.ones((8, 8)), v)[0].sum()

    def perceptron(a: Any, b: Any, v: Any) -> Any:
        return (jnp.tanh(jnp.tanh(v @ a) @ b) @ a).sum()

    cube, wide = np.stack([A, B] * 4) / 4, (np.hstack([A, B]), np.vstack([A, B]))
    x, rows, columns = put(mesh, A, "x", "y"), put(mesh, B, "y"), put(mesh, B[:, :4], None, "y")
    both = put(mesh, A[0], ("x", "y"))
    cases: list[tuple[Any, ...]] = [
        (lambda a, b: a + b, x, rows),
        (lambda a: a + lax.with_sharding_constraint(a, NamedSharding(mesh, P("y", "x"))), x),
        (jax.grad(lambda a, b: jnp.sum(jnp.tanh(a @ b)), argnums=(0, 1)), x, columns),
        (lambda a, t: jnp.einsum("ij,kij->kij", a, t), x, put(mesh, cube, "y")),
        (jax.grad(loop), put(mesh, cube, "x", None, "y")),
        (jax.grad(perceptron, argnums=(0, 1)), *(put(mesh, w, "y") for w in wide), put(mesh, cube, "x")),
        (lambda v: (lax.associative_scan(jnp.add, v), v[:2], jnp.convolve(v, jnp.ones(3))), both),
        (lambda a, i: lax.dynamic_slice(a, (i, 0), (4, 8)), x, put(mesh, np.int32(1))),
        (lambda a, b: lax.dynamic_update_slice(a, b[:4], (2, 0)), put(mesh, A), rows),
        (lambda a, b: (jnp.sort(a), jnp.sort(b), jnp.sort(b[None], 1), jnp.sort(b[None], 0)), x, both),
    ]
    results = [jax.tree.leaves(jax.jit(f)(*arrays)) for f, *arrays in cases]
    found = [[str(axis) for axis in [*r.sharding.spec, None, None, None][:3]] for row in results for r in row]
    return results, np.array([[ord(axis[-1]) + len(axis) for axis in axes] for axes in found])


@program
def factorizations_of_a_split_batch(mesh: Mesh) -> Any:
    batch = put(mesh, np.stack([A @ A.T + 8 * np.eye(8, dtype=np.float32)] * 4), ("x", "y"))
    return jax.jit(lambda b: (jnp.linalg.cholesky(b), jnp.linalg.eigvalsh(b), jnp.linalg.inv(b)))(batch)


@program
def gradient_by_hand(mesh: Mesh) -> Any:
    def loss(a: Any) -> Any:
        part = jax.shard_map(
            lambda v: lax.pmean(jnp.sum(jnp.sin(v)), ("x", "y")), mesh=mesh, in_specs=P("x", "y"), out_specs=P()
        )
        return part(a)

    return jax.jit(jax.grad(loss))(put(mesh, A, "x", "y"))


@program
def callbacks_by_hand(mesh: Mesh) -> Any:
    def f(a: Any) -> Any:
        return jax.pure_callback(lambda v: np.asarray(v) * 2, jax.ShapeDtypeStruct(a.shape, a.dtype), a)

    return mapped(mesh, f, P("x", "y"), P("x", "y"), A)


@program
def pmap(mesh: Mesh) -> Any:
    devices = list(mesh.devices.flat)
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    f = jax.pmap(lambda a: (lax.psum(a, "i") * a, lax.axis_index("i")), axis_name="i", devices=devices)
    g = jax.pmap(lambda a, b: a @ b, in_axes=(0, None), devices=devices[1:3])
    return f(x), g(np.ones((2, 3, 3), np.float32), np.ones((3, 3), np.float32))


@program
def arrays_move_between_devices(mesh: Mesh) -> Any:
    x = put(mesh, A, "x", "y")
    alone = jax.device_put(x, mesh.devices.flat[2])
    made = jax.make_array_from_callback((8, 8), NamedSharding(mesh, P("y", "x")), lambda index: B[index])
    rows = [jax.device_put(A[4 * (d // 2) : 4 * (d // 2) + 4], mesh.devices.flat[d]) for d in range(4)]
    joined = jax.make_array_from_single_device_arrays((8, 8), NamedSharding(mesh, P("x", None)), rows)
    return put(mesh, x, "y", None), alone + 1, made * 2, joined.sum(), (x + 1) @ x.T


@program
def donation(mesh: Mesh) -> Any:
    functions = [lambda v: v * 2 + 1, lambda v: v.astype(jnp.int32), jnp.sum, lambda v: (v[:4], v[4:])]
    donated = [put(mesh, A.copy(), "x", "y") for _ in functions]
    results = [jax.jit(f, donate_argnums=0)(x) for f, x in zip(functions, donated, strict=True)]
    return results, np.array([x.is_deleted() for x in donated])


@program
def summands_come_and_go(mesh: Mesh) -> Any:
    explicit = Mesh(mesh.devices, mesh.axis_names, axis_types=(AxisType.Explicit,) * 2)
    split = P(None, unreduced={"x"})
    with jax.set_mesh(explicit):
        a, b = jax.device_put(A, P(None, "x")), jax.device_put(B, P("x", None))
        product = jnp.einsum("ij,jk->ik", a, b, out_sharding=P(None, None, unreduced={"x"}))
        gathered = jnp.einsum("ij,kj->ik", *[jax.device_put(A, P("y", "x"))] * 2, out_sharding=split)
        doubled = product + product
        sums = jax.jit(jax.shard_map(lambda v: v.sum(1), in_specs=P(None, "x"), out_specs=split))(a)
        added = jax.jit(jax.shard_map(lambda v: lax.psum(v, "x"), in_specs=split, out_specs=P(None)))(sums)
        apart = jax.device_put(jax.device_put(A[0], P()), split)
        shards = [[shard.data for shard in v.addressable_shards] for v in (product, gathered, doubled, sums, apart)]
        return shards, added, jax.sharding.reshard(doubled, P("x", None)), jax.sharding.reshard(apart, P())


@program
def keys_are_reshaped(mesh: Mesh) -> Any:
    keys = jax.device_put(jax.random.split(jax.random.key(0), 8), NamedSharding(mesh, P(("x", "y"))))
    return jax.random.key_data(keys.reshape(2, 4)), jax.random.key_data(keys.reshape(8, 1))


@program
def some_shardings_are_given(mesh: Mesh) -> Any:
    f = jax.jit(lambda v: (v, v.sum(), v * 2), out_shardings=(NamedSharding(mesh, P("y")), None, None))
    results = f(put(mesh, A, "x", "y"))
    assert [r.sharding.spec for r in results] == [P("y"), P(), P("x", "y")]
    return results


@program
def a_failure_reaches_the_results(mesh: Mesh) -> Any:
    def fail(v: Any) -> Any:
        raise ZeroDivisionError("on purpose")

    def f(a: Any) -> Any:
        return lax.psum(jax.pure_callback(fail, jax.ShapeDtypeStruct(a.shape, a.dtype), a), "x")

    try:
        jax.block_until_ready(mapped(mesh, f, P("x", "y"), P(None, "y"), A))
    except jax.errors.JaxRuntimeError as error:
        return np.array("on purpose" in str(error))
    return np.array(False)


@program
def arrays_of_numpys_under_a_mesh(mesh: Mesh) -> Any:
    with jax.set_mesh(mesh):
        made = jnp.asarray(np.arange(8.0), "float32"), *jax.jit(lambda a, b: (a + 1, b.sum()))(A, B[0])
    assert all(v.sharding.is_fully_replicated and len(v.devices()) == 4 for v in made)
    return made


@program
def nothing_is_annotated(mesh: Mesh) -> Any:
    """A constant on the devices of a mesh: no parameter, no sharding."""
    made = jax.jit(lambda: (jax.device_put(jnp.zeros(8), NamedSharding(mesh, P("x"))), jnp.arange(3)))()
    assert all(v.sharding.is_fully_replicated and len(v.devices()) == 4 for v in made)
    return made


def mesh_of(backend: str) -> Mesh:
    devices = np.array(jax.devices(backend)).reshape(2, 2)
    return Mesh(devices, ("x", "y"), axis_types=(AxisType.Auto,) * 2)


def main() -> None:
    modulus, remainder = (int(text) for text in sys.argv[1:3])
    chosen = [item for i, item in enumerate(PROGRAMS.items()) if i % modulus == remainder]
    wrong: dict[str, str] = {}
    for name, run in chosen:
        try:
            backends = os.environ["JAX_PLATFORMS"].split(",")
            expected, found = (jax.tree.map(np.asarray, run(mesh_of(backend))) for backend in backends)
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5), found, expected)
        except Exception:
            wrong[name] = traceback.format_exc()[-3000:]
    print(json.dumps({"count": len(chosen), "wrong": wrong}))


if __name__ == "__main__":
    main()
