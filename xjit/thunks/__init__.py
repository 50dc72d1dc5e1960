"""What a compiled module runs, as plain data: thunks over buffer slices. Emitters make them, consumers run them."""

from xjit.thunks.buffer_slice import NO_SLICE, BufferSlice, ShapedSlice, SliceKind
from xjit.thunks.gpu_kernel import GpuKernel, GpuProgram, LaunchDimensions
from xjit.thunks.host_call import CollectiveCall, DeviceIdCall, HostCall, RegisteredCall
from xjit.thunks.matmul_spec import MatmulSpec, StoredMatrices
from xjit.thunks.printing import program_to_string
from xjit.thunks.solver_spec import SolverSpec
from xjit.thunks.thunk import (
    CallThunk,
    CollectiveThunk,
    ConditionalThunk,
    ConvolutionThunk,
    CopyThunk,
    CustomCallThunk,
    FftThunk,
    GemmThunk,
    InlineThunk,
    KernelThunk,
    RuntimeCall,
    RuntimeCallThunk,
    SortThunk,
    Thunk,
    ThunkProgram,
    ThunkSequence,
    WhileThunk,
    called_sequences,
    step_symbol,
)

__all__ = [
    "NO_SLICE",
    "BufferSlice",
    "CallThunk",
    "CollectiveCall",
    "CollectiveThunk",
    "ConditionalThunk",
    "ConvolutionThunk",
    "CopyThunk",
    "CustomCallThunk",
    "DeviceIdCall",
    "FftThunk",
    "GemmThunk",
    "GpuKernel",
    "GpuProgram",
    "HostCall",
    "InlineThunk",
    "KernelThunk",
    "LaunchDimensions",
    "MatmulSpec",
    "RegisteredCall",
    "RuntimeCall",
    "RuntimeCallThunk",
    "ShapedSlice",
    "SliceKind",
    "SolverSpec",
    "SortThunk",
    "StoredMatrices",
    "Thunk",
    "ThunkProgram",
    "ThunkSequence",
    "WhileThunk",
    "called_sequences",
    "program_to_string",
    "step_symbol",
]
