"""`read_artifact`: a portable artifact of StableHLO as a module, without jaxlib's converter.

The converter makes a context of MLIR, registers dialects and runs passes for every program, which takes most of the
time that a small one is compiled in. What is read here is read in one context that is kept, and only programs for which
the converter's passes would do nothing but what is done here, too: broadcasts of constants become constants, constants
move to the right, operations that change nothing are left out. Everything else ends the reading.
"""

from __future__ import annotations

from typing import Any, Final

from xjit.collector_pause import collector_pause
from xjit.frontends.stablehlo_reader.contexts import MAX_BYTES, KeptContext, kept_context, parse_program
from xjit.frontends.stablehlo_reader.declined import Declined
from xjit.frontends.stablehlo_reader.places import Places
from xjit.frontends.stablehlo_reader.refused import Source, check_program
from xjit.frontends.stablehlo_reader.regions import read_function
from xjit.frontends.stablehlo_reader.scope import Reading
from xjit.hlo.annotations.alias_config import Alias, BufferDonor
from xjit.hlo.annotations.metadata import HloSharding
from xjit.hlo.ir.module import ComputationLayout, HloModule, HloModuleConfig
from xjit.hlo.ir.name_uniquer import NameUniquer

_MODULE_ATTRIBUTES: Final = frozenset({"sym_name", "mhlo.num_partitions", "mhlo.num_replicas"})
_ARGUMENT_ATTRIBUTES: Final = frozenset({"sdy.sharding", "jax.buffer_donor", "tf.aliasing_output"})
_RESULT_ATTRIBUTES: Final = frozenset({"jax.result_info"})
_MESHES: Final = "xla.sdy.meshes"


@collector_pause
def read_artifact(code: bytes) -> HloModule | None:
    """Returns the module of a portable artifact; None for what the converter is to read.

    Errors: Unsupported for functions that end the converter.
    """
    if len(code) > MAX_BYTES:
        return None
    from jaxlib.mlir import ir

    with kept_context(len(code)) as kept:
        try:
            parsed = parse_program(kept, code)
        except (ir.MLIRError, ValueError, RuntimeError):
            return None
        try:
            return _read(kept, parsed)
        except Declined:
            check_program(parsed, Source("<stablehlo>"))
            return None


def _read(kept: KeptContext, parsed: Any) -> HloModule:
    given: Any = parsed.operation.attributes
    if not _MODULE_ATTRIBUTES.issuperset(given) or "sym_name" not in given:
        raise Declined(f"a module with {list(given)}")
    if any(given[name].value != 1 for name in given if name != "sym_name"):
        raise Declined("a module of several devices")
    reading = Reading(kept.types, Places())
    meshes: list[str] = []
    operations: Any = parsed.body.operations
    for op in operations:
        if op.operation.name == "func.func":
            reading.functions[op.attributes["sym_name"].value] = op
        elif op.operation.name == "sdy.mesh" and "".join(str(op.attributes["mesh"]).split()) == "#sdy.mesh<[]>":
            meshes.append(op.attributes["sym_name"].value)
        else:
            raise Declined(op.operation.name)
    if "main" not in reading.functions:
        raise Declined("no main")
    return _module(reading, given["sym_name"].value, meshes)


def _module(reading: Reading, name: str, meshes: list[str]) -> HloModule:
    main = reading.functions["main"]
    computation = read_function(reading, "main")
    module = HloModule(NameUniquer.sanitize(name), HloModuleConfig())
    for other in reading.computations[:-1]:
        module.add_embedded_computation(other)
    module.add_entry_computation(computation)
    parameters = computation.parameter_instructions
    root = computation.root_instruction.shape
    module.config.entry_computation_layout = ComputationLayout([p.shape for p in parameters], root)
    arguments = main.attributes.get("arg_attrs", ())

    aliases: list[Alias] = []
    donors: list[BufferDonor] = []
    for i, attributes in enumerate(arguments):
        for row in attributes:
            if row.name == "sdy.sharding":
                _annotate(parameters[i], row.attr, meshes)
            elif row.name == "jax.buffer_donor":
                donors.append(BufferDonor(i, ()))
            elif row.name == "tf.aliasing_output":
                index = (row.attr.value,) if root.is_tuple else ()
                aliases.append(Alias(index, i, (), "may-alias"))
            else:
                raise Declined(f"an argument with {row.name}")
    for attributes in main.attributes.get("res_attrs", ()):
        if not _RESULT_ATTRIBUTES.issuperset(row.name for row in attributes):
            raise Declined("a result with attributes")
    module.config.input_output_alias, module.config.buffer_donors = tuple(sorted(aliases, key=_output)), tuple(donors)
    if meshes:
        rows = ", ".join(f"{mesh} = #sdy.mesh<[]>" for mesh in meshes)
        module.frontend_attributes = {_MESHES: f"{{{rows}}}"}
    module.stack_frame_index = reading.places.index
    return module


def _output(alias: Alias) -> tuple[int, ...]:
    return alias.output_index


def _annotate(parameter: Any, sharding: Any, meshes: list[str]) -> None:
    if not meshes:
        raise Declined("a sharding without a mesh")
    parameter.sharding = HloSharding("replicated")
    parameter.frontend_attributes = {"xla.sdy.sharding": str(sharding)}
