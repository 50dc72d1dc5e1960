"""Checks that all domain instructions around a region say the same of it."""

from __future__ import annotations

from collections.abc import Collection

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, HloModule
from xjit.hlo.diagnostics import HloVerifyError
from xjit.passes.domains.domain_map import DomainComponent, domain_components
from xjit.passes.domains.domain_metadata import SHARDING, domain_of, sharding_of
from xjit.passes.framework.base import HloModulePass, selected_computations


@dataclass
class HloDomainVerifier(HloModulePass):
    """Raises HloVerifyError where domains of one kind contradict each other; changes nothing.

    Checks the kinds given, or every kind that there is.
    """

    kinds: tuple[str, ...] = ()

    name = "hlo-domain-verifier"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Always False."""
        for computation in selected_computations(module, execution_threads):
            found = dict.fromkeys(domain_of(i).kind for i in computation.instructions if i.opcode == "domain")
            for kind in self.kinds or found:
                for component in domain_components(computation, kind):
                    verify_component(component)
        return False


def verify_component(component: DomainComponent) -> str | None:
    """Returns what the domains around a region say of it; None if there are none. HloVerifyError if they differ."""
    said = [(d, domain_of(d).user_side) for d in component.enter_domains]
    said += [(d, domain_of(d).operand_side) for d in component.exit_domains]
    if not said:
        return None
    first, metadata = said[0]
    for domain, other in said[1:]:
        if not _matches(domain, metadata, other):
            message = f"{first.name} says {metadata} of a region, {domain.name} says {other}"
            raise HloVerifyError(message, domain.span)
    return metadata


def _matches(domain: HloInstruction, a: str, b: str) -> bool:
    if domain_of(domain).kind == SHARDING:
        return sharding_of(a) == sharding_of(b)
    return "".join(a.split()) == "".join(b.split())
