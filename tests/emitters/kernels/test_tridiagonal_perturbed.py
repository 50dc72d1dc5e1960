"""tridiagonal_solve_perturbed_ffi: compiled and evaluated results against jaxlib, regular and singular."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from tests.support import xla
from tests.support.kernels import check_units
from xjit.hlo.types.primitive_type import PrimitiveType

Array = np.ndarray
TARGET = "tridiagonal_solve_perturbed_ffi"
API = "api_version=API_VERSION_TYPED_FFI, backend_config={}"


def _text(kind: str, batch: tuple[int, ...], n: int, right: int) -> str:
    lead = len(batch)
    layout = ",".join(map(str, [lead, lead + 1, *range(lead - 1, -1, -1)]))
    dims = ",".join(map(str, (*batch, n)))
    diagonal = f"{kind}[{dims}]{{{','.join(map(str, range(lead, -1, -1)))}}}"
    matrix = f"{kind}[{dims},{right}]{{{layout}}}"
    shapes = [diagonal] * 3 + [matrix]
    lines = [f"p{i} = {s} parameter({i})" for i, s in enumerate(shapes)]
    call = f'{matrix} custom-call(p0, p1, p2, p3), custom_call_target="{TARGET}"'
    lines.append(f"ROOT c = {call}, operand_layout_constraints={{{', '.join(shapes)}}}, {API}")
    return "HloModule m\nENTRY e {\n  " + "\n  ".join(lines) + "\n}\n"


def _inputs(kind: str, batch: tuple[int, ...], n: int, right: int, case: str) -> list[Array]:
    rng, dtype = np.random.default_rng(n), PrimitiveType.from_text(kind).dtype
    shapes = [(*batch, n)] * 3 + [(*batch, n, right)]
    arrays = [rng.standard_normal(s) + (1j * rng.standard_normal(s) if dtype.kind == "c" else 0) for s in shapes]
    dl, d, du, b = (a.astype(dtype) for a in arrays)
    if case == "zero pivot":
        dl[...], d[..., n // 2] = 0, 0
    if case == "tiny":
        d[...], dl[...] = 0, dl * dtype.type(1e-20)
    dl[..., 0], du[..., -1] = 0, 0
    return [dl, d, du, b]


@pytest.mark.parametrize("kind", ["f32", "c128", *(pytest.param(k, marks=pytest.mark.slow) for k in ("f64", "c64"))])
@pytest.mark.parametrize(("batch", "n", "right"), [((3,), 6, 2), ((2,), 1, 2), ((), 2, 1), ((1, 2), 3, 1)])
def test_equals_jaxlib(kind: str, batch: tuple[int, ...], n: int, right: int) -> None:
    pytest.importorskip("jaxlib.lapack")._lapack.initialize()
    text = _text(kind, batch, n, right)
    module = xjit.parse_hlo(text)
    exe = xjit.compile(module)
    for case in (
        "regular",
        "zero pivot",
        *(["tiny"] if n % 2 == 0 else []),
    ):  # if odd, its rank is a matter of rounding
        arrays = _inputs(kind, batch, n, right, case)
        (want,) = xla.run(text, *arrays)
        assert np.isfinite(want).all()
        tolerance = (1e-5 if kind in ("f32", "c64") else 1e-13) * np.abs(want).max()
        for got in (exe(*arrays), xjit.evaluate(module, *arrays)):
            np.testing.assert_allclose(got, want, rtol=0, atol=tolerance)


def test_solves() -> None:
    arrays = dl, d, du, b = _inputs("f64", (4,), 30, 3, "regular")
    x = xjit.compile(_text("f64", (4,), 30, 3))(*arrays)
    product = d[..., None] * x
    product[:, 1:] += dl[:, 1:, None] * x[:, :-1]
    product[:, :-1] += du[:, :-1, None] * x[:, 1:]
    np.testing.assert_allclose(product, b, atol=1e-9)


def test_units_and_empty() -> None:
    assert check_units(_text("f64", (6,), 4, 2), *_inputs("f64", (6,), 4, 2, "regular"), rtol=1e-9) == 6
    for batch, n, right in (((2,), 0, 3), ((2,), 3, 0), ((0,), 3, 3)):
        text = _text("f32", batch, n, right)
        arrays = [np.zeros((*batch, n), np.float32)] * 3 + [np.zeros((*batch, n, right), np.float32)]
        assert xjit.compile(text)(*arrays).shape == xjit.evaluate(xjit.parse_hlo(text), *arrays).shape


def test_other_types_are_refused() -> None:
    with pytest.raises(xjit.HloError, match=r"tridiagonal_solve_perturbed_ffi' of s32\[2,3\]"):
        xjit.compile(_text("s32", (2,), 3, 1))
