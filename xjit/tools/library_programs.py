"""Programs that call the libraries that most programs need: products, convolutions, attention, Fourier transforms,
the first elements of sorted lines.

Nothing runs them. What they link is what `xjit cache fill` compiles: sizes are such that every kernel, method and copy
of the usual element types is among it, for any width of vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

_PRODUCT_TYPES = ("f32", "f64", "bf16", "f16", "s8")
_CONVOLUTION_TYPES = ("f32", "bf16")
_SUMS = {"s8": "s32"}  # of products; others are of their operands' type
_EDGES = ((9, 300, 8), (9, 300, 100), (300, 700, 300))
"""Rows, terms and columns: tiles of all heights and widths, with and without copies; k in several chunks, as fewer
terms take no library.
"""
_WHOLE = ((9, 300, 16), (9, 300, 48), (9, 300, 64))
"""The same of whole vectors, for which there are other kernels."""
_VECTORS = ((1, 700, 700), (700, 700, 1), (4, 900, 900))
_SORTED_TYPES = ("f32", "bf16", "s32")
_LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096, 65536)
_REAL_LENGTHS = (512, 8192)  # short and long tables
_SIDES = (8, 16, 32)  # of two dimensions: stages of 2, 4 and 8 along columns


def library_programs() -> Iterator[str]:
    """Yields their HLO text."""
    for type in _PRODUCT_TYPES:
        yield from (_product(type, sizes) for sizes in (*_EDGES, *_WHOLE, *_VECTORS))
        for sizes in _EDGES:
            yield from (_product(type, sizes, transposed=sides) for sides in ((True, False), (False, True)))
            yield from (_product(type, sizes, (5,), (False, transposed)) for transposed in (False, True))
    for type in _CONVOLUTION_TYPES:
        yield from (_convolution(type, labels, 1) for labels in ("b01f_01io->b01f", "bf01_oi01->bf01"))
        yield _convolution(type, "b01f_01io->b01f", 32)
        yield _attention(type)
    for type in ("c64", "c128"):
        yield from (_transform(type, length) for length in _LENGTHS)
        yield from (_transform(type, length, length) for length in _SIDES)
    for type in ("f32", "f64"):
        yield from (_real_transform(type, length) for length in _REAL_LENGTHS)
    yield from map(_first_elements, _SORTED_TYPES)
    yield _module("x = f32[100] parameter(0)", "ROOT r = f32[100] sine(x)")


def _module(*lines: str, functions: Sequence[str] = ()) -> str:
    return "\n".join(("HloModule libraries", *functions, "ENTRY main {", *lines, "}", ""))


def _shape(type: str, *dimensions: int) -> str:
    return f"{type}[{','.join(map(str, dimensions))}]"


def _product(
    type: str, sizes: tuple[int, int, int], batch: tuple[int, ...] = (), transposed: tuple[bool, bool] = (False, False)
) -> str:
    """A product of matrices; `transposed` says which operands are stored with their dimensions exchanged."""
    m, k, n = sizes
    lhs, rhs = ((k, m) if transposed[0] else (m, k)), ((n, k) if transposed[1] else (k, n))
    first = len(batch)
    contracted = (
        f"lhs_contracting_dims={{{first + (not transposed[0])}}}, rhs_contracting_dims={{{first + transposed[1]}}}"
    )
    batches = "lhs_batch_dims={0}, rhs_batch_dims={0}, " if batch else ""
    return _module(
        f"x = {_shape(type, *batch, *lhs)} parameter(0)",
        f"y = {_shape(type, *batch, *rhs)} parameter(1)",
        f"ROOT r = {_shape(_SUMS.get(type, type), *batch, m, n)} dot(x, y), {batches}{contracted}",
    )


def _transform(type: str, *lengths: int) -> str:
    """Four Fourier transforms."""
    shape, sizes = _shape(type, 4, *lengths), ",".join(map(str, lengths))
    return _module(f"x = {shape} parameter(0)", f"ROOT r = {shape} fft(x), fft_type=FFT, fft_length={{{sizes}}}")


def _real_transform(type: str, length: int) -> str:
    """Four real Fourier transforms, and the way back."""
    real = _shape(type, 4, length)
    half = _shape({"f32": "c64", "f64": "c128"}[type], 4, length // 2 + 1)
    return _module(
        f"x = {real} parameter(0)",
        f"y = {half} fft(x), fft_type=RFFT, fft_length={{{length}}}",
        f"ROOT r = {real} fft(y), fft_type=IRFFT, fft_length={{{length}}}",
    )


def _first_elements(type: str) -> str:
    """The largest ten of each line."""
    results = ", ".join(_shape(element, 4, 10) for element in (type, "s32"))
    return _module(f"x = {_shape(type, 4, 1000)} parameter(0)", f"ROOT r = ({results}) topk(x), k=10, largest=true")


def _convolution(type: str, labels: str, groups: int) -> str:
    """Images of 14 x 14 with 32 channels and a kernel of 3 x 3, to 72 features, or of each channel by itself."""
    features = 72 if groups == 1 else groups
    size = {"b": 2, "0": 14, "1": 14, "f": 32}
    taps = {"0": 3, "1": 3, "i": 32 // groups, "o": features}
    source, kernel, result = labels.replace("->", "_").split("_")
    return _module(
        f"x = {_shape(type, *(size[d] for d in source))} parameter(0)",
        f"y = {_shape(type, *(taps[d] for d in kernel))} parameter(1)",
        f"ROOT r = {_shape(type, *({**size, 'f': features}[d] for d in result))} convolution(x, y), "
        f"window={{size=3x3 pad=1_1x1_1}}, dim_labels={labels}, feature_group_count={groups}",
    )


def _attention(type: str) -> str:
    """Eight heads of 512 rows, as written out."""
    rows, scores = _shape(type, 8, 512, 64), _shape(type, 8, 512, 512)
    maxima = _shape(type, 8, 512)
    functions = [
        f"{name} {{ a = {type}[] parameter(0) b = {type}[] parameter(1) ROOT r = {type}[] {name}(a, b) }}"
        for name in ("maximum", "add")
    ]
    return _module(
        *(f"{name} = {rows} parameter({number})" for number, name in enumerate("qkv")),
        f"s = {scores} dot(q, k), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, "
        "rhs_contracting_dims={2}",
        f"least = {type}[] constant(-inf)",
        f"m = {maxima} reduce(s, least), dimensions={{2}}, to_apply=maximum",
        f"shift = {scores} broadcast(m), dimensions={{0,1}}",
        f"d = {scores} subtract(s, shift)",
        f"e = {scores} exponential(d)",
        f"zero = {type}[] constant(0)",
        f"t = {maxima} reduce(e, zero), dimensions={{2}}, to_apply=add",
        f"total = {scores} broadcast(t), dimensions={{0,1}}",
        f"w = {scores} divide(e, total)",
        f"ROOT r = {rows} dot(w, v), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, "
        "rhs_contracting_dims={1}",
        functions=functions,
    )
