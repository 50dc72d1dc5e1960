"""Custom calls to LAPACK: compiled and evaluated results against jaxlib's own handlers, for every target."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import xjit
from tests.support import xla
from tests.support.kernels import check_units, leaves_of
from tests.support.lapack import Array, Variant, inputs, module_text
from xjit.ops.lapack_targets import LAPACK_TARGETS

_UPLO = [{"uplo": letter} for letter in "LU"]
_SHAPES = [(5, 3), (3, 5), (4, 4), (1, 1)]


def _squares(attributes: Sequence[dict[str, str]] = ({},)) -> list[Variant]:
    return [Variant({"n": n}, a, batch) for a in attributes for n, batch in ((5, ()), (4, (2, 3)), (1, (2,)))]


def _svd_variants() -> list[Variant]:
    def sizes(m: int, n: int, mode: str) -> dict[str, int]:
        return {"m": m, "n": n, "x": m if mode == "A" else min(m, n), "y": n if mode == "A" else min(m, n)}

    return [Variant(sizes(m, n, mode), {"mode": mode}, (2,)) for (m, n), mode in itertools.product(_SHAPES, "ASN")]


def _mqr_variants() -> list[Variant]:
    """Of a wide factorization the columns behind the k-th have no reflectors."""
    return [
        Variant({"m": 5, "n": 4, "k": 3, "p": p, "q": 5 if left else 4}, {"left": left, "transpose": t}, (2,))
        for left, t, p in itertools.product([True, False], [True, False], [3, 6])
    ]


def _potrf_variants() -> list[Variant]:
    return _squares(_UPLO) + [Variant({"n": n}, uplo, (2,)) for n in (19, 32, 33) for uplo in _UPLO]


def _trsm_variants(letters: str) -> list[Variant]:
    flags = itertools.product("LR", "LU", letters, "NU")
    return (
        [
            Variant(
                {"m": 9, "n": 6, "q": 9 if side == "L" else 6},
                {"side": side, "uplo": uplo, "trans_x": trans, "diag": diag},
                (2,),
            )
            for side, uplo, trans, diag in flags
        ]
        + [  # more right sides than one vector has lanes, and than some have
            Variant({"m": m, "n": n, "q": m}, {"side": "L", "uplo": "U", "trans_x": "N", "diag": "N"})
            for m, n in ((5, 37), (70, 13))
        ]
        + [Variant({"m": 37, "n": 5, "q": 5}, {"side": "R", "uplo": "L", "trans_x": "T", "diag": "N"})]
    )


_RECTANGLES = [Variant({"m": m, "n": n}, {}, batch) for (m, n), batch in itertools.product(_SHAPES, [(), (3,)])]
_VARIANTS: dict[str, list[Variant]] = {
    "potrf": _potrf_variants(),
    "getrf": [*_RECTANGLES, *(Variant({"m": m, "n": n}, {}) for m, n in ((48, 19), (13, 30), (49, 7)))],
    "geqrf": _RECTANGLES,
    "geqp3": _RECTANGLES,
    "gqr": [Variant({"m": m, "n": n, "k": k}, {}, (2,)) for m, n, k in ((5, 3, 3), (5, 5, 2), (4, 4, 0))],
    "mqr": _mqr_variants(),
    "trsm": _trsm_variants("NTC"),
    "gtsv": [Variant({"n": 5, "r": 2}, {}, (2,)), Variant({"n": 1, "r": 1}, {}), Variant({"n": 2, "r": 3}, {}, (3,))],
    "gehrd": [
        Variant({"n": n, "low": low, "high": high}, {"low": low, "high": high}, (2,))
        for n, low, high in ((5, 1, 5), (5, 2, 4), (1, 1, 1))
    ],
    "trd": _squares(_UPLO),
    "gesdd": _svd_variants(),
    "gesvd": _svd_variants(),
    "evd": _squares([{"mode": m, "uplo": u} for m, u in itertools.product("VN", "LU")]),
    "geev": _squares([{"compute_left": x, "compute_right": y} for x, y in itertools.product("NV", "NV")]),
    "gees": _squares([{"mode": m, "sort": "N"} for m in "VN"]),
}
_TOLERANCE = {"s": 2e-5, "c": 2e-5, "d": 1e-12, "z": 1e-12}


def _family(target: str) -> str:
    routine = LAPACK_TARGETS[target].routine
    return routine if routine in _VARIANTS else routine[2:]


def _undefined(target: str, variant: Variant) -> set[str]:
    """Results that LAPACK leaves undefined."""
    routine, mode = LAPACK_TARGETS[target].routine, variant.attributes.get("mode")
    if routine in ("gesdd", "gesvd"):
        return {"a", "u", "vt"} if mode == "N" else {"a"}
    if routine == "gees":
        return {"vs"} if mode == "N" else set()
    left, right = (variant.attributes.get(f"compute_{side}") for side in ("left", "right"))
    return ({"vl"} if left == "N" else set()) | ({"vr"} if right == "N" else set())


def _check(target: str, variants: Sequence[Variant], arrays: Sequence[Array]) -> dict[str, list[Array]]:
    """Compares compiled and evaluated results with jaxlib's where they are defined; returns the compiled ones."""
    pytest.importorskip("jaxlib.lapack")._lapack.initialize()
    text = module_text(target, variants)
    want = xla.run(text, *arrays)
    module = xjit.parse_hlo(text)
    compiled = leaves_of(xjit.compile(module)(*arrays))
    evaluated = leaves_of(xjit.evaluate(module, *arrays))
    row = LAPACK_TARGETS[target]
    places = iter(range(len(want)))
    found: dict[str, list[Array]] = {}
    for variant in variants:
        numbers = {a.name: next(places) for a in row.results}
        good = want[numbers["info"]] == 0 if "info" in numbers else np.ones(variant.batch, bool)
        for name, number in numbers.items():
            found.setdefault(name, []).append(compiled[number])
            if name in _undefined(target, variant):
                continue
            where = ... if name == "info" else good
            for got, how in ((compiled[number], "compiled"), (evaluated[number], "evaluated")):
                assert got.dtype == want[number].dtype and got.shape == want[number].shape
                _close(got[where], want[number][where], _TOLERANCE[row.letter], f"{how} {name} of {variant}")
    return found


def _close(got: Array, want: Array, tolerance: float, what: str) -> None:
    scale = max(1.0, float(np.nanmax(np.abs(want), initial=0.0))) if want.dtype.kind in "fc" else 1.0
    atol = tolerance * scale if want.dtype.kind in "fc" else 0
    np.testing.assert_allclose(got, want, rtol=0, atol=atol, err_msg=what)


def _targets(routine: str = "") -> list[Any]:
    """The targets of a routine, or all; one real and one complex type are enough without `-m slow`."""
    found = [t for t in sorted(LAPACK_TARGETS) if _family(t) == routine or not routine]
    fast = ("s", "z")
    return [t if LAPACK_TARGETS[t].letter in fast else pytest.param(t, marks=pytest.mark.slow) for t in found]


@pytest.mark.parametrize("target", _targets())
def test_equals_jaxlib(target: str) -> None:
    variants = _VARIANTS[_family(target)]
    arrays = inputs(target, variants)
    if _family(target) == "potrf":
        arrays = [(a @ np.conj(np.swapaxes(a, -1, -2)) + np.eye(a.shape[-1])).astype(a.dtype) for a in arrays]
    _check(target, variants, arrays)


@pytest.mark.parametrize("target", _targets("potrf"))
@pytest.mark.parametrize("uplo", ["L", "U"])
def test_not_positive_definite(target: str, uplo: str) -> None:
    variant = Variant({"n": 3}, {"uplo": uplo}, (4,))
    (a,) = inputs(target, [variant])
    a[:] = np.eye(3)
    a[1, 1, 1], a[2], a[3, 0, 0] = -1, 0, np.nan
    found = _check(target, [variant], [a])
    assert [int(i) for i in found["info"][0][:3]] == [0, 2, 1]


@pytest.mark.parametrize("target", _targets("getrf"))
def test_singular_lu(target: str) -> None:
    variant = Variant({"m": 3, "n": 3}, {}, (3,))
    (a,) = inputs(target, [variant])
    a[0] = 0
    a[1, :, 2] = a[1, :, 1]
    found = _check(target, [variant], [a])
    assert found["info"][0][0] == 1 and found["info"][0][2] == 0
    assert not found["a"][0][0].any() and list(found["ipiv"][0][0]) == [1, 2, 3]


@pytest.mark.parametrize("target", _targets("gtsv"))
def test_singular_tridiagonal(target: str) -> None:
    variant = Variant({"n": 3, "r": 1}, {}, (2,))
    arrays = inputs(target, [variant])
    for diagonal in arrays[:3]:
        diagonal[1] = 0
    found = _check(target, [variant], arrays)
    assert list(found["info"][0]) == [0, 1]


@pytest.mark.unguarded  # what the routine refuses to compute is whatever was there
@pytest.mark.parametrize("target", [*_targets("geev"), *_targets("gesdd")])
def test_not_finite(target: str) -> None:
    geev = _family(target) == "geev"
    flags = {"compute_left": "V", "compute_right": "V"} if geev else {"mode": "A"}
    variant = Variant({"n": 3} if geev else {"m": 3, "n": 3, "x": 3, "y": 3}, flags, (3,))
    (a,) = inputs(target, [variant])
    a[1, 0, 2] = np.nan
    a[2, 1, 1] = np.inf if geev else 1
    info = _check(target, [variant], [a])["info"][0]
    assert list(info) == ([0, -4, -4] if geev else [0, -4, 0])


def test_complex_eigenvalues_of_real_matrices() -> None:
    target, variant = "lapack_dgeev_ffi", Variant({"n": 4}, {"compute_left": "N", "compute_right": "V"}, (2,))
    a = np.zeros((2, 4, 4))
    a[0, :2, :2], a[0, 2:, 2:] = [[0, -1], [1, 0]], [[2, 1], [0, 3]]
    a[1] = np.roll(np.eye(4), 1, axis=0)
    found = _check(target, [variant], [a])
    values, vectors = found["wr"][0] + 1j * found["wi"][0], found["vr"][0]
    np.testing.assert_allclose(a @ vectors, vectors * values[:, None, :], atol=1e-12)
    assert (found["wi"][0][0] != 0).sum() == 2 and not found["vl"][0].any()


@pytest.mark.parametrize(
    ("target", "sizes", "flags"),
    [
        ("lapack_spotrf_ffi", {"n": 0}, {"uplo": "L"}),
        ("lapack_sgetrf_ffi", {"m": 0, "n": 3}, {}),
        ("lapack_sgetrf_ffi", {"m": 3, "n": 0}, {}),
        ("lapack_sgeqrf_ffi", {"m": 0, "n": 3}, {}),
        ("lapack_sgeev_ffi", {"n": 0}, {"compute_left": "V", "compute_right": "V"}),
        ("lapack_sgees_ffi", {"n": 0}, {"mode": "V", "sort": "N"}),
        ("lapack_ssyevd_ffi", {"n": 0}, {"mode": "V", "uplo": "L"}),
        ("lapack_sgtsv_ffi", {"n": 3, "r": 0}, {}),
        ("lapack_sormqr_ffi", {"m": 3, "n": 2, "k": 0, "p": 0, "q": 3}, {"left": True, "transpose": False}),
        ("lapack_sgesdd_ffi", {"m": 3, "n": 0, "x": 3, "y": 0}, {"mode": "A"}),
    ],
)
def test_empty(target: str, sizes: dict[str, int], flags: dict[str, Any]) -> None:
    """LAPACK takes leading dimensions of at least one; batches may be empty, too."""
    for batch in ((2,), (0,)):
        variant = Variant(sizes, flags, batch)
        module = xjit.parse_hlo(module_text(target, [variant]))
        arrays = inputs(target, [variant])
        got, want = (leaves_of(r) for r in (xjit.compile(module)(*arrays), xjit.evaluate(module, *arrays)))
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(a, b)


def test_calls_with_other_attributes_are_other_kernels() -> None:
    """Equal shapes and operands, unequal backend configs."""
    variants = [Variant({"m": 3, "n": 3, "q": 3}, {"side": "L", "uplo": u, "trans_x": "N", "diag": "N"}) for u in "LU"]
    text = module_text("lapack_dtrsm_ffi", variants)
    text = text.replace("custom-call(p2, p3)", "custom-call(p0, p1)")
    a, b = inputs("lapack_dtrsm_ffi", variants)[:2]
    lower, upper = xjit.compile(text)(a, b, a, b)
    np.testing.assert_allclose(np.tril(a) @ lower, b, atol=1e-10)
    np.testing.assert_allclose(np.triu(a) @ upper, b, atol=1e-10)


@pytest.mark.parametrize("level", ["sse2", "avx2"])
@pytest.mark.parametrize(("size", "is_blas"), [(512, False), (513, True)])
def test_large_triangular_solves_are_calls(size: int, is_blas: bool, level: str) -> None:
    variant = Variant({"m": size, "n": 19, "q": size}, {"side": "L", "uplo": "L", "trans_x": "N", "diag": "N"})
    text = module_text("lapack_strsm_ffi", [variant])
    a, b = inputs("lapack_strsm_ffi", [variant])
    a = a + size * np.eye(size, dtype=np.float32)
    executable = xjit.compile(text, options=xjit.CompileOptions(cpu_level=level))
    assert ("xjit_blas_strsm" in executable.as_text("llvm")) == is_blas
    np.testing.assert_allclose(np.tril(a) @ leaves_of(executable(a, b))[0], b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("m", "n", "is_call"), [(48, 48, False), (49, 3, True), (3, 49, True)])
def test_large_factorizations_are_calls(m: int, n: int, is_call: bool) -> None:
    variant = Variant({"m": m, "n": n}, {})
    text = module_text("lapack_dgetrf_ffi", [variant])
    (a,) = inputs("lapack_dgetrf_ffi", [variant])
    executable = xjit.compile(text)
    assert ("xjit_lapack_dgetrf" in executable.as_text("llvm")) == is_call
    lu, pivots, info = leaves_of(executable(a))
    assert info == 0
    product = (np.tril(lu, -1)[:, : min(m, n)] + np.eye(m, min(m, n))) @ np.triu(lu)[: min(m, n)]
    for j, row in reversed(list(enumerate(pivots - 1))):
        product[[j, row]] = product[[row, j]]
    np.testing.assert_allclose(product, a, atol=1e-13)


@pytest.mark.parametrize(("n", "is_call"), [(32, False), (33, True)])
def test_large_choleskys_are_calls(n: int, is_call: bool) -> None:
    variant = Variant({"n": n}, {"uplo": "L"}, (3,))
    executable = xjit.compile(module_text("lapack_spotrf_ffi", [variant]))
    assert ("xjit_lapack_spotrf" in executable.as_text("llvm")) == is_call
    a = np.eye(n, dtype=np.float32) * np.array([4, 9, 1], np.float32)[:, None, None]
    a[1, 2, 2] = -1
    a[2, 1, 1] = np.nan
    factors, info = leaves_of(executable(a))
    np.testing.assert_array_equal(info[:2], [0, 3])
    np.testing.assert_array_equal(factors[0], 2 * np.eye(n))
    assert np.isnan(factors[2]).any() or info[2] == 2


@pytest.mark.parametrize(("size", "tasks"), [(64, True), (128, False)])
def test_batches_of_large_matrices_are_not_shared_out(size: int, tasks: bool) -> None:
    """LAPACK shares the work of each out among threads of its own."""
    text = module_text("lapack_sgeqrf_ffi", [Variant({"m": size, "n": size}, {}, (64,))])
    thunk = next(line for line in xjit.compile(text).as_text("thunks").splitlines() if "lapack" in line)
    assert ("tasks=" in thunk) == tasks


def test_pivots_are_the_first_of_equals_and_not_numbers_are_left() -> None:
    variant = Variant({"m": 4, "n": 4}, {})
    (a,) = inputs("lapack_sgetrf_ffi", [variant])
    a[:, 0] = [1, -2, 2, -2]
    found = _check("lapack_sgetrf_ffi", [variant], [a])
    assert found["ipiv"][0][0] == 2
    a[2, 1] = np.nan
    lu, _, info = leaves_of(xjit.compile(module_text("lapack_sgetrf_ffi", [variant]))(a))
    assert info == 0 and np.isnan(lu).any()


def test_units() -> None:
    """Any cut of the batch gives the same bits: tasks share neither workspaces nor the information they return."""
    variant = Variant({"n": 4}, {"uplo": "L"}, (6,))
    for target in ("lapack_dpotrf_ffi", "lapack_dsytrd_ffi"):
        (a,) = inputs(target, [variant])
        a = a @ np.swapaxes(a, -1, -2)
        a[4] = -np.eye(4)
        assert check_units(_single(module_text(target, [variant])), a, atol=1e-12) == 6


def _single(text: str) -> str:
    """The module with the custom call as its root."""
    lines = [line for line in text.splitlines() if "get-tuple-element" not in line and "ROOT" not in line]
    return "\n".join(line.replace("c0 =", "ROOT c0 =") for line in lines)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("uplo = 76 : ui8", "uplo = 77 : ui8", r"uplo = 77, expected one of \[76, 85\]"),
        ("uplo = 76 : ui8", "", r"attributes \[\], expected \['uplo'\]"),
        ("uplo = 76 : ui8", "uplo = 76 : ui8, more = true", r"attributes \['more', 'uplo'\]"),
        ("uplo = 76 : ui8", "uplo == 76", "expected attributes such as"),
        ("f32[3,3]{0,1}, s32[]", "f32[3,3]{0,1}, s32[1]", r"result info is s32\[1\].*expected s32\[\]"),
        ("f32[3,3]{0,1}, s32[]", "f32[4,3]{0,1}, s32[]", r"result a is f32\[4,3\].*expected f32\[n,n\]"),
        ("f32[3,3]{0,1}, s32[]", "f64[3,3]{0,1}, s32[]", r"result a is f64"),
        ("f32[3,3]{0,1}", "f32[3,3]{1,0}", r"expected the layout \{0,1\}"),
        ("lapack_spotrf_ffi", "lapack_spotri_ffi", r"expected one of AllocateBuffer.*lapack_\[cdsz\]potrf_ffi"),
    ],
)
def test_malformed_calls(old: str, new: str, message: str) -> None:
    text = module_text("lapack_spotrf_ffi", [Variant({"n": 3}, {"uplo": "L"})]).replace(old, new)
    if "[1]" in new or "[4," in new or "f64" in new:
        text = _single(text)
    with pytest.raises(xjit.HloError, match=message):
        xjit.compile(text)


def test_large_batches_from_many_threads() -> None:
    """Batches are cut into tasks; calls may overlap."""
    target, variant = "lapack_dpotrf_ffi", Variant({"n": 6}, {"uplo": "L"}, (300,))
    exe = xjit.compile(module_text(target, [variant]))
    (a,) = inputs(target, [variant])
    a = a @ np.swapaxes(a, -1, -2)
    a[::7] *= -1
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda _: exe(a), range(12)))
    factor, info = runs[0]
    assert list(info) == [int(i % 7 == 0) for i in range(300)]
    np.testing.assert_allclose(np.tril(factor[1]), np.linalg.cholesky(a[1]), atol=1e-12)
    for other in runs[1:]:
        assert other[0].tobytes() == factor.tobytes() and other[1].tobytes() == info.tobytes()


def test_in_place() -> None:
    """What a routine overwrites is not copied once more, unless it belongs to the caller."""
    call = (
        'p = (f64[3,4,4]{1,2,0}, s32[3]{0}) custom-call(n), custom_call_target="lapack_dpotrf_ffi", '
        "operand_layout_constraints={f64[3,4,4]{1,2,0}}, backend_config={uplo = 76 : ui8}\n"
        "  ROOT c = f64[3,4,4]{1,2,0} get-tuple-element(p), index=0\n}"
    )
    computed = f"ENTRY e {{\n  a = f64[3,4,4] parameter(0)\n  n = f64[3,4,4]{{1,2,0}} add(a, a)\n  {call}"
    given = f"ENTRY e {{\n  n = f64[3,4,4]{{1,2,0}} parameter(0)\n  {call}"
    a = inputs("lapack_dpotrf_ffi", [Variant({"n": 4}, {}, (3,))])[0]
    a = a @ np.swapaxes(a, -1, -2)
    for text, copies in ((computed, False), (given, True)):
        exe, before = xjit.compile(text), a.copy()
        np.testing.assert_allclose(exe(a), xjit.evaluate(xjit.parse_hlo(text), a), atol=1e-12)
        np.testing.assert_array_equal(a, before)
        (name,) = [k.name for k in exe.kernels if k.kind == "lapack"]
        kernel = exe.as_text("llvm").split(f"define internal void @{name}(")[1].split("\n}")[0]
        assert ("llvm.memcpy" in kernel) is copies
