"""Planted faults: a pass that forgets a condition, or gets a number wrong, fails one of its cases. `-m slow` runs all.

A fault is an attribute of a module, what stands in its place, and the file with the cases that find it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.passes.test_cases import check
from tests.support.pass_cases import CASES, read_cases
from xjit.hlo import HloError

Fault = tuple[str, str, Any, str]


def _yes(*_: Any, **__: Any) -> bool:
    return True


def _no(*_: Any, **__: Any) -> bool:
    return False


def _give(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


def _same_opcode(a: Any, b: Any) -> bool:
    return a.opcode == b.opcode


_SIMPLIFY, _GPU = "xjit.passes.simplify", "xjit.passes.gpu"
_MOF, _HORIZONTAL = f"{_GPU}.gpu_multi_output_fusion", f"{_GPU}.horizontal_loop_fusion"

FAULTS: Mapping[str, Fault] = {
    "empty arrays in spite of side effects": (
        f"{_SIMPLIFY}.zero_sized_hlo_elimination", "_is_replaced",
        lambda i: i.shape.is_array and not i.shape.num_elements and i.opcode not in ("constant", "parameter"),
        "simplify/zero_sized",
    ),
    "transposes that move nothing": (
        f"{_SIMPLIFY}.transpose_folding", "_order",
        lambda o: o.attributes.dimensions if o.opcode == "transpose" else None, "simplify/transpose_folding",
    ),
    "transposes into any dot": (
        f"{_SIMPLIFY}.transpose_folding", "TransposeFolding._may_fold",
        lambda _, dot, n: dot.operand(n).opcode == "transpose", "simplify/transpose_folding",
    ),
    "slices below other operations": (
        f"{_SIMPLIFY}.slice_sinker", "_does_the_same", _same_opcode, "simplify/slice_sinker",
    ),
    "slices of a few elements": (f"{_SIMPLIFY}.slice_sinker", "_is_worth_it", _yes, "simplify/slice_sinker"),
    "slices in spite of control edges": (
        f"{_SIMPLIFY}.slice_sinker", "has_control_dependencies", _no, "simplify/slice_sinker",
    ),
    "sort operands that are compared": (
        f"{_SIMPLIFY}.sort_simplifier", "_kept_operands", lambda sort: [u.attributes.index for u in sort.users],
        "simplify/sort_simplifier",
    ),
    "top k of any order": (
        f"{_SIMPLIFY}.topk_rewriter", "descending_order", _give("partial"), "simplify/topk",
    ),
    "top k with any second operand": (f"{_SIMPLIFY}.topk_rewriter", "_counts", _yes, "simplify/topk"),
    "top k from anywhere": (
        f"{_SIMPLIFY}.topk_rewriter", "_length",
        lambda cut, d: cut.shape.dimensions[d] if cut.opcode == "slice" else None, "simplify/topk",
    ),
    "comparators of any operand": (
        f"{_SIMPLIFY}.descending_order", "_is_bits_of", _yes, "simplify/topk",
    ),
    "rearrangements of other dimensions": (
        f"{_SIMPLIFY}.reshape_mover", "_are_equivalent", _same_opcode, "simplify/reshape_mover",
    ),
    "rearrangements that stay for others": (
        f"{_SIMPLIFY}.reshape_mover", "ReshapeMover._without_staying_rearranges",
        lambda _, candidates: list(candidates), "simplify/reshape_mover",
    ),
    "rearrangements beside anything": (
        f"{_SIMPLIFY}.reshape_mover", "ReshapeMover._is_easily_rearranged",
        lambda _, value, __: value.opcode not in ("reshape", "transpose"), "simplify/reshape_mover",
    ),
    "permutations that are not inverted": (
        f"{_SIMPLIFY}.reshape_mover", "_inverse", list, "simplify/reshape_mover",
    ),
    "wide types for bits": (
        "xjit.passes.float_types.hlo_element_type_converter", "_LEFT", frozenset({"parameter", "constant", "tuple"}),
        "float_types/element_type_converter",
    ),
    "groups at the wrong place": (
        "xjit.passes.expand.convolution_group_converter", "_labels",
        lambda dims, at: (dims[0], dims[1], (*dims[2:], len(dims))), "expand/convolution_group_converter",
    ),
    "tasks of anything": ("xjit.passes.cpu.parallel_task_assigner", "_may_be_parallel", _yes, "cpu/parallel_task_assigner"),
    "as many tasks as wanted": (
        "xjit.passes.cpu.parallel_task_assigner", "BYTES_PER_TASK", 1, "cpu/parallel_task_assigner",
    ),
    "horizontal fusion of what others read": (_HORIZONTAL, "_is_read_only_by", _yes, "gpu/horizontal_loop_fusion"),
    "horizontal fusion of all kinds": (_HORIZONTAL, "_kind", _give(("f32", 1, 1)), "gpu/horizontal_loop_fusion"),
    "horizontal fusion of control edges": (
        _HORIZONTAL, "has_control_dependencies", _no, "gpu/horizontal_loop_fusion",
    ),
    "siblings of any shape": (_MOF, "_have_one_loop", _yes, "gpu/gpu_multi_output_fusion"),
    "siblings that read different parts": (_MOF, "_read_different_parts", _no, "gpu/gpu_multi_output_fusion"),
    "producers that are read again": (_MOF, "reads_once", _yes, "gpu/gpu_multi_output_fusion"),
    "kernels of any size": (_MOF, "_fit_together", _yes, "gpu/gpu_multi_output_fusion"),
    "siblings that need each other": (
        _MOF, "HloReachabilityMap.is_connected", _no, "gpu/gpu_multi_output_fusion",
    ),
    "copies that bitcasts read": (
        f"{_SIMPLIFY}.algebraic_simplifier", "AlgebraicSimplifier._may_replace", _yes, "algebra/identities",
    ),
    "memory order that nobody checks": (
        f"{_SIMPLIFY}.algebra.memory_order", "_stays", _yes, "algebra/layouts",
    ),
}  # fmt: skip


def _replace(monkeypatch: pytest.MonkeyPatch, fault: Fault) -> None:
    module, _, attribute = (*fault[:1], "", fault[1])
    owner: Any = importlib.import_module(module)
    *path, name = attribute.split(".")
    for part in path:
        owner = getattr(owner, part)
    assert hasattr(owner, name), f"{module} has no {attribute}"
    monkeypatch.setattr(owner, name, fault[2])


def test_faults_name_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    for fault in FAULTS.values():
        _replace(monkeypatch, fault)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = FAULTS[name]
    cases = read_cases(CASES / f"{fault[3]}.hlo")
    _replace(monkeypatch, fault)
    found = []
    for case in sorted(cases, key=lambda c: c.after is not None):  # those that must not change are cheap
        try:
            check(case)
        except (AssertionError, HloError, KeyError, IndexError, ValueError) as error:
            found.append(error)
            break
    assert found, f"no case of {fault[3]} finds it"


def test_a_fault_that_is_none_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cases hold without a fault, and a wrong one is found: one of each here, all of them with `-m slow`."""
    sound = next(c for c in read_cases(CASES / "simplify" / "sort_simplifier.hlo") if c.after is None)
    check(sound)
    _replace(monkeypatch, FAULTS["sort operands that are compared"])
    with pytest.raises(AssertionError):
        for case in read_cases(CASES / "simplify" / "sort_simplifier.hlo"):
            check(case)
