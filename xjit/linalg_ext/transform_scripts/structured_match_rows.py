"""`match.structured`: questions about a structured op, which fail at the first one that is answered no."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import AffineExprKind, AffineMap
from xjit.linalg_ext.dialects.attribute_kinds import FAILURE_MODES, word_of
from xjit.linalg_ext.ir.attributes import AffineMapAttr, ArrayAttr, Attribute, DenseArrayAttr, IntegerAttr, StringAttr
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation, Value
from xjit.linalg_ext.ir.types import FloatType, IntegerType, element_type
from xjit.linalg_ext.structured import PARALLEL, StructuredOp, as_structured
from xjit.linalg_ext.transform_scripts.state import Handles, Payload, Script, TransformRow

__all__ = ["STRUCTURED_MATCH_ROWS"]


def _structured(script: Script, op: Operation) -> StructuredOp:
    """Returns the op that is asked; LinalgError if it is no structured one, or not one."""
    targets = script.payload(op)
    view = as_structured(targets[0]) if len(targets) == 1 else None
    if view is None or not view.row.pointwise:
        raise LinalgError("expected a Linalg op", op.location)
    return view


def _number(value: int) -> IntegerAttr:
    return IntegerAttr(value, IntegerType(64))


def _fail(op: Operation, message: str) -> LinalgError:
    return LinalgError(f"'{op.name}' op: {message}", op.location)


def structured(script: Script, op: Operation) -> Handles:
    """Asks all questions of the body; with `failures(suppress)`, results stand for nothing if one is answered no."""
    try:
        _structured(script, op)
        found = script.run(script, op, [script.lookup(op)], 0)
    except LinalgError:
        if word_of(op.attributes.get("failure_propagation_mode"), FAILURE_MODES) == "suppress":
            return [[] for _ in op.results]
        raise
    return found


def _positions(op: Operation, count: int) -> list[int]:
    """Returns the positions that an operation lists, of `count`."""
    if "is_all" in op.attributes:
        return list(range(count))
    listed = op.attributes.get("raw_position_list")
    raw = listed.ints if isinstance(listed, DenseArrayAttr) else ()
    if any(not -count <= i < count for i in raw):
        raise _fail(op, f"position {list(raw)} overflow, there are {count}")
    chosen = [i % count for i in raw]
    return [i for i in range(count) if i not in chosen] if "is_inverted" in op.attributes else chosen


def dim(script: Script, op: Operation) -> Handles:
    """The sizes of loops, which may have to be of a kind; those that are not known are the least number."""
    view = _structured(script, op)
    loops = _positions(op, view.num_loops)
    for name, wanted in (("parallel", True), ("reduction", False)):
        if name in op.attributes and any((view.iterator_types[i] == PARALLEL) is not wanted for i in loops):
            raise _fail(op, f"expects {name} dimensions")
    sizes = [-(2**63) if view.loop_ranges[i] is None else view.loop_ranges[i] for i in loops]
    return [[_number(n or 0) for n in sizes]][: len(op.results)]


def _permutes(m: AffineMap, projected: bool) -> bool:
    dims = [e.position for e in m.results if e.kind is AffineExprKind.DIM]
    plain = len(dims) == len(m.results) == len(set(dims))
    return plain and (projected or len(dims) == m.num_dims)


def _operands(script: Script, op: Operation, of_inputs: bool) -> Handles:
    """What gives operands, the operands, or their maps, by the type of the result; maps may have to be permutations."""
    view = _structured(script, op)
    values = view.inputs if of_inputs else view.inits
    maps = view.indexing_maps[: len(view.inputs)] if of_inputs else view.indexing_maps[len(view.inputs) :]
    chosen = _positions(op, len(values))
    for name in ("permutation", "projected_permutation"):
        if name in op.attributes and not all(_permutes(maps[i], name != "permutation") for i in chosen):
            raise _fail(op, f"the indexing map is not a {name.replace('_', ' ')}")
    if not op.results:
        return []
    kind = str(op.results[0].type)
    if "affine_map" in kind:
        return [[AffineMapAttr(maps[i]) for i in chosen]]
    if "value" in kind:
        return [[values[i] for i in chosen]]
    makers = [values[i].defining_op for i in chosen]
    if None in makers:
        raise _fail(op, "the operand is a block argument")
    return [[maker for maker in makers if maker is not None]]


def result(script: Script, op: Operation) -> Handles:
    """A result, or one user, or the only one."""
    view, position = _structured(script, op), op.attributes.get("position")
    results = view.operation.results
    number = position.value if isinstance(position, IntegerAttr) else 0
    if not -len(results) <= number < len(results):
        raise _fail(op, f"position {number} overflow, there are {len(results)}")
    value = results[number]
    if "value" in str(op.results[0].type):
        return [[value]]
    users = list(dict.fromkeys(value.users))
    if not users or ("single" in op.attributes and len(users) > 1):
        raise _fail(op, f"the result has {len(users)} users")
    return [users[:1]]


def rank(script: Script, op: Operation) -> Handles:
    return [[_number(_structured(script, op).num_loops)]]


def num_inputs(script: Script, op: Operation) -> Handles:
    return [[_number(len(_structured(script, op).inputs))]]


def num_inits(script: Script, op: Operation) -> Handles:
    return [[_number(len(_structured(script, op).inits))]]


def elemental_bitwidth(script: Script, op: Operation) -> Handles:
    """The bits of an element of a value."""
    found: list[Payload] = []
    for value in script.lookup(op):
        kind = element_type(value.type) if isinstance(value, Value) else None
        if not isinstance(kind, IntegerType | FloatType):
            raise _fail(op, "unsupported element type")
        digits = "".join(c for c in kind.name[1:].split("E")[0] if c.isdigit()) if isinstance(kind, FloatType) else ""
        found.append(_number(kind.width if isinstance(kind, IntegerType) else int(digits)))
    return [found]


def body(script: Script, op: Operation) -> Handles:
    """What the scalar code has to be: elements that are passed on, elementwise code, a reduction, a sum of products."""
    view = _structured(script, op)
    end = view.yielded
    if "passthrough" in op.attributes and [*end] != [*view.body.arguments[: len(end)]]:
        raise _fail(op, "the body does not pass its inputs on")
    if "elementwise" in op.attributes and not view.is_elementwise:
        raise _fail(op, "the op is not elementwise")
    reduced = op.attributes.get("reduction_position")
    if isinstance(reduced, IntegerAttr) and not _is_reduction(view, reduced.value):
        raise _fail(op, "could not match reduction")
    contraction = op.attributes.get("contraction")
    if isinstance(contraction, ArrayAttr) and not _is_contraction(view, contraction.elements):
        raise _fail(op, "contraction: op is not a contraction of these operations")
    return []


def _is_reduction(view: StructuredOp, number: int) -> bool:
    """Whether a result joins its init with something by one operation."""
    if not 0 <= number < len(view.yielded):
        return False
    total, made = view.body.arguments[len(view.inputs) + number], view.yielded[number].defining_op
    return made is not None and len(made.operands) == 2 and list(made.operands).count(total) == 1


def _is_contraction(view: StructuredOp, names: Sequence[Attribute]) -> bool:
    """Whether the body is `add(total, mul(left, right))` of two given operations."""
    if len(view.inputs) != 2 or len(view.inits) != 1 or len(names) != 2 or not _is_reduction(view, 0):
        return False
    add = view.yielded[0].defining_op
    assert add is not None
    [term] = [v for v in add.operands if v is not view.body.arguments[-1]]
    mul = term.defining_op
    return mul is not None and [StringAttr(mul.name), StringAttr(add.name)] == list(names)


def contraction_dims(script: Script, op: Operation) -> Handles:
    """The loops of all operands, of the left one and the result, of the right one and the result, of both inputs."""
    view = _structured(script, op)
    if len(view.inputs) != 2 or len(view.inits) != 1:
        raise _fail(op, "could not infer contraction dimensions")
    if not all(_permutes(m, True) for m in view.indexing_maps):
        raise _fail(op, "could not infer contraction dimensions")
    left, right, out = ({e.position for e in m.results} for m in view.indexing_maps)
    groups = (left & right & out, (left & out) - right, (right & out) - left, (left & right) - out)
    return [[_number(loop) for loop in sorted(group)] for group in groups]


_PREFIX = "transform.match.structured"

STRUCTURED_MATCH_ROWS: tuple[TransformRow, ...] = (
    TransformRow(_PREFIX, structured),
    TransformRow(f"{_PREFIX}.body", body),
    TransformRow(f"{_PREFIX}.dim", dim),
    TransformRow(f"{_PREFIX}.input", lambda script, op: _operands(script, op, True)),
    TransformRow(f"{_PREFIX}.init", lambda script, op: _operands(script, op, False)),
    TransformRow(f"{_PREFIX}.result", result),
    TransformRow(f"{_PREFIX}.rank", rank),
    TransformRow(f"{_PREFIX}.num_inputs", num_inputs),
    TransformRow(f"{_PREFIX}.num_inits", num_inits),
    TransformRow(f"{_PREFIX}.elemental_bitwidth", elemental_bitwidth),
    TransformRow(f"{_PREFIX}.classify_contraction_dims", contraction_dims),
)
