"""IR of small things around a call: subnormals, the pause of a spin loop, rounding to bfloat16.

XLA's CPU code flushes subnormals, as inputs (DAZ) and results (FTZ). The bits live in a register of the thread, so
they are set around each native call and restored after it; pool workers set them once.
"""

from __future__ import annotations


def call_ir(machine: str) -> str:
    """The IR for `platform.machine()`. Subnormals are flushed on x86 only."""
    return (_X86 if machine == "x86_64" else _OTHER) + _CALL_ENTRY + _BFLOAT


# MXCSR: bit 15 is flush-to-zero, bit 6 is denormals-are-zero.
_X86 = """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
declare void @llvm.x86.sse2.pause()

define internal void @xjit_pause() {
  call void @llvm.x86.sse2.pause()
  ret void
}
define internal i32 @xjit_flush_subnormals() {
  %word = alloca i32, align 4
  call void @llvm.x86.sse.stmxcsr(ptr %word)
  %old = load i32, ptr %word, align 4
  %new = or i32 %old, 32832
  store i32 %new, ptr %word, align 4
  call void @llvm.x86.sse.ldmxcsr(ptr %word)
  ret i32 %old
}
define internal void @xjit_restore_subnormals(i32 %old) {
  %word = alloca i32, align 4
  store i32 %old, ptr %word, align 4
  call void @llvm.x86.sse.ldmxcsr(ptr %word)
  ret void
}
"""

_OTHER = """
define internal void @xjit_pause() {
  ret void
}
define internal i32 @xjit_flush_subnormals() {
  ret i32 0
}
define internal void @xjit_restore_subnormals(i32 %old) {
  ret void
}
"""

# How every entry is called, from the shim and from ctypes.
_CALL_ENTRY = """
define i32 @xjit_call_entry(
    ptr %entry, ptr %context, ptr %parameters, ptr %results, ptr %arena, ptr %constants) {
  %saved = call i32 @xjit_flush_subnormals()
  %status = call i32 %entry(ptr %context, ptr %parameters, ptr %results, ptr %arena, ptr %constants)
  call void @xjit_restore_subnormals(i32 %saved)
  ret i32 %status
}
"""

# Round to nearest even in integers; a NaN keeps its sign and becomes quiet. From double, the bits that single precision
# drops are first collected in its last bit (round to odd), which makes the second rounding correct.
_BFLOAT = """
define bfloat @__truncsfbf2(float %x) {
  %bits = bitcast float %x to i32
  %high = lshr i32 %bits, 16
  %odd = and i32 %high, 1
  %bias = add i32 %odd, 32767
  %sum = add i32 %bits, %bias
  %rounded = lshr i32 %sum, 16
  %quiet = or i32 %high, 64
  %nan = fcmp uno float %x, %x
  %chosen = select i1 %nan, i32 %quiet, i32 %rounded
  %short = trunc i32 %chosen to i16
  %result = bitcast i16 %short to bfloat
  ret bfloat %result
}
define bfloat @__truncdfbf2(double %x) {
  %near = fptrunc double %x to float
  %back = fpext float %near to double
  %exact = fcmp ueq double %back, %x
  %bits = bitcast float %near to i32
  %magnitude = call double @llvm.fabs.f64(double %x)
  %back_magnitude = call double @llvm.fabs.f64(double %back)
  %above = fcmp ogt double %back_magnitude, %magnitude
  %down = sub i32 %bits, 1
  %toward_zero = select i1 %above, i32 %down, i32 %bits
  %odd = or i32 %toward_zero, 1
  %chosen = select i1 %exact, i32 %bits, i32 %odd
  %single = bitcast i32 %chosen to float
  %result = call bfloat @__truncsfbf2(float %single)
  ret bfloat %result
}
declare double @llvm.fabs.f64(double)
"""
