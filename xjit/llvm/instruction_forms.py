"""The forms of instructions: each function makes a method of `IRBuilder` for one opcode.

A method checks its operands (TypeError), folds constants where that is cheap, and writes one line.
"""

from __future__ import annotations

from collections.abc import Callable

from xjit.llvm.folding import COMPARISONS, fold_binary, fold_comparison
from xjit.llvm.insertion_point import InsertionPoint
from xjit.llvm.types import I1, LLVMType
from xjit.llvm.values import Value, same_type


def integer(opcode: str, hint: str, flags: str = ""):  # the types of methods are inferred
    """`a opcode b` of integers of one type."""
    words = f"{opcode} {flags}" if flags else opcode

    def method(self: InsertionPoint, a: Value, b: Value, name: str = hint) -> Value:
        if a.constant is not None or b.constant is not None:
            folded = fold_binary(opcode, a, b)
            if folded is not None:
                return folded
        type = a.type
        if type is not b.type or not type.is_int:
            raise TypeError(f"operands of {opcode} must be integers of one type: {a} and {b}")
        return self.assign(f"{words} {type.text} {a.text}, {b.text}", type, name)

    return method


def overflowing(opcode: str, hint: str):
    """The same, for opcodes whose result may be declared not to overflow: `nsw` as signed, `nuw` as unsigned."""
    plain, signed, unsigned, both = (integer(opcode, hint, flags) for flags in ("", "nsw", "nuw", "nuw nsw"))

    def method(
        self: InsertionPoint, a: Value, b: Value, name: str = hint, *, nsw: bool = False, nuw: bool = False
    ) -> Value:
        if nuw:
            return (both if nsw else unsigned)(self, a, b, name)
        return (signed if nsw else plain)(self, a, b, name)

    return method


def floating(opcode: str, hint: str):
    """`a opcode b` of floats of one type. `flags` are LLVM's fast-math flags; none: strict IEEE."""

    def method(self: InsertionPoint, a: Value, b: Value, name: str = hint, flags: str = "") -> Value:
        type = a.type
        if type is not b.type or not type.is_float:
            raise TypeError(f"operands of {opcode} must be floats of one type: {a} and {b}")
        words = f"{opcode} {flags}" if flags else opcode
        return self.assign(f"{words} {type.text} {a.text}, {b.text}", type, name)

    return method


def cast(opcode: str, hint: str, fold: Callable[[Value, LLVMType], Value | None] | None = None):
    """A conversion to the element type `elem`; the result is as wide as `a`."""

    def method(self: InsertionPoint, a: Value, elem: LLVMType, name: str = hint) -> Value:
        elem = elem.elem
        folded = None if fold is None else fold(a, elem)
        if folded is not None:
            return folded
        type = a.type.with_elem(elem)
        if type is a.type:
            return a
        return self.assign(f"{opcode} {a.type.text} {a.text} to {type.text}", type, name)

    return method


_ORDERED = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
assert _ORDERED.keys() == COMPARISONS.keys()


def integer_comparison(*, signed: bool):
    """Compares integers or pointers; `op` is one of == != < <= > >=."""
    sign = "s" if signed else "u"
    predicates = {op: word if op in ("==", "!=") else sign + word for op, word in _ORDERED.items()}

    def method(self: InsertionPoint, op: str, a: Value, b: Value, name: str = "cmp") -> Value:
        folded = fold_comparison(op, a, b, signed=signed)
        if folded is not None:
            return folded
        type = same_type(a, b, "icmp")
        return self.assign(f"icmp {predicates[op]} {type.text} {a.text}, {b.text}", type.with_elem(I1), name)

    return method


def float_comparison(*, ordered: bool):
    """Compares floats; `op` is one of == != < <= > >=, or "ord" (of ordered comparisons), "uno" (of unordered)."""
    prefix, alone = ("o", "ord") if ordered else ("u", "uno")
    predicates = {op: prefix + word for op, word in _ORDERED.items()} | {alone: alone}

    def method(self: InsertionPoint, op: str, a: Value, b: Value, name: str = "cmp") -> Value:
        type = same_type(a, b, "fcmp")
        return self.assign(f"fcmp {predicates[op]} {type.text} {a.text}, {b.text}", type.with_elem(I1), name)

    return method
