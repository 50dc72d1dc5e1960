"""Files with RUN and CHECK lines: this project's, and those of the corpus where it is there."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("filecheck")

from tests.linalg_ext.run_lines import check_file

HERE = Path(__file__).resolve().parent
CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "byteir"


@pytest.mark.parametrize("path", sorted((HERE / "filecheck").glob("*.mlir")), ids=lambda path: path.stem)
def test_file(path: Path, tmp_path: Path) -> None:
    check_file(path, tmp_path)


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.mlir")), ids=lambda path: path.stem)
def test_corpus_file(path: Path, tmp_path: Path) -> None:
    check_file(path, tmp_path)


def test_a_wrong_expectation_fails(tmp_path: Path) -> None:
    path = tmp_path / "wrong.mlir"
    path.write_text("// RUN: byteir-opt %s | FileCheck %s\n// CHECK: func.func @g\nfunc.func private @f()\n")
    with pytest.raises(AssertionError):
        check_file(path, tmp_path)
