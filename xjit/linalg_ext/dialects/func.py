"""The func dialect, and the module."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from xjit.hlo.diagnostics import Span
from xjit.linalg_ext.dialects.assembly import op
from xjit.linalg_ext.dialects.definition import CustomAssembly, make_rows
from xjit.linalg_ext.ir.attributes import ArrayAttr, Attribute, DictAttr, StringAttr, SymbolRefAttr, TypeAttr
from xjit.linalg_ext.ir.errors import LinalgVerifyError
from xjit.linalg_ext.ir.operation import Block, Operation, Region
from xjit.linalg_ext.ir.types import FunctionType, Type

if TYPE_CHECKING:
    from xjit.linalg_ext.text.parser import Parser, ParseState
    from xjit.linalg_ext.text.printer import Printer

__all__ = ["FUNC_ROWS", "function_type"]

_HIDDEN = frozenset({"sym_name", "function_type", "sym_visibility", "arg_attrs", "res_attrs"})


def function_type(func: Operation) -> FunctionType:
    """Returns the type of a `func.func`."""
    attribute = func.attributes.get("function_type")
    if not isinstance(attribute, TypeAttr) or not isinstance(attribute.type, FunctionType):
        raise LinalgVerifyError(f"'{func.name}' op needs a function type, found {attribute}", func.location)
    return attribute.type


def parse_module_op(p: Parser, state: ParseState) -> None:
    if p.token.kind == "symbol":
        state.attributes["sym_name"] = StringAttr(p.symbol_name())
    if p.accept("attributes"):
        state.attributes.update(p.attribute_dictionary())
    state.regions = [p.region()]
    if not state.regions[0].blocks:
        state.regions[0].add_block(Block())


def print_module_op(p: Printer, op: Operation) -> None:
    name = op.attributes.get("sym_name")
    if isinstance(name, StringAttr):
        p.write(f" {SymbolRefAttr(name.value)}")
    text = p.dictionary(op, frozenset({"sym_name"}))
    p.write(f" attributes {text} " if text else " ")
    p.region(op.regions[0])


def _signature(p: Parser) -> tuple[list[tuple[str, Type, Span]], list[Type], list[dict[str, Attribute]]]:
    """Parses `(%a: f32 {x}, %b: f32)` or `(f32, f32)`: named arguments, types, attributes of arguments."""
    named: list[tuple[str, Type, Span]] = []
    types: list[Type] = []
    dictionaries: list[dict[str, Attribute]] = []

    def argument() -> None:
        if p.token.kind == "value":
            named.append(p.typed_argument())
            types.append(named[-1][1])
        else:
            types.append(p.type())
        dictionaries.append(p.optional_dictionary())
        if p.at("loc"):
            p.attribute()

    p.comma_list("(", ")", argument)
    if named and len(named) != len(types):
        p.fail("either all arguments have names, or none")
    return named, types, dictionaries


def _results(p: Parser) -> tuple[list[Type], list[dict[str, Attribute]]]:
    if not p.accept("->"):
        return [], []
    if not p.at("("):
        return [p.type()], [{}]
    types: list[Type] = []
    dictionaries: list[dict[str, Attribute]] = []

    def result() -> None:
        types.append(p.type())
        dictionaries.append(p.optional_dictionary())

    p.comma_list("(", ")", result)
    return types, dictionaries


def _dictionaries(found: list[dict[str, Attribute]]) -> ArrayAttr:
    return ArrayAttr(tuple(DictAttr(tuple(sorted(d.items()))) for d in found))


def parse_function(p: Parser, state: ParseState) -> None:
    for word in ("public", "private", "nested"):
        if p.accept(word):
            state.attributes["sym_visibility"] = StringAttr(word)
    state.attributes["sym_name"] = StringAttr(p.symbol_name())
    named, types, argument_attributes = _signature(p)
    results, result_attributes = _results(p)
    state.attributes["function_type"] = TypeAttr(FunctionType(tuple(types), tuple(results)))
    if any(argument_attributes):
        state.attributes["arg_attrs"] = _dictionaries(argument_attributes)
    if any(result_attributes):
        state.attributes["res_attrs"] = _dictionaries(result_attributes)
    if p.accept("attributes"):
        state.attributes.update(p.attribute_dictionary())
    if not p.at("{"):
        state.regions = [Region()]
        return
    if types and not named:
        p.fail("a function with a body names its arguments")
    state.regions = [p.region(named, isolated=True)]


def print_function(p: Printer, op: Operation) -> None:
    visibility = op.attributes.get("sym_visibility")
    if isinstance(visibility, StringAttr):
        p.write(f" {visibility.value}")
    name = op.attributes.get("sym_name")
    p.write(f" {SymbolRefAttr(name.value if isinstance(name, StringAttr) else '?')}(")
    t = function_type(op)
    arguments = op.regions[0].blocks[0].arguments if op.regions[0].blocks else None
    texts = [p.type(each) for each in t.inputs]
    if arguments is not None:
        texts = [f"{p.value(a)}: {text}" for a, text in zip(arguments, texts)]
    p.write(", ".join(_with_attributes(p, texts, op.attributes.get("arg_attrs"))) + ")")
    if t.results:
        results = _with_attributes(p, [p.type(each) for each in t.results], op.attributes.get("res_attrs"))
        bare = len(results) == 1 and "{" not in results[0] and not isinstance(t.results[0], FunctionType)
        p.write(f" -> {results[0]}" if bare else f" -> ({', '.join(results)})")
    text = p.dictionary(op, _HIDDEN)
    if text:
        p.write(f" attributes {text}")
    if op.regions[0].blocks:
        p.write(" ")
        p.region(op.regions[0], arguments=False)


def _with_attributes(p: Printer, texts: list[str], attributes: Attribute | None) -> list[str]:
    if not isinstance(attributes, ArrayAttr):
        return texts
    return [
        f"{text} {p.attribute(d)}" if isinstance(d, DictAttr) and d.entries else text
        for text, d in zip_longest(texts, attributes.elements[: len(texts)])
    ]


def check_function(op: Operation) -> None:
    t = function_type(op)
    if len(op.regions) != 1:
        raise LinalgVerifyError(f"'{op.name}' op has {len(op.regions)} regions", op.location)
    if op.regions[0].blocks:
        found = tuple(a.type for a in op.regions[0].blocks[0].arguments)
        if found != t.inputs:
            raise LinalgVerifyError(
                f"'{op.name}' op has type {t}, but arguments {', '.join(map(str, found))}", op.location
            )


def check_return(op: Operation) -> None:
    func = op.parent_op
    if func is None or func.name != "func.func":
        raise LinalgVerifyError("'func.return' op expects to be directly in a 'func.func'", op.location)
    expected = function_type(func).results
    found = tuple(v.type for v in op.operands)
    name = func.attributes.get("sym_name")
    function = f"(@{name.value})" if isinstance(name, StringAttr) else ""
    if len(found) != len(expected):
        raise LinalgVerifyError(
            f"'func.return' op has {len(found)} operands, but enclosing function {function} returns {len(expected)}",
            op.location,
        )
    for number, (value, kind) in enumerate(zip(found, expected)):
        if value != kind:
            raise LinalgVerifyError(
                f"'func.return' op type of return operand {number} ('{value}') doesn't match function result type "
                f"('{kind}') in function {function.strip('()')}",
                op.location,
            )


def parse_call_indirect(p: Parser, state: ParseState) -> None:
    """Parses `%f(%a) : (f32) -> f32`."""
    callee, operands = p.operand(), p.operand_list()
    state.attributes.update(p.optional_dictionary())
    p.expect(":")
    place = p.here()
    kind = p.function_type()
    if len(kind.inputs) != len(operands):
        p.fail(f"expected {len(operands)} types of operands, found {len(kind.inputs)}", place)
    state.operands = [p.resolve(callee, kind), *p.resolve_all(operands, list(kind.inputs))]
    state.result_types = list(kind.results)


def print_call_indirect(p: Printer, op: Operation) -> None:
    callee, *operands = op.operands
    p.write(f" {p.value(callee)}({', '.join(map(p.value, operands))})")
    p.optional_dictionary(op)
    p.write(f" : {p.type(callee.type)}")


def check_call_indirect(op: Operation) -> None:
    expected = FunctionType(tuple(v.type for v in op.operands[1:]), op.result_types)
    if op.operands[0].type != expected:
        raise LinalgVerifyError(f"'{op.name}' op calls {op.operands[0].type} as {expected}", op.location)


FUNC_ROWS = make_rows(
    op(
        "builtin.module",
        assembly=CustomAssembly(parse_module_op, print_module_op),
        regions=1,
        traits="isolated",
        default_dialect="builtin",
    ),
    op(
        "func.func",
        assembly=CustomAssembly(parse_function, print_function),
        needs="string(sym_name) type(function_type)",
        traits="isolated symbol",
        default_dialect="func",
        check=check_function,
    ),
    op(
        "func.return",
        "operands*",
        "",
        "attrs { %operands : type(operands) }?operands",
        traits="terminator",
        check=check_return,
    ),
    op("func.call", "operands*", "results*", "symbol(callee) ( %operands ) attrs : functional"),
    op("func.constant", "", "result", "attrs symbol(value) : type(result)", traits="pure", result_names=("f",)),
    op(
        "func.call_indirect",
        "callee;operands*",
        "results*",
        assembly=CustomAssembly(parse_call_indirect, print_call_indirect),
        check=check_call_indirect,
    ),
    op(
        "builtin.unrealized_conversion_cast",
        "inputs*",
        "outputs*",
        "{ %inputs : type(inputs) }?inputs to type(outputs) attrs",
        traits="pure",
    ),
)
