"""Which algorithm transforms which length."""

from __future__ import annotations

from xjit.emitters.kernels.fft.bluestein import Bluestein
from xjit.emitters.kernels.fft.stockham import Stockham, radices_of
from xjit.emitters.kernels.fft.transform import Transform
from xjit.emitters.kernels.kernel import KernelContext
from xjit.hlo.types.primitive_type import PrimitiveType


def transform_of(
    context: KernelContext, length: int, kind: PrimitiveType, columns: int = 1, *, in_place: bool = True
) -> Transform:
    """Returns the transform; its functions are emitted once per module. If not `in_place`, see `Transform.result`.

    Several columns need a length whose prime factors are small (`radices_of`).
    """
    if radices_of(length) is not None:
        return Stockham(context, length, kind, columns, in_place=in_place).build()
    assert columns == 1, f"{columns} columns of length {length}"
    return Bluestein(context, length, kind).build()
