"""Operations of scripts with sequences inside: loops over payload, calls, alternatives; and passes by name."""

from __future__ import annotations

from xjit.hlo.diagnostics import HloError
from xjit.linalg_ext.dialects.registry import has_trait
from xjit.linalg_ext.ir.attributes import ArrayAttr, Attribute, DictAttr, StringAttr, SymbolRefAttr
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.transform_scripts.match_rows import inside_first
from xjit.linalg_ext.transform_scripts.state import Handles, Payload, Script, TransformRow, script_operations

__all__ = ["CONTROL_ROWS"]


def _sequence(script: Script, op: Operation, name: object) -> Operation:
    """Returns the named sequence of the module that a symbol refers to."""
    for each in script_operations(script.root):
        same = isinstance(name, SymbolRefAttr) and each.attributes.get("sym_name") == StringAttr(name.name)
        if each.name == "transform.named_sequence" and same:
            return each
    raise LinalgError(f"there is no sequence {name}", op.location)


def _call(script: Script, op: Operation, sequence: Operation, arguments: Handles) -> Handles:
    """Runs a named sequence; LinalgError, at the place of `op`, if that is running already: it would not end."""
    if sequence in script.running:
        raise LinalgError(f"'{op.name}' op runs a sequence inside of itself", op.location)
    script.running.append(sequence)
    try:
        return script.run(script, sequence, arguments, 0)
    finally:
        script.running.pop()


def _collect(found: list[list[Payload]], handles: Handles) -> None:
    for group, more in zip(found, handles):
        group.extend(more)


def foreach(script: Script, op: Operation) -> Handles:
    """Runs the body for each payload, or for payload of several handles side by side; results are those of all runs.

    With `with_zip_shortest`, what handles have more than others is left.
    """
    targets = [script.lookup(op, i) for i in range(len(op.operands))]
    if len({len(group) for group in targets}) > 1 and "with_zip_shortest" not in op.attributes:
        raise LinalgError(f"'{op.name}' op expects handles of as many payload each", op.location)
    found: list[list[Payload]] = [[] for _ in op.results]
    for row in zip(*targets):
        _collect(found, script.run(script, op, [[each] for each in row], 0))
    return found


def include(script: Script, op: Operation) -> Handles:
    """Runs a named sequence."""
    sequence = _sequence(script, op, op.attributes.get("target"))
    return _call(script, op, sequence, [script.lookup(op, i) for i in range(len(op.operands))])


def alternatives(script: Script, op: Operation) -> Handles:
    """Runs the first region that succeeds, on copies of the scopes: a region that fails leaves no trace.

    The scopes are isolated operations; handles of what is inside them stand for nothing afterwards.
    """
    found: list[list[Payload]] = [[] for _ in op.results]
    for scope in script.payload(op) if op.operands else [script.root]:
        if not has_trait(scope, "isolated") or scope.block is None:
            raise LinalgError(f"'{op.name}' op expects isolated operations, found '{scope.name}'", op.location)
        _collect(found, _first_success(script, op, scope))
    return found


def _first_success(script: Script, op: Operation, scope: Operation) -> Handles:
    """Replaces the scope by the copy on which a region has succeeded."""
    reasons: list[str] = []
    for number in range(len(op.regions)):
        copy = scope.clone()
        assert scope.block is not None
        scope.block.insert_before(scope, copy)
        scope.remove()
        try:
            handles = script.run(script, op, [[copy]], number)
        except LinalgError as error:
            reasons.append(f"alternative {number}: {error.message}")
            copy.block.insert_before(copy, scope)  # type: ignore[union-attr]
            copy.erase()
            continue
        scope.erase()
        return handles
    raise LinalgError("all alternatives failed", op.location, *reasons)


def _inside(root: Operation) -> list[Operation]:
    return [inner for inner in root.walk() if inner is not root and inner.dialect != "transform"]


def foreach_match(script: Script, op: Operation) -> Handles:
    """Runs, for each operation inside the payload, the action behind the first matcher that does not fail for it.

    With `restrict_root` these are the operations of the payload themselves.
    """
    pairs: list[tuple[Operation, Operation]] = []
    matchers, actions = op.attributes.get("matchers"), op.attributes.get("actions")
    if not isinstance(matchers, ArrayAttr) or not isinstance(actions, ArrayAttr):
        raise LinalgError(f"'{op.name}' op expects lists of matchers and actions", op.location)
    for matcher, action in zip(matchers.elements, actions.elements):
        pairs.append((_sequence(script, op, matcher), _sequence(script, op, action)))
    roots = script.payload(op)
    found: list[list[Payload]] = [[] for _ in op.results[1:]]
    for root in roots:
        for each in [root] if "restrict_root" in op.attributes else _inside(root):
            if not root.is_ancestor_of(each):
                continue  # an action has erased it
            for matcher, action in pairs:
                matched = _matched(script, op, matcher, each)
                if matched is not None:
                    _collect(found, _call(script, op, action, matched))
                    break
    return [roots, *found]


def collect_matching(script: Script, op: Operation) -> Handles:
    """What a matcher gives for each operation inside the payload that it does not fail for."""
    matcher = _sequence(script, op, op.attributes.get("matcher"))
    found: list[list[Payload]] = [[] for _ in op.results]
    for root in script.payload(op):
        for each in inside_first(root):
            _collect(found, _matched(script, op, matcher, each) or [])
    return found


def _matched(script: Script, op: Operation, matcher: Operation, target: Operation) -> Handles | None:
    """What a matcher passes on for an operation, None if it fails."""
    try:
        return _call(script, op, matcher, [[target]])
    except LinalgError:
        return None


def _options_text(options: Attribute | None) -> str:
    """Returns options, a string or a dictionary, as a command line has them."""
    if isinstance(options, DictAttr):
        texts = {name: value.value if isinstance(value, StringAttr) else value for name, value in options.entries}
        return " ".join(f"{name}={value}" for name, value in texts.items())
    return options.value if isinstance(options, StringAttr) else ""


def apply_registered_pass(script: Script, op: Operation) -> Handles:
    """Runs a pass of `PASSES` on the payload."""
    from xjit.linalg_ext.passes import PASSES, parse_options  # passes run scripts, too

    name, options = op.attributes.get("pass_name"), op.attributes.get("options")
    if not isinstance(name, StringAttr) or name.value not in PASSES:
        raise LinalgError(f"unknown pass {name}", op.location)
    try:
        arguments = parse_options(name.value, _options_text(options))
    except HloError as error:
        raise LinalgError(error.message, op.location) from error
    targets = script.payload(op)
    for target in targets:
        PASSES[name.value].run(target, **arguments)
    return [targets]


CONTROL_ROWS: tuple[TransformRow, ...] = (
    TransformRow("transform.foreach", foreach),
    TransformRow("transform.include", include),
    TransformRow("transform.alternatives", alternatives, (0,)),
    TransformRow("transform.foreach_match", foreach_match, (0,)),
    TransformRow("transform.collect_matching", collect_matching),
    TransformRow("transform.apply_registered_pass", apply_registered_pass, (0,)),
)
