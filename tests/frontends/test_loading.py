"""`xjit.load` reads every format by its content, whatever the file's name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xjit
from xjit.frontends.formats import Format, format_of, unwrap_proto
from xjit.tools.main import main

TEXT = """HloModule m

ENTRY e {
  x = f32[4] parameter(0)
  ROOT r = f32[4] add(x, x)
}
"""
STABLEHLO = "#loc = loc(unknown)\nmodule @m {\n  func.func @main() -> tensor<f32> {\n  }\n}\n"
X = np.arange(4, dtype=np.float32)


def field(number: int, payload: bytes) -> bytes:
    """A length-delimited field of a message."""
    length, size = bytearray(), len(payload)
    while size >= 0x80:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([number << 3 | 2, *length, size]) + payload


def exported(f: Any, *arguments: Any, **options: Any) -> bytes:
    pytest.importorskip("flatbuffers")
    return bytes(jax.export.export(jax.jit(f), **options)(*arguments).serialize())


def test_formats_are_told_apart() -> None:
    proto = xjit.to_hlo_proto(xjit.parse_hlo(TEXT))
    assert format_of(TEXT.encode()) is Format.HLO_TEXT
    assert format_of(b"\xef\xbb\xbf" + TEXT.encode()) is Format.HLO_TEXT
    assert format_of(b"") is Format.HLO_TEXT
    assert format_of(proto) is format_of(field(1, proto)) is Format.HLO_PROTO
    assert format_of(STABLEHLO.encode()) is Format.STABLEHLO_TEXT
    assert format_of(b'"builtin.module"() ({\n}) : () -> ()') is Format.STABLEHLO_TEXT
    assert format_of(b"ML\xefR\rStableHLO_v1.0.0") is Format.STABLEHLO_BYTECODE
    assert format_of(b"module_of_mine { x = f32[] constant(1) }") is Format.HLO_TEXT


def test_messages_around_a_module_are_unwrapped() -> None:
    module = xjit.parse_hlo(TEXT)
    proto = xjit.to_hlo_proto(module)
    hlo_proto = field(1, proto) + field(3, b"")
    snapshot = field(1, hlo_proto) + field(2, b"\x08\x0b") + field(3, b"") + field(4, b"Host")
    assert [unwrap_proto(data) for data in (proto, hlo_proto, snapshot)] == [proto] * 3
    for data in (proto, hlo_proto, snapshot):
        assert xjit.structural_equal(xjit.from_hlo_proto(data), module)
    for broken in (b"", b"\x0a", b"\x0a\xff", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"\x0a\x02\x0a\x05"):
        with pytest.raises(xjit.HloParseError):
            xjit.from_hlo_proto(broken)


@pytest.mark.parametrize("name", ["m.hlo", "m", "m.pb", "m.mlir"])
def test_files_are_read_by_content(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(TEXT)
    expected = X + X
    assert (xjit.evaluate(xjit.load(path), X) == expected).all()
    path.write_bytes(xjit.to_hlo_proto(xjit.parse_hlo(TEXT)))
    assert (xjit.evaluate(xjit.load(str(path)), X) == expected).all()
    path.write_bytes(jax.export.export(jax.jit(lambda x: x + x))(X).mlir_module_serialized)
    assert (xjit.evaluate(path, X) == expected).all()


def test_exported_functions_keep_all_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(exported(lambda d, unused: {"r": jnp.sin(d["a"])}, {"a": X}, 3, platforms=["tpu", "cpu"]))
    module = xjit.load(path)
    assert module.entry_computation.num_parameters == 2
    np.testing.assert_allclose(xjit.compile(module)(X, 3), np.sin(X), rtol=1e-6)
    assert main(["run", str(path), "--reference", "jax"]) == 0
    assert "match" in capsys.readouterr().out


def test_exports_that_cannot_run_say_why(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(exported(jnp.sin, X, platforms=["tpu"]))
    with pytest.raises(xjit.Unsupported, match="tpu"):
        xjit.load(path)
    data = exported(jnp.sin, jax.ShapeDtypeStruct(jax.export.symbolic_shape("batch, 4"), np.float32))
    path.write_bytes(data)
    with pytest.raises(xjit.Unsupported, match=r"symbolic sizes \(batch\).*xjit.from_jax"):
        xjit.load(path)
    module = xjit.from_jax(jax.export.deserialize(bytearray(data)), np.ones((3, 4), np.float32))
    assert xjit.compile(module)(np.ones((3, 4), np.float32)).shape == (3, 4)
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(xjit.HloError):
        xjit.load(path)


def test_what_cannot_be_read_is_one_error(tmp_path: Path) -> None:
    path = tmp_path / "m"
    for content in (b"", b"\x00\x01\x02", b"\xff\xfe", b"ML\xefR", b"HloModule \xff", b"\0" * 100, b"module"):
        path.write_bytes(content)
        with pytest.raises(xjit.HloError):
            xjit.load(path)
    for wrong in (tmp_path / "missing", tmp_path, "a\0b", 3, None):
        with pytest.raises(xjit.InvalidArgument):
            xjit.load(wrong)  # type: ignore[arg-type]
