"""PTX to what a driver loads: with nvJitLink, and without it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.gpu_kernels import KERNELS
from xjit.hlo.diagnostics import CompileError, FailedPrecondition
from xjit.llvm.target import Target
from xjit.runtime.cuda import images
from xjit.runtime.machine_code.nvptx import to_ptx

PTX = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n"
ELF = b"\x7fELF"
REMARKS = b"""ptxas info    : Function properties for k
ptxas         .     16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 16 bytes cumulative stack size, 4224 bytes smem
"""
needs_linker = pytest.mark.skipif(not images.has_assembler(), reason="needs the package nvidia-nvjitlink")


class FakeLinker:
    """nvJitLink's functions; it rejects texts with `wrong` in them."""

    InputType = SimpleNamespace(PTX=2)

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.rejects = False

    def version(self) -> tuple[int, int]:
        return (13, 0)

    def create(self, count: int, options: list[str]) -> int:
        self.log.append(("create", *options))
        return 1

    def add_data(self, handle: int, kind: int, data: bytes, size: int, name: str) -> None:
        self.rejects = b"wrong" in data
        self.log.append(("add", kind, size))

    def complete(self, handle: int) -> None:
        if self.rejects:
            raise RuntimeError("no")

    def get_linked_cubin_size(self, handle: int) -> int:
        return len(ELF)

    def get_linked_cubin(self, handle: int, cubin: bytearray) -> None:
        cubin[:] = ELF

    def get_info_log_size(self, handle: int) -> int:
        return len(REMARKS)

    def get_info_log(self, handle: int, log: bytearray) -> None:
        log[:] = REMARKS

    def get_error_log_size(self, handle: int) -> int:
        return 8

    def get_error_log(self, handle: int, log: bytearray) -> None:
        log[:] = b"line 3\0\0"

    def destroy(self, handle: int) -> None:
        self.log.append(("destroy",))


def test_without_the_linker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver gets the text, which must end with a zero byte."""
    monkeypatch.setattr(images, "_LINKER", "xjit.there_is_no_such_module")
    assert images.kernel_image(PTX, "sm_90") == PTX.encode() + b"\0"
    assert not images.has_assembler()
    with pytest.raises(FailedPrecondition, match="needs NVIDIA's package nvidia-nvjitlink"):
        images.assemble_kernel(PTX, "sm_90")


def test_with_a_linker(monkeypatch: pytest.MonkeyPatch) -> None:
    linker = FakeLinker()
    monkeypatch.setattr(images.importlib, "import_module", lambda name: linker)
    assert images.kernel_image(PTX, "sm_90") == ELF
    assert linker.log == [("create", "-arch=sm_90", "-Xptxas=-v"), ("add", 2, len(PTX)), ("destroy",)]
    expected = images.KernelResources(64, 4224, 16, 8, 12)
    assert images.assemble_kernel(PTX, "sm_90") == images.AssembledKernel(ELF, expected)
    with pytest.raises(CompileError, match="nvJitLink rejected the PTX for sm_90: line 3"):
        images.kernel_image("wrong", "sm_90")
    assert linker.log[-1] == ("destroy",)


@needs_linker
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("name", sorted(path.stem for path in KERNELS.glob("*.ll")))
def test_hand_written_kernels_are_assembled(name: str, architecture: str) -> None:
    """What is simulated is what a GPU can run."""
    text = (KERNELS / f"{name}.ll").read_text()
    assert images.kernel_image(to_ptx(text, Target.for_gpu(architecture)), architecture).startswith(ELF)


@needs_linker
def test_resources_are_the_assemblers() -> None:
    text = (KERNELS / "transpose.ll").read_text()
    ptx = to_ptx(text, Target.for_gpu("sm_90"))
    resources = images.assemble_kernel(ptx, "sm_90").resources
    assert 0 < resources.registers <= 255 and resources.shared_bytes > 0 and resources.spill_store_bytes == 0


@needs_linker
def test_wrong_ptx_is_an_error() -> None:
    with pytest.raises(CompileError, match="nvJitLink rejected the PTX for sm_90"):
        images.kernel_image(PTX.replace("ret", "rot"), "sm_90")


def test_dynamic_shared_memory_needs_no_definition() -> None:
    ptx = to_ptx((KERNELS / "dynamic_reverse.ll").read_text(), Target.for_gpu("sm_90"))
    assert ".extern .shared" in ptx
