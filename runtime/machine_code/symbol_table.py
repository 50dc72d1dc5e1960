"""The external symbols that generated code may call: names, families and signatures. Data only.

Role: the contract between emitters and runtime about library calls. `xjit.runtime.machine_code.symbols` finds the
addresses.

Runtime functions:

    void xjit_parallel_for(ptr fn, ptr ctx, i64 n)
        Runs fn(ctx, 0) .. fn(ctx, n - 1), where fn is void (ptr ctx, i64 task), in any order on any thread; returns
        when all are done. A region inside a region, or beside that of another thread, runs serially.
    i32 xjit_num_threads()
        Threads that a region may use now, to choose how finely to split. No result may depend on it.
    ptr xjit_scratch_alloc(i64 bytes), void xjit_scratch_free(ptr)
        Blocks of the warm pool, 64-byte aligned; null if there is no memory. From any thread.
    xjit_fail, xjit_context_alloc, xjit_check_cancel
        Take the execution context: `xjit.runtime.native.context_functions` says what they do.
    i32 xjit_collective(ptr context, ptr spec, i64 spec_bytes, ptr operands, ptr results)
        A collective: `xjit.runtime.collectives.native_function`.
    void xjit_blas_set_num_threads(i32), i32 xjit_blas_get_num_threads()
        OpenBLAS's own threads, for the whole process. Not available with another BLAS.

`xjit_blas_<routine>` and `xjit_lapack_<routine>` have the Fortran ABI with 32-bit integers: every argument is a
pointer, complex dot functions are left out. `xjit_numpy_sort_<dtype>` is `i32 (ptr data, i64 n, ptr null)`: NumPy's
sort, ascending, in place. `xjit_custom_call_<target>` is `void (ptr result, ptr operands)`: a function that the user
registered.
"""

from __future__ import annotations

from xjit.hlo.custom_call_registry import SYMBOL_PREFIX

RUNTIME_SYMBOLS = frozenset(
    {
        "xjit_parallel_for",
        "xjit_num_threads",
        "xjit_scratch_alloc",
        "xjit_scratch_free",
        "xjit_fail",
        "xjit_context_alloc",
        "xjit_check_cancel",
        "xjit_collective",
        "__truncsfbf2",
        "__truncdfbf2",
    }
)
"""Defined by the runtime's own native code. The last two are what LLVM calls to round to bfloat16."""

BLAS_THREAD_SYMBOLS = frozenset({"xjit_blas_set_num_threads", "xjit_blas_get_num_threads"})

LIBC_SYMBOLS = frozenset({"memcpy", "memmove", "memset", "memcmp", "malloc", "free", "posix_memalign"})

_LIBM_FUNCTIONS = """
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 expm1 fabs floor fma fmax
    fmin fmod frexp hypot ldexp lgamma log log10 log1p log2 lrint modf nearbyint nextafter pow remainder rint round
    roundeven sin sincos sinh sqrt tan tanh tgamma trunc
"""
LIBM_SYMBOLS = frozenset(name + suffix for name in _LIBM_FUNCTIONS.split() for suffix in ("", "f"))
"""Scalar fallbacks of libm, double and float. Accurate, slow, and not inlined."""

COMPILER_SYMBOLS = frozenset(
    [
        "__truncsfhf2",
        "__truncdfhf2",
        "__extendhfsf2",
        "__extendhfdf2",
        "__divti3",
        "__udivti3",
        "__modti3",
        "__umodti3",
        "__multi3",
        "__ashlti3",
        "__ashrti3",
        "__lshrti3",
        "__floattisf",
        "__floattidf",
        "__floatuntisf",
        "__floatuntidf",
        "__fixsfti",
        "__fixdfti",
        "__fixunssfti",
        "__fixunsdfti",
        "__powisf2",
        "__powidf2",
    ]
)
"""What LLVM calls for operations that the target lacks; from libgcc_s."""

_BLAS_ROUTINES = """
    sgemm dgemm cgemm zgemm sgemv dgemv cgemv zgemv ssyrk dsyrk csyrk zsyrk cherk zherk strsm dtrsm ctrsm ztrsm strmm
    dtrmm ctrmm ztrmm sger dger sdot ddot saxpy daxpy caxpy zaxpy snrm2 dnrm2
"""
_LAPACK_ROUTINES = """
    spotrf dpotrf cpotrf zpotrf sgetrf dgetrf cgetrf zgetrf sgeqrf dgeqrf cgeqrf zgeqrf sorgqr dorgqr cungqr zungqr
    sormqr dormqr cunmqr zunmqr ssyevd dsyevd cheevd zheevd sgesdd dgesdd cgesdd zgesdd sgeev dgeev cgeev zgeev sgees
    dgees cgees zgees ssytrd dsytrd chetrd zhetrd sgehrd dgehrd cgehrd zgehrd sgtsv dgtsv cgtsv zgtsv strtri dtrtri
    ctrtri ztrtri strtrs dtrtrs sgeqp3 dgeqp3 cgeqp3 zgeqp3 sgesvd dgesvd cgesvd zgesvd
"""
BLAS_SYMBOLS = frozenset(f"xjit_blas_{name}" for name in _BLAS_ROUTINES.split())
LAPACK_SYMBOLS = frozenset(f"xjit_lapack_{name}" for name in _LAPACK_ROUTINES.split())

NUMPY_SORT_DTYPES = (
    "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64"
)  # fmt: skip
NUMPY_SORT_SYMBOLS = frozenset(f"xjit_numpy_sort_{name}" for name in NUMPY_SORT_DTYPES)

KNOWN_SYMBOLS = (
    RUNTIME_SYMBOLS
    | BLAS_THREAD_SYMBOLS
    | LIBC_SYMBOLS
    | LIBM_SYMBOLS
    | COMPILER_SYMBOLS
    | BLAS_SYMBOLS
    | LAPACK_SYMBOLS
    | NUMPY_SORT_SYMBOLS
)


def is_known_symbol(name: str) -> bool:
    """True if generated code may refer to `name`."""
    return name in KNOWN_SYMBOLS or name.startswith(SYMBOL_PREFIX)
