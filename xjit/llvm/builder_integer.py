"""Integer instructions of `IRBuilder`, with cheap local folding.

Folding covers two constants and the neutral elements (x+0, x*1, x&-1, ...): enough to keep index arithmetic small.
Vector constants fold when they are splats.
"""

from __future__ import annotations

from collections.abc import Callable

from xjit.llvm.builder_base import BuilderBase, same_type
from xjit.llvm.types import I1
from xjit.llvm.values import Value, const_int

_SIGNED_COMPARE: dict[str, tuple[str, Callable[[int, int], bool]]] = {
    "==": ("eq", lambda a, b: a == b),
    "!=": ("ne", lambda a, b: a != b),
    "<": ("slt", lambda a, b: a < b),
    "<=": ("sle", lambda a, b: a <= b),
    ">": ("sgt", lambda a, b: a > b),
    ">=": ("sge", lambda a, b: a >= b),
}
_UNSIGNED_COMPARE = {
    symbol: name if symbol in ("==", "!=") else f"u{name[1:]}" for symbol, (name, _) in _SIGNED_COMPARE.items()
}


class IntegerBuilder(BuilderBase):
    """add, sub, mul, divisions, shifts, bitwise operations, comparisons."""

    __slots__ = ()

    def add(self, a: Value, b: Value, name: str = "add", *, nsw: bool = False, nuw: bool = False) -> Value:
        """a + b."""
        x, y = a.constant, b.constant
        if y == 0 and a.type is b.type:
            return a
        if x == 0 and a.type is b.type:
            return b
        if x is not None and y is not None:
            return const_int(same_type(a, b, "add"), int(x) + int(y))
        return self._binary(_flagged("add", nsw, nuw), a, b, name)

    def sub(self, a: Value, b: Value, name: str = "sub", *, nsw: bool = False, nuw: bool = False) -> Value:
        """a - b."""
        x, y = a.constant, b.constant
        if y == 0 and a.type is b.type:
            return a
        if x is not None and y is not None:
            return const_int(same_type(a, b, "sub"), int(x) - int(y))
        return self._binary(_flagged("sub", nsw, nuw), a, b, name)

    def mul(self, a: Value, b: Value, name: str = "mul", *, nsw: bool = False, nuw: bool = False) -> Value:
        """a * b."""
        x, y = a.constant, b.constant
        if a.type is b.type and a.type.elem is not I1:
            if y == 1 or x == 0:
                return a
            if x == 1 or y == 0:
                return b
        if x is not None and y is not None:
            return const_int(same_type(a, b, "mul"), int(x) * int(y))
        return self._binary(_flagged("mul", nsw, nuw), a, b, name)

    def sdiv(self, a: Value, b: Value, name: str = "div") -> Value:
        """Signed a / b, towards zero. Undefined for b = 0 and for INT_MIN / -1."""
        x, y = a.constant, b.constant
        if y == 1:
            return a
        if x is not None and y is not None and y > 0:
            return const_int(same_type(a, b, "sdiv"), _truncated_quotient(int(x), int(y)))
        return self._binary("sdiv", a, b, name)

    def udiv(self, a: Value, b: Value, name: str = "div") -> Value:
        """Unsigned a / b. Undefined for b = 0."""
        x, y = a.constant, b.constant
        if y == 1:
            return a
        if x is not None and y is not None and x >= 0 and y > 0:
            return const_int(same_type(a, b, "udiv"), int(x) // int(y))
        return self._binary("udiv", a, b, name)

    def srem(self, a: Value, b: Value, name: str = "rem") -> Value:
        """The remainder of `sdiv`, with the sign of a."""
        x, y = a.constant, b.constant
        if x is not None and y is not None and y > 0:
            return const_int(same_type(a, b, "srem"), int(x) - int(y) * _truncated_quotient(int(x), int(y)))
        return self._binary("srem", a, b, name)

    def urem(self, a: Value, b: Value, name: str = "rem") -> Value:
        """The remainder of `udiv`."""
        x, y = a.constant, b.constant
        if x is not None and y is not None and x >= 0 and y > 0:
            return const_int(same_type(a, b, "urem"), int(x) % int(y))
        return self._binary("urem", a, b, name)

    def shl(self, a: Value, b: Value, name: str = "shl", *, nsw: bool = False, nuw: bool = False) -> Value:
        """a << b; poison for b >= bits."""
        x, y = a.constant, b.constant
        if y == 0:
            return a
        if x is not None and y is not None and 0 < y < a.type.elem.bits:
            return const_int(same_type(a, b, "shl"), int(x) << int(y))
        return self._binary(_flagged("shl", nsw, nuw), a, b, name)

    def lshr(self, a: Value, b: Value, name: str = "shr") -> Value:
        """a >> b, filling with zeros; poison for b >= bits."""
        x, y, bits = a.constant, b.constant, a.type.elem.bits
        if y == 0:
            return a
        if x is not None and y is not None and 0 < y < bits:
            return const_int(same_type(a, b, "lshr"), (int(x) & ((1 << bits) - 1)) >> int(y))
        return self._binary("lshr", a, b, name)

    def ashr(self, a: Value, b: Value, name: str = "sar") -> Value:
        """a >> b, filling with the sign; poison for b >= bits."""
        x, y = a.constant, b.constant
        if y == 0:
            return a
        if x is not None and y is not None and 0 < y < a.type.elem.bits:
            return const_int(same_type(a, b, "ashr"), int(x) >> int(y))
        return self._binary("ashr", a, b, name)

    def and_(self, a: Value, b: Value, name: str = "and") -> Value:
        """Bitwise and."""
        x, y = a.constant, b.constant
        if x is not None and y is not None:
            return const_int(same_type(a, b, "and"), int(x) & int(y))
        ones = 1 if a.type.elem is I1 else -1
        if y == ones or x == 0:
            return a
        if x == ones or y == 0:
            return b
        return self._binary("and", a, b, name)

    def or_(self, a: Value, b: Value, name: str = "or") -> Value:
        """Bitwise or."""
        x, y = a.constant, b.constant
        if x is not None and y is not None:
            return const_int(same_type(a, b, "or"), int(x) | int(y))
        ones = 1 if a.type.elem is I1 else -1
        if y == 0 or x == ones:
            return a
        if x == 0 or y == ones:
            return b
        return self._binary("or", a, b, name)

    def xor(self, a: Value, b: Value, name: str = "xor") -> Value:
        """Bitwise exclusive or."""
        x, y = a.constant, b.constant
        if y == 0:
            return a
        if x == 0:
            return b
        if x is not None and y is not None:
            return const_int(same_type(a, b, "xor"), int(x) ^ int(y))
        return self._binary("xor", a, b, name)

    def not_(self, a: Value, name: str = "not") -> Value:
        """All bits inverted."""
        return self.xor(a, const_int(a.type, -1), name)

    def neg(self, a: Value, name: str = "neg") -> Value:
        """0 - a."""
        return self.sub(const_int(a.type, 0), a, name)

    def icmp_signed(self, op: str, a: Value, b: Value, name: str = "cmp") -> Value:
        """Compares integers or pointers; `op` is one of == != < <= > >=."""
        predicate, function = _SIGNED_COMPARE[op]
        if a.constant is not None and b.constant is not None and a.type is b.type:
            return const_int(a.type.with_elem(I1), function(int(a.constant), int(b.constant)))
        return self._compare(predicate, a, b, name)

    def icmp_unsigned(self, op: str, a: Value, b: Value, name: str = "cmp") -> Value:
        """Compares as unsigned integers; `op` is one of == != < <= > >=."""
        if a.constant is not None and b.constant is not None and a.type is b.type:
            mask = (1 << a.type.elem.bits) - 1
            result = _SIGNED_COMPARE[op][1](int(a.constant) & mask, int(b.constant) & mask)
            return const_int(a.type.with_elem(I1), result)
        return self._compare(_UNSIGNED_COMPARE[op], a, b, name)

    def _compare(self, predicate: str, a: Value, b: Value, name: str) -> Value:
        type = same_type(a, b, "icmp")
        return self._value(f"icmp {predicate} {type.text} {a.text}, {b.text}", type.with_elem(I1), name)

    def _binary(self, op: str, a: Value, b: Value, name: str) -> Value:
        type = a.type
        if type is not b.type or not type.is_int:
            raise TypeError(f"operands of {op} must be integers of one type: {a} and {b}")
        return self._value(f"{op} {type.text} {a.text}, {b.text}", type, name)


def _flagged(op: str, nsw: bool, nuw: bool) -> str:
    return f"{op}{' nuw' if nuw else ''}{' nsw' if nsw else ''}"


def _truncated_quotient(a: int, b: int) -> int:
    return a // b if a >= 0 else -(-a // b)
