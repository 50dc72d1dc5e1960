"""Programs of JAX's libraries, unmodified, on `JAX_PLATFORMS=xjit` and on `cpu`: same values? how fast? memory?

Each program runs in two processes of its own, one after the other, alternating. Programs whose library is missing are
left out (`pip install flax optax equinox numpyro blackjax diffrax`). Times are of a step after the first ones.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from reporting import Report, parse_arguments

Step = Callable[[], Any]


def flax_training() -> Step:
    """A convolutional network on images the size of MNIST's."""
    import flax.linen as nn
    import jax
    import jax.numpy as jnp
    import optax

    class Network(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            x = nn.relu(nn.Conv(16, (3, 3))(x))
            x = nn.avg_pool(x, (2, 2), strides=(2, 2)).reshape(x.shape[0], -1)
            return nn.Dense(10)(nn.relu(nn.Dense(64)(x)))

    images = jax.random.normal(jax.random.key(0), (64, 28, 28, 1))
    labels = jax.random.randint(jax.random.key(1), (64,), 0, 10)
    network, optimizer = Network(), optax.adam(1e-3)
    weights = network.init(jax.random.key(2), images)
    state = weights, optimizer.init(weights)

    def loss(weights: Any) -> Any:
        return optax.softmax_cross_entropy_with_integer_labels(network.apply(weights, images), labels).mean()

    @jax.jit
    def train(state: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(state[0])
        updates, memory = optimizer.update(gradient, state[1])
        return value, (optax.apply_updates(state[0], updates), memory)

    def step() -> Any:
        nonlocal state
        value, state = train(state)
        return jnp.asarray(value)

    return step


def equinox_training() -> Step:
    """A perceptron of Equinox with optax, its state donated."""
    import equinox as eqx
    import jax
    import optax

    model = eqx.nn.MLP(32, 4, 128, 3, key=jax.random.key(0))
    optimizer = optax.adamw(1e-3)
    inputs = jax.random.normal(jax.random.key(1), (128, 32))
    state = model, optimizer.init(eqx.filter(model, eqx.is_array))

    @eqx.filter_jit(donate="all-except-first")
    def train(inputs: Any, model: Any, memory: Any) -> Any:
        value, gradient = eqx.filter_value_and_grad(lambda m: (jax.vmap(m)(inputs) ** 2).mean())(model)
        updates, memory = optimizer.update(gradient, memory, eqx.filter(model, eqx.is_array))
        return value, eqx.apply_updates(model, updates), memory

    def step() -> Any:
        nonlocal state
        value, *state = train(inputs, *state)
        return value

    return step


def optax_donation() -> Step:
    """An update of Adam alone, all of its state donated."""
    import jax
    import jax.numpy as jnp
    import optax

    optimizer = optax.adam(1e-2)
    weights = {"a": jnp.ones((512, 512)), "b": jnp.ones(512)}
    state = weights, optimizer.init(weights)

    @functools.partial(jax.jit, donate_argnums=0)
    def update(state: Any) -> Any:
        updates, memory = optimizer.update(jax.tree.map(jnp.sin, state[0]), state[1])
        return optax.apply_updates(state[0], updates), memory

    def step() -> Any:
        nonlocal state
        state = update(state)
        return state[0]["b"]

    return step


def recurrent_gradients() -> Step:
    """A recurrent network by lax.scan, with gradients through time."""
    import jax
    import jax.numpy as jnp

    keys = jax.random.split(jax.random.key(0), 3)
    weights = 0.1 * jax.random.normal(keys[0], (64, 64)), 0.1 * jax.random.normal(keys[1], (16, 64))
    inputs = jax.random.normal(keys[2], (100, 8, 16))

    @jax.jit
    def gradient(weights: Any) -> Any:
        def loss(weights: Any) -> Any:
            def cell(state: Any, x: Any) -> Any:
                state = jnp.tanh(state @ weights[0] + x @ weights[1])
                return state, state.mean()

            return jax.lax.scan(cell, jnp.zeros((8, 64)), inputs)[1].sum()

        return jax.tree.map(lambda w, g: w - 1e-3 * g, weights, jax.grad(loss)(weights))

    def step() -> Any:
        nonlocal weights
        weights = gradient(weights)
        return weights[1]

    return step


def differential_equation() -> Step:
    """The Lorenz system by jax.experimental.ode."""
    import jax
    import jax.numpy as jnp
    from jax.experimental.ode import odeint

    def lorenz(y: Any, t: Any) -> Any:
        return jnp.array([10 * (y[1] - y[0]), y[0] * (28 - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]])

    solve = jax.jit(lambda y: odeint(lorenz, y, jnp.linspace(0.0, 1.0, 20), rtol=1e-5, atol=1e-5))
    return lambda: solve(jnp.ones(3))[-1]


def sampler_step() -> Step:
    """A step of BlackJAX's Hamiltonian Monte Carlo."""
    import blackjax
    import jax
    import jax.numpy as jnp

    sampler = blackjax.hmc(lambda x: -0.5 * jnp.sum(x**2), 1e-1, jnp.ones(10), 10)
    state, advance, key = sampler.init(jnp.ones(10)), jax.jit(sampler.step), jax.random.key(0)

    def step() -> Any:
        nonlocal state, key
        key, own = jax.random.split(key)
        state, _ = advance(own, state)
        return state.position

    return step


PROGRAMS = (
    flax_training,
    equinox_training,
    optax_donation,
    recurrent_gradients,
    differential_equation,
    sampler_step,
)


def work(name: str, steps: int) -> None:
    """Runs a program in this process and prints what came of it as JSON."""
    import jax
    import numpy as np

    import xjit_jax_plugin

    xjit_jax_plugin.initialize()
    start = time.perf_counter()
    step = next(p for p in PROGRAMS if p.__name__ == name)()
    jax.block_until_ready(step())
    first = time.perf_counter() - start
    values = [np.asarray(step()).tolist() for _ in range(3)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times: list[float] = []
    for _ in range(steps):
        start = time.perf_counter()
        jax.block_until_ready(step())
        times.append(time.perf_counter() - start)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    row = {"values": values, "first": first, "median": statistics.median(times), "grown_kb": grown}
    print(json.dumps(row))


def measure(name: str, platform: str, steps: int) -> dict[str, Any] | None:
    """The row of a program on a platform; None if it needs a library that is not there."""
    command = [sys.executable, "-W", "ignore", __file__, "--work", name, "--steps", str(steps)]
    environment = {**os.environ, "JAX_PLATFORMS": platform}
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    if "ModuleNotFoundError" in result.stderr:
        return None
    if result.returncode:
        raise RuntimeError(f"{name} on {platform}: {result.stderr[-3000:]}")
    return json.loads(result.stdout.splitlines()[-1])


def main() -> None:
    import numpy as np

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", metavar="PROGRAM", help="run one program in this process")
    parser.add_argument("--steps", type=int, default=300)
    arguments = parse_arguments(parser)
    if arguments.work:
        work(arguments.work, arguments.steps)
        return
    report = Report(["difference", "xjit ms", "cpu ms", "ratio", "first ratio", "grown kB"])
    for program in PROGRAMS:
        rows = [measure(program.__name__, platform, arguments.steps) for platform in ("xjit", "cpu")]
        if rows[0] is None or rows[1] is None:
            print(f"{program.__name__}: its library is missing")
            continue
        ours, theirs = rows
        found, expected = np.array(ours["values"], float), np.array(theirs["values"], float)
        report.add(
            program.__name__,
            **{
                "difference": float(np.max(np.abs(found - expected) / (np.abs(expected) + 1e-3))),
                "xjit ms": ours["median"] * 1e3,
                "cpu ms": theirs["median"] * 1e3,
                "ratio": theirs["median"] / ours["median"],
                "first ratio": theirs["first"] / ours["first"],
                "grown kB": ours["grown_kb"],
            },
        )
    report.finish(arguments.json)


if __name__ == "__main__":
    main()
