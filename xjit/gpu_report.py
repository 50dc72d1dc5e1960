"""What each kernel of a GPU's module takes of the device, as far as that is known without one.

Memory traffic, coalescing and bank conflicts come from schedules and indexing maps; registers, shared memory and spills
from the assembler, where nvJitLink is installed; occupancy from these and the table of architectures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from xjit.dataclass import dataclass
from xjit.emitters.access.access_analysis import MapCache
from xjit.emitters.gpu.gpu_module import EmittedGpuModule
from xjit.emitters.gpu.traffic import KernelTraffic, kernel_traffic
from xjit.llvm.target import Target
from xjit.runtime.cuda import KernelResources, assemble_kernel, has_assembler
from xjit.runtime.machine_code.nvptx import to_ptx
from xjit.thunks.gpu_kernel import LaunchDimensions

BY_HAND = "written by hand: traffic is not followed"
NOT_ASSEMBLED = "registers, shared memory and occupancy: not known, as nvidia-nvjitlink is not installed"


@dataclass(frozen=True, slots=True)
class KernelReport:
    """One kernel: how often the program calls it, its launch, and what it takes.

    `traffic` is None where the kernel has no schedule; `counted` are then the bytes that its emitter says it moves.
    `resources` and `occupancy` are None where nothing can assemble it.
    Occupancy is the part of an SM's threads that can be resident.
    """

    name: str
    kind: str
    instruction: str
    calls: int
    launch: LaunchDimensions
    traffic: KernelTraffic | None
    counted: int
    resources: KernelResources | None
    occupancy: float | None

    @property
    def remarks(self) -> tuple[str, ...]:
        """Reasons for traffic above the minimum, and what else is to be known."""
        spills = self.resources is not None and self.resources.spill_store_bytes
        spilled = (f"spills {spills} bytes of registers",) if spills else ()
        by_hand = f"{BY_HAND}, its emitter counts {self.counted / 1024:.1f} KiB"
        return (*((by_hand,) if self.traffic is None else self.traffic.reasons), *spilled)


def kernel_reports(emitted: EmittedGpuModule, target: Target, cache_dir: str | None = None) -> tuple[KernelReport, ...]:
    """Returns the report of every kernel, in the order of the first calls."""
    calls = Counter(thunk.kernel for thunk in emitted.program.thunks.kernel_thunks)
    maps = MapCache()
    found: list[KernelReport] = []
    for kernel in emitted.kernels:
        name = kernel.function.name
        gpu_kernel = emitted.program.kernels[name]
        traffic = None
        if kernel.schedule is not None:
            traffic = kernel_traffic(kernel.schedule, emitted.views[name], maps)
        resources = occupancy = None
        if has_assembler():
            ptx = to_ptx(gpu_kernel.ir_text, target, cache_dir)
            resources = assemble_kernel(ptx, target.cpu, cache_dir).resources
            occupancy = _occupancy(target, gpu_kernel.launch, resources)
        launch, instruction = gpu_kernel.launch, gpu_kernel.instruction
        counted = kernel.bytes_accessed
        found.append(
            KernelReport(name, kernel.kind, instruction, calls[name], launch, traffic, counted, resources, occupancy)
        )
    return tuple(found)


def _occupancy(target: Target, launch: LaunchDimensions, resources: KernelResources) -> float:
    assert target.gpu is not None
    shared = resources.shared_bytes + launch.dynamic_shared_bytes
    return target.gpu.occupancy(launch.threads_per_block, shared, resources.registers)


def report_text(reports: Sequence[KernelReport]) -> str:
    """Returns a table of the kernels, with remarks below each, and the totals of all calls."""
    lines = [
        f"{'kernel':40} {'calls':>5} {'blocks x threads':>18} {'regs':>4} {'shared':>7} {'spills':>6} {'occup.':>6} "
        f"{'coalesced':>9} {'conflicts':>9} {'needed KiB':>11} {'moved KiB':>11} {'share':>5}"
    ]
    for report in reports:
        lines.append(f"{report.name:40} {report.calls:5} {_launch(report.launch):>18} {_sm(report)} {_memory(report)}")
        lines += [f"    {remark}" for remark in report.remarks]
    if any(report.resources is None for report in reports):
        lines.append(NOT_ASSEMBLED)
    return "\n".join([*lines, _totals(reports)]) + "\n"


def _launch(launch: LaunchDimensions) -> str:
    return f"{launch.num_blocks} x {launch.threads_per_block}"


def _sm(report: KernelReport) -> str:
    resources, occupancy = report.resources, report.occupancy
    if resources is None or occupancy is None:
        return f"{'?':>4} {'?':>7} {'?':>6} {'?':>6}"
    shared = resources.shared_bytes + report.launch.dynamic_shared_bytes
    return f"{resources.registers:4} {shared:7} {resources.spill_store_bytes:6} {occupancy:6.2f}"


def _memory(report: KernelReport) -> str:
    traffic = report.traffic
    if traffic is None:
        return f"{'-':>9} {'-':>9} {'-':>11} {'-':>11} {'-':>5}"
    coalesced = f"{traffic.coalesced}/{traffic.accesses}"
    moved = f"{traffic.needed / 1024:11.1f} {traffic.moved / 1024:11.1f} {traffic.efficiency:5.2f}"
    return f"{coalesced:>9} {traffic.bank_conflicts:9} {moved}"


def _totals(reports: Sequence[KernelReport]) -> str:
    known = [(r.calls, r.traffic) for r in reports if r.traffic is not None]
    needed = sum(calls * traffic.needed for calls, traffic in known)
    moved = sum(calls * traffic.moved for calls, traffic in known)
    accesses = sum(traffic.accesses for _, traffic in known)
    coalesced = sum(traffic.coalesced for _, traffic in known)
    share = needed / moved if moved else 1.0
    return (
        f"total: {sum(r.calls for r in reports)} calls of {len(reports)} kernels, {coalesced} of {accesses} accesses "
        f"coalesced, {needed / 1024:.1f} KiB needed, {moved / 1024:.1f} KiB moved, share {share:.2f}"
    )
