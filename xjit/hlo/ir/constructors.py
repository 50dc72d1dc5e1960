"""`HloInstruction.create_<opcode>`: one constructor per opcode, derived from its row in the opcode table.

    create_<opcode>(shape, <operands>, <called computations>, <fields of the attributes dataclass>)

Up to three operands are given one by one, more or variadic ones as a sequence; lists of called computations are a
sequence, too. The attributes follow in the order of their dataclass, or by keyword. The shape is taken as given: the
verifier checks it, `xjit.ops.build` infers it. The result is free: `HloComputation.add_instruction` takes it in.
Errors: InvalidArgument for a wrong number of operands, TypeError for other arguments that do not fit the signature.

Type checkers read `constructors.pyi`, which is generated from the same signatures
(`python -m tests.support.constructor_stub`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, ClassVar

from xjit.hlo import attributes as at
from xjit.hlo.attributes.opcodes import OPCODES, VARIADIC, Opcode
from xjit.hlo.diagnostics import InvalidArgument, did_you_mean
from xjit.hlo.types.literal import Literal
from xjit.hlo.types.shape import Shape

if TYPE_CHECKING:
    from xjit.hlo.ir.instruction import HloInstruction

MAX_SINGLE_OPERANDS = 3  # a constructor takes more than that as a sequence


@functools.lru_cache(maxsize=1 << 10)
def _numbered(number: int) -> at.ParameterAttributes:
    return at.ParameterAttributes(number)


class InstructionConstructors:
    """The constructors of `HloInstruction`, which has `create`, on which they all rest.

    Written out here are those that do not follow the rule: of opcodes whose shape the arguments decide, of opcodes that
    continue another instruction, and of any opcode of some arity.
    """

    __slots__ = ()
    create: ClassVar[Callable[..., HloInstruction]]

    @classmethod
    def create_parameter(cls, number: int, shape: Shape, name: str = "") -> HloInstruction:
        """Returns parameter `number`."""
        return cls.create("parameter", shape, attributes=_numbered(number), name=name)

    @classmethod
    def create_constant(cls, literal: Literal, name: str = "") -> HloInstruction:
        """Returns a constant of that value."""
        return cls.create("constant", literal.shape, attributes=at.ConstantAttributes(literal), name=name)

    @classmethod
    def create_get_tuple_element(cls, operand: HloInstruction, index: int) -> HloInstruction:
        """Returns element `index` of a tuple-shaped operand; InvalidArgument if there is none."""
        attributes = at.GetTupleElementAttributes(index)
        return cls.create("get-tuple-element", operand.shape.subshape([index]), [operand], attributes)

    @classmethod
    def create_tuple(cls, operands: Sequence[HloInstruction]) -> HloInstruction:
        """Returns the tuple of the operands."""
        return cls.create("tuple", Shape.tuple_of([o.shape for o in operands]), operands)

    @classmethod
    def create_async_update(cls, shape: Shape, operand: HloInstruction) -> HloInstruction:
        """Returns a free `async-update`: computation and attributes are those of the asynchronous operand."""
        return cls.create("async-update", shape, [operand], operand.attributes, operand.called_computations)

    @classmethod
    def create_async_done(cls, shape: Shape, operand: HloInstruction) -> HloInstruction:
        """Returns a free `async-done`: computation and attributes are those of the asynchronous operand."""
        return cls.create("async-done", shape, [operand], operand.attributes, operand.called_computations)

    @classmethod
    def create_nullary(cls, shape: Shape, opcode: str) -> HloInstruction:
        """Returns a free instruction without operands and attributes."""
        return cls.create_variadic(shape, opcode, [])

    @classmethod
    def create_unary(cls, shape: Shape, opcode: str, operand: HloInstruction) -> HloInstruction:
        """Returns a free instruction of one operand whose opcode needs no attributes; InvalidArgument for others."""
        return cls.create_variadic(shape, opcode, [operand])

    @classmethod
    def create_binary(cls, shape: Shape, opcode: str, lhs: HloInstruction, rhs: HloInstruction) -> HloInstruction:
        """Returns a free instruction of two operands whose opcode needs no attributes; InvalidArgument for others."""
        return cls.create_variadic(shape, opcode, [lhs, rhs])

    @classmethod
    def create_ternary(
        cls, shape: Shape, opcode: str, lhs: HloInstruction, rhs: HloInstruction, ehs: HloInstruction
    ) -> HloInstruction:
        """Returns a free instruction of three operands whose opcode needs no attributes; InvalidArgument for others."""
        return cls.create_variadic(shape, opcode, [lhs, rhs, ehs])

    @classmethod
    def create_variadic(cls, shape: Shape, opcode: str, operands: Sequence[HloInstruction]) -> HloInstruction:
        """Returns a free instruction of any number of operands whose opcode needs no attributes."""
        op = OPCODES.get(opcode)
        if op is None:
            raise InvalidArgument(f"unknown opcode '{opcode}'{did_you_mean(opcode, OPCODES)}")
        if op.called:
            raise InvalidArgument(f"{opcode} calls computations: use {constructor_name(op)}")
        if any(p.default is p.empty for p in _attribute_parameters(op).values()):
            raise InvalidArgument(f"{opcode} has attributes: use {constructor_name(op)}")
        _check_count(op, len(operands))
        return cls.create(opcode, shape, operands)


def constructor_name(op: Opcode) -> str:
    """Returns `create_<opcode>`."""
    return "create_" + op.name.replace("-", "_")


def signature_of(op: Opcode) -> inspect.Signature:
    """Returns the parameters of an opcode's constructor: shape, operands, computations, attributes (see the module)."""
    attributes = _attribute_parameters(op)
    single, sequence = "HloInstruction", "Sequence[HloInstruction]"
    annotations = {name: single if _one_by_one(op) else sequence for name in _operand_names(op)}
    annotations.update(dict(zip(_computation_names(op), _computation_annotations(op))))
    names = op.parameters or (*annotations, *attributes)
    positional = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter("shape", positional, annotation="Shape")]
    for name in names:
        if name in attributes:
            default = inspect.Parameter.empty if name in op.parameters else attributes[name].default
            parameters.append(attributes[name].replace(default=default))
        else:
            parameters.append(inspect.Parameter(name, positional, annotation=annotations[name]))
    return inspect.Signature(parameters, return_annotation="HloInstruction")


def _attribute_parameters(op: Opcode) -> dict[str, inspect.Parameter]:
    """The parameters of the class of an opcode's attributes."""
    attributes: Any = op.attributes
    return {
        f.name: inspect.Parameter(
            f.name,
            inspect.Parameter.KEYWORD_ONLY if f.kw_only else inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=inspect.Parameter.empty if f.default is MISSING else f.default,
            annotation=f.type,
        )
        for f in fields(attributes)
    }


def _one_by_one(op: Opcode) -> bool:
    return len(op.operands) <= MAX_SINGLE_OPERANDS and "operands" not in op.operands


def _operand_names(op: Opcode) -> tuple[str, ...]:
    return op.operands if _one_by_one(op) else ("operands",)


def _computation_names(op: Opcode) -> tuple[str, ...]:
    if op.parameters or not op.called:
        return op.called
    return ("computations",) if op.called[0].endswith("*") else ("computation",)


def _computation_annotations(op: Opcode) -> list[str]:
    return ["Sequence[HloComputation]" if role.endswith("*") else "HloComputation" for role in op.called]


def _derived(op: Opcode) -> Callable[..., HloInstruction]:
    """The constructor of an opcode, as a function of the class and the arguments."""
    signature = signature_of(op)
    operand_names, computation_names = _operand_names(op), _computation_names(op)

    def create(cls: type[InstructionConstructors], *arguments: Any, **named: Any) -> HloInstruction:
        given = _bind(op, signature, arguments, named)
        operands = [given.pop(name) for name in operand_names] if _one_by_one(op) else list(given.pop("operands"))
        _check_count(op, len(operands))
        called = [given.pop(name) for name in computation_names]
        if called and op.called[0].endswith("*"):
            called = list(called[0])
        shape = given.pop("shape")
        return cls.create(op.name, shape, operands, op.attributes(**given), called)

    create.__name__ = constructor_name(op)
    create.__qualname__ = f"HloInstruction.{create.__name__}"
    create.__doc__ = f"Returns a free `{op.name}`: ({', '.join(signature.parameters)})."
    own = inspect.Parameter("cls", inspect.Parameter.POSITIONAL_ONLY)
    create.__signature__ = signature.replace(parameters=[own, *signature.parameters.values()])  # type: ignore[attr-defined]
    return create


def _bind(op: Opcode, signature: inspect.Signature, arguments: Sequence[Any], named: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments by name; see the module for the errors."""
    try:
        return signature.bind(*arguments, **named).arguments
    except TypeError as error:
        unknown = next((name for name in named if name not in signature.parameters), None)
        hint = did_you_mean(unknown, signature.parameters) if unknown else ""
        lacking = [name for name in op.operands[len(arguments[1:]) :] if name not in named]
        if lacking and not op.parameters and _one_by_one(op):
            raise _wrong_count(op, len(op.operands) - len(lacking)) from None
        raise TypeError(f"{constructor_name(op)}: {error}{hint}") from None


def _check_count(op: Opcode, count: int) -> None:
    if op.arity not in (VARIADIC, count):
        raise _wrong_count(op, count)


def _wrong_count(op: Opcode, count: int) -> InvalidArgument:
    expected = len(op.operands) if op.arity == VARIADIC else op.arity
    return InvalidArgument(f"{op.name} takes {expected} operands, got {count}")


for _op in OPCODES.values():
    if not hasattr(InstructionConstructors, constructor_name(_op)):
        setattr(InstructionConstructors, constructor_name(_op), classmethod(_derived(_op)))
