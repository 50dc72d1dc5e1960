"""Sample modules of every opcode and attribute: text -> module -> text, and the same through jaxlib and protos."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest

from tests.support.hlo_samples import sample_modules
from xjit.hlo import OPCODES, HloPrintOptions
from xjit.hlo.attributes.codecs import attribute_fields
from xjit.hlo.compare.equality import first_difference
from xjit.text import create_from_proto, parse_hlo, to_proto

SAMPLES = sample_modules()
TEXT_ONLY = {"layouts_only_in_text"}  # jaxlib cannot read these layouts back from its own protos


@pytest.fixture(scope="module")
def xla() -> Any:
    """jaxlib's HLO entry points."""
    client = pytest.importorskip("jax._src.lib").xla_client
    return client.hlo


def jax_text(xla: Any, module: Any) -> str:
    options = xla.HloPrintOptions()
    options.print_large_constants = True
    return module.to_string(options)


def test_samples_cover_every_opcode_and_attribute() -> None:
    opcodes: set[str] = set()
    attributes: set[tuple[str, str]] = set()
    for text in SAMPLES.values():
        for computation in parse_hlo(text).computations():
            for instruction in computation.instructions:
                opcodes.add(instruction.opcode)
                for field in attribute_fields(type(instruction.attributes)):
                    if field.required or getattr(instruction.attributes, field.name) != field.default:
                        attributes.add((type(instruction.attributes).__name__, field.name))
    assert set(OPCODES) <= opcodes
    declared = {(op.attributes.__name__, f.name) for op in OPCODES.values() for f in attribute_fields(op.attributes)}
    not_in_jaxlib = {  # what newer or older XLA versions write, or what has no place in a small module
        ("DotAttributes", "sparsity"),
        ("ConvolutionAttributes", "sparsity_config"),
        ("CollectivePermuteAttributes", "slice_sizes"),
        ("CallAttributes", "output_to_operand_aliasing"),
        ("AsyncAttributes", "async_group_id"),
        ("AsyncAttributes", "output_to_operand_aliasing"),
        ("CustomCallAttributes", "batch_group_count"),
        ("CustomCallAttributes", "operand_precision"),
        ("RaggedDotAttributes", "operand_precision"),
        ("RaggedDotAttributes", "lhs_batch_dims"),
        ("RaggedDotAttributes", "rhs_batch_dims"),
        ("IotaAttributes", "iota_dimension"),
    }
    assert declared - attributes <= not_in_jaxlib


@pytest.mark.parametrize("name", SAMPLES)
def test_print_then_parse_is_the_identity(name: str) -> None:
    module = parse_hlo(SAMPLES[name])
    text = str(module)
    again = parse_hlo(text)
    assert first_difference(module, again, metadata=True, config=True) is None
    assert str(again) == text


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize(
    "options",
    [
        HloPrintOptions(print_operand_shape=True, indent=2),
        HloPrintOptions(print_percent=False),
        HloPrintOptions.short_parsable(),
        HloPrintOptions.canonical(),
    ],
    ids=["shapes", "no-percent", "short", "canonical"],
)
def test_every_full_print_parses_to_an_equal_graph(name: str, options: HloPrintOptions) -> None:
    module = parse_hlo(SAMPLES[name])
    again = parse_hlo(module.to_string(options))
    assert first_difference(module, again, annotations=options.print_backend_config) is None


@pytest.mark.parametrize("name", SAMPLES)
def test_jaxlib_reads_our_text_as_it_reads_the_original(name: str, xla: Any) -> None:
    original = jax_text(xla, xla.hlo_module_from_text(SAMPLES[name]))
    ours = jax_text(xla, xla.hlo_module_from_text(str(parse_hlo(SAMPLES[name]))))
    assert sorted(ours.splitlines()) == sorted(original.splitlines())  # it lists computations as it meets them
    assert first_difference(parse_hlo(original), parse_hlo(SAMPLES[name]), metadata=True) is None


@pytest.mark.parametrize("name", SAMPLES)
def test_proto_round_trip(name: str) -> None:
    module = parse_hlo(SAMPLES[name])
    data = to_proto(module)
    again = create_from_proto(data)
    assert first_difference(module, again, metadata=True) is None
    assert again.stack_frame_index == module.stack_frame_index
    assert again.entry_computation_layout == module.entry_computation_layout
    assert again.frontend_attributes == module.frontend_attributes
    assert to_proto(again) == data


@pytest.mark.parametrize("name", sorted(set(SAMPLES) - TEXT_ONLY))
def test_we_read_the_protos_of_jaxlib(name: str, xla: Any) -> None:
    proto = xla.hlo_module_from_text(SAMPLES[name]).as_serialized_hlo_module_proto()
    module = create_from_proto(proto)
    assert first_difference(module, parse_hlo(SAMPLES[name]), metadata=True) is None


READER = """
import sys
from jax._src.lib import xla_client
from tests.support.hlo_samples import sample_modules
from xjit.text import parse_hlo, to_proto
options = xla_client.hlo.HloPrintOptions()
options.print_large_constants = True
for name, text in sample_modules().items():
    if name in sys.argv[1:]:
        continue
    data = to_proto(parse_hlo(text))
    print("=====", name, flush=True)
    print(xla_client.hlo.HloModule.from_serialized_hlo_module_proto(data).to_string(options), flush=True)
"""


def test_jaxlib_reads_our_protos(xla: Any) -> None:
    """In a process of its own: jaxlib aborts on protos that it does not like."""
    command = [sys.executable, "-c", READER, *TEXT_ONLY]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    printed = dict(part.split("\n", 1) for part in re.split(r"(?m)^===== ", done.stdout)[1:])
    assert set(printed) == set(SAMPLES) - TEXT_ONLY
    for name, text in printed.items():
        assert first_difference(parse_hlo(text), parse_hlo(SAMPLES[name]), metadata=True) is None, name
