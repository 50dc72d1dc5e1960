"""Memory instructions of `IRBuilder`: addresses, loads and stores, masked and atomic ones.

Alignments are explicit everywhere, in bytes. Pointers may be of any address space. `scope` of an atomic instruction is
LLVM's name for the threads that see it in order ("device", "block"); "" is all of them. Masked intrinsics are spelt as
LLVM 22 wants them: the alignment is an attribute of the pointer argument.
"""

from __future__ import annotations

from collections.abc import Sequence

from xjit.llvm.builder_base import Metadata, attachments
from xjit.llvm.builder_float import FloatBuilder
from xjit.llvm.types import I1, I32, I64, PTR, VOID, LLVMType, array, vector
from xjit.llvm.values import Value, const_int, poison


class MemoryBuilder(FloatBuilder):
    """Loads, stores, address computation, atomics."""

    __slots__ = ()

    def gep(self, elem_type: LLVMType, ptr: Value, index: Value, name: str = "ptr", *, inbounds: bool = True) -> Value:
        """The address `ptr + index * sizeof(elem_type)`. A vector of indices gives a vector of pointers."""
        if index.constant == 0 and not index.type.is_vector:
            return ptr
        width = max(ptr.type.width, index.type.width)
        flag = "inbounds " if inbounds else ""
        return self._value(
            f"getelementptr {flag}{elem_type.text}, {ptr.typed}, {index.typed}", vector(ptr.type.elem, width), name
        )

    def load(self, type: LLVMType, ptr: Value, align: int, metadata: Metadata = (), name: str = "load") -> Value:
        """Loads a scalar or a vector."""
        text = f"load {type.text}, {ptr.type.text} {ptr.text}, align {align}{attachments(metadata)}"
        return self._value(text, type, name)

    def store(self, value: Value, ptr: Value, align: int, metadata: Metadata = ()) -> None:
        """Stores a scalar or a vector. ("nontemporal", node) in `metadata` bypasses the caches."""
        self._lines.append(
            f"store {value.type.text} {value.text}, {ptr.type.text} {ptr.text}, align {align}{attachments(metadata)}"
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
        return self._value(
            f"call {type.text} {intrinsic}({ptr.type.text} align {align} {ptr.text}, {mask.typed}, {other.typed})"
            f"{attachments(metadata)}",
            type,
            name,
        )

    def masked_store(self, value: Value, ptr: Value, mask: Value, align: int, metadata: Metadata = ()) -> None:
        """Stores the elements whose mask bit is set."""
        intrinsic = self._masked("masked.store", value.type, ptr.type, (value.type, ptr.type, mask.type), VOID)
        args = f"{value.typed}, {ptr.type.text} align {align} {ptr.text}, {mask.typed}"
        self._lines.append(f"call void {intrinsic}({args}){attachments(metadata)}")

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
        return self._value(f"call {type.text} {intrinsic}({args})", type, name)

    def masked_scatter(self, value: Value, ptrs: Value, align: int, mask: Value | None = None) -> None:
        """Stores one element per pointer, in order of the lanes, where the mask bit is set."""
        mask = mask or const_int(vector(I1, value.type.width), 1)
        intrinsic = self._masked("masked.scatter", value.type, ptrs.type, (value.type, ptrs.type, mask.type), VOID)
        self._lines.append(
            f"call void {intrinsic}({value.typed}, {ptrs.type.text} align {align} {ptrs.text}, {mask.typed})"
        )

    def alloca(self, type: LLVMType, count: int = 1, align: int | None = None, name: str = "alloca") -> Value:
        """Stack memory for `count` values, allocated once per call of the function: it goes to the entry block."""
        text = f"%{name}.{self._function.number()}"
        stored = type if count == 1 else array(type, count)
        alignment = f", align {align}" if align is not None else ""
        self._function.entry.lines.insert(0, f"{text} = alloca {stored.text}{alignment}")
        return Value(PTR, text)

    def alloca_many(self, type: LLVMType, count: Value, align: int, name: str = "alloca") -> Value:
        """Stack memory for a number of values known at run time, allocated where it is asked for: not for loops."""
        return self._value(f"alloca {type.text}, {count.typed}, align {align}", PTR, name)

    def atomicrmw(
        self, op: str, ptr: Value, value: Value, ordering: str = "monotonic", name: str = "old", *, scope: str = ""
    ) -> Value:
        """Read-modify-write; `op` is LLVM's (add, xchg, umax, fadd, ...). Returns the old value."""
        text = f"atomicrmw {op} {ptr.typed}, {value.typed}{_scope(scope)} {ordering}"
        return self._value(text, value.type, name)

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
        self._lines.append(f"{pair} = cmpxchg {operands}{_scope(scope)} {success} {failure}")
        pair_type = f"{{ {expected.type.text}, i1 }}"
        old = self._value(f"extractvalue {pair_type} {pair}, 0", expected.type, "old")
        return old, self._value(f"extractvalue {pair_type} {pair}, 1", I1, "swapped")

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
        return self._value(text, type, name)

    def store_atomic(self, value: Value, ptr: Value, align: int, ordering: str = "release", *, scope: str = "") -> None:
        """An atomic store."""
        self._lines.append(f"store atomic {value.typed}, {ptr.typed}{_scope(scope)} {ordering}, align {align}")

    def fence(self, ordering: str = "seq_cst", *, scope: str = "") -> None:
        """A memory fence."""
        self._lines.append(f"fence{_scope(scope)} {ordering}")

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

    def assume(self, condition: Value) -> None:
        """Tells LLVM that `condition` (i1) holds."""
        self.intrinsic("assume", VOID, (condition,), ())

    def _memory_intrinsic(self, name: str, a: Value, b: Value, num_bytes: Value, align: int) -> None:
        pointers = [type for type in (a.type, b.type) if type.is_ptr]
        full_name = ".".join(("llvm", name, *[type.mangled for type in pointers], "i64"))
        self.module.declare(full_name, VOID, (a.type, b.type, I64, I1))
        first, second = [f"{v.type.text} align {align} {v.text}" if v.type.is_ptr else v.typed for v in (a, b)]
        self._lines.append(f"call void @{full_name}({first}, {second}, {num_bytes.typed}, i1 false)")

    def _masked(self, name: str, type: LLVMType, ptr: LLVMType, params: Sequence[LLVMType], result: LLVMType) -> str:
        full_name = f"llvm.{name}.{type.mangled}.{ptr.mangled}"
        self.module.declare(full_name, result, params)
        return f"@{full_name}"


def _scope(name: str) -> str:
    return f' syncscope("{name}")' if name else ""
