"""`IRBuilder`: writes LLVM IR text, with the method names of `llvmlite.ir.IRBuilder`.

Invariants: every method checks the types it depends on and raises TypeError; names are unique hints; the default is
strict IEEE arithmetic. Opcodes of one form are rows (`instruction_forms`); what differs is written out. What is
composed of instructions is a function elsewhere: `reductions`, `inline_control_flow`, `integer_ops`, `math`.

Alignments are explicit everywhere, in bytes. Pointers may be of any address space. `scope` of an atomic instruction is
LLVM's name for the threads that see it in order ("device", "block"); "" is all of them. Masked intrinsics are spelt as
LLVM 22 wants them: the alignment is an attribute of the pointer argument.
"""

from __future__ import annotations

from collections.abc import Sequence

from xjit.llvm.folding import fold_sext, fold_trunc, fold_zext
from xjit.llvm.function import Block, Function, Phi
from xjit.llvm.insertion_point import InsertionPoint
from xjit.llvm.instruction_forms import cast, float_comparison, floating, integer, integer_comparison, overflowing
from xjit.llvm.module import Declaration
from xjit.llvm.types import I1, I32, I64, PTR, VOID, LLVMType, array, vector
from xjit.llvm.values import Value, const_int, const_vector, poison, same_type, scalar_constant

Metadata = Sequence[tuple[str, str]]
"""Attachments of an instruction: pairs such as ("range", "!3")."""


class IRBuilder(InsertionPoint):
    """Appends instructions to the end of one block."""

    __slots__ = ()

    add = overflowing("add", "add")
    sub = overflowing("sub", "sub")
    mul = overflowing("mul", "mul")
    shl = overflowing("shl", "shl")
    """a << b; poison for b >= bits, as for the other shifts."""
    lshr = integer("lshr", "shr")
    """a >> b, filling with zeros."""
    ashr = integer("ashr", "sar")
    """a >> b, filling with the sign."""
    sdiv = integer("sdiv", "div")
    """Signed a / b, towards zero. Undefined for b = 0 and for INT_MIN / -1."""
    udiv = integer("udiv", "div")
    """Unsigned a / b. Undefined for b = 0."""
    srem = integer("srem", "rem")
    """The remainder of `sdiv`, with the sign of a."""
    urem = integer("urem", "rem")
    """The remainder of `udiv`."""
    and_ = integer("and", "and")
    or_ = integer("or", "or")
    xor = integer("xor", "xor")
    icmp_signed = integer_comparison(signed=True)
    icmp_unsigned = integer_comparison(signed=False)

    fadd = floating("fadd", "add")
    fsub = floating("fsub", "sub")
    fmul = floating("fmul", "mul")
    fdiv = floating("fdiv", "div")
    fcmp_ordered = float_comparison(ordered=True)
    """False if either is NaN."""
    fcmp_unordered = float_comparison(ordered=False)
    """True if either is NaN."""

    trunc = cast("trunc", "trunc", fold_trunc)
    zext = cast("zext", "zext", fold_zext)
    sext = cast("sext", "sext", fold_sext)
    fptrunc = cast("fptrunc", "fptrunc")
    """Rounds to a narrower float, to nearest even."""
    fpext = cast("fpext", "fpext")
    fptosi = cast("fptosi", "fptosi")
    """Truncates to a signed integer; poison if that does not fit."""
    fptoui = cast("fptoui", "fptoui")
    """Truncates to an unsigned integer; poison if that does not fit."""
    sitofp = cast("sitofp", "sitofp")
    """A signed integer as a float, rounded to nearest even."""
    uitofp = cast("uitofp", "uitofp")
    """An unsigned integer as a float, rounded to nearest even."""
    ptrtoint = cast("ptrtoint", "address")
    inttoptr = cast("inttoptr", "ptr")

    def not_(self, a: Value, name: str = "not") -> Value:
        """All bits inverted."""
        return self.xor(a, const_int(a.type, -1), name)

    def neg(self, a: Value, name: str = "neg") -> Value:
        """0 - a."""
        return self.sub(const_int(a.type, 0), a, name)

    def fneg(self, a: Value, name: str = "neg") -> Value:
        """The sign bit inverted."""
        return self.assign(f"fneg {a.type.text} {a.text}", a.type, name)

    def fma(self, a: Value, b: Value, c: Value, name: str = "fma") -> Value:
        """a * b + c with one rounding. A library call where the target lacks it (`Target.has_fma`)."""
        return self.intrinsic("fma", same_type(a, b, name), (a, b, c))

    def multiply_add(self, a: Value, b: Value, c: Value) -> Value:
        """a * b + c; of floats fused where the target has it as an instruction."""
        if a.type.is_int:
            return self.add(self.mul(a, b), c)
        if self.target.has_fma:
            return self.fma(a, b, c)
        return self.fadd(self.fmul(a, b), c)

    def fabs(self, a: Value) -> Value:
        """The sign bit cleared."""
        return self.intrinsic("fabs", a.type, (a,))

    def copysign(self, magnitude: Value, sign: Value) -> Value:
        """`magnitude` with the sign bit of `sign`."""
        return self.intrinsic("copysign", same_type(magnitude, sign, "copysign"), (magnitude, sign))

    def select(self, condition: Value, a: Value, b: Value, name: str = "sel") -> Value:
        """`a` where `condition` (i1, or a vector of i1) holds, else `b`."""
        type = same_type(a, b, "select")
        if condition.type.elem is not I1 or condition.type.width not in (1, type.width):
            raise TypeError(f"select between values of {type} needs a condition of i1, not {condition}")
        if condition.constant is not None:
            return a if condition.constant else b
        if a.text == b.text:
            return a
        return self.assign(
            f"select {condition.type.text} {condition.text}, {type.text} {a.text}, {type.text} {b.text}", type, name
        )

    def bitcast(self, a: Value, type: LLVMType, name: str = "bits") -> Value:
        """The same bits as another type of the same size. A scalar `type` keeps the width of `a` if sizes fit."""
        if type.elem is type and type.bits == a.type.elem.bits:
            type = a.type.with_elem(type)
        if type is a.type:
            return a
        if type.bits != a.type.bits:
            raise TypeError(f"bitcast of {a} to {type}: the sizes differ")
        return self.assign(f"bitcast {a.type.text} {a.text} to {type.text}", type, name)

    def gep(self, elem_type: LLVMType, ptr: Value, index: Value, name: str = "ptr", *, inbounds: bool = True) -> Value:
        """The address `ptr + index * sizeof(elem_type)`. A vector of indices gives a vector of pointers."""
        if index.constant == 0 and not index.type.is_vector:
            return ptr
        width = max(ptr.type.width, index.type.width)
        flag = "inbounds " if inbounds else ""
        return self.assign(
            f"getelementptr {flag}{elem_type.text}, {ptr.typed}, {index.typed}", vector(ptr.type.elem, width), name
        )

    def load(self, type: LLVMType, ptr: Value, align: int, metadata: Metadata = (), name: str = "load") -> Value:
        """Loads a scalar or a vector."""
        text = f"load {type.text}, {ptr.type.text} {ptr.text}, align {align}{_attachments(metadata)}"
        return self.assign(text, type, name)

    def store(self, value: Value, ptr: Value, align: int, metadata: Metadata = ()) -> None:
        """Stores a scalar or a vector. ("nontemporal", node) in `metadata` bypasses the caches."""
        self.write(
            f"store {value.type.text} {value.text}, {ptr.type.text} {ptr.text}, align {align}{_attachments(metadata)}"
        )

    def masked_load(
        self,
        type: LLVMType,
        ptr: Value,
        mask: Value,
        align: int,
        passthrough: Value | None = None,
        metadata: Metadata = (),
        name: str = "load",
    ) -> Value:
        """Loads the elements whose mask bit is set; the others are `passthrough` (default poison) and not touched."""
        other = passthrough or poison(type)
        intrinsic = self._masked("masked.load", type, ptr.type, (ptr.type, mask.type, type), type)
        return self.assign(
            f"call {type.text} {intrinsic}({ptr.type.text} align {align} {ptr.text}, {mask.typed}, {other.typed})"
            f"{_attachments(metadata)}",
            type,
            name,
        )

    def masked_store(self, value: Value, ptr: Value, mask: Value, align: int, metadata: Metadata = ()) -> None:
        """Stores the elements whose mask bit is set."""
        intrinsic = self._masked("masked.store", value.type, ptr.type, (value.type, ptr.type, mask.type), VOID)
        args = f"{value.typed}, {ptr.type.text} align {align} {ptr.text}, {mask.typed}"
        self.write(f"call void {intrinsic}({args}){_attachments(metadata)}")

    def store_first(self, value: Value, count: int, ptr: Value, align: int) -> None:
        """Stores the first `count` lanes, in as many pieces as that takes.

        Not by a mask: a load of what lies behind these lanes would wait for a masked store to be done.
        """
        self.store(self.shuffle_vector(value, None, list(range(count))), ptr, align)

    def masked_gather(
        self,
        type: LLVMType,
        ptrs: Value,
        align: int,
        mask: Value | None = None,
        passthrough: Value | None = None,
        name: str = "gather",
    ) -> Value:
        """Loads one element per pointer; elements with a clear mask bit are `passthrough` and not touched."""
        mask = mask or const_int(vector(I1, type.width), 1)
        other = passthrough or poison(type)
        if not type.is_vector:
            raise TypeError(f"masked_gather needs a vector type, not {type}")
        intrinsic = self._masked("masked.gather", type, ptrs.type, (ptrs.type, mask.type, type), type)
        args = f"{ptrs.type.text} align {align} {ptrs.text}, {mask.typed}, {other.typed}"
        return self.assign(f"call {type.text} {intrinsic}({args})", type, name)

    def masked_scatter(self, value: Value, ptrs: Value, align: int, mask: Value | None = None) -> None:
        """Stores one element per pointer, in order of the lanes, where the mask bit is set."""
        mask = mask or const_int(vector(I1, value.type.width), 1)
        intrinsic = self._masked("masked.scatter", value.type, ptrs.type, (value.type, ptrs.type, mask.type), VOID)
        self.write(f"call void {intrinsic}({value.typed}, {ptrs.type.text} align {align} {ptrs.text}, {mask.typed})")

    def alloca(self, type: LLVMType, count: int = 1, align: int | None = None, name: str = "alloca") -> Value:
        """Stack memory for `count` values, allocated once per call of the function: it goes to the entry block."""
        text = f"%{name}.{self._function.number()}"
        stored = type if count == 1 else array(type, count)
        alignment = f", align {align}" if align is not None else ""
        self._function.entry.lines.insert(0, f"{text} = alloca {stored.text}{alignment}")
        return Value(PTR, text)

    def alloca_many(self, type: LLVMType, count: Value, align: int, name: str = "alloca") -> Value:
        """Stack memory for a number of values known at run time, allocated where it is asked for: not for loops."""
        return self.assign(f"alloca {type.text}, {count.typed}, align {align}", PTR, name)

    def atomicrmw(
        self, op: str, ptr: Value, value: Value, ordering: str = "monotonic", name: str = "old", *, scope: str = ""
    ) -> Value:
        """Read-modify-write; `op` is LLVM's (add, xchg, umax, fadd, ...). Returns the old value."""
        text = f"atomicrmw {op} {ptr.typed}, {value.typed}{_scope(scope)} {ordering}"
        return self.assign(text, value.type, name)

    def cmpxchg(
        self,
        ptr: Value,
        expected: Value,
        new: Value,
        success: str = "acq_rel",
        failure: str = "acquire",
        *,
        scope: str = "",
    ) -> tuple[Value, Value]:
        """Compare-and-swap. Returns (old value, whether it was swapped)."""
        function = self._function
        pair = f"%pair.{function.number()}"
        operands = f"{ptr.typed}, {expected.typed}, {new.typed}"
        self.write(f"{pair} = cmpxchg {operands}{_scope(scope)} {success} {failure}")
        pair_type = f"{{ {expected.type.text}, i1 }}"
        old = self.assign(f"extractvalue {pair_type} {pair}, 0", expected.type, "old")
        return old, self.assign(f"extractvalue {pair_type} {pair}, 1", I1, "swapped")

    def load_atomic(
        self,
        type: LLVMType,
        ptr: Value,
        align: int,
        ordering: str = "acquire",
        name: str = "load",
        *,
        scope: str = "",
    ) -> Value:
        """An atomic load."""
        text = f"load atomic {type.text}, {ptr.typed}{_scope(scope)} {ordering}, align {align}"
        return self.assign(text, type, name)

    def store_atomic(self, value: Value, ptr: Value, align: int, ordering: str = "release", *, scope: str = "") -> None:
        """An atomic store."""
        self.write(f"store atomic {value.typed}, {ptr.typed}{_scope(scope)} {ordering}, align {align}")

    def memcpy(self, destination: Value, source: Value, num_bytes: Value, align: int = 1) -> None:
        """Copies bytes between regions that do not overlap."""
        self._memory_intrinsic("memcpy", destination, source, num_bytes, align)

    def memset(self, destination: Value, byte: Value, num_bytes: Value, align: int = 1) -> None:
        """Fills with one byte (i8)."""
        self._memory_intrinsic("memset", destination, byte, num_bytes, align)

    def prefetch(self, ptr: Value, *, write: bool = False, locality: int = 3) -> None:
        """Asks the cache for a line; `locality` is 0 (use once) to 3 (keep)."""
        args = (ptr, *(const_int(I32, number) for number in (int(write), locality, 1)))
        self.intrinsic("prefetch", VOID, args, (ptr.type,))

    def extract_element(self, a: Value, index: int | Value, name: str = "lane") -> Value:
        """One lane; a scalar is its own lane 0."""
        if not a.type.is_vector:
            return a
        if a.constant is not None and isinstance(index, int):
            return scalar_constant(a)
        lane = const_int(I32, index) if isinstance(index, int) else index
        return self.assign(f"extractelement {a.typed}, {lane.typed}", a.type.elem, name)

    def insert_element(self, a: Value, element: Value, index: int | Value, name: str = "insert") -> Value:
        """`a` with one lane replaced."""
        if not a.type.is_vector:
            return element
        lane = const_int(I32, index) if isinstance(index, int) else index
        return self.assign(f"insertelement {a.typed}, {element.typed}, {lane.typed}", a.type, name)

    def extract_value(self, a: Value, index: int, name: str = "member") -> Value:
        """A member of a struct."""
        return self.assign(f"extractvalue {a.typed}, {index}", a.type.elem, name)

    def shuffle_vector(self, a: Value, b: Value | None, mask: Sequence[int], name: str = "shuffle") -> Value:
        """Lanes of `a` followed by `b` (None: only `a`), picked by `mask`; -1 leaves a lane undefined."""
        other = poison(a.type) if b is None else b
        same_type(a, other, "shufflevector")
        type = vector(a.type.elem, len(mask))
        if not type.is_vector:
            lane = mask[0]
            return self.extract_element(a if lane < a.type.width else other, lane % a.type.width, name)
        if b is None and a.type.width == len(mask) and all(lane in (-1, i) for i, lane in enumerate(mask)):
            return a
        lanes = ", ".join(["i32 poison" if lane < 0 else f"i32 {lane}" for lane in mask])
        return self.assign(f"shufflevector {a.typed}, {other.typed}, <{len(mask)} x i32> <{lanes}>", type, name)

    def splat(self, value: Value, width: int, name: str = "splat") -> Value:
        """A vector with `value` in every lane; the scalar itself for width 1."""
        if width == 1:
            return value
        type = vector(value.type, width)
        if value.constant is not None:
            return Value(type, f"splat ({value.type.text} {value.text})", value.constant)
        first = self.assign(f"insertelement {type.text} poison, {value.typed}, i32 0", type, name)
        return self.assign(
            f"shufflevector {type.text} {first.text}, {type.text} poison, <{width} x i32> zeroinitializer", type, name
        )

    def vector_iota(self, type: LLVMType) -> Value:
        """The constant 0, 1, 2, ... (0 for a scalar)."""
        return const_vector(type, range(type.width)) if type.is_vector else const_int(type, 0)

    def concatenate(self, a: Value, b: Value, name: str = "concat") -> Value:
        """The lanes of `a` followed by those of `b`, which has the same type."""
        if not a.type.is_vector:
            type = vector(a.type, 2)
            return self.insert_element(self.insert_element(poison(type), a, 0), b, 1, name)
        return self.shuffle_vector(a, b, range(2 * a.type.width), name)

    def lanes(self, a: Value, start: int, count: int, name: str = "lanes") -> Value:
        """`count` lanes from `start`."""
        return self.shuffle_vector(a, None, range(start, start + count), name)

    def call(self, callee: Function | Declaration, args: Sequence[Value], name: str = "call", flags: str = "") -> Value:
        """Calls a function; the Value of a void call must not be used."""
        expected = callee.param_types if isinstance(callee, Declaration) else tuple(p.type for p in callee.params)
        if tuple(arg.type for arg in args) != expected:
            raise TypeError(f"{callee.operand} takes ({_list(expected)}), not ({_list([a.type for a in args])})")
        if callee.calling_convention:
            flags = f"{flags} {callee.calling_convention}".lstrip()
        return self._call(callee.operand, callee.return_type, ", ".join([arg.typed for arg in args]), name, flags)

    def call_pointer(self, callee: Value, return_type: LLVMType, args: Sequence[Value], name: str = "call") -> Value:
        """Calls a function through a pointer."""
        return self._call(callee.text, return_type, ", ".join([arg.typed for arg in args]), name, "")

    def intrinsic(
        self,
        name: str,
        return_type: LLVMType,
        args: Sequence[Value],
        overloads: Sequence[LLVMType] | None = None,
        flags: str = "",
    ) -> Value:
        """Calls `llvm.<name>` and declares it. `overloads` are the types in its suffix (default: the return type)."""
        suffix = (return_type,) if overloads is None else overloads
        full_name = ".".join(["llvm", name, *[type.mangled for type in suffix]])
        self.module.declare(full_name, return_type, tuple([arg.type for arg in args]))
        text = ", ".join([arg.typed for arg in args])
        return self._call(f"@{full_name}", return_type, text, name.replace(".", "_"), flags)

    def phi(self, type: LLVMType, incoming: Sequence[tuple[Value, Block]] = (), name: str = "phi") -> Phi:
        """A phi node at the head of the block; `add_incoming` may be called until the function is printed."""
        phi = Phi(type, f"%{name}.{self._function.number()}", None, list(incoming))
        self._block.phis.append(phi)
        return phi

    def br(self, target: Block) -> None:
        """Jumps."""
        self._terminate(f"br label {target.operand}")

    def cbranch(
        self, condition: Value, true_block: Block, false_block: Block, weights: tuple[int, int] | None = None
    ) -> None:
        """Jumps to one of two blocks; `weights` say how often each is expected."""
        if condition.type is not I1:
            raise TypeError(f"cbranch needs an i1, not {condition}")
        attachment = ""
        if weights is not None:
            body = f'!{{!"branch_weights", i32 {weights[0]}, i32 {weights[1]}}}'
            attachment = f", !prof {self.module.add_metadata(body)}"
        self._terminate(f"br {condition.typed}, label {true_block.operand}, label {false_block.operand}{attachment}")

    def switch(self, value: Value, default: Block, cases: Sequence[tuple[int, Block]]) -> None:
        """Jumps by the value of an integer."""
        body = " ".join(f"{value.type.text} {number}, label {block.operand}" for number, block in cases)
        self._terminate(f"switch {value.typed}, label {default.operand} [ {body} ]")

    def ret(self, value: Value) -> None:
        """Returns a value."""
        if value.type is not self._function.return_type:
            raise TypeError(f"@{self._function.name} returns {self._function.return_type}, not {value}")
        self._terminate(f"ret {value.typed}")

    def ret_void(self) -> None:
        """Returns nothing."""
        self._terminate("ret void")

    def _call(self, operand: str, return_type: LLVMType, args: str, name: str, flags: str) -> Value:
        flags = f"{flags} " if flags else ""
        if return_type is VOID:
            self.write(f"call {flags}void {operand}({args})")
            return Value(VOID, "")
        return self.assign(f"call {flags}{return_type.text} {operand}({args})", return_type, name)

    def _memory_intrinsic(self, name: str, a: Value, b: Value, num_bytes: Value, align: int) -> None:
        pointers = [type for type in (a.type, b.type) if type.is_ptr]
        full_name = ".".join(("llvm", name, *[type.mangled for type in pointers], "i64"))
        self.module.declare(full_name, VOID, (a.type, b.type, I64, I1))
        first, second = [f"{v.type.text} align {align} {v.text}" if v.type.is_ptr else v.typed for v in (a, b)]
        self.write(f"call void @{full_name}({first}, {second}, {num_bytes.typed}, i1 false)")

    def _masked(self, name: str, type: LLVMType, ptr: LLVMType, params: Sequence[LLVMType], result: LLVMType) -> str:
        full_name = f"llvm.{name}.{type.mangled}.{ptr.mangled}"
        self.module.declare(full_name, result, params)
        return f"@{full_name}"

    def _terminate(self, text: str) -> None:
        if self._block.terminator is not None:
            raise AssertionError(f"block {self._block.label} has a terminator already: {self._block.terminator}")
        self._block.terminator = text


def _attachments(metadata: Metadata) -> str:
    """The text of metadata attachments, with the leading comma."""
    return "".join([f", !{kind} {node}" for kind, node in metadata]) if metadata else ""


def _scope(name: str) -> str:
    return f' syncscope("{name}")' if name else ""


def _list(types: Sequence[LLVMType]) -> str:
    return ", ".join(type.text for type in types)
