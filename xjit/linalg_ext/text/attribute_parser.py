"""Parser of types and attributes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from xjit.affine import AffineMap, IndexingError
from xjit.affine.expr_text import AffineParser, variable_scope
from xjit.linalg_ext.ir.attributes import (
    AffineMapAttr,
    AffineSetAttr,
    ArrayAttr,
    Attribute,
    BoolAttr,
    DenseArrayAttr,
    DenseResourceAttr,
    DictAttr,
    EnumAttr,
    FloatAttr,
    IntegerAttr,
    OpaqueAttr,
    StridedLayoutAttr,
    StringAttr,
    SymbolRefAttr,
    TypeAttr,
    UnitAttr,
)
from xjit.linalg_ext.ir.float_text import float_from_bits, round_to
from xjit.linalg_ext.ir.ranges import MAX_SIZE, integer_range
from xjit.linalg_ext.ir.types import (
    DialectType,
    FloatType,
    FunctionType,
    IndexType,
    IntegerType,
    MemRefType,
    NoneType,
    TensorType,
    Type,
    UnrankedMemRefType,
    UnrankedTensorType,
    VectorType,
    complex_component,
)
from xjit.linalg_ext.text.dense_parser import parse_dense
from xjit.linalg_ext.text.lexer import Lexer

__all__ = ["AttributeParser"]

T = TypeVar("T")

_FLOATS = re.compile(r"(?:f(?:16|32|64|80|128)|bf16|tf32|f8E\w+|f4E\w+|f6E\w+)\Z")
_INTEGER = re.compile(r"(s|u)?i(\d+)\Z")
_DIMENSION = re.compile(r"(\d+|\?)\s*x\s*")
_UNRANKED = re.compile(r"\*\s*x\s*")
_VECTOR_DIMENSION = re.compile(r"(\[\d+\]|\d+)\s*x\s*")
_ENUM_BODY = re.compile(r"<(\w[\w., ]*)>\Z")
I64 = IntegerType(64)
F64 = FloatType("f64")


class AttributeParser(Lexer):
    """Types and attributes at the current token; `#name` and `!name` that were defined before are looked up."""

    def __init__(self, text: str, file: str = "<string>", first_line: int = 1) -> None:
        super().__init__(text, file, first_line)
        self.attribute_aliases: dict[str, Attribute] = {}
        self.type_aliases: dict[str, Type] = {}

    def comma_list(self, opening: str, closing: str, element: Callable[[], T]) -> list[T]:
        """Parses `(a, b)` with the given brackets."""
        self.expect(opening)
        found: list[T] = []
        while not self.accept(closing):
            if found:
                self.expect(",")
            found.append(element())
        return found

    # Types

    def type(self) -> Type:
        """Parses a type."""
        with self.nested():
            if self.at("("):
                return self.function_type()
            if self.token.kind == "bang":
                return self._dialect_type()
            name = self.expect_kind("id", "a type").text
            kind = self.simple_type(name)
            if kind is not None:
                return kind
            rule = _TYPE_RULES.get(name)
            if rule is None:
                self.fail(f"unknown type '{name}'")
            return rule(self)

    def simple_type(self, name: str) -> Type | None:
        """Returns the scalar type of a name."""
        if name == "index":
            return IndexType()
        if name == "none":
            return NoneType()
        integer = _INTEGER.match(name)
        if integer and len(integer.group(2)) < 8:
            return IntegerType(int(integer.group(2)), integer.group(1) or "")
        return FloatType(name) if _FLOATS.match(name) else None

    def type_list(self) -> list[Type]:
        """Parses `type, type`."""
        found = [self.type()]
        while self.accept(","):
            found.append(self.type())
        return found

    def type_tuple(self) -> list[Type]:
        """Parses `(type, type)` or one type."""
        return self.comma_list("(", ")", self.type) if self.at("(") else [self.type()]

    def function_type(self) -> FunctionType:
        """Parses `(f32) -> f32`."""
        inputs = self.comma_list("(", ")", self.type)
        self.expect("->")
        return FunctionType(tuple(inputs), tuple(self.type_tuple()))

    def arrow_types(self) -> list[Type]:
        """Parses `-> type` or `-> (type, type)`, or nothing."""
        return self.type_tuple() if self.accept("->") else []

    def _dialect_type(self) -> Type:
        name = self.next().text
        alias = self.type_aliases.get(name[1:])
        if alias is not None:
            return alias
        if "." not in name and not self.at("<"):
            self.fail(f"unknown type alias '{name}'")
        return DialectType(name + (self.balanced() if self.at("<") else ""))

    def shape(self) -> tuple[int | None, ...]:
        """Parses `4x?x`, what stands before an element type."""
        sizes: list[int | None] = []
        while (match := self.match_raw(_DIMENSION)) is not None:
            sizes.append(None if match.group(1) == "?" else self._size(match.group(1)))
        return tuple(sizes)

    def _size(self, digits: str) -> int:
        if len(digits) > len(str(MAX_SIZE)) or int(digits) > MAX_SIZE:
            self.fail("the size is too large")
        return int(digits)

    def tensor_type(self) -> Type:
        self.expect("<")
        if self.match_raw(_UNRANKED):
            result: Type = UnrankedTensorType(self.type())
        else:
            shape, element = self.shape(), self.type()
            encoding = self.attribute() if self.accept(",") else None
            result = TensorType(shape, element, encoding)
        self.expect(">")
        return result

    def memref_type(self) -> Type:
        self.expect("<")
        if self.match_raw(_UNRANKED):
            element = self.type()
            result: Type = UnrankedMemRefType(element, _space_of(self.attribute()) if self.accept(",") else None)
            self.expect(">")
            return result
        shape, element = self.shape(), self.type()
        layout: Attribute | None = None
        space: Attribute | None = None
        while self.accept(","):
            attribute = self.attribute()
            if isinstance(attribute, StridedLayoutAttr | AffineMapAttr):
                layout = attribute
            else:
                space = _space_of(attribute)
        self.expect(">")
        if isinstance(layout, AffineMapAttr) and layout.map.is_identity:
            layout = None
        return MemRefType(shape, element, layout, space)

    def vector_type(self) -> Type:
        self.expect("<")
        sizes: list[int] = []
        marks: list[bool] = []
        while (match := self.match_raw(_VECTOR_DIMENSION)) is not None:
            sizes.append(self._size(match.group(1).strip("[]")))
            marks.append(match.group(1).startswith("["))
        element = self.type()
        self.expect(">")
        return VectorType(tuple(sizes), element, tuple(marks) if any(marks) else ())

    def complex_type(self) -> Type:
        self.expect("<")
        element = self.type()
        if not isinstance(element, FloatType | IntegerType):
            self.fail(f"complex numbers have parts of floats or integers, not of {element}")
        self.expect(">")
        return DialectType(f"complex<{element}>")

    def tuple_type(self) -> Type:
        return DialectType(f"tuple<{', '.join(str(t) for t in self.comma_list('<', '>', self.type))}>")

    # Attributes

    def attribute_dictionary(self) -> dict[str, Attribute]:
        """Parses `{a = 1, unit}`."""
        found: dict[str, Attribute] = {}

        def entry() -> None:
            place = self.here()
            name = self.string() if self.token.kind == "string" else self.keyword("an attribute name")
            if name in found:
                self.fail(f"attribute '{name}' occurs twice", place)
            found[name] = self.attribute() if self.accept("=") else UnitAttr()

        self.comma_list("{", "}", entry)
        return found

    def optional_dictionary(self) -> dict[str, Attribute]:
        """Parses `{a = 1}` or nothing."""
        return self.attribute_dictionary() if self.at("{") else {}

    def attribute(self, type: Type | None = None) -> Attribute:
        """Parses an attribute; a number is followed by its type unless `type` is given."""
        with self.nested():
            kind, text = self.token.kind, self.token.text
            if kind in ("int", "hex", "float") or text == "-":
                return self.number(type)
            if kind == "string":
                return StringAttr(self.string())
            if kind == "symbol":
                return self.symbol_reference()
            if kind == "hash":
                return self._hash_attribute()
            if text == "[":
                return ArrayAttr(tuple(self.comma_list("[", "]", self.attribute)))
            if text == "{":
                return DictAttr(tuple(sorted(self.attribute_dictionary().items())))
            rule = _ATTRIBUTE_RULES.get(text) if kind == "id" else None
            if rule is not None:
                self.next()
                return rule(self, type)
            if kind not in ("id", "bang") and text != "(":
                self.fail(f"expected an attribute, found {self.describe()}")
            return TypeAttr(self.type())

    def number(self, type: Type | None = None) -> Attribute:
        """Parses `1`, `-1.5e3`, `0x7F800000`, and `: type` if the type is not given."""
        place = self.here()
        negative = self.accept("-")
        if self.token.kind not in ("int", "hex", "float"):
            self.fail(f"expected a number, found {self.describe()}")
        token = self.next()
        explicit = self.type() if type is None and self.accept(":") else type
        if token.kind == "float":
            kind = explicit or F64
            if not isinstance(kind, FloatType):
                self.fail(f"a number with a point cannot have type {kind}", place)
            return FloatAttr(round_to(float(token.text) * (-1 if negative else 1), kind.name), kind)
        kind = explicit or I64
        if len(token.text) > 4000:
            self.fail("the number is too long", place)
        value = int(token.text, 16) if token.kind == "hex" else int(token.text)
        if isinstance(kind, FloatType):
            return FloatAttr(self._float_of_integer(token.kind == "hex", value, negative, kind), kind)
        if not isinstance(kind, IndexType | IntegerType):
            self.fail(f"an integer cannot have type {kind}", place)
        return IntegerAttr(self.in_range(-value if negative else value, kind), kind)

    def in_range(self, value: int, kind: Type) -> int:
        """Returns an integer as its type holds it: unsigned spellings of negative numbers wrap around."""
        if value not in integer_range(kind):
            self.fail(f"{value} does not fit into {kind}")
        width = kind.width if isinstance(kind, IntegerType) else 64
        signless = not (isinstance(kind, IntegerType) and kind.signedness == "u") and width > 1
        return value - (1 << width) if signless and value >= 1 << (width - 1) else value

    def _float_of_integer(self, is_bits: bool, value: int, negative: bool, kind: FloatType) -> float:
        if not is_bits:
            self.fail(f"expected a number with a point for type {kind}")
        try:
            return float_from_bits(value, kind.name) * (-1 if negative else 1)
        except OverflowError:
            self.fail(f"{value:#x} has too many bits for {kind}")

    def symbol_reference(self) -> SymbolRefAttr:
        """Parses `@a::@b`."""
        names = [self.symbol_name()]
        while self.accept("::"):
            names.append(self.symbol_name())
        return SymbolRefAttr(names[0], tuple(names[1:]))

    def symbol_name(self) -> str:
        """Parses `@name`, and returns the name."""
        text = self.expect_kind("symbol", "a symbol name").text[1:]
        return self.unquote(text) if text.startswith('"') else text

    def _hash_attribute(self) -> Attribute:
        token = self.next()
        alias = self.attribute_aliases.get(token.text[1:])
        if alias is not None:
            return alias
        body = self.balanced() if self.at("<") and self.token.start == token.start + len(token.text) else ""
        match = _ENUM_BODY.match(body)
        if match is not None:
            return EnumAttr(token.text[1:], match.group(1))
        if not body and "." not in token.text:
            self.fail(f"unknown attribute alias '{token.text}'", self.span(token.start, len(token.text)))
        return OpaqueAttr(token.text + body)

    def affine_map(self) -> AffineMap:
        """Parses `(d0)[s0] -> (d0 + s0)`."""
        parser = AffineParser(self.text, semi_affine=True)
        parser.pos = self.token.start
        return self._affine(parser, lambda: AffineMap.parse_from(parser))

    def affine_map_of(self, text: str, start: int) -> AffineMap:
        """Parses a map that stands otherwise in the text, from `start` on."""
        try:
            return AffineMap.parse_from(AffineParser(text, semi_affine=True))
        except (IndexingError, ValueError) as error:
            self.fail(f"invalid subscripts: {_reason(error)}", self.span(start))

    def _affine(self, parser: AffineParser, parse: Callable[[], T]) -> T:
        """Runs a parser of affine text at the current position and goes on behind it."""
        try:
            result = parse()
        except (IndexingError, ValueError) as error:
            self.fail(f"invalid affine text: {_reason(error)}", self.span(min(parser.pos, len(self.text))))
        self.seek(parser.pos)
        return result

    def affine_map_attribute(self, type: Type | None) -> Attribute:
        self.expect("<")
        result = AffineMapAttr(self.affine_map())
        self.expect(">")
        return result

    def affine_set_attribute(self, type: Type | None) -> Attribute:
        """Parses `<(d0)[s0] : (d0 - 1 >= 0, s0 == 0)>`."""
        self.expect("<")
        parser = AffineParser(self.text, semi_affine=True)
        parser.pos = self.token.start

        def constraints() -> AffineSetAttr:
            dims = parser.names("(", ")")
            symbols = parser.names("[", "]") if parser.peek() == "[" else []
            parser.expect(":")
            parser.scope = variable_scope(dims, symbols)
            parser.expect("(")
            found = [self._constraint(parser)]
            while parser.accept(","):
                found.append(self._constraint(parser))
            parser.expect(")")
            results = tuple(e for e, _ in found)
            return AffineSetAttr(AffineMap(len(dims), len(symbols), results), tuple(eq for _, eq in found))

        result = self._affine(parser, constraints)
        self.expect(">")
        return result

    def _constraint(self, parser: AffineParser):
        left = parser.expression()
        match = re.compile(r"\s*(>=|<=|==)").match(parser.text, parser.pos)
        if match is None:
            raise parser.error("expected '>=', '<=' or '=='")
        parser.pos = match.end()
        right = parser.expression()
        return (right - left if match.group(1) == "<=" else left - right, match.group(1) == "==")

    def dense_attribute(self, type: Type | None) -> Attribute:
        return parse_dense(self, type)

    def dense_resource(self, type: Type | None) -> Attribute:
        self.expect("<")
        name = self.string() if self.token.kind == "string" else self.keyword("a resource name")
        self.expect(">")
        if type is None:
            self.expect(":")
            type = self.type()
        return DenseResourceAttr(name, type)

    def dense_array(self, type: Type | None) -> Attribute:
        """Parses `<i64: 1, 2>`."""
        self.expect("<")
        element = self.type()
        values: list[bool | int | float] = []
        if self.accept(":"):
            while not self.at(">"):
                if values:
                    self.expect(",")
                value = self.scalar(element)
                if isinstance(value, complex):
                    self.fail("an array<> holds integers, booleans or floats")
                values.append(value)
        self.expect(">")
        return DenseArrayAttr(element, tuple(values))

    def scalar(self, element: Type) -> bool | int | float | complex:
        """Parses one element of a given type; a complex one is `(real, imaginary)`."""
        component = complex_component(element)
        if component is not None:
            self.expect("(")
            real = self.scalar(component)
            self.expect(",")
            imaginary = self.scalar(component)
            if any(isinstance(part, int) and abs(part) > 1 << 53 for part in (real, imaginary)):
                self.fail("integers in complex constants are known up to 2**53")
            self.expect(")")
            return complex(float(real.real), float(imaginary.real))
        if self.at("true", "false"):
            return self.next().text == "true"
        attribute = self.number(element)
        if isinstance(attribute, IntegerAttr):
            return bool(attribute.value) if element == IntegerType(1) else attribute.value
        assert isinstance(attribute, FloatAttr)
        return attribute.value

    def strided_layout(self, type: Type | None) -> Attribute:
        """Parses `<[?, 1], offset: ?>`."""
        self.expect("<")
        strides = self.comma_list("[", "]", self.integer_or_unknown)
        offset: int | None = 0
        if self.accept(","):
            self.expect("offset")
            self.expect(":")
            offset = self.integer_or_unknown()
        self.expect(">")
        return StridedLayoutAttr(tuple(strides), offset)

    def integer_or_unknown(self) -> int | None:
        """Parses an integer, or `?` as None."""
        return None if self.accept("?") else self.integer()

    def location(self, type: Type | None) -> Attribute:
        return OpaqueAttr("loc" + self.balanced())


def _space_of(attribute: Attribute) -> Attribute | None:
    """The memory space of that attribute: the default one is the number 0, and is none."""
    return None if isinstance(attribute, IntegerAttr) and attribute.value == 0 else attribute


def _reason(error: Exception) -> str:
    """What an error of affine text says, without its own place."""
    return str(error).split(", in '")[0].split(": ", 1)[-1]


_TYPE_RULES: dict[str, Callable[[AttributeParser], Type]] = {
    "tensor": AttributeParser.tensor_type,
    "memref": AttributeParser.memref_type,
    "vector": AttributeParser.vector_type,
    "complex": AttributeParser.complex_type,
    "tuple": AttributeParser.tuple_type,
}

_ATTRIBUTE_RULES: dict[str, Callable[[AttributeParser, Type | None], Attribute]] = {
    "unit": lambda parser, type: UnitAttr(),
    "true": lambda parser, type: BoolAttr(True),
    "false": lambda parser, type: BoolAttr(False),
    "affine_map": AttributeParser.affine_map_attribute,
    "affine_set": AttributeParser.affine_set_attribute,
    "dense": AttributeParser.dense_attribute,
    "dense_resource": AttributeParser.dense_resource,
    "array": AttributeParser.dense_array,
    "strided": AttributeParser.strided_layout,
    "loc": AttributeParser.location,
}
