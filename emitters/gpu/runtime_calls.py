"""Which instructions of a GPU's program the runtime does, and what it must know of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from xjit.emitters.coverage import SEVERAL_DEVICES
from xjit.emitters.kernels.calls.registered_call import check_registered_view
from xjit.emitters.kernels.collectives.collective import collective_spec
from xjit.emitters.kernels.collectives.device_id import FIELDS as DEVICE_IDS
from xjit.emitters.kernels.linalg.lapack import check_layouts
from xjit.emitters.kernels.view import KernelView
from xjit.hlo.attributes import CustomCallAttributes
from xjit.hlo.custom_call_registry import custom_call_address
from xjit.hlo.diagnostics import Unsupported
from xjit.ops.custom_call_targets import opaque_of, operand_aliases
from xjit.ops.lapack_call import KINDS, LapackArray, bind_lapack_call
from xjit.ops.lapack_targets import LAPACK_TARGETS
from xjit.ops.library_calls.targets import MATMUL_TARGETS, call_target
from xjit.ops.replica_groups import has_several_devices
from xjit.passes.gpu.matmul_calls import matmul_spec
from xjit.thunks import CollectiveCall, DeviceIdCall, RegisteredCall, RuntimeCall, SolverSpec
from xjit.thunks.solver_spec import SOLVER_FUNCTIONS, SolverArray


def runtime_call(view: KernelView) -> RuntimeCall | None:
    """Returns the call that does a view; None if kernels do it. Errors: Unsupported names what a library cannot do."""
    target = call_target(view.hero)
    if target in MATMUL_TARGETS:
        return matmul_spec(view.hero, view.leaves)
    if target in LAPACK_TARGETS:
        return _solver_spec(view, target)
    if target and custom_call_address(target) is not None:
        return _registered_call(view)
    if view.hero is view.instruction and view.hero.opcode in SEVERAL_DEVICES:
        return _collective(view)
    return None


def _registered_call(view: KernelView) -> RegisteredCall:
    call = view.hero
    check_registered_view(view)
    attributes = call.attributes_as(CustomCallAttributes)
    return RegisteredCall(
        target=attributes.custom_call_target,
        api_version=attributes.api_version,
        opaque=opaque_of(call),
        operands=_operand_numbers(view),
        is_tuple=call.shape.is_tuple,
        aliases=tuple(operand_aliases(call).items()),
    )


def _collective(view: KernelView) -> CollectiveCall | DeviceIdCall | None:
    if not has_several_devices(view.hero):
        return None
    if view.hero.opcode in DEVICE_IDS:
        return DeviceIdCall(view.hero.opcode)
    return CollectiveCall(collective_spec(view.hero), _operand_numbers(view))


def _operand_numbers(view: KernelView) -> tuple[int, ...]:
    numbers = {leaf: number for number, leaf in enumerate(view.leaves)}
    return tuple(numbers[operand] for operand in view.hero.operands)


def _solver_spec(view: KernelView, target: str) -> SolverSpec:
    call = bind_lapack_call(view.hero, LAPACK_TARGETS[target])
    check_layouts(view, call)
    row = call.row
    if row.routine not in SOLVER_FUNCTIONS:
        message = f"custom-call '{view.hero.name}' to '{target}': cuSOLVER and cuBLAS have no {row.routine}"
        raise Unsupported(f"{message}; those of GPUs are {', '.join(SOLVER_FUNCTIONS)}", view.hero.span)
    count = math.prod(call.batch)

    def arrays(described: Sequence[LapackArray], numbers: Iterable[int]) -> tuple[SolverArray, ...]:
        pairs = zip(described, numbers, strict=True)
        return tuple(SolverArray(a.name, n, a.element_type(row.letter), call.dimensions(a)) for a, n in pairs)

    results = range(len(view.leaves), len(view.leaves) + len(row.results))
    return SolverSpec(
        target=target,
        routine=row.routine,
        letter=row.letter,
        element_type=KINDS[row.letter],
        count=count,
        sizes=tuple(call.sizes.items()),
        flags=tuple(call.flags.items()),
        operands=arrays(row.operands, _operand_numbers(view)),
        results=arrays(row.results, results),
        flops=int(count * row.flops(call.sizes)) * (4 if KINDS[row.letter].is_complex else 1),
    )
