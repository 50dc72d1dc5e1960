"""Families of numerical methods as their users write them: clustering, transport, filters of states, stencils, bodies,
interpolation, prices."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from cases import Arguments, indices, normal, several, small
from family import Family, Sizes
from jax import lax

POINTS: Sizes = ((500,), (5000,), (20_000,))
GRIDS: Sizes = ((64,), (256,), (1000,))
STEPS: Sizes = ((50,), (500,))


def new_centers(x: Any, centers: Any) -> Any:
    """A step of k-means, with distances as written."""
    nearest = ((x[:, None] - centers[None]) ** 2).sum(-1).argmin(1)
    member = jax.nn.one_hot(nearest, len(centers), dtype=x.dtype)
    return (member.T @ x) / (member.sum(0)[:, None] + 1e-6)


def quantized(x: Any, codes: Any) -> Any:
    """The nearest codes, by products."""
    distances = (x * x).sum(1, keepdims=True) - 2 * x @ codes.T + (codes * codes).sum(1)
    return codes[distances.argmin(1)]


def transport(costs: Any) -> Any:
    """Twenty steps of Sinkhorn's algorithm."""
    kernel = jnp.exp(-jnp.abs(costs))

    def step(u: Any, _: None) -> Any:
        v = 1 / (kernel.T @ u + 1e-9)
        return 1 / (kernel @ v + 1e-9), None

    return lax.scan(step, jnp.ones_like(costs[0]), None, 20)[0]


def forces(x: Any, masses: Any) -> Any:
    """Accelerations of bodies."""
    d = x[None] - x[:, None]
    squares = (d * d).sum(-1) + 1e-2
    return (masses[None, :, None] * d / (squares * jnp.sqrt(squares))[..., None]).sum(1)


def relaxed(u: Any) -> Any:
    """Twenty steps of Jacobi's method for Laplace's equation."""

    def step(_: Any, u: Any) -> Any:
        return u.at[1:-1, 1:-1].set(0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]))

    return lax.fori_loop(0, 20, step, u)


def fields(e: Any, hx: Any, hy: Any) -> Any:
    """Ten steps of finite differences in time for electromagnetic fields."""

    def step(state: Any, _: None) -> Any:
        e, hx, hy = state
        hx = hx - 0.5 * (jnp.roll(e, -1, 0) - e)
        hy = hy + 0.5 * (jnp.roll(e, -1, 1) - e)
        return (e + 0.5 * ((hy - jnp.roll(hy, 1, 1)) - (hx - jnp.roll(hx, 1, 0))), hx, hy), None

    return lax.scan(step, (e, hx, hy), None, 10)[0][0]


def edges(u: Any) -> Any:
    """Sizes of gradients by Sobel's operator."""
    p = jnp.pad(u, 1, mode="edge")
    x = p[:-2, 2:] + 2 * p[1:-1, 2:] + p[2:, 2:] - p[:-2, :-2] - 2 * p[1:-1, :-2] - p[2:, :-2]
    y = p[2:, :-2] + 2 * p[2:, 1:-1] + p[2:, 2:] - p[:-2, :-2] - 2 * p[:-2, 1:-1] - p[:-2, 2:]
    return jnp.sqrt(x * x + y * y)


def smoothed(u: Any) -> Any:
    """A bilateral filter of 5 x 5."""
    n, p = len(u), jnp.pad(u, 2, mode="reflect")
    weights, total = 0.0, 0.0
    for i in range(5):
        for j in range(5):
            q = p[i : i + n, j : j + n]
            weight = jnp.exp(-((i - 2) ** 2 + (j - 2) ** 2) / 4 - (q - u) ** 2 / 0.1)
            weights, total = weights + weight, total + weight * q
    return total / weights


def likelihoods(transitions: Any, emissions: Any) -> Any:
    """The forward algorithm of a hidden Markov model, in logarithms."""

    def step(a: Any, b: Any) -> Any:
        return jax.nn.logsumexp(a[:, None] + transitions, 0) + b, None

    return lax.scan(step, jnp.zeros_like(emissions[0]), emissions)[0]


def path(transitions: Any, emissions: Any) -> Any:
    """Viterbi's algorithm."""

    def step(a: Any, b: Any) -> Any:
        scores = a[:, None] + transitions
        return scores.max(0) + b, scores.argmax(0)

    last, before = lax.scan(step, jnp.zeros_like(emissions[0]), emissions)
    return lax.scan(lambda s, p: (p[s], p[s]), last.argmax(), before, reverse=True)[1]


def prices(spot: Any, strike: Any, years: Any) -> Any:
    """Black and Scholes' formula."""
    spot, strike, years = jnp.abs(spot) + 0.5, jnp.abs(strike) + 0.5, jnp.abs(years) + 0.5
    d = (jnp.log(spot / strike) + 0.05 * years) / (0.2 * jnp.sqrt(years))
    normal = jax.scipy.stats.norm.cdf
    return spot * normal(d) - strike * jnp.exp(-0.03 * years) * normal(d - 0.2 * jnp.sqrt(years))


def newton(x: Any, y: Any) -> Any:
    """Five steps of Newton's method for a logistic regression."""
    labels = (y > 0).astype(x.dtype)

    def step(w: Any, _: None) -> Any:
        p = jax.nn.sigmoid(x @ w)
        hessian = (x * (p * (1 - p))[:, None]).T @ x / len(x) + 0.01 * jnp.eye(x.shape[1], dtype=x.dtype)
        return w - jnp.linalg.solve(hessian, x.T @ (p - labels) / len(x)), None

    return lax.scan(step, jnp.zeros_like(x[0]), None, 5)[0]


def equalized(pixels: Any) -> Any:
    """Pixels with an even histogram."""
    running = jnp.cumsum(jnp.zeros(256, jnp.float32).at[pixels].add(1.0))
    return (running[pixels] / running[-1] * 255).astype(jnp.uint8)


def ranks(links: Any) -> Any:
    """Twenty steps of power iteration with damping, as in PageRank: the scaled matrix is the same in every step."""
    links = jnp.abs(links) / jnp.abs(links).sum(0)
    start = jnp.full(len(links), 1 / len(links), links.dtype)
    return lax.fori_loop(0, 20, lambda _, v: 0.85 * links @ v + 0.15 / len(links), start)


def least_squares(a: Any, b: Any) -> Any:
    """Thirty steps of gradient descent on normal equations, which are written out in the loop."""
    rate = 0.5 / len(b)
    return lax.fori_loop(0, 30, lambda _, x: x - rate * (a.T @ a @ x - a.T @ b), jnp.zeros_like(a[0]))


def interpolant(points: Any, values: Any) -> Any:
    """Thirty steps of Richardson's method for a system whose matrix a function of distances gives."""
    rate = 0.5 / len(values)

    def step(_: Any, x: Any) -> Any:
        distances = ((points[:, None] - points[None]) ** 2).sum(-1)
        return x + rate * (values - jnp.exp(-distances) @ x)

    return lax.fori_loop(0, 30, step, values)


def markov(states: int, steps: int) -> Arguments:
    """Transitions between states, and emissions of each step."""
    return several(normal(states, states), normal(steps, states))


METHOD_FAMILIES = (
    Family("k-means", new_centers, lambda n: several(normal(n, 16), normal(32, 16)), POINTS),
    Family("nearest codes", quantized, lambda n: several(normal(n, 32), normal(256, 32)), POINTS),
    Family("sinkhorn", transport, lambda n: normal(n, n), ((64,), (300,), (1000,))),
    Family("bodies", forces, lambda n: several(normal(n, 3), normal(n)), ((64,), (300,), (1000,))),
    Family("jacobi", relaxed, lambda n: normal(n, n), GRIDS),
    Family("fields in time", fields, lambda n: small((n, n), (n, n), (n, n)), GRIDS),
    Family("edges", edges, lambda n: normal(n, n), GRIDS),
    Family("bilateral filter", smoothed, lambda n: normal(n, n), GRIDS),
    Family("hidden markov model", likelihoods, lambda n: markov(32, n), STEPS),
    Family("viterbi", path, lambda n: markov(32, n), STEPS),
    Family("option prices", prices, lambda n: several(normal(n), normal(n), normal(n)), POINTS),
    Family("logistic regression", newton, lambda n: several(normal(n, 20), normal(n)), POINTS),
    Family("page ranks", ranks, lambda n: normal(n, n), ((64,), (300,), (1000,))),
    Family("normal equations in steps", least_squares, lambda n: several(normal(n, 64), normal(n)), POINTS),
    Family("interpolant", interpolant, lambda n: several(normal(n, 4), normal(n)), ((64,), (300,), (1000,))),
    Family("equalized histogram", equalized, lambda n: indices(n, 256), ((4096,), (1 << 16,), (1 << 20,))),
)
"""Rows of the benchmark by family and size."""
