"""HLO as structured operations: both sides are evaluated, and the text is read back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xjit
from tests.support.hlo_cases import Case, difference, graph, leaves, magnitudes
from tests.support.scans import last_set
from xjit import linalg_ext
from xjit.linalg_ext.evaluation.values import dtype_of
from xjit.linalg_ext.ir import FloatType, LinalgError, Operation, StringAttr, TensorType, element_type

jax = pytest.importorskip("jax")
jnp = jax.numpy

Array = Any
OPCODES = (
    *("add", "multiply", "divide", "remainder", "maximum", "minimum", "and", "xor", "not", "sign", "abs", "popcnt"),
    *("shift-left", "shift-right-arithmetic", "shift-right-logical", "power", "tanh", "logistic", "compare", "select"),
    *("clamp", "convert", "bitcast-convert", "is-finite", "iota", "broadcast", "transpose", "reshape", "slice", "sort"),
    *("reverse", "pad", "concatenate", "dynamic-slice", "dynamic-update-slice", "reduce", "reduce-window", "dot"),
    "gather",
)


def names_of(module: Operation) -> set[str]:
    return {op.name for op in module.walk()}


def opaque_calls(module: Operation) -> list[Operation]:
    return [op for op in module.body.operations if "hlo" in op.attributes]


def run(module: Operation, arrays: list[Array]) -> list[Array]:
    """Evaluates what the module's text says; unsigned arrays go in by their bits."""
    again = linalg_ext.parse(str(module))
    assert str(again) == str(module)
    function = next(op for op in again.body.operations if op.regions[0].blocks)
    given = [a.view(dtype_of(element_type(v.type))) for a, v in zip(arrays, function.body.arguments)]
    return leaves(linalg_ext.evaluate(again, "main", *given))


def check_case(case: Case) -> bool:
    """Compares a random module; False if something in it has no structured form."""
    source = xjit.parse_hlo(case.text)
    module = linalg_ext.from_hlo(source)
    if opaque_calls(module) or any(k in case.text for k in ("c64", "c128", "s4[", "u4[")):
        return False
    with np.errstate(all="ignore"):
        expected = leaves(xjit.evaluate(source, *case.inputs))
        sizes = magnitudes(case)
    found = [np.asarray(x).view(y.dtype) for x, y in zip(run(module, case.inputs), expected, strict=True)]
    for value, wanted, exact, size in zip(found, expected, case.exact, sizes):
        assert not difference(value, wanted, exact, size), case.text
    return True


def check(
    function: Callable[..., Any], *arrays: Array, has: tuple[str, ...] = (), tolerance: float = 1e-5
) -> Operation:
    """Raises what JAX makes of a function; `has` are operations that must come out."""
    source = xjit.from_jax(function, *arrays)
    module = linalg_ext.from_hlo(source)
    assert not opaque_calls(module)
    assert set(has) <= names_of(module)
    expected = leaves(xjit.evaluate(source, *arrays))
    for value, wanted in zip(run(module, list(arrays)), expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=tolerance, atol=tolerance)
    return module


def normal(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def random_case(number: int) -> Case:
    return graph(number, OPCODES, 3, 12)


def test_random_programs() -> None:
    assert sum(check_case(random_case(number)) for number in range(25)) > 12


@pytest.mark.slow
@pytest.mark.parametrize("start", range(40, 2000, 490))
def test_many_random_programs(start: int) -> None:
    assert sum(check_case(random_case(number)) for number in range(start, start + 490)) > 250


SOFTMAX = ("linalg_ext.softmax",)
X = normal(3, 5, 12)


def by_hand(x: Array) -> Array:
    weights = jnp.exp(x - jax.lax.stop_gradient(x.max(-1, keepdims=True)))
    return weights * (1 / weights.sum(-1, keepdims=True))


@pytest.mark.parametrize(
    "function",
    [
        jax.nn.softmax,
        lambda x: jax.nn.softmax(jnp.where(x > 0, x, -1e9) * 0.5, axis=1),
        jax.nn.log_softmax,
        lambda x: jnp.exp(jax.nn.log_softmax(x)),
        lambda x: (
            jnp.exp2(x - x.max(-1, keepdims=True)) / jnp.exp2(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True)
        ),
        lambda x: jnp.log(jnp.exp(-(x.max(-1, keepdims=True) - x) / 1.5).sum(-1)),
        by_hand,
        jax.grad(lambda x: (jax.nn.softmax(x) ** 2).sum()),
        jax.grad(lambda x: (jax.nn.softmax(x, where=x < 1) ** 2).sum()),
    ],
    ids=["plain", "masked", "log", "exponential of log", "two", "cool", "by hand", "gradient", "gradient of masked"],
)
def test_softmax(function: Callable[..., Any]) -> None:
    check(function, X, has=SOFTMAX)


MASK = np.random.default_rng(7).random((3, 5, 12)) > 0.4
MASK[1, 2] = False


@pytest.mark.parametrize("axis", [-1, (0, 2), (1, 2), None, (1,)], ids=str)
@pytest.mark.parametrize("masked", [False, True])
def test_softmax_with_axes_and_masks(axis: Any, masked: bool) -> None:
    """Several dimensions are one row; what a mask leaves out counts for nothing, and neither does an empty row."""
    where = MASK if masked else None
    for function in (jax.nn.softmax, jax.nn.log_softmax, jax.nn.logsumexp):

        def run_with_mask(x: Array, function: Any = function) -> Any:
            found = function(x, axis=axis, where=where)
            return jnp.where(jnp.isfinite(found), found, -1.0)

        module = check(run_with_mask, X, has=SOFTMAX)
        assert not names_of(module) & {"linalg.reduce"}


def test_masks_of_softmax_where_numbers_are_wide() -> None:
    """The numbers that stand for what is masked are converted, each for itself: two selections do the same."""
    with jax.enable_x64(True):
        check(lambda x: jax.nn.softmax(x, where=MASK), X, has=SOFTMAX)


def test_softmax_over_a_dimension_of_one_element_and_another() -> None:
    check(lambda x: jax.nn.softmax(x, axis=(0, 2)), normal(1, 4, 6), has=SOFTMAX)


def test_probabilities_come_from_the_softmax() -> None:
    """Nothing computes exponentials, maxima or sums beside it."""
    for function in (jax.nn.softmax, by_hand, lambda x: jnp.exp(jax.nn.log_softmax(x))):
        assert not {"math.exp", "linalg.reduce"} & names_of(check(function, X, has=SOFTMAX))


def test_sums_of_exponentials_with_infinite_maxima() -> None:
    x = normal(4, 6)
    x[0], x[1, 2], x[2, 3] = -np.inf, np.inf, np.nan
    check(lambda x: jax.nn.logsumexp(x, axis=-1), x, has=SOFTMAX)


@pytest.mark.parametrize("kind", ["plain", "bias", "mask", "causal"])
def test_attention(kind: str) -> None:
    q, k, v = normal(2, 6, 3, 4), normal(2, 6, 3, 4) + 1, normal(2, 6, 3, 4) - 1
    options: dict[str, Any] = {
        "plain": {},
        "bias": {"bias": normal(1, 1, 6, 6)},
        "mask": {"mask": normal(2, 3, 6, 6) > -1},
        "causal": {"is_causal": True},
    }[kind]
    module = check(
        lambda q, k, v: jax.nn.dot_product_attention(q, k, v, **options),
        *(q, k, v),
        has=(*SOFTMAX, "linalg_ext.batch_matmul"),
    )
    products = [op for op in module.walk() if op.name == "linalg_ext.batch_matmul"]
    [softmax] = [op for op in module.walk() if op.name == SOFTMAX[0]]
    assert products[1].operands[0] is softmax.results[0], "the softmax is on the left, as it came"


def layer_norm(x: Array, scale: Array) -> Array:
    centered = x - x.mean(-1, keepdims=True)
    return centered * jax.lax.rsqrt((centered**2).mean(-1, keepdims=True) + 1e-5) * scale


def convolution(strides: tuple[int, int], padding: Any, groups: int = 1, layout: str = "NHWC") -> Callable[..., Any]:
    kernel = "HWIO" if layout == "NHWC" else "OIHW"
    return lambda x, w: jax.lax.conv_general_dilated(
        *(x, w, strides, padding), (2, 1), (1, 2), (layout, kernel, layout), feature_group_count=groups
    )


def test_layers() -> None:
    check(layer_norm, X, normal(12), has=("linalg.reduce",))
    check(lambda x, w, b, v: jax.nn.gelu(x @ w + b) @ v, X[0], normal(12, 8), normal(8), normal(8, 2))
    image, kernel = normal(2, 7, 6, 4), normal(3, 3, 4, 5)
    check(convolution((1, 2), ((0, 0), (0, 0))), image, kernel, has=("linalg.conv_2d_nhwc_hwcf", "tensor.insert_slice"))
    check(convolution((2, 1), ((2, 1), (-1, 3)), groups=2), image, normal(3, 3, 2, 6), has=("tensor.pad",))
    check(
        convolution((1, 1), ((1, 1), (2, 2)), layout="NCHW"),
        image,
        normal(3, 7, 2, 2),
        has=("linalg.conv_2d_nchw_fchw",),
    )
    pooling = lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")  # noqa: E731
    check(pooling, image)


def test_selection() -> None:
    topk = ("linalg_ext.topk",)
    check(lambda x: jax.lax.top_k(x, 5), X, has=topk)
    check(lambda x: jnp.argsort(-x)[..., :3], X, has=topk)
    [op] = [op for op in check(lambda x: jnp.sort(x)[..., :4], X, has=topk).walk() if op.name == topk[0]]
    assert op.result_types[0] == TensorType((3, 5, 4), FloatType("f32")), "no more than is read"
    check(lambda x: jax.lax.cumsum(x, 1, reverse=True), X, has=("linalg_ext.scan",))
    check(lambda x: jax.lax.cummax(x, 2), X, has=("linalg_ext.scan",))
    places = np.array([3, 0, 3], np.int32)
    check(lambda x, i, u: x.at[i].add(u), normal(5, 4), places, normal(3, 4), has=("linalg_ext.scatter",))


def test_what_follows_sorted_values() -> None:
    """Of several operands, and of floats, the places of the values are taken."""
    y, n = X[..., ::-1].copy(), np.arange(180, dtype=np.int32).reshape(X.shape)
    sort = lambda *a: [v[..., :4] for v in jax.lax.sort(a, dimension=2, num_keys=1)]  # noqa: E731
    for arrays in ((X, y), (X, n, y)):
        module = check(sort, *arrays, has=("linalg_ext.topk", "tensor.extract"))
        assert all("x4x" in str(op.result_types[0]) for op in module.walk() if op.name == "linalg_ext.topk")


PLACES = np.array([[3, -1, 0], [9, 1, 2]], np.int32)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, i: x[i],
        lambda x, i: x.at[:, i[0]].get(mode="clip"),
        lambda x, i: jnp.take_along_axis(x[:2], jnp.abs(i), axis=1, mode="clip"),
        lambda x, i: jax.vmap(lambda r, j: jax.lax.dynamic_slice(r, (j[0],), (3,)))(x[:2], i),
        lambda x, i: x[None].at[0, i[0], i[1]].get(mode="clip"),
    ],
    ids=["rows", "columns", "along", "slices", "elements"],
)
def test_gather(function: Callable[..., Any]) -> None:
    """Starts are moved inside; the compiled module gives the same."""
    arrays = [normal(5, 7), PLACES]
    module = check(function, *arrays, has=("tensor.extract",))
    compiled = linalg_ext.compile(module, "main")(*arrays)
    np.testing.assert_array_equal(compiled, np.asarray(jax.jit(function)(*arrays)))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, i, u: x.at[:, i].add(u),
        lambda x, i, u: jax.vmap(lambda r, j, v: r.at[j].max(v))(x[:3], jnp.stack([i, i[::-1], i]), u[:3]),
        lambda x, i, u: x.at[i, i + 1].multiply(u[0]),
        lambda x, i, u: x.at[i[0]].set(u[0, 0]),
        lambda x, i, u: jnp.put_along_axis(x[:3], i[:, None], u[:3, :1], axis=1, inplace=False),
    ],
    ids=["columns", "batches", "elements", "one row", "along"],
)
def test_scatter(function: Callable[..., Any]) -> None:
    check(function, normal(5, 7), np.array([3, 0, 3], np.int32), normal(5, 3), has=("linalg_ext.scatter",))


@pytest.mark.parametrize("kind", [np.int32, np.int8, np.uint8])
def test_scatter_outside(kind: type) -> None:
    """Updates outside of an array are left out, whatever else is done to the program."""
    rows, columns = np.array([1, 127, 0, 4], kind), np.array([0, 0, 6, 250 - 256 * (kind is not np.uint8)], kind)
    module = check(
        lambda x, i, j, u: x.at[i].add(u, mode="drop").at[i, j].multiply(u[:, 0], mode="drop"),
        normal(5, 7), rows, columns, normal(4, 7), has=("linalg_ext.scatter",),
    )  # fmt: skip
    known = check(lambda x, u: x.at[np.array([1, 0, 4])].add(u[:3]), normal(5, 7), normal(4, 7))
    assert "tensor.pad" in names_of(module) and "tensor.pad" not in names_of(known)


def test_gradients_of_selections() -> None:
    check(jax.grad(lambda x: (jax.lax.top_k(x, 3)[0] ** 2).sum()), X, has=("linalg_ext.scatter", "linalg_ext.topk"))
    table, rows = normal(6, 4), np.array([2, 0, 2], np.int32)
    check(jax.grad(lambda t, i: (t[i] ** 2).sum()), table, rows, has=("linalg_ext.scatter", "tensor.extract"))


def test_control() -> None:
    check(lambda x: jax.lax.scan(lambda c, y: (c * 0.5 + y, c.sum()), x[0], x), X, has=("scf.while",))
    choose = lambda i, x: jax.lax.switch(i, [jnp.sin, jnp.cos, jnp.exp], x)  # noqa: E731
    for number in (-1, 1, 7):
        check(choose, np.array(number, np.int32), X, has=("scf.index_switch",))


CONDITIONAL = """
HloModule conditional
doubled { a = (f32[3], s32[]) parameter(0) x = f32[3] get-tuple-element(a), index=0 ROOT y = f32[3] add(x, x) }
squared { x = f32[3] parameter(0) t = s32[3] custom-call(x), custom_call_target="f" ROOT y = f32[3] multiply(x, x) }
ENTRY main {
  p = pred[] parameter(0)
  x = f32[3] parameter(1)
  n = s32[] parameter(2)
  pair = (f32[3], s32[]) tuple(x, n)
  ROOT y = f32[3] conditional(p, pair, x), true_computation=doubled, false_computation=squared
}
"""


def test_a_choice_by_a_truth_value() -> None:
    """The opaque call is in one branch only, and nobody needs it."""
    module = linalg_ext.from_hlo(xjit.parse_hlo(CONDITIONAL))
    assert "scf.if" in names_of(module)
    x, number = normal(3), np.array(1, np.int32)
    for chosen, expected in ((True, x + x), (False, x * x)):
        np.testing.assert_array_equal(run(module, [np.array(chosen), x, number])[0], expected)


EDGES = """
HloModule edges
ENTRY main {
  a = s32[6] parameter(0)
  b = s32[6] parameter(1)
  x = f32[6] parameter(2)
  u = u8[6] parameter(3)
  divide = s32[6] divide(a, b)
  rest = s32[6] remainder(a, b)
  left = s32[6] shift-left(a, b)
  right = s32[6] shift-right-arithmetic(a, b)
  logical = s32[6] shift-right-logical(a, b)
  bits = s32[6] popcnt(a)
  whole = s32[6] convert(x)
  byte = u8[6] convert(x)
  over = u8[6] divide(u, byte)
  ROOT all = (s32[6], s32[6], s32[6], s32[6], s32[6], s32[6], s32[6], u8[6], u8[6])
    tuple(divide, rest, left, right, logical, bits, whole, byte, over)
}
"""


def test_integers_at_their_edges() -> None:
    arrays = [
        np.array([-(2**31), 7, -7, 0, -1, 2**31 - 1], np.int32),
        np.array([-1, 0, 0, 0, 32, 31], np.int32),
        np.array([np.nan, np.inf, -np.inf, 3e9, -3.7, 255.9], np.float32),
        np.array([255, 128, 7, 0, 1, 200], np.uint8),
    ]
    source = xjit.parse_hlo(EDGES)
    expected = leaves(xjit.evaluate(source, *arrays))
    for value, wanted in zip(run(linalg_ext.from_hlo(source), arrays), expected, strict=True):
        np.testing.assert_array_equal(value.view(wanted.dtype), wanted)


def test_what_has_no_form_is_an_opaque_call() -> None:
    text = """
HloModule spectrum
ENTRY main {
  x = f32[8] parameter(0)
  y = c64[5] fft(x), fft_type=RFFT, fft_length={8}
  z-a = f32[5] real(y)
  ROOT main = f32[5] add(z-a, z-a)
}
"""
    module = linalg_ext.from_hlo(xjit.parse_hlo(text))
    calls = opaque_calls(module)
    assert {op.attributes["sym_name"] for op in calls} == {StringAttr("hlo.y"), StringAttr("hlo.z-a")}
    assert "fft_type=RFFT" in str(module)
    assert str(linalg_ext.parse(str(module))) == str(module)


def test_the_module_stays_as_it_is() -> None:
    source = xjit.parse_hlo(EDGES)
    before = str(source)
    linalg_ext.from_hlo(source, "edges")
    assert str(source) == before


def test_dynamic_shapes_get_their_bounds() -> None:
    text = "HloModule d\nENTRY main {\n x = f32[<=4] parameter(0)\n ROOT y = f32[<=4] add(x, x)\n}"
    function = linalg_ext.from_hlo(xjit.parse_hlo(text)).body.operations[0]
    assert [str(a.type) for a in function.body.arguments] == ["tensor<4xf32>", "tensor<i32>"]


def test_sizes_without_a_bound_are_refused() -> None:
    text = "HloModule d\nENTRY main {\n x = f32[?] parameter(0)\n ROOT y = f32[?] add(x, x)\n}"
    with pytest.raises(LinalgError, match="a dimension has no bound"):
        linalg_ext.from_hlo(xjit.parse_hlo(text))


@pytest.mark.parametrize("backwards", [False, True])
def test_scans_combine_in_the_order_of_the_window(backwards: bool) -> None:
    text = last_set((3, 70), backwards)
    module = linalg_ext.from_hlo(xjit.parse_hlo(text))
    assert "linalg_ext.scan" in names_of(module)
    x = np.random.default_rng(0).integers(0, 3, (3, 70)).astype(np.int32)
    np.testing.assert_array_equal(run(module, [x])[0], xjit.evaluate(text, x))
