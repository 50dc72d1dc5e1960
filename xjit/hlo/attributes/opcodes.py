"""The structural facts of every HLO opcode: operands, attributes class, roles of called computations, traits.

This is what the graph itself needs (XLA's opcode list); the constructors `HloInstruction.create_<opcode>` derive from
it. What an opcode *means* - shape rule, indexing maps, evaluation - is its row in xjit/ops.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Final

from xjit.dataclass import dataclass
from xjit.hlo import attributes as at


class Trait:
    """Properties that passes ask for instead of keeping lists of opcodes: bits, joined by `|`.

    No enum: reading a member of one takes longer than the question, which passes ask of every instruction.
    """

    NONE: Final = 0
    ELEMENTWISE: Final = 1 << 0
    COMMUTATIVE: Final = 1 << 1
    INDEX_ONLY: Final = 1 << 2  # moves elements, computes nothing
    SIDE_EFFECT: Final = 1 << 3
    COLLECTIVE: Final = 1 << 4
    ASYNC: Final = 1 << 5
    TRANSCENDENTAL: Final = 1 << 6
    EXPENSIVE: Final = 1 << 7  # elementwise arithmetic of many cycles
    CONTROL_FLOW: Final = 1 << 8  # runs its computations as sequences of instructions; others apply theirs to elements
    FORWARDS: Final = 1 << 9  # the result is the first operand's value, leaf by leaf
    PLUMBING: Final = 1 << 10  # yields what is in memory already: nothing runs for it


VARIADIC = -1


@dataclass(frozen=True, slots=True)
class Opcode:
    """One opcode. `arity` is -1 when variadic; `called` names the called computations (`*` = a list of them)."""

    name: str
    arity: int
    attributes: type[at.Attributes] = at.NoAttributes
    called: tuple[str, ...] = ()
    traits: int = Trait.NONE
    operands: tuple[str, ...] = ()
    """Names of the operands for constructors and messages; by default `operand`, or `lhs` and `rhs`, or `operands`."""
    parameters: tuple[str, ...] = ()
    """The constructor's parameters behind the shape, where they do not come in the usual order."""
    may_have_side_effect: bool = field(init=False, compare=False)
    """False: no instruction of this opcode has one, unless what it calls has. (Many passes ask every instruction.)"""

    def __post_init__(self) -> None:
        effect = self.name == "custom-call" or self.has(Trait.COLLECTIVE) or self.has(Trait.SIDE_EFFECT)
        object.__setattr__(self, "may_have_side_effect", effect)
        if not self.operands:
            object.__setattr__(self, "operands", _operand_names(self.arity, bool(self.called)))

    def has(self, trait: int) -> bool:
        """Whether the opcode has that trait, or one of several."""
        return self.traits & trait != 0

    def __str__(self) -> str:
        return self.name


def _operand_names(arity: int, calls: bool) -> tuple[str, ...]:
    if calls or arity == VARIADIC:
        return ("operands",)
    return {0: (), 1: ("operand",), 2: ("lhs", "rhs")}[arity]


_E, _I, _S, _C, _A = Trait.ELEMENTWISE, Trait.INDEX_ONLY, Trait.SIDE_EFFECT, Trait.COLLECTIVE, Trait.ASYNC
_EC = Trait.ELEMENTWISE | Trait.COMMUTATIVE
_ET = Trait.ELEMENTWISE | Trait.TRANSCENDENTAL | Trait.EXPENSIVE
_CF, _P = Trait.CONTROL_FLOW, Trait.PLUMBING
_F = Trait.FORWARDS | Trait.PLUMBING
_CS, _AS = Trait.COLLECTIVE | Trait.SIDE_EFFECT, Trait.ASYNC | Trait.SIDE_EFFECT


def _unary(*names: str) -> list[Opcode]:
    return [Opcode(n, 1, traits=_E) for n in names]


def _transcendental(*names: str) -> list[Opcode]:
    return [Opcode(n, 1, at.ResultAccuracyAttributes, traits=_ET) for n in names]


def _binary(*names: str, traits: int = _E) -> list[Opcode]:
    return [Opcode(n, 2, traits=traits) for n in names]


_ROWS: list[Opcode] = [
    *_unary("abs", "ceil", "count-leading-zeros", "convert", "bitcast-convert", "floor", "imag", "is-finite"),
    *_unary("negate", "not", "popcnt", "real", "round-nearest-afz", "round-nearest-even", "sign", "copy"),
    *_transcendental("acos", "acosh", "asin", "asinh", "atanh", "cbrt", "cosh", "cosine", "erf", "exponential"),
    *_transcendental("exponential-minus-one", "log", "log-plus-one", "logistic", "rsqrt", "sine", "sinh", "sqrt"),
    *_transcendental("tan", "tanh"),
    *_binary("add", "multiply", "maximum", "minimum", "and", "or", "xor", "mulhi", traits=_EC),
    *_binary("subtract", "shift-left", "shift-right-arithmetic", "shift-right-logical"),
    *_binary("divide", "remainder", traits=_E | Trait.EXPENSIVE),
    Opcode("complex", 2, traits=_E, operands=("real", "imag")),
    Opcode("stochastic-convert", 2, traits=_E, operands=("operand", "random")),
    *_binary("atan2", "power", traits=_ET),
    Opcode("compare", 2, at.CompareAttributes, traits=_E),
    Opcode("select", 3, traits=_E, operands=("pred", "on_true", "on_false")),
    Opcode("clamp", 3, traits=_E, operands=("min", "operand", "max")),
    Opcode("reduce-precision", 1, at.ReducePrecisionAttributes, traits=_E),
    Opcode("parameter", 0, at.ParameterAttributes, traits=_P),
    Opcode("constant", 0, at.ConstantAttributes, traits=_P),
    Opcode("iota", 0, at.IotaAttributes),
    Opcode("broadcast", 1, at.DimensionsAttributes, traits=_I),
    Opcode("reshape", 1, at.ReshapeAttributes, traits=_I),
    Opcode("dynamic-reshape", VARIADIC),
    Opcode("bitcast", 1, traits=_I | _P),
    Opcode("transpose", 1, at.DimensionsAttributes, traits=_I),
    Opcode("reverse", 1, at.DimensionsAttributes, traits=_I),
    Opcode("slice", 1, at.SliceAttributes, traits=_I),
    Opcode("dynamic-slice", VARIADIC, at.DynamicSliceAttributes),
    Opcode("dynamic-update-slice", VARIADIC),
    Opcode("concatenate", VARIADIC, at.ConcatenateAttributes),
    Opcode("pad", 2, at.PadAttributes, operands=("operand", "padding_value")),
    Opcode("gather", 2, at.GatherAttributes, operands=("operand", "start_indices")),
    Opcode("scatter", VARIADIC, at.ScatterAttributes, ("to_apply",)),
    Opcode("get-dimension-size", 1, at.DimensionAttributes),
    Opcode("set-dimension-size", 2, at.DimensionAttributes, operands=("operand", "size")),
    Opcode("reduce", VARIADIC, at.DimensionsAttributes, ("to_apply",)),
    Opcode("reduce-window", VARIADIC, at.WindowAttributes, ("to_apply",)),
    Opcode(
        "select-and-scatter",
        3,
        at.WindowAttributes,
        ("select", "scatter"),
        operands=("operand", "source", "init_value"),
        parameters=("operand", "select", "window", "source", "init_value", "scatter"),
    ),
    Opcode("map", VARIADIC, at.DimensionsAttributes, ("to_apply",)),
    Opcode("sort", VARIADIC, at.SortAttributes, ("to_apply",)),
    Opcode("topk", 1, at.TopKAttributes),
    Opcode("scan", VARIADIC, at.ScanAttributes, ("to_apply",)),
    Opcode("dot", VARIADIC, at.DotAttributes, operands=("lhs", "rhs")),
    Opcode("ragged-dot", 3, at.RaggedDotAttributes, operands=("lhs", "rhs", "group_sizes")),
    Opcode("scaled-dot", VARIADIC, at.DotAttributes),
    Opcode("convolution", 2, at.ConvolutionAttributes),
    Opcode("fft", 1, at.FftAttributes),
    Opcode("cholesky", 1, at.CholeskyAttributes),
    Opcode("triangular-solve", 2, at.TriangularSolveAttributes, operands=("a", "b")),
    Opcode("batch-norm-training", 3, at.BatchNormAttributes, operands=("operand", "scale", "offset")),
    Opcode(
        "batch-norm-inference", 5, at.BatchNormAttributes, operands=("operand", "scale", "offset", "mean", "variance")
    ),
    Opcode(
        "batch-norm-grad", 5, at.BatchNormAttributes, operands=("operand", "scale", "mean", "variance", "grad_output")
    ),
    Opcode("rng", VARIADIC, at.RngAttributes, traits=_S),
    Opcode("rng-bit-generator", 1, at.RngBitGeneratorAttributes, operands=("state",)),
    Opcode("rng-get-and-update-state", 0, at.RngStateAttributes, traits=_S),
    Opcode("tuple", VARIADIC, traits=_P),
    Opcode("get-tuple-element", 1, at.GetTupleElementAttributes, traits=_P),
    Opcode(
        "while",
        1,
        called=("condition", "body"),
        traits=_CF,
        operands=("init",),
        parameters=("condition", "body", "init"),
    ),
    Opcode("conditional", VARIADIC, called=("branch_computations*",), traits=_CF),
    Opcode("call", VARIADIC, at.CallAttributes, ("to_apply",), traits=_CF),
    Opcode("fusion", VARIADIC, at.FusionAttributes, ("calls",)),
    Opcode("custom-call", VARIADIC, at.CustomCallAttributes, ("called_computations*",)),
    Opcode("opt-barrier", 1, traits=_F),
    Opcode("domain", 1, at.DomainAttributes, traits=_F),
    Opcode("after-all", VARIADIC, traits=_P),
    Opcode("add-dependency", 2, traits=_F, operands=("operand", "token")),
    Opcode("partition-id", 0),
    Opcode("replica-id", 0),
    Opcode("infeed", 1, at.InfeedAttributes, traits=_S, operands=("token",)),
    Opcode("outfeed", 2, at.OutfeedAttributes, traits=_S, operands=("operand", "token")),
    Opcode("send", 2, at.ChannelAttributes, traits=_AS, operands=("operand", "token")),
    Opcode("send-done", 1, at.ChannelAttributes, traits=_AS),
    Opcode("recv", 1, at.ChannelAttributes, traits=_AS, operands=("token",)),
    Opcode("recv-done", 1, at.ChannelAttributes, traits=_AS),
    Opcode("all-gather", VARIADIC, at.CollectiveAttributes, traits=_C),
    Opcode("all-gather-start", VARIADIC, at.CollectiveAttributes, traits=_C | _A),
    Opcode("all-gather-done", 1, traits=_C | _A),
    Opcode("all-reduce", VARIADIC, at.CollectiveAttributes, ("to_apply",), traits=_C),
    Opcode("all-reduce-start", VARIADIC, at.CollectiveAttributes, ("to_apply",), traits=_C | _A),
    Opcode("all-reduce-done", 1, traits=_C | _A | Trait.FORWARDS),
    Opcode("reduce-scatter", VARIADIC, at.CollectiveAttributes, ("to_apply",), traits=_C),
    Opcode("all-to-all", VARIADIC, at.CollectiveAttributes, traits=_C),
    Opcode(
        "ragged-all-to-all",
        6,
        at.CollectiveAttributes,
        traits=_C,
        operands=("operand", "output", "input_offsets", "send_sizes", "output_offsets", "recv_sizes"),
    ),
    Opcode("collective-broadcast", VARIADIC, at.CollectiveAttributes, traits=_C),
    Opcode("collective-permute", VARIADIC, at.CollectivePermuteAttributes, traits=_C),
    Opcode("collective-permute-start", VARIADIC, at.CollectivePermuteAttributes, traits=_C | _A),
    Opcode("collective-permute-done", 1, traits=_C | _A),
    Opcode("copy-start", 1, at.CopyStartAttributes, traits=_A),
    Opcode("copy-done", 1, traits=_A),
    Opcode("async-start", VARIADIC, at.AsyncAttributes, ("calls",), traits=_A | _CF),
    Opcode("async-update", 1, at.AsyncAttributes, ("calls",), traits=_A | Trait.FORWARDS, operands=("operand",)),
    Opcode("async-done", 1, at.AsyncAttributes, ("calls",), traits=_A, operands=("operand",)),
]

OPCODES: Mapping[str, Opcode] = MappingProxyType({row.name: row for row in _ROWS})


def opcodes_with(trait: int) -> frozenset[str]:
    """Returns the names of the opcodes that have a trait."""
    return frozenset(name for name, op in OPCODES.items() if op.has(trait))
