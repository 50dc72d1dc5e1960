"""`xjit.jit` and `xjit.from_jax`: what JAX's own jit gives, from programs that xjit compiled."""

from __future__ import annotations

import threading
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import xjit

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


def assert_same(found: Any, expected: Any) -> None:
    """Equal trees, types and (nearly) values."""
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(
            np.asarray(a).astype(np.complex128), np.asarray(b).astype(np.complex128), rtol=1e-5, atol=1e-6
        )


def step(params: Any, batch: Any, *, rate: Any = 0.1) -> Any:
    """A training step: nested trees in and out, gradients, an unused argument."""

    def loss(params: Any) -> Any:
        hidden = jnp.tanh(batch["x"] @ params["w"][0] + params["b"])
        return jnp.mean((hidden @ params["w"][1] - batch["y"]) ** 2)

    value, gradient = jax.value_and_grad(loss)(params)
    return value, jax.tree.map(lambda p, g: p - rate * g, params, gradient), None


def training_arguments() -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    params = {
        "w": (random.standard_normal((4, 8), np.float32), random.standard_normal((8, 2), np.float32)),
        "b": np.zeros(8, np.float32),
    }
    batch = {"x": X, "y": np.ones((3, 2), np.float32), "unused": np.zeros(5, np.int32)}
    return params, batch


def test_trees_in_and_out() -> None:
    params, batch = training_arguments()
    compiled = xjit.jit(step)
    assert_same(compiled(params, batch), jax.jit(step)(params, batch))
    assert_same(compiled(params, batch, rate=np.float32(2)), jax.jit(step)(params, batch, rate=np.float32(2)))
    assert compiled.cache_size() == 2
    assert (compiled.__name__, compiled.__doc__) == (step.__name__, step.__doc__)


def test_cache_by_type_shape_and_weak_type() -> None:
    traced: list[Any] = []

    @xjit.jit
    def add(x: Any, y: Any) -> Any:
        traced.append((x.dtype, x.shape, y.weak_type))
        return x + y

    half = ml_dtypes.bfloat16(2)
    for arguments in ((X, 1), (X, 2), (X, 1.0), (X, np.int32(1)), (X[:2], 1), (X.astype(half.dtype), 1), (X, half)):
        assert_same(add(*arguments), jax.jit(lambda x, y: x + y)(*arguments))
    assert len(traced) == add.cache_size() == 6
    add(jnp.asarray(X), 3)
    assert add.cache_size() == 6  # an array of JAX is an array
    weak = jnp.sin(1.0)
    assert weak.weak_type
    assert add(X.astype(half.dtype), weak).dtype == half.dtype
    add.clear_cache()
    assert add.cache_size() == 0


def test_64_bits_are_as_in_jax() -> None:
    double = xjit.jit(lambda x: x * 2)
    with jax.enable_x64(False):
        assert double(np.arange(3)).dtype == double(np.arange(3, dtype=np.int64)).dtype == np.int32
        assert double(np.ones(3)).dtype == np.float32
    with jax.enable_x64(True):
        assert double(np.ones(3)).dtype == np.float64


def test_static_arguments() -> None:
    def power(x: Any, n: int, mode: str = "up", *, scale: float = 1.0) -> Any:
        return (x**n if mode == "up" else x - n) * scale

    by_number = xjit.jit(power, static_argnums=(1, -1), static_argnames=("n", "mode", "scale"))
    by_name = xjit.jit(power, static_argnames=("n", "mode"))
    for compiled in (by_number, by_name):
        assert_same(compiled(X, 3), X**3)
        assert_same(compiled(X, 3, "down"), X - 3)
        assert_same(compiled(X, n=2, mode="up", scale=2.0), X**2 * 2)
        assert compiled.cache_size() == 3
        assert_same(compiled(X, 3), X**3)
        assert compiled.cache_size() == 3
    assert xjit.jit(lambda x, n: x * n, static_argnums=1)(X, True).dtype == np.float32  # True is not the key 1


def test_methods_and_decorators() -> None:
    class Model:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        @xjit.jit(static_argnums=0)
        def apply(self, x: Any) -> Any:
            return x * self.factor

    assert_same(Model(3.0).apply(X), X * 3)
    assert_same(Model(4.0).apply(X), X * 4)
    assert_same(xjit.jit(jax.jit(lambda x: x + 1))(X), X + 1)


def test_donated_arrays_are_the_results() -> None:
    update = xjit.jit(lambda p, g: jax.tree.map(lambda a, b: a - b, p, g), donate_argnums=0)
    params, gradient = {"w": X.copy()}, {"w": X * 0.5}
    result = update(params, gradient)
    assert result["w"] is params["w"]
    assert_same(result, {"w": X - X * 0.5})
    kept = {"w": jnp.asarray(X)}
    assert_same(update(kept, gradient), {"w": X - X * 0.5})
    assert_same(kept, {"w": X})  # an array of JAX cannot be given away: it is copied
    read_only = X.copy()
    read_only.flags.writeable = False
    update({"w": read_only}, gradient)
    assert (read_only == X).all()


def test_all_kinds_of_results() -> None:
    assert xjit.jit(lambda: ())() == ()
    assert_same(xjit.jit(lambda: (1, jnp.arange(3)))(), (jnp.asarray(1), jnp.arange(3)))
    key = jax.random.key(3)
    left = xjit.jit(lambda k: {"keys": jax.random.split(k), "x": jax.random.normal(k, (3,))})(key)
    right = jax.random.split(key)
    assert left["keys"].dtype == right.dtype
    assert (jax.random.key_data(left["keys"]) == jax.random.key_data(right)).all()
    assert_same(left["x"], jax.random.normal(key, (3,)))
    tangent = xjit.jit(jax.grad(lambda x: 1.0, allow_int=True))(3)
    assert tangent.dtype == jax.dtypes.float0


@pytest.mark.parametrize(
    "call,message",
    [
        (lambda f: f({"a": "text"}), r"argument \[0\]\['a'\] of f is a str, which is no array: static_argnums"),
        (lambda f: jax.jit(f)(1.0), "is traced by JAX .*: a compiled function cannot be part of jax.jit"),
        (lambda f: jax.grad(f)(1.0), "xjit.jit\\(jax.grad\\(f\\)\\)"),
        (lambda f: xjit.jit(f, static_argnums=0)(X), "static argument 0 is a ndarray, which is not hashable"),
        (lambda f: xjit.jit(f, static_argnums=1), "f has 1 positional parameters, no number 1"),
        (lambda f: xjit.jit(f, static_argnames="y"), "f has no parameter 'y'"),
        (lambda f: xjit.jit(3), "expected a function, found int"),
        (lambda f: xjit.from_jax("f", 1), "expected a function that JAX can trace, found str"),
        (lambda f: f.lower(X).compile()(X, X), "was compiled for arguments"),
        (lambda f: f.lower(X).compile()(X[0]), "expected f32\\[3,4\\], got float32 \\(4,\\)"),
    ],
)
def test_mistakes_are_one_error(call: Any, message: str) -> None:
    @xjit.jit
    def f(x: Any) -> Any:
        return x

    with pytest.raises(xjit.InvalidArgument, match=message):
        call(f)


def test_errors_of_the_function_are_its_own() -> None:
    def f(x: Any) -> Any:
        return x if x > 0 else -x

    with pytest.raises(jax.errors.TracerBoolConversionError):
        xjit.jit(f)(1.0)


def test_lowering_and_modules() -> None:
    lowered = xjit.jit(lambda x, unused: jnp.sin(x)).lower(jax.ShapeDtypeStruct((3,), np.float32), 1)
    assert lowered.module.entry_computation.num_parameters == 2
    assert "sine(" in lowered.as_text()
    compiled = lowered.compile()
    assert compiled.executable.cost_analysis()["transcendentals"] == 3
    np.testing.assert_allclose(compiled(np.ones(3, np.float32), 1), np.sin(np.ones(3)), rtol=1e-6)
    jitted = jax.jit(lambda x, n, y: x * n, static_argnums=1, donate_argnums=0)
    module = xjit.from_jax(jitted, X, 2, X)
    assert module.entry_computation.num_parameters == 2  # all but the static one
    assert "input_output_alias" in str(module).splitlines()[0]
    simulated = xjit.jit(lambda x: x + 1, target="cuda-sim")
    assert_same(simulated(X), X + 1)


def test_calls_from_several_threads() -> None:
    calls: list[int] = []
    traced: list[int] = []

    @xjit.jit
    def f(x: Any) -> Any:
        traced.append(1)
        return x + 1

    threads = [threading.Thread(target=lambda: calls.append(int(f(np.int32(2))))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (calls, traced) == ([3] * 8, [1])
