"""The statements of a schedule: loops, reductions, tiles and stores, as frozen data.

Statements name instructions of their kernel's view. Variables are the dimensions `d0, d1, ...` of affine expressions. A
statement stands in the loops that bind the variables it needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from xjit.affine import AffineExpr

Index = tuple[AffineExpr, ...]
Symbols = tuple[AffineExpr, ...]
"""One value for each range variable of a reduction's map."""


class Role(Enum):
    """Who runs the steps of a loop."""

    TASK = "task"  # shared out in ranges: the kernel's arguments say which steps to do
    BLOCK = "block"  # one block of threads each
    THREAD = "thread"  # the threads of the block, taking turns
    WARP = "warp"  # its warps, taking turns: all threads of one do the same steps
    LANE = "lane"  # the threads of each warp, taking turns
    VECTOR = "vector"  # lanes of one register, `lanes` steps at a time
    UNROLL = "unroll"  # code once per step
    SERIAL = "serial"  # one after the other


class Memory(Enum):
    """Where a tile is kept."""

    REGISTER = "register"
    STACK = "stack"
    SCRATCH = "scratch"
    SHARED = "shared"


class Combination(Enum):
    """How a reduction takes its elements together. The order never depends on how the work is shared out."""

    SERIAL = "serial"  # one element after the other into one accumulator
    TREE = "tree"  # accumulators per lane and chain, then always the same tree
    SELECT = "select"  # an extremum and its index: per lane and chain, then in the order of the indices


@dataclass(frozen=True, slots=True)
class Lanes:
    """The loop of a reduction whose lanes have accumulators of their own, `chains` vectors of them taking turns.

    The accumulators of a SELECT start with the elements that `first` counts, ahead of those of `variable`. With the
    role THREAD, WARP or LANE, whole vectors are shared out among those, and all get the result.
    """

    variable: int
    width: int
    chains: int = 1
    first: int | None = None
    role: Role = Role.VECTOR


@dataclass(frozen=True, slots=True)
class Reduction:
    """The element of a reducing instruction at `index`: which elements it takes together, and how.

    `loops` are the loops over them, outermost first; `lanes` is the innermost one, if it has lanes. `steps` are the
    symbols of what each innermost trip takes in, one after the other. While the loops run, rows of the instructions in
    `keeps` are written down, as something else needs them, too. `within` are the reductions that the elements need for
    themselves.
    """

    instruction: str
    index: Index
    loops: tuple[int, ...]
    steps: tuple[Symbols, ...]
    combination: Combination = Combination.SERIAL
    lanes: Lanes | None = None
    keeps: tuple[str, ...] = ()
    within: tuple[Reduction, ...] = ()


@dataclass(frozen=True, slots=True)
class Let:
    """From here to the end of the body, a variable is an integer element, clamped to the variable's bounds."""

    variable: int
    instruction: str
    index: Index


@dataclass(frozen=True, slots=True)
class Tile:
    """Memory for the values of an instruction, one for every value of the variables `over`.

    Of an instruction that is staged, these are elements; of one that is initialised and combined, accumulators. `place`
    says where in memory the value for such variables lies, counted in values; None: row-major.
    """

    instruction: str
    over: tuple[int, ...]
    memory: Memory
    place: AffineExpr | None = None


@dataclass(frozen=True, slots=True)
class OperandTile:
    """Shared memory for elements of an operand of a contraction, as HLO's `kind`: `sizes` are (rows, steps).

    `place` says where the element of row d0 and step d1 lies. These are its own dimensions, no variables.
    """

    instruction: str
    operand: int
    kind: str
    sizes: tuple[int, int]
    place: AffineExpr


@dataclass(frozen=True, slots=True)
class Reduce:
    """A whole reduction, computed here. `where_needed`: only where its conditions hold, so by the first to need it.

    `fetches_next`: meanwhile, what the next trip of the loop around it reads in its place is fetched into the cache.
    """

    reduction: Reduction
    where_needed: bool = False
    fetches_next: bool = False


@dataclass(frozen=True, slots=True)
class ReduceRows:
    """A whole reduction for each value of `variable`: as many rows as a register has lanes.

    The accumulators that the lanes of each row end with are kept, and taken together for all rows at once: each step of
    that exchanges the halves of two registers, where one row alone would need half of one. The results are the
    instruction's tile over the variable.
    """

    reduction: Reduction
    variable: int


@dataclass(frozen=True, slots=True)
class Fetch:
    """The cache line that an element of an array lies in will be read soon. There need be no such element."""

    instruction: str
    index: Index


@dataclass(frozen=True, slots=True)
class Init:
    """The accumulators of an instruction's tile take the initial values."""

    instruction: str
    index: Index


@dataclass(frozen=True, slots=True)
class Combine:
    """Some more elements go into the accumulators of an instruction's tile."""

    reduction: Reduction


@dataclass(frozen=True, slots=True)
class Rescale:
    """Accumulators become `computation(accumulator, old, new)`.

    `old` is the value of another reduction, `by`, at the start of this step of the loop that carries both; `new` is its
    value here. So a sum follows a running maximum.
    """

    instruction: str
    by: str
    computation: str


@dataclass(frozen=True, slots=True)
class Stage:
    """The element at `index` goes into the instruction's tile; later it is read from there."""

    instruction: str
    index: Index


@dataclass(frozen=True, slots=True)
class Barrier:
    """All threads of the block have done what comes before, and see it."""


@dataclass(frozen=True, slots=True)
class Store:
    """The `output`-th value of an instruction at `index` goes to a result buffer, at the logical index `place`."""

    result: int
    place: Index
    instruction: str
    index: Index
    output: int = 0


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop over all values of a variable.

    `lanes` steps are done at a time, in a vector, and a rest under a mask; 0: one by one. The accumulators of `carries`
    go from step to step in registers. An UNROLL loop that `transposes` a vector loop's variable reads what is
    contiguous along its own in squares, which it turns in registers.
    """

    variable: int
    role: Role
    body: tuple[Statement, ...]
    lanes: int = 0
    carries: tuple[str, ...] = ()
    transposes: int | None = None


@dataclass(frozen=True, slots=True)
class Bind:
    """The body is done once, with a variable that is the value of an expression, which is at least its lower bound.

    Beyond the upper bound the variable is that bound, elements that are staged are zeros, and nothing is stored. So the
    edges of an array are padded. With `lanes`, the variable is a vector of so many values, which all exist or do not.
    """

    variable: int
    value: AffineExpr
    body: tuple[Statement, ...]
    lanes: int = 0


@dataclass(frozen=True, slots=True)
class StageOperand:
    """What an instruction multiplies for its element at `index` in the step `symbols` goes into an operand's tile.

    `at` are its row and its step in the tile; lanes go on along number `along` of these. Where the instruction skips
    the step, as a convolution does in its padding, that is zero.
    """

    instruction: str
    operand: int
    index: Index
    symbols: Symbols
    at: tuple[AffineExpr, AffineExpr]
    along: int = 0


@dataclass(frozen=True, slots=True)
class Clear:
    """All accumulators of a contraction become zero, those of a reduction what it starts with."""

    instruction: str


@dataclass(frozen=True, slots=True)
class Contract:
    """Products of elements in operand tiles are added to the accumulators of a contraction.

    `rows` are (operand, row in its tile), that of the accumulators' rows first. Without a `unit`, each thread
    multiplies two elements, for the accumulator of the variables in force. A unit is a matrix instruction: the lanes of
    a warp multiply blocks that begin at the rows and the step, and have its accumulators along the tile's last
    variable.
    """

    instruction: str
    rows: tuple[tuple[int, AffineExpr], tuple[int, AffineExpr]]
    step: AffineExpr
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Give:
    """From here on, the element at `index` is the accumulator in force: its own, or that of `source`."""

    instruction: str
    index: Index
    source: str = ""


@dataclass(frozen=True, slots=True)
class Complete:
    """The accumulator of a contraction in force becomes an element of what is computed from it, `source` at `index`.

    Beyond the bounds of a bound variable it becomes `outside`.
    """

    instruction: str
    source: str
    index: Index
    outside: float


@dataclass(frozen=True, slots=True)
class SoftmaxStep:
    """Accumulators, some more scores of each row, become exponentials of what they are below the row's maximum so far.

    The accumulators of the reductions `maximum` and `total` take them in, and what was summed before, the accumulators
    of `sums`, is scaled as the maximum grows. `rows` say to which row, a value of `variable`, those of the scores and
    of the sums belong, by the variables of their tiles. So many neighbouring `lanes` have scores of the same rows.
    """

    instruction: str
    maximum: str
    total: str
    sums: str
    variable: int
    rows: tuple[AffineExpr, AffineExpr]
    lanes: int


@dataclass(frozen=True, slots=True)
class Normalize:
    """Accumulators are divided by those of a reduction: `row` says by which, by the variables of their tile."""

    instruction: str
    total: str
    row: AffineExpr


@dataclass(frozen=True, slots=True)
class StageSum:
    """The accumulator of `source` in force goes into an operand's tile, at this row and step."""

    instruction: str
    operand: int
    source: str
    at: tuple[AffineExpr, AffineExpr]


Statement = (
    Let
    | Loop
    | Reduce
    | ReduceRows
    | Fetch
    | Init
    | Combine
    | Rescale
    | Stage
    | Barrier
    | Store
    | Bind
    | StageOperand
    | Clear
    | Contract
    | Give
    | Complete
    | SoftmaxStep
    | Normalize
    | StageSum
)


@dataclass(frozen=True, slots=True)
class Part:
    """Work that is done for itself: a region of a concatenate, whole transpose tiles, the rest of strips."""

    body: tuple[Statement, ...]
    tiles: tuple[Tile, ...] = ()
    operands: tuple[OperandTile, ...] = ()

    @property
    def task_loop(self) -> Loop | None:
        """The loop whose steps are shared out, if there is one."""
        return next((s for s in self.body if isinstance(s, Loop) and s.role in (Role.TASK, Role.BLOCK)), None)


def statements_of(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """Yields the statements of a tree, outer ones first."""
    for statement in body:
        yield statement
        if isinstance(statement, Loop | Bind):
            yield from statements_of(statement.body)


def reductions_of(body: tuple[Statement, ...]) -> Iterator[Reduction]:
    """Yields every reduction that a tree computes as a whole, those within others included."""
    stack = [s.reduction for s in statements_of(body) if isinstance(s, Reduce | ReduceRows)]
    while stack:
        reduction = stack.pop()
        yield reduction
        stack.extend(reduction.within)
