"""Programs on NVIDIA GPUs, through CUDA's driver API. Imports no CUDA package before a program is to run."""

from xjit.runtime.cuda.bindings_driver import cuda_device_count, cuda_driver
from xjit.runtime.cuda.captured_call import CapturedCall
from xjit.runtime.cuda.device_array import DeviceArray
from xjit.runtime.cuda.disassembly import to_sass
from xjit.runtime.cuda.driver import CudaDriver
from xjit.runtime.cuda.executable import CudaExecutable
from xjit.runtime.cuda.images import KernelResources, assemble_kernel, has_assembler, kernel_image
from xjit.runtime.cuda.libraries.cublaslt import has_cublaslt
from xjit.runtime.cuda.profile import profile_kernels

__all__ = [
    "CapturedCall",
    "CudaDriver",
    "CudaExecutable",
    "DeviceArray",
    "KernelResources",
    "assemble_kernel",
    "cuda_device_count",
    "cuda_driver",
    "has_assembler",
    "has_cublaslt",
    "kernel_image",
    "profile_kernels",
    "to_sass",
]
