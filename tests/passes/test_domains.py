"""Domains on random graphs: each edge between shardings gets one, the verifier is content, and removal leaves none."""

from __future__ import annotations

import random

import pytest

from xjit.ops.verifier import verify_module
from xjit.passes.domains.hlo_domain_isolator import HloDomainIsolator
from xjit.passes.domains.hlo_domain_remover import HloDomainRemover
from xjit.passes.domains.hlo_domain_verifier import HloDomainVerifier
from xjit.text.parser import parse_hlo

SHARDINGS = ("{maximal device=0}", "{maximal device=1}", "{replicated}", "")


def _random_graph(seed: int) -> str:
    """Sums, tuples of two and their elements, each with a sharding or none; tuples often with one for both."""
    rng = random.Random(seed)
    arrays, tuples, lines = ["v0", "v1"], list[str](), list[str]()
    for number in range(2, rng.randint(5, 12)):
        name, sharding = f"v{number}", rng.choice(SHARDINGS)
        kind = rng.choice(["add", "tuple", "element"] if tuples else ["add", "tuple"])
        a, b = rng.choice(arrays), rng.choice(arrays)
        if kind == "tuple":
            other = rng.choice([sharding, sharding, *SHARDINGS[:3]])
            given = f", sharding={{{sharding}, {other}}}" if sharding else ""
            lines.append(f"{name} = (f32[4], f32[4]) tuple({a}, {b}){given}")
            tuples.append(name)
            continue
        what = f"add({a}, {b})" if kind == "add" else f"get-tuple-element({rng.choice(tuples)}), index=1"
        lines.append(f"{name} = f32[4] {what}" + (f", sharding={sharding}" if sharding else ""))
        arrays.append(name)
    first = [f"v{i} = f32[4] parameter({i}), sharding={SHARDINGS[i]}" for i in range(2)]
    body = "\n".join([*first, *lines[:-1], f"ROOT {lines[-1]}"])
    return f"HloModule m, num_partitions=2\nENTRY e {{\n{body}\n}}"


@pytest.mark.parametrize("seed", range(40))
def test_isolated_verified_removed(seed: int) -> None:
    module = parse_hlo(_random_graph(seed))
    changed = HloDomainIsolator().run(module)
    verify_module(module)
    assert not HloDomainIsolator().run(module)
    assert not HloDomainVerifier().run(module)
    assert HloDomainRemover().run(module) == changed
    verify_module(module)
    assert all(i.opcode != "domain" for i in module.entry_computation.instructions)
