"""Programs of JAX's public API, by name: a function and its arguments. XLA:CPU says what is right."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special as special
import numpy as np
from jax import lax
from jax.experimental import sparse

Program = tuple[Callable[..., Any], tuple[Any, ...]]


def values(*shape: int, dtype: Any = np.float32, low: float = -2, high: float = 2, seed: int = 0) -> np.ndarray:
    """Seeded numbers between two bounds."""
    drawn = np.random.default_rng(seed).uniform(low, high, shape)
    if np.issubdtype(dtype, np.complexfloating):
        return (drawn + 1j * np.random.default_rng(seed + 1).uniform(low, high, shape)).astype(dtype)
    return drawn.astype(dtype)


_FLOATS = (np.float32, np.float64, np.float16, jnp.bfloat16)
_INTEGERS = (np.int32, np.uint8, np.int64)

_UNARY = (
    "sin cos tan tanh sinh cosh exp exp2 expm1 log1p abs sign floor ceil rint square negative cbrt arctan arcsinh "
    "isnan isfinite isinf sinc i0 nan_to_num trunc conj real imag degrees radians"
)
_POSITIVE = "log log2 log10 sqrt reciprocal"
_BOUNDED = "arcsin arccos arctanh"
_BINARY = (
    "add subtract multiply divide maximum minimum arctan2 hypot logaddexp copysign fmax fmin greater less_equal equal "
    "not_equal nextafter heaviside"
)
_INTEGER_BINARY = (
    "add subtract multiply floor_divide remainder bitwise_and bitwise_or bitwise_xor left_shift right_shift"
)
_REDUCTIONS = "sum prod max min mean var std all any argmax argmin median ptp nansum nanmax cumsum cumprod logical_not"
_SPECIAL = "gammaln digamma erf erfc erfinv expit logit ndtri log_ndtr i0e i1e entr xlogy xlog1py betaln zeta"
_ACTIVATIONS = (
    "relu gelu silu elu selu softplus sigmoid log_sigmoid leaky_relu hard_tanh celu mish soft_sign glu squareplus"
)
_LINALG = "cholesky inv det slogdet svd qr eigh eigvalsh pinv matrix_rank norm cond expm"


def all_programs() -> dict[str, Program]:
    """All of them, by name."""
    found: dict[str, Program] = {}
    for part in (
        _elementwise,
        _reductions,
        _shapes,
        _indexing,
        _products,
        _linalg,
        _control,
        _gradients,
        _nn,
        _random,
        _rest,
    ):
        for name, function, arguments in part():
            assert name not in found, name
            found[name] = function, arguments
    return found


Row = tuple[str, Callable[..., Any], tuple[Any, ...]]


def _elementwise() -> Iterator[Row]:
    for name in _UNARY.split():
        for dtype in _FLOATS:
            yield f"{name} {np.dtype(dtype).name}", getattr(jnp, name), (values(5, 7, dtype=dtype),)
    for name in _POSITIVE.split():
        for dtype in _FLOATS:
            yield f"{name} {np.dtype(dtype).name}", getattr(jnp, name), (values(5, 7, dtype=dtype, low=0.1),)
    for name in _BOUNDED.split():
        yield name, getattr(jnp, name), (values(5, 7, low=-0.9, high=0.9),)
    for name in ["exp", "log", "sin", "cos", "tanh", "sqrt", "abs", "square"]:
        yield f"{name} complex", getattr(jnp, name), (values(9, dtype=np.complex64),)
    complexes = values(9, dtype=np.complex64)
    yield "clamp complex", lambda x: lax.clamp(x[0], x, x[1]), (complexes,)
    for name in _BINARY.split():
        for dtype in _FLOATS[:2]:
            pair = values(4, 6, dtype=dtype), values(6, dtype=dtype, seed=3)
            yield f"{name} {np.dtype(dtype).name}", getattr(jnp, name), pair
    for dtype, bits in ((np.float32, np.int32), (np.float64, np.int64), (jnp.bfloat16, np.int16)):
        yield (
            f"subnormal spacing {np.dtype(dtype).name}",
            lambda x, bits=bits: lax.bitcast_convert_type(jnp.spacing(x), bits),
            (np.array([0.0, -0.0, float(jnp.finfo(dtype).smallest_subnormal), 1.0]).astype(dtype),),
        )
    for name in _INTEGER_BINARY.split():
        for dtype in _INTEGERS:
            pair = values(4, 6, dtype=dtype, low=0, high=9), values(6, dtype=dtype, low=1, high=7, seed=3)
            yield f"{name} {np.dtype(dtype).name}", getattr(jnp, name), pair
    for name in _SPECIAL.split():
        arguments = (values(11, low=0.1, high=0.9),)
        if name in ("xlogy", "xlog1py", "betaln"):
            arguments *= 2
        if name == "zeta":
            arguments = (values(11, low=1.5, high=4), values(11, low=0.5, high=3))
        yield f"special {name}", getattr(special, name), arguments
    for source in (np.float32, np.int32, np.uint8, jnp.bfloat16, np.bool_):
        for target in (np.float16, np.int8, np.uint32, np.float64, np.bool_, jnp.float8_e4m3fn):
            name = f"convert {np.dtype(source).name} to {np.dtype(target).name}"
            yield (
                name,
                functools.partial(lax.convert_element_type, new_dtype=target),
                (values(17, dtype=source, low=0, high=9),),
            )


def _reductions() -> Iterator[Row]:
    for name in _REDUCTIONS.split():
        function = getattr(jnp, name)
        if name == "logical_not":
            yield name, function, (values(5, 7) > 0,)
            continue
        for axis in (0, 1):
            yield f"{name} axis {axis}", functools.partial(function, axis=axis), (values(6, 17),)
        yield f"{name} all", functools.partial(function, axis=None), (values(3, 4, 5),)
    yield "logsumexp", functools.partial(jax.nn.logsumexp, axis=-1), (values(4, 33),)
    yield "softmax", functools.partial(jax.nn.softmax, axis=-1), (values(4, 33),)
    yield "percentile", lambda x: jnp.percentile(x, 30.0), (values(33),)
    yield "histogram", lambda x: jnp.histogram(x, bins=8)[0], (values(50),)
    yield "bincount", lambda x: jnp.bincount(x, length=9), (values(50, dtype=np.int32, low=0, high=8),)
    yield "cummax", lambda x: lax.cummax(x, axis=1), (values(4, 9),)
    yield "associative scan", lambda x: lax.associative_scan(jnp.multiply, x), (values(13),)


def _shapes() -> Iterator[Row]:
    x = values(4, 6, 2)
    yield "transpose", lambda x: jnp.transpose(x, (2, 0, 1)), (x,)
    yield "reshape", lambda x: x.reshape(8, 6), (x,)
    yield "concatenate", lambda x: jnp.concatenate([x, x * 2], 1), (x,)
    yield "stack", lambda x: jnp.stack([x, x + 1], 1), (x,)
    yield "split", lambda x: jnp.split(x, 3, 1), (x,)
    yield "pad", lambda x: jnp.pad(x, ((1, 2), (0, 0), (3, 1)), constant_values=7), (x,)
    yield "pad reflect", lambda x: jnp.pad(x, ((1, 2), (0, 0), (1, 1)), mode="reflect"), (x,)
    yield "flip", lambda x: jnp.flip(x, 1), (x,)
    yield "roll", lambda x: jnp.roll(x, 2, 1), (x,)
    yield "tile", lambda x: jnp.tile(x, (2, 1, 3)), (x,)
    yield "repeat", lambda x: jnp.repeat(x, 3, 0), (x,)
    yield "broadcast", lambda x: jnp.broadcast_to(x, (3, 4, 6, 2)), (x,)
    yield "rot90", lambda x: jnp.rot90(x), (x,)
    yield "tril", lambda x: jnp.tril(x[..., 0]), (x,)
    yield "diag", lambda x: jnp.diag(x[:, 0, 0]), (x,)
    yield "meshgrid", lambda x: jnp.meshgrid(x[:, 0, 0], x[0, :, 0]), (x,)
    yield "arange", lambda x: jnp.arange(10) + x.size, (x,)
    yield "linspace", lambda x: jnp.linspace(x[0, 0, 0], 3, 9), (x,)
    yield "empty", lambda x: x[:0] + 1, (x,)
    yield "scalar", lambda x: x + 1, (np.float32(3),)
    yield "bitcast", lambda x: lax.bitcast_convert_type(x, jnp.int32), (x,)


def _indexing() -> Iterator[Row]:
    x, rows = values(7, 5), np.array([3, 0, 6, 3], np.int32)
    yield "row gather", lambda x, i: x[i], (x, rows)
    yield "element gather", lambda x, i: x[i, i % 5], (x, rows)
    yield "take", lambda x, i: jnp.take(x, i, axis=0, mode="clip"), (x, rows + 3)
    yield "take_along_axis", lambda x: jnp.take_along_axis(x, jnp.argsort(x, 1), 1), (x,)
    yield "slice", lambda x: x[1:6:2, ::-1], (x,)
    yield "dynamic slice", lambda x, i: lax.dynamic_slice(x, (i, i - 4), (3, 2)), (x, np.int32(5))
    yield (
        "dynamic update",
        lambda x, i: lax.dynamic_update_slice(x, jnp.zeros((2, 2), x.dtype), (i, i - 1)),
        (x, np.int32(2)),
    )
    yield "scatter set", lambda x, i: x.at[i].set(0), (x, rows)
    yield "scatter add", lambda x, i: x.at[i].add(1.5), (x, rows)
    yield "scatter max", lambda x, i: x.at[i, 2].max(0), (x, rows)
    yield "scatter mul", lambda x, i: x.at[:, i].multiply(2), (x, rows[:2])
    yield "where", lambda x: jnp.where(x > 0, x, -x), (x,)
    yield "select", lambda x: jnp.select([x > 1, x > 0], [x, x * 2], 5), (x,)
    yield "sort", lambda x: jnp.sort(x, 0), (x,)
    yield "sort of few halves", jnp.sort, (np.random.default_rng(0).integers(-3, 4, 4905).astype(np.float16),)
    yield "argsort", lambda x: jnp.argsort(x, 1), (x,)
    yield "top_k", lambda x: lax.top_k(x, 3), (x,)
    yield "lexsort", lambda x: jnp.lexsort((x[:, 0], x[:, 1])), (np.round(x),)
    yield "unique", lambda x: jnp.unique(x, size=9), (np.round(x),)
    yield "searchsorted", lambda x: jnp.searchsorted(jnp.sort(x[:, 0]), x[:, 1]), (x,)
    yield "segment_sum", lambda x, i: jax.ops.segment_sum(x[:4], i, 7), (x, rows)
    yield "one_hot", lambda i: jax.nn.one_hot(i, 8), (rows,)


def _products() -> Iterator[Row]:
    for dtype in (*_FLOATS, np.int32, np.complex64):
        pair = values(9, 17, dtype=dtype), values(17, 5, dtype=dtype, seed=2)
        yield f"matmul {np.dtype(dtype).name}", jnp.matmul, pair
        yield f"vecmat {np.dtype(dtype).name}", lambda x, y: x[0] @ y, pair
    x, y = values(3, 8, 6), values(3, 6, 4, seed=1)
    for name, text in {
        "batch": "bij,bjk->bik",
        "transposed": "bij,bjk->kib",
        "sum": "bij,bjk->k",
        "outer": "bij,bjk->bijk",
    }.items():
        yield f"einsum {name}", functools.partial(jnp.einsum, text), (x, y)
    yield "tensordot", lambda x, y: jnp.tensordot(x, y, axes=((0, 2), (0, 1))), (x, y)
    yield "kron", lambda x, y: jnp.kron(x[0], y[0]), (x, y)
    yield "cross", lambda x: jnp.cross(x[..., :3], x[..., 3:]), (x,)
    image, kernel = values(2, 3, 9, 10), values(4, 3, 3, 3, seed=1)
    for padding in ("SAME", "VALID"):
        for strides in ((1, 1), (2, 1)):
            name = f"convolution {padding} {strides}"
            yield name, functools.partial(lax.conv, window_strides=strides, padding=padding), (image, kernel)
    grouped = functools.partial(lax.conv_general_dilated, window_strides=(1, 1), padding="SAME", feature_group_count=3)
    yield "convolution grouped", grouped, (image, values(6, 1, 3, 3))
    yield (
        "convolution transposed",
        lambda x, k: lax.conv_transpose(x, k, (2, 2), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW")),
        (image, kernel),
    )
    yield "convolve", lambda x: jnp.convolve(x[0, 0], x[0, 1]), (x,)
    yield "max pool", lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"), (image,)
    yield "mean pool", lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 1, 3, 3), (1, 1, 1, 1), "SAME"), (image,)


def _linalg() -> Iterator[Row]:
    square = values(6, 6) + 4 * np.eye(6, dtype=np.float32)
    symmetric = square @ square.T
    for name in _LINALG.split():
        function = getattr(jnp.linalg, name, None) or getattr(jax.scipy.linalg, name)
        argument = symmetric if name in ("cholesky", "eigh", "eigvalsh") else square
        if name in ("svd", "eigh", "qr"):  # vectors have any sign
            yield f"linalg {name}", functools.partial(_magnitudes, function), (argument,)
        else:
            yield f"linalg {name}", function, (argument,)
    yield "solve", jnp.linalg.solve, (square, values(6, 2))
    yield "lstsq", lambda a, b: jnp.linalg.lstsq(a, b)[0], (values(8, 3), values(8))
    yield (
        "solve_triangular",
        lambda a, b: jax.scipy.linalg.solve_triangular(a, b, lower=True),
        (np.tril(square), values(6, 2)),
    )
    yield "lu", lambda a: jax.scipy.linalg.lu(a), (square,)
    yield (
        "cho_solve",
        lambda a, b: jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(a), b),
        (symmetric, values(6)),
    )
    yield "matrix_power", lambda a: jnp.linalg.matrix_power(a / 8, 5), (square,)
    for name in ["fft", "ifft", "rfft", "fft2", "fftn", "irfft"]:
        yield f"fft {name}", getattr(jnp.fft, name), (values(6, 8),)


def _magnitudes(function: Callable[..., Any], x: Any) -> Any:
    return jax.tree.map(jnp.abs, function(x))


def _control() -> Iterator[Row]:
    x = values(8)
    yield "cond", lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x), (x,)
    yield "switch", lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tanh], x), (np.int32(1), x)
    yield "while", lambda x: lax.while_loop(lambda c: c[0] < 7, lambda c: (c[0] + 1, c[1] * 1.5), (0, x)), (x,)
    yield "fori", lambda x: lax.fori_loop(0, 9, lambda i, c: c + x[i % 8], 0.0), (x,)
    yield "scan", lambda x: lax.scan(lambda c, a: (c + a, c * a), 0.0, x), (x,)
    yield "scan reversed", lambda x: lax.scan(lambda c, a: (c + a, c * a), 0.0, x, reverse=True), (x,)
    yield "map", lambda x: lax.map(lambda a: a**2, x), (x,)
    yield (
        "nested loops",
        lambda x: lax.fori_loop(0, 3, lambda i, c: lax.fori_loop(0, i, lambda j, d: d * x, c), x),
        (x,),
    )
    yield "vmap", lambda x: jax.vmap(lambda a: jnp.outer(a, x))(x), (x,)
    yield "vmapped cond", lambda x: jax.vmap(lambda a: lax.cond(a > 0, jnp.sin, jnp.cos, a))(x), (x,)
    yield (
        "vmapped while",
        lambda x: jax.vmap(lambda a: lax.while_loop(lambda c: c < 3, lambda c: c + 1 + a * a, a))(x),
        (x,),
    )
    yield "checkpoint", lambda x: jax.grad(lambda a: jax.checkpoint(jnp.sin)(a).sum())(x), (x,)
    yield "pytree", lambda t: jax.tree.map(lambda a: a * 2, t), ({"a": x, "b": [x, (x,)]},)
    yield "custom_jvp", jax.nn.relu, (x,)


def _gradients() -> Iterator[Row]:
    x, matrix = values(5, 4), values(4, 4)
    functions: dict[str, Callable[..., Any]] = {
        "tanh": jnp.tanh, "softmax": jax.nn.softmax, "norm": lambda a: jnp.linalg.norm(a, axis=1), "sort": jnp.sort,
        "cumsum": jnp.cumsum, "prod": lambda a: jnp.prod(a, 1), "max": lambda a: jnp.max(a, 1),
        "logsumexp": lambda a: jax.nn.logsumexp(a, 1), "gather": lambda a: a[jnp.array([1, 1, 3])],
        "matmul": lambda a: a @ a.T, "conv": lambda a: jnp.convolve(a[0], a[1]), "gelu": jax.nn.gelu,
        "scan": lambda a: lax.scan(lambda c, b: (jnp.sin(c + b), c), jnp.zeros(4), a)[1],
        "var": lambda a: jnp.var(a, 0), "where": lambda a: jnp.where(a > 0, a, 0.1 * a), "fft": lambda a: jnp.abs(jnp.fft.fft(a)),
        "pool": lambda a: lax.reduce_window(a, -jnp.inf, lax.max, (2, 2), (1, 1), "VALID"),
    }  # fmt: skip
    for name, function in functions.items():
        yield f"grad {name}", jax.grad(lambda a, f=function: jnp.sum(f(a) ** 2)), (x,)
    for name in ("inv", "det", "cholesky", "eigvalsh"):
        function = getattr(jnp.linalg, name)
        symmetric = matrix @ matrix.T + 3 * np.eye(4, dtype=np.float32)
        yield f"grad {name}", jax.grad(lambda a, f=function: jnp.sum(f(a))), (symmetric,)
    yield "hessian", jax.hessian(lambda a: jnp.sum(jnp.sin(a) ** 3)), (values(4),)
    yield "jacfwd", jax.jacfwd(lambda a: jnp.tanh(matrix @ a)), (values(4),)
    yield "jacrev", jax.jacrev(lambda a: jnp.tanh(matrix @ a)), (values(4),)
    yield "jvp", lambda a: jax.jvp(jnp.tanh, (a,), (a,)), (x,)
    yield "vjp", lambda a: jax.vjp(jnp.tanh, a)[1](a), (x,)
    yield "linearize", lambda a: jax.linearize(jnp.sin, a)[1](a), (x,)


def _nn() -> Iterator[Row]:
    x = values(6, 8)
    for name in _ACTIVATIONS.split():
        yield f"nn {name}", getattr(jax.nn, name), (x,)
    yield "nn standardize", jax.nn.standardize, (x,)
    yield "nn log_softmax", jax.nn.log_softmax, (x,)
    query = values(2, 7, 4, 8)
    yield "nn attention", lambda q: jax.nn.dot_product_attention(q, q, q), (query,)
    yield "nn causal attention", lambda q: jax.nn.dot_product_attention(q, q, q, is_causal=True), (query,)
    yield "layer norm", lambda a: (a - a.mean(-1, keepdims=True)) * lax.rsqrt(a.var(-1, keepdims=True) + 1e-5), (x,)
    weights = {"w": values(8, 16), "b": values(16), "v": values(16, 3)}
    yield "mlp", _mlp, (weights, x)
    yield "mlp gradient", jax.grad(lambda w, a: jnp.mean(_mlp(w, a) ** 2)), (weights, x)
    yield "adam step", _adam, (weights, x)


def _mlp(weights: dict[str, Any], x: Any) -> Any:
    return jax.nn.gelu(x @ weights["w"] + weights["b"]) @ weights["v"]


def _adam(weights: dict[str, Any], x: Any) -> Any:
    gradients = jax.grad(lambda w: jnp.mean(_mlp(w, x) ** 2))(weights)
    return jax.tree.map(lambda w, g: w - 0.1 * g / (jnp.sqrt(g * g) + 1e-3), weights, gradients)


def _random() -> Iterator[Row]:
    samplers: dict[str, Callable[[Any], Any]] = {
        "uniform": lambda k: jax.random.uniform(k, (9,)), "normal": lambda k: jax.random.normal(k, (9,)),
        "randint": lambda k: jax.random.randint(k, (9,), 0, 100), "bernoulli": lambda k: jax.random.bernoulli(k, 0.3, (9,)),
        "permutation": lambda k: jax.random.permutation(k, 9), "split": lambda k: jax.random.key_data(jax.random.split(k, 3)),
        "categorical": lambda k: jax.random.categorical(k, jnp.arange(4.0), shape=(9,)), "bits": lambda k: jax.random.bits(k, (9,)),
        "exponential": lambda k: jax.random.exponential(k, (9,)), "gumbel": lambda k: jax.random.gumbel(k, (9,)),
        "truncated": lambda k: jax.random.truncated_normal(k, -1, 1, (9,)), "gamma": lambda k: jax.random.gamma(k, 2.0, (5,)),
        "choice": lambda k: jax.random.choice(k, 20, (5,), replace=False), "laplace": lambda k: jax.random.laplace(k, (9,)),
    }  # fmt: skip
    for name, sampler in samplers.items():
        yield f"random {name}", lambda seed, s=sampler: s(jax.random.key(seed)), (np.int32(7),)
    for implementation in ("rbg", "unsafe_rbg"):
        draw = lambda seed, i=implementation: jax.random.uniform(jax.random.key(seed, impl=i), (9,))  # noqa: E731
        yield f"random {implementation}", draw, (np.int32(7),)


def _rest() -> Iterator[Row]:
    x = values(6, 8)
    yield "callback", lambda a: jax.pure_callback(np.sin, jax.ShapeDtypeStruct(a.shape, a.dtype), a) + 1, (x,)
    yield (
        "callback of two",
        lambda a: jax.pure_callback(
            lambda b: (b + 1, b.sum()),
            (jax.ShapeDtypeStruct((6, 8), np.float32), jax.ShapeDtypeStruct((), np.float32)),
            a,
        ),
        (x,),
    )
    yield (
        "callback in scan",
        lambda a: lax.scan(
            lambda c, b: (jax.pure_callback(lambda v: v * 2, jax.ShapeDtypeStruct((), np.float32), c) + b.sum(), c),
            0.0,
            a,
        ),
        (x,),
    )
    yield "interp", lambda a: jnp.interp(a[0], jnp.arange(5.0), jnp.arange(5.0) ** 2), (x,)
    yield "polyval", lambda a: jnp.polyval(a[0], a[1]), (x,)
    yield "map_coordinates", lambda a: jax.scipy.ndimage.map_coordinates(a, [a[0], a[1]], 1), (np.abs(x),)
    yield "multivariate", lambda a: jax.scipy.stats.norm.logpdf(a), (x,)
    yield "resize", lambda a: jax.image.resize(a, (3, 12), "bilinear"), (x,)
    yield "sparse rows", lambda a: sparse.BCSR.fromdense(a, nse=48) @ a.T, (x,)  # a handler of jaxlib's, with a future
    yield "donated elements", lambda a: (a + 1, a * 2, a[0]), (x,)
    yield "same result twice", lambda a: (a, a, a + 0), (x,)
    yield "no arguments", lambda: jnp.arange(5.0), ()
    yield "no results", lambda a: (), (x,)
    yield "int4", lambda a: (a.astype(jnp.int4) + 1).astype(jnp.int32), (x,)
    yield "reduce precision", lambda a: lax.reduce_precision(a, 5, 7), (x,)
    yield "popcount", lambda a: lax.population_count(a.astype(jnp.int32)), (x,)
    yield "clz", lambda a: lax.clz(a.astype(jnp.int32)), (x,)
