"""Puts domain instructions on the edges where metadata change, so that no pass blends what is on both sides."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from xjit.hlo import HloInstruction, HloModule, Trait
from xjit.hlo import attributes as at
from xjit.hlo.annotations.metadata import HloSharding
from xjit.passes.domains.domain_map import is_domain
from xjit.passes.domains.domain_metadata import SHARDING, Domain, common_sharding, sharding_text
from xjit.passes.domains.hlo_domain_remover import remove_exit_domains
from xjit.passes.framework.base import HloModulePass, selected_computations

DomainCreator = Callable[[HloInstruction, HloInstruction, HloInstruction], HloInstruction | None]
"""(user, root, operand) -> a domain instruction for the edge, added to the computation, or None.

`operand` is what the user reads, `root` the same with all domains before it skipped.
"""


class ShardingDomainCreator:
    """Domains between instructions whose shardings differ; users of one value with one sharding share a domain.

    A tuple's sharding that is the same for all leaves counts, and is written, as that one: regions agree on it then.
    """

    def __init__(self) -> None:
        self._made: dict[tuple[HloInstruction, HloSharding | None], HloInstruction] = {}

    def __call__(self, user: HloInstruction, root: HloInstruction, operand: HloInstruction) -> HloInstruction | None:
        """Returns the domain for an edge; None if both sides have no sharding, or the same."""
        inside, outside = common_sharding(user.sharding), common_sharding(root.sharding)
        if inside == outside or _has_domain(operand, SHARDING) or _are_one_operation(root, user):
            return None
        made = self._made.get((operand, inside))
        if made is None or made.parent is None:
            domain = Domain(SHARDING, sharding_text(inside), sharding_text(outside))
            attributes = at.DomainAttributes(str(domain))
            assert operand.parent is not None
            made = HloInstruction.create("domain", operand.shape, [operand], attributes)
            operand.parent.add_instruction(made)
            made.metadata, made.place = operand.metadata, operand.place
            self._made[operand, inside] = made
        return made


@dataclass
class HloDomainIsolator(HloModulePass):
    """Asks a creator, made anew for every run by `creator_factory`, for a domain on each edge of the module.

    Edges into computations that are called are not crossed, and fusions are left. By default shardings are kept apart.
    """

    creator_factory: Callable[[], DomainCreator] = ShardingDomainCreator

    name = "hlo-domain-isolator"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """True if a domain was added."""
        creator, changed = self.creator_factory(), False
        for computation in selected_computations(module, execution_threads):
            for instruction in computation.make_instruction_post_order():
                if instruction.opcode != "domain":
                    changed |= _isolate(instruction, creator)
        return changed

    def update_domains(self, instruction: HloInstruction) -> bool:
        """Makes the domains behind one instruction anew, for metadata that changed; True if something changed."""
        changed = remove_exit_domains(instruction, SHARDING)
        creator = self.creator_factory()
        for user in instruction.users:
            if user.opcode != "domain":
                changed |= _isolate(user, creator, instruction)
        return changed


def _isolate(user: HloInstruction, creator: DomainCreator, only: HloInstruction | None = None) -> bool:
    changed = False
    for operand in user.unique_operands():
        if only is not None and operand is not only:
            continue
        root = operand
        while root.opcode == "domain":
            root = root.operand(0)
        domain = creator(user, root, operand)
        if domain is not None:
            operand.replace_use_with(user, domain)
            changed = True
    return changed


def _are_one_operation(start: HloInstruction, user: HloInstruction) -> bool:
    """Whether an instruction ends what another one starts, which nothing may come between."""
    return user.opcode.endswith("-done") and user.op.has(Trait.ASYNC) and start is user.operand(0)


def _has_domain(operand: HloInstruction, kind: str) -> bool:
    """Whether a domain of a kind is among those that an edge passes."""
    while operand.opcode == "domain":
        if is_domain(operand, kind):
            return True
        operand = operand.operand(0)
    return False
