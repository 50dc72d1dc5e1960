"""The regions that domain instructions of a kind cut a computation into: its domain map.

A component is what is connected by operand edges that touch no domain instruction. It sees the user's side of the
domains that it reads, and the operand's side of those that read it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xjit.hlo import HloComputation, HloInstruction
from xjit.passes.domains.domain_metadata import domain_of


@dataclass(eq=False)
class DomainComponent:
    """One region: its instructions, operands first, and the domain instructions at its boundary."""

    instructions: list[HloInstruction] = field(default_factory=list[HloInstruction])
    enter_domains: list[HloInstruction] = field(default_factory=list[HloInstruction])
    exit_domains: list[HloInstruction] = field(default_factory=list[HloInstruction])


def is_domain(instruction: HloInstruction, kind: str = "") -> bool:
    """Whether an instruction is a domain of a kind; of any kind if none is given."""
    return instruction.opcode == "domain" and (not kind or domain_of(instruction).kind == kind)


def domain_components(computation: HloComputation, kind: str = "") -> list[DomainComponent]:
    """Returns the regions that domains of a kind cut a computation into, in the order of their first instructions."""
    numbers = component_numbers(computation, kind)
    components: dict[int, DomainComponent] = {}
    order = computation.make_instruction_post_order()
    for instruction in order:
        if instruction in numbers:
            components.setdefault(numbers[instruction], DomainComponent()).instructions.append(instruction)
    for domain in order:
        if domain in numbers:
            continue
        source = domain.operand(0)
        if source in numbers:
            components[numbers[source]].exit_domains.append(domain)
        for number in dict.fromkeys(numbers[user] for user in domain.users if user in numbers):
            components[number].enter_domains.append(domain)
    return list(components.values())


def domain_metadata(computation: HloComputation) -> dict[HloInstruction, str]:
    """Returns what the domains around its component say of each instruction but domains; "" where there are none."""
    found: dict[HloInstruction, str] = {}
    for component in domain_components(computation):
        sides = [(domain_of(d).kind, domain_of(d).user_side) for d in component.enter_domains]
        sides += [(domain_of(d).kind, domain_of(d).operand_side) for d in component.exit_domains]
        said = "".join("".join(sides[0]).split()) if sides else ""
        found.update(dict.fromkeys(component.instructions, said))
    return found


def component_numbers(computation: HloComputation, kind: str = "") -> dict[HloInstruction, int]:
    """Returns the number of its component for every instruction but the domains of the kind."""
    numbers: dict[HloInstruction, int] = {}
    count = 0
    for start in computation.instructions:
        if start in numbers or is_domain(start, kind):
            continue
        numbers[start] = count
        waiting = [start]
        while waiting:
            instruction = waiting.pop()
            for neighbour in (*instruction.operands, *instruction.users):
                if neighbour not in numbers and not is_domain(neighbour, kind):
                    numbers[neighbour] = count
                    waiting.append(neighbour)
        count += 1
    return numbers
