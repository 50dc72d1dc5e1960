"""`outline`: operations become calls of functions, of their own or of an external library."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.linalg_ext.ir.attributes import StringAttr, SymbolRefAttr, TypeAttr
from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Block, Operation, Region, Value
from xjit.linalg_ext.ir.types import FunctionType

__all__ = ["inline", "outline", "outline_loop"]


def outline(
    operations: Sequence[Operation], func_name: str, libcall: bool = False
) -> tuple[list[Operation], list[Operation]]:
    """Replaces each operation by a call; returns the functions and the calls.

    Without `libcall` each operation gets a private function with a name of its own that starts with `func_name`. With
    it all calls go to one external function of just that name. LinalgError if code inside an operation uses values from
    outside other than operands, or if the name belongs to another function.
    """
    functions: dict[Operation, None] = {}
    calls: list[Operation] = []
    for op in operations:
        _check_isolated(op)
        module = _module_of(op)
        function = _library_function(module, op, func_name) if libcall else _own_function(module, op, func_name)
        functions[function] = None
        name = function.attributes["sym_name"]
        assert isinstance(name, StringAttr)
        callee = {"callee": SymbolRefAttr(name.value)}
        call = Builder.before(op).create("func.call", op.operands, op.result_types, callee)
        op.replace_all_uses_with(call.results)
        op.erase()
        calls.append(call)
    return list(functions), calls


def outline_loop(loop: Operation, func_name: str) -> tuple[Operation, Operation]:
    """Moves a loop into a function of its own, whose arguments are all values that it uses from outside.

    Returns the function and the call, which stands in an `scf.execute_region`, as MLIR has it.
    """
    if loop.name not in ("scf.for", "scf.forall", "scf.parallel", "scf.while", "affine.for", "affine.parallel"):
        raise LinalgError(f"'{loop.name}' op is no loop", loop.location)
    used: dict[Value, None] = {}
    for inner in loop.walk():
        for value in inner.operands:
            block = value.parent_block
            owner = None if block is None else block.parent_op
            if inner is loop or owner is None or not loop.is_ancestor_of(owner):
                used[value] = None
    module, kind = _module_of(loop), FunctionType(tuple(v.type for v in used), loop.result_types)
    body = Block(list(kind.inputs))
    inside = Builder(body, location=loop.location)
    inside.create("func.return", inside.clone(loop, dict(zip(used, body.arguments))).results)
    function = _declare(module, loop, _free_name(module, func_name), Region([body]), kind)
    name = function.attributes["sym_name"]
    assert isinstance(name, StringAttr)
    region = Block()
    call = Builder(region, location=loop.location).create(
        "func.call", tuple(used), kind.results, {"callee": SymbolRefAttr(name.value)}
    )
    Builder(region, location=loop.location).create("scf.yield", call.results)
    around = Builder.before(loop).create("scf.execute_region", (), kind.results, {}, [Region([region])])
    loop.replace_all_uses_with(around.results)
    loop.erase()
    return function, call


def _check_isolated(op: Operation) -> None:
    for inner in op.walk():
        for value in inner.operands if inner is not op else ():
            block = value.parent_block
            owner = None if block is None else block.parent_op
            if owner is None or not op.is_ancestor_of(owner):
                raise LinalgError(f"cannot outline '{op.name}': its body uses a value from outside", op.location)


def _module_of(op: Operation) -> Operation:
    for parent in op.ancestors():
        if parent.name == "builtin.module":
            return parent
    raise LinalgError(f"'{op.name}' op is in no module", op.location)


def _functions(module: Operation) -> dict[str, Operation]:
    found: dict[str, Operation] = {}
    for op in module.body.operations:
        name = op.attributes.get("sym_name")
        if isinstance(name, StringAttr):
            found[name.value] = op
    return found


def _is_external(function: Operation) -> bool:
    return not function.regions or not function.regions[0].blocks


def _library_function(module: Operation, op: Operation, name: str) -> Operation:
    function = _functions(module).get(name)
    if function is None:
        return _declare(module, op, name, Region(), _type_of(op))
    kind = function.attributes.get("function_type")
    if not _is_external(function) or kind != TypeAttr(_type_of(op)):
        raise LinalgError(f"@{name} is no external function of type {_type_of(op)}", op.location)
    return function


def _own_function(module: Operation, op: Operation, hint: str) -> Operation:
    block = Block([value.type for value in op.operands])
    builder = Builder(block, location=op.location)
    copy = builder.insert(op.clone())
    copy.set_operands(block.arguments)
    builder.create("func.return", copy.results)
    return _declare(module, op, _free_name(module, hint), Region([block]), _type_of(op))


def _free_name(module: Operation, hint: str) -> str:
    """Returns a name that starts with `hint` and that no function of the module has."""
    taken = _functions(module)
    name, number = hint, 0
    while name in taken:
        name, number = f"{hint}_{number}", number + 1
    return name


def _type_of(op: Operation) -> FunctionType:
    return FunctionType(tuple(value.type for value in op.operands), op.result_types)


def _declare(module: Operation, op: Operation, name: str, region: Region, kind: FunctionType) -> Operation:
    """Inserts a private function in front of the one that the operation is in."""
    parent = next((p for p in op.ancestors() if p.block is module.body), op)
    attributes = {
        "sym_name": StringAttr(name),
        "function_type": TypeAttr(kind),
        "sym_visibility": StringAttr("private"),
    }
    return Builder.before(parent).create("func.func", (), (), attributes, (region,))


def inline(call: Operation) -> None:
    """Replaces a call by the body of the function, which is erased if nothing else calls it."""
    callee = call.attributes.get("callee")
    if call.name != "func.call" or not isinstance(callee, SymbolRefAttr):
        raise LinalgError(f"inline transformation should be applied on CallOp, not on '{call.name}'", call.location)
    module = _module_of(call)
    function = _functions(module).get(callee.name)
    if function is None or _is_external(function) or len(function.regions[0].blocks) != 1:
        which = f"not on @{callee.name}, as it has not one block"
        raise LinalgError(f"inline transformation should be applied on non-external function, {which}", call.location)
    builder = Builder.before(call)
    mapping: dict[Value, Value] = dict(zip(function.body.arguments, call.operands))
    for op in function.body.operations[:-1]:
        builder.clone(op, mapping)
    call.replace_all_uses_with([mapping.get(v, v) for v in function.body.terminator.operands])
    call.erase()
    if not any(op.attributes.get("callee") == callee for op in module.walk()):
        function.erase()
