"""Parser of MLIR-like affine text: expressions and `(d0)[s0] -> (d0 + s0)` maps. Printing is `str()`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from xjit.affine import semi
from xjit.affine.errors import IndexingError
from xjit.affine.expr import AffineExpr
from xjit.affine.pool import constant, dim, symbol
from xjit.affine.rules import ceildiv, floordiv, mod

__all__ = ["AffineParser", "parse_affine_expr"]

_TOKEN = re.compile(r"\s*(?:(->|[-+*()\[\]{},:=])|(\d+)|([A-Za-z_][\w.]*))")
MAX_NESTING = 150
_LEAST = -(2**63)


class AffineParser:
    """Recursive descent over one text; names resolve through `scope`, by default d<i> and s<i> of any position.

    `semi_affine`: products and divisions without a constant side are terms; else they are errors.
    """

    def __init__(self, text: str, scope: dict[str, AffineExpr] | None = None, semi_affine: bool = False) -> None:
        self.text = text
        self.pos = 0
        self.scope = scope
        self._operators = _SEMI_AFFINE if semi_affine else _AFFINE
        self._nesting = 0

    def error(self, message: str) -> IndexingError:
        line = self.text.count("\n", 0, self.pos) + 1
        column = self.pos - (self.text.rfind("\n", 0, self.pos) + 1) + 1
        return IndexingError(f"affine text {line}:{column}: {message}, in {self.text.strip()!r}")

    def peek(self) -> str:
        match = _TOKEN.match(self.text, self.pos)
        return match.group(match.lastindex or 0) if match else ""

    def next(self) -> str:
        match = _TOKEN.match(self.text, self.pos)
        if match is None:
            rest = self.text[self.pos :].strip()
            raise self.error(f"unexpected {rest[:1]!r}" if rest else "unexpected end of text")
        self.pos = match.end()
        return match.group(match.lastindex or 0)

    def accept(self, token: str) -> bool:
        if self.peek() != token:
            return False
        self.next()
        return True

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise self.error(f"expected {token!r}, found {self.peek() or 'end of text'!r}")

    def at_end(self) -> bool:
        return not self.text[self.pos :].strip()

    def integer(self) -> int:
        sign = -1 if self.accept("-") else 1
        token = self.next()
        if not token.isdigit():
            raise self.error(f"expected an integer, found {token!r}")
        return sign * int(token)

    def names(self, opening: str, closing: str) -> list[str]:
        """Parses `(a, b)` with the given brackets."""
        self.expect(opening)
        found: list[str] = []
        while not self.accept(closing):
            if found:
                self.expect(",")
            found.append(self.next())
        return found

    def expressions(self) -> tuple[AffineExpr, ...]:
        """Parses `(e0, e1)`."""
        self.expect("(")
        found: list[AffineExpr] = []
        while not self.accept(")"):
            if found:
                self.expect(",")
            found.append(self.expression())
        return tuple(found)

    def expression(self) -> AffineExpr:
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise self.error(f"more than {MAX_NESTING} nested parentheses")
        total = self._product()
        while (op := self.peek()) in ("+", "-"):
            self.next()
            least = self._least() if op == "-" else None
            right = least or self._product()
            total = total + right if op == "+" or least else total - right
        self._nesting -= 1
        return total

    def _product(self) -> AffineExpr:
        # A leading minus covers the whole product, as in the documents' -(x) floordiv 11. MLIR reads it the other way
        # but never prints that: it writes (-x) floordiv 11 and -(x floordiv 11).
        if self.accept("-"):
            return self._least() or -self._product()
        left = self._unary()
        while (op := self.peek()) in self._operators:
            self.next()
            right = self._unary()
            try:
                left = self._operators[op](left, right)
            except ValueError as e:
                raise self.error(str(e)) from e
        return left

    def _unary(self) -> AffineExpr:
        negative = False
        while self.accept("-"):
            negative = not negative
        if negative and (least := self._least()):
            return least
        atom = self._atom()
        return -atom if negative else atom

    def _least(self) -> AffineExpr | None:
        """Behind a minus: the least number of 64 bits, whose digits are those of none; None if that is not next."""
        return constant(_LEAST) if self.accept(str(-_LEAST)) else None

    def _atom(self) -> AffineExpr:
        token = self.next()
        if token == "(":
            inner = self.expression()
            self.expect(")")
            return inner
        if token.isdigit():
            value = constant(int(token))
            follower = self.text[self.pos : self.pos + 1]
            if follower.isalpha():  # the documents' short form 100d0
                return self._atom() * value
            return value
        return self._name(token)

    def _name(self, token: str) -> AffineExpr:
        if self.scope is not None:
            if token not in self.scope:
                raise self.error(f"unknown name {token!r}, expected one of {', '.join(self.scope) or 'none'}")
            return self.scope[token]
        if token[0] in "ds" and token[1:].isdigit():
            return (dim if token[0] == "d" else symbol)(int(token[1:]))
        raise self.error(f"expected d<i>, s<i>, a number or '(', found {token!r}")


_Operator: TypeAlias = Callable[[AffineExpr, AffineExpr], AffineExpr]
_AFFINE: dict[str, _Operator] = {
    "*": lambda a, b: a * b,
    "floordiv": floordiv,
    "floorDiv": floordiv,
    "ceildiv": ceildiv,
    "mod": mod,
}


def _semi_affine(word: str, combine: Callable[[AffineExpr, AffineExpr], AffineExpr]) -> _Operator:
    """The operator with MLIR's rule: of a product one side has no dims, of a division the right one."""

    def checked(left: AffineExpr, right: AffineExpr) -> AffineExpr:
        if right.dim_mask and (word != "*" or left.dim_mask):
            raise ValueError(f"{word} needs a constant or symbols on one side: ({left}) {word} ({right})")
        return combine(left, right)

    return checked


_SEMI_AFFINE: dict[str, _Operator] = {
    word: _semi_affine(word, combine)
    for word, combine in (
        ("*", semi.product),
        ("floordiv", semi.floordiv),
        ("ceildiv", semi.ceildiv),
        ("mod", semi.mod),
    )
}


def parse_affine_expr(text: str, scope: dict[str, AffineExpr] | None = None) -> AffineExpr:
    """Returns the expression in `text`; IndexingError (with position) if it is not one."""
    parser = AffineParser(text, scope)
    expr = parser.expression()
    if not parser.at_end():
        raise parser.error(f"unexpected {parser.peek()!r} after the expression")
    return expr


def variable_scope(dims: Sequence[str], symbols: Sequence[str]) -> dict[str, AffineExpr]:
    """Returns name -> variable in order of position."""
    scope = {name: dim(i) for i, name in enumerate(dims)}
    scope.update({name: symbol(i) for i, name in enumerate(symbols)})
    return scope
