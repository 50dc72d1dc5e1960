"""replica-id and partition-id: fields of the execution context."""

from __future__ import annotations

from xjit.emitters.kernels.kernel import Kernel, KernelContext
from xjit.emitters.kernels.view import KernelView
from xjit.llvm.builder import IRBuilder
from xjit.llvm.execution_context import EXECUTION_CONTEXT

FIELDS = {"replica-id": "replica_id", "partition-id": "partition_id"}


def emit_device_id(context: KernelContext, view: KernelView) -> list[Kernel]:
    """Emits the kernel: the result is the number of the replica, or of the partition, that runs it."""
    function, _, results = context.new_kernel(view)
    builder = IRBuilder(function.append_block("entry"))
    number = EXECUTION_CONTEXT.load(builder, function.args[0], FIELDS[view.hero.opcode])
    builder.store(number, results[0].pointer, 4)
    builder.ret_void()
    return [Kernel(function, 1, 1.0, "device-id", 4, 0)]
