"""Removes domain instructions, after what they said has been given to the instructions between them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from xjit.hlo import HloComputation, HloInstruction, HloModule
from xjit.hlo.annotations.metadata import HloSharding
from xjit.hlo.edit.replacing import inherit_annotations
from xjit.passes.domains.domain_map import DomainComponent, domain_components, is_domain
from xjit.passes.domains.domain_metadata import SHARDING, domain_of, sharding_of
from xjit.passes.domains.domain_normalizer import normalize_sharding
from xjit.passes.domains.hlo_domain_verifier import verify_component
from xjit.passes.framework.base import HloModulePass, selected_computations

Normalizer = Callable[[DomainComponent, str], None]
"""(region, its metadata as text) -> None: gives the instructions of the region what its domains say."""


@dataclass
class HloDomainRemover(HloModulePass):
    """Removes the domains of a kind; `normalizer` gives every region between them its metadata first.

    HloVerifyError if the domains around a region don't agree. Where a domain reads a domain, a tuple of one element
    keeps the metadata between.
    """

    kind: str = SHARDING
    normalizer: Normalizer = normalize_sharding

    name = "hlo-domain-remover"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """True if there was a domain of the kind."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            if any(is_domain(i, self.kind) for i in computation.instructions):
                self._remove(computation)
                changed = True
        return changed

    def _remove(self, computation: HloComputation) -> None:
        _keep_hops(computation, self.kind)
        for component in domain_components(computation, self.kind):
            metadata = verify_component(component)
            if metadata is not None:
                self.normalizer(component, metadata)
        for domain in computation.make_instruction_post_order():
            if is_domain(domain, self.kind):
                _bypass(domain)


def remove_exit_domains(instruction: HloInstruction, kind: str) -> bool:
    """Removes the domains of a kind that read an instruction; True if there were any."""
    found = [user for user in instruction.users if is_domain(user, kind)]
    for domain in found:
        _bypass(domain)
    return bool(found)


def _bypass(domain: HloInstruction) -> None:
    assert domain.parent is not None
    domain.parent.replace_instruction(domain, domain.operand(0))


def _keep_hops(computation: HloComputation, kind: str) -> None:
    """Puts a tuple of one element between two domains: without it their common side would be lost."""
    for domain in computation.make_instruction_post_order():
        if kind != SHARDING or not is_domain(domain, kind) or not is_domain(domain.operand(0), kind):
            continue
        source = domain.operand(0)
        sharding = sharding_of(domain_of(source).user_side)
        if sharding is None:
            continue
        wrapped = computation.add_instruction(HloInstruction.create_tuple([source]))
        element = computation.add_instruction(HloInstruction.create_get_tuple_element(wrapped, 0))
        for made in (wrapped, element):
            inherit_annotations(made, domain)
        element.sharding = sharding
        wrapped.sharding = sharding if sharding.elements else HloSharding(elements=(sharding,))
        domain.replace_operand_with_different_shape(0, element)
