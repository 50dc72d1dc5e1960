"""fft against the evaluator: all types, lengths with small and with large prime factors, dimensions, layouts."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import xjit
from tests.support.kernels import LAYOUTS, check, check_units
from xjit.compiler import libraries_of
from xjit.emitters.kernels.fft import fft
from xjit.emitters.kernels.fft.columns import MAX_STRIP, strips_of
from xjit.emitters.kernels.fft.stockham import radices_of
from xjit.emitters.kernels.fft.tables import roots_of_unity
from xjit.llvm.target import Target
from xjit.runtime.machine_code.jit import CodegenOptions, compile_ir_to_object
from xjit.text.parser import parse_hlo

COMPLEX = {"f32": "c64", "f64": "c128"}
TOLERANCE = {"f32": 1e-5, "f64": 1e-13}


def text(kind: str, fft_type: str, batch: tuple[int, ...], lengths: tuple[int, ...], layout: str = "") -> str:
    half = (*lengths[:-1], lengths[-1] // 2 + 1 if lengths[-1] else 0)
    complex_kind = COMPLEX[kind]
    operand = (kind, lengths) if fft_type == "RFFT" else (complex_kind, half if fft_type == "IRFFT" else lengths)
    result = (kind, lengths) if fft_type == "IRFFT" else (complex_kind, half if fft_type == "RFFT" else lengths)

    def shape(item: tuple[str, tuple[int, ...]]) -> str:
        return f"{item[0]}[{','.join(map(str, (*batch, *item[1])))}]{layout}"

    return f"""HloModule m
ENTRY e {{
  x = {shape(operand)} parameter(0)
  ROOT f = {shape(result)} fft(x), fft_type={fft_type}, fft_length={{{",".join(map(str, lengths))}}}
}}
"""


def check_fft(kind: str, *arguments: object, **options: object) -> None:
    tolerance = TOLERANCE[kind] * 8
    check(text(kind, *arguments), rtol=tolerance, atol=tolerance, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 13, 16, 30, 64, 96, 17, 37, 128, 360, 1001])
def test_lengths(n: int) -> None:
    check_fft("f32", "FFT", (2,), (n,))


@pytest.mark.parametrize("n", [1, 2, 5, 6, 19, 64])
@pytest.mark.parametrize("fft_type", ["IFFT", "RFFT", "IRFFT"])
def test_types(fft_type: str, n: int) -> None:
    check_fft("f64", fft_type, (3,), (n,))


@pytest.mark.parametrize("level", ["sse2", "avx2"])
@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("fft_type", ["FFT", "IFFT", "RFFT", "IRFFT"])
def test_rows_that_libraries_take_apart(fft_type: str, kind: str, level: str) -> None:
    options = dataclasses.replace(LAYOUTS, cpu_level=level)
    for length in (130, 257, 270):  # the last vector overlaps the one before
        check_fft(kind, fft_type, (3,), (length,), options=options)
    check_fft(kind, fft_type, (2,), (6, 37), options=options)  # strips of columns
    check_fft(kind, fft_type, (2,), (2, 256), options=options)  # of an IRFFT: half spectra in its result


@pytest.mark.parametrize(
    ("fft_type", "n"), [("FFT", 128), ("FFT", 4096), ("RFFT", 256), ("IRFFT", 256), ("RFFT", 8192)]
)
def test_kernels_of_long_rows_are_not_optimized(fft_type: str, n: int) -> None:
    """All their work is done by libraries: what a program has of its own are calls, also for the longest tables."""
    long, short = (xjit.compile(text("f32", fft_type, (1,), (n,)), options=LAYOUTS).as_text("llvm") for n in (n, 64))
    functions = [line for line in long.splitlines() if line.startswith("define")]
    assert len(functions) >= 3 and all("optnone" in line for line in functions)
    assert "x float>" in short and "x float>" not in long


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("level", ["sse2", "avx2", "avx512"])
def test_libraries_of_real_transforms_depend_on_the_type_and_cpu_only(level: str, kind: str) -> None:
    """They compile for all levels."""
    options = xjit.CompileOptions(cpu_level=level)
    for fft_type, role in (("RFFT", "spectrum"), ("IRFFT", "halves")):
        found = [
            {library.name: library for library in libraries_of(parse_hlo(text(kind, fft_type, (1,), (n,))), options)}
            for n in (256, 270, 16384)
        ]
        name = f"xjit_fft_{role}_{kind}"
        assert len({libraries[name].identity for libraries in found}) == 1
        lanes = {"sse2": 128, "avx2": 256, "avx512": 512}[level] // (32 if kind == "f32" else 64)
        assert f"<{lanes} x {'float' if kind == 'f32' else 'double'}>" in (code := found[0][name].make_text())
        target = Target.for_features(level)
        assert compile_ir_to_object(code, CodegenOptions(cpu=target.cpu, features=target.features))
        assert f"xjit_fft_roots_{kind}" in found[2] and f"xjit_fft_roots_{kind}" not in found[0]


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_libraries_of_real_transforms_have_the_bits_of_kernels(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    for n in (256, 270, 8192):
        real = generator.standard_normal((1, n)).astype(np.dtype(f"f{int(kind[1:]) // 8}"))
        spectrum = np.fft.rfft(real).astype(f"c{int(kind[1:]) // 4}")
        for fft_type, x in (("RFFT", real), ("IRFFT", spectrum)):
            program = text(kind, fft_type, (1,), (n,))
            called = xjit.compile(program)(x)
            with monkeypatch.context() as patch:
                patch.setattr(fft, "MIN_ROW", 1 << 20)
                inline = xjit.compile(program)
            assert "x float>" in (code := inline.as_text("llvm")) or "x double>" in code
            np.testing.assert_array_equal(called, inline(x))


@pytest.mark.parametrize("level", ["sse2", "avx2"])
@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("fft_type", ["FFT", "IFFT", "RFFT", "IRFFT"])
def test_groups_of_rows(fft_type: str, kind: str, level: str) -> None:
    """Rows side by side: odd and even lengths, shorter than a vector too, and fewer rows in the last group."""
    options = dataclasses.replace(LAYOUTS, cpu_level=level)
    for rows, n in ((4, 3), (9, 6), (9, 4), (13, 15), (2, 27), (8, 100), (5, 130)):
        program = parse_hlo(text(kind, fft_type, (rows,), (n,)))
        lanes = {"sse2": 4, "avx2": 8}[level] // (1 if kind == "f32" else 2)
        groups = any("rows" in library.name for library in libraries_of(program, options))
        assert groups == (2 * rows >= lanes)
        check_fft(kind, fft_type, (rows,), (n,), options=options)


def test_groups_of_rows_as_units() -> None:
    for fft_type in ("FFT", "RFFT", "IRFFT"):
        for n in (15, 20):
            check_units(text("f32", fft_type, (3, 7), (n,)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("level", ["sse2", "avx2"])
@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("fft_type", ["FFT", "IFFT", "RFFT", "IRFFT"])
def test_groups_of_rows_of_several_dimensions(fft_type: str, kind: str, level: str) -> None:
    """Half spectra in rows of odd length are the exception: each is transformed by itself."""
    options = dataclasses.replace(LAYOUTS, cpu_level=level)
    for batch, lengths in (((), (4, 3)), ((3,), (5, 6)), ((2,), (3, 5, 10)), ((), (9, 6)), ((), (5, 26))):
        program = parse_hlo(text(kind, fft_type, batch, lengths))
        groups = any("rows" in library.name for library in libraries_of(program, options))
        assert groups == (fft_type != "IRFFT" or lengths[-1] % 2 == 0)
        check_fft(kind, fft_type, batch, lengths, options=options)


def test_a_row_of_a_group_has_bits_that_do_not_depend_on_the_others() -> None:
    rows = np.random.default_rng(0).standard_normal((11, 45)).astype(np.complex64)
    exe = xjit.compile(text("f32", "FFT", (11,), (45,)))
    together, alone = exe(rows), exe(np.broadcast_to(rows[9], (11, 45)).copy())
    assert np.array_equal(together[9], alone[0]) and np.array_equal(alone[0], alone[10])


def test_rows_of_powers_of_two_are_transformed_one_by_one() -> None:
    libraries = libraries_of(parse_hlo(text("f32", "FFT", (16,), (64,))), xjit.CompileOptions(cpu_level="avx2"))
    assert not any("rows" in library.name for library in libraries)


def test_long_transforms() -> None:
    check_fft("f64", "FFT", (), (8192,))
    check_fft("f64", "IFFT", (), (4099,))
    check_fft("f32", "FFT", (), (4096,))
    for kind in COMPLEX:
        check_fft(kind, "RFFT", (), (6006,))  # tables whose last blocks are not whole


@pytest.mark.parametrize("fft_type", ["FFT", "IFFT", "RFFT", "IRFFT"])
@pytest.mark.parametrize("lengths", [(4, 6), (5, 3), (3, 4, 7), (1, 1)])
def test_several_dimensions(fft_type: str, lengths: tuple[int, ...]) -> None:
    check_fft("f64", fft_type, (2, 2), lengths)


@pytest.mark.parametrize("lengths", [(6, 67), (4, 90), (17, 33), (3, 4, 70), (2, 129)])
def test_strips_of_columns(lengths: tuple[int, ...]) -> None:
    for kind, fft_type in (("f32", "FFT"), ("f64", "IFFT"), ("f32", "RFFT"), ("f32", "IRFFT")):
        check_fft(kind, fft_type, (2,), lengths)


@pytest.mark.parametrize("inner", [1, 2, 15, 16, 17, 64, 65, 67, 90, 128, 129, 257, 360, 1000, 1031])
@pytest.mark.parametrize("length", [2, 96, 1024, 4096, 1001, 17])
def test_strips_cover_all_columns_once(length: int, inner: int) -> None:
    strips = strips_of(length, inner, 16, 4)
    columns = [s.first + n * s.width + c for s in strips for n in range(s.count) for c in range(s.width)]
    assert columns == list(range(inner))
    assert all(s.width <= MAX_STRIP for s in strips)


@pytest.mark.parametrize(
    "lengths", [(3, 1), (3, 2), (4, 3), (1, 5), (2, 3, 4), (3, 2, 9), (5, 130), (2, 2, 2), (17, 3, 9), (3, 37, 2)]
)
def test_half_spectra_in_rows(lengths: tuple[int, ...]) -> None:
    check_fft("f64", "IRFFT", (2,), lengths)
    assert check_units(text("f32", "IRFFT", (2,), lengths), rtol=1e-4, atol=1e-4) >= 1


@pytest.mark.parametrize("level", ["sse2", "avx2"])
def test_inverse_real_boxes_at_levels(level: str) -> None:
    options = xjit.CompileOptions(cpu_level=level)
    for lengths in ((8, 6, 40), (4, 5, 3), (2, 3, 1)):
        check_fft("f32", "IRFFT", (2,), lengths, options=options)


def test_the_imaginary_parts_of_edges_of_boxes_do_not_count() -> None:
    """Those of sums over both other dimensions: the planes' own conjugates change nothing but them."""
    x = np.random.default_rng(3).standard_normal((4, 6, 9, 2)).view(np.complex128)[..., 0]
    executable, flipped = xjit.compile(text("f64", "IRFFT", (), (4, 6, 16))), x.copy()
    for edge in (0, 8):
        plane = x[..., edge]
        flipped[..., edge] = np.roll(plane[::-1, ::-1], 1, (0, 1)).conj()
    np.testing.assert_allclose(executable(x), executable(flipped), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(executable(x), np.fft.irfftn(x), rtol=1e-12, atol=1e-14)


def test_columns_are_transformed_by_their_own_kernels() -> None:
    executable = xjit.compile(text("f32", "FFT", (), (64, 128)))
    assert len(executable.kernels) == 2
    assert len(xjit.compile(text("f32", "FFT", (2,), (8, 8, 8))).kernels) == 3
    assert len(xjit.compile(text("f32", "IRFFT", (2,), (8, 8))).kernels) == 3  # edges, other columns, rows
    assert len(xjit.compile(text("f32", "IRFFT", (2,), (8, 8, 8))).kernels) == 4  # edges, columns of both, rows
    assert check_units(text("f32", "FFT", (3,), (4, 128)), rtol=1e-4, atol=1e-4) > 3


def test_stages_are_shared_code() -> None:
    """Whatever the length; and complex elements that lie side by side are moved in whole vectors."""
    first, second = (xjit.compile(text("f32", "FFT", (), sizes)) for sizes in ((64, 512), (512, 64)))
    assert len(set(first.program.object_code) & set(second.program.object_code)) >= 2
    functions = first.as_text("llvm").split("define ")[1:]
    moving = [body for body in functions if "call void @fft." in body and ".apply(" in body]
    assert moving and not any("masked." in body for body in moving)


@pytest.mark.parametrize(("n", "prepares"), [(16, False), (2048, False), (4096, True), (17, True)])
def test_only_tables_in_memory_are_prepared(n: int, prepares: bool) -> None:
    """Short ones are constants; a chirp is computed."""
    assert (".prepare(" in xjit.compile(text("f32", "FFT", (2,), (n,))).as_text("llvm")) == prepares
    check_fft("f32", "FFT", (2,), (n,))


@pytest.mark.parametrize("inner", [3, 16, 30])
@pytest.mark.parametrize("length", [8, 80, 128, 512])
def test_columns_of_any_width(length: int, inner: int) -> None:
    check_fft("f32", "IFFT", (), (length, inner))


def test_layouts_units_and_empty() -> None:
    check_fft("f32", "FFT", (3,), (5, 8), "{0,1,2}", options=LAYOUTS)
    assert check_units(text("f32", "FFT", (6,), (19,)), rtol=1e-4, atol=1e-4) == 6
    check_fft("f32", "FFT", (0,), (8,))
    check_fft("f32", "FFT", (3,), (0,))
    check_fft("f32", "FFT", (3,), (0, 4))
    check_fft("f32", "IFFT", (0,), (3, 4))
    check_fft("f32", "IRFFT", (0,), (3, 4))
    check_fft("f64", "IRFFT", (3,), (5, 8), "{0,1,2}", options=LAYOUTS)


@pytest.mark.parametrize("n", [4, 6, 24, 38, 66, 8200])
def test_real_transforms_have_half_the_length(n: int) -> None:
    """Of an even length; roots of the longest one are computed by the kernel."""
    for fft_type in ("RFFT", "IRFFT"):
        check_fft("f32" if n < 100 else "f64", fft_type, (3,), (n,))
        executable = xjit.compile(text("f32", fft_type, (3,), (n,)))
        assert f"@fft.{n // 2}.f" in executable.as_text("llvm")


@pytest.mark.parametrize(("n", "layout"), [(5, ""), (2, ""), (8, "{0,1}")])
def test_real_transforms_without_neighbours(n: int, layout: str) -> None:
    for fft_type in ("RFFT", "IRFFT"):
        check_fft("f32", fft_type, (3,), (n,), layout, options=LAYOUTS)


def test_real_transforms_as_units() -> None:
    assert check_units(text("f32", "RFFT", (6,), (38,)), rtol=1e-4, atol=1e-4) == 6
    assert check_units(text("f32", "IRFFT", (6,), (38,)), rtol=1e-4, atol=1e-4) == 6


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("n", [24, 256])
def test_large_numbers_have_finite_spectra(n: int, kind: str) -> None:
    x = np.zeros((1, n), np.dtype(kind.replace("f", "float")))
    x[0, 4] = 0.9 * np.finfo(x.dtype).max
    spectrum = np.asarray(xjit.compile(text(kind, "RFFT", (1,), (n,)))(x))
    np.testing.assert_allclose(spectrum / x[0, 4], np.fft.rfft(x / x[0, 4]), rtol=0, atol=1e-6)


@pytest.mark.parametrize("n", [8, 256])
def test_the_imaginary_parts_of_edges_do_not_count(n: int) -> None:
    """Nor does what is in them: C2R transforms of XLA read half a spectrum as one of real numbers."""
    executable, size = xjit.compile(text("f32", "IRFFT", (), (n,))), n // 2 + 1
    x = np.random.default_rng(0).standard_normal(size) + 1j * np.random.default_rng(1).standard_normal(size)
    x = x.astype(np.complex64)
    other = x.copy()
    other.imag[[0, -1]] = np.inf, np.nan
    np.testing.assert_array_equal(executable(x), executable(other))


def test_accuracy() -> None:
    x = np.random.default_rng(0).standard_normal(1 << 12) + 1j * np.random.default_rng(1).standard_normal(1 << 12)
    exact = np.fft.fft(x)
    for kind, bound in (("f32", 4e-7), ("f64", 8e-16)):
        found = xjit.compile(text(kind, "FFT", (), (1 << 12,)))(
            x.astype(np.complex64 if kind == "f32" else np.complex128)
        )
        assert np.linalg.norm(found - exact) / np.linalg.norm(exact) < bound


def test_roots_of_unity() -> None:
    for n, step in ((12, 1), (7, 3), (1 << 20, 1 << 10)):
        expected = np.exp(-2j * np.pi * ((np.arange(9) * step) % n) / n)
        np.testing.assert_allclose(roots_of_unity(n, 9, step), expected, atol=3e-16)
    assert roots_of_unity(8, 8)[[0, 2, 4, 6]].tolist() == [1, -1j, -1, 1j]


def test_radices() -> None:
    assert (
        radices_of(64) == [4, 4, 4]
        and radices_of(2048, 16) == [4, 4, 4, 4, 8]
        and radices_of(512, 1) == [8, 8, 8]
        and radices_of(30) == [2, 3, 5]
        and radices_of(1) == []
    )
    assert radices_of(17) is None and radices_of(34) is None
