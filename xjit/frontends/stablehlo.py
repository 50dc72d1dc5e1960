"""`from_stablehlo`: StableHLO as text, bytecode or portable artifact becomes an HloModule.

jaxlib converts it, the way JAX's own compilers do: versioned VHLO is upgraded, CHLO is expanded, Shardy's annotations
become HLO's. Locations become metadata: an instruction knows the line of Python it comes from.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

from xjit.frontends.formats import Format, format_of
from xjit.frontends.optional import import_optional
from xjit.frontends.source_places import place_in_python
from xjit.frontends.stablehlo_reader.contexts import kept_context, parse_program
from xjit.frontends.stablehlo_reader.refused import Source, check_program
from xjit.hlo.diagnostics import HloParseError, InvalidArgument, Span, Unsupported
from xjit.hlo.ir.module import HloModule
from xjit.hlo.types.shape import UNBOUNDED_SIZE, Shape
from xjit.text.proto import create_from_proto

_PLACE = re.compile(r"(?:^|\s)-?:(\d+):(\d+): error: (.*?)(?:\s*\n|$)")
_NO_MAIN = "requires module with `main` function"
_READS_NEWER = "Failed to parse using StableHLO"


def from_stablehlo(source: str | bytes, file: str = "<stablehlo>") -> HloModule:
    """Returns the module of a StableHLO program: MLIR text, MLIR bytecode, or a portable artifact (VHLO).

    The function `main` is the entry; without one, the only public function. Errors: HloParseError, with the line of a
    text; Unsupported for what HLO cannot express; FailedPrecondition without jaxlib.
    """
    if not isinstance(source, str | bytes | bytearray | memoryview):
        raise InvalidArgument(f"expected StableHLO as text or bytes, found {type(source).__name__}")
    data = source.encode() if isinstance(source, str) else bytes(source)
    if format_of(data) is Format.JAX_EXPORT:
        raise InvalidArgument("these are the bytes of jax.export: xjit.load reads them from a file")
    _check_program(data, file)
    try:
        module = convert_mlir(data)
    except (RuntimeError, ValueError) as error:
        if _NO_MAIN not in str(error):
            _refuse(str(error), data, file)
        module = _convert_with_main(data, file)
    if _is_polymorphic(module):
        module = _refine(data, file)
    return place_in_python(module)


def convert_mlir(program: str | bytes) -> HloModule:
    """Returns what jaxlib's converter makes of a module of MLIR.

    Errors: jaxlib's, RuntimeError and ValueError; FailedPrecondition without jaxlib.
    """
    computation = _jaxlib_mlir().mlir_module_to_xla_computation(program)
    return create_from_proto(computation.as_serialized_hlo_module_proto())


def _jaxlib_mlir() -> Any:
    return import_optional("jaxlib._jax", "jax", "to read StableHLO").mlir


def _check_program(data: bytes, file: str) -> None:
    """Refuses functions that end the process of the converter, which says what else is wrong with a program."""
    ir: Any = import_optional("jaxlib.mlir.ir", "jax", "to read StableHLO")
    with kept_context(len(data)) as kept:
        try:
            module = parse_program(kept, data)
        except (ir.MLIRError, ValueError, RuntimeError):
            return
        check_program(module, Source(file, "" if data[:2] == b"ML" else data.decode("utf-8", "replace")))


def _is_polymorphic(module: HloModule) -> bool:
    """Whether sizes inside depend on the parameters' sizes, which are known."""
    if any(_is_unbounded(p.shape) for p in module.entry_computation.parameter_instructions):
        return False
    return any(_is_unbounded(i.shape) for c in module.computations() for i in c.instructions)


def _is_unbounded(shape: Shape) -> bool:
    return any(UNBOUNDED_SIZE in leaf.dimensions for _, leaf in shape.leaves() if leaf.is_array)


def _refine(data: bytes, file: str) -> HloModule:
    """Gives the values of a polymorphic program, as of `jax.export`, the sizes that follow from its parameters."""
    try:
        return convert_mlir(_jaxlib_mlir().refine_polymorphic_shapes(data))
    except (RuntimeError, ValueError) as error:
        raise Unsupported(f"{file}: sizes that do not follow from the parameters: {str(error).strip()[:500]}") from None


def _convert_with_main(data: bytes, file: str) -> HloModule:
    """Converts a module whose only public function has another name than `main`."""
    ir: Any = import_optional("jaxlib.mlir.ir", "jax", "to read StableHLO")
    dialects: Any = import_optional("jax.interpreters.mlir", "jax", "to read StableHLO")
    with dialects.make_ir_context():
        module = ir.Module.parse(data)
        public = [op for op in module.body.operations if _is_public_function(op)]
        if len(public) != 1:
            names = ", ".join(str(op.attributes["sym_name"]) for op in public) or "none"
            raise InvalidArgument(f"{file}: expected a function `main`, or one public function; found {names}")
        public[0].attributes["sym_name"] = ir.StringAttr.get("main")
        text = module.operation.get_asm(enable_debug_info=True)
    try:
        return convert_mlir(text)
    except (RuntimeError, ValueError) as error:
        _refuse(str(error), data, file)


def _is_public_function(op: Any) -> bool:
    if op.operation.name != "func.func":
        return False
    attributes = op.operation.attributes
    return "sym_visibility" not in attributes or attributes["sym_visibility"].value == "public"


def _refuse(message: str, data: bytes, file: str) -> NoReturn:
    """Raises the error for what jaxlib says, with the place in a text."""
    match = _PLACE.search(message)
    note = (
        ("jaxlib may be older than what wrote this program",) if data[:2] == b"ML" and _READS_NEWER in message else ()
    )
    if match is None:
        raise Unsupported(f"{file}: StableHLO that HLO cannot express: {message.strip()[:500]}", None, *note)
    line, column, text = int(match[1]), int(match[2]), match[3]
    if _READS_NEWER not in message:
        raise Unsupported(f"{file}: StableHLO that HLO cannot express: {text}", _span(data, line, column, file))
    raise HloParseError(f"not valid StableHLO: {text}", _span(data, line, column, file), *note)


def _span(data: bytes, line: int, column: int, file: str) -> Span | None:
    if data[:2] == b"ML" or line < 1:
        return None
    lines = data.decode("utf-8", "replace").split("\n")
    return Span(line, column, 1, lines[line - 1] if line <= len(lines) else "", file)
