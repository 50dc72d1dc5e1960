"""Fields of the records are read by number: of the record that they belong to, at the place where Python writes them."""

from __future__ import annotations

import ctypes
import dataclasses

import numpy as np
import pytest

from xjit.emitters.gemm.blocking.convolution_shapes import ConvolutionParameters
from xjit.emitters.gemm.blocking.shapes import GemmParameters
from xjit.emitters.gemm.record import CONV, GEMM, Parameters, Record
from xjit.llvm import Module
from xjit.llvm.structured_builder import define
from xjit.llvm.target import Target
from xjit.llvm.types import I64, PTR
from xjit.runtime.machine_code import jit, linker


@pytest.mark.parametrize(("kind", "fields"), [(GemmParameters, GEMM), (ConvolutionParameters, CONV)])
def test_every_field_is_read_where_it_was_written(kind: type[Parameters], fields: Parameters) -> None:
    names = [field.name for field in dataclasses.fields(kind)]
    module = Module("record", Target.host())
    for name in names:
        builder = define(module, name, ((PTR, "record"), (PTR, "out")), linkage="")
        record, out = builder.function.args
        builder.store(Record(builder, record, fields)[getattr(fields, name)], out, align=8)
        builder.ret_void()
    written = kind(*(7 * n for n in range(len(names)))).to_array()
    code = linker.load_object(jit.compile_modules_to_objects([module.to_text()]), names, {})
    for number, name in enumerate(names):
        found = np.zeros(1, np.int64)
        call(code.address(name), written, found)
        assert found[0] == 7 * number, name


def call(address: int, *arrays: np.ndarray) -> None:
    """Calls a function with the addresses of arrays."""
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arrays))(address)(*(a.ctypes.data for a in arrays))


def test_a_record_has_no_field_of_the_other() -> None:
    builder = define(Module("record", Target.host()), "f", ((PTR, "record"), (I64, "n")))
    with pytest.raises(KeyError):
        Record(builder, builder.function.args[0], GEMM)[CONV.batch]
    with pytest.raises(KeyError):
        Record(builder, builder.function.args[0], CONV).flag(GEMM.use_scratch)
