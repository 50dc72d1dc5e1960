"""Floating-point instructions, selects and conversions of `IRBuilder`."""

from __future__ import annotations

from xjit.llvm.builder_base import same_type
from xjit.llvm.builder_integer import IntegerBuilder
from xjit.llvm.types import I1, PTR, LLVMType
from xjit.llvm.values import Value, const_int

_FLOAT_COMPARE = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


class FloatBuilder(IntegerBuilder):
    """Arithmetic on floats. `flags` are LLVM's fast-math flags; None means the builder's default (strict)."""

    __slots__ = ()

    def fadd(self, a: Value, b: Value, name: str = "add", flags: str | None = None) -> Value:
        """a + b."""
        return self._float("fadd", a, b, name, flags)

    def fsub(self, a: Value, b: Value, name: str = "sub", flags: str | None = None) -> Value:
        """a - b."""
        return self._float("fsub", a, b, name, flags)

    def fmul(self, a: Value, b: Value, name: str = "mul", flags: str | None = None) -> Value:
        """a * b."""
        return self._float("fmul", a, b, name, flags)

    def fdiv(self, a: Value, b: Value, name: str = "div", flags: str | None = None) -> Value:
        """a / b."""
        return self._float("fdiv", a, b, name, flags)

    def frem(self, a: Value, b: Value, name: str = "rem", flags: str | None = None) -> Value:
        """C's fmod: a library call on every target; `math.remainder` has the inline version."""
        return self._float("frem", a, b, name, flags)

    def fneg(self, a: Value, name: str = "neg") -> Value:
        """The sign bit inverted."""
        return self._value(f"fneg {a.type.text} {a.text}", a.type, name)

    def fma(self, a: Value, b: Value, c: Value, name: str = "fma") -> Value:
        """a * b + c with one rounding. A library call where the target lacks it (`Target.has_fma`)."""
        return self.intrinsic("fma", same_type(a, b, name), (a, b, c))

    def fabs(self, a: Value) -> Value:
        """The sign bit cleared."""
        return self.intrinsic("fabs", a.type, (a,))

    def copysign(self, magnitude: Value, sign: Value) -> Value:
        """`magnitude` with the sign bit of `sign`."""
        return self.intrinsic("copysign", same_type(magnitude, sign, "copysign"), (magnitude, sign))

    def fcmp_ordered(self, op: str, a: Value, b: Value, name: str = "cmp") -> Value:
        """Compares floats, false if either is NaN; `op` is one of == != < <= > >= or "ord"."""
        return self._fcmp("ord" if op == "ord" else f"o{_FLOAT_COMPARE[op]}", a, b, name)

    def fcmp_unordered(self, op: str, a: Value, b: Value, name: str = "cmp") -> Value:
        """Compares floats, true if either is NaN; `op` is one of == != < <= > >= or "uno"."""
        return self._fcmp("uno" if op == "uno" else f"u{_FLOAT_COMPARE[op]}", a, b, name)

    def select(self, condition: Value, a: Value, b: Value, name: str = "sel") -> Value:
        """`a` where `condition` (i1, or a vector of i1) holds, else `b`."""
        type = same_type(a, b, "select")
        if condition.type.elem is not I1 or condition.type.width not in (1, type.width):
            raise TypeError(f"select between values of {type} needs a condition of i1, not {condition}")
        if condition.constant is not None:
            return a if condition.constant else b
        if a.text == b.text:
            return a
        return self._value(
            f"select {condition.type.text} {condition.text}, {type.text} {a.text}, {type.text} {b.text}", type, name
        )

    def trunc(self, a: Value, elem: LLVMType, name: str = "trunc") -> Value:
        """The low bits. Conversions take the element type of the result; its width is that of `a`."""
        if a.constant is not None and elem.elem.bits < a.type.elem.bits:
            return const_int(a.type.with_elem(elem.elem), int(a.constant))
        return self._cast("trunc", a, elem, name)

    def zext(self, a: Value, elem: LLVMType, name: str = "zext") -> Value:
        """Extends with zeros."""
        if a.constant is not None:
            return const_int(a.type.with_elem(elem.elem), int(a.constant) & ((1 << a.type.elem.bits) - 1))
        return self._cast("zext", a, elem, name)

    def sext(self, a: Value, elem: LLVMType, name: str = "sext") -> Value:
        """Extends with the sign bit."""
        if a.constant is not None:
            number = int(a.constant)
            return const_int(a.type.with_elem(elem.elem), -number if a.type.elem is I1 else number)
        return self._cast("sext", a, elem, name)

    def fptrunc(self, a: Value, elem: LLVMType, name: str = "fptrunc") -> Value:
        """Rounds to a narrower float, to nearest even."""
        return self._cast("fptrunc", a, elem, name)

    def fpext(self, a: Value, elem: LLVMType, name: str = "fpext") -> Value:
        """The same number as a wider float."""
        return self._cast("fpext", a, elem, name)

    def fptosi(self, a: Value, elem: LLVMType, name: str = "fptosi") -> Value:
        """Truncates to a signed integer; poison if that does not fit."""
        return self._cast("fptosi", a, elem, name)

    def fptoui(self, a: Value, elem: LLVMType, name: str = "fptoui") -> Value:
        """Truncates to an unsigned integer; poison if that does not fit."""
        return self._cast("fptoui", a, elem, name)

    def sitofp(self, a: Value, elem: LLVMType, name: str = "sitofp") -> Value:
        """A signed integer as a float, rounded to nearest even."""
        return self._cast("sitofp", a, elem, name)

    def uitofp(self, a: Value, elem: LLVMType, name: str = "uitofp") -> Value:
        """An unsigned integer as a float, rounded to nearest even."""
        return self._cast("uitofp", a, elem, name)

    def bitcast(self, a: Value, type: LLVMType, name: str = "bits") -> Value:
        """The same bits as another type of the same size. A scalar `type` keeps the width of `a` if sizes fit."""
        if type.elem is type and type.bits == a.type.elem.bits:
            type = a.type.with_elem(type)
        if type is a.type:
            return a
        if type.bits != a.type.bits:
            raise TypeError(f"bitcast of {a} to {type}: the sizes differ")
        return self._value(f"bitcast {a.type.text} {a.text} to {type.text}", type, name)

    def inttoptr(self, a: Value, type: LLVMType = PTR, name: str = "ptr") -> Value:
        """An address as a pointer."""
        return self._cast("inttoptr", a, type, name)

    def addrspacecast(self, a: Value, type: LLVMType, name: str = "ptr") -> Value:
        """A pointer into one address space as a pointer into another."""
        return self._cast("addrspacecast", a, type, name)

    def ptrtoint(self, a: Value, elem: LLVMType, name: str = "address") -> Value:
        """A pointer as an integer."""
        return self._cast("ptrtoint", a, elem, name)

    def _cast(self, op: str, a: Value, elem: LLVMType, name: str) -> Value:
        type = a.type.with_elem(elem.elem)
        if type is a.type:
            return a
        return self._value(f"{op} {a.type.text} {a.text} to {type.text}", type, name)

    def _fcmp(self, predicate: str, a: Value, b: Value, name: str) -> Value:
        type = same_type(a, b, "fcmp")
        return self._value(f"fcmp {predicate} {type.text} {a.text}, {b.text}", type.with_elem(I1), name)

    def _float(self, op: str, a: Value, b: Value, name: str, flags: str | None) -> Value:
        type = a.type
        if type is not b.type or not type.is_float:
            raise TypeError(f"operands of {op} must be floats of one type: {a} and {b}")
        flags = self.fast_math_flags if flags is None else flags
        return self._value(f"{op} {flags + ' ' if flags else ''}{type.text} {a.text}, {b.text}", type, name)
