"""Maps of every opcode against the evaluator: an element that matters is in the maps; both directions agree."""

from __future__ import annotations

import numpy as np
import pytest

from tests.indexing.relations import Array, observed, random_input, relation
from tests.ops.shape_cases import VALID, module_text
from xjit.hlo import OPCODES
from xjit.hlo.attributes.opcodes import Trait
from xjit.hlo.diagnostics import HloVerifyError, Unsupported
from xjit.hlo.ir.classification import changes_element_type
from xjit.hlo.ir.instruction import HloInstruction
from xjit.indexing import compute_input_to_output_indexing, compute_output_to_input_indexing
from xjit.indexing.structure import COMPOSED, leaf_shape
from xjit.ops.evaluation.table import UNSUPPORTED
from xjit.ops.indexing.output_to_input import operand_maps
from xjit.text.parser import parse_hlo

NEEDS_DEVICES = {"all-gather", "all-gather-start", "reduce-scatter"}
NOT_EVALUATED = {*UNSUPPORTED, *NEEDS_DEVICES, "custom-call", "rng", "rng-get-and-update-state"}
# What is read always changes the result here, so that the maps must be exact.
EXACT = {
    "negate", "real", "copy", "add", "complex", "broadcast", "reshape", "transpose", "reverse", "slice", "concatenate",
    "pad", "reduce", "reduce-window", "dot", "convolution", "dynamic-slice", "gather", "scatter", "fusion",
    "bitcast", "scaled-dot", "fft",
}  # fmt: skip
SAMPLES = 10


def opcode_of(case: str) -> str:
    return case[: case.index("(")]


def values_of(root: HloInstruction, inputs: list[Array]):
    """Returns the value of a parameter."""

    def value(source: HloInstruction) -> Array:
        assert source.opcode == "parameter"
        return inputs[source.parameter_number]

    return value


CASES = [
    c for c in VALID
    if opcode_of(c[0]) not in NOT_EVALUATED and "token" not in c[1] and not OPCODES[opcode_of(c[0])].has(Trait.ASYNC)
]  # fmt: skip


@pytest.mark.parametrize("case,shape", CASES, ids=[c[0] for c in CASES])
def test_what_matters_is_in_the_maps(case: str, shape: str) -> None:
    module = parse_hlo(module_text(case, shape))
    root = module.entry_computation.root_instruction
    parameters = module.entry_computation.parameter_instructions
    if any(not p.shape.is_array for p in parameters):
        pytest.skip("tuple parameters")
    rng = np.random.default_rng(7)
    inputs = [random_input(p.shape, rng) for p in parameters]
    exact = opcode_of(case) in EXACT and "argmax" not in case and "convert" not in case
    exact &= not changes_element_type(root)  # not every byte of a number changes with it
    for p, parameter in enumerate(parameters):
        positions = [n for n, o in enumerate(root.operands) if o is parameter]
        size = int(np.prod(parameter.shape.dimensions))
        for flat in rng.permutation(size)[:SAMPLES]:
            place = np.unravel_index(flat, parameter.shape.dimensions)
            try:
                changes = observed(module, inputs, p, tuple(int(i) for i in place))
            except Unsupported:
                pytest.skip("not evaluated")
            except HloVerifyError as error:
                assert "mix the precisions" in error.message
                pytest.skip("mixed precision is refused")
            for output, changed in enumerate(changes):
                out = leaf_shape(root.shape, output).dimensions
                if changed.size != np.prod(out):
                    pytest.skip("the result's size is dynamic")
                indexing = compute_output_to_input_indexing(root, output)
                maps = [m for n in positions for m in indexing[n]]
                said = relation(maps, out, parameter.shape.dimensions, values_of(root, inputs))[:, flat]
                assert not (changed & ~said).any(), (p, place, output)
                kernel = root.opcode == "convolution" and positions == [1]  # multiplied by padding, too
                padding = root.opcode == "pad" and positions == [1]
                if (
                    exact
                    and not kernel
                    and not padding
                    and parameter.shape.element_type.is_float
                    and not any(m.is_unknown for m in maps)
                ):
                    assert not (said & ~changed).any(), (p, place, output)


@pytest.mark.parametrize("case,shape", VALID, ids=[c[0] for c in VALID])
def test_input_to_output_is_the_inverse_relation(case: str, shape: str) -> None:
    module = parse_hlo(module_text(case, shape))
    root = module.entry_computation.root_instruction
    rng = np.random.default_rng(7)
    arrays = {
        p: random_input(p.shape, rng) for p in module.entry_computation.parameter_instructions if p.shape.is_array
    }

    def value(source: HloInstruction) -> Array:
        return arrays[source]

    for number, operand in enumerate(root.operands):
        if not operand.shape.is_array:
            continue
        back = compute_input_to_output_indexing(root, number)
        for output in range(len(back)):
            out = leaf_shape(root.shape, output)
            if not out.is_array:
                assert back[output] == ()
                continue
            dims, sizes = out.dimensions, operand.shape.dimensions
            forth = relation(compute_output_to_input_indexing(root, output)[number], dims, sizes, value)
            assert np.array_equal(relation(back[output], sizes, dims, value).T, forth), (number, output)


def test_every_opcode_has_a_case() -> None:
    seen = {opcode_of(case) for case, _ in VALID}
    others = {"async-start", "async-update", "constant", "parameter", "domain"}
    done = {name for name in OPCODES if name.endswith("-done")}
    plain = {name for name, op in OPCODES.items() if op.has(Trait.ELEMENTWISE)}
    assert set(OPCODES) - seen <= others | done | plain


@pytest.mark.parametrize("case,shape", CASES, ids=[c[0] for c in CASES])
def test_simplification_keeps_the_relation(case: str, shape: str) -> None:
    module = parse_hlo(module_text(case, shape))
    root = module.entry_computation.root_instruction
    if not root.shape.is_array or root.opcode in COMPOSED:
        return
    rng = np.random.default_rng(7)
    arrays = {
        p: random_input(p.shape, rng) for p in module.entry_computation.parameter_instructions if p.shape.is_array
    }
    for number, maps in enumerate(operand_maps(root)):
        for m in maps:
            if m.is_unknown or not root.operand(number).shape.is_array:
                continue
            simple = m.simplify()
            assert simple.simplify() == simple
            dims, sizes = root.shape.dimensions, root.operand(number).shape.dimensions
            assert np.array_equal(*(relation([x], dims, sizes, lambda i: arrays[i]) for x in (m, simple)))
